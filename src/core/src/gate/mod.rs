//! The readiness gate: a pod becomes ready only when the load balancer reports its targets healthy.
//!
//! * **Owns** the pods whose gate is not in its desired state, and the writes to them.
//! * **Flow.** [`Gates::saw`] takes in each pod. The pod waits until its gate is in its desired state. In each step,
//!   [`Gates::judge`] judges the pods that something has happened to, and returns what is due ([`Due`]): reads, writes
//!   and reports to users.
//! * **Assumes** that the caller reports each change that a gate may wait for ([`Gates::touch`]), provides the facts
//!   about a pod when it is judged, and asks for the gate of a pod whose target will be registered again
//!   ([`Gates::close`]).
//!
//! One condition, [`OWN_GATE`](crate::model::readiness::OWN_GATE), covers all bindings of a pod. It belongs to the
//! pod's UID and IP, and to the registration that this Headgate made for them:
//!
//! * It becomes true when every target of the pod is healthy in a read that began after AWS had answered the target's
//!   registration, see [`Registrations::is_told_by`](crate::targets::registration::Registrations::is_told_by).
//! * With `--gate-patience`, it also becomes true for the first time with the reason `HealthUnread`. AWS must have
//!   accepted each registration from this leader, and for this time since then no read was answered and one has
//!   failed. The condition keeps that reason until a read shows the targets healthy. Such an opening counts for nothing
//!   else. If the condition was true and is false now, its message tells the next leader, so this rule does not apply
//!   again.
//! * It becomes false again only when the pod gets another IP, or before Headgate registers a target again that
//!   Headgate itself had deregistered. It never becomes false because the load balancer reports the pod unhealthy, or
//!   because a Service changes: either could make all pods of a Service unready at once.
//! * Without a binding, it becomes true some time after all watches have listed, the pod was first seen, and the
//!   bindings of its namespace changed last.
//! * Headgate leaves it alone in a namespace that is not selected, which may be another installation's. If a pod waited
//!   there while the namespace was selected, Headgate still handles its gate.
//!
//! After a restart, Headgate knows only the condition itself, and the ledger's record of what was deregistered.
//! Headgate leaves every other pod alone whose gate is open for its IP, and judges every closed gate again. The leader
//! writes, oldest first, a few pods at a time. A pod that cannot be written to delays no other pod.
//!
//! ```text
//!  judge     the one rule: may the gate be open? With the reason and a sentence
//!  waiting   one pod whose gate is not in its desired state
//!  gates     all of these pods, and when to write what to each
//! ```

mod gates;
mod judge;
#[cfg(test)]
mod tests;
mod waiting;

pub use gates::{Due, Gates, News, Touched};
pub use judge::judge;
