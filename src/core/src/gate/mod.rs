//! The readiness gate: a pod counts as ready only once the load balancer says that it is healthy.
//!
//! * **Owns** the pods whose gate is not as it should be, and what is written to them.
//! * **Flow.** A pod that is seen ([`Gates::saw`]) waits until its gate is as it should be. Each step those are judged that
//!   something has happened to, and what is due is said ([`Due`]): reads, writes, and what users are told.
//! * **Assumes** that whoever changes something that a gate waits for says so ([`Gates::touch`]); that what is known of a
//!   pod is told when it is judged; and that the gate of a pod whose target is put back is asked for ([`Gates::close`]).
//!
//! ONE condition, [`OWN_GATE`](crate::model::readiness::OWN_GATE), for all bindings of a pod. It belongs to the pod's UID and
//! IP, and to the registration that was made from here for the two:
//!
//! * It is true when every target of the pod is healthy in a read that began after its own registration had been
//!   answered, see [`Registrations::is_told_by`](crate::targets::registration::Registrations::is_told_by).
//! * With a patience it also becomes true for the first time (`HealthUnread`) when AWS has taken each registration from
//!   this leader, and since then, for that long, no read was answered and one has failed. It says so until the targets are
//!   seen healthy, and counts for nothing else. What is false after it was true says so in its message for whoever leads
//!   next: that is never its first time.
//! * It is false again only when the pod gets another IP, or when Headgate registers a target again that it had taken
//!   out itself, before it does so; never because the load balancer has come to call the pod unhealthy, nor because a
//!   Service was changed: either could take all pods of a Service out of service at once.
//! * Without a binding it opens when all watches have listed, and some time after the pod was first seen and the
//!   bindings of its namespace changed last.
//! * It is left alone in a namespace that is not selected, which may be another installation's; a pod that waited there
//!   while the namespace was selected is seen to all the same.
//!
//! Nothing is remembered across a restart but what the condition itself says, and the ledger of what was taken out: any
//! other pod whose gate is open for the IP it has is left alone, and every one whose gate is closed is judged anew. Who
//! leads writes, oldest first, a few at a time; one pod that cannot be written to holds up no other.
//!
//! ```text
//!  judge     may it open? the one rule, with its reason and a sentence
//!  waiting   one pod whose gate is not as it should be
//!  gates     all of them, and what is written to them when
//! ```

mod gates;
mod judge;
#[cfg(test)]
mod tests;
mod waiting;

pub use gates::{Due, Gates, News, Touched};
pub use judge::judge;
