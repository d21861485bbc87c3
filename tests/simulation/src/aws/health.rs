//! What the load balancers' health checks make of the targets, and what of that is due to which pod.

use std::{net::IpAddr, time::Duration};

use super::{Aws, Group};
use crate::{aws::There, cluster::Cluster, cluster::Voice, coverage::Coverage};
use headgate_core::model::{Health, HealthState, Moment, Target, TargetGroupArn, Uid, health::NOT_IN_USE};

const DRAINING: Duration = Duration::from_secs(20);
/// A new target is checked after this time.
const FIRST_CHECK: Duration = Duration::from_secs(3);
/// A target where nobody answers fails its health checks after this time.
const SICKENS: Duration = Duration::from_secs(4);

impl Group {
    /// What the health checks make of the targets by now.
    fn check(&mut self, cluster: &Cluster, now: Moment) -> Vec<(Target, HealthState)> {
        let mut turned = Vec::new();
        for (target, there) in &mut self.targets {
            if there.state == HealthState::Draining {
                continue;
            }
            let answers = cluster.voice(target) != Voice::Nobody;
            there.sick = if answers { None } else { there.sick.or(Some(now)) };
            let is_new = now.since(there.since) < FIRST_CHECK;
            let state = match (there.state, there.sick) {
                _ if self.unused || (self.narrow && is_in_the_zone(target)) => HealthState::Unused,
                (HealthState::Unused, _) => HealthState::Initial,
                (_, Some(since)) if now.since(since) > SICKENS => HealthState::Unhealthy,
                (HealthState::Initial, _) if is_new => continue,
                (_, Some(_)) => continue,
                (_, None) => HealthState::Healthy,
            };
            if state != there.state {
                turned.push((*target, state));
            }
        }
        turned
    }

    pub(super) fn health(&self, there: &There) -> Health {
        let reason = if there.state == HealthState::Unused { NOT_IN_USE } else { "" };
        let is_shifted = self.shifted && there.state == HealthState::Healthy;
        let state = if is_shifted { HealthState::ZonalShift } else { there.state };
        Health { reason, ..state.into() }
    }
}

/// Whether a target is in the zone that some load balancers do not serve.
fn is_in_the_zone(target: &Target) -> bool {
    matches!(target.ip, IpAddr::V4(ip) if ip.octets()[3] % 3 == 0)
}

impl Aws {
    /// Time has passed.
    pub(super) fn check_health(&mut self, now: Moment, cluster: &Cluster, coverage: &mut Coverage) {
        for group in self.groups.values_mut() {
            group
                .targets
                .retain(|_, there| there.state != HealthState::Draining || now.since(there.since) < DRAINING);
            let turned = group.check(cluster, now);
            if !turned.is_empty() {
                group.remember(now);
            }
            for (target, state) in turned {
                if let Some(there) = group.targets.get_mut(&target) {
                    (there.state, there.since) = (state, now);
                }
                if state == HealthState::Unhealthy {
                    coverage.saw("aws: target turned unhealthy");
                }
            }
            let healthy = group.targets.iter().filter(|(_, there)| there.state == HealthState::Healthy);
            for (target, _) in healthy {
                if let Voice::Pod(uid) = cluster.voice(target) {
                    self.proven.insert((group.arn.clone(), *target, uid.clone()), now);
                }
            }
            if group.unused {
                self.unused.insert(group.arn.clone(), now);
            }
        }
    }

    /// When a target was healthy last because of this pod, and no other.
    pub fn proven(&self, arn: &TargetGroupArn, target: &Target, uid: &Uid) -> Option<Moment> {
        self.proven.get(&(arn.clone(), *target, uid.clone())).copied()
    }

    /// When no listener used a group last, as far as could be known.
    pub fn unused(&self, arn: &TargetGroupArn) -> Option<Moment> {
        self.unused.get(arn).copied()
    }

    /// Whether a zonal shift keeps new traffic away from a group.
    pub fn is_shifted(&self, arn: &TargetGroupArn) -> bool {
        self.group(arn).is_some_and(|group| group.shifted)
    }

    /// Whether no listener uses a group.
    pub fn is_unused(&self, arn: &TargetGroupArn) -> bool {
        self.group(arn).is_some_and(|group| group.unused)
    }
}
