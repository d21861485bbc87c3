//! How the process of a container behaves.
//!
//! Owns the choices that a pod's annotations make for its processes. Plain data: the process and its servers
//! read it, nothing here acts.

use crate::span::Span;
use std::time::Duration;

/// What a process does on SIGTERM.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum OnSigterm {
    /// Closes its listeners and idle connections at once, finishes what is in flight, exits.
    #[default]
    Close,
    /// Goes on accepting and answering for this long, each answer with `Connection: close`, then closes.
    Drain(Duration),
    /// Goes on until SIGKILL.
    Ignore,
}

/// How one process behaves.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Conduct {
    /// How long each answer takes at the least.
    pub request_delay: Span,
    /// What the delays are drawn with.
    pub seed: u64,
    /// How long the process runs before its ports open.
    pub start_delay: Duration,
    /// When it ends by itself, after its start, and with which exit code.
    pub ends: Option<(Duration, i32)>,
    /// What it does on SIGTERM.
    pub on_sigterm: OnSigterm,
    /// What it exits with after SIGTERM: 0, or 143 as a process without a handler.
    pub sigterm_exit_code: u8,
}
