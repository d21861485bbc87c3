//! `headgate migrate lbc`: from the AWS Load Balancer Controller (LBC) to Headgate without a gap, and back.
//!
//! ```text
//!  gather   TargetGroupBindings, Services, pods, Headgate's bindings, the leader, AWS with the caller's credentials
//!     │
//!     ▼  Facts: plain data
//!  plan     over, back: the steps in the only safe order, each done, due, waiting or rejected: pure
//!     │                                                    diff: per target, by the one rule of the core: pure
//!     ▼  without --apply it is printed; with it
//!  apply    makes the writes of the first step that is not done, and gathers all facts again
//! ```
//!
//! * **Guarantees.** The command remembers nothing: it reads from the cluster which steps are done, so it continues there
//!   after a failure. It removes the finalizer of a TargetGroupBinding, and deletes the object, only while no LBC runs,
//!   because LBC deregisters all targets of a deleted one. The command itself never deregisters targets.
//! * **Assumes** that LBC behaves like its source code: it deregisters targets that are not among its endpoints, and all
//!   targets of a deleted binding.
//! * **Caveat.** Between the end of LBC and the end of the pause, no controller registers or deregisters targets. The
//!   command therefore first waits for running rollouts.

mod apply;
mod back;
pub mod command;
mod diff;
mod facts;
mod gather;
mod lbc;
mod over;
mod record;
mod steps;
#[cfg(test)]
mod tests;
mod text;
mod writes;
