//! The IngressDaemonSets of a test, and the controller that creates their pods.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

pub use headgate::api::IngressDaemonSet;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api,
    api::{DeleteParams, ListParams},
};
use localstack_world::World;
use serde_json::{Value, json};

use crate::{cluster::pod_spec, headgate::Headgate, scenario::Scenario, wait};

/// The label of a pod with the hash of its template.
pub const REVISION: &str = "controller-revision-hash";

/// A set in a test's part of the local world.
pub struct Set {
    /// The test's part of the local world.
    pub s: Scenario,
    /// Its name.
    pub name: String,
    /// The nodes of the local world.
    pub nodes: BTreeSet<String>,
}

/// A pod, as listed.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Its name.
    pub name: String,
    /// Its node.
    pub node: String,
    /// The hash of its template.
    pub revision: String,
    /// Whether it is Ready.
    pub ready: bool,
    /// Whether it terminates.
    pub terminating: bool,
}

impl Set {
    /// A set `edge` on all nodes of the local world, with `spec` and a template of pods that serve.
    pub async fn new(world: &'static World, test: &str, spec: &Value) -> Self {
        let s = Scenario::new(world, test).await;
        let nodes: Api<Node> = Api::all(s.cluster.client.clone());
        let nodes = nodes.list(&ListParams::default()).await.unwrap().items;
        // The benchmark's tests may have created nodes without a kubelet.
        let is_ready = |node: &Node| {
            let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
            conditions.into_iter().flatten().any(|is| is.type_ == "Ready" && is.status == "True")
        };
        let nodes = nodes
            .iter()
            .filter(|node| is_ready(node))
            .filter_map(|node| node.metadata.name.clone())
            .collect();
        let set = Self { s, name: "edge".into(), nodes };
        set.s.cluster.create::<IngressDaemonSet>(set.object(spec)).await;
        set
    }

    /// The object, with a template if `spec` has none.
    pub fn object(&self, spec: &Value) -> Value {
        let mut spec = spec.clone();
        if spec["template"].is_null() {
            spec["template"] = self.template("1");
        }
        json!({
            "apiVersion": "headgate.dev/v1alpha1", "kind": "IngressDaemonSet", "metadata": {"name": self.name},
            "spec": spec,
        })
    }

    /// A template whose pods serve. Another version gives another template.
    pub fn template(&self, version: &str) -> Value {
        let mut spec = pod_spec(&[("http", 8080)]);
        // Excludes nodes without a kubelet, which belong to other tests.
        spec["nodeSelector"] = json!({"kubernetes.io/os": "linux"});
        spec["terminationGracePeriodSeconds"] = 5.into();
        json!({"metadata": {"labels": {"app": self.name}, "annotations": {"version": version}}, "spec": spec})
    }

    /// Starts the controller for the namespace of the test, with a Lease there.
    pub async fn controller(&self) -> Headgate {
        self.controller_with(&[]).await
    }

    /// The same with more arguments.
    pub async fn controller_with(&self, arguments: &[&str]) -> Headgate {
        self.controller_as(&self.s.facts().kubeconfig, arguments).await
    }

    /// The same, with this kubeconfig.
    pub async fn controller_as(&self, kubeconfig: &Path, arguments: &[&str]) -> Headgate {
        let only = format!("--namespaces={}", self.s.cluster.namespace);
        let arguments = [&[&*only], arguments].concat();
        Headgate::start_daemonsets(self.s.facts(), kubeconfig, &arguments).await
    }

    /// Changes the set.
    pub async fn patch(&self, spec: Value) {
        self.s.cluster.patch::<IngressDaemonSet>(&self.name, &json!({"spec": spec})).await;
    }

    /// The current set.
    pub async fn read(&self) -> IngressDaemonSet {
        let api = self.s.cluster.api::<IngressDaemonSet>();
        wait::answered("the set", || api.get(&self.name)).await.unwrap()
    }

    /// The status and reason of a condition.
    pub async fn condition(&self, kind: &str) -> Option<(String, String)> {
        let conditions = self.read().await.status.unwrap_or_default().conditions;
        let condition = conditions.into_iter().find(|condition| condition.type_ == kind)?;
        Some((condition.status, condition.reason))
    }

    /// Waits until a condition has this reason.
    pub async fn wait_reason(&self, kind: &str, reason: &str) {
        wait::until(&format!("{kind} is {reason}"), || async {
            let is = self.condition(kind).await;
            if is.as_ref().is_some_and(|(_, is)| is == reason) { Ok(()) } else { Err(is) }
        })
        .await;
    }

    /// Waits until the rollout is complete and no pod is missing.
    pub async fn wait_done(&self) {
        wait::until("all nodes are updated, and all pods are available", || async {
            let set = self.read().await;
            let (generation, status) = (set.metadata.generation, set.status.unwrap_or_default());
            let is_done = status.observed_generation == generation
                && status.nodes > 0
                && status.updated_nodes == status.nodes
                && status.available_pods == status.wanted_pods
                && status.turns.is_empty()
                && status.current_revision == status.update_revision;
            if is_done { Ok(()) } else { Err(status) }
        })
        .await;
    }

    /// Deletes it with its pods and its budget, because other tests drain these nodes.
    pub async fn end(&self) {
        let api = self.s.cluster.api::<IngressDaemonSet>();
        let background = DeleteParams::default();
        wait::answered("the end of the set", || api.delete(&self.name, &background)).await.unwrap();
        wait::within(wait::COLLECTED, "pods go with their set", || async {
            let left = self.pods().await.len();
            if left == 0 { Ok(()) } else { Err(left) }
        })
        .await;
    }

    /// Its pods.
    pub async fn pods(&self) -> Vec<Seen> {
        let pods: Vec<Pod> = self.s.cluster.pods_of(&self.name).await;
        pods.into_iter().map(seen).collect()
    }

    /// The number of pods on each node that do not terminate.
    pub async fn by_node(&self) -> BTreeMap<String, usize> {
        let mut all = BTreeMap::new();
        for pod in self.pods().await.into_iter().filter(|pod| !pod.terminating) {
            *all.entry(pod.node).or_default() += 1;
        }
        all
    }

    /// `count` pods on every node.
    pub fn everywhere(&self, count: usize) -> BTreeMap<String, usize> {
        self.nodes.iter().map(|node| (node.clone(), count)).collect()
    }
}

fn seen(pod: Pod) -> Seen {
    let conditions = pod.status.and_then(|status| status.conditions).unwrap_or_default();
    let labels = pod.metadata.labels.unwrap_or_default();
    Seen {
        name: pod.metadata.name.unwrap_or_default(),
        node: pod.spec.and_then(|spec| spec.node_name).unwrap_or_default(),
        revision: labels.get(REVISION).cloned().unwrap_or_default(),
        ready: conditions.iter().any(|is| is.type_ == "Ready" && is.status == "True"),
        terminating: pod.metadata.deletion_timestamp.is_some(),
    }
}
