//! The reasons why a request was lost or retried.

use std::io;
use std::time::Duration;

use thiserror::Error;

/// The failure of a request or of an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Failure {
    /// DNS has not returned any address yet.
    #[error("the name has no address")]
    NoAddress,
    /// The connection attempt failed. The cause can be the network, or the generator itself can have run out of ports
    /// or files.
    #[error("cannot connect: {}", io::Error::from(*.0))]
    Connect(io::ErrorKind),
    /// The connection attempt failed with a system error that has no name in Rust.
    #[error("cannot connect: {}", io::Error::from_raw_os_error(*.0))]
    ConnectSystem(i32),
    /// The connection was closed or broke before the first byte of the answer.
    #[error("the connection ended before the answer")]
    EndedBeforeAnswer,
    /// The connection was closed or broke within the answer.
    #[error("the connection ended within the answer")]
    EndedWithinAnswer,
    /// The answer is not HTTP.
    #[error("the answer is not HTTP")]
    NotHttp,
    /// The request timed out.
    #[error("no complete answer within {} ms, while {stage}", timeout.as_millis())]
    TimedOut {
        /// The stage in which the request timed out.
        stage: Stage,
        /// The timeout of the plan.
        timeout: Duration,
    },
    /// The status is not 200.
    #[error("status {0}")]
    Status(u16),
    /// The body has no content-length, so it is unknown whether the body is complete.
    #[error("the answer has no content-length")]
    NoLength,
    /// The body is longer than the generator's limit.
    #[error("the body is longer than {0} bytes")]
    TooLong(usize),
    /// The body is not the answer to the request.
    #[error("the body is not a pod's answer to this request")]
    WrongBody,
}

/// The stage of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The request waits for the DNS server.
    Resolving,
    /// The request waits for the connection to the load balancer.
    Connecting,
    /// The request waits for the answer.
    Answering,
}

impl std::fmt::Display for Stage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Resolving => "resolving the name",
            Self::Connecting => "connecting",
            Self::Answering => "waiting for the answer",
        })
    }
}

impl Failure {
    /// Returns the failure for an error of a connection attempt.
    pub(crate) fn connect(error: &io::Error) -> Self {
        match (error.kind(), error.raw_os_error()) {
            (io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset, _) | (_, None) => {
                Self::Connect(error.kind())
            }
            (_, Some(code)) => Self::ConnectSystem(code),
        }
    }
}
