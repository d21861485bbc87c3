//! Why a request was lost or retried.

use std::io;
use std::time::Duration;

use thiserror::Error;

/// What went wrong with a request.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Failure {
    /// DNS has never returned an address.
    #[error("the name has no address")]
    NoAddress,
    /// The connection failed. Besides network errors, the generator itself may have run out of ports or files.
    #[error("cannot connect: {}", io::Error::from(*.0))]
    Connect(io::ErrorKind),
    /// The connection failed with a system error that has no name in Rust.
    #[error("cannot connect: {}", io::Error::from_raw_os_error(*.0))]
    ConnectSystem(i32),
    /// The connection ended, or broke, before the first byte of the answer.
    #[error("the connection ended before the answer")]
    EndedBeforeAnswer,
    /// The connection ended, or broke, within the answer.
    #[error("the connection ended within the answer")]
    EndedWithinAnswer,
    /// The answer is not HTTP.
    #[error("the answer is not HTTP")]
    NotHttp,
    /// The timeout passed.
    #[error("no complete answer within {} ms, while {stage}", timeout.as_millis())]
    TimedOut {
        /// What the request was waiting for.
        stage: Stage,
        /// The timeout of the plan.
        timeout: Duration,
    },
    /// A status other than 200.
    #[error("status {0}")]
    Status(u16),
    /// The body has no content-length, so it is unknown whether it is complete.
    #[error("the answer has no content-length")]
    NoLength,
    /// The body is longer than the generator reads.
    #[error("the body is longer than {0} bytes")]
    TooLong(usize),
    /// The body is not the answer to this request.
    #[error("the body is not a pod's answer to this request")]
    WrongBody,
}

/// What a request was waiting for at its timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// An answer of the DNS server.
    Resolving,
    /// The connection to the load balancer.
    Connecting,
    /// The answer.
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
    /// The failure for an error of a connect.
    pub(crate) fn connect(error: &io::Error) -> Self {
        match (error.kind(), error.raw_os_error()) {
            (io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset, _) | (_, None) => {
                Self::Connect(error.kind())
            }
            (_, Some(code)) => Self::ConnectSystem(code),
        }
    }
}
