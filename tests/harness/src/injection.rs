//! New pods, and what the webhook adds to them.

use k8s_openapi::api::core::v1::Pod;
use kube::api::PostParams;
use serde_json::Value;

use crate::{cluster::Cluster, headgate::Headgate, scenario::Scenario};

/// A scenario with one namespace whose pods get the injection, and one without it.
pub struct Stage {
    /// The scenario.
    pub s: Scenario,
    /// The namespace with the label.
    pub labelled: Cluster,
    /// The namespace without the label.
    pub plain: Cluster,
}

impl Stage {
    /// A stage in this local world.
    pub async fn new(world: &'static localstack_world::World, test: &str) -> Self {
        let s = Scenario::new(world, test).await;
        let (labelled, plain) = (s.cluster.within(&s.name("yes")), s.cluster.within(&s.name("no")));
        let mine = s.name("mine");
        let labels = [(mine.as_str(), ""), ("headgate.dev/inject", "true")];
        s.cluster.create_namespace(&labelled.namespace, &labels).await;
        s.cluster.create_namespace(&plain.namespace, &labels[..1]).await;
        Self { s, labelled, plain }
    }

    /// A Headgate for both namespaces, with a webhook.
    pub async fn headgate(&self, more: &[&str]) -> Headgate {
        let Self { s, labelled, plain } = self;
        let namespaces =
            format!("--namespaces={},{},{}", s.cluster.namespace, labelled.namespace, plain.namespace);
        let mut arguments = vec!["--webhook-address=127.0.0.1:0", &namespaces];
        arguments.extend(more);
        Headgate::start(s.facts(), &s.facts().kubeconfig, &arguments).await
    }
}

/// Creates a pod and returns it as it was stored, or as it would have been (dry run).
pub async fn create(cluster: &Cluster, pod: &Value, dry_run: bool) -> Value {
    let pod = serde_json::from_value(pod.clone()).unwrap();
    let parameters = PostParams { dry_run, ..PostParams::default() };
    let created = cluster.api::<Pod>().create(&parameters, &pod).await.unwrap();
    serde_json::to_value(created).unwrap()
}

/// The annotation that lists what was injected.
pub fn injected(pod: &Value) -> Option<&str> {
    pod["metadata"]["annotations"]["headgate.dev/injected"].as_str()
}
