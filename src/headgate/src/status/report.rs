//! A status in its JSON form. The names of the fields are stable.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use serde::{Deserialize, Serialize};

use crate::api::ingress_daemon_set::NodeTurn;

/// How everything stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// The time of the status.
    pub at: MicroTime,
    /// The replica that answered.
    pub answered_by: Option<String>,
    /// The problems, most severe first.
    pub problems: Vec<Problem>,
    /// The nodes that are about to be removed, or were deleted while they have pods, by name.
    #[serde(default)]
    pub leaving_nodes: Vec<LeavingNode>,
    /// The IngressDaemonSets, by name, where they are shown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ingress_daemon_sets: Vec<IngressDaemonSet>,
    /// The target groups, by name.
    pub target_groups: Vec<TargetGroup>,
}

/// An IngressDaemonSet, as its status has it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IngressDaemonSet {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The reason of its rollout's state; none: `headgate daemonsets` has not written the status of its present
    /// generation.
    pub progress: Option<String>,
    /// The sentence.
    pub message: String,
    /// Nodes that should have pods.
    pub nodes: i64,
    /// Those of them that have the newest template.
    pub updated_nodes: i64,
    /// Those of them that have fewer available pods than they should.
    pub degraded_nodes: i64,
    /// Pods that should be there.
    pub wanted_pods: i64,
    /// Pods that are available.
    pub available_pods: i64,
    /// The nodes that are being updated.
    pub turns: Vec<NodeTurn>,
}

/// A node that is about to be removed, or was deleted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LeavingNode {
    /// Its name.
    pub node: String,
    /// The reason why its targets are deregistered.
    pub reason: String,
    /// How many pods there are still targets.
    pub pods: usize,
}

/// A problem.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// The reason word.
    pub reason: String,
    /// What it is about: a target group, a Service, a TargetBinding, an IngressDaemonSet, AWS or Headgate itself.
    pub about: String,
    /// The sentence. It contains no age, so it changes only when the problem does.
    pub message: String,
    /// When it began, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<MicroTime>,
    /// The ARNs of the target groups that it concerns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub target_groups: Vec<String>,
}

/// A target group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TargetGroup {
    /// Its name.
    pub name: String,
    /// Its ARN.
    pub arn: String,
    /// What binds pods to it: `Service shop/web port http`.
    pub bound_by: Vec<String>,
    /// Its zones, by name; that of targets in no known zone is empty.
    pub zones: Vec<Zone>,
    /// Targets that were not registered from here and do not drain.
    pub foreign: usize,
    /// Removals that are held.
    pub held: usize,
    /// If nothing may be written: how many registrations and removals wait.
    pub paused: Option<Paused>,
    /// When the last read that AWS has answered was sent.
    pub last_read: Option<MicroTime>,
    /// The oldest pending deregistration: when it was caused.
    pub oldest_removal: Option<MicroTime>,
}

/// What waits for the end of a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Paused {
    /// Registrations.
    pub registrations: usize,
    /// Removals.
    pub removals: usize,
}

/// A zone of a target group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Zone {
    /// Its name.
    pub zone: String,
    /// Targets that should be there.
    pub wanted: usize,
    /// How many of these are healthy.
    pub serving: usize,
    /// Targets that AWS shows, by state, including foreign ones.
    pub states: BTreeMap<String, usize>,
}

impl Status {
    /// How many targets should be there, and how many of them are healthy.
    pub fn wanted(&self) -> (usize, usize) {
        let zones = self.target_groups.iter().flat_map(|group| &group.zones);
        zones.fold((0, 0), |(wanted, serving), zone| (wanted + zone.wanted, serving + zone.serving))
    }
}
