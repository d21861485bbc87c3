//! Pods whose node will be removed. Headgate deregisters some pods on such nodes before a client requests their
//! eviction.
//!
//! The removal of a node affects a pod if the pod had its address before Headgate saw the removal signal of the node. A
//! pod that starts on the node later is not affected. If a replica has not seen a pod start, the replica assumes that
//! the pod started before the removal signal. The removal of a node always affects a pod that drain tools skip, because
//! no drain tool will evict the pod.
//!
//! Every replica tracks pods whose node will be removed, but only the leader writes annotations. A pod without a hold
//! gets the same annotation as for an eviction request. Headgate therefore counts all evictions together, and a later
//! request finds the earlier annotation.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use super::{
    Touched,
    departure::{AGAIN, SHOWN_WITHIN},
    stays_alive, these,
};
use crate::{
    agenda::Agenda,
    index::Index,
    model::{
        Failure, Fate, Moment, ObjectKey, PodFacts, RequestId, Uid, WallTime,
        eviction::MarkWrite,
        leaving::{Asked, Mark},
    },
    nodes::Nodes,
};

/// The maximum number of concurrent writes to pods, so that a large node does not delay other work.
const AT_ONCE: usize = 20;

/// A pod whose node will be removed.
#[derive(Clone, Debug)]
pub(super) struct Concerned {
    uid: Uid,
    node: Arc<str>,
    /// Whether the pod is not registered because it started after Headgate saw the removal signal of its node.
    pub(super) stays_out: bool,
    /// The earliest time of the next attempt.
    again: Moment,
    told: bool,
}

#[derive(Clone, Debug, Default)]
pub struct Early {
    pub(super) pods: BTreeMap<ObjectKey, Concerned>,
    /// The nodes that will be drained and from which a pod has been evicted.
    drained: BTreeSet<Arc<str>>,
    agenda: Agenda,
    open: BTreeMap<RequestId, ObjectKey>,
}

/// Whether a pod has just received its first address on a node that will be removed, and drain tools skip the pod.
/// `known`: the previous state of the pod.
pub fn starts_there(pod: &PodFacts, known: Option<&PodFacts>, nodes: &Nodes) -> bool {
    let signal = pod.node.as_ref().and_then(|node| nodes.signal(node));
    let is_new = known.is_none_or(|known| known.ips.is_empty());
    is_new && !pod.ips.is_empty() && signal.is_some_and(|(signal, _)| pod.passed_over.on(signal))
}

/// Whether a pod that is seen for the first time started before the removal signal of its node.
pub fn was_there(pod: &PodFacts, nodes: &Nodes) -> bool {
    let goes = pod.node.as_ref().and_then(|node| nodes.signal(node));
    let created = u64::try_from(pod.created).unwrap_or_default();
    goes.is_some_and(|(signal, since)| {
        signal.concerns(pod)
            && !pod.ips.is_empty()
            && WallTime::since_1970(Duration::from_secs(created)) < since
    })
}

impl Early {
    /// Records that a pod of this node is being evicted.
    pub fn drains(&mut self, node: &Arc<str>, now: Moment) {
        if self.drained.insert(node.clone()) {
            let here: Vec<ObjectKey> =
                self.pods().filter(|(_, on)| *on == node).map(|(pod, _)| pod.clone()).collect();
            for pod in here {
                self.touch(Touched::Pod(&pod), now);
            }
        }
    }

    /// Whether pods of this node have been evicted.
    pub fn is_drained(&self, node: &Arc<str>) -> bool {
        self.drained.contains(node)
    }

    /// Removes the record of a node that will not be removed, or that was deleted.
    pub fn forget_node(&mut self, node: &Arc<str>) {
        self.drained.remove(node);
    }

    /// Adds a pod whose node will be removed. `stays_out`: whether the pod has just started on the node and is not
    /// registered.
    pub fn concern(&mut self, pod: &PodFacts, node: &Arc<str>, stays_out: bool, now: Moment) {
        if self.pods.get(&pod.key).is_none_or(|known| known.uid != pod.uid) {
            self.forget(&pod.key);
            let (uid, node) = (pod.uid.clone(), node.clone());
            let concerned = Concerned { uid, node, stays_out, again: Moment::START, told: false };
            self.pods.insert(pod.key.clone(), concerned);
        }
        self.touch(Touched::Pod(&pod.key), now);
    }

    /// Records that the drain tool will evict this pod, according to the current removal signal of the node.
    pub fn is_evicted(&mut self, pod: &ObjectKey) {
        if let Some(concerned) = self.pods.get_mut(pod) {
            concerned.stays_out = false;
        }
    }

    /// Removes a pod that is deleted or whose node remains.
    pub fn forget(&mut self, pod: &ObjectKey) {
        if self.pods.remove(pod).is_some() {
            self.agenda.put(pod, None);
            self.open.retain(|_, open| open != pod);
        }
    }

    /// Removes `one` pod if the pod is terminating or the index no longer contains the pod. `None`: checks all pods.
    /// Returns whether a pod was removed.
    pub fn keep(&mut self, one: Option<&ObjectKey>, index: &Index) -> bool {
        let before = self.pods.len();
        for pod in these(&self.pods, one.map_or(Touched::All, Touched::Pod)) {
            let alive = index.pods().get(&pod).filter(|facts| stays_alive(facts));
            if alive.map(|facts| &facts.uid) != self.pods.get(&pod).map(|concerned| &concerned.uid) {
                self.forget(&pod);
            }
        }
        self.pods.len() < before
    }

    /// The pods whose node will be removed, each with its node.
    pub fn pods(&self) -> impl Iterator<Item = (&ObjectKey, &Arc<str>)> {
        self.pods.iter().map(|(pod, concerned)| (pod, &concerned.node))
    }

    /// Schedules a check of the pods that an event may affect. An event about a target group affects no pod.
    pub fn touch(&mut self, touched: Touched<'_>, now: Moment) {
        for pod in these(&self.pods, touched) {
            let idle = self.pods.get(&pod).filter(|_| self.open.values().all(|open| *open != pod));
            if let Some(concerned) = idle {
                self.agenda.put(&pod, Some(concerned.again.max(now)));
            }
        }
    }

    /// Whether a pod is not registered because it started after Headgate saw the removal signal of its node.
    pub fn stays_out(&self, pod: &ObjectKey) -> bool {
        self.pods.get(pod).is_some_and(|concerned| concerned.stays_out)
    }

    /// Whether this replica will deregister the pod early or does not register the pod.
    pub fn goes(&self, pod: &ObjectKey) -> bool {
        self.stays_out(pod) || self.open.values().any(|open| open == pod)
    }

    /// The time at which the next pod may get its annotation.
    pub fn next_due(&self) -> Option<Moment> {
        self.agenda.next_due().filter(|_| self.open.len() < AT_ONCE)
    }

    /// Returns the next pod that may get its annotation, and the time of the removal signal of its node. If the pod
    /// gets no annotation, the next event about the pod triggers another check.
    pub fn take(&mut self, nodes: &Nodes, now: Moment) -> Option<(ObjectKey, WallTime)> {
        while self.open.len() < AT_ONCE
            && let Some(pod) = self.agenda.take(now)
        {
            let node = self.pods.get(&pod).map(|concerned| &concerned.node);
            let goes = node.and_then(|node| nodes.signal(node));
            if let Some((_, since)) = goes.filter(|(signal, _)| signal.fate != Fate::Deleted) {
                return Some((pod, since));
            }
        }
        None
    }

    /// Schedules a later check, because too many other pods are deregistered early.
    pub fn look_again(&mut self, pod: &ObjectKey, now: Moment) {
        self.agenda.put(pod, Some(now + AGAIN));
    }

    /// Starts to write the annotation that a pod should be evicted because its node will be removed.
    pub fn ask(&mut self, pod: ObjectKey, asked: Asked, id: RequestId) -> Option<MarkWrite> {
        let uid = self.pods.get(&pod)?.uid.clone();
        self.open.insert(id, pod.clone());
        // A repeated write does no harm: the annotations from the time between the two writes still apply.
        Some(MarkWrite { pod, uid, mark: Mark::Asked(asked) })
    }

    /// Handles the result of a write. Returns the pod and the message for an Event if Kubernetes rejects the write.
    pub fn answered(
        &mut self,
        id: RequestId,
        result: Result<(), Failure>,
        now: Moment,
    ) -> Option<(ObjectKey, Uid, Box<str>)> {
        let key = self.open.remove(&id)?;
        let pod = self.pods.get_mut(&key)?;
        pod.again = now + if result.is_ok() { SHOWN_WITHIN } else { AGAIN };
        let lasting = result.err().filter(|failure| failure.is_lasting() && !pod.told);
        pod.told |= lasting.is_some();
        let uid = pod.uid.clone();
        self.touch(Touched::Pod(&key), now);
        lasting.map(|failure| (key, uid, failure.message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        model::{
            Change, FailureClass, NodeFacts, Signals,
            signal::{DISRUPTED, DYING},
        },
        testing::pod,
    };

    /// Applies the node `a1` with this taint, seen at this time. Returns whether the removal signal of the node has
    /// changed.
    fn tainted(nodes: &mut Nodes, taint: &str, at: u64) -> bool {
        let taints = std::iter::once(taint.into()).collect();
        let node = NodeFacts { name: "a1".into(), taints, ..NodeFacts::default() };
        let wall = WallTime::since_1970(Duration::from_secs(at));
        nodes.apply(Change::Applied(node), Moment::START, wall).is_some_and(|nodes| !nodes.is_empty())
    }

    /// Creates `pods` pods on a disrupted node.
    fn disrupted(pods: usize) -> (Early, Nodes) {
        let (mut early, mut nodes) = (Early::default(), Nodes::new(Signals::default(), Duration::ZERO));
        tainted(&mut nodes, DISRUPTED[0], 100);
        for number in 0..pods {
            let pod = pod(&format!("p{number:02}"), &format!("u-{number}")).on("a1").build();
            early.concern(&pod, &"a1".into(), false, Moment::START);
        }
        (early, nodes)
    }

    /// Starts all writes that are due, and returns the ids of the writes. The first id is `first`.
    fn asked(early: &mut Early, nodes: &Nodes, first: u64, now: Moment) -> Vec<RequestId> {
        let mut asked = Vec::new();
        for id in (first..).map(RequestId) {
            let Some((pod, since)) = early.take(nodes, now) else { break };
            assert!(early.ask(pod, Asked::early(since), id).is_some());
            asked.push(id);
        }
        asked
    }

    #[test]
    fn a_pod_that_is_seen_late_was_there_if_it_is_older_than_the_sign_and_has_its_address() {
        let mut nodes = Nodes::new(Signals::default(), Duration::ZERO);
        assert!(tainted(&mut nodes, DISRUPTED[2], 100));
        assert!(!tainted(&mut nodes, DISRUPTED[3], 200), "it is to be drained all the same");
        let web = || pod("web", "u-1").on("a1");
        assert!(was_there(&web().at(1).created(99).build(), &nodes));
        assert!(!was_there(&web().at(1).created(100).build(), &nodes), "it started there afterwards");
        assert!(!was_there(&web().created(99).build(), &nodes), "it starts there now");
        assert!(!was_there(&pod("web", "u-1").on("b1").at(1).created(99).build(), &nodes));
        assert!(tainted(&mut nodes, DYING[0], 300), "it is worse now");
        assert!(was_there(&web().at(1).created(299).build(), &nodes));
    }

    #[test]
    fn so_many_are_asked_at_once_and_the_others_when_those_have_been() {
        let (mut early, nodes) = disrupted(25);
        assert_eq!(asked(&mut early, &nodes, 1, Moment::START).len(), AT_ONCE);
        assert_eq!(asked(&mut early, &nodes, 21, Moment::START), []);
        assert_eq!(early.next_due(), None, "one of those has to be answered first");
        assert_eq!(early.answered(RequestId(1), Ok(()), Moment::START), None);
        assert_eq!(early.next_due(), Some(Moment::START));
        assert_eq!(asked(&mut early, &nodes, 21, Moment::START), [RequestId(21)]);
        early.forget(&ObjectKey::new(crate::testing::NAMESPACE, "p01"));
        assert_eq!(
            asked(&mut early, &nodes, 22, Moment::START),
            [RequestId(22)],
            "nobody waits for its answer"
        );
    }

    #[test]
    fn that_it_cannot_be_written_is_told_once() {
        let (mut early, nodes) = disrupted(1);
        let denied = || Err(Failure::new(FailureClass::Denied, "Forbidden", "no"));
        let (mut told, mut now) = (Vec::new(), Moment::START);
        for number in 1..=2 {
            let id = RequestId(number);
            assert_eq!(asked(&mut early, &nodes, number, now), [id]);
            told.extend(early.answered(id, denied(), now));
            assert_eq!(asked(&mut early, &nodes, 9, now), [], "not at once");
            now = now + AGAIN;
        }
        assert_eq!(told.len(), 1);
        assert_eq!(&*told[0].2, "no");
    }

    #[test]
    fn what_happens_to_a_pod_that_is_being_asked_asks_it_no_second_time_and_holds_up_no_other() {
        let (mut early, nodes) = disrupted(1);
        assert_eq!(asked(&mut early, &nodes, 1, Moment::START).len(), 1);
        let concern = |early: &mut Early, name, uid| {
            early.concern(&pod(name, uid).on("a1").build(), &"a1".into(), false, Moment::START);
        };
        concern(&mut early, "p00", "u-0");
        assert_eq!(early.next_due(), None, "it is being asked");
        concern(&mut early, "p01", "u-1");
        assert_eq!(asked(&mut early, &nodes, 2, Moment::START), [RequestId(2)]);
        early.answered(RequestId(1), Ok(()), Moment::START);
        concern(&mut early, "p00", "u-0");
        assert_eq!(early.next_due(), Some(Moment::START + SHOWN_WITHIN), "what was written is believed");
    }

    #[test]
    fn a_pod_that_has_the_name_of_one_that_was_asked_is_asked_itself() {
        let (mut early, nodes) = disrupted(1);
        assert_eq!(asked(&mut early, &nodes, 1, Moment::START).len(), 1);
        early.concern(&pod("p00", "u-9").on("a1").build(), &"a1".into(), false, Moment::START);
        let (pod, since) = early.take(&nodes, Moment::START).unwrap();
        assert_eq!(
            early.ask(pod, Asked::early(since), RequestId(2)).map(|write| write.uid),
            Some(Uid::new("u-9"))
        );
    }

    #[test]
    fn so_many_are_asked_at_once_and_that_it_is_denied_is_told() {
        let (mut early, nodes) = disrupted(AT_ONCE + 1);
        let denied = || Err(Failure::new(FailureClass::Denied, "Forbidden", "no"));
        assert_eq!(asked(&mut early, &nodes, 1, Moment::START).len(), AT_ONCE);
        assert_eq!(early.next_due(), None, "so many at once");
        assert!(early.answered(RequestId(1), denied(), Moment::START).is_some());
        assert_eq!(early.next_due(), Some(Moment::START));
        assert_eq!(early.answered(RequestId(100), Ok(()), Moment::START), None, "nobody has asked that");
    }

    #[test]
    fn pods_that_are_not_there_any_more_or_end_are_forgotten() {
        let (mut early, _) = disrupted(2);
        assert!(early.keep(None, &Index::default()));
        assert!(!early.keep(None, &Index::default()), "there are none");
        assert!(stays_alive(&pod("web", "u-1").build()));
        assert!(!stays_alive(&pod("web", "u-1").terminating().build()));
        assert!(!stays_alive(&pod("web", "u-1").finished().build()));
    }
}
