//! Nodes that will be removed and whose pods receive no more traffic from load balancers.
//!
//! The component that terminates the machine can wait for that. Headgate annotates the Node ([`DETACHED_AT`]) when none
//! of its pods is or should be a target, and the load balancers have stopped sending to them. Headgate removes the
//! annotation when the node remains, or when one of its pods is a target again. Only existing pods count: one that has
//! ended loses nothing with the machine.
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

/// While a node is being removed, all pods are checked this often, in one pass for all nodes.
const EVERY: Duration = Duration::from_secs(1);
/// A watch lags by less than this.
const BEHIND: Duration = Duration::from_mins(2);
/// A write that Kubernetes rejects is retried after this time.
const REFUSED: Duration = Duration::from_secs(60);
/// At most this many nodes are written to at once.
const AT_ONCE: usize = 20;

#[derive(Clone, Debug, Default)]
pub(super) struct Detaching {
    /// When nodes are checked next. `None`: after the next event about a node.
    next: Option<Moment>,
    /// The pods of nodes that will be removed, and when load balancers stop sending to each.
    quiet: BTreeMap<Uid, Moment>,
    /// The writes to nodes in flight.
    open: BTreeMap<RequestId, (Arc<str>, bool)>,
    /// The last write to each node, and the earliest time to repeat it, if it has failed or somebody else has undone
    /// it.
    again: BTreeMap<Arc<str>, (bool, Moment)>,
}

impl Detaching {
    /// Schedules a check after an event about a node.
    pub fn touch(&mut self, now: Moment) {
        self.next = self.next.into_iter().chain([now]).min();
    }

    /// When nodes are checked next.
    pub const fn next_due(&self) -> Option<Moment> {
        self.next
    }

    /// The annotations to write or remove now. `over`: when load balancers stop sending to a pod, according to its
    /// records.
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
            if pod.ips.is_empty() && (node.detached || !around.has_elsewhere(pod)) {
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

    /// Ends a request. Returns whether it was one of this module.
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
