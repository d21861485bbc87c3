//! Target groups: their names, their data in AWS, and whether Headgate supports them.

use std::{fmt, net::IpAddr, sync::Arc, time::Duration};

use thiserror::Error;

use crate::model::{excerpt::brief, hold::Bounds, pod::Protocol, time::Window, words::words};

/// The ARN of a target group, in the form
/// `arn:PARTITION:elasticloadbalancing:REGION:ACCOUNT:targetgroup/NAME/ID`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TargetGroupArn(Arc<str>);

impl TargetGroupArn {
    /// Parses an ARN.
    ///
    /// # Errors
    /// [`ReferenceError::Arn`] with the invalid part.
    pub fn parse(text: &str) -> Result<Self, ReferenceError> {
        let wrong = |piece| Err(ReferenceError::Arn { text: brief(text).into(), piece });
        let mut pieces = text.splitn(6, ':');
        let mut next = || pieces.next().unwrap_or_default();
        if next() != "arn" {
            return wrong("it does not begin with \"arn:\"");
        }
        if !next().starts_with("aws") {
            return wrong("the partition does not begin with aws");
        }
        if next() != "elasticloadbalancing" {
            return wrong("the service is not elasticloadbalancing");
        }
        let region = next();
        if region.is_empty()
            || !region.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        {
            return wrong("the region is not valid");
        }
        let account = next();
        if account.len() != 12 || !account.bytes().all(|b| b.is_ascii_digit()) {
            return wrong("the account is not 12 digits");
        }
        let resource: Vec<&str> = next().split('/').collect();
        let [kind, name, id] = resource[..] else {
            return wrong("it does not end in targetgroup/NAME/ID");
        };
        if kind != "targetgroup" {
            return wrong("the resource is not a targetgroup");
        }
        if check_name(name).is_err() {
            return wrong("the name is not valid");
        }
        if id.is_empty() || !id.bytes().all(|b| b.is_ascii_alphanumeric()) {
            return wrong("the ID is not valid");
        }
        Ok(Self(text.into()))
    }

    /// The ARN as AWS writes it.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The region of the target group.
    pub fn region(&self) -> &str {
        self.0.split(':').nth(3).unwrap_or_default()
    }

    /// The account that the target group belongs to.
    pub fn account(&self) -> &str {
        self.0.split(':').nth(4).unwrap_or_default()
    }

    /// The name of the target group, which is unique per account and region.
    pub fn name(&self) -> &str {
        self.0.split('/').nth(1).unwrap_or_default()
    }

    /// Whether the other ARN has the same name, account and region, but belongs to a different target group. At most
    /// one of the two target groups still exists.
    pub fn is_twin_of(&self, other: &Self) -> bool {
        let is_there = self.account() == other.account() && self.region() == other.region();
        self != other && self.name() == other.name() && is_there
    }
}

impl fmt::Display for TargetGroupArn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for TargetGroupArn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// How a user names a target group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GroupRef {
    /// The ARN of a target group.
    Arn(TargetGroupArn),
    /// The name of a target group in Headgate's own account and region.
    Name(Arc<str>),
}

impl GroupRef {
    /// Parses an ARN or a name.
    ///
    /// # Errors
    /// The text is neither a valid ARN nor a valid name.
    pub fn parse(text: &str) -> Result<Self, ReferenceError> {
        if text.starts_with("tag:") {
            Err(ReferenceError::Tag { text: brief(text).into() })
        } else if text.contains(':') || text.contains('/') {
            TargetGroupArn::parse(text).map(Self::Arn)
        } else {
            check_name(text).map_err(|piece| ReferenceError::Name { text: brief(text).into(), piece })?;
            Ok(Self::Name(text.into()))
        }
    }

    /// The ARN, if the reference is an ARN.
    pub const fn arn(&self) -> Option<&TargetGroupArn> {
        match self {
            Self::Arn(arn) => Some(arn),
            Self::Name(_) => None,
        }
    }
}

impl fmt::Display for GroupRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Arn(arn) => f.write_str(arn.as_str()),
            Self::Name(name) => f.write_str(name),
        }
    }
}

/// Why a text does not name a target group.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ReferenceError {
    /// The text looks like an ARN, but not like the ARN of a target group.
    #[error(
        "\"{text}\" is no target group ARN: {piece}. Copy the ARN from `aws elbv2 describe-target-groups`."
    )]
    Arn {
        /// The invalid text.
        text: Box<str>,
        /// The error in the text.
        piece: &'static str,
    },
    /// The text looks like a name, but no target group can have this name.
    #[error("\"{text}\" is no target group name: {piece}. Write the name or the ARN of a target group.")]
    Name {
        /// The invalid text.
        text: Box<str>,
        /// The error in the text.
        piece: &'static str,
    },
    /// The text is a tag, which Headgate does not support.
    #[error("\"{text}\" is a tag, which is not supported. Write the ARN or the name of a target group.")]
    Tag {
        /// The invalid text.
        text: Box<str>,
    },
}

/// Checks the rule of `CreateTargetGroup`: at most 32 letters, digits and hyphens, and no hyphen at either end.
fn check_name(name: &str) -> Result<(), &'static str> {
    if name.is_empty() {
        Err("it is empty")
    } else if name.len() > 32 {
        Err("it is longer than 32 characters")
    } else if !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
        Err("it has characters other than letters, digits and hyphens")
    } else if name.starts_with('-') || name.ends_with('-') {
        Err("it begins or ends with a hyphen")
    } else {
        Ok(())
    }
}

words! {
    /// `TargetType` as AWS writes it.
    TargetType {
        /// IP addresses, the only target type for pods.
        Ip = "ip",
        /// EC2 instances.
        Instance = "instance",
        /// Lambda functions.
        Lambda = "lambda",
        /// An Application Load Balancer.
        Alb = "alb",
        /// A type that this version of Headgate does not know.
        Unknown = "unknown",
    }
}

impl TargetType {
    /// Reads a type.
    pub fn parse(text: &str) -> Self {
        Self::of_word(text).unwrap_or(Self::Unknown)
    }
}

words! {
    /// `IpAddressType` of a target group, as AWS writes it: the address family of all targets in the group.
    IpFamily {
        /// IPv4, the default.
        V4 = "ipv4",
        /// IPv6.
        V6 = "ipv6",
    }
}

impl IpFamily {
    /// Whether `ip` is of this family.
    pub const fn has(self, ip: &IpAddr) -> bool {
        match self {
            Self::V4 => ip.is_ipv4(),
            Self::V6 => ip.is_ipv6(),
        }
    }
}

/// The minimum of healthy targets in a group, as a count and as a percentage (0 to 100). The higher of the two values
/// applies. Below the minimum, a load balancer sends requests to all targets (`unhealthy_state_routing`) or removes a
/// zone from DNS (`dns_failover`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeastHealthy {
    /// `minimum_healthy_targets.count`.
    pub count: u32,
    /// `minimum_healthy_targets.percentage`, or 0 if the percentage is off.
    pub percent: u32,
}

impl LeastHealthy {
    /// AWS's default (ELBv2 API reference, `TargetGroupAttribute`). Headgate also uses the default if it is not allowed
    /// to read the attributes.
    pub const DEFAULT: Self = Self { count: 1, percent: 0 };

    /// Whether unhealthy targets can make a group miss this minimum although other targets are healthy.
    pub const fn is_above_default(self) -> bool {
        self.count > Self::DEFAULT.count || self.percent > Self::DEFAULT.percent
    }
}

/// The data that Headgate needs from AWS about a target group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetGroupFacts {
    /// The ARN.
    pub arn: TargetGroupArn,
    /// `TargetType`.
    pub target_type: TargetType,
    /// `Protocol` as AWS writes it: `TCP`, `TLS`, `UDP`, `TCP_UDP`, `QUIC`, `TCP_QUIC`, `HTTP`, `HTTPS`, `GENEVE`.
    pub protocol: Box<str>,
    /// `IpAddressType`.
    pub ip_family: IpFamily,
    /// The minimum of healthy targets, which Headgate reads after it has found the group. `None`: AWS has not returned
    /// the minimum yet.
    pub least_healthy: Option<LeastHealthy>,
}

impl TargetGroupFacts {
    /// Checks whether pods behind a Service port with `protocol` can be targets of this group.
    ///
    /// # Errors
    /// The unsupported value, and the value to use instead.
    pub fn serves(&self, protocol: Protocol) -> Result<(), Unsupported> {
        if self.target_type != TargetType::Ip {
            return Err(Unsupported::TargetType { group: self.arn.name().into(), found: self.target_type });
        }
        let carried: &[Protocol] = match &*self.protocol {
            "TCP" | "TLS" | "HTTP" | "HTTPS" => &[Protocol::Tcp],
            "UDP" => &[Protocol::Udp],
            "TCP_UDP" => &[Protocol::Tcp, Protocol::Udp],
            // AWS requires a `QuicServerId` for each target, because the load balancer uses the ID to route
            // connections. Only the pod's own configuration contains the `QuicServerId`.
            "QUIC" | "TCP_QUIC" => {
                return Err(Unsupported::Quic {
                    group: self.arn.name().into(),
                    found: self.protocol.clone(),
                });
            }
            _ => &[],
        };
        if carried.contains(&protocol) {
            return Ok(());
        }
        let expected = match carried {
            [] => "a target group of protocol TCP, TLS, UDP, TCP_UDP, HTTP or HTTPS",
            [Protocol::Udp, ..] => "a UDP port, or another target group",
            [_] => "a TCP port, or another target group",
            _ => "a TCP or UDP port",
        };
        Err(Unsupported::Protocol {
            group: self.arn.name().into(),
            found: self.protocol.clone(),
            port: protocol,
            expected,
        })
    }
}

/// Why Headgate cannot serve a target group.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Unsupported {
    /// The targets of the group are not IP addresses.
    #[error(
        "target group {group} has target type {}, so it takes no pods. Create one with --target-type ip.", found.as_str()
    )]
    TargetType {
        /// The name of the target group.
        group: Box<str>,
        /// The target type of the group.
        found: TargetType,
    },
    /// Each target would need its own `QuicServerId`.
    #[error(
        "target group {group} has protocol {found}, and Headgate does not know the QuicServerId that each target needs. Use \
         another protocol."
    )]
    Quic {
        /// The name of the target group.
        group: Box<str>,
        /// The protocol of the target group.
        found: Box<str>,
    },
    /// The protocols of the target group and the Service port do not match.
    #[error("target group {group} has protocol {found}, the Service port {}. Use {expected}.", port.as_str())]
    Protocol {
        /// The name of the target group.
        group: Box<str>,
        /// The protocol of the target group.
        found: Box<str>,
        /// The protocol of the Service port.
        port: Protocol,
        /// The values that would match.
        expected: &'static str,
    },
}

/// Settings for all target groups.
#[derive(Clone, Copy, Debug)]
pub struct GroupSettings {
    /// How long a call may still take effect after a timeout, or after another replica sent the call.
    pub late: Duration,
    /// How long old targets of running pods remain after the last new target became healthy, if a change replaces all
    /// targets.
    pub replacement_grace: Duration,
    /// How long a namespace still owns a target group without a grant after the namespace's last binding was removed.
    pub holder_patience: Duration,
    /// Whether Headgate measures the time from an accepted registration to the next `DescribeTargetHealth` response.
    pub dates_registrations: bool,
    /// How long Headgate collects registrations of one target group, to send them in one call.
    pub add_window: Window,
    /// Whether Headgate writes nothing to AWS.
    pub read_only: bool,
    /// The propagation delays of the load balancers.
    pub bounds: Bounds,
    /// The seed for the jitter of backoffs.
    pub seed: u64,
}

/// Formats the first target groups of the list and the number of further target groups.
pub fn list(references: &[GroupRef]) -> String {
    const NAMED: usize = 3;
    let mut said: Vec<String> = references.iter().take(NAMED).map(ToString::to_string).collect();
    if references.len() > NAMED {
        said.push(format!("and {} more", references.len() - NAMED));
    }
    said.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const ARN: &str = "arn:aws:elasticloadbalancing:us-east-1:123456789012:targetgroup/web/73e2d6bc24d8a067";

    #[test]
    fn an_arn_gives_its_region_and_name() {
        let arn = TargetGroupArn::parse(ARN).unwrap();
        assert_eq!((arn.region(), arn.name()), ("us-east-1", "web"));
    }

    #[test]
    fn a_name_is_one_target_group_only_within_an_account_and_a_region() {
        let arn = TargetGroupArn::parse(ARN).unwrap();
        let other = |from: &str, to: &str| TargetGroupArn::parse(&ARN.replace(from, to)).unwrap();
        assert!(!arn.is_twin_of(&arn));
        assert!(arn.is_twin_of(&other("73e2d6bc24d8a067", "83e2d6bc24d8a067")), "it was made again");
        for (from, to) in [("123456789012", "210987654321"), ("us-east-1", "us-east-2"), ("/web/", "/api/")] {
            assert!(!arn.is_twin_of(&other(from, to)), "{to}");
        }
    }

    #[test]
    fn a_malformed_arn_is_refused_with_the_piece_that_is_wrong() {
        for (text, piece) in [
            ("urn:aws:x", "does not begin with \"arn:\""),
            (&ARN.replace("aws:", "gcp:"), "the partition"),
            (&ARN.replace("elasticloadbalancing", "ec2"), "the service is not elasticloadbalancing"),
            (&ARN.replace("us-east-1", ""), "the region is not valid"),
            (&ARN.replace("us-east-1", "US_EAST"), "the region is not valid"),
            (&ARN.replace("123456789012", "12345"), "the account is not 12 digits"),
            (&ARN.replace("/web/73e2d6bc24d8a067", "/web"), "does not end in targetgroup/NAME/ID"),
            (&ARN.replace("targetgroup/", "loadbalancer/"), "the resource is not a targetgroup"),
            (&ARN.replace("/web/", "/web_1/"), "the name is not valid"),
            (&ARN.replace("73e2d6bc24d8a067", ""), "the ID is not valid"),
        ] {
            let text: &str = text;
            let said = GroupRef::parse(text).unwrap_err().to_string();
            assert!(said.contains(piece), "{text}: {said}");
            assert!(said.ends_with("Copy the ARN from `aws elbv2 describe-target-groups`."), "{said}");
        }
    }

    #[test]
    fn a_name_follows_the_rule_of_create_target_group() {
        for name in ["web-1", &"a".repeat(32)] {
            assert_eq!(GroupRef::parse(name), Ok(GroupRef::Name(name.into())));
        }
        for (text, piece) in [
            ("", "it is empty"),
            (&"a".repeat(33), "longer than 32"),
            ("web_1", "characters other than"),
            ("-web", "begins or ends with a hyphen"),
            ("web-", "begins or ends with a hyphen"),
        ] {
            let said = GroupRef::parse(text).unwrap_err().to_string();
            assert!(said.contains(piece) && said.contains("is no target group name"), "{text}: {said}");
        }
    }

    #[test]
    fn a_tag_is_refused_with_what_to_give_instead() {
        let said = GroupRef::parse("tag:team=web").unwrap_err().to_string();
        assert!(said.contains("Write the ARN or the name"), "{said}");
    }

    fn group(target_type: TargetType, protocol: &str) -> TargetGroupFacts {
        TargetGroupFacts {
            arn: TargetGroupArn::parse(ARN).unwrap(),
            target_type,
            protocol: protocol.into(),
            ip_family: IpFamily::V4,
            least_healthy: Some(LeastHealthy::DEFAULT),
        }
    }

    #[test]
    fn only_ip_target_groups_are_served() {
        for (written, word) in
            [("instance", "instance"), ("lambda", "lambda"), ("alb", "alb"), ("something new", "unknown")]
        {
            let said =
                group(TargetType::parse(written), "TCP").serves(Protocol::Tcp).unwrap_err().to_string();
            let found = format!("has target type {word},");
            assert!(said.contains(&found) && said.contains("--target-type ip"), "{said}");
        }
    }

    #[test]
    fn a_service_port_needs_a_group_that_carries_its_protocol() {
        use Protocol::{Sctp, Tcp, Udp};
        let (tcp, udp) = ("Use a TCP port,", "Use a UDP port,");
        let both = "Use a TCP or UDP port";
        for (protocol, carried, expected) in [
            ("TCP", &[Tcp][..], tcp),
            ("TLS", &[Tcp], tcp),
            ("HTTP", &[Tcp], tcp),
            ("HTTPS", &[Tcp], tcp),
            ("UDP", &[Udp], udp),
            ("QUIC", &[], "QuicServerId that each target needs"),
            ("TCP_UDP", &[Tcp, Udp], both),
            ("TCP_QUIC", &[], "QuicServerId that each target needs"),
            ("GENEVE", &[], "Use a target group of protocol"),
        ] {
            for port in [Tcp, Udp, Sctp] {
                let answer = group(TargetType::Ip, protocol).serves(port);
                assert_eq!(answer.is_ok(), carried.contains(&port), "{protocol} for {port:?}");
                if let Err(refused) = answer {
                    assert!(refused.to_string().contains(expected), "{refused}");
                }
            }
        }
    }
}
