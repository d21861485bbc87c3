//! The pods of nodes that are about to go: who they are, and which of them are asked to leave before anybody else does.
//!
//! A pod is concerned if it had its address when its node was marked. One that starts there afterwards is not: whoever
//! put it there knows. What a replica has not seen begin, it takes for older than all it sees.
//!
//! Every replica keeps this; the leader alone asks. A pod that nothing keeps alive is asked to leave by the same note that
//! a request for its eviction leaves, so that all departures are counted together and a later request finds it on its way.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use crate::{
    model::{
        object::{ObjectKey, Uid},
        pod::PodFacts,
        reason::Reason,
        request::{Failure, RequestId},
        time::{Moment, WallTime},
    },
    nodes::{Fate, Signal},
};

/// What could not be written is tried again after so long.
const AGAIN: Duration = Duration::from_secs(2);
/// The watch shows what was written sooner than this. What it has not shown by then somebody has taken away.
const SHOWN_WITHIN: Duration = Duration::from_secs(10);
/// So many pods are written to at once: a large node must not hold up everything else.
const AT_ONCE: usize = 20;

#[derive(Debug)]
struct Marked {
    signal: Signal,
    /// When that was seen.
    since: WallTime,
}

/// A pod whose node is about to go.
#[derive(Debug)]
pub struct Concerned {
    /// This life of it.
    pub uid: Uid,
    /// Its node.
    pub node: Arc<str>,
    busy: Option<RequestId>,
    again: Moment,
    told: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Early {
    nodes: BTreeMap<Arc<str>, Marked>,
    pods: BTreeMap<ObjectKey, Concerned>,
    due: Option<Moment>,
}

impl Early {
    /// A node is marked like this now; gives whether its pods are concerned anew.
    pub fn mark(&mut self, node: &Arc<str>, signal: Signal, now: Moment, wall: WallTime) -> bool {
        let same = self.nodes.get(node).is_some_and(|marked| marked.signal.fate == signal.fate);
        let since = self.nodes.get(node).filter(|_| same).map_or(wall, |marked| marked.since);
        self.nodes.insert(node.clone(), Marked { signal, since });
        self.touch(now);
        !same
    }

    /// A node stays after all, or is forgotten. Gives the pods that were concerned.
    pub fn unmark(&mut self, node: &Arc<str>) -> Vec<ObjectKey> {
        if self.nodes.remove(node).is_none() {
            return Vec::new();
        }
        let (over, rest) = std::mem::take(&mut self.pods).into_iter().partition(|(_, pod)| pod.node == *node);
        self.pods = rest;
        let over: BTreeMap<ObjectKey, Concerned> = over;
        over.into_keys().collect()
    }

    /// A pod of a marked node is concerned.
    pub fn concern(&mut self, pod: &PodFacts, node: &Arc<str>) {
        let known = self.pods.get(&pod.key).is_some_and(|known| known.uid == pod.uid);
        if !known {
            let concerned = Concerned {
                uid: pod.uid.clone(),
                node: node.clone(),
                busy: None,
                again: Moment::START,
                told: false,
            };
            self.pods.insert(pod.key.clone(), concerned);
        }
    }

    /// Whether a pod that is seen for the first time has been there before its node was marked.
    pub fn was_there(&self, pod: &PodFacts) -> bool {
        let marked = pod.node.as_ref().and_then(|node| self.nodes.get(node));
        let created = u64::try_from(pod.created).unwrap_or_default();
        marked.is_some_and(|marked| {
            !pod.ips.is_empty() && WallTime::since_1970(Duration::from_secs(created)) < marked.since
        })
    }

    /// Forgets pods that are not there any more.
    pub fn keep(&mut self, is_there: impl Fn(&ObjectKey, &Uid) -> bool) {
        self.pods.retain(|pod, concerned| is_there(pod, &concerned.uid));
    }

    /// Whether no node is marked.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The sign that the node of a pod is about to go, if that concerns the pod.
    pub fn signal(&self, pod: &ObjectKey) -> Option<&Signal> {
        let concerned = self.pods.get(pod)?;
        self.nodes.get(&concerned.node).map(|marked| &marked.signal)
    }

    /// When it was seen that the node of a pod is about to go, if that concerns the pod.
    pub fn since(&self, pod: &ObjectKey) -> Option<WallTime> {
        let concerned = self.pods.get(pod)?;
        self.nodes.get(&concerned.node).map(|marked| marked.since)
    }

    /// The pods that are concerned.
    pub fn pods(&self) -> impl Iterator<Item = (&ObjectKey, &Concerned)> {
        self.pods.iter()
    }

    /// The nodes from which something is known to go.
    pub fn nodes_with_pods(&self) -> BTreeSet<Arc<str>> {
        self.pods.values().map(|pod| pod.node.clone()).collect()
    }

    /// The nodes that are gone, but for these.
    pub fn deleted_but(&self, these: &BTreeSet<Arc<str>>) -> Vec<Arc<str>> {
        let gone = self
            .nodes
            .iter()
            .filter(|(node, marked)| marked.signal.fate == Fate::Deleted && !these.contains(*node));
        gone.map(|(node, _)| node.clone()).collect()
    }

    /// How many nodes are marked like this.
    pub fn count(&self, fate: Fate) -> usize {
        self.nodes.values().filter(|marked| marked.signal.fate == fate).count()
    }

    /// Something has happened that matters to them.
    pub fn touch(&mut self, now: Moment) {
        if !self.nodes.is_empty() {
            self.due = Some(now);
        }
    }

    /// When somebody may be asked.
    pub const fn next_due(&self) -> Option<Moment> {
        self.due
    }

    /// Another replica leads from now on, or may.
    pub fn stand_by(&mut self) {
        for pod in self.pods.values_mut() {
            (pod.busy, pod.again, pod.told) = (None, Moment::START, false);
        }
        self.due = Some(Moment::START).filter(|_| !self.nodes.is_empty());
    }

    /// The next ones that may be asked: of those that `leaves` says should.
    pub fn take_due(&mut self, leaves: impl Fn(&ObjectKey, Fate) -> bool, now: Moment) -> Vec<ObjectKey> {
        self.due = None;
        let busy = self.pods.values().filter(|pod| pod.busy.is_some()).count();
        let fate = |pod: &Concerned| self.nodes.get(&pod.node).map(|marked| marked.signal.fate);
        let waiting = self.pods.iter().filter(|(key, pod)| {
            pod.busy.is_none() && fate(pod).is_some_and(|fate| fate != Fate::Deleted && leaves(key, fate))
        });
        let (due, later): (Vec<_>, Vec<_>) = waiting.partition(|(_, pod)| pod.again <= now);
        let next = later.iter().map(|(_, pod)| pod.again).min();
        let due = due.into_iter().take(AT_ONCE.saturating_sub(busy)).map(|(key, _)| key.clone()).collect();
        self.due = next;
        due
    }

    /// It is written on a pod that it is to leave.
    pub fn begin(&mut self, pod: &ObjectKey, id: RequestId) -> Option<Uid> {
        let concerned = self.pods.get_mut(pod)?;
        concerned.busy = Some(id);
        Some(concerned.uid.clone())
    }

    /// That has been written, or could not be. Gives what the user should be told: that Kubernetes does not allow it, in
    /// these words.
    pub fn marked(
        &mut self,
        key: &ObjectKey,
        id: RequestId,
        result: Result<(), Failure>,
        now: Moment,
    ) -> Option<(ObjectKey, Uid, Reason, Box<str>)> {
        let pod = self.pods.get_mut(key).filter(|pod| pod.busy == Some(id))?;
        pod.busy = None;
        pod.again = now + if result.is_ok() { SHOWN_WITHIN } else { AGAIN };
        self.due = Some(now);
        let lasting = result.err().filter(|failure| failure.is_lasting() && !pod.told)?;
        pod.told = true;
        Some((key.clone(), pod.uid.clone(), Reason::LeavingNotRecorded, lasting.message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{model::request::FailureClass, testing::pod};

    fn signal(fate: Fate) -> Signal {
        Signal { fate, sign: "a sign".into() }
    }

    fn wall(seconds: u64) -> WallTime {
        WallTime::since_1970(Duration::from_secs(seconds))
    }

    #[test]
    fn a_pod_that_is_seen_late_was_there_if_it_is_older_than_the_mark_and_has_its_address() {
        let mut early = Early::default();
        let node: Arc<str> = "a1".into();
        assert!(early.mark(&node, signal(Fate::Disrupted), Moment::START, wall(100)));
        assert!(!early.mark(&node, signal(Fate::Disrupted), Moment::START, wall(200)), "it is the same");
        let web = || pod("web", "u-1").on("a1");
        assert!(early.was_there(&web().at(1).created(99).build()));
        assert!(!early.was_there(&web().at(1).created(100).build()), "it started there afterwards");
        assert!(!early.was_there(&web().created(99).build()), "it starts there now");
        assert!(!early.was_there(&pod("web", "u-1").on("b1").at(1).created(99).build()));
        assert!(early.mark(&node, signal(Fate::Dying), Moment::START, wall(300)), "it is worse now");
        assert!(early.was_there(&web().at(1).created(299).build()));
    }

    #[test]
    fn so_many_are_asked_at_once_and_the_others_when_those_have_been() {
        let mut early = Early::default();
        let node: Arc<str> = "a1".into();
        early.mark(&node, signal(Fate::Disrupted), Moment::START, wall(100));
        for number in 0..25 {
            early.concern(&pod(&format!("p{number:02}"), &format!("u-{number}")).on("a1").build(), &node);
        }
        let first = early.take_due(|_, _| true, Moment::START);
        assert_eq!(first.len(), AT_ONCE);
        for (pod, id) in first.iter().zip(1..) {
            assert!(early.begin(pod, RequestId(id)).is_some());
        }
        assert_eq!(early.take_due(|_, _| true, Moment::START), []);
        assert_eq!(early.marked(&first[0], RequestId(1), Ok(()), Moment::START), None);
        assert_eq!(early.next_due(), Some(Moment::START));
        assert_eq!(early.take_due(|_, _| true, Moment::START).len(), 1);
        assert_eq!(early.unmark(&node).len(), 25);
        assert!(early.is_empty() && early.unmark(&node).is_empty());
    }

    #[test]
    fn that_it_cannot_be_written_is_told_once() {
        let mut early = Early::default();
        let node: Arc<str> = "a1".into();
        early.mark(&node, signal(Fate::Disrupted), Moment::START, wall(100));
        early.concern(&pod("web", "u-1").on("a1").build(), &node);
        let denied = || Err(Failure::new(FailureClass::Denied, "Forbidden", "no"));
        let mut told = Vec::new();
        let mut now = Moment::START;
        for number in 1..=2 {
            let due = early.take_due(|_, _| true, now);
            assert_eq!(due.len(), 1);
            early.begin(&due[0], RequestId(number));
            told.extend(early.marked(&due[0], RequestId(number), denied(), now));
            assert_eq!(early.take_due(|_, _| true, now), [], "not at once");
            now = now + AGAIN;
        }
        assert_eq!(told.len(), 1);
        assert_eq!(told[0].2, Reason::LeavingNotRecorded);
    }
}
