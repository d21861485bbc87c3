//! The pods of this kubelet, for the control API.
//!
//! Lists the running pods with the values that other tasks may read or set. It never drives a pod. Two pods with the
//! same name may be listed while the older one ends. The name then refers to the newer one.

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
    /// Its running containers exit with this code.
    Finish {
        /// 0 to 255.
        exit_code: i32,
    },
    /// One container is killed, or all main containers.
    Crash {
        /// The container's name.
        container: Option<String>,
    },
    /// Its running containers hang (they accept and answer nothing), or continue.
    Hang(bool),
    /// Its sandbox is killed.
    LoseSandbox,
    /// The kubelet evicts it under memory pressure.
    Evict {
        /// The grace period, by default the pod's own.
        grace: Option<Duration>,
    },
}

/// A warning about a pod's annotations.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Warning {
    /// Always `Warning`, like in an Event.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// Always `UnreadableAnnotation`.
    pub reason: &'static str,
    /// The message.
    pub message: String,
}

/// One pod as the control API sees it.
#[derive(Debug)]
pub struct Entry {
    /// Namespace of the pod.
    pub namespace: String,
    /// Name of the pod.
    pub name: String,
    /// UID of the pod.
    pub uid: String,
    /// The node it runs on.
    pub node: String,
    /// The declared TCP ports of all its containers.
    pub ports: Vec<u16>,
    /// The names of all its containers.
    pub containers: Vec<String>,
    /// Whether it shares its node's address.
    pub host_network: bool,
    /// Problems of its annotations.
    pub warnings: Vec<Warning>,
    /// The answer of its readiness paths.
    pub readiness: Arc<Readiness>,
    /// Requests that its servers have answered.
    pub served: Arc<AtomicU64>,
    /// The commands for its task.
    pub commands: mpsc::Sender<Command>,
    shown: Mutex<Shown>,
}

/// The state that a pod's task publishes.
#[derive(Clone, Copy, Debug)]
pub struct Shown {
    /// Its address, once its sandbox is up.
    pub ip: Option<Ipv4Addr>,
    /// `preparing`, `running`, `terminating`, `ended`, or `lost` with its node.
    pub stage: &'static str,
    /// Whether a container of it hangs.
    pub hanging: bool,
}

/// One line of `GET /pods`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct View {
    /// Namespace of the pod.
    pub namespace: String,
    /// Name of the pod.
    pub name: String,
    /// UID of the pod.
    pub uid: String,
    /// The node it runs on.
    pub node: String,
    /// Its address, once its sandbox is up.
    pub ip: Option<Ipv4Addr>,
    /// The declared TCP ports of all its containers.
    pub ports: Vec<u16>,
    /// `preparing`, `running`, `terminating`, `ended`, or `lost` with its node.
    pub phase: &'static str,
    /// The readiness that the control API set. Default: `true`.
    pub ready: bool,
    /// Whether a container of it hangs.
    pub hanging: bool,
    /// Requests that its servers have answered.
    pub requests: u64,
    /// Problems of its annotations.
    pub warnings: Vec<Warning>,
}

impl Entry {
    /// A pod that has just been seen.
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

    /// The current state of the pod.
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

/// All pods this kubelet runs.
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

    /// Removes a pod whose task has ended.
    pub fn remove(&self, uid: &str) {
        self.pods.lock().unwrap_or_else(PoisonError::into_inner).by_uid.remove(uid);
    }

    /// The newest pod with this name.
    pub fn find(&self, namespace: &str, name: &str) -> Option<Arc<Entry>> {
        let pods = self.pods.lock().unwrap_or_else(PoisonError::into_inner);
        pods.by_uid
            .values()
            .filter(|(_, entry)| entry.namespace == namespace && entry.name == name)
            .max_by_key(|(order, _)| *order)
            .map(|(_, entry)| Arc::clone(entry))
    }

    /// All pods, sorted by namespace, name and age.
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
