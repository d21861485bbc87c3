//! What is kept of each request.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use crate::failure::Failure;
use crate::plan::Mode;

/// How a request ended: exactly one of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// A complete, right answer within the time-out, at the first attempt.
    Ok,
    /// A reused connection ended before any byte of the answer, and the one retry on a new connection brought a
    /// complete, right answer within the time-out. HTTP clients do this by themselves for idempotent requests
    /// (RFC 9110, 9.2.2), so their users see nothing of it.
    Retried,
    /// Everything else.
    Lost,
}

/// One request. 120 bytes, and those of the name of the pod once per pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The client, an index of [`crate::Plan::clients`].
    pub client: usize,
    /// The client's mode.
    pub mode: Mode,
    /// The phase, an index of [`crate::Report::phases`].
    pub phase: usize,
    /// The intended start, in microseconds since 1970.
    pub intended_us: u64,
    /// How much later than intended the request started; the generator's own fault.
    pub late: Duration,
    /// From the intended start to the end.
    pub duration: Duration,
    /// The load balancer's node of the last attempt, if there was an address.
    pub node: Option<IpAddr>,
    /// The local port of the last attempt, if there was a connection.
    pub local_port: Option<u16>,
    /// The pod that answered, as its header `x-pod` says.
    pub pod: Option<Arc<str>>,
    /// How it ended.
    pub outcome: Outcome,
    /// Why it was lost, or why the first attempt failed if it was retried.
    pub failure: Option<Failure>,
}
