//! `headgate migrate lbc`: migrates from the AWS Load Balancer Controller (LBC) to Headgate without a gap, or back.
//!
//! ```text
//!  gather   TargetGroupBindings, Services, pods, Headgate's bindings, the leader, AWS with the caller's credentials
//!     │
//!     ▼  Facts: plain data
//!  plan     over, back: the steps in the only safe order, each done, due, waiting or rejected: pure
//!     │                                                    diff: per target, by the one rule of the core: pure
//!     ▼  without --apply, the command prints the plan; with --apply:
//!  apply    makes the writes of the first step that is not done, and gathers all facts again
//! ```
//!
//! * **Guarantees.** The command stores no progress. The command derives the completed steps from the cluster, so you
//!   can run the command again after a failure. The command removes LBC's finalizer and deletes a TargetGroupBinding
//!   only while LBC is stopped, because LBC deregisters all targets of a deleted TargetGroupBinding. The command itself
//!   never deregisters targets.
//! * **Assumes** that LBC behaves as its source code does. LBC deregisters targets that are not among its endpoints,
//!   and all targets of a deleted binding.
//! * **Caveat.** After LBC stops and until Headgate's pause is removed, no controller registers or deregisters targets.
//!   The command therefore first waits for running rollouts.

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
