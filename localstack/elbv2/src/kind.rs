//! The differences between the kinds of load balancer.

/// The two kinds of load balancer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// TCP. It chooses a target for each connection.
    Network,
    /// HTTP. It chooses a target for each request.
    Application,
}

impl Kind {
    /// The name in the AWS API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Network => "network",
            Self::Application => "application",
        }
    }

    /// The name in an ARN.
    pub fn arn_word(self) -> &'static str {
        match self {
            Self::Network => "net",
            Self::Application => "app",
        }
    }
}
