//! What Headgate needs to know of a pod, and nothing else.

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
        /// The default of Kubernetes.
        Tcp = "TCP",
        /// The other one that target groups speak.
        Udp = "UDP",
        /// No target group supports it.
        Sctp = "SCTP",
    }
}

impl Protocol {
    /// The protocol with this name; an absent or unknown one is TCP, the default of the API.
    pub fn parse(text: Option<&str>) -> Self {
        text.and_then(Self::of_word).unwrap_or(Self::Tcp)
    }
}

/// A named port of a container that runs while the pod does.
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
    /// The number of the port called `name` among `ports`.
    pub fn find(ports: &[Self], name: &str, protocol: Protocol) -> Option<u16> {
        ports.iter().find(|port| &*port.name == name && port.protocol == protocol).map(|port| port.port)
    }
}

/// How a pod ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ending {
    /// The number of seconds that every container sleeps in its `preStop` at least, of those that run while the pod
    /// does.
    pub sleeps: u32,
    /// `spec.terminationGracePeriodSeconds`.
    pub grace: u32,
}

/// Which tools skip a pod when they drain its node. Such a pod gets no signal before the machine ends.
#[allow(clippy::struct_excessive_bools)] // each is somebody who drains
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PassedOver {
    /// Everybody: it is a DaemonSet's, or the kubelet's own.
    pub by_all: bool,
    /// Karpenter: it tolerates the taint of nodes that Karpenter disrupts.
    pub by_karpenter: bool,
    /// Cluster API: its owner's kind is DaemonSet, of any API group.
    pub by_cluster_api: bool,
    /// The cluster-autoscaler, which evicts it and does not wait for it: it claims to be like a DaemonSet's.
    pub by_cluster_autoscaler: bool,
}

impl PassedOver {
    /// Whether those who drain a node with this sign do.
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

/// One pod as last seen.
#[allow(clippy::struct_excessive_bools)] // each is one fact of the object
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodFacts {
    /// Namespace and name.
    pub key: ObjectKey,
    /// This life of that name.
    pub uid: Uid,
    /// `metadata.labels`.
    pub labels: Labels,
    /// `metadata.creationTimestamp` in seconds since 1970.
    pub created: i64,
    /// `metadata.deletionTimestamp` is set: the pod will terminate, and nothing can cancel that.
    pub terminating: bool,
    /// `status.phase` is `Succeeded` or `Failed`. Such a pod's status still carries its IP, which may already be
    /// another pod's.
    pub finished: bool,
    /// It is terminating, and none of its containers runs any more; the object may remain for some more time.
    pub stopped: bool,
    /// Its sandbox exists, by its status, so its address is its own. That is the condition
    /// `PodReadyToStartContainers`. In a Kubernetes that does not write it (before 1.29), it is whether a container
    /// runs.
    pub has_sandbox: bool,
    /// `spec.hostNetwork`: the pod shares its IP with its node.
    pub host_network: bool,
    /// The readiness in its status.
    pub readiness: Readiness,
    /// Our own readiness gate, if the pod has it. Boxed: most pods have none.
    pub gate: Option<Box<GateFacts>>,
    /// What controls it.
    pub owner: Option<Uid>,
    /// Its own annotation `headgate.dev/hold`, if it has one that can be read.
    pub hold: Option<Hold>,
    /// `spec.nodeName`, once it was scheduled.
    pub node: Option<Arc<str>>,
    /// Who passes over it when its node is drained.
    pub passed_over: PassedOver,
    /// It is being evicted: so its node is being drained.
    pub is_evicted: bool,
    /// How it ends.
    pub ending: Ending,
    /// The records on it about its eviction. Boxed: hardly any pod has it.
    pub leaving: Option<Box<LeavingFacts>>,
    /// When the last record of an earlier eviction was written, if the pod should not leave.
    pub left_over: Option<WallTime>,
    /// `status.podIPs`, the primary one first; empty until a container runs.
    pub ips: Vec<IpAddr>,
    /// The named ports.
    pub ports: Arc<[NamedPort]>,
    /// The part of it that exceeds a limit, and was not read.
    pub beyond: Box<[Excess]>,
}

impl PodFacts {
    /// Why it is never a target again, if that is so.
    pub fn goes(&self) -> Option<Cause> {
        match self {
            pod if pod.terminating => Some(Cause::PodTerminating),
            pod if pod.finished => Some(Cause::PodFinished),
            _ => None,
        }
    }

    /// Whether nothing in it answers any more.
    pub const fn has_ended(&self) -> bool {
        self.finished || self.stopped
    }

    /// Whether it is ready, as Kubernetes counts it: by the gate of ours, too.
    pub fn is_ready(&self) -> bool {
        self.readiness.is_ready()
            && self.gate.as_deref().is_none_or(|gate| matches!(gate.shown, Shown::Open(_)))
    }

    /// The pod's own port called `name`.
    ///
    /// The same name may stand for different numbers in different pods of one Service; that is how a port is
    /// changed during a rollout.
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
