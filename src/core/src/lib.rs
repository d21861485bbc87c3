//! The decisions of Headgate: which pods should be targets of which target groups, what has been told to AWS,
//! and which call is due next.
//!
//! Everything here is pure and synchronous: no I/O, no clock, no async. Time comes in as a [`Moment`], what the
//! world says comes in as an [`Input`], and what should be done comes out as [`Effect`]s:
//!
//! ```text
//!   watch event ──► Index ──► Registrations ──► Lanes ──► Effect::Call ──► AWS
//!   (Input)         who        what AWS was      which                      │
//!                   should     told, per         call is                    │
//!                   be where   target group      next                       │
//!                     ▲                                                     │
//!                     └───────────────── Input::Answer ◄────────────────────┘
//! ```
//!
//! * a pod's deletion enters at [`Engine::step`] as [`Input::Pod`],
//! * whether it still should be a target is decided by [`verdict`](verdict::verdict) and the [`index`],
//! * the call leaves as [`Effect::Call`], ordered by the [`lanes`].
//!
//! The crate has no dependency on an async runtime, a Kubernetes client or the AWS SDK, so the compiler keeps
//! the rule.

pub mod annotation;
pub mod backoff;
pub mod binding;
pub mod bucket;
pub mod directory;
pub mod engine;
pub mod excerpt;
pub mod explanation;
pub mod gate;
pub mod health;
pub mod hold;
pub mod index;
pub mod inject;
pub mod input;
pub mod lanes;
pub mod lease;
pub mod leaving;
pub mod ledger;
pub mod lifespan;
pub mod node;
pub mod notice;
pub mod object;
pub mod observe;
pub mod origin;
pub mod pod;
pub mod policy;
pub mod problem;
pub mod readiness;
pub mod reason;
pub mod registration;
pub mod rotation;
pub mod secret_path;
pub mod service;
pub mod shared;
pub mod signal;
pub mod target;
pub mod target_group;
pub mod time;
pub mod verdict;
pub mod view;
pub mod written;

mod planted;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod testing;

pub use engine::{Effect, Engine, Settings, Span};
pub use input::{Answer, Call, CallId, CallItem, Change, ErrorClass, Failure, Input, Leadership, Scope};
pub use origin::Origin;
pub use reason::Reason;
pub use target::Target;
pub use time::{Moment, WallTime};
