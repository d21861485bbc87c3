//! Sends the engine's calls to AWS and returns the results.
//!
//! Headgate uses four actions of the ELBv2 API: `DescribeTargetGroups`, `DescribeTargetHealth`, `RegisterTargets` and
//! `DeregisterTargets`. A fifth action, `DescribeTargetGroupAttributes`, is optional. The SDK's own retries are
//! disabled, because they would add invisible delays and stop after fifty throttled calls. The engine retries calls
//! instead. [`reach`] reports when AWS is unreachable. [`credentials`] fetches credentials independently of the calls.

pub mod credentials;
pub mod failure;
pub mod reach;

use std::time::Duration;

use aws_config::{
    BehaviorVersion, default_provider::region::DefaultRegionChain, identity::IdentityCache,
    retry::RetryConfig, timeout::TimeoutConfig,
};
use aws_sdk_elasticloadbalancingv2::{
    Client,
    config::endpoint::{DefaultResolver, Params, ResolveEndpoint},
    types::{TargetDescription, TargetGroup, TargetGroupIpAddressTypeEnum, TargetHealthReasonEnum},
};
use headgate_core::{
    Answer, Call, Failure, Target,
    model::{
        health::Health,
        target_group::{GroupRef, IpFamily, LeastHealthy, TargetGroupArn, TargetGroupFacts, TargetType},
    },
    requests::CALL_PATIENCE,
};
use thiserror::Error;

use self::credentials::Keeper;
use crate::runtime::clock::Clock;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// The reason why Headgate cannot use AWS.
#[derive(Debug, Error)]
pub enum AwsError {
    /// The AWS region is unknown.
    #[error(
        "no AWS region is known. Set AWS_REGION or a profile with a region, or allow access to the instance \
         metadata"
    )]
    NoRegion,
}

/// A client for the target groups of one account and region.
#[derive(Clone, Debug)]
pub struct TargetGroups {
    client: Client,
    region: Box<str>,
    endpoint: Box<str>,
}

impl TargetGroups {
    /// Connects for short commands, and fetches credentials only once.
    ///
    /// # Errors
    /// The region is unknown.
    pub async fn connect() -> Result<Self, AwsError> {
        let (connected, mut keeper) = Self::connect_kept(Clock::start()).await?;
        keeper.fetch().await;
        Ok(connected)
    }

    /// Connects through the SDK's standard chain: environment, profiles, IRSA, Pod Identity, instance metadata.
    /// `AWS_ENDPOINT_URL_ELASTIC_LOAD_BALANCING_V2` sets another endpoint. Calls have no credentials until the returned
    /// keeper runs.
    ///
    /// # Errors
    /// The region is unknown.
    pub async fn connect_kept(clock: Clock) -> Result<(Self, Keeper), AwsError> {
        let region = DefaultRegionChain::builder().build().region().await.ok_or(AwsError::NoRegion)?;
        let (keeper, kept) = Keeper::of_chain(region.clone(), clock).await;
        let timeouts = TimeoutConfig::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .operation_attempt_timeout(CALL_PATIENCE)
            .operation_timeout(CALL_PATIENCE)
            .build();
        let config = aws_config::defaults(BehaviorVersion::latest())
            .region(region.clone())
            .credentials_provider(kept)
            // The keeper already caches the credentials.
            .identity_cache(IdentityCache::no_cache())
            .retry_config(RetryConfig::disabled())
            .timeout_config(timeouts)
            .load()
            .await;
        let region: Box<str> = region.as_ref().into();
        let endpoint = endpoint(&config, &region).await;
        Ok((Self { client: Client::new(&config), region, endpoint }, keeper))
    }

    /// The SDK's client, for commands that need calls that Headgate itself never sends.
    pub const fn client(&self) -> &Client {
        &self.client
    }

    /// The URL of the ELBv2 endpoint.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// The region.
    pub fn region(&self) -> &str {
        &self.region
    }

    /// Sends a call and waits for the result.
    pub async fn make(&self, call: &Call) -> Result<Answer, Failure> {
        match call {
            Call::Register { group, items } => {
                let call = self.client.register_targets().target_group_arn(group.as_str());
                let sent =
                    call.set_targets(Some(describe(items.iter().map(|item| item.target)))).send().await;
                sent.map(|_| Answer::Done).map_err(|error| failure::of(&error))
            }
            Call::Deregister { group, items } => {
                self.deregister(group, items.iter().map(|item| item.target)).await.map(|()| Answer::Done)
            }
            Call::ReadHealth { group } => self.read_health(group).await.map(Answer::Health),
            Call::FindGroups { references } => self.find_groups(references).await,
            Call::ReadAttributes { group } => self.read_attributes(group).await.map(Answer::Attributes),
        }
    }

    /// Sends `DeregisterTargets` for 1 to [`MAX_TARGETS_PER_CALL`](headgate_core::model::rates::MAX_TARGETS_PER_CALL)
    /// targets.
    pub async fn deregister(
        &self,
        group: &TargetGroupArn,
        targets: impl Iterator<Item = Target>,
    ) -> Result<(), Failure> {
        let call = self.client.deregister_targets().target_group_arn(group.as_str());
        let sent = call.set_targets(Some(describe(targets))).send().await;
        sent.map(|_| ()).map_err(|error| failure::of(&error))
    }

    /// Sends `DescribeTargetHealth` for the whole target group.
    pub async fn read_health(&self, group: &TargetGroupArn) -> Result<Vec<(Target, Health)>, Failure> {
        let call = self.client.describe_target_health().target_group_arn(group.as_str());
        let answer = call.send().await.map_err(|error| failure::of(&error))?;
        let states = answer.target_health_descriptions().iter().filter_map(|description| {
            let target = description.target()?;
            let port = u16::try_from(target.port()?).ok()?;
            let target = Target::new(target.id()?.parse().ok()?, port);
            let (health, zone) = (description.target_health()?, description.target()?.availability_zone());
            let reason = health.reason().map(TargetHealthReasonEnum::as_str);
            let shift = description.administrative_override().and_then(|shift| Some(shift.state()?.as_str()));
            let health = Health::read(health.state()?.as_str(), reason, health.description(), shift);
            Some((target, health.within(zone)))
        });
        Ok(states.collect())
    }

    async fn read_attributes(&self, group: &TargetGroupArn) -> Result<LeastHealthy, Failure> {
        let call = self.client.describe_target_group_attributes().target_group_arn(group.as_str());
        let answer = call.send().await.map_err(|error| failure::of(&error))?;
        let highest = |unit: &str| {
            let of = |what: &str| {
                let key = format!("target_group_health.{what}.minimum_healthy_targets.{unit}");
                let value =
                    answer.attributes().iter().find(|attribute| attribute.key() == Some(&key))?.value()?;
                // The attribute's value may be "off".
                value.parse::<u32>().ok()
            };
            [of("dns_failover"), of("unhealthy_state_routing")].into_iter().flatten().max()
        };
        let LeastHealthy { count, percent } = LeastHealthy::DEFAULT;
        let (count, percent) = (highest("count").unwrap_or(count), highest("percentage").unwrap_or(percent));
        Ok(LeastHealthy { count, percent })
    }

    async fn find_groups(&self, references: &[GroupRef]) -> Result<Answer, Failure> {
        let call = self.client.describe_target_groups();
        let call = references.iter().fold(call, |call, reference| match reference {
            GroupRef::Arn(arn) => call.target_group_arns(arn.as_str()),
            GroupRef::Name(name) => call.names(name.as_ref()),
        });
        let answer = call.send().await.map_err(|error| failure::of(&error))?;
        let found: Vec<TargetGroupFacts> = answer.target_groups().iter().filter_map(facts).collect();
        if found.is_empty() { Err(failure::empty_answer()) } else { Ok(Answer::Groups(found)) }
    }
}

/// The endpoint of the client. The SDK itself resolves the endpoint only at the first call.
async fn endpoint(config: &aws_config::SdkConfig, region: &str) -> Box<str> {
    let own = std::env::var("AWS_ENDPOINT_URL_ELASTIC_LOAD_BALANCING_V2").ok();
    let named = own.filter(|url| !url.is_empty()).or_else(|| config.endpoint_url().map(str::to_owned));
    if let Some(named) = named {
        return named.into();
    }
    let parameters = Params::builder().region(region).build().ok();
    let resolver = DefaultResolver::new();
    let found = match &parameters {
        Some(parameters) => ResolveEndpoint::resolve_endpoint(&resolver, parameters).await.ok(),
        None => None,
    };
    found.map_or_else(|| "the ELBv2 API".into(), |endpoint| endpoint.url().into())
}

/// Describes targets for AWS, always with a port and never with a zone. AWS determines the zone of addresses in the
/// VPC.
fn describe(targets: impl Iterator<Item = Target>) -> Vec<TargetDescription> {
    let description = |target: Target| {
        let builder = TargetDescription::builder().id(target.ip.to_string());
        builder.port(i32::from(target.port)).build()
    };
    targets.map(description).collect()
}

fn facts(group: &TargetGroup) -> Option<TargetGroupFacts> {
    Some(TargetGroupFacts {
        arn: TargetGroupArn::parse(group.target_group_arn()?).ok()?,
        target_type: TargetType::parse(group.target_type()?.as_str()),
        protocol: group.protocol().map_or("", |protocol| protocol.as_str()).into(),
        ip_family: match group.ip_address_type() {
            Some(TargetGroupIpAddressTypeEnum::Ipv6) => IpFamily::V6,
            _ => IpFamily::V4,
        },
        least_healthy: None,
    })
}
