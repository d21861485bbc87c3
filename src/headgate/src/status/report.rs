//! The JSON form of a status. The names of the fields are stable.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use serde::{Deserialize, Serialize};

use crate::api::ingress_daemon_set::NodeTurn;

/// The status of an installation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// The time of the status.
    pub at: MicroTime,
    /// The replica that answered.
    pub answered_by: Option<String>,
    /// The list of problems, most severe first.
    pub problems: Vec<Problem>,
    /// The nodes that will be removed, and deleted nodes that still have pods, by name.
    #[serde(default)]
    pub leaving_nodes: Vec<LeavingNode>,
    /// The IngressDaemonSets by name, if Headgate shows them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ingress_daemon_sets: Vec<IngressDaemonSet>,
    /// The target groups, sorted by name.
    pub target_groups: Vec<TargetGroup>,
}

/// An IngressDaemonSet with its status.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IngressDaemonSet {
    /// The set's namespace.
    pub namespace: String,
    /// The set's name.
    pub name: String,
    /// The reason of the set's condition `Progressing`. `None`: `headgate daemonsets` has not written the status of the
    /// present generation.
    pub progress: Option<String>,
    /// The message of the set's condition `Progressing`.
    pub message: String,
    /// The number of nodes that should have pods.
    pub nodes: i64,
    /// The number of nodes whose pods have the newest template.
    pub updated_nodes: i64,
    /// The number of nodes with fewer available pods than desired.
    pub degraded_nodes: i64,
    /// The number of desired pods.
    pub wanted_pods: i64,
    /// The number of available pods.
    pub available_pods: i64,
    /// The nodes that are being updated.
    pub turns: Vec<NodeTurn>,
}

/// A node that will be removed, or that was deleted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LeavingNode {
    /// The node's name.
    pub node: String,
    /// The reason why Headgate deregisters the node's targets.
    pub reason: String,
    /// The number of the node's pods that are still targets.
    pub pods: usize,
}

/// A problem and its object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// The reason.
    pub reason: String,
    /// The object that has the problem: a target group, a Service, a TargetBinding, an IngressDaemonSet, AWS or
    /// Headgate itself.
    pub about: String,
    /// A sentence that describes the problem. The sentence contains no age, so it changes only when the problem
    /// changes.
    pub message: String,
    /// The time when the problem began, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<MicroTime>,
    /// The ARNs of the affected target groups.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub target_groups: Vec<String>,
}

/// The state of a target group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TargetGroup {
    /// The target group's name.
    pub name: String,
    /// The target group's ARN.
    pub arn: String,
    /// The target group's bindings, such as `Service shop/web port http`.
    pub bound_by: Vec<String>,
    /// The target group's zones by name. The name is empty for targets in an unknown zone.
    pub zones: Vec<Zone>,
    /// The number of foreign targets that are not draining.
    pub foreign: usize,
    /// The number of deregistrations that wait for healthy replacements or for their zone.
    pub held: usize,
    /// The number of waiting registrations and deregistrations, if the target group is paused.
    pub paused: Option<Paused>,
    /// The time when Headgate sent the last successful `DescribeTargetHealth` request.
    pub last_read: Option<MicroTime>,
    /// The time since which the oldest pending deregistration waits.
    pub oldest_removal: Option<MicroTime>,
}

/// The changes that wait for the end of a pause.
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
    /// The zone's name.
    pub zone: String,
    /// The number of desired targets.
    pub wanted: usize,
    /// The number of desired targets that are healthy.
    pub serving: usize,
    /// The number of targets in AWS by state, including foreign targets.
    pub states: BTreeMap<String, usize>,
}

impl Status {
    /// The number of desired targets, and how many of them are healthy.
    pub fn wanted(&self) -> (usize, usize) {
        let zones = self.target_groups.iter().flat_map(|group| &group.zones);
        zones.fold((0, 0), |(wanted, serving), zone| (wanted + zone.wanted, serving + zone.serving))
    }
}
