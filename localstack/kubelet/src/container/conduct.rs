//! The behavior of a container's process.
//!
//! Contains the choices that a pod's annotations make for its processes. Plain data.

use crate::span::Span;
use std::time::Duration;

/// What a process does on SIGTERM.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum OnSigterm {
    /// Closes its listeners and idle connections at once, finishes requests in flight, exits.
    #[default]
    Close,
    /// Continues to accept and answer for this long, with `Connection: close` in each answer. Then closes.
    Drain(Duration),
    /// Continues until SIGKILL.
    Ignore,
}

/// The behavior of one process.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Conduct {
    /// The minimum time that an answer takes.
    pub request_delay: Span,
    /// The seed of the delays.
    pub seed: u64,
    /// How long the process runs before its ports open.
    pub start_delay: Duration,
    /// The time after its start when it ends on its own, and its exit code.
    pub ends: Option<(Duration, i32)>,
    /// What it does on SIGTERM.
    pub on_sigterm: OnSigterm,
    /// Its exit code after SIGTERM: 0, or 143 like a process without a handler.
    pub sigterm_exit_code: u8,
}
