//! The attributes of target groups and load balancers: keys, defaults and valid values.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{BalancerId, GroupId, Kind, ListenerId, Model, Refusal};

/// How long the API shows a deregistered target as draining, in seconds.
pub const DEREGISTRATION_DELAY: &str = "deregistration_delay.timeout_seconds";
/// Whether a node also sends to targets in other zones.
pub const CROSS_ZONE: &str = "load_balancing.cross_zone.enabled";
/// Whether a Network Load Balancer resets the flows of an unhealthy target.
pub const UNHEALTHY_TERMINATION: &str = "target_health_state.unhealthy.connection_termination.enabled";
/// How long the API shows an unhealthy target as draining if its flows continue, in seconds.
pub const UNHEALTHY_DRAINING: &str = "target_health_state.unhealthy.draining_interval_seconds";
/// Whether flows are reset at the end of the deregistration delay.
pub const TERMINATION: &str = "deregistration_delay.connection_termination.enabled";
/// Whether targets see the IP address of the client.
pub const PRESERVE_CLIENT_IP: &str = "preserve_client_ip.enabled";
/// Whether zonal shifts are allowed.
pub const ZONAL_SHIFT: &str = "zonal_shift.config.enabled";
/// The idle time after which a Network Load Balancer drops a flow, in seconds.
pub const TCP_IDLE_TIMEOUT: &str = "tcp.idle_timeout.seconds";
/// Whether DeleteLoadBalancer is rejected.
pub const DELETION_PROTECTION: &str = "deletion_protection.enabled";
/// The maximum time that an Application Load Balancer waits for an answer, in seconds.
pub const IDLE_TIMEOUT: &str = "idle_timeout.timeout_seconds";

#[derive(Clone, Copy)]
enum Rule {
    Bool,
    Number(u32, u32),
    /// A number, or `off`.
    NumberOrOff(u32, u32),
    OneOf(&'static [&'static str]),
    Text,
}

type Row = (&'static str, &'static str, Rule);

const USE_BALANCER: &str = "use_load_balancer_configuration";

const GROUP: &[Row] = &[
    (DEREGISTRATION_DELAY, "300", Rule::Number(0, 3600)),
    (CROSS_ZONE, USE_BALANCER, Rule::OneOf(&["true", "false", USE_BALANCER])),
    ("stickiness.enabled", "false", Rule::Bool),
    ("target_group_health.dns_failover.minimum_healthy_targets.count", "1", Rule::NumberOrOff(1, 1000)),
    ("target_group_health.dns_failover.minimum_healthy_targets.percentage", "off", Rule::NumberOrOff(1, 100)),
    (
        "target_group_health.unhealthy_state_routing.minimum_healthy_targets.count",
        "1",
        Rule::NumberOrOff(1, 1000),
    ),
    (
        "target_group_health.unhealthy_state_routing.minimum_healthy_targets.percentage",
        "off",
        Rule::NumberOrOff(1, 100),
    ),
];

const NETWORK_GROUP: &[Row] = &[
    ("stickiness.type", "source_ip", Rule::OneOf(&["source_ip"])),
    (TERMINATION, "false", Rule::Bool),
    (PRESERVE_CLIENT_IP, "false", Rule::Bool),
    ("proxy_protocol_v2.enabled", "false", Rule::Bool),
    (UNHEALTHY_TERMINATION, "true", Rule::Bool),
    (UNHEALTHY_DRAINING, "0", Rule::Number(0, 360_000)),
];

const APPLICATION_GROUP: &[Row] = &[
    ("stickiness.type", "lb_cookie", Rule::OneOf(&["lb_cookie", "app_cookie"])),
    ("stickiness.lb_cookie.duration_seconds", "86400", Rule::Number(1, 604_800)),
    ("stickiness.app_cookie.duration_seconds", "86400", Rule::Number(1, 604_800)),
    ("stickiness.app_cookie.cookie_name", "", Rule::Text),
    ("slow_start.duration_seconds", "0", Rule::Number(0, 900)),
    (
        "load_balancing.algorithm.type",
        "round_robin",
        Rule::OneOf(&["round_robin", "least_outstanding_requests", "weighted_random"]),
    ),
    ("load_balancing.algorithm.anomaly_mitigation", "off", Rule::OneOf(&["on", "off"])),
];

const BALANCER: &[Row] = &[
    (DELETION_PROTECTION, "false", Rule::Bool),
    ("access_logs.s3.enabled", "false", Rule::Bool),
    ("access_logs.s3.bucket", "", Rule::Text),
    ("access_logs.s3.prefix", "", Rule::Text),
    ("ipv6.deny_all_igw_traffic", "false", Rule::Bool),
    (ZONAL_SHIFT, "false", Rule::Bool),
];

const NETWORK_BALANCER: &[Row] = &[
    (CROSS_ZONE, "false", Rule::Bool),
    (
        "dns_record.client_routing_policy",
        "any_availability_zone",
        Rule::OneOf(&[
            "any_availability_zone",
            "availability_zone_affinity",
            "partial_availability_zone_affinity",
        ]),
    ),
    ("secondary_ips.auto_assigned.per_subnet", "0", Rule::Number(0, 7)),
];

const APPLICATION_BALANCER: &[Row] = &[
    // Cross-zone load balancing is always on for an Application Load Balancer. Only a target group can disable
    // cross-zone load balancing.
    (CROSS_ZONE, "true", Rule::OneOf(&["true"])),
    (IDLE_TIMEOUT, "60", Rule::Number(1, 4000)),
    ("client_keep_alive.seconds", "3600", Rule::Number(60, 604_800)),
    ("connection_logs.s3.enabled", "false", Rule::Bool),
    ("connection_logs.s3.bucket", "", Rule::Text),
    ("connection_logs.s3.prefix", "", Rule::Text),
    ("routing.http.desync_mitigation_mode", "defensive", Rule::OneOf(&["monitor", "defensive", "strictest"])),
    ("routing.http.drop_invalid_header_fields.enabled", "false", Rule::Bool),
    ("routing.http.preserve_host_header.enabled", "false", Rule::Bool),
    ("routing.http.x_amzn_tls_version_and_cipher_suite.enabled", "false", Rule::Bool),
    ("routing.http.xff_client_port.enabled", "false", Rule::Bool),
    ("routing.http.xff_header_processing.mode", "append", Rule::OneOf(&["append", "preserve", "remove"])),
    ("routing.http2.enabled", "true", Rule::Bool),
    ("waf.fail_open.enabled", "false", Rule::Bool),
];

const NETWORK_LISTENER: &[Row] = &[(TCP_IDLE_TIMEOUT, "350", Rule::Number(60, 6000))];

const APPLICATION_LISTENER: &[Row] = &[("routing.http.response.server.enabled", "true", Rule::Bool)];

fn listener_rows(kind: Kind) -> impl Iterator<Item = &'static Row> {
    match kind {
        Kind::Network => NETWORK_LISTENER.iter(),
        Kind::Application => APPLICATION_LISTENER.iter(),
    }
}

/// Returns all attributes of a new listener.
pub fn listener_defaults(kind: Kind) -> BTreeMap<String, String> {
    defaults(listener_rows(kind))
}

fn group_rows(kind: Kind) -> impl Iterator<Item = &'static Row> {
    GROUP.iter().chain(match kind {
        Kind::Network => NETWORK_GROUP,
        Kind::Application => APPLICATION_GROUP,
    })
}

fn balancer_rows(kind: Kind) -> impl Iterator<Item = &'static Row> {
    BALANCER.iter().chain(match kind {
        Kind::Network => NETWORK_BALANCER,
        Kind::Application => APPLICATION_BALANCER,
    })
}

fn defaults(rows: impl Iterator<Item = &'static Row>) -> BTreeMap<String, String> {
    rows.map(|(key, value, _)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// Returns all attributes of a new target group.
pub fn group_defaults(kind: Kind) -> BTreeMap<String, String> {
    defaults(group_rows(kind))
}

/// Returns all attributes of a new load balancer.
pub fn balancer_defaults(kind: Kind) -> BTreeMap<String, String> {
    defaults(balancer_rows(kind))
}

fn check(
    what: &str,
    rows: impl Iterator<Item = &'static Row>,
    changes: &BTreeMap<String, String>,
) -> Result<(), Refusal> {
    let rules: BTreeMap<&str, Rule> = rows.map(|(key, _, rule)| (*key, *rule)).collect();
    for (key, value) in changes {
        let Some(rule) = rules.get(key.as_str()) else {
            return Err(Refusal::validation(format!("{what} attribute key '{key}' is not recognized")));
        };
        rule.check(value)
            .map_err(|why| Refusal::validation(format!("{what} attribute '{key}' value '{value}' {why}")))?;
    }
    Ok(())
}

impl Rule {
    fn check(self, value: &str) -> Result<(), String> {
        let number = |low, high| match value.parse::<u32>() {
            Ok(number) if (low..=high).contains(&number) => Ok(()),
            _ => Err(format!("must be between '{low}-{high}' inclusive")),
        };
        let one_of = |words: &[&str]| {
            if words.contains(&value) {
                Ok(())
            } else {
                Err(format!("must be one of '{}'", words.join(", ")))
            }
        };
        match self {
            Self::Bool => one_of(&["true", "false"]),
            Self::OneOf(words) => one_of(words),
            Self::NumberOrOff(_, _) if value == "off" => Ok(()),
            Self::Number(low, high) | Self::NumberOrOff(low, high) => number(low, high),
            Self::Text => Ok(()),
        }
    }
}

impl Model {
    /// Changes attributes of a target group. An invalid attribute rejects the whole change.
    pub fn set_group_attributes(
        &mut self,
        id: GroupId,
        changes: BTreeMap<String, String>,
    ) -> Result<(), Refusal> {
        let group = self.group_mut(id)?;
        check("Target group", group_rows(group.kind()), &changes)?;
        group.attributes.extend(changes);
        self.refresh_cross_zone(id);
        self.refresh_least(id);
        Ok(())
    }

    /// Changes attributes of a load balancer. An invalid attribute rejects the whole change.
    pub fn set_balancer_attributes(
        &mut self,
        id: BalancerId,
        changes: BTreeMap<String, String>,
    ) -> Result<(), Refusal> {
        let balancer = self.balancer_mut(id)?;
        check("Load balancer", balancer_rows(balancer.spec.kind), &changes)?;
        balancer.attributes.extend(changes);
        let groups: Vec<GroupId> =
            self.groups().filter(|group| group.balancer() == Some(id)).map(|group| group.id).collect();
        for group in groups {
            self.refresh_cross_zone(group);
        }
        Ok(())
    }

    /// Changes attributes of a listener. An invalid attribute rejects the whole change.
    pub fn set_listener_attributes(
        &mut self,
        id: ListenerId,
        changes: BTreeMap<String, String>,
    ) -> Result<(), Refusal> {
        let listener = self.listeners.get_mut(&id).ok_or(Refusal::ListenerNotFound)?;
        check("Listener", listener_rows(listener.protocol.kind()), &changes)?;
        listener.attributes.extend(changes);
        Ok(())
    }

    /// Returns whether the nodes of the group's load balancer send to targets in all zones.
    pub(super) fn cross_zone(&self, group: &super::TargetGroup) -> bool {
        match group.attributes.get(CROSS_ZONE).map(String::as_str) {
            Some("true") => true,
            Some("false") => false,
            _ => group
                .balancer()
                .and_then(|id| self.balancers.get(&id))
                .and_then(|balancer| balancer.attributes.get(CROSS_ZONE))
                .is_some_and(|value| value == "true"),
        }
    }

    /// Returns the maximum time that an Application Load Balancer waits for an answer, in real time.
    pub fn idle_timeout(&self, id: BalancerId) -> Duration {
        let seconds = self
            .balancers
            .get(&id)
            .and_then(|balancer| balancer.attributes.get(IDLE_TIMEOUT)?.parse().ok())
            .unwrap_or(60.0);
        self.behaviour.time_out(seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(key: &str, value: &str) -> BTreeMap<String, String> {
        BTreeMap::from([(key.to_owned(), value.to_owned())])
    }

    #[test]
    fn every_default_satisfies_its_own_rule() {
        for kind in [Kind::Network, Kind::Application] {
            assert_eq!(check("g", group_rows(kind), &group_defaults(kind)), Ok(()));
            assert_eq!(check("b", balancer_rows(kind), &balancer_defaults(kind)), Ok(()));
        }
    }

    #[test]
    fn a_delay_beyond_an_hour_is_refused_with_its_range() {
        let refusal = check("Target group", group_rows(Kind::Network), &change(DEREGISTRATION_DELAY, "3601"))
            .unwrap_err();
        assert!(refusal.to_string().ends_with("must be between '0-3600' inclusive"));
    }

    #[test]
    fn a_key_of_the_other_kind_is_not_recognized() {
        let changes = change("slow_start.duration_seconds", "30");
        assert!(check("Target group", group_rows(Kind::Application), &changes).is_ok());
        assert!(check("Target group", group_rows(Kind::Network), &changes).is_err());
    }

    #[test]
    fn cross_zone_of_an_application_load_balancer_cannot_be_switched_off() {
        assert!(
            check("Load balancer", balancer_rows(Kind::Application), &change(CROSS_ZONE, "false")).is_err()
        );
    }
}
