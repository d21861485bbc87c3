//! The readiness gate: a pod becomes ready only when the load balancer reports its targets healthy.
//!
//! * **Owns** the pods whose gate is not in its desired state, and the writes to these pods.
//! * **Flow.** [`Gates::saw`] receives each pod. In each step, [`Gates::judge`] evaluates all pods with an event. The
//!   result is a list of actions ([`Due`]): reads, writes and reports to users.
//! * **Assumes** that the caller reports each event that can change a gate ([`Gates::touch`]) and provides the facts
//!   about each pod. Before the caller registers a target again, it must close the gate of that pod ([`Gates::close`]).
//!
//! One condition, [`OWN_GATE`](crate::model::readiness::OWN_GATE), covers all bindings of a pod. The condition applies
//! to the pod's UID and IP, and to the targets that this Headgate registered for the pod:
//!
//! * The condition becomes true when `DescribeTargetHealth` returns every target of the pod as healthy. Headgate must
//!   have sent the call after AWS accepted the registration of the target, see
//!   [`Registrations::is_told_by`](crate::targets::registration::Registrations::is_told_by).
//! * With `--gate-patience`, the condition can also become true for the first time with the reason `HealthUnread`. AWS
//!   must have accepted each registration from this leader. Since the last registration, at least one
//!   `DescribeTargetHealth` call must have failed, and no call may have succeeded within the timeout. The condition
//!   keeps the reason `HealthUnread` until AWS reports the targets healthy. Headgate never treats a gate with this
//!   reason as proof of health. If the condition was true before, its message contains this information. The next
//!   leader then does not open the gate again without known health.
//! * The condition becomes false again only if the pod gets another IP, or before Headgate registers a target again
//!   that Headgate itself had deregistered. The condition never becomes false because a target is unhealthy or a
//!   Service changes: either could make all pods of a Service unready at once.
//! * For a pod without a binding, the condition becomes true after a timeout. The timeout starts when all watches have
//!   listed, the pod was first seen, and the bindings of its namespace last changed.
//! * Headgate does not write the condition in a namespace that is not selected, because another installation may manage
//!   the namespace. If the namespace was selected while a pod waited, Headgate still writes the condition of that pod.
//!
//! After a restart, Headgate knows only the condition, and the deregistered targets from the ledger. Headgate evaluates
//! every closed gate again. Headgate does not change a gate that is open for the pod's IP, unless the ledger records a
//! deregistration of the pod. The leader writes the conditions of a few pods at a time, oldest first. A failed write to
//! one pod does not delay the other pods.
//!
//! ```text
//!  judge     the rule that decides whether the gate should be open, with a reason and a sentence
//!  waiting   one pod whose gate is not in its desired state
//!  gates     all of these pods, and the writes that each of them needs
//! ```

mod gates;
mod judge;
#[cfg(test)]
mod tests;
mod waiting;

pub use gates::{Due, Gates, News, Touched};
pub use judge::judge;
