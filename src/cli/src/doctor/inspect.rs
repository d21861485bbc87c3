//! Reads a target group from AWS with the credentials of the caller of `headgate doctor`. The controller itself never
//! uses this module.

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

/// The attribute for cross-zone load balancing, which both target groups and load balancers have.
const CROSS_ZONE: &str = "load_balancing.cross_zone.enabled";

/// The properties of a target group that the checks need.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inspected {
    /// The target type. `None`: AWS did not return the target type.
    pub target_type: Option<TargetType>,
    /// The protocol, as AWS spells it.
    pub protocol: String,
    /// The number of load balancers that use the target group.
    pub load_balancers: usize,
    /// Whether health checks are enabled.
    pub checks_health: bool,
    /// The protocol of the health checks, as AWS spells it.
    pub health_protocol: String,
    /// The attributes of the target group. Empty if the caller has no permission.
    pub attributes: Attributes,
    /// Whether cross-zone load balancing is enabled. `None`: the caller has no permission to read the setting.
    pub cross_zone: Option<bool>,
    /// The number of targets in each zone, without draining targets.
    pub zones: BTreeMap<String, usize>,
}

/// The attributes of a target group, by key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes(pub BTreeMap<String, String>);

impl Attributes {
    /// Returns the deregistration delay in seconds: how long open requests may continue after a deregistration.
    pub fn deregistration_delay(&self) -> Option<u32> {
        self.number("deregistration_delay.timeout_seconds")
    }

    /// Returns whether a Network Load Balancer closes open connections after the deregistration delay.
    pub fn closes_connections(&self) -> bool {
        self.is_on("deregistration_delay.connection_termination.enabled")
    }

    /// Returns whether targets receive the IP addresses of clients.
    pub fn preserves_client_ip(&self) -> bool {
        self.is_on("preserve_client_ip.enabled")
    }

    /// Returns how many targets of a zone must be healthy, as a number and in percent. `what` is `dns_failover` or
    /// `unhealthy_state_routing`.
    pub fn least_healthy(&self, what: &str) -> (Option<u32>, Option<u32>) {
        let of =
            |unit: &str| self.number(&format!("target_group_health.{what}.minimum_healthy_targets.{unit}"));
        (of("count"), of("percentage"))
    }

    /// Returns whether cross-zone load balancing is enabled. `None`: the load balancer's setting applies.
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

/// Calls `DescribeTargetGroups` and `DescribeTargetHealth` for one target group. If the caller has the permissions,
/// also calls `DescribeTargetGroupAttributes` and `DescribeLoadBalancerAttributes`.
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

/// Returns the load balancer's own setting, which applies if the target group has no setting.
async fn cross_zone(client: &Client, balancer: &str) -> Result<Option<bool>, Failure> {
    let call = client.describe_load_balancer_attributes().load_balancer_arn(balancer);
    let answer = if_allowed(call.send().await.map_err(|error| failure::of(&error)))?;
    let is =
        |one: &LoadBalancerAttribute| (one.key() == Some(CROSS_ZONE)).then(|| one.value() == Some("true"));
    Ok(answer.and_then(|answer| answer.attributes().iter().find_map(is)))
}

/// Returns `None` if the caller has no permission for the call.
fn if_allowed<T>(answer: Result<T, Failure>) -> Result<Option<T>, Failure> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(Failure { class: FailureClass::Denied, .. }) => Ok(None),
        Err(failure) => Err(failure),
    }
}
