//! The kind TargetBinding, which binds pods to a target group.

// The lint is wrong: each printer column has its own name, type and path.
#![allow(clippy::duplicated_attributes)]

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::{
    apis::meta::v1::{Condition, Time},
    util::intstr::IntOrString,
};
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

/// The label that names the source of a generated TargetBinding.
pub const MADE_FROM: &str = "headgate.dev/made-from";
/// The finalizer that keeps a deleted TargetBinding until its targets are deregistered.
pub const FINALIZER: &str = "headgate.dev/targets";
/// The value of [`MADE_FROM`] for TargetBindings that are generated from a Service's annotation.
pub const FROM_SERVICE: &str = "service";

/// Which pods are targets of which target group. Set either serviceRef, or podSelector and port.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "headgate.dev",
    version = "v1alpha1",
    kind = "TargetBinding",
    namespaced,
    status = "TargetBindingStatus",
    doc = "Registers pods of this namespace in an AWS target group. Headgate creates a read-only TargetBinding for each \
           port that the annotation headgate.dev/target-groups of a Service binds (label headgate.dev/made-from: \
           service).",
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
        .message("set either serviceRef, or podSelector and port, not both"),
    validation = Rule::new("!has(self.podSelector) || has(self.port)")
        .message("podSelector needs port: the number of the pods' port, or its name in the pods' spec"),
    validation = Rule::new("!has(self.serviceRef) || (!has(self.port) && !has(self.protocol))")
        .message("port and protocol belong to podSelector; with serviceRef, set serviceRef.port")
)]
pub struct TargetBindingSpec {
    /// The target group: its name or its ARN.
    pub target_group: TargetGroupRef,
    /// A port of a Service in this namespace. The pods that the Service selects become targets at the targetPort of the
    /// port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_ref: Option<ServiceRef>,
    /// Selects pods directly, without a Service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_selector: Option<PodSelector>,
    /// With podSelector: number or name of a container port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "super::port")]
    pub port: Option<IntOrString>,
    /// With podSelector: the protocol of the port. Default: TCP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<PortProtocol>,
    /// When a pod is registered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub register_when: Option<RegisterWhen>,
    /// What happens to a registered pod that is no longer ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when_not_ready: Option<WhenNotReady>,
    /// What happens to targets that others registered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ownership: Option<Ownership>,
    /// Pauses changes to the targets of this binding. Headgate applies waiting changes when the pause ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
    /// How long new pods keep serving after their deletion: auto (default), off, or a duration. Requires the webhook.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    #[x_kube(validation = Rule::new("self.matches('^(auto|off|([0-9]+h)?([0-9]+m)?[0-9]+s|([0-9]+h)?[0-9]+m|[0-9]+h)$')").message(
        "set auto, off, or a duration from 1s to 1h in whole seconds, e.g. 45s or 2m30s"
    ))]
    pub hold: Option<String>,
    /// What the readiness gate does while no listener uses the target group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate_when_unused: Option<GateWhenUnused>,
    /// Number of healthy targets that a zone keeps during evictions. Default: 1. An eviction waits if too few healthy
    /// targets would remain. 0: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1000))]
    pub min_healthy_per_zone: Option<i32>,
}

/// ip (default): with its IP. containers-ready. ready: with all other readiness gates. auto: ip for an NLB,
/// containers-ready for an ALB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RegisterWhen {
    /// Register a pod as soon as it has its IP.
    Ip,
    /// Register a pod when its containers are ready.
    ContainersReady,
    /// Register a pod when its containers are ready and every other readiness gate is true.
    Ready,
    /// Use the best value for the load balancer's type.
    Auto,
}

/// What happens to a registered pod that is no longer ready. keep (default): the pod remains registered. deregister:
/// Headgate deregisters the pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WhenNotReady {
    /// The pod remains registered.
    Keep,
    /// The pod is deregistered.
    Deregister,
}

/// State of the readiness gate while no listener uses the target group. open (default): the gate opens. wait: the gate
/// remains closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GateWhenUnused {
    /// The readiness gate opens.
    Open,
    /// The readiness gate remains closed.
    Wait,
}

/// What happens to foreign targets. shared (default): foreign targets remain. exclusive: Headgate deregisters foreign
/// targets, which needs a grant and every binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Ownership {
    /// Targets that others registered remain registered.
    Shared,
    /// Targets that others registered are deregistered.
    Exclusive,
}

/// A target group, by ARN or by name.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.arn) != has(self.name)")
        .message("set either the ARN or the name of the target group, not both")
)]
pub struct TargetGroupRef {
    /// ARN of the target group, as shown by `aws elbv2 describe-target-groups`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    #[x_kube(validation = Rule::new(
        "self.matches('^arn:aws[-a-z]*:elasticloadbalancing:[-a-z0-9]+:[0-9]{12}:targetgroup/[-A-Za-z0-9]{1,32}/[A-Za-z0-9]+$')"
    ).message(
        "set the ARN of a target group: \
         arn:aws:elasticloadbalancing:<region>:<account>:targetgroup/<name>/<id>"
    ))]
    pub arn: Option<String>,
    /// Name of the target group, in Headgate's account and Region.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    #[x_kube(validation = Rule::new("self.matches('^[A-Za-z0-9]([-A-Za-z0-9]{0,30}[A-Za-z0-9])?$')").message(
        "set the name of a target group: 1 to 32 letters, digits and hyphens, not beginning or ending with a \
         hyphen"
    ))]
    pub name: Option<String>,
}

/// A port of a Service.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceRef {
    /// Name of the Service.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
    /// Number or name of a port of the Service. Optional if the Service has only one port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "super::port")]
    pub port: Option<IntOrString>,
}

/// Pods by their labels.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodSelector {
    /// A pod must have all of these labels. Set at least one label.
    #[schemars(extend("maxProperties" = 64))]
    #[x_kube(validation = Rule::new("self.size() > 0").message("set at least one label, which selects the \
                                                                pods"))]
    pub match_labels: BTreeMap<String, String>,
}

/// The protocol of the port. Default: TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum PortProtocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

/// The state that Headgate reports. Counts are about the targets of this binding, unless noted.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TargetBindingStatus {
    /// The generation of the spec that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Name of the target group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_group: Option<String>,
    /// ARN of the target group, after Headgate found it.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "targetGroupARN")]
    pub target_group_arn: Option<String>,
    /// Number of desired targets.
    #[serde(default)]
    pub wanted: i64,
    /// Number of desired targets that AWS accepted.
    #[serde(default)]
    pub registered: i64,
    /// Number of desired targets that are healthy.
    #[serde(default)]
    pub healthy: i64,
    /// Number of desired targets whose first health checks have not finished.
    #[serde(default)]
    pub initial: i64,
    /// Number of desired targets that are unhealthy.
    #[serde(default)]
    pub unhealthy: i64,
    /// Number of draining targets in the whole target group.
    #[serde(default)]
    pub draining: i64,
    /// Number of foreign targets in the whole target group, which Headgate did not register and does not touch.
    #[serde(default)]
    pub foreign: i64,
    /// When Headgate last read the target group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "super::time")]
    pub last_read: Option<Time>,
    /// Ready, TargetGroupFound, Conflict, RemovalHeld, Throttled and Paused, each with a stable reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "super::conditions")]
    pub conditions: Vec<Condition>,
}
