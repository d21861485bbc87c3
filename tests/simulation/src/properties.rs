//! What Headgate guarantees: properties of what AWS, Kubernetes and the pods of a world do, whatever an engine remembers.
//!
//! A replica acts on what it was told, and what it was told may be late or wrong. So most properties are asked of a replica that
//! was told what is true about the pod, its address and the bindings (`Scene::knows`). Of others nobody could ask it.
//!
//! - **Authority.** Only the leader calls AWS and writes, within the rates of AWS, and with the ledger written before it registers.
//! - **Order.** No registration goes before a removal that is due, nor while the removal of the same target is open.
//! - **Foreign targets.** What others have put into a target group stays, but where a binding says `exclusive`.
//! - **Living pods.** A target of a pod that lives, and is selected, is not taken out: not for a moment in which it is not ready,
//!   an annotation that cannot be read, or a Service that was deleted a moment ago. No pod is registered that has ended, that
//!   nothing asks for, or that is not as ready as is asked for.
//! - **Pause.** Nothing is written about what is paused.
//! - **Gates.** A gate opens for a pod that AWS had as a target, and that passed a health check as such; or whose health could not
//!   be read for as long as is asked for. It is closed before a pod that was taken out is registered again, and for nothing else.
//! - **Evictions and nodes.** A pod is let go, and a node called detached, when no load balancer sends there any more. Budgets and
//!   zones are kept. Only pods of nodes that go leave early.
//! - **Promptness.** What has to go is taken out at once.
//! - **Convergence.** When faults stop, AWS and the ledgers have what the objects ask for and what others put there, gates are open,
//!   and evictions end.

mod answers;
mod calls;
mod convergence;
mod gates;
mod leaving;
mod prompt;
mod scene;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
    time::Duration,
};

use headgate_core::{
    ledger::PodMark,
    model::{Call, Failure, FailureClass, Labels, Moment, TargetGroupArn, Uid},
    requests::Answer,
};

pub use self::scene::Scene;
use crate::{
    aws::Open,
    words::{Key, Sender},
};

/// A target group is read again within this time.
const LONGEST_UNREAD: Duration = Duration::from_secs(75);
/// Some answers take no longer than this, all together.
const MOMENTS: Duration = Duration::from_secs(30);

fn broken<T>(property: &str, what: impl std::fmt::Display) -> Result<T, String> {
    Err(format!("property {property}: {what}"))
}

/// What has happened in a world, as far as a property needs it.
#[derive(Debug, Default)]
pub struct Properties {
    /// When AWS was asked to register each target for each pod.
    asked: BTreeMap<(Key, Uid), Moment>,
    /// Which process asked for it.
    askers: BTreeMap<Key, Sender>,
    /// What is left of AWS's limit, for each process.
    tokens: BTreeMap<Sender, (f64, Moment)>,
    /// When AWS was asked to take each target out last, and when a call about each group failed last.
    taken_out: BTreeMap<Key, TakenOut>,
    failed: BTreeMap<TargetGroupArn, Moment>,
    /// What AWS has ever taken.
    accepted: BTreeSet<Key>,
    /// What AWS has refused to take out or in, or had no place for.
    refused: BTreeSet<Key>,
    /// When anything was paused last.
    paused: Option<Moment>,
    /// Since when a target has to go, and a leader knows and may take it out.
    due: BTreeMap<Key, Moment>,
    /// For which pod AWS has answered that it has a target, and when, until the next call about it.
    taken: BTreeMap<Key, (Uid, Moment)>,
    /// When the last read of each group began that AWS has answered, and the last that has failed.
    read: BTreeMap<TargetGroupArn, Moment>,
    not_read: BTreeMap<TargetGroupArn, Moment>,
    /// When each gate was closed last.
    closed_gates: BTreeMap<Uid, Moment>,
    ledger_failed: Option<Moment>,
    /// When each pod was ready last, and since when each node is about to die.
    ready: BTreeMap<Uid, Moment>,
    dying: BTreeMap<Arc<str>, Moment>,
    /// What pods were labelled first, and those whose labels have changed.
    labels: BTreeMap<Uid, Labels>,
    relabelled: BTreeSet<Uid>,
    /// When a pod lived at each address last, and the nodes from which pods were evicted.
    inhabited: BTreeMap<IpAddr, Moment>,
    drained: BTreeSet<Arc<str>>,
    /// For which pod each target is asked for, or was last; and how much was written until then.
    bound: BTreeMap<Key, BoundTo>,
    writings: u64,
    /// Since when each pod is asked to leave.
    asked_to_leave: BTreeMap<Uid, Moment>,
}

/// Who has a target, through which bindings.
#[derive(Debug)]
struct BoundTo {
    of: Uid,
    /// Whether all of them are paused, or none.
    paused: Option<bool>,
}

/// A removal that was sent.
#[derive(Debug)]
struct TakenOut {
    at: Moment,
    /// Of which pod, and by whom.
    of: Uid,
    by: Sender,
}

impl Properties {
    /// A request about a ledger has failed.
    pub fn ledger_fails(&mut self, now: Moment) {
        self.ledger_failed = Some(now);
    }

    /// A call has been answered; `known`: to the leader that has sent it. What AWS refuses is tried ever more rarely.
    pub fn answered(&mut self, open: &Open, result: &Result<Answer, Failure>, known: bool, now: Moment) {
        let call = &open.call;
        let failed = result.as_ref().err().map(|failure| failure.class);
        if failed.is_some() {
            self.failed.extend(call.group().map(|group| (group.clone(), now)));
        }
        if let (Call::Register { group, items }, None) = (call, failed) {
            self.accepted.extend(items.iter().map(|item| (group.clone(), item.target)));
        }
        match call {
            Call::Register { group, items } if known && failed.is_none() => {
                let keys = items.iter().map(|item| ((group.clone(), item.target), (item.uid.clone(), now)));
                self.taken.extend(keys);
            }
            Call::Register { group, items } | Call::Deregister { group, items }
                if matches!(failed, Some(FailureClass::Refused | FailureClass::Full)) =>
            {
                self.refused.extend(items.iter().map(|item| (group.clone(), item.target)));
            }
            Call::ReadHealth { group } if known => {
                let reads = match failed {
                    // That there is no such group is an answer.
                    None | Some(FailureClass::Gone) => &mut self.read,
                    Some(_) => &mut self.not_read,
                };
                reads.insert(group.clone(), open.sent);
            }
            _ => {}
        }
    }
}

impl TakenOut {
    /// A leader knows no more of what another one has registered than the mark of the pod in the ledger.
    fn is_of(&self, uid: &Uid) -> bool {
        self.of == *uid || self.of.as_str() == format!("mark {:?}", PodMark::of(uid))
    }
}

/// Whether a call is about this target.
fn is_about(call: &Call, (group, target): &Key) -> bool {
    match call {
        Call::Register { group: of, items } | Call::Deregister { group: of, items } => {
            of == group && items.iter().any(|item| item.target == *target)
        }
        Call::ReadHealth { .. } | Call::FindGroups { .. } | Call::ReadAttributes { .. } => false,
    }
}
