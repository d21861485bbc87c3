//! `make chaos`: rolls under traffic, and faults during them, one after the other, for as long as is asked. No request may
//! be lost, and after each round AWS must hold exactly what is wanted.
//!
//! ```text
//!  plan       which faults, when and for how long: from a seed, each shorter than the margin
//!  replicas   two replicas of Headgate, each with ways of its own to the API server and to AWS
//!  stage      a Deployment behind an NLB, one behind an ALB, a foreign target in the group of each
//!  faults     how each fault is made, and mended
//!  quiet      what must be so when all has come to rest
//!  round      traffic, rolls, faults, rest, counts
//!  report     what is said of it: target/chaos/report.md
//! ```
//!
//! Another fault is a variant of [`plan::Fault`] and its making in `faults`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::missing_panics_doc)] // what cannot go on panics

pub mod faults;
pub mod plan;
pub mod quiet;
pub mod replicas;
pub mod report;
pub mod round;
pub mod stage;
