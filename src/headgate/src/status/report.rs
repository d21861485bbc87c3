//! The JSON form of a status. The names of the fields are stable.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use serde::{Deserialize, Serialize};

use crate::api::ingress_daemon_set::NodeTurn;

/// The state of everything.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// The time of the status.
    pub at: MicroTime,
    /// The replica that answered.
    pub answered_by: Option<String>,
    /// The problems, most severe first.
    pub problems: Vec<Problem>,
    /// The nodes that will be removed, or were deleted while they have pods, by name.
    #[serde(default)]
    pub leaving_nodes: Vec<LeavingNode>,
    /// The IngressDaemonSets by name, if they are shown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ingress_daemon_sets: Vec<IngressDaemonSet>,
    /// The target groups, by name.
    pub target_groups: Vec<TargetGroup>,
}

/// An IngressDaemonSet with its status.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IngressDaemonSet {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The reason of its rollout's state. `None`: `headgate daemonsets` has not written the status of its present
    /// generation.
    pub progress: Option<String>,
    /// The sentence.
    pub message: String,
    /// Nodes that should have pods.
    pub nodes: i64,
    /// How many of them have the newest template.
    pub updated_nodes: i64,
    /// How many of them have fewer available pods than wanted.
    pub degraded_nodes: i64,
    /// The number of wanted pods.
    pub wanted_pods: i64,
    /// Pods that are available.
    pub available_pods: i64,
    /// The nodes that are being updated.
    pub turns: Vec<NodeTurn>,
}

/// A node that will be removed, or was deleted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LeavingNode {
    /// Its name.
    pub node: String,
    /// Why its targets are deregistered.
    pub reason: String,
    /// How many of its pods are still targets.
    pub pods: usize,
}

/// A problem.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// The reason.
    pub reason: String,
    /// The object: a target group, a Service, a TargetBinding, an IngressDaemonSet, AWS or Headgate itself.
    pub about: String,
    /// The sentence. It contains no age, so it changes only when the problem does.
    pub message: String,
    /// When it began, if known.
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
    /// The bindings of the group, such as `Service shop/web port http`.
    pub bound_by: Vec<String>,
    /// Its zones by name. The name is empty for targets in an unknown zone.
    pub zones: Vec<Zone>,
    /// The number of foreign targets that are not draining.
    pub foreign: usize,
    /// The number of deregistrations that wait.
    pub held: usize,
    /// If it is paused, the number of waiting registrations and deregistrations.
    pub paused: Option<Paused>,
    /// When the last answered read was sent.
    pub last_read: Option<MicroTime>,
    /// When the oldest pending deregistration was caused.
    pub oldest_removal: Option<MicroTime>,
}

/// The calls that wait for the end of a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Paused {
    /// The number of registrations.
    pub registrations: usize,
    /// The number of deregistrations.
    pub removals: usize,
}

/// A zone of a target group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Zone {
    /// Its name.
    pub zone: String,
    /// The number of wanted targets.
    pub wanted: usize,
    /// How many of these are healthy.
    pub serving: usize,
    /// The number of targets that AWS shows, by state, including foreign ones.
    pub states: BTreeMap<String, usize>,
}

impl Status {
    /// The number of wanted targets, and how many of them are healthy.
    pub fn wanted(&self) -> (usize, usize) {
        let zones = self.target_groups.iter().flat_map(|group| &group.zones);
        zones.fold((0, 0), |(wanted, serving), zone| (wanted + zone.wanted, serving + zone.serving))
    }
}
