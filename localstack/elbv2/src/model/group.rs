//! Target groups with their settings and attributes.
//!
//! The module [`super::life`] contains the targets.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::life::Target;
use super::names::{ArnKind, check_name};
use super::past::Past;
use super::routing::Attachment;
use super::target::TargetKey;
use super::{
    Family, GroupId, HealthCheck, HealthCheckChange, Kind, Model, Protocol, Refusal, Tags, TargetType,
    attributes,
};
use crate::behaviour::{Batches, Lag, LagPatch, OnDraining, OnReuse, Profile, Range};

/// The settings of one target group that differ from the settings of its kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupSettings {
    /// The profile with the defaults of the ranges below. `None`: the kind determines the defaults.
    pub profile: Option<Profile>,
    /// See [`Lag::registration`].
    pub registration: Option<Range>,
    /// See [`Lag::deregistration`].
    pub deregistration: Option<Range>,
    /// See [`Lag::health_skew`].
    pub health_skew: Option<Range>,
    /// See [`Lag::unhealthy`].
    pub unhealthy: Option<Range>,
    /// The effect of RegisterTargets on a draining target.
    pub on_draining: Option<OnDraining>,
    /// The effect of a repeated registration of an address on open flows.
    pub on_reuse: Option<OnReuse>,
    /// The effect of a call in which one target is rejected.
    pub batches: Option<Batches>,
}

impl GroupSettings {
    fn lag(&self) -> LagPatch {
        LagPatch {
            registration: self.registration,
            deregistration: self.deregistration,
            health_skew: self.health_skew,
            unhealthy: self.unhealthy,
            provisioning: None,
        }
    }
}

/// The parameters of CreateTargetGroup.
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
    pub id: GroupId,
    pub arn: String,
    /// The parameters at the creation of the target group. Only `health_check` and `tags` are kept current.
    pub spec: NewGroup,
    /// All attributes and their values.
    pub attributes: BTreeMap<String, String>,
    /// The settings that differ from the settings of the kind.
    pub settings: GroupSettings,
    pub(super) targets: BTreeMap<TargetKey, Target>,
    pub(super) attachment: Option<Attachment>,
    pub(super) past: Past,
}

impl TargetGroup {
    /// Returns the kind of load balancer that the target group is for.
    pub fn kind(&self) -> Kind {
        self.spec.protocol.map_or(Kind::Application, Protocol::kind)
    }

    /// Returns the load balancer that uses the target group.
    pub fn balancer(&self) -> Option<super::BalancerId> {
        self.attachment.as_ref().map(|attachment| attachment.balancer)
    }

    /// Returns the targets that DescribeTargetHealth lists.
    pub fn targets(&self) -> impl Iterator<Item = &Target> {
        self.targets.values()
    }

    /// Returns `deregistration_delay.timeout_seconds`, in AWS seconds.
    pub(super) fn deregistration_delay(&self) -> f64 {
        self.attributes.get(attributes::DEREGISTRATION_DELAY).and_then(|v| v.parse().ok()).unwrap_or(300.0)
    }

    /// Returns whether an attribute is `true`.
    pub(super) fn is_on(&self, attribute: &str) -> bool {
        self.attributes.get(attribute).is_some_and(|value| value == "true")
    }

    /// Returns how long the API shows an unhealthy target as draining, in AWS seconds. `None`: not at all.
    pub(super) fn unhealthy_draining(&self) -> Option<f64> {
        let seconds = self.attributes.get(attributes::UNHEALTHY_DRAINING)?.parse().ok()?;
        (!self.is_on(attributes::UNHEALTHY_TERMINATION) && seconds > 0.0).then_some(seconds)
    }

    pub(super) fn on_reuse(&self) -> OnReuse {
        self.settings.on_reuse.unwrap_or(OnReuse::Keep)
    }

    pub(super) fn on_draining(&self) -> OnDraining {
        self.settings.on_draining.unwrap_or(match self.kind() {
            Kind::Network => OnDraining::Revive,
            Kind::Application => OnDraining::Reject,
        })
    }
}

impl Model {
    /// Creates a target group. If a target group with the same name and settings exists, returns the existing target
    /// group.
    pub fn create_group(&mut self, spec: NewGroup) -> Result<GroupId, Refusal> {
        check_name(ArnKind::TargetGroup, &spec.name)?;
        self.check_spec(&spec)?;
        if let Some(existing) = self.groups.values().find(|group| group.spec.name == spec.name) {
            let (old, new) = (&existing.spec, &spec);
            let same = (old.target_type, old.protocol, old.port, &old.vpc, old.family, &old.health_check)
                == (new.target_type, new.protocol, new.port, &new.vpc, new.family, &new.health_check);
            return if same { Ok(existing.id) } else { Err(Refusal::DuplicateTargetGroupName(spec.name)) };
        }
        let most = self.behaviour.quotas.as_ref().map(|quotas| quotas.target_groups);
        if most.is_some_and(|most| self.groups.len() >= usize::try_from(most).unwrap_or(usize::MAX)) {
            return Err(Refusal::TooManyTargetGroups);
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
            past: Past::default(),
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

    /// Returns all target groups in the order of their creation.
    pub fn groups(&self) -> impl Iterator<Item = &TargetGroup> {
        self.groups.values()
    }

    /// Returns the target group with this identifier.
    pub fn group(&self, id: GroupId) -> Result<&TargetGroup, Refusal> {
        self.groups.get(&id).ok_or(Refusal::TargetGroupNotFound)
    }

    pub(super) fn group_mut(&mut self, id: GroupId) -> Result<&mut TargetGroup, Refusal> {
        self.groups.get_mut(&id).ok_or(Refusal::TargetGroupNotFound)
    }

    /// Returns the target group with this ARN. A malformed ARN is an error.
    pub fn group_by_arn(&self, arn: &str) -> Result<GroupId, Refusal> {
        super::Arn::expect_kind(arn, ArnKind::TargetGroup)?;
        self.groups.values().find(|group| group.arn == arn).map(|g| g.id).ok_or(Refusal::TargetGroupNotFound)
    }

    /// Returns the target group with this name.
    pub fn group_by_name(&self, name: &str) -> Result<GroupId, Refusal> {
        self.groups
            .values()
            .find(|group| group.spec.name == name)
            .map(|group| group.id)
            .ok_or(Refusal::TargetGroupNotFound)
    }

    /// Changes the health check. The change affects only probes that become due later.
    pub fn change_health_check(&mut self, id: GroupId, change: HealthCheckChange) -> Result<(), Refusal> {
        let group = self.group_mut(id)?;
        group.spec.health_check = group.spec.health_check.changed(change)?;
        Ok(())
    }

    /// Replaces the settings of a target group. An absent setting gets the default of the kind again.
    pub fn set_group_settings(&mut self, id: GroupId, settings: GroupSettings) -> Result<(), Refusal> {
        let kind = self.group(id)?.kind();
        let base = settings.profile.map_or(self.behaviour.lag(kind), Profile::lag);
        settings.lag().over(base).map_err(|error| Refusal::validation(error.to_string()))?;
        self.group_mut(id)?.settings = settings;
        Ok(())
    }

    pub(super) fn lag_of(&self, group: &TargetGroup) -> Lag {
        let base = group.settings.profile.map_or(self.behaviour.lag(group.kind()), Profile::lag);
        // The settings were valid when they were set, but the defaults may have changed in the meantime.
        group.settings.lag().over(base).unwrap_or(base)
    }

    pub(super) fn interval_of(&self, group: &TargetGroup) -> Duration {
        // With a shorter interval, a probe could still run when the next probe is due.
        const SHORTEST: Duration = Duration::from_millis(50);
        self.behaviour.scaled(f64::from(group.spec.health_check.interval)).max(SHORTEST)
    }
}
