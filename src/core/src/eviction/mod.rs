//! Evictions: a pod without a hold is deregistered from its target groups before it is evicted.
//!
//! Kubernetes terminates an evicted pod at once, and a load balancer keeps sending to it for up to two minutes. A pod
//! with a hold keeps serving for that time. A pod without one is evicted only after the load balancer has stopped.
//! Drain tools repeat their requests, so no request blocks: the replica that receives it answers at once, from the
//! annotations on the pod.
//!
//! ```text
//!  a request      ruling      any replica: allow it, or answer 429 and record the request on the pod. A pod without
//!                             a hold waits only if its node will be removed or is cordoned; a GET of the Node
//!                             confirms that.
//!  headgate.dev/leaving       ──► the leader: do the PodDisruptionBudgets allow one more eviction?
//!                                 DeregisterTargets
//!  headgate.dev/deregistered-at ◄─ AWS has accepted it; the load balancer may keep sending for the propagation delay
//!  headgate.dev/may-go        ◄── the propagation delay has passed
//!  the next request           ──► allowed
//! ```
//!
//! **Owns** which pods should be evicted, and the progress of each ([`Evictions`]): pods with a request, and pods whose
//! node will be removed, which Headgate deregisters early without a request. It reads pods, targets, target groups and
//! nodes through [`Surroundings`] and changes none of them. The engine acts on the results ([`Outcome`],
//! [`Consequence`]).
//!
//! **Flow.** The watch reports a pod ([`Evictions::saw`]). The index or the nodes have been updated
//! ([`Evictions::follow`]): pods are deregistered with their node, or are registered again. Another event has happened
//! ([`Evictions::touch`]). [`Evictions::due`] examines the affected pods: each is checked, gets a record, or waits. The
//! answers to checks and writes arrive in [`Evictions::answered`].
//!
//! ```text
//!  ruling      the answer to a request             departure    one pod: the leader's next step
//!  zone        the zone guard                      departures   all these pods, and the requests in flight
//!  early       pods whose node will be removed     surroundings data about pods, targets and nodes
//!  seen        when this replica first saw each    share        pods that drain tools skip, and how many of them
//!              record on a pod                                  are deregistered at a time
//!  detaching   nodes that will be removed and
//!              receive no more traffic
//! ```
//!
//! **Guarantees.**
//! * The replica that answers a request does not deregister. It reads ([`Surroundings::rule`]) and writes a record;
//!   only the leader deregisters pods.
//! * The leader deregisters no more pods for their evictions than a PodDisruptionBudget allows. A dry run of the
//!   eviction reserves nothing, so the leader also subtracts the evictions in progress from what the budget allows.
//! * A request is not trusted. Anyone who knows the webhook's path can request the eviction of any pod. A request
//!   therefore never deregisters a pod with its hold, or a pod whose node remains. The eviction of the latter is
//!   allowed, with an Event ([`Cause::HoldMissing`](crate::model::Cause::HoldMissing)).
//! * Clock skew between machines neither shortens nor extends a wait. Each wait begins when this replica sees the event
//!   that starts it ([`Written`](crate::model::Written)).
//! * Headgate removes records with implausible times or delays.
//! * Every wait has a timeout. After it the eviction is allowed, with an Event that gives the reason. Only a wait for a
//!   budget has none, because Kubernetes itself would reject the eviction.
//! * A zone keeps a healthy target while a replacement may start (`zone.rs`). A pod with its hold waits for that too.
//! * A pod is registered again if its eviction was not requested for a while.
//! * The cost of an event depends only on the pods that it affects: each pod has its own time for the next check.
//!
//! **Assumes** that the annotations on the pods are complete, so that a new leader can resume. All of them contain the
//! UID of the pod. The caller reports each change that affects such a pod ([`Evictions::touch`]). Zones and budgets are
//! also checked every second or two.
//!
//! **Caveats.** If ten thousand pods wait for their zones, each is checked once a second. While a node is being
//! removed, every pod is checked once a second (`detaching.rs`).

mod departure;
mod departures;
mod detaching;
mod early;
mod evictions;
pub mod ruling;
mod seen;
mod share;
mod surroundings;
mod zone;

use std::collections::{BTreeMap, BTreeSet};

pub use departures::Outcome;
pub use evictions::{Consequence, Evictions, Followed, Late};
pub use surroundings::Surroundings;

use crate::{
    ledger::PodMark,
    model::{ObjectKey, PodFacts, TargetGroupArn, object::within},
};

/// Whether no part of the pod has begun to terminate.
fn stays_alive(pod: &PodFacts) -> bool {
    pod.goes().is_none()
}

/// An event.
#[derive(Clone, Copy, Debug)]
pub enum Touched<'a> {
    Pod(&'a ObjectKey),
    /// A `DeregisterTargets` for an address of this pod is sent.
    Removal(&'a ObjectKey),
    Group(&'a TargetGroupArn),
    /// The bindings of the pods in this namespace were decided again.
    Namespace(&'a str),
    /// The ledgers were read. They contain targets of these pods.
    Ledgers(&'a BTreeSet<PodMark>),
    /// A change that may affect any pod: of nodes, or of the selected namespaces.
    All,
}

/// The pods that an event affects. Empty for the events about target groups, removals and ledgers.
fn these<T>(pods: &BTreeMap<ObjectKey, T>, touched: Touched<'_>) -> Vec<ObjectKey> {
    match touched {
        Touched::Pod(pod) => pods.contains_key(pod).then(|| pod.clone()).into_iter().collect(),
        Touched::Namespace(namespace) => within(pods, namespace).map(|(pod, _)| pod.clone()).collect(),
        Touched::All => pods.keys().cloned().collect(),
        Touched::Removal(_) | Touched::Group(_) | Touched::Ledgers(_) => Vec::new(),
    }
}

#[cfg(test)]
mod tests;
