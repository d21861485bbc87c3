//! Two tenants of one cluster that do not trust each other.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use localstack_world::World;
use serde_json::json;

use crate::{
    aws::Group,
    cluster::Cluster,
    headgate::{Headgate, command},
    scenario::{Scenario, http_port, targets},
};

/// Two namespaces of different owners, and a Headgate that manages both and can read the whole cluster.
pub struct Tenants {
    /// The scenario, whose namespace is Headgate's own.
    pub s: Scenario,
    /// One tenant.
    pub a: Cluster,
    /// The other one.
    pub b: Cluster,
    /// The label of the managed namespaces.
    pub label: String,
}

impl Tenants {
    /// Creates both namespaces.
    pub async fn new(world: &'static World, test: &str) -> Self {
        let s = Scenario::new(world, test).await;
        let label = s.name("serve");
        let [a, b] = ["a", "b"].map(|name| s.cluster.within(&s.name(name)));
        for tenant in [&a, &b] {
            s.cluster.create_namespace(&tenant.namespace, &[(&label, "true")]).await;
        }
        Self { s, a, b, label }
    }

    /// The arguments of Headgate.
    pub fn arguments(&self) -> [String; 2] {
        [
            format!("--namespace-selector={}=true", self.label),
            format!("--own-namespace={}", self.s.cluster.namespace),
        ]
    }

    /// A Headgate with these additional arguments.
    pub async fn headgate(&self, more: &[&str]) -> Headgate {
        let own = self.arguments();
        let arguments: Vec<&str> = own.iter().map(String::as_str).chain(more.iter().copied()).collect();
        Headgate::start(self.s.facts(), &self.s.facts().kubeconfig, &arguments).await
    }

    /// Pods and a Service `web` of this tenant, bound to the group.
    pub async fn bind(&self, tenant: &Cluster, group: &Group, pods: u32) {
        tenant.deploy("web", pods, &[("http", 8080)]).await;
        tenant.service("web", "web", http_port(), Some(&format!("http={}", group.name))).await;
    }

    /// The targets of `pods` pods of this tenant.
    pub async fn targets(&self, tenant: &Cluster, pods: usize) -> BTreeSet<String> {
        targets(&tenant.wait_running("web", pods).await, 8080)
    }

    /// All targets of this group that calls of this action named.
    pub async fn named(&self, action: &str, group: &Group) -> BTreeSet<String> {
        self.s.aws.calls(action, &group.name).await.into_iter().flat_map(|(targets, _)| targets).collect()
    }

    /// Sets or removes a label of B's namespace.
    pub async fn label_b(&self, label: &str, value: Option<&str>) {
        let api: Api<Namespace> = Api::all(self.s.cluster.client.clone());
        let patch = Patch::Merge(json!({"metadata": {"labels": {label: value}}}));
        api.patch(&self.b.namespace, &PatchParams::default(), &patch).await.unwrap();
    }

    /// The output of `headgate doctor`.
    pub async fn doctor(&self, headgate: &Headgate) -> String {
        let address = format!("--address={}", headgate.debug());
        let own = format!("--own-namespace={}", self.s.cluster.namespace);
        command(self.s.facts(), &["doctor", &address, &own]).await.1
    }
}
