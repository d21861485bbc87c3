//! The pods of this kubelet, for the control API.
//!
//! The registry lists the running pods with the values that other tasks may read or set. The registry never drives a
//! pod. During the termination of a pod, the registry may contain a second pod with the same name. The name then refers
//! to the newer pod.

use crate::container::server::Readiness;
use crate::object::Role;
use crate::pod::behaviour::Behaviour;
use serde::Serialize;
use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc;

/// A command of the control API to a pod's task.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// The running containers of the pod exit with this code.
    Finish {
        /// The exit code, from 0 to 255.
        exit_code: i32,
    },
    /// One container or all main containers are killed.
    Crash {
        /// The name of the container. `None`: all main containers.
        container: Option<String>,
    },
    /// The running containers of the pod hang or continue. A hanging container accepts connections but answers nothing.
    Hang(bool),
    /// The sandbox of the pod is killed.
    LoseSandbox,
    /// The kubelet evicts the pod under memory pressure.
    Evict {
        /// The grace period. `None`: the pod's own grace period.
        grace: Option<Duration>,
    },
}

/// A warning about a pod's annotations.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Warning {
    /// The type, which is always `Warning`. Events have the same type.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// The reason, which is always `UnreadableAnnotation`.
    pub reason: &'static str,
    /// The message.
    pub message: String,
}

/// A pod in the registry.
#[derive(Debug)]
pub struct Entry {
    /// The namespace of the pod.
    pub namespace: String,
    /// The name of the pod.
    pub name: String,
    /// The UID of the pod.
    pub uid: String,
    /// The node of the pod.
    pub node: String,
    /// The declared TCP ports of all containers.
    pub ports: Vec<u16>,
    /// The names of all containers.
    pub containers: Vec<String>,
    /// Whether the pod uses the address of its node.
    pub host_network: bool,
    /// The problems of the pod's annotations.
    pub warnings: Vec<Warning>,
    /// The readiness that the pod's readiness paths return.
    pub readiness: Arc<Readiness>,
    /// The number of requests that the pod's servers have answered.
    pub served: Arc<AtomicU64>,
    /// The channel for commands to the pod's task.
    pub commands: mpsc::Sender<Command>,
    shown: Mutex<Shown>,
}

/// The state that a pod's task publishes.
#[derive(Clone, Copy, Debug)]
pub struct Shown {
    /// The address of the pod. `None`: the pod has no sandbox yet.
    pub ip: Option<Ipv4Addr>,
    /// The stage: `preparing`, `running`, `terminating`, `ended`, or `lost` together with the node.
    pub stage: &'static str,
    /// Whether a container of the pod hangs.
    pub hanging: bool,
}

/// A pod in `GET /pods`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct View {
    /// The namespace of the pod.
    pub namespace: String,
    /// The name of the pod.
    pub name: String,
    /// The UID of the pod.
    pub uid: String,
    /// The node of the pod.
    pub node: String,
    /// The address of the pod. `None`: the pod has no sandbox yet.
    pub ip: Option<Ipv4Addr>,
    /// The declared TCP ports of all containers.
    pub ports: Vec<u16>,
    /// The stage: `preparing`, `running`, `terminating`, `ended`, or `lost` together with the node.
    pub phase: &'static str,
    /// The readiness that the control API set. Default: `true`.
    pub ready: bool,
    /// Whether a container of the pod hangs.
    pub hanging: bool,
    /// The number of requests that the pod's servers have answered.
    pub requests: u64,
    /// The problems of the pod's annotations.
    pub warnings: Vec<Warning>,
}

impl Entry {
    /// Creates the entry of a new pod.
    pub fn new(pod: &crate::object::Pod, commands: mpsc::Sender<Command>) -> Self {
        let serving = pod.spec.all_containers().filter(|(role, _)| *role != Role::Init);
        let mut ports: Vec<u16> = serving.flat_map(|(_, spec)| spec.tcp_ports()).collect();
        ports.sort_unstable();
        ports.dedup();
        let warnings = Behaviour::read(pod).1.into_iter().map(|message| {
            tracing::error!(namespace = pod.namespace(), name = pod.name(), "{message}");
            Warning { kind: "Warning", reason: "UnreadableAnnotation", message }
        });
        Self {
            containers: pod.spec.all_containers().map(|(_, spec)| spec.name.clone()).collect(),
            host_network: pod.spec.uses_host_network(),
            warnings: warnings.collect(),
            namespace: pod.namespace().into(),
            name: pod.name().into(),
            uid: pod.uid().into(),
            node: pod.spec.node_name.clone().unwrap_or_default(),
            ports,
            readiness: Arc::default(),
            served: Arc::default(),
            commands,
            shown: Mutex::new(Shown { ip: None, stage: "preparing", hanging: false }),
        }
    }

    /// Publishes the state of the pod.
    pub fn show(&self, shown: Shown) {
        *self.shown.lock().unwrap_or_else(PoisonError::into_inner) = shown;
    }

    /// Returns the current state of the pod.
    pub fn view(&self) -> View {
        let shown = *self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        View {
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            uid: self.uid.clone(),
            node: self.node.clone(),
            ip: shown.ip,
            ports: self.ports.clone(),
            phase: shown.stage,
            ready: self.readiness.is_ready(),
            hanging: shown.hanging,
            requests: self.served.load(Ordering::Relaxed),
            warnings: self.warnings.clone(),
        }
    }
}

/// All pods that this kubelet runs.
#[derive(Debug, Default)]
pub struct Registry {
    pods: Mutex<Listed>,
}

#[derive(Debug, Default)]
struct Listed {
    by_uid: HashMap<String, (u64, Arc<Entry>)>,
    added: u64,
}

impl Registry {
    /// Adds a pod.
    pub fn add(&self, entry: Arc<Entry>) {
        let mut pods = self.pods.lock().unwrap_or_else(PoisonError::into_inner);
        pods.added += 1;
        let order = pods.added;
        pods.by_uid.insert(entry.uid.clone(), (order, entry));
    }

    /// Removes a pod whose task has stopped.
    pub fn remove(&self, uid: &str) {
        self.pods.lock().unwrap_or_else(PoisonError::into_inner).by_uid.remove(uid);
    }

    /// Returns the newest pod with this name.
    pub fn find(&self, namespace: &str, name: &str) -> Option<Arc<Entry>> {
        let pods = self.pods.lock().unwrap_or_else(PoisonError::into_inner);
        pods.by_uid
            .values()
            .filter(|(_, entry)| entry.namespace == namespace && entry.name == name)
            .max_by_key(|(order, _)| *order)
            .map(|(_, entry)| Arc::clone(entry))
    }

    /// Returns all pods, sorted by namespace, name and age.
    pub fn views(&self) -> Vec<View> {
        let mut entries: Vec<_> = {
            let pods = self.pods.lock().unwrap_or_else(PoisonError::into_inner);
            pods.by_uid.values().cloned().collect()
        };
        entries.sort_by(|(left_order, left), (right_order, right)| {
            (&left.namespace, &left.name, left_order).cmp(&(&right.namespace, &right.name, right_order))
        });
        entries.iter().map(|(_, entry)| entry.view()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::Pod;

    fn entry(name: &str, uid: &str) -> Arc<Entry> {
        let mut pod = Pod::default();
        pod.metadata.name = Some(name.into());
        pod.metadata.namespace = Some("shop".into());
        pod.metadata.uid = Some(uid.into());
        Arc::new(Entry::new(&pod, mpsc::channel(1).0))
    }

    #[test]
    fn a_name_means_the_newer_of_two_pods() {
        let registry = Registry::default();
        registry.add(entry("web-0", "old"));
        registry.add(entry("web-0", "new"));
        assert_eq!(registry.find("shop", "web-0").unwrap().uid, "new");
        assert_eq!(registry.views().len(), 2);
        registry.remove("new");
        assert_eq!(registry.find("shop", "web-0").unwrap().uid, "old");
        assert!(registry.find("other", "web-0").is_none());
    }
}
