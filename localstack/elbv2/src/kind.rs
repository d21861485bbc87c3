//! The kinds of load balancers, and their differences.

/// The two kinds of load balancers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// TCP. A node chooses a target for each connection.
    Network,
    /// HTTP. A node chooses a target for each request.
    Application,
}

impl Kind {
    /// Returns the name in the AWS API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Network => "network",
            Self::Application => "application",
        }
    }

    /// Returns the name in an ARN.
    pub fn arn_word(self) -> &'static str {
        match self {
            Self::Network => "net",
            Self::Application => "app",
        }
    }
}
