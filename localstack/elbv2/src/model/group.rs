//! Target groups: what they are made of and what they are checked with.
//!
//! Owns protocols, types and health-check settings with AWS's ranges and defaults. The targets themselves live
//! in [`super::life`].

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::life::{Target, TargetKey};
use super::names::{ArnKind, check_name};
use super::routing::Attachment;
use super::{GroupId, Kind, Model, Refusal, Tags, attributes};
use crate::behaviour::{Lag, LagPatch, OnDraining, Range};

/// Protocol of a target group or a listener.
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

    /// AWS's word.
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

    /// Reads AWS's word.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        Self::ALL.into_iter().find(|protocol| protocol.as_str() == text).ok_or_else(|| {
            Refusal::validation(format!("'{text}' must be one of 'HTTP, HTTPS, TCP, TLS, UDP, TCP_UDP'"))
        })
    }

    /// The kind of load balancer that speaks it.
    pub fn kind(self) -> Kind {
        match self {
            Self::Http | Self::Https => Kind::Application,
            Self::Tcp | Self::Tls | Self::Udp | Self::TcpUdp => Kind::Network,
        }
    }
}

/// What a target group's targets are. Only `ip` groups take targets here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // the names of the types
pub enum TargetType {
    Ip,
    Instance,
    Lambda,
    Alb,
}

impl TargetType {
    /// AWS's word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ip => "ip",
            Self::Instance => "instance",
            Self::Lambda => "lambda",
            Self::Alb => "alb",
        }
    }

    /// Reads AWS's word.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        [Self::Ip, Self::Instance, Self::Lambda, Self::Alb]
            .into_iter()
            .find(|kind| kind.as_str() == text)
            .ok_or_else(|| Refusal::validation(format!("Target type '{text}' is not valid")))
    }
}

/// Address family of a target group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // the names of the families
pub enum Family {
    Ipv4,
    Ipv6,
}

impl Family {
    /// AWS's word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ipv4 => "ipv4",
            Self::Ipv6 => "ipv6",
        }
    }

    /// Reads AWS's word.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        match text {
            "ipv4" => Ok(Self::Ipv4),
            "ipv6" => Ok(Self::Ipv6),
            _ => Err(Refusal::validation(format!("IP address type '{text}' is not valid"))),
        }
    }
}

/// How targets are probed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // the names of the protocols
pub enum HealthCheckProtocol {
    Tcp,
    Http,
}

impl HealthCheckProtocol {
    /// AWS's word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tcp => "TCP",
            Self::Http => "HTTP",
        }
    }

    /// Reads AWS's word; HTTPS is not probed here.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        match text {
            "TCP" => Ok(Self::Tcp),
            "HTTP" => Ok(Self::Http),
            "HTTPS" => Err(Refusal::UnsupportedProtocol(
                "This stand-in probes over TCP and HTTP; HTTPS health checks are not supported".to_owned(),
            )),
            _ => Err(Refusal::validation(format!("Health check protocol '{text}' is not valid"))),
        }
    }
}

/// The port that is probed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HealthCheckPort {
    /// The target's own.
    Traffic,
    /// The same for all targets, 1 to 65535.
    Fixed(u16),
}

impl HealthCheckPort {
    /// Reads `traffic-port` or a number.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        match (text, text.parse()) {
            ("traffic-port", _) => Ok(Self::Traffic),
            (_, Ok(port)) if port > 0 => Ok(Self::Fixed(port)),
            _ => Err(Refusal::validation(format!("Health check port '{text}' must be in the range 1-65535"))),
        }
    }

    /// The port to probe for a target on `traffic`.
    pub fn resolve(self, traffic: u16) -> u16 {
        match self {
            Self::Traffic => traffic,
            Self::Fixed(port) => port,
        }
    }
}

/// How and how often targets are probed. Durations are AWS seconds.
#[derive(Debug, Clone, PartialEq)]
pub struct HealthCheck {
    /// TCP connect or HTTP GET.
    pub protocol: HealthCheckProtocol,
    /// The port that is probed.
    pub port: HealthCheckPort,
    /// Of the GET.
    pub path: String,
    /// 5 to 300.
    pub interval: u32,
    /// 2 to 120, at most the interval.
    pub timeout: u32,
    /// 2 to 10.
    pub healthy_threshold: u32,
    /// 2 to 10.
    pub unhealthy_threshold: u32,
    /// Codes that count as healthy, such as `200,204` or `200-399`.
    pub matcher: String,
}

/// Changes to a [`HealthCheck`]; what is absent stays.
#[derive(Debug, Clone, Default)]
#[allow(missing_docs)] // the fields of HealthCheck
pub struct HealthCheckChange {
    pub protocol: Option<HealthCheckProtocol>,
    pub port: Option<HealthCheckPort>,
    pub path: Option<String>,
    pub interval: Option<u32>,
    pub timeout: Option<u32>,
    pub healthy_threshold: Option<u32>,
    pub unhealthy_threshold: Option<u32>,
    pub matcher: Option<String>,
}

impl HealthCheck {
    /// AWS's defaults for a kind of load balancer and a probe.
    pub fn defaults(kind: Kind, protocol: HealthCheckProtocol) -> Self {
        Self {
            protocol,
            port: HealthCheckPort::Traffic,
            path: "/".to_owned(),
            interval: 30,
            timeout: match (kind, protocol) {
                (Kind::Application, _) => 5,
                (Kind::Network, HealthCheckProtocol::Http) => 6,
                (Kind::Network, HealthCheckProtocol::Tcp) => 10,
            },
            healthy_threshold: 5,
            unhealthy_threshold: 2,
            matcher: if kind == Kind::Application { "200" } else { "200-399" }.to_owned(),
        }
    }

    /// This check with changes applied, within AWS's ranges.
    pub fn changed(&self, change: HealthCheckChange) -> Result<Self, Refusal> {
        let ranged = |what: &str, value: u32, low: u32, high: u32| {
            if (low..=high).contains(&value) {
                Ok(value)
            } else {
                Err(Refusal::validation(format!(
                    "Health check {what} '{value}' must be between '{low}-{high}' inclusive"
                )))
            }
        };
        let interval = ranged("interval", change.interval.unwrap_or(self.interval), 5, 300)?;
        // A default time-out gives way to a short interval; one that was asked for must fit.
        let timeout = change.timeout.unwrap_or_else(|| self.timeout.min(interval));
        let timeout = ranged("timeout", timeout, 2, 120)?;
        if timeout > interval {
            return Err(Refusal::validation(format!(
                "Health check timeout '{timeout}' must be smaller than or equal to the interval '{interval}'"
            )));
        }
        let healthy = change.healthy_threshold.unwrap_or(self.healthy_threshold);
        let unhealthy = change.unhealthy_threshold.unwrap_or(self.unhealthy_threshold);
        let path = change.path.unwrap_or_else(|| self.path.clone());
        if !path.starts_with('/') || path.len() > 1024 {
            return Err(Refusal::validation(format!("Health check path '{path}' must begin with '/'")));
        }
        let matcher = change.matcher.unwrap_or_else(|| self.matcher.clone());
        if parse_matcher(&matcher).is_none() {
            return Err(Refusal::validation(format!(
                "Health check matcher HTTP code '{matcher}' is not valid"
            )));
        }
        Ok(Self {
            protocol: change.protocol.unwrap_or(self.protocol),
            port: change.port.unwrap_or(self.port),
            path,
            interval,
            timeout,
            healthy_threshold: ranged("healthy threshold count", healthy, 2, 10)?,
            unhealthy_threshold: ranged("unhealthy threshold count", unhealthy, 2, 10)?,
            matcher,
        })
    }

    /// Whether a status counts as healthy.
    pub fn matches(&self, status: u16) -> bool {
        parse_matcher(&self.matcher)
            .is_some_and(|ranges| ranges.iter().any(|(low, high)| (*low..=*high).contains(&status)))
    }
}

fn parse_matcher(text: &str) -> Option<Vec<(u16, u16)>> {
    text.split(',')
        .map(|part| {
            let (low, high) = part.split_once('-').unwrap_or((part, part));
            let (low, high) = (low.trim().parse().ok()?, high.trim().parse().ok()?);
            (200 <= low && low <= high && high <= 599).then_some((low, high))
        })
        .collect()
}

/// Deviations of one target group from its kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupSettings {
    /// See [`Lag::registration`].
    pub registration: Option<Range>,
    /// See [`Lag::deregistration`].
    pub deregistration: Option<Range>,
    /// See [`Lag::health_skew`].
    pub health_skew: Option<Range>,
    /// What RegisterTargets does with a draining target.
    pub on_draining: Option<OnDraining>,
}

impl GroupSettings {
    fn lag(&self) -> LagPatch {
        LagPatch {
            registration: self.registration,
            deregistration: self.deregistration,
            health_skew: self.health_skew,
            provisioning: None,
        }
    }
}

/// What CreateTargetGroup is given.
#[derive(Debug, Clone)]
#[allow(missing_docs)] // the parameters of CreateTargetGroup
pub struct NewGroup {
    pub name: String,
    pub target_type: TargetType,
    pub protocol: Option<Protocol>,
    pub protocol_version: Option<String>,
    pub port: Option<u16>,
    pub vpc: Option<String>,
    pub family: Family,
    pub health_check: HealthCheck,
    pub tags: Tags,
}

/// A target group.
#[derive(Debug)]
pub struct TargetGroup {
    /// Its identifier.
    pub id: GroupId,
    /// Its ARN.
    pub arn: String,
    /// What it was created with; `health_check` and `tags` are current.
    pub spec: NewGroup,
    /// All attributes with their values.
    pub attributes: BTreeMap<String, String>,
    /// Deviations from its kind.
    pub settings: GroupSettings,
    pub(super) targets: BTreeMap<TargetKey, Target>,
    pub(super) attachment: Option<Attachment>,
}

impl TargetGroup {
    /// The kind of load balancer that it is for.
    pub fn kind(&self) -> Kind {
        self.spec.protocol.map_or(Kind::Application, Protocol::kind)
    }

    /// The load balancer that uses it.
    pub fn balancer(&self) -> Option<super::BalancerId> {
        self.attachment.as_ref().map(|attachment| attachment.balancer)
    }

    /// The targets in the list that DescribeTargetHealth shows.
    pub fn targets(&self) -> impl Iterator<Item = &Target> {
        self.targets.values()
    }

    /// One target.
    pub fn target(&self, key: TargetKey) -> Option<&Target> {
        self.targets.get(&key)
    }

    /// `deregistration_delay.timeout_seconds`, in AWS seconds.
    pub(super) fn deregistration_delay(&self) -> f64 {
        self.attributes.get(attributes::DEREGISTRATION_DELAY).and_then(|v| v.parse().ok()).unwrap_or(300.0)
    }

    pub(super) fn on_draining(&self) -> OnDraining {
        self.settings.on_draining.unwrap_or(match self.kind() {
            Kind::Network => OnDraining::Revive,
            Kind::Application => OnDraining::Reject,
        })
    }
}

impl Model {
    /// Creates a target group; one that exists with the same settings is returned as it is.
    pub fn create_group(&mut self, spec: NewGroup) -> Result<GroupId, Refusal> {
        check_name(ArnKind::TargetGroup, &spec.name)?;
        self.check_spec(&spec)?;
        if let Some(existing) = self.groups.values().find(|group| group.spec.name == spec.name) {
            let (old, new) = (&existing.spec, &spec);
            let same = (old.target_type, old.protocol, old.port, &old.vpc, old.family, &old.health_check)
                == (new.target_type, new.protocol, new.port, &new.vpc, new.family, &new.health_check);
            return if same { Ok(existing.id) } else { Err(Refusal::DuplicateTargetGroupName(spec.name)) };
        }
        let id = GroupId(self.serial());
        let hex = self.hex(16);
        let settings = self.settings();
        let arn = format!(
            "arn:aws:elasticloadbalancing:{}:{}:targetgroup/{}/{hex}",
            settings.region, settings.account, spec.name
        );
        let kind = spec.protocol.map_or(Kind::Application, Protocol::kind);
        let group = TargetGroup {
            id,
            arn,
            attributes: attributes::group_defaults(kind),
            settings: GroupSettings::default(),
            targets: BTreeMap::new(),
            attachment: None,
            spec,
        };
        self.groups.insert(id, group);
        Ok(id)
    }

    fn check_spec(&self, spec: &NewGroup) -> Result<(), Refusal> {
        if spec.target_type == TargetType::Lambda {
            return Ok(());
        }
        if spec.protocol.is_none() {
            return Err(Refusal::validation("A protocol must be specified"));
        }
        if spec.port.is_none() {
            return Err(Refusal::validation("A port must be specified"));
        }
        match &spec.vpc {
            None => return Err(Refusal::validation("A VPC ID must be specified")),
            Some(vpc) if *vpc != self.settings.vpc.id => {
                return Err(Refusal::validation(format!("The VPC ID '{vpc}' is not found")));
            }
            Some(_) => {}
        }
        if spec.target_type == TargetType::Alb && spec.protocol != Some(Protocol::Tcp) {
            return Err(Refusal::validation("Target type 'alb' requires the protocol 'TCP'"));
        }
        if spec.family == Family::Ipv6 && spec.target_type != TargetType::Ip {
            return Err(Refusal::validation("IP address type 'ipv6' requires the target type 'ip'"));
        }
        Ok(())
    }

    /// Deletes a target group that no listener uses.
    pub fn delete_group(&mut self, id: GroupId) -> Result<(), Refusal> {
        let Some(group) = self.groups.get(&id) else { return Err(Refusal::TargetGroupNotFound) };
        if self.listeners.values().any(|listener| listener.forwards_to(id)) {
            return Err(Refusal::ResourceInUse(format!(
                "Target group '{}' is currently in use by a listener or a rule",
                group.arn
            )));
        }
        self.groups.remove(&id);
        Ok(())
    }

    /// All target groups in order of creation.
    pub fn groups(&self) -> impl Iterator<Item = &TargetGroup> {
        self.groups.values()
    }

    /// One target group.
    pub fn group(&self, id: GroupId) -> Result<&TargetGroup, Refusal> {
        self.groups.get(&id).ok_or(Refusal::TargetGroupNotFound)
    }

    pub(super) fn group_mut(&mut self, id: GroupId) -> Result<&mut TargetGroup, Refusal> {
        self.groups.get_mut(&id).ok_or(Refusal::TargetGroupNotFound)
    }

    /// The target group with an ARN; the ARN must be well-formed.
    pub fn group_by_arn(&self, arn: &str) -> Result<GroupId, Refusal> {
        super::Arn::expect_kind(arn, ArnKind::TargetGroup)?;
        self.groups.values().find(|group| group.arn == arn).map(|g| g.id).ok_or(Refusal::TargetGroupNotFound)
    }

    /// The target group with a name.
    pub fn group_by_name(&self, name: &str) -> Result<GroupId, Refusal> {
        self.groups
            .values()
            .find(|group| group.spec.name == name)
            .map(|group| group.id)
            .ok_or(Refusal::TargetGroupNotFound)
    }

    /// Changes the health check; probes that are due from now on use it.
    pub fn change_health_check(&mut self, id: GroupId, change: HealthCheckChange) -> Result<(), Refusal> {
        let group = self.group_mut(id)?;
        group.spec.health_check = group.spec.health_check.changed(change)?;
        Ok(())
    }

    /// Replaces a group's deviations from its kind; what is absent goes back to the kind's.
    pub fn set_group_settings(&mut self, id: GroupId, settings: GroupSettings) -> Result<(), Refusal> {
        let kind = self.group(id)?.kind();
        settings
            .lag()
            .over(self.behaviour.lag(kind))
            .map_err(|error| Refusal::validation(error.to_string()))?;
        self.group_mut(id)?.settings = settings;
        Ok(())
    }

    pub(super) fn lag_of(&self, group: &TargetGroup) -> Lag {
        let base = self.behaviour.lag(group.kind());
        // Checked when it was set, and again over a base that may have changed since.
        group.settings.lag().over(base).unwrap_or(base)
    }

    pub(super) fn interval_of(&self, group: &TargetGroup) -> Duration {
        // Below this a probe would still be under way when the next is due.
        const SHORTEST: Duration = Duration::from_millis(50);
        self.behaviour.scaled(f64::from(group.spec.health_check.interval)).max(SHORTEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nlb() -> HealthCheck {
        HealthCheck::defaults(Kind::Network, HealthCheckProtocol::Tcp)
    }

    #[test]
    fn a_timeout_longer_than_the_interval_is_refused() {
        let change = HealthCheckChange { interval: Some(5), timeout: Some(10), ..Default::default() };
        let refusal = nlb().changed(change).unwrap_err();
        assert_eq!(
            refusal.to_string(),
            "Health check timeout '10' must be smaller than or equal to the interval '5'"
        );
    }

    #[test]
    fn a_default_timeout_gives_way_to_a_short_interval() {
        let change = HealthCheckChange { interval: Some(5), ..Default::default() };
        assert_eq!(nlb().changed(change).unwrap().timeout, 5);
    }

    #[test]
    fn a_matcher_takes_lists_and_ranges() {
        let change = HealthCheckChange { matcher: Some("200,301-302".into()), ..Default::default() };
        let check = nlb().changed(change).unwrap();
        assert!(check.matches(200) && check.matches(302));
        assert!(!check.matches(201) && !check.matches(303));
    }

    #[test]
    fn thresholds_stay_within_two_and_ten() {
        for count in [1, 11] {
            let change = HealthCheckChange { healthy_threshold: Some(count), ..Default::default() };
            assert_eq!(nlb().changed(change).unwrap_err().code(), "ValidationError");
        }
    }
}
