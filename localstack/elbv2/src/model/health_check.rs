//! The health check settings of a target group, with the ranges and defaults of AWS.

use super::{Kind, Refusal};

/// The protocol of health checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // the names of the protocols
pub enum HealthCheckProtocol {
    Tcp,
    Http,
}

impl HealthCheckProtocol {
    /// Returns the name in the AWS API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tcp => "TCP",
            Self::Http => "HTTP",
        }
    }

    /// Parses the name in the AWS API. The stand-in does not support HTTPS.
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

/// The port of health checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HealthCheckPort {
    /// The port of the target.
    Traffic,
    /// The same port for all targets, from 1 to 65535.
    Fixed(u16),
}

impl HealthCheckPort {
    /// Parses `traffic-port` or a number.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        match (text, text.parse()) {
            ("traffic-port", _) => Ok(Self::Traffic),
            (_, Ok(port)) if port > 0 => Ok(Self::Fixed(port)),
            _ => Err(Refusal::validation(format!("Health check port '{text}' must be in the range 1-65535"))),
        }
    }

    /// Returns the port to probe for a target with the port `traffic`.
    pub fn resolve(self, traffic: u16) -> u16 {
        match self {
            Self::Traffic => traffic,
            Self::Fixed(port) => port,
        }
    }
}

/// The settings of health checks. Durations are AWS seconds.
#[derive(Debug, Clone, PartialEq)]
pub struct HealthCheck {
    /// The protocol: TCP connect or HTTP GET.
    pub protocol: HealthCheckProtocol,
    /// The port of health checks.
    pub port: HealthCheckPort,
    /// The path of the GET request.
    pub path: String,
    /// The interval, from 5 to 300.
    pub interval: u32,
    /// The timeout, from 2 to 120, and at most the interval.
    pub timeout: u32,
    /// The number of successful probes until a target is healthy, from 2 to 10.
    pub healthy_threshold: u32,
    /// The number of failed probes until a target is unhealthy, from 2 to 10.
    pub unhealthy_threshold: u32,
    /// The codes that count as healthy, such as `200,204` or `200-399`.
    pub matcher: String,
    /// The highest code in a matcher: 499 for an Application Load Balancer, 599 for a Network Load Balancer.
    pub highest_code: u16,
}

/// Changes of a [`HealthCheck`]. An absent field does not change.
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
    /// Returns the defaults of AWS for a kind of load balancer and a protocol.
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
            highest_code: if kind == Kind::Application { 499 } else { 599 },
        }
    }

    /// Returns the health check with changes applied. Rejects values outside the ranges of AWS.
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
        // The default timeout is shortened to fit a short interval. A timeout from the call must fit.
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
        let named = parse_matcher(&matcher);
        if !named.is_some_and(|ranges| ranges.iter().all(|(_, high)| *high <= self.highest_code)) {
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
            highest_code: self.highest_code,
        })
    }

    /// Returns whether a status counts as healthy.
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
