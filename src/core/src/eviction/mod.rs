//! Evictions: a pod that nothing keeps alive is taken out of its target groups before its eviction.
//!
//! Kubernetes ends an evicted pod at once, and a load balancer goes on sending to it for up to two minutes. A pod with a
//! hold answers for so long; one without is evicted only when the load balancer has stopped. Evictions are asked for
//! again and again by whoever drains a node, so nobody has to wait for anything: each request is answered at once, by
//! whichever replica is asked, from what is written on the pod.
//!
//! ```text
//!  a request      ruling      any replica: let it through, or answer 429 and note on the pod that it is to leave; a pod
//!                             without a hold waits only if its node goes, which a GET of the Node confirms
//!  headgate.dev/leaving       ──► the leader: do its PodDisruptionBudgets allow one more departure?
//!                                 DeregisterTargets
//!  headgate.dev/deregistered-at ◄─ AWS has taken it; the load balancer may go on sending for the bound
//!  headgate.dev/may-go        ◄── the bound has passed
//!  the next request           ──► let through
//! ```
//!
//! **Owns** who is asked to leave and how far each is ([`Evictions`]): departures, by request; and pods of nodes that are about
//! to go, which are asked to leave early. What others know of pods, targets, target groups and nodes it asks
//! ([`Surroundings`]), and changes nothing there: the engine does what follows ([`Outcome`], [`Consequence`]).
//!
//! **Flow.** The watch of pods says something ([`Evictions::saw`]); the index or the nodes have taken something in
//! ([`Evictions::follow`]): some pods go with their nodes, or come back. Something else has happened ([`Evictions::touch`]).
//! Those that it concerns are looked at ([`Evictions::due`]): each wants to be checked or marked, or waits. Both come back as
//! [`Evictions::answered`].
//!
//! ```text
//!  ruling      what is answered to a request      departure   one pod: what is done about it next
//!  zone        the zone guard                     departures  all of them, and the requests under way
//!  early       the pods of nodes that go          surroundings what the others know
//!  seen        since when it is seen what is     share       the pods that nobody evicts, and how many of them
//!              written on a pod                            leave at a time
//!  detaching   nodes that go, and to whose pods
//!              no load balancer sends any more
//! ```
//!
//! **Guarantees.**
//! * Who is asked never decides. A replica that is asked reads ([`Surroundings::rule`]), and notes; only the leader takes pods
//!   out.
//! * One departure more than a budget allows is none. A dry run of the eviction reserves nothing, so the leader also
//!   counts the departures that it has under way: they are taken off what the budget allows.
//! * A request is no proof. Whoever knows the webhook's path can ask for any pod. So a request takes out no pod with its
//!   hold, and none whose node takes pods and is not about to go: the eviction of that one passes, with an Event
//!   ([`Cause::HoldMissing`](crate::model::Cause::HoldMissing)). A pod that was taken out is put back soon when nobody asks
//!   again.
//! * No clock of another machine ends a wait early, or holds one up: each begins when this replica sees what begins it
//!   ([`Written`](crate::model::Written)).
//! * What is written is not believed blindly. Times and bounds that cannot be true are taken away again.
//! * Nothing is delayed without end. Each wait has a bound of its own, after which the eviction is let through, with
//!   a word why. What a budget refuses is refused by Kubernetes, not here.
//! * A zone keeps a healthy target while one can come (`zone.rs`): also a pod with its hold waits for that.
//! * What is given up is undone. A pod that nobody has asked to leave for a while is put back.
//! * What happens costs what those pods cost that it concerns: each departure has a time at which it is looked at next.
//!
//! **Assumptions.** What is written on pods is enough: a new leader goes on from there. All of it names the UID of the pod.
//! Whoever changes something that matters to a pod that leaves says so ([`Evictions::touch`]); zones and budgets are looked
//! at again every second or two all the same.
//!
//! **Caveats.** While ten thousand pods wait for their zones, each is looked at once a second; and so is every pod while a
//! node goes (`detaching.rs`).

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

/// Whether nothing of a pod has begun to end.
fn stays_alive(pod: &PodFacts) -> bool {
    pod.goes().is_none()
}

/// What has happened.
#[derive(Clone, Copy, Debug)]
pub enum Touched<'a> {
    Pod(&'a ObjectKey),
    /// The removal of a target at an address of this pod is sent.
    Removal(&'a ObjectKey),
    Group(&'a TargetGroupArn),
    /// What binds the pods of this namespace was decided anew.
    Namespace(&'a str),
    /// The ledgers were read: they have targets of these pods.
    Ledgers(&'a BTreeSet<PodMark>),
    /// Something that may matter to any: nodes, or which namespaces are selected.
    All,
}

/// The pods that something is about which names no target group.
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
