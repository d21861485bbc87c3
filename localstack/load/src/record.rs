//! The record of each request.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use crate::failure::Failure;
use crate::plan::Mode;

/// The outcome of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// A complete, correct answer within the timeout, at the first attempt.
    Ok,
    /// A reused connection ended before any byte of the answer, and the one retry on a new connection got a complete,
    /// correct answer within the timeout. HTTP clients retry idempotent requests automatically (RFC 9110, 9.2.2), so
    /// their users do not notice it.
    Retried,
    /// All other requests.
    Lost,
}

/// The record of one request. It takes 120 bytes; each pod's name is stored once.
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
    /// How much later than intended the request started, because of the generator.
    pub late: Duration,
    /// From the intended start to the end.
    pub duration: Duration,
    /// The load balancer's node of the last attempt, if there was an address.
    pub node: Option<IpAddr>,
    /// The local port of the last attempt, if there was a connection.
    pub local_port: Option<u16>,
    /// The pod that answered, from the header `x-pod`.
    pub pod: Option<Arc<str>>,
    /// Its outcome.
    pub outcome: Outcome,
    /// Why it was lost, or why the first attempt failed if it was retried.
    pub failure: Option<Failure>,
}
