//! The behavior of a container's process.
//!
//! The module contains only the settings from the pod's annotations.

use crate::span::Span;
use std::time::Duration;

/// The reaction of a process to SIGTERM.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum OnSigterm {
    /// The process closes its listeners and idle connections immediately, finishes requests in flight, and exits.
    #[default]
    Close,
    /// The process continues to serve for this long, with `Connection: close` in each answer. Then the process closes
    /// its listeners.
    Drain(Duration),
    /// The process continues until SIGKILL.
    Ignore,
}

/// The behavior of one process.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Conduct {
    /// The minimum duration of an answer.
    pub request_delay: Span,
    /// The seed of the random delays.
    pub seed: u64,
    /// The delay between the start of the process and the opening of its ports.
    pub start_delay: Duration,
    /// The run time after which the process exits on its own, and the exit code.
    pub ends: Option<(Duration, i32)>,
    /// The reaction to SIGTERM.
    pub on_sigterm: OnSigterm,
    /// The exit code after SIGTERM: 0, or 143 for a process without a signal handler.
    pub sigterm_exit_code: u8,
}
