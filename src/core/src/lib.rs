//! The decisions of Headgate: the desired targets of each target group, the record of calls to AWS, and the next call.
//!
//! The crate is pure and synchronous, without I/O, clocks or async code. The inputs are the time as a [`Moment`] and
//! events as [`Input`]s. The outputs are the next actions as [`Effect`]s:
//!
//! ```text
//!   watch event ──► Index ──► Registrations ──► Calls ──► Effect::Send ──► AWS
//!   (Input)         desired    what was sent     which                      │
//!                   targets    to AWS, per       call is                    │
//!                     ▲        target group      next                       │
//!                     └───────────────── Input::Answered ◄──────────────────┘
//! ```
//!
//! * A pod's deletion enters the core through [`Engine::step`] as [`Input::Pod`].
//! * `index/verdict.rs` decides whether the pod should still be a target.
//! * The engine emits the call as [`Effect::Send`]. Token buckets determine the order of the calls.
//!
//! The compiler prevents I/O in this crate, because the crate depends on no async runtime, Kubernetes client or AWS
//! SDK. `headgate-daemonset` uses [`model`] and the safety check to decide about IngressDaemonSets. This crate does not
//! depend on `headgate-daemonset`.

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
