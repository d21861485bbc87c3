//! `headgate migrate lbc`: from the AWS Load Balancer Controller (LBC) to Headgate without a gap, and back.
//!
//! ```text
//!  gather   LBC's TargetGroupBindings, Services, pods, what Headgate was told, the leader, AWS with the caller's rights
//!     │
//!     ▼  Facts: plain data
//!  plan     over, back: the steps in the only safe order, each done, due, waited for or refused: pure
//!     │                                                    diff: target by target, by the one rule of the core: pure
//!     ▼  without --apply it is printed; with it
//!  apply    makes the writes of the first step that is not done, and looks at everything again
//! ```
//!
//! * **Guarantees.** Nothing is remembered between two looks: what is done is read from the cluster, so whoever runs it
//!   again after a failure goes on from there. A TargetGroupBinding loses its finalizer, and is deleted, only while no LBC
//!   runs: LBC removes all targets of one that is deleted. Targets are never removed from here.
//! * **Assumes** that LBC behaves as its sources say: it removes what is not among its endpoints, and what is in the target
//!   group of a binding that is deleted.
//! * **Caveat.** Between the end of LBC and the end of the pause nobody registers or removes. So a roll is waited for before.

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
