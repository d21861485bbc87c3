//! Somebody drains: evictions are asked for again and again, as `kubectl drain` and autoscalers do.

use std::{sync::Arc, time::Duration};

use super::World;
use crate::{cluster::Evicted, cluster::REPLICAS, cluster::any_node, replica::Replica};
use headgate_core::model::{
    Cause, Failure, FailureClass, Moment, ObjectKey, PodFacts, Uid,
    eviction::{Ago, Request, Ruling},
    leaving::{AHEAD, Asked, Mark},
};

/// What a budget refuses is asked for again after this time.
const REFUSED: Duration = Duration::from_secs(5);
/// What is to be noted waits so long at most, in milliseconds.
const LONGEST_IN_LINE: u64 = 5_000;
/// Until then a new leader does not count that AWS has accepted a deregistration, because a call of the leader before may
/// still register the target. The engine calls this the notice.
const UNSETTLED: Duration = Duration::from_secs(90);

/// A pod whose eviction somebody asks for.
#[derive(Debug)]
pub struct Drain {
    pod: ObjectKey,
    uid: Uid,
    grace: Option<u32>,
    /// Since when, when next, and until when.
    since: Moment,
    pub next: Moment,
    until: Moment,
}

impl World {
    /// Somebody begins to drain a pod, or a node.
    pub(super) fn begin_drain(&mut self) {
        let long = Duration::from_secs(if self.rng.u8(0..3) == 0 { 3 } else { 600 });
        if self.rng.u8(0..3) == 0 {
            let node = any_node(&mut self.rng);
            self.saw("drain: of a node");
            self.drain_node(&node, long);
        } else if let Some((pod, uid)) = self.cluster.drainable(&mut self.rng) {
            if self.rng.u8(0..6) == 0 {
                self.forge(&pod, &uid);
            }
            self.saw("drain: of a pod");
            // Chance is left as it is. Whoever drains nodes cordons them first, and a descheduler does not.
            if self.settings.seed.is_multiple_of(2) {
                self.cordon_node_of(&pod);
            }
            let grace = Some(self.rng.u32(0..300)).filter(|_| self.rng.u8(0..5) == 0);
            self.drain(pod, uid, grace, long);
        }
    }

    /// The node of a pod is cordoned.
    pub(super) fn cordon_node_of(&mut self, pod: &ObjectKey) {
        let node = self.cluster.pods.get(pod).and_then(|pod| pod.node.clone());
        if let Some(node) = node {
            self.cluster.mark_node(&node, None);
        }
    }

    /// The node is cordoned, and its pods are evicted.
    pub(super) fn drain_node(&mut self, node: &Arc<str>, long: Duration) {
        self.cluster.mark_node(node, None);
        // As kubectl drain does it, which passes over pods of DaemonSets.
        let here =
            |pod: &&PodFacts| pod.node.as_ref() == Some(node) && !pod.terminating && !pod.passed_over.by_all;
        let pods: Vec<(ObjectKey, Uid)> =
            self.cluster.pods.values().filter(here).map(|pod| (pod.key.clone(), pod.uid.clone())).collect();
        for (pod, uid) in pods {
            self.drain(pod, uid, None, long);
        }
    }

    /// Somebody who may write on pods writes what should hold their eviction up for ever.
    pub(super) fn forge(&mut self, pod: &ObjectKey, uid: &Uid) {
        self.saw("mark: forged");
        let wall = self.settings.started + self.now.elapsed();
        let far = wall + AHEAD.saturating_mul(1 + self.rng.u32(1..1_000));
        let marks = match self.rng.u8(0..3) {
            0 => vec![Mark::Asked(Asked::first(far))],
            1 => vec![
                Mark::Asked(Asked::first(wall)),
                Mark::Deregistered { at: far, bound: Duration::from_secs(1) },
            ],
            _ => vec![
                Mark::Asked(Asked::first(wall)),
                Mark::Deregistered { at: wall, bound: Duration::from_secs(u32::MAX.into()) },
            ],
        };
        for mark in marks {
            let _ = self.cluster.write_mark(pod, uid, mark);
        }
    }

    pub(super) fn drain(&mut self, pod: ObjectKey, uid: Uid, grace: Option<u32>, long: Duration) {
        let (since, next, until) = (self.now, self.now, self.now + long);
        self.drains.push(Drain { pod, uid, grace, since, next, until });
    }

    /// Whoever drains asks again, when it is time to; and somebody drains just when a replica has started.
    pub(super) fn go_on_draining(&mut self) -> Result<(), String> {
        if self.faults && self.replicas.iter().any(Replica::is_cold) && self.rng.u8(0..4) == 0 {
            self.begin_drain();
        }
        let now = self.now;
        for mut drain in std::mem::take(&mut self.drains) {
            if drain.until < now {
                self.saw("drain: given up");
            } else if drain.next > now {
                self.drains.push(drain);
            } else if let Some(again) = self.asks_for_eviction(&drain)? {
                drain.next = now + again;
                self.drains.push(drain);
            }
        }
        Ok(())
    }

    /// An eviction is asked for; gives when it is worth asking again, if it is.
    fn asks_for_eviction(&mut self, drain: &Drain) -> Result<Option<Duration>, String> {
        let cold = (0..REPLICAS).find(|replica| self.replicas[*replica].is_cold());
        let replica = match cold.filter(|_| self.rng.bool()) {
            Some(replica) => replica,
            None => self.rng.usize(0..REPLICAS),
        };
        let request = Request { uid: Some(drain.uid.clone()), grace: drain.grace, ago: self.ago(drain) };
        // The API server waits for a webhook that does not answer, and then does without it.
        if !self.replicas[replica].runs() {
            self.saw("eviction: the webhook does not answer");
            return Ok(self.evict(drain));
        }
        let ruling = self.replicas[replica].engine.may_evict(&drain.pod, &request, self.now);
        self.note(|| format!("[{replica}] eviction of {} {}: {ruling:?}", drain.pod.name, drain.uid));
        let is_read = !self.faults || !matches!(ruling, Ruling::AskNode { .. }) || self.rng.u8(0..16) > 0;
        let ruling = self.reads_node(ruling, is_read);
        let (cause, retry, uid, mark) = match ruling {
            Ruling::Wait { cause, retry, uid, mark } => (cause, retry, uid, mark),
            Ruling::AskNode { node, .. } => return Err(format!("{node} is still to be read")),
            Ruling::Pass(cause) | Ruling::Regardless(cause, _) => {
                return self.passes(replica, drain, cause);
            }
        };
        self.coverage.cause(cause);
        let Some(mark) = mark else { return Ok(Some(retry)) };
        if is_read && self.node_remains(drain) == Some(true) && !self.may_note(replica, &drain.pod) {
            let name = &drain.pod.name;
            return Err(format!("[{replica}] {name} is to leave because of a request, and its node remains"));
        }
        let fate = if self.faults { self.rng.u8(0..100) } else { 0 };
        if fate >= 94 {
            match fate {
                94..=95 => _ = self.cluster.write_mark(&drain.pod, &uid, mark),
                96..=97 => {
                    self.requests.is_late(drain.pod.clone(), uid, mark, &mut self.rng, self.now);
                }
                _ => {}
            }
            return self.passes(replica, drain, Cause::LeavingNotRecorded);
        }
        match self.cluster.write_mark(&drain.pod, &uid, mark) {
            Err(Failure { class: FailureClass::Gone, .. }) => self.passes(replica, drain, Cause::PodDeleted),
            _ => Ok(Some(retry)),
        }
    }

    /// Whether a replica may have it noted on a pod that it is to leave because its eviction is asked for, although its node
    /// remains: it does not know all that is true; the pod has its hold and waits for its zone; or it is leaving already.
    fn may_note(&self, replica: usize, pod: &ObjectKey) -> bool {
        let Some(pod) = self.cluster.pods.get(pod) else { return true };
        !self.scene(replica).knows_all()
            || pod.ending.sleeps > 0
            || pod.node.is_none()
            || pod.leaving.is_some()
    }

    /// The GET of a node, which gives what is true, whatever the watches have said by then.
    fn reads_node(&mut self, ruling: Ruling, is_read: bool) -> Ruling {
        let Ruling::AskNode { node, .. } = &ruling else { return ruling };
        let remains = is_read && self.is_seen_to_remain(node);
        self.saw(match (is_read, remains) {
            (false, _) => "node: cannot be read",
            (true, true) => "node: read, and it remains",
            (true, false) => "node: read, and it goes",
        });
        ruling.with_node(remains)
    }

    /// Whether a node takes pods and is not about to go, and the replicas may see that.
    fn is_seen_to_remain(&self, node: &Arc<str>) -> bool {
        let node = self.cluster.node(node).filter(|_| self.cluster.nodes_are_watched());
        node.is_some_and(|node| self.settings.signals.remains(node))
    }

    /// Whether the node of a pod remains, if the pod is still there.
    fn node_remains(&self, drain: &Drain) -> Option<bool> {
        let pod = self.cluster.pods.get(&drain.pod).filter(|pod| pod.uid == drain.uid)?;
        Some(pod.node.as_ref().is_some_and(|node| self.is_seen_to_remain(node)))
    }

    /// How long ago the eviction was asked for that is to be noted now: notes may wait.
    fn ago(&mut self, drain: &Drain) -> Ago {
        let waited = Duration::from_millis(self.rng.u64(0..LONGEST_IN_LINE)).min(self.now.since(drain.since));
        if !self.faults || waited.is_zero() || self.rng.bool() {
            return Ago::default();
        }
        self.saw("eviction: noted when that had waited");
        Ago { first: waited, last: waited.mul_f64(self.rng.f64()) }
    }

    fn passes(&mut self, replica: usize, drain: &Drain, cause: Cause) -> Result<Option<Duration>, String> {
        self.coverage.cause(cause);
        self.holds(replica, |properties, scene| properties.evicts(&drain.pod, &drain.uid, cause, scene))?;
        if cause == Cause::HoldMissing && self.node_remains(drain) == Some(false) {
            let name = &drain.pod.name;
            return Err(format!(
                "[{replica}] {name} is evicted without a hold, and its node does not remain"
            ));
        }
        // One with its hold stays a target until it ends.
        let is_held = |pod: &PodFacts| pod.uid == drain.uid && pod.ending.sleeps > 0;
        // Nobody waits for a leader without end (see `Limits::silence`): by default that is twelve leases long, and here it
        // may be less than one. Who leads decides, and may need its patience for that.
        let nobody_leads = !self.replicas.iter().any(|it| it.has_had_its_say(self.now));
        // A leader has decided, and that has not been seen by then.
        let is_decided = |pod: &PodFacts| {
            pod.uid == drain.uid && pod.leaving.as_deref().is_some_and(|it| it.let_go().is_some())
        };
        let is_unseen = self.cluster.pods.get(&drain.pod).is_some_and(is_decided);
        let is_new =
            |replica: &Replica| replica.acts_since().is_some_and(|since| self.now.since(since) < UNSETTLED);
        let is_unsettled = self.replicas.iter().any(is_new);
        if let Some(since) = self.promised
            && !(cause == Cause::DeregistrationTooSlow && is_unsettled)
            && !(cause == Cause::NobodyDecides && (nobody_leads || is_unseen))
            && !self.cluster.pods.get(&drain.pod).is_none_or(is_held)
            && !matches!(
                cause,
                Cause::PodTerminating | Cause::PodFinished | Cause::PodDeleted | Cause::HoldMissing
            )
        {
            self.holds(replica, |properties, scene| properties.lets_go(&drain.uid, scene))
                .map_err(|broken| format!("{broken} ({cause:?}, drained for {:?})", self.now.since(since)))?;
        }
        Ok(self.evict(drain))
    }

    fn evict(&mut self, drain: &Drain) -> Option<Duration> {
        let (what, again) = match self.cluster.evict(&drain.pod, &drain.uid) {
            Evicted::Goes => ("eviction: the pod goes", None),
            Evicted::Refused => ("eviction: refused by a budget", Some(REFUSED)),
            Evicted::Gone => ("eviction: the pod is gone", None),
        };
        self.saw(what);
        again
    }

    /// Whether somebody still waits for a pod to go.
    pub(super) fn still_drained(&self) -> Option<&ObjectKey> {
        self.drains.first().map(|drain| &drain.pod)
    }
}
