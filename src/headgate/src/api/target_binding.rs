//! The kind TargetBinding: pods and a target group.

// Each printer column has a name, a type and a path of its own.
#![allow(clippy::duplicated_attributes)]

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::{
    apis::meta::v1::{Condition, Time},
    util::intstr::IntOrString,
};
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

/// The label of a TargetBinding that Headgate has made, and what it was made from.
pub const MADE_FROM: &str = "headgate.dev/made-from";
/// The finalizer that keeps a deleted TargetBinding until its targets are gone.
pub const FINALIZER: &str = "headgate.dev/targets";
/// The value of [`MADE_FROM`] for those made from the annotation of a Service.
pub const FROM_SERVICE: &str = "service";

/// Which pods are targets of which target group. Give either serviceRef, or podSelector and port.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "headgate.dev",
    version = "v1alpha1",
    kind = "TargetBinding",
    namespaced,
    status = "TargetBindingStatus",
    doc = "Pods of this namespace as targets of an AWS target group. Headgate makes one for each port of a Service \
           that the annotation headgate.dev/target-groups binds (label headgate.dev/made-from: service; to be read \
           only), and follows those that you write.",
    shortname = "tb",
    category = "headgate",
    derive = "PartialEq",
    printcolumn(name = "Target group", type_ = "string", json_path = ".status.targetGroup"),
    printcolumn(name = "Wanted", type_ = "integer", json_path = ".status.wanted"),
    printcolumn(name = "Healthy", type_ = "integer", json_path = ".status.healthy"),
    printcolumn(name = "Initial", type_ = "integer", json_path = ".status.initial"),
    printcolumn(name = "Draining", type_ = "integer", json_path = ".status.draining"),
    printcolumn(name = "Foreign", type_ = "integer", json_path = ".status.foreign"),
    printcolumn(name = "Read", type_ = "date", json_path = ".status.lastRead"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].reason",
        priority = 1
    )
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.serviceRef) != has(self.podSelector)")
        .message("expected either serviceRef, or podSelector and port, and not both"),
    validation = Rule::new("!has(self.podSelector) || has(self.port)")
        .message("podSelector needs port: the number of the pods' port, or the name that it has in their spec"),
    validation = Rule::new("!has(self.serviceRef) || (!has(self.port) && !has(self.protocol))")
        .message("port and protocol go with podSelector; with serviceRef, give serviceRef.port")
)]
pub struct TargetBindingSpec {
    /// The target group.
    pub target_group: TargetGroupRef,
    /// A port of a Service in this namespace: the pods that the Service selects, at that port's targetPort.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_ref: Option<ServiceRef>,
    /// The pods, when there is no Service for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_selector: Option<PodSelector>,
    /// With podSelector: the port of the pods, by number or by the name it has in the pods' spec.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "super::port")]
    pub port: Option<IntOrString>,
    /// With podSelector: the protocol of the port; TCP unless said otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<PortProtocol>,
    /// When a pod is registered: the moment it has its IP (ip, the default), when its containers are ready
    /// (containers-ready), when all its readiness gates but Headgate's are true too (ready), or as suits the load
    /// balancer (auto: NLB ip, ALB containers-ready).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub register_when: Option<RegisterWhen>,
    /// What becomes of a registered pod that is not ready any more: it stays (keep, the default), or it is deregistered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when_not_ready: Option<WhenNotReady>,
    /// What becomes of targets that somebody else has registered: they stay (shared, the default), or they are removed
    /// (exclusive), if every Service and TargetBinding of the target group says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ownership: Option<Ownership>,
    /// Nothing is written about its targets, but for those that something else binds, too, which is not paused. What would
    /// be done is said, and done when the pause ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
    /// For how long new pods are kept alive when they end (auto, the default: as long as the load balancer may go on
    /// sending; off; or a duration), if Headgate's webhook is asked to look at them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    #[x_kube(validation = Rule::new("self.matches('^(auto|off|([0-9]+h)?([0-9]+m)?[0-9]+s|([0-9]+h)?[0-9]+m|[0-9]+h)$')").message(
        "expected auto, off, or a duration from 1s to 1h in whole seconds, e.g. 45s or 2m30s"
    ))]
    pub hold: Option<String>,
    /// What the readiness gate of a pod does while no listener uses the target group: it opens (open, the default), or
    /// it waits for one (wait).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate_when_unused: Option<GateWhenUnused>,
    /// How many healthy targets a zone of the target group should keep when pods are evicted (1, the default): an
    /// eviction that would leave fewer waits for a replacement, for a while. 0: none waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1000))]
    pub min_healthy_per_zone: Option<i32>,
}

/// When a pod is registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RegisterWhen {
    /// The moment it has its IP.
    Ip,
    /// When its containers are ready.
    ContainersReady,
    /// When all its readiness gates but Headgate's are true too.
    Ready,
    /// As suits the load balancer.
    Auto,
}

/// What becomes of a registered pod that is not ready any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WhenNotReady {
    /// It stays.
    Keep,
    /// It is deregistered.
    Deregister,
}

/// What a readiness gate does while no listener uses the target group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GateWhenUnused {
    /// It opens.
    Open,
    /// It waits.
    Wait,
}

/// What becomes of targets that somebody else has registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Ownership {
    /// They stay.
    Shared,
    /// They are removed.
    Exclusive,
}

/// A target group, by ARN or by name.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.arn) != has(self.name)")
        .message("expected either the ARN or the name of the target group, and not both")
)]
pub struct TargetGroupRef {
    /// The ARN, as `aws elbv2 describe-target-groups` prints it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    #[x_kube(validation = Rule::new(
        "self.matches('^arn:aws[-a-z]*:elasticloadbalancing:[-a-z0-9]+:[0-9]{12}:targetgroup/[-A-Za-z0-9]{1,32}/[A-Za-z0-9]+$')"
    ).message(
        "expected the ARN of a target group: arn:aws:elasticloadbalancing:<region>:<account>:targetgroup/<name>/<id>"
    ))]
    pub arn: Option<String>,
    /// The name, looked up in Headgate's own account and region.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    #[x_kube(validation = Rule::new("self.matches('^[A-Za-z0-9]([-A-Za-z0-9]{0,30}[A-Za-z0-9])?$')").message(
        "expected the name of a target group: 1 to 32 letters, digits and hyphens, not beginning or ending with a hyphen"
    ))]
    pub name: Option<String>,
}

/// A port of a Service.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceRef {
    /// The name of the Service.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
    /// The number or the name of a port of the Service. May be left out if it has one port only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "super::port")]
    pub port: Option<IntOrString>,
}

/// Pods by their labels.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodSelector {
    /// The pods that carry all of these labels; at least one.
    #[schemars(extend("maxProperties" = 64))]
    #[x_kube(validation = Rule::new("self.size() > 0").message("expected at least one label, which says which pods become targets"))]
    pub match_labels: BTreeMap<String, String>,
}

/// The protocol of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum PortProtocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

/// What Headgate sees. Counts are of the targets of this binding, unless they say otherwise.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TargetBindingStatus {
    /// The generation of the spec that this is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The name of the target group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_group: Option<String>,
    /// The ARN of the target group, once it was found.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "targetGroupARN")]
    pub target_group_arn: Option<String>,
    /// Targets that should be in the target group.
    #[serde(default)]
    pub wanted: i64,
    /// Wanted targets that AWS has taken.
    #[serde(default)]
    pub registered: i64,
    /// Wanted targets that the load balancer calls healthy.
    #[serde(default)]
    pub healthy: i64,
    /// Wanted targets that the load balancer has not judged yet.
    #[serde(default)]
    pub initial: i64,
    /// Wanted targets that the load balancer calls unhealthy.
    #[serde(default)]
    pub unhealthy: i64,
    /// Targets of the whole target group that are draining.
    #[serde(default)]
    pub draining: i64,
    /// Targets of the whole target group that Headgate did not register, and leaves alone.
    #[serde(default)]
    pub foreign: i64,
    /// When the target group was last read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "super::time")]
    pub last_read: Option<Time>,
    /// Ready, TargetGroupFound, Conflict, RemovalHeld, Throttled and Paused, each with a stable reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "super::conditions")]
    pub conditions: Vec<Condition>,
}
