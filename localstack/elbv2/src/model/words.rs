//! Properties of target groups in the AWS API: protocols, target types, address families.

use super::{Kind, Refusal};

/// The protocol of a target group or a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // the names of the protocols
pub enum Protocol {
    Http,
    Https,
    Tcp,
    Tls,
    Udp,
    TcpUdp,
}

impl Protocol {
    const ALL: [Self; 6] = [Self::Http, Self::Https, Self::Tcp, Self::Tls, Self::Udp, Self::TcpUdp];

    /// Returns the name in the AWS API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http => "HTTP",
            Self::Https => "HTTPS",
            Self::Tcp => "TCP",
            Self::Tls => "TLS",
            Self::Udp => "UDP",
            Self::TcpUdp => "TCP_UDP",
        }
    }

    /// Parses the name in the AWS API.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        Self::ALL.into_iter().find(|protocol| protocol.as_str() == text).ok_or_else(|| {
            Refusal::validation(format!("'{text}' must be one of 'HTTP, HTTPS, TCP, TLS, UDP, TCP_UDP'"))
        })
    }

    /// Returns the kind of load balancer that uses this protocol.
    pub fn kind(self) -> Kind {
        match self {
            Self::Http | Self::Https => Kind::Application,
            Self::Tcp | Self::Tls | Self::Udp | Self::TcpUdp => Kind::Network,
        }
    }
}

/// The type of a target group's targets. In the stand-in, only `ip` groups accept targets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // the names of the types
pub enum TargetType {
    Ip,
    Instance,
    Lambda,
    Alb,
}

impl TargetType {
    /// Returns the name in the AWS API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ip => "ip",
            Self::Instance => "instance",
            Self::Lambda => "lambda",
            Self::Alb => "alb",
        }
    }

    /// Parses the name in the AWS API.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        [Self::Ip, Self::Instance, Self::Lambda, Self::Alb]
            .into_iter()
            .find(|kind| kind.as_str() == text)
            .ok_or_else(|| Refusal::validation(format!("Target type '{text}' is not valid")))
    }
}

/// The address family of a target group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // the names of the families
pub enum Family {
    Ipv4,
    Ipv6,
}

impl Family {
    /// Returns the name in the AWS API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ipv4 => "ipv4",
            Self::Ipv6 => "ipv6",
        }
    }

    /// Parses the name in the AWS API.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        match text {
            "ipv4" => Ok(Self::Ipv4),
            "ipv6" => Ok(Self::Ipv6),
            _ => Err(Refusal::validation(format!("IP address type '{text}' is not valid"))),
        }
    }
}
