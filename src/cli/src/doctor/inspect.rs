//! A target group as the caller of `headgate doctor` sees it, with the caller's credentials. Headgate itself never
//! sends these calls.

use std::collections::BTreeMap;

use aws_sdk_elasticloadbalancingv2::{
    Client,
    operation::{
        describe_target_group_attributes::DescribeTargetGroupAttributesOutput as Answer,
        describe_target_health::DescribeTargetHealthOutput as Health,
    },
    types::{LoadBalancerAttribute, TargetHealthStateEnum},
};
use headgate::aws::{TargetGroups, failure};
use headgate_core::{
    Failure, FailureClass,
    model::target_group::{TargetGroupArn, TargetType},
};

/// An attribute of target groups and load balancers.
const CROSS_ZONE: &str = "load_balancing.cross_zone.enabled";

/// The relevant properties of a target group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inspected {
    /// The target type. `None`: AWS did not return it.
    pub target_type: Option<TargetType>,
    /// The protocol, as AWS writes it.
    pub protocol: String,
    /// How many load balancers use it.
    pub load_balancers: usize,
    /// Whether health checks are enabled.
    pub checks_health: bool,
    /// The protocol of the health checks, as AWS writes it.
    pub health_protocol: String,
    /// The attributes that could be read. Empty if the caller has no permission, or AWS has none for the group.
    pub attributes: Attributes,
    /// Whether nodes of the load balancer send to targets of all zones. `None`: the caller has no permission.
    pub cross_zone: Option<bool>,
    /// The number of targets in each zone, without draining ones.
    pub zones: BTreeMap<String, usize>,
}

/// Attributes by key, as AWS writes them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes(pub BTreeMap<String, String>);

impl Attributes {
    /// How many seconds open requests may continue after a target is deregistered.
    pub fn deregistration_delay(&self) -> Option<u32> {
        self.number("deregistration_delay.timeout_seconds")
    }

    /// Whether a Network Load Balancer then closes open connections.
    pub fn closes_connections(&self) -> bool {
        self.is_on("deregistration_delay.connection_termination.enabled")
    }

    /// Whether targets see the addresses of clients.
    pub fn preserves_client_ip(&self) -> bool {
        self.is_on("preserve_client_ip.enabled")
    }

    /// How many targets of a zone must be healthy, in number and in percent, for `dns_failover` or
    /// `unhealthy_state_routing`.
    pub fn least_healthy(&self, what: &str) -> (Option<u32>, Option<u32>) {
        let of =
            |unit: &str| self.number(&format!("target_group_health.{what}.minimum_healthy_targets.{unit}"));
        (of("count"), of("percentage"))
    }

    /// Whether nodes of the load balancer send to targets of all zones. `None`: the load balancer's setting applies.
    fn cross_zone(&self) -> Option<bool> {
        self.0.get(CROSS_ZONE)?.parse().ok()
    }

    fn number(&self, key: &str) -> Option<u32> {
        self.0.get(key)?.parse().ok()
    }

    fn is_on(&self, key: &str) -> bool {
        self.0.get(key).is_some_and(|value| value == "true")
    }
}

/// Calls `DescribeTargetGroups` and `DescribeTargetHealth` for one group. If allowed, also
/// `DescribeTargetGroupAttributes` and `DescribeLoadBalancerAttributes`.
pub async fn inspect(groups: &TargetGroups, arn: &TargetGroupArn) -> Result<Inspected, Failure> {
    let client = groups.client();
    let call = client.describe_target_groups().target_group_arns(arn.as_str());
    let answer = call.send().await.map_err(|error| failure::of(&error))?;
    let group = answer.target_groups().first().ok_or_else(failure::empty_answer)?;
    let attributes = client.describe_target_group_attributes().target_group_arn(arn.as_str());
    let attributes = if_allowed(attributes.send().await.map_err(|error| failure::of(&error)))?;
    let attributes = attributes.as_ref().map(Answer::attributes).unwrap_or_default().iter();
    let attributes = attributes.filter_map(|one| Some((one.key()?.to_owned(), one.value()?.to_owned())));
    let attributes = Attributes(attributes.collect());
    let cross_zone = match (attributes.cross_zone(), group.load_balancer_arns()) {
        (Some(own), _) => Some(own),
        (None, [balancer, ..]) if !attributes.0.is_empty() => cross_zone(client, balancer).await?,
        (None, _) => None,
    };
    let health = client.describe_target_health().target_group_arn(arn.as_str());
    let health = if_allowed(health.send().await.map_err(|error| failure::of(&error)))?;
    let mut zones = BTreeMap::new();
    for target in health.iter().flat_map(Health::target_health_descriptions) {
        let state = target.target_health().and_then(|health| health.state());
        let zone = target.target().and_then(|target| target.availability_zone());
        if let (Some(zone), false) = (zone, state == Some(&TargetHealthStateEnum::Draining)) {
            *zones.entry(zone.to_owned()).or_default() += 1;
        }
    }
    Ok(Inspected {
        target_type: group.target_type().map(|kind| TargetType::parse(kind.as_str())),
        protocol: group.protocol().map_or("", |protocol| protocol.as_str()).to_owned(),
        load_balancers: group.load_balancer_arns().len(),
        checks_health: group.health_check_enabled().unwrap_or(true),
        health_protocol: group.health_check_protocol().map_or("", |protocol| protocol.as_str()).to_owned(),
        attributes,
        cross_zone,
        zones,
    })
}

/// The load balancer's own setting, which applies if a target group has none.
async fn cross_zone(client: &Client, balancer: &str) -> Result<Option<bool>, Failure> {
    let call = client.describe_load_balancer_attributes().load_balancer_arn(balancer);
    let answer = if_allowed(call.send().await.map_err(|error| failure::of(&error)))?;
    let is =
        |one: &LoadBalancerAttribute| (one.key() == Some(CROSS_ZONE)).then(|| one.value() == Some("true"));
    Ok(answer.and_then(|answer| answer.attributes().iter().find_map(is)))
}

/// `None` if the caller has no permission.
fn if_allowed<T>(answer: Result<T, Failure>) -> Result<Option<T>, Failure> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(Failure { class: FailureClass::Denied, .. }) => Ok(None),
        Err(failure) => Err(failure),
    }
}
