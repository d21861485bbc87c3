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
    /// The first attempt got a complete and correct answer within the timeout.
    Ok,
    /// A reused connection was closed before any byte of the answer, and the single retry on a new connection succeeded
    /// within the timeout. HTTP clients retry idempotent requests automatically (RFC 9110, 9.2.2), so users do not
    /// notice the retry.
    Retried,
    /// The request failed in any other way.
    Lost,
}

/// The record of one request, which needs 120 bytes. The name of each pod is stored once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The client, as an index of [`crate::Plan::clients`].
    pub client: usize,
    /// The connection mode of the client.
    pub mode: Mode,
    /// The phase, as an index of [`crate::Report::phases`].
    pub phase: usize,
    /// The intended start, in microseconds since 1970.
    pub intended_us: u64,
    /// The delay of the request's start, which the generator itself caused.
    pub late: Duration,
    /// The time from the intended start to the completion.
    pub duration: Duration,
    /// The load balancer node of the last attempt. `None`: there was no address.
    pub node: Option<IpAddr>,
    /// The local port of the last attempt. `None`: there was no connection.
    pub local_port: Option<u16>,
    /// The name of the pod that answered, from the header `x-pod`.
    pub pod: Option<Arc<str>>,
    /// The outcome of the request.
    pub outcome: Outcome,
    /// The reason why the request was lost, or why the first attempt failed.
    pub failure: Option<Failure>,
}
