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

use super::Touched;
use crate::{
    model::{Failure, Moment, ObjectKey, PodFacts, Reason, RequestId, Uid, WallTime},
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
    /// Not before, and when it is looked at next.
    again: Moment,
    due: Option<Moment>,
    told: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Early {
    nodes: BTreeMap<Arc<str>, Marked>,
    pods: BTreeMap<ObjectKey, Concerned>,
    /// When each is looked at next.
    agenda: BTreeSet<(Moment, ObjectKey)>,
    /// How many are being written to.
    busy: usize,
}

impl Early {
    /// A node is marked like this now; gives whether its pods are concerned anew.
    pub fn mark(&mut self, node: &Arc<str>, signal: Signal, wall: WallTime) -> bool {
        let same = self.nodes.get(node).is_some_and(|marked| marked.signal.fate == signal.fate);
        let since = self.nodes.get(node).filter(|_| same).map_or(wall, |marked| marked.since);
        self.nodes.insert(node.clone(), Marked { signal, since });
        !same
    }

    /// A node stays after all, or is forgotten. Gives the pods that were concerned.
    pub fn unmark(&mut self, node: &Arc<str>) -> Vec<ObjectKey> {
        if self.nodes.remove(node).is_none() {
            return Vec::new();
        }
        let over = self.pods.iter().filter(|(_, pod)| pod.node == *node).map(|(pod, _)| pod.clone());
        let over: Vec<ObjectKey> = over.collect();
        for pod in &over {
            self.forget(pod);
        }
        over
    }

    /// A pod of a marked node is concerned.
    pub fn concern(&mut self, pod: &PodFacts, node: &Arc<str>, now: Moment) {
        if self.pods.get(&pod.key).is_none_or(|known| known.uid != pod.uid) {
            self.forget(&pod.key);
            let concerned = Concerned {
                uid: pod.uid.clone(),
                node: node.clone(),
                busy: None,
                again: Moment::START,
                due: None,
                told: false,
            };
            self.pods.insert(pod.key.clone(), concerned);
        }
        self.touch(Touched::Pod(&pod.key), now);
    }

    fn forget(&mut self, pod: &ObjectKey) {
        self.put_off(pod, None);
        let forgotten = self.pods.remove(pod);
        self.busy -= usize::from(forgotten.is_some_and(|pod| pod.busy.is_some()));
    }

    /// When a pod is looked at next.
    fn put_off(&mut self, pod: &ObjectKey, due: Option<Moment>) {
        let Some(concerned) = self.pods.get_mut(pod) else { return };
        if let Some(due) = std::mem::replace(&mut concerned.due, due) {
            self.agenda.remove(&(due, pod.clone()));
        }
        self.agenda.extend(due.map(|due| (due, pod.clone())));
    }

    /// Whether a pod that is seen for the first time has been there before its node was marked.
    pub fn was_there(&self, pod: &PodFacts) -> bool {
        let marked = pod.node.as_ref().and_then(|node| self.nodes.get(node));
        let created = u64::try_from(pod.created).unwrap_or_default();
        marked.is_some_and(|marked| {
            !pod.ips.is_empty() && WallTime::since_1970(Duration::from_secs(created)) < marked.since
        })
    }

    /// Forgets the pods that are not there any more: this one, or all.
    pub fn keep(&mut self, one: Option<&ObjectKey>, is_there: impl Fn(&ObjectKey, &Uid) -> bool) {
        let gone = |(pod, concerned): &(&ObjectKey, &Concerned)| !is_there(pod, &concerned.uid);
        let gone: Vec<ObjectKey> = match one {
            Some(pod) => {
                self.pods.get_key_value(pod).filter(gone).map(|(pod, _)| pod.clone()).into_iter().collect()
            }
            None => self.pods.iter().filter(gone).map(|(pod, _)| pod.clone()).collect(),
        };
        for pod in &gone {
            self.forget(pod);
        }
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

    /// Something has happened: those that it may concern are looked at.
    pub fn touch(&mut self, touched: Touched<'_>, now: Moment) {
        let here = |namespace| {
            let all = self.pods.range(ObjectKey::new(namespace, "")..).map(|(pod, _)| pod);
            all.take_while(move |pod| &*pod.namespace == namespace).cloned()
        };
        let pods: Vec<ObjectKey> = match touched {
            Touched::Pod(pod) => vec![pod.clone()],
            Touched::Namespace(namespace) => here(namespace).collect(),
            // What a target group has to do with it is what is bound to it.
            Touched::Group(_) => Vec::new(),
            Touched::All => self.pods.keys().cloned().collect(),
        };
        for pod in pods {
            let known = self.pods.get(&pod).filter(|known| known.busy.is_none());
            if let Some(due) = known.map(|known| known.again.max(now)) {
                self.put_off(&pod, Some(due));
            }
        }
    }

    /// When somebody may be asked.
    pub fn next_due(&self) -> Option<Moment> {
        self.agenda.first().map(|(due, _)| *due).filter(|_| self.busy < AT_ONCE)
    }

    /// Another replica leads from now on, or may.
    pub fn stand_by(&mut self) {
        for pod in self.pods.values_mut() {
            (pod.busy, pod.again, pod.told) = (None, Moment::START, false);
        }
        self.busy = 0;
        self.touch(Touched::All, Moment::START);
    }

    /// The next ones that may be asked: of those that `leaves` says should. The others are looked at again when something
    /// happens.
    pub fn take_due(&mut self, leaves: impl Fn(&ObjectKey) -> bool, now: Moment) -> Vec<ObjectKey> {
        let mut due = Vec::new();
        while let Some((at, pod)) = self.agenda.first().cloned()
            && at <= now
            && self.busy + due.len() < AT_ONCE
        {
            self.put_off(&pod, None);
            let marked = self.pods.get(&pod).and_then(|pod| self.nodes.get(&pod.node));
            if marked.is_some_and(|marked| marked.signal.fate != Fate::Deleted) && leaves(&pod) {
                due.push(pod);
            }
        }
        due
    }

    /// It is written on a pod that it is to leave.
    pub fn begin(&mut self, pod: &ObjectKey, id: RequestId) -> Option<Uid> {
        let concerned = self.pods.get_mut(pod)?;
        self.busy += usize::from(concerned.busy.replace(id).is_none());
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
        self.busy -= 1;
        pod.again = now + if result.is_ok() { SHOWN_WITHIN } else { AGAIN };
        self.touch(Touched::Pod(key), now);
        let pod = self.pods.get_mut(key)?;
        let lasting = result.err().filter(|failure| failure.is_lasting() && !pod.told)?;
        pod.told = true;
        Some((key.clone(), pod.uid.clone(), Reason::LeavingNotRecorded, lasting.message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{model::FailureClass, testing::pod};

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
        assert!(early.mark(&node, signal(Fate::Disrupted), wall(100)));
        assert!(!early.mark(&node, signal(Fate::Disrupted), wall(200)), "it is the same");
        let web = || pod("web", "u-1").on("a1");
        assert!(early.was_there(&web().at(1).created(99).build()));
        assert!(!early.was_there(&web().at(1).created(100).build()), "it started there afterwards");
        assert!(!early.was_there(&web().created(99).build()), "it starts there now");
        assert!(!early.was_there(&pod("web", "u-1").on("b1").at(1).created(99).build()));
        assert!(early.mark(&node, signal(Fate::Dying), wall(300)), "it is worse now");
        assert!(early.was_there(&web().at(1).created(299).build()));
    }

    #[test]
    fn so_many_are_asked_at_once_and_the_others_when_those_have_been() {
        let mut early = Early::default();
        let node: Arc<str> = "a1".into();
        early.mark(&node, signal(Fate::Disrupted), wall(100));
        for number in 0..25 {
            early.concern(
                &pod(&format!("p{number:02}"), &format!("u-{number}")).on("a1").build(),
                &node,
                Moment::START,
            );
        }
        let first = early.take_due(|_| true, Moment::START);
        assert_eq!(first.len(), AT_ONCE);
        for (pod, id) in first.iter().zip(1..) {
            assert!(early.begin(pod, RequestId(id)).is_some());
        }
        assert_eq!(early.take_due(|_| true, Moment::START), []);
        assert_eq!(early.marked(&first[0], RequestId(1), Ok(()), Moment::START), None);
        assert_eq!(early.next_due(), Some(Moment::START));
        assert_eq!(early.take_due(|_| true, Moment::START).len(), 1);
        assert_eq!(early.unmark(&node).len(), 25);
        assert!(early.is_empty() && early.unmark(&node).is_empty());
    }

    #[test]
    fn that_it_cannot_be_written_is_told_once() {
        let mut early = Early::default();
        let node: Arc<str> = "a1".into();
        early.mark(&node, signal(Fate::Disrupted), wall(100));
        early.concern(&pod("web", "u-1").on("a1").build(), &node, Moment::START);
        let denied = || Err(Failure::new(FailureClass::Denied, "Forbidden", "no"));
        let mut told = Vec::new();
        let mut now = Moment::START;
        for number in 1..=2 {
            let due = early.take_due(|_| true, now);
            assert_eq!(due.len(), 1);
            early.begin(&due[0], RequestId(number));
            told.extend(early.marked(&due[0], RequestId(number), denied(), now));
            assert_eq!(early.take_due(|_| true, now), [], "not at once");
            now = now + AGAIN;
        }
        assert_eq!(told.len(), 1);
        assert_eq!(told[0].2, Reason::LeavingNotRecorded);
    }
}
