//! Pods that Headgate deregisters while they are alive: before their eviction, or because their node will be removed.

use super::{
    Because, Index,
    pods::{PodEntry, Pods},
};
use crate::model::{Cause, Changes, LeavingFacts, Moment, ObjectKey, view::Apart};

/// A decision about a living pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Whether the pod is deregistered before its eviction.
    Leave(bool),
    /// Why the pod must not be a target: the removal of its node, or a drain that will not evict the pod. `None`: the
    /// node remains.
    NodeGoes(Option<Cause>),
    /// The pod is no longer ready, but remains registered because its zone needs the target.
    Stay,
    /// The pod is no longer ready and is deregistered.
    LetGo,
}

impl PodEntry {
    /// Why a living pod is not a target. `None`: neither its eviction nor its node is a reason.
    pub(super) fn why_out(&self) -> Option<Cause> {
        let leaving = self.facts.leaving.as_deref();
        let evicting = self.leaves || leaving.is_some_and(LeavingFacts::is_out);
        let early = leaving.is_some_and(|leaving| leaving.ask.early);
        let cause = if early { Cause::NodeDisrupted } else { Cause::PodEvicting };
        self.node_goes.or(evicting.then_some(cause))
    }
}

impl Index {
    /// Applies a decision about a pod.
    pub fn order(&mut self, pod: &ObjectKey, order: Order, seen: Moment) -> Changes {
        let Some(entry) = self.pods.get_mut(pod) else { return Changes::default() };
        let (differs, cause) = match order {
            Order::Leave(leaves) => {
                (std::mem::replace(&mut entry.leaves, leaves) != leaves, Cause::EvictionGivenUp)
            }
            Order::NodeGoes(goes) => {
                (std::mem::replace(&mut entry.node_goes, goes) != goes, Cause::NodeStays)
            }
            Order::LetGo => {
                entry.let_go = true;
                (true, Cause::NotReady)
            }
            Order::Stay => {
                let kept = self.kept.all.get_mut(pod);
                if kept.is_some_and(|kept| !std::mem::replace(&mut kept.stays, true)) {
                    self.touch_claimed(pod);
                }
                (false, Cause::NotReady)
            }
        };
        if differs {
            self.claim_all(pod, Because { cause, seen });
        }
        self.changed()
    }
}

impl Pods<'_> {
    /// The pods that are or will be deregistered while they are alive.
    pub fn apart(self) -> std::collections::BTreeMap<ObjectKey, Apart> {
        let of = |entry: &PodEntry| Apart {
            decided: entry.leaves,
            node_goes: entry.node_goes.is_some(),
            let_go: entry.let_go,
        };
        let all = self.0.pods.iter().map(|(pod, entry)| (pod.clone(), of(entry)));
        all.filter(|(_, apart)| *apart != Apart::default()).collect()
    }
}
