//! Why a request was lost, or had to be sent again.

use std::io;
use std::time::Duration;

use thiserror::Error;

/// What went wrong with a request.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Failure {
    /// DNS has never given an address.
    #[error("the name has no address")]
    NoAddress,
    /// No connection. Besides what the network says this can be the generator's own lack of ports or files.
    #[error("cannot connect: {}", io::Error::from(*.0))]
    Connect(io::ErrorKind),
    /// No connection, for a reason of the system that has no name.
    #[error("cannot connect: {}", io::Error::from_raw_os_error(*.0))]
    ConnectSystem(i32),
    /// The connection ended, or broke, before the first byte of the answer.
    #[error("the connection ended before the answer")]
    EndedBeforeAnswer,
    /// The connection ended, or broke, within the answer.
    #[error("the connection ended within the answer")]
    EndedWithinAnswer,
    /// What came is not HTTP.
    #[error("the answer is not HTTP")]
    NotHttp,
    /// The time-out passed.
    #[error("no complete answer within {} ms, while {stage}", timeout.as_millis())]
    TimedOut {
        /// What the request was waiting for.
        stage: Stage,
        /// The plan's time-out.
        timeout: Duration,
    },
    /// Another status than 200.
    #[error("status {0}")]
    Status(u16),
    /// The length of the body was not announced, so that nobody can say whether it is complete.
    #[error("the answer has no content-length")]
    NoLength,
    /// The body is longer than the generator reads.
    #[error("the body is longer than {0} bytes")]
    TooLong(usize),
    /// The body is not the answer to this request.
    #[error("the body is not a pod's answer to this request")]
    WrongBody,
}

/// What a request was waiting for when its time-out passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// An answer of the DNS server.
    Resolving,
    /// The load balancer's accepting the connection.
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
    /// From the error of a connect.
    pub(crate) fn connect(error: &io::Error) -> Self {
        match (error.kind(), error.raw_os_error()) {
            (io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset, _) | (_, None) => {
                Self::Connect(error.kind())
            }
            (_, Some(code)) => Self::ConnectSystem(code),
        }
    }
}
