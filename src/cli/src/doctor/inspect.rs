//! A target group as whoever runs `headgate doctor` sees it, with credentials of their own. Headgate itself never calls
//! this.

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

/// The attribute of target groups and of load balancers.
const CROSS_ZONE: &str = "load_balancing.cross_zone.enabled";

/// What counts of a target group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inspected {
    /// What its targets are; none: AWS did not say.
    pub target_type: Option<TargetType>,
    /// How it is spoken to, as AWS writes it.
    pub protocol: String,
    /// How many load balancers use it.
    pub load_balancers: usize,
    /// Whether it checks the health of its targets.
    pub checks_health: bool,
    /// And how, as AWS writes it.
    pub health_protocol: String,
    /// What of its attributes could be read; none of those that may not be looked at, or that AWS does not have for it.
    pub attributes: Attributes,
    /// Whether nodes of the load balancer send to targets of all zones; none: nobody may look.
    pub cross_zone: Option<bool>,
    /// How many targets there are in each zone, but for those that go.
    pub zones: BTreeMap<String, usize>,
}

/// Attributes by their keys, as AWS writes them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes(pub BTreeMap<String, String>);

impl Attributes {
    /// In seconds, for how long requests under way may go on after a target is deregistered.
    pub fn deregistration_delay(&self) -> Option<u32> {
        self.number("deregistration_delay.timeout_seconds")
    }

    /// Whether a Network Load Balancer closes what is open then.
    pub fn closes_connections(&self) -> bool {
        self.is_on("deregistration_delay.connection_termination.enabled")
    }

    /// Whether targets see the addresses of clients.
    pub fn preserves_client_ip(&self) -> bool {
        self.is_on("preserve_client_ip.enabled")
    }

    /// How many targets of a zone must be healthy, in number and in percent, for this: `dns_failover`, or
    /// `unhealthy_state_routing`.
    pub fn least_healthy(&self, what: &str) -> (Option<u32>, Option<u32>) {
        let of =
            |unit: &str| self.number(&format!("target_group_health.{what}.minimum_healthy_targets.{unit}"));
        (of("count"), of("percentage"))
    }

    /// Whether nodes of the load balancer send to targets of all zones; none: as the load balancer says.
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

/// `DescribeTargetGroups` and `DescribeTargetHealth` of one, and, where that is allowed, `DescribeTargetGroupAttributes`
/// and `DescribeLoadBalancerAttributes`.
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

/// What a load balancer says of its nodes, whose target groups may say nothing of their own.
async fn cross_zone(client: &Client, balancer: &str) -> Result<Option<bool>, Failure> {
    let call = client.describe_load_balancer_attributes().load_balancer_arn(balancer);
    let answer = if_allowed(call.send().await.map_err(|error| failure::of(&error)))?;
    let is =
        |one: &LoadBalancerAttribute| (one.key() == Some(CROSS_ZONE)).then(|| one.value() == Some("true"));
    Ok(answer.and_then(|answer| answer.attributes().iter().find_map(is)))
}

/// Nothing, if whoever asks may not.
fn if_allowed<T>(answer: Result<T, Failure>) -> Result<Option<T>, Failure> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(Failure { class: FailureClass::Denied, .. }) => Ok(None),
        Err(failure) => Err(failure),
    }
}
