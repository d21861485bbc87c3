//! The parts of a pod that Headgate needs.

use std::{collections::BTreeMap, net::IpAddr};

use headgate_core::model::{
    expected::EXPECTED_BINDINGS,
    gate::GateFacts,
    hold::Hold,
    lifespan::hold_of_command,
    limits,
    object::{Labels, Uid},
    pod::{Ending, NamedPort, PassedOver, PodFacts, Protocol},
    policy,
    readiness::{OWN_GATE, Readiness},
};
use k8s_openapi::{
    api::core::v1::Pod,
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use serde::{Deserialize, de::IgnoredAny};

use super::{
    annotations::{AS_DAEMON, OfPod},
    meta::{identity, with_annotations},
    null_is_default, port_number,
};
use crate::kube::marks;

/// A watched pod.
#[derive(Clone, Debug, Deserialize, kube::Resource)]
#[resource(inherit = Pod)]
pub struct SlimPod {
    #[serde(default, deserialize_with = "with_annotations::<OfPod, _>")]
    metadata: ObjectMeta,
    #[serde(default, deserialize_with = "null_is_default")]
    spec: PodSpec,
    #[serde(default, deserialize_with = "null_is_default")]
    status: PodStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodSpec {
    host_network: Option<bool>,
    node_name: Option<String>,
    containers: Option<Vec<Option<Container>>>,
    init_containers: Option<Vec<Option<Container>>>,
    readiness_gates: Option<Vec<Option<Gate>>>,
    termination_grace_period_seconds: Option<i64>,
    tolerations: Option<Vec<Option<Toleration>>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Toleration {
    key: Option<String>,
    operator: Option<String>,
    value: Option<String>,
    effect: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Gate {
    condition_type: Option<Box<str>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Condition {
    #[serde(rename = "type")]
    kind: Option<Box<str>>,
    status: Option<Box<str>>,
    reason: Option<Box<str>>,
    message: Option<Box<str>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Container {
    ports: Option<Vec<Option<ContainerPort>>>,
    restart_policy: Option<String>,
    lifecycle: Option<Lifecycle>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Lifecycle {
    pre_stop: Option<PreStop>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct PreStop {
    sleep: Option<Sleep>,
    exec: Option<Exec>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Exec {
    command: Option<Vec<Option<String>>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Sleep {
    seconds: Option<i64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ContainerPort {
    name: Option<Box<str>>,
    #[serde(rename = "containerPort")]
    number: Option<i64>,
    protocol: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodStatus {
    phase: Option<String>,
    #[serde(rename = "podIP")]
    pod_ip: Option<String>,
    #[serde(rename = "podIPs")]
    pod_ips: Option<Vec<Option<PodIp>>>,
    conditions: Option<Vec<Option<Condition>>>,
    container_statuses: Option<Vec<Option<ContainerStatus>>>,
    init_container_statuses: Option<Vec<Option<ContainerStatus>>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct ContainerStatus {
    state: Option<ContainerState>,
}

/// Only the state `running` matters.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct ContainerState {
    running: Option<IgnoredAny>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct PodIp {
    ip: Option<String>,
}

/// Whether the containers are ready, and whether the condition of every other readiness gate is true.
fn readiness(gates: &[Option<Gate>], conditions: &[Option<Condition>]) -> Readiness {
    // Both lists may be long, because users may create pods with as many gates as an object can contain.
    let mut statuses = BTreeMap::new();
    for Condition { kind, status, .. } in conditions.iter().flatten() {
        statuses.entry(kind.as_deref()).or_insert(status.as_deref());
    }
    let is_true = |kind: &str| statuses.get(&Some(kind)) == Some(&Some("True"));
    let gates = gates.iter().flatten().filter_map(|gate| gate.condition_type.as_deref());
    let mut others = gates.filter(|kind| *kind != OWN_GATE);
    Readiness { containers: is_true("ContainersReady"), gates: others.all(is_true) }
}

/// Headgate's readiness gate, if the pod has this gate.
fn own_gate(
    gates: &[Option<Gate>],
    conditions: &[Option<Condition>],
    expected: Option<Box<str>>,
) -> Option<Box<GateFacts>> {
    let mut gates = gates.iter().flatten();
    gates.find(|gate| gate.condition_type.as_deref() == Some(OWN_GATE))?;
    let condition = conditions.iter().flatten().find(|condition| condition.kind.as_deref() == Some(OWN_GATE));
    Some(Box::new(match condition {
        None => GateFacts { expected, ..GateFacts::default() },
        Some(Condition { status, reason, message, .. }) => {
            GateFacts::read(status.as_deref(), reason.as_deref(), message.as_deref(), expected)
        }
    }))
}

/// The condition that states whether the pod's sandbox and its network exist (Kubernetes: "Pod network readiness").
const SANDBOX: &str = "PodReadyToStartContainers";

/// The taint that Karpenter puts on disrupted nodes, without a value and with the effect `NoSchedule`. Karpenter does
/// not evict pods that tolerate the taint (Karpenter: "Disruption", and `IsDrainable` in its `pkg/utils/pod`).
const KARPENTERS: &str = "karpenter.sh/disrupted";

impl Toleration {
    /// Whether the toleration matches Karpenter's taint.
    fn is_of_karpenters(&self) -> bool {
        let set = |field: &Option<String>| field.clone().filter(|text| !text.is_empty());
        let exists = self.operator.as_deref() == Some("Exists");
        let key = match set(&self.key) {
            Some(key) => key == KARPENTERS,
            None => exists,
        };
        key && (exists || set(&self.value).is_none())
            && set(&self.effect).is_none_or(|effect| effect == "NoSchedule")
    }
}

/// The drain tools that do not evict this pod. `as_daemon` is the value of the annotation that makes the pod count as a
/// DaemonSet pod. The controller of a static pod is the pod's Node.
fn passed_over(
    controller: Option<&OwnerReference>,
    tolerations: &[Option<Toleration>],
    as_daemon: Option<&str>,
) -> PassedOver {
    let is = |kind: &str| controller.is_some_and(|controller| controller.kind == kind);
    let group =
        controller.map_or("", |controller| controller.api_version.split_once('/').map_or("", |it| it.0));
    PassedOver {
        by_all: (is("DaemonSet") && group == "apps") || (is("Node") && group.is_empty()),
        by_karpenter: tolerations.iter().flatten().any(Toleration::is_of_karpenters),
        by_cluster_api: is("DaemonSet"),
        by_cluster_autoscaler: as_daemon == Some("true"),
    }
}

/// Whether the pod is being evicted through the API (Kubernetes: "Pod disruption conditions").
fn is_evicted(conditions: &[Option<Condition>]) -> bool {
    conditions.iter().flatten().any(|condition| {
        condition.kind.as_deref() == Some("DisruptionTarget")
            && condition.status.as_deref() == Some("True")
            && condition.reason.as_deref() == Some("EvictionByEvictionAPI")
    })
}

fn seconds(number: i64) -> u32 {
    u32::try_from(number.max(0)).unwrap_or(u32::MAX)
}

impl Container {
    /// The number of seconds that the container is known to sleep in its `preStop` hook.
    fn sleeps(&self) -> u32 {
        let pre_stop = self.lifecycle.as_ref().and_then(|lifecycle| lifecycle.pre_stop.as_ref());
        let Some(pre_stop) = pre_stop else { return 0 };
        if let Some(sleep) = &pre_stop.sleep {
            return sleep.seconds.map(seconds).unwrap_or_default();
        }
        let command = pre_stop.exec.as_ref().and_then(|exec| exec.command.as_deref()).unwrap_or_default();
        let command: Vec<&str> = command.iter().flatten().map(String::as_str).collect();
        hold_of_command(&command).unwrap_or_default()
    }
}

impl SlimPod {
    /// Converts the pod to the core's facts. Returns `None` for an object without a name or UID, which the API server
    /// never sends.
    pub fn into_facts(mut self) -> Option<PodFacts> {
        let (key, uid) = identity(&mut self.metadata)?;
        let mut ips: Vec<IpAddr> = Vec::new();
        // The API server allows one address for each IP family.
        let listed =
            self.status.pod_ips.unwrap_or_default().into_iter().filter_map(|entry| entry?.ip).take(2);
        for ip in self.status.pod_ip.into_iter().chain(listed).filter_map(|ip| ip.parse().ok()) {
            if !ips.contains(&ip) {
                ips.push(ip);
            }
        }
        let mut beyond = Vec::new();
        let conditions = self.status.conditions.unwrap_or_default();
        let gates = self.spec.readiness_gates.unwrap_or_default();
        let readiness = readiness(&gates, &conditions);
        let mut annotations = self.metadata.annotations.take().unwrap_or_default();
        let expected = annotations
            .remove(EXPECTED_BINDINGS)
            .and_then(|text| limits::EXPECTED.text(&text).map_err(|excess| beyond.push(excess)).ok());
        let terminating = self.metadata.deletion_timestamp.is_some();
        // Init containers and sidecars count too, because one of them may be the server.
        let main = self.status.container_statuses.unwrap_or_default();
        let all = main.iter().chain(self.status.init_container_statuses.iter().flatten()).flatten();
        let runs = |container: &ContainerStatus| {
            container.state.as_ref().is_some_and(|state| state.running.is_some())
        };
        let any_runs = all.into_iter().any(runs);
        let stopped = terminating && !main.is_empty() && !any_runs;
        let sandbox = conditions.iter().flatten().find(|it| it.kind.as_deref() == Some(SANDBOX));
        let has_sandbox = sandbox.map_or(any_runs, |it| it.status.as_deref() != Some("False"));
        let gate = own_gate(&gates, &conditions, expected);
        // A native sidecar is an init container with the restart policy `Always`. A native sidecar runs during the
        // whole life of the pod.
        let sidecars = self.spec.init_containers.unwrap_or_default().into_iter().flatten();
        let sidecars = sidecars.filter(|c| c.restart_policy.as_deref() == Some("Always"));
        let containers = self.spec.containers.unwrap_or_default().into_iter().flatten();
        let staying: Vec<Container> = containers.chain(sidecars).collect();
        let ending = Ending {
            sleeps: staying.iter().map(Container::sleeps).min().unwrap_or_default(),
            grace: seconds(self.spec.termination_grace_period_seconds.unwrap_or(30)),
        };
        let controller = self.metadata.owner_references.as_ref().and_then(|owners| owners.first());
        let tolerations = self.spec.tolerations.unwrap_or_default();
        let written = marks::read(&uid, |name| annotations.get(name).map(String::as_str));
        let ports = staying.into_iter().flat_map(|c| c.ports.unwrap_or_default());
        let ports = ports.flatten().filter_map(|port| {
            let protocol = Protocol::parse(port.protocol.as_deref());
            Some(NamedPort { name: port.name?, port: port_number(port.number)?, protocol })
        });
        let (ports, excess) = limits::POD_PORTS.list(ports);
        beyond.extend(excess);
        let labels = limits::POD_LABELS.labels(self.metadata.labels.unwrap_or_default());
        let labels = labels.unwrap_or_else(|excess| {
            beyond.push(excess);
            Labels::default()
        });
        Some(PodFacts {
            key,
            uid,
            labels,
            created: self.metadata.creation_timestamp.map_or(0, |time| time.0.as_second()),
            terminating,
            finished: matches!(self.status.phase.as_deref(), Some("Succeeded" | "Failed")),
            stopped,
            has_sandbox,
            host_network: self.spec.host_network.unwrap_or_default(),
            readiness,
            gate,
            owner: controller.map(|owner| Uid::new(owner.uid.clone())),
            hold: annotations.remove(policy::HOLD).and_then(|text| Hold::parse(&text)),
            node: self.spec.node_name.filter(|name| !name.is_empty()).map(Into::into),
            passed_over: passed_over(
                controller,
                &tolerations,
                annotations.get(AS_DAEMON).map(String::as_str),
            ),
            is_evicted: is_evicted(&conditions),
            ending,
            leaving: written.facts().map(Box::new),
            left_over: written.left_over(),
            ips,
            ports: ports.into(),
            beyond: beyond.into(),
        })
    }
}

#[cfg(test)]
mod tests;
