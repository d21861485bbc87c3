//! The properties of a pod that Headgate uses.

use std::{net::IpAddr, sync::Arc};

use crate::model::{
    cause::Cause,
    gate::{GateFacts, Shown},
    hold::Hold,
    leaving::LeavingFacts,
    limits::Excess,
    object::{Labels, ObjectKey, Uid},
    readiness::Readiness,
    signal::{Drainer, Signal},
    time::WallTime,
    words::words,
};

words! {
    /// The transport protocol of a port, as Kubernetes writes it.
    Protocol {
        /// TCP, the default of Kubernetes.
        Tcp = "TCP",
        /// UDP, which target groups also support.
        Udp = "UDP",
        /// SCTP, which no target group supports.
        Sctp = "SCTP",
    }
}

impl Protocol {
    /// Returns the protocol with this name. An absent or unknown name means TCP, the default of the Kubernetes API.
    pub fn parse(text: Option<&str>) -> Self {
        text.and_then(Self::of_word).unwrap_or(Self::Tcp)
    }
}

/// A named port of a container that runs during the whole life of the pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NamedPort {
    /// `ports[].name`.
    pub name: Box<str>,
    /// `ports[].containerPort`, 1–65535.
    pub port: u16,
    /// `ports[].protocol`.
    pub protocol: Protocol,
}

impl NamedPort {
    /// The number of the port with this `name` among `ports`.
    pub fn find(ports: &[Self], name: &str, protocol: Protocol) -> Option<u16> {
        ports.iter().find(|port| &*port.name == name && port.protocol == protocol).map(|port| port.port)
    }
}

/// How a pod terminates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ending {
    /// The shortest `preStop` sleep, in seconds, of the containers that run during the whole life of the pod.
    pub sleeps: u32,
    /// `spec.terminationGracePeriodSeconds`.
    pub grace: u32,
}

/// The drain tools that skip a pod. A skipped pod gets no signal before the machine shuts down.
#[allow(clippy::struct_excessive_bools)] // each field is a drain tool
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PassedOver {
    /// All tools skip the pod, because it belongs to a DaemonSet or is a static pod.
    pub by_all: bool,
    /// Karpenter skips the pod, because the pod tolerates the taint of nodes that Karpenter disrupts.
    pub by_karpenter: bool,
    /// Cluster API skips the pod, because its owner has the kind DaemonSet in any API group.
    pub by_cluster_api: bool,
    /// The cluster-autoscaler evicts the pod without waiting for it to terminate. An annotation makes the pod count as
    /// a DaemonSet pod.
    pub by_cluster_autoscaler: bool,
}

impl PassedOver {
    /// Whether the tools that drain a node with this signal skip the pod.
    pub const fn on(self, signal: &Signal) -> bool {
        let by_drainer = match signal.drainer {
            Drainer::Karpenter => self.by_karpenter,
            Drainer::ClusterApi => self.by_cluster_api,
            Drainer::ClusterAutoscaler => self.by_cluster_autoscaler,
            Drainer::Any => false,
        };
        self.by_all || by_drainer
    }
}

/// The last known state of a pod.
#[allow(clippy::struct_excessive_bools)] // each field is an independent property
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodFacts {
    /// The namespace and name.
    pub key: ObjectKey,
    /// The UID of the pod.
    pub uid: Uid,
    /// `metadata.labels`.
    pub labels: Labels,
    /// `metadata.creationTimestamp` in seconds since 1970.
    pub created: i64,
    /// Whether `metadata.deletionTimestamp` is set. Nothing can cancel the termination of a pod.
    pub terminating: bool,
    /// Whether `status.phase` is `Succeeded` or `Failed`. The status of a finished pod still contains the pod's IP,
    /// which another pod may already have.
    pub finished: bool,
    /// Whether the pod is terminating and none of its containers runs. The pod object may remain for some time.
    pub stopped: bool,
    /// Whether the pod's sandbox exists, so that the address belongs to the pod. Headgate reads the condition
    /// `PodReadyToStartContainers`. Kubernetes before 1.29 does not write this condition, so Headgate checks whether a
    /// container runs.
    pub has_sandbox: bool,
    /// `spec.hostNetwork`: whether the pod shares the IP of its node.
    pub host_network: bool,
    /// The readiness in the pod's status.
    pub readiness: Readiness,
    /// Headgate's readiness gate, if the pod has one. The gate is boxed, because most pods have no gate.
    pub gate: Option<Box<GateFacts>>,
    /// The UID of the pod's controlling owner.
    pub owner: Option<Uid>,
    /// The pod's annotation `headgate.dev/hold`, if its value is valid.
    pub hold: Option<Hold>,
    /// `spec.nodeName`, which is set after the pod was scheduled.
    pub node: Option<Arc<str>>,
    /// The tools that skip the pod when they drain its node.
    pub passed_over: PassedOver,
    /// Whether the pod is being evicted, which shows that its node is being drained.
    pub is_evicted: bool,
    /// How the pod terminates.
    pub ending: Ending,
    /// The records on the pod about its eviction. The records are boxed, because few pods have records about an
    /// eviction.
    pub leaving: Option<Box<LeavingFacts>>,
    /// When the last record of an earlier eviction was written, if the pod should not be evicted.
    pub left_over: Option<WallTime>,
    /// `status.podIPs`, with the primary IP first. The list of IPs is empty until a container runs.
    pub ips: Vec<IpAddr>,
    /// The named ports.
    pub ports: Arc<[NamedPort]>,
    /// The parts that exceed a limit and were not read.
    pub beyond: Box<[Excess]>,
}

impl PodFacts {
    /// Why the pod can never be a target again, or `None` if it can.
    pub fn goes(&self) -> Option<Cause> {
        match self {
            pod if pod.terminating => Some(Cause::PodTerminating),
            pod if pod.finished => Some(Cause::PodFinished),
            _ => None,
        }
    }

    /// Whether no process in the pod answers requests any more.
    pub const fn has_ended(&self) -> bool {
        self.finished || self.stopped
    }

    /// Whether the pod is ready by the rules of Kubernetes, which include Headgate's gate.
    pub fn is_ready(&self) -> bool {
        self.readiness.is_ready()
            && self.gate.as_deref().is_none_or(|gate| matches!(gate.shown, Shown::Open(_)))
    }

    /// The number of the pod's port with this `name`.
    ///
    /// The same port name may have different numbers in different pods of one Service, for example during a rollout
    /// that changes the port.
    pub fn port_named(&self, name: &str, protocol: Protocol) -> Option<u16> {
        NamedPort::find(&self.ports, name, protocol)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_protocol_is_read_as_it_is_written_and_tcp_otherwise() {
        for protocol in [Protocol::Tcp, Protocol::Udp, Protocol::Sctp] {
            assert_eq!(Protocol::parse(Some(protocol.as_str())), protocol);
        }
        assert_eq!((Protocol::parse(None), Protocol::parse(Some("other"))), (Protocol::Tcp, Protocol::Tcp));
    }

    #[test]
    fn a_named_port_is_found_by_name_and_protocol() {
        let port = |name: &str, port, protocol| NamedPort { name: name.into(), port, protocol };
        let ports = [
            port("dns", 53, Protocol::Udp),
            port("dns", 5353, Protocol::Tcp),
            port("web", 80, Protocol::Tcp),
        ];
        assert_eq!(NamedPort::find(&ports, "dns", Protocol::Tcp), Some(5353));
        assert_eq!(NamedPort::find(&ports, "dns", Protocol::Udp), Some(53));
        assert_eq!(NamedPort::find(&ports, "web", Protocol::Udp), None);
    }
}
