//! Nodes that go, and to whose pods no load balancer sends any more.
//!
//! Whoever ends the machine may wait for that. It is written on the Node ([`DETACHED_AT`]) when none of its pods is a target
//! or is to be one, and their load balancers have stopped; and it is taken away when the node stays, or when a pod there is
//! a target again. What counts is the pods that are there: one that has ended loses nothing with the machine.
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

/// As long as a node goes, it is looked at this often. It takes one look at all pods, whatever the number of nodes.
const EVERY: Duration = Duration::from_secs(1);
/// A watch is behind by less than this.
const BEHIND: Duration = Duration::from_mins(2);
/// What Kubernetes does not allow is tried again after so long.
const REFUSED: Duration = Duration::from_secs(60);
/// So many nodes are written to at once.
const AT_ONCE: usize = 20;

#[derive(Clone, Debug, Default)]
pub(super) struct Detaching {
    /// When nodes are looked at next; `None`: when something becomes of one.
    next: Option<Moment>,
    /// The pods of nodes that go, and when no load balancer sends to each any more.
    quiet: BTreeMap<Uid, Moment>,
    /// The nodes that are being written to.
    open: BTreeMap<RequestId, (Arc<str>, bool)>,
    /// The nodes that were written to, and what: the same not again before then, whether it has failed, or somebody else has
    /// undone it.
    again: BTreeMap<Arc<str>, (bool, Moment)>,
}

impl Detaching {
    /// Something has become of a node.
    pub fn touch(&mut self, now: Moment) {
        self.next = self.next.into_iter().chain([now]).min();
    }

    /// When nodes are looked at next.
    pub const fn next_due(&self) -> Option<Moment> {
        self.next
    }

    /// What is to be written on nodes. `over`: when the load balancers have stopped sending to a pod, as is noted on it.
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

    /// A request is answered: was it one of these?
    pub fn answered(&mut self, id: RequestId, failure: Option<&Failure>, now: Moment) -> bool {
        let Some((node, is_detached)) = self.open.remove(&id) else { return false };
        let pause = if failure.is_some_and(Failure::is_lasting) { REFUSED } else { SHOWN_WITHIN };
        self.again.insert(node, (is_detached, now + pause));
        true
    }
}

/// When no load balancer will send to a pod any more, as far as is known now. One that ends already when it is looked at for
/// the first time may have been taken out a moment ago, by another leader; and one that the leader before had at another
/// address may be there, if the watch is behind. That it is out by the word of the ledger alone a read has to show.
fn quiet_at(pod: &PodFacts, is_known: bool, around: &Surroundings<'_>) -> Option<Moment> {
    let since = |bound: Duration| around.now + bound;
    let lingers = Some(around.lingering(pod)).filter(|lingers| !lingers.is_zero());
    let ends = (pod.terminating && !is_known).then_some(around.rules.bounds.network);
    let elsewhere = (around.has_elsewhere(pod) && !is_known).then_some(BEHIND);
    let bound = around.would_be_sent_to(pod).or(ends);
    let unread = around.said_out_of(pod).first().map(|_| EVERY);
    bound.max(lingers).max(elsewhere).max(unread).map(since)
}
