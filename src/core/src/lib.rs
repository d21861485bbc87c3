//! The decisions of Headgate: which pods should be targets of which target groups, and which call to AWS is due next.
//!
//! The core is pure and synchronous: no I/O, no clock, no async. The inputs are the time as a [`Moment`] and events as
//! [`Input`]s. The outputs are the next actions as [`Effect`]s:
//!
//! ```text
//!   watch event ──► Index ──► Registrations ──► Calls ──► Effect::Send ──► AWS
//!   (Input)         desired    what was sent     which                      │
//!                   targets    to AWS, per       call is                    │
//!                     ▲        target group      next                       │
//!                     └───────────────── Input::Answered ◄──────────────────┘
//! ```
//!
//! * [`Engine::step`] receives the deletion of a pod as [`Input::Pod`],
//! * `index/verdict.rs` decides whether the pod should still be a target,
//! * the engine emits the call as [`Effect::Send`]; token buckets decide the order of calls.
//!
//! The crate has no dependency on an async runtime, a Kubernetes client or the AWS SDK, so the compiler prevents I/O in
//! the core. The crate `headgate-daemonset`, which decides about IngressDaemonSets, uses [`model`] and the safety
//! check. The core does not depend on `headgate-daemonset`.

mod agenda;
mod backoff;
pub mod binding;
pub mod brake;
pub mod engine;
mod eviction;
mod gate;
mod hold;
mod index;
pub mod inject;
pub mod lanes;
pub mod leadership;
pub mod lifespan;
pub mod model;
mod multimap;
mod nodes;
mod report;
pub mod requests;
mod services;
pub mod targets;

#[cfg(test)]
mod properties;
#[cfg(test)]
mod testing;

pub use engine::{Effect, Engine, Input, Leadership, Span};
pub use index::verdict::verdict;
pub use model::{
    cause::Cause,
    explanation, ledger,
    origin::Origin,
    reason::Reason,
    request::{Call, CallItem, Failure, FailureClass, RequestId},
    settings::Settings,
    target::Target,
    time::{Moment, WallTime},
    view,
    watch::{Change, Scope},
};
pub use report::{
    action::EventAction,
    journal::{self, Journal},
};
pub use requests::{Answer, Request};
