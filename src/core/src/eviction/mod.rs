//! Evictions: Headgate deregisters a pod without a hold from its target groups before the pod is evicted.
//!
//! Kubernetes terminates an evicted pod immediately, but a load balancer keeps sending to the pod for up to two
//! minutes. A pod with a hold keeps serving until the load balancer stops sending to the pod. Headgate allows the
//! eviction of a pod without a hold only after the load balancer has stopped sending to the pod. Drain tools repeat
//! their requests, so no request blocks. The replica that receives a request answers immediately, based on the
//! annotations on the pod.
//!
//! ```text
//!  a request      ruling      any replica: allow the eviction, or answer 429 and write the request to the pod.
//!                             A pod without a hold waits only if its node will be removed or is cordoned;
//!                             a GET of the Node confirms this.
//!  headgate.dev/leaving       ──► the leader: do the PodDisruptionBudgets allow one more eviction?
//!                                 DeregisterTargets
//!  headgate.dev/deregistered-at ◄─ AWS has accepted the call; the propagation delay starts
//!  headgate.dev/may-go        ◄── the propagation delay has passed
//!  the next request           ──► allowed
//! ```
//!
//! **Owns** the pods that should be evicted, and the progress of each eviction ([`Evictions`]). A pod should be evicted
//! if a client requests its eviction or its node will be removed. If the node of a pod will be removed, Headgate can
//! deregister the pod early without a request. The module reads pods, targets, target groups and nodes through
//! [`Surroundings`] and changes only its own state. The engine acts on the results ([`Outcome`], [`Consequence`]).
//!
//! **Flow.** [`Evictions::saw`] receives each pod from the watch. [`Evictions::follow`] is called after an update of
//! the index or the nodes, and returns pods that are deregistered with their node or registered again.
//! [`Evictions::touch`] receives all other events. [`Evictions::due`] examines the affected pods: Headgate checks a
//! pod, writes an annotation, or waits. [`Evictions::answered`] receives the answers to checks and writes.
//!
//! ```text
//!  ruling      the answer to a request             departure    one pod: the leader's next step
//!  zone        the zone guard                      departures   all these pods, and the requests in flight
//!  early       pods whose node will be removed     surroundings data about pods, targets and nodes
//!  seen        when this replica first saw each    share        pods that drain tools skip, and how many of these
//!              annotation on a pod                              pods are deregistered at a time
//!  detaching   nodes that will be removed and
//!              receive no more traffic
//! ```
//!
//! **Guarantees.**
//! * The replica that answers a request reads ([`Surroundings::rule`]) and writes an annotation. Only the leader
//!   deregisters pods.
//! * The leader deregisters no more pods for their evictions than a PodDisruptionBudget allows. A dry run of an
//!   eviction does not reserve anything in the budget. The leader therefore also subtracts the evictions in progress
//!   from the allowed evictions.
//! * Headgate does not trust requests, because anyone who knows the webhook's path can request the eviction of any pod.
//!   A request therefore never deregisters a pod with a hold, or a pod whose node remains. If the node remains, the
//!   eviction is allowed with an Event ([`Cause::HoldMissing`](crate::model::Cause::HoldMissing)).
//! * Clock skew between machines neither shortens nor extends a wait. Each wait starts when this replica sees the event
//!   that triggers the wait ([`Written`](crate::model::Written)).
//! * Headgate removes annotations with implausible times or delays.
//! * Every wait has a timeout, except a wait for a PodDisruptionBudget. After the timeout, the eviction is allowed with
//!   an Event that gives the reason. During a wait for a budget, Kubernetes itself would reject the eviction.
//! * A zone keeps a healthy target while a replacement may start (`zone.rs`). A pod with a hold also waits for its
//!   zone.
//! * Headgate registers a pod again if no client has requested its eviction for a while.
//! * The cost of an event depends only on the affected pods, because each pod has its own time for the next check.
//!
//! **Assumes** that the annotations on the pods are complete, so that a new leader can resume. Each annotation contains
//! the UID of the pod. The caller reports each change that affects a pod with an eviction in progress
//! ([`Evictions::touch`]). In addition, the leader checks zones every second and budgets every 2 s.
//!
//! **Caveats.** If ten thousand pods wait for their zones, Headgate checks each of these pods once a second. While a
//! node is being removed, Headgate checks every pod once a second (`detaching.rs`).

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

/// Whether the pod is neither terminating nor terminated.
fn stays_alive(pod: &PodFacts) -> bool {
    pod.goes().is_none()
}

/// An event that may affect evictions.
#[derive(Clone, Copy, Debug)]
pub enum Touched<'a> {
    Pod(&'a ObjectKey),
    /// Headgate sends a `DeregisterTargets` call for an address of this pod.
    Removal(&'a ObjectKey),
    Group(&'a TargetGroupArn),
    /// The bindings in this namespace may have changed.
    Namespace(&'a str),
    /// The ledgers were read. The ledgers contain targets of these pods.
    Ledgers(&'a BTreeSet<PodMark>),
    /// A change that may affect any pod, such as a change of nodes or of the selected namespaces.
    All,
}

/// The pods that an event affects. The result is empty for events about target groups, deregistrations and ledgers.
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
