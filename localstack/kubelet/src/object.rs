//! The parts of a Pod object that a kubelet uses.
//!
//! The module contains small types for the pod watch. The parser skips unknown fields to save memory with thousands of
//! pods. Every field that the API server may omit is optional, so that one unusual pod cannot cause the failure of a
//! whole list.

use k8s_openapi::api::core::v1::{Lifecycle as Hooks, Probe};
use k8s_openapi::api::core::v1::{PodReadinessGate, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A pod as the simulated kubelet reads it.
#[derive(Clone, Debug, Default, Deserialize, Serialize, kube::Resource)]
#[resource(inherit = "k8s_openapi::api::core::v1::Pod")]
pub struct Pod {
    /// The metadata, with the name, UID, deletion and resource version.
    pub metadata: ObjectMeta,
    /// The spec.
    #[serde(default)]
    pub spec: PodSpec,
    /// The current status in the API server, including the conditions of other writers.
    #[serde(default)]
    pub status: PodStatus,
}

/// The fields of `spec` that the kubelet uses.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec {
    /// The node that the scheduler chose. `None`: the pod is not scheduled.
    pub node_name: Option<String>,
    /// Whether the pod uses the address and ports of its node.
    pub host_network: Option<bool>,
    /// The restart policy: `Always`, `OnFailure` or `Never`. The API server sets `Always` by default.
    pub restart_policy: Option<String>,
    /// The conditions of other writers that the condition Ready depends on.
    pub readiness_gates: Option<Vec<PodReadinessGate>>,
    /// The default grace period of a termination, in seconds.
    pub termination_grace_period_seconds: Option<i64>,
    /// The init containers and native sidecars, in the order of the object.
    pub init_containers: Vec<ContainerSpec>,
    /// The containers, in the order of the object.
    pub containers: Vec<ContainerSpec>,
}

/// The role of a container in its pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// An ordinary init container, which must complete before the next init container starts.
    Init,
    /// A native sidecar: an init container with `restartPolicy: Always`, which starts in order and keeps running.
    Sidecar,
    /// A container of `spec.containers`.
    Main,
}

/// The fields of a container in `spec` that the kubelet uses.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerSpec {
    /// The name of the container, which is unique in the pod.
    pub name: String,
    /// The image, which only appears in the status.
    pub image: Option<String>,
    /// The declared ports. A server listens on each TCP port.
    pub ports: Option<Vec<PortSpec>>,
    /// The restart policy. `Always` makes an init container a native sidecar.
    pub restart_policy: Option<String>,
    /// The probe that determines whether the container is ready.
    pub readiness_probe: Option<Probe>,
    /// The liveness probe. If this probe fails, the kubelet restarts the container.
    pub liveness_probe: Option<Probe>,
    /// The startup probe, which delays the other probes until it succeeds. If this probe fails, the kubelet restarts
    /// the container.
    pub startup_probe: Option<Probe>,
    /// The hooks of the container, such as `preStop`.
    pub lifecycle: Option<Hooks>,
}

/// A declared port.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PortSpec {
    /// The name of the port, which probes can use.
    pub name: Option<String>,
    /// The number of the port, from 1 to 65535.
    pub container_port: i32,
    /// The protocol. `None`: `TCP`.
    pub protocol: Option<String>,
}

/// The policy for containers that exit on their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestartPolicy {
    /// The kubelet always restarts the container.
    Always,
    /// The kubelet restarts the container unless the exit code is 0.
    OnFailure,
    /// The kubelet never restarts the container.
    Never,
}

impl RestartPolicy {
    /// Returns whether the kubelet restarts a container that exited with `exit_code`.
    pub fn restarts(self, exit_code: i32) -> bool {
        match self {
            Self::Always => true,
            Self::OnFailure => exit_code != 0,
            Self::Never => false,
        }
    }
}

impl Pod {
    /// Returns the UID, or an empty string for an object that was never stored.
    pub fn uid(&self) -> &str {
        self.metadata.uid.as_deref().unwrap_or_default()
    }

    /// Returns the namespace.
    pub fn namespace(&self) -> &str {
        self.metadata.namespace.as_deref().unwrap_or_default()
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    /// Returns the resource version as a number, or 0 without a resource version. Since 1.35, API servers guarantee
    /// that the resource versions of one resource compare as integers (KEP-5504). Earlier versions of Kubernetes behave
    /// in the same way.
    pub fn version(&self) -> u64 {
        self.metadata.resource_version.as_deref().and_then(|text| text.parse().ok()).unwrap_or(0)
    }

    /// Returns the grace period of a deletion in progress. `None`: the pod is not being deleted.
    pub fn deletion_grace(&self) -> Option<Duration> {
        self.metadata.deletion_timestamp.as_ref()?;
        let seconds = self.metadata.deletion_grace_period_seconds.unwrap_or(0);
        Some(Duration::from_secs(u64::try_from(seconds).unwrap_or(0)))
    }

    /// Returns the value of an annotation.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.metadata.annotations.as_ref()?.get(key).map(String::as_str)
    }

    /// Returns whether no container requests resources. A kubelet rejects pods without resource requests first under
    /// memory pressure.
    pub fn is_best_effort(&self) -> bool {
        self.status.qos_class.as_deref() == Some("BestEffort")
    }

    /// Returns whether the phase is final.
    pub fn is_terminal(&self) -> bool {
        matches!(self.status.phase.as_deref(), Some("Succeeded" | "Failed"))
    }
}

impl PodSpec {
    /// Returns the restart policy. An unknown policy counts as the default, `Always`.
    pub fn restart_policy(&self) -> RestartPolicy {
        match self.restart_policy.as_deref() {
            Some("Never") => RestartPolicy::Never,
            Some("OnFailure") => RestartPolicy::OnFailure,
            _ => RestartPolicy::Always,
        }
    }

    /// Returns all containers with their roles, init containers first. The position in this list is the number of a
    /// container.
    pub fn all_containers(&self) -> impl Iterator<Item = (Role, &ContainerSpec)> {
        let init = self.init_containers.iter().map(|spec| {
            let stays = spec.restart_policy.as_deref() == Some("Always");
            (if stays { Role::Sidecar } else { Role::Init }, spec)
        });
        init.chain(self.containers.iter().map(|spec| (Role::Main, spec)))
    }

    /// Returns the container with this number.
    pub fn container(&self, index: usize) -> Option<(Role, &ContainerSpec)> {
        self.all_containers().nth(index)
    }

    /// Returns the default grace period of a termination. The API server sets 30 s by default.
    pub fn grace(&self) -> Duration {
        Duration::from_secs(
            self.termination_grace_period_seconds.and_then(|given| u64::try_from(given).ok()).unwrap_or(30),
        )
    }

    /// Returns the condition types that the condition Ready depends on.
    pub fn gates(&self) -> impl Iterator<Item = &str> {
        self.readiness_gates.iter().flatten().map(|gate| gate.condition_type.as_str())
    }

    /// Returns whether the pod uses the address of its node.
    pub fn uses_host_network(&self) -> bool {
        self.host_network.unwrap_or(false)
    }
}

impl ContainerSpec {
    /// Returns the declared TCP ports in ascending order, without duplicates.
    pub fn tcp_ports(&self) -> Vec<u16> {
        let mut ports: Vec<u16> = self
            .ports
            .iter()
            .flatten()
            .filter(|port| port.protocol.as_deref().unwrap_or("TCP") == "TCP")
            .filter_map(|port| u16::try_from(port.container_port).ok())
            .collect();
        ports.sort_unstable();
        ports.dedup();
        ports
    }

    /// Returns the port number of a probe or hook. A number is used unchanged, and a name is looked up in the declared
    /// ports.
    pub fn resolve_port(&self, port: &IntOrString) -> Option<u16> {
        match port {
            IntOrString::Int(number) => u16::try_from(*number).ok(),
            IntOrString::String(name) => self
                .ports
                .iter()
                .flatten()
                .find(|declared| declared.name.as_ref() == Some(name))
                .and_then(|declared| u16::try_from(declared.container_port).ok())
                .or_else(|| name.parse().ok()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn container(value: serde_json::Value) -> ContainerSpec {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn only_tcp_ports_are_served_and_each_once() {
        let spec = container(json!({"name": "app", "ports": [
            {"containerPort": 8081}, {"containerPort": 53, "protocol": "UDP"},
            {"containerPort": 80, "protocol": "TCP"}, {"containerPort": 8081, "name": "again"}]}));
        assert_eq!(spec.tcp_ports(), [80, 8081]);
    }

    #[test]
    fn a_probe_finds_its_port_by_number_or_by_name() {
        let spec = container(json!({"name": "app", "ports": [{"containerPort": 8080, "name": "web"}]}));
        assert_eq!(spec.resolve_port(&IntOrString::Int(9)), Some(9));
        assert_eq!(spec.resolve_port(&IntOrString::String("web".into())), Some(8080));
        assert_eq!(spec.resolve_port(&IntOrString::String("nowhere".into())), None);
    }

    #[test]
    fn an_init_container_that_is_always_restarted_is_a_sidecar() {
        let spec: PodSpec = serde_json::from_value(json!({
            "initContainers": [{"name": "setup"}, {"name": "proxy", "restartPolicy": "Always"}],
            "containers": [{"name": "app"}]}))
        .unwrap();
        let roles: Vec<_> = spec.all_containers().map(|(role, spec)| (role, spec.name.as_str())).collect();
        assert_eq!(roles, [(Role::Init, "setup"), (Role::Sidecar, "proxy"), (Role::Main, "app")]);
        assert_eq!(spec.container(2).map(|(_, spec)| spec.name.as_str()), Some("app"));
        assert_eq!(spec.grace(), Duration::from_secs(30));
    }

    #[test]
    fn a_pod_without_a_deletion_timestamp_has_no_grace_period() {
        let mut pod: Pod =
            serde_json::from_value(json!({"metadata": {"deletionGracePeriodSeconds": 3}})).unwrap();
        assert_eq!(pod.deletion_grace(), None);
        pod.metadata.deletion_timestamp = Some(crate::clock::Moment::now().timestamp());
        assert_eq!(pod.deletion_grace(), Some(Duration::from_secs(3)));
    }

    #[test]
    fn a_full_pod_of_the_api_parses_and_what_is_not_needed_is_skipped() {
        let pod: Pod = serde_json::from_value(json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "web", "namespace": "shop", "uid": "u-1", "resourceVersion": "42"},
            "spec": {"nodeName": "n1", "containers": [{"name": "app", "image": "web:1"}],
                     "tolerations": [{"operator": "Exists"}], "restartPolicy": "OnFailure",
                     "readinessGates": [{"conditionType": "example.com/gate"}]},
            "status": {"phase": "Pending", "qosClass": "BestEffort"}}))
        .unwrap();
        assert_eq!((pod.version(), pod.spec.gates().collect::<Vec<_>>()), (42, vec!["example.com/gate"]));
        assert!(!pod.spec.restart_policy().restarts(0) && pod.spec.restart_policy().restarts(1));
    }
}
