//! What distinguishes load balancers.

/// The two kinds of load balancer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// TCP; addresses of targets are chosen per connection.
    Network,
    /// HTTP; targets are chosen per request.
    Application,
}

impl Kind {
    /// AWS's word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Network => "network",
            Self::Application => "application",
        }
    }

    /// Its part of an ARN.
    pub fn arn_word(self) -> &'static str {
        match self {
            Self::Network => "net",
            Self::Application => "app",
        }
    }
}
