//! Nodes that will be removed and whose pods receive no more traffic from load balancers.
//!
//! The component that terminates the machine can wait until the node is detached. Headgate annotates the Node
//! ([`DETACHED_AT`]) when none of its pods is or should be a target, and no load balancer sends to its pods. Headgate
//! removes the annotation when the node remains, or when one of its pods is a target again. Only pods that have not
//! terminated count.
//!
//! [`DETACHED_AT`]: crate::model::node::DETACHED_AT

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use super::{departure::SHOWN_WITHIN, surroundings::Surroundings};
use crate::{
    model::{Failure, Moment, NodeFacts, ObjectKey, PodFacts, RequestId, Uid, node::DetachedWrite},
    requests::Request,
};

/// The interval at which Headgate checks all pods in one pass while a node is being removed.
const EVERY: Duration = Duration::from_secs(1);
/// The maximum delay of a watch.
const BEHIND: Duration = Duration::from_mins(2);
/// The delay before Headgate repeats a write that Kubernetes rejected.
const REFUSED: Duration = Duration::from_secs(60);
/// The maximum number of concurrent writes to nodes.
const AT_ONCE: usize = 20;

#[derive(Clone, Debug, Default)]
pub(super) struct Detaching {
    /// The time of the next check of the nodes. `None`: the next event about a node triggers the check.
    next: Option<Moment>,
    /// For each pod on a node that will be removed, the time at which load balancers stop sending to the pod.
    quiet: BTreeMap<Uid, Moment>,
    /// The writes to nodes in flight.
    open: BTreeMap<RequestId, (Arc<str>, bool)>,
    /// The last write to each node, and the earliest time to repeat the write. Headgate repeats a write that failed or
    /// that another program has undone.
    again: BTreeMap<Arc<str>, (bool, Moment)>,
}

impl Detaching {
    /// Schedules a check after an event about a node.
    pub fn touch(&mut self, now: Moment) {
        self.next = self.next.into_iter().chain([now]).min();
    }

    /// The time of the next check of the nodes.
    pub const fn next_due(&self) -> Option<Moment> {
        self.next
    }

    /// Returns the annotations to write or remove now. `over`: the time at which load balancers stop sending to a pod,
    /// according to its annotations.
    pub fn due(
        &mut self,
        mut next_id: impl FnMut() -> RequestId,
        over: impl Fn(&ObjectKey) -> Option<Moment>,
        around: &Surroundings<'_>,
    ) -> Vec<(RequestId, Request)> {
        if self.next.is_none_or(|next| next > around.now) {
            return Vec::new();
        }
        let nodes: BTreeMap<&Arc<str>, (&NodeFacts, bool)> = around
            .nodes
            .last_seen()
            .may_be_detached()
            .map(|(node, goes)| (&node.name, (node, goes)))
            .collect();
        self.next = (!nodes.is_empty()).then(|| around.now + EVERY);
        self.again.retain(|node, _| nodes.contains_key(node));
        let (before, mut used) = (std::mem::take(&mut self.quiet), BTreeSet::new());
        for pod in around.index.pods().all().filter(|pod| !pod.finished) {
            let node = pod.node.as_ref().and_then(|name| nodes.get_key_value(name));
            let Some((name, (node, _))) = node.filter(|(_, (_, goes))| *goes) else { continue };
            if pod.ips.is_empty() && (node.detached || !around.is_known_of(pod)) {
                continue;
            }
            let quiet = before.get(&pod.uid).copied().max(over(&pod.key));
            let quiet = quiet.max(quiet_at(pod, quiet.is_some(), around)).unwrap_or_default();
            self.quiet.insert(pod.uid.clone(), quiet);
            if quiet > around.now {
                used.insert(*name);
            }
        }
        let mut asks = Vec::new();
        for (name, (node, goes)) in nodes {
            let is_detached = goes && !used.contains(name);
            let waits =
                self.again.get(name).is_some_and(|(is, again)| *is == is_detached && *again > around.now);
            let is_busy = self.open.len() >= AT_ONCE || self.open.values().any(|(open, _)| open == name);
            if is_detached == node.detached || waits || is_busy {
                continue;
            }
            let id = next_id();
            self.open.insert(id, (name.clone(), is_detached));
            let at = is_detached.then_some(around.wall);
            let write = DetachedWrite { node: name.clone(), uid: node.uid.clone(), at };
            asks.push((id, Request::Detached(write)));
        }
        asks
    }

    /// Handles the result of a write to a node. Returns whether this module sent the request.
    pub fn answered(&mut self, id: RequestId, failure: Option<&Failure>, now: Moment) -> bool {
        let Some((node, is_detached)) = self.open.remove(&id) else { return false };
        let pause = if failure.is_some_and(Failure::is_lasting) { REFUSED } else { SHOWN_WITHIN };
        self.again.insert(node, (is_detached, now + pause));
        true
    }
}

/// When load balancers stop sending to a pod, as far as is known now. Two cases need more time. Another leader may
/// just have deregistered a pod that is terminating when it is first seen. A pod that the previous leader had at
/// another address may still have it, if the watch lags.
fn quiet_at(pod: &PodFacts, is_known: bool, around: &Surroundings<'_>) -> Option<Moment> {
    let since = |bound: Duration| around.now + bound;
    let lingers = Some(around.lingering(pod)).filter(|lingers| !lingers.is_zero());
    let ends = (pod.terminating && !is_known).then_some(around.rules.bounds.network);
    let elsewhere = (around.has_elsewhere(pod) && !is_known).then_some(BEHIND);
    let bound = around.would_be_sent_to(pod).or(ends);
    bound.max(lingers).max(elsewhere).map(since)
}
