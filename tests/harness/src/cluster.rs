//! The Kubernetes side of a test: the objects of its namespace.

use std::collections::{BTreeMap, BTreeSet};

use headgate::api::TargetBinding;
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Namespace, Pod, PodCondition, Service, ServiceAccount},
    events::v1::Event,
    policy::v1::PodDisruptionBudget,
};
use kube::{
    Api, Client, Config,
    api::{DeleteParams, EvictParams, ListParams, Patch, PatchParams, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
};
use localstack_world::Facts;
use serde_json::{Value, json};

use crate::{aws::Group, wait};

/// The condition type of Headgate's readiness gate.
pub const OWN_GATE: &str = "headgate.dev/target-health";

/// The namespace of a test.
#[derive(Clone)]
pub struct Cluster {
    /// Its client.
    pub client: Client,
    /// Its name.
    pub namespace: String,
}

/// The client configuration for the local world's API server.
async fn config(facts: &Facts) -> Config {
    let kubeconfig = Kubeconfig::read_from(&facts.kubeconfig).unwrap();
    Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap()
}

/// A client that returns every answer of the API server. Other clients retry after a 429.
pub async fn client_without_retries(facts: &Facts) -> Client {
    let mut config = config(facts).await;
    config.default_retry = false;
    Client::try_from(config).unwrap()
}

/// Running pods: the IP by name.
pub type Running = BTreeMap<String, String>;

impl Cluster {
    /// Creates the namespace.
    pub async fn new(facts: &Facts, namespace: &str) -> Self {
        let cluster = Self { client: client(facts).await, namespace: namespace.into() };
        cluster.create_namespace(namespace, &[]).await;
        cluster
    }

    /// The TargetBindings of the namespace.
    pub async fn bindings(&self) -> Vec<TargetBinding> {
        self.listed(&ListParams::default()).await
    }

    /// The objects of a kind.
    async fn listed<K>(&self, parameters: &ListParams) -> Vec<K>
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + serde::de::DeserializeOwned,
        K::DynamicType: Default,
    {
        let api = self.api::<K>();
        wait::answered("a list", || api.list(parameters)).await.unwrap().items
    }

    /// The pods with the label `app: APP`.
    pub async fn pods_of(&self, app: &str) -> Vec<Pod> {
        self.listed(&ListParams::default().labels(&format!("app={app}"))).await
    }

    /// Creates a TargetBinding for the pods of an app with the same name.
    pub async fn write_binding(&self, name: &str, group: &Group) {
        let written = json!({
            "apiVersion": "headgate.dev/v1alpha1", "kind": "TargetBinding", "metadata": {"name": name},
            "spec": {"targetGroup": {"name": group.name}, "podSelector": {"matchLabels": {"app": name}}, "port": 8080},
        });
        self.create::<TargetBinding>(written).await;
    }

    /// Creates a namespace with labels and its default ServiceAccount. Pods need that account, and the controller that
    /// creates it is late or does not run.
    pub async fn create_namespace(&self, name: &str, labels: &[(&str, &str)]) {
        let labels: BTreeMap<_, _> = labels.iter().copied().collect();
        let object = serde_json::from_value(json!({"metadata": {"name": name, "labels": labels}})).unwrap();
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        made(&namespaces, &object).await;
        let account = serde_json::from_value(json!({"metadata": {"name": "default"}})).unwrap();
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), name);
        made(&accounts, &account).await;
    }

    /// The same cluster, with another namespace.
    #[must_use]
    pub fn within(&self, namespace: &str) -> Self {
        Self { client: self.client.clone(), namespace: namespace.into() }
    }

    /// An API of this namespace.
    pub fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Creates an object from JSON.
    pub async fn create<K>(&self, object: Value) -> K
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + serde::de::DeserializeOwned
            + serde::Serialize,
        K::DynamicType: Default,
    {
        let object: K = serde_json::from_value(object).unwrap();
        // The API server may be restarting, or a quota controller may be late.
        wait::until("an object is created", || {
            let (api, object) = (self.api::<K>(), object.clone());
            async move { api.create(&PostParams::default(), &object).await }
        })
        .await
    }

    /// A Deployment of pods with the label `app: NAME` with servers on these named ports.
    pub async fn deploy(&self, name: &str, replicas: u32, ports: &[(&str, u16)]) {
        // A label that no other namespace has, so that a drain of a shared node can skip pods of other tests with the
        // same template hash.
        let own = json!({"namespace": self.namespace});
        self.create::<Deployment>(json!({
            "metadata": {"name": name},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": {"app": name}},
                "template": {"metadata": {"labels": {"app": name}, "annotations": own}, "spec": pod_spec(ports)},
            },
        }))
        .await;
    }

    /// The same, with Headgate's readiness gate. A rollout keeps each old pod until a new one is ready.
    pub async fn deploy_gated(&self, name: &str, replicas: u32, ports: &[(&str, u16)]) {
        let mut spec = pod_spec(ports);
        spec["readinessGates"] = json!([{"conditionType": OWN_GATE}]);
        self.create::<Deployment>(json!({
            "metadata": {"name": name},
            "spec": {
                "replicas": replicas,
                "strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
                "selector": {"matchLabels": {"app": name}},
                "template": {"metadata": {"labels": {"app": name}}, "spec": spec},
            },
        }))
        .await;
    }

    /// A PodDisruptionBudget for the pods with the label `app: NAME` and this limit. Waits until it allows `count`
    /// disruptions.
    pub async fn limit_disruptions(&self, name: &str, limit: &str, count: i32, allowed: i32) {
        let selector = json!({"matchLabels": {"app": name}});
        let spec = json!({limit: count, "selector": selector});
        self.create::<PodDisruptionBudget>(json!({"metadata": {"name": name}, "spec": spec})).await;
        wait::until_equal("the budget counts", &Some(allowed), || async {
            let budgets = self.api::<PodDisruptionBudget>();
            let budget = wait::answered("the budget", || budgets.get(name)).await.unwrap();
            budget.status.map(|status| status.disruptions_allowed)
        })
        .await;
    }

    /// Restarts the rollout of a Deployment, which replaces all its pods.
    pub async fn restart(&self, name: &str) {
        let now = k8s_openapi::jiff::Timestamp::now().to_string();
        let template = json!({"metadata": {"annotations": {"restarted": now}}});
        self.patch::<Deployment>(name, &json!({"spec": {"template": template}})).await;
    }

    /// The readiness gates of the pods of `app` that do not terminate, each with its condition.
    pub async fn gates(&self, app: &str) -> BTreeMap<String, Option<PodCondition>> {
        let alive =
            self.pods_of(app).await.into_iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
        let gates = alive.filter_map(|pod| {
            let mut conditions = pod.status.and_then(|status| status.conditions).into_iter().flatten();
            Some((pod.metadata.name?, conditions.find(|condition| condition.type_ == OWN_GATE)))
        });
        gates.collect()
    }

    /// Waits until there are `count` pods of `app`, each with a gate with this status and reason. Returns the messages
    /// by pod.
    pub async fn wait_gates(&self, app: &str, count: usize, status: &str, reason: &str) -> Running {
        wait::until(&format!("{count} gates of {app} are {status} for {reason}"), || async {
            let gates = self.gates(app).await;
            let is = |condition: &PodCondition| {
                condition.status == status && condition.reason.as_deref() == Some(reason)
            };
            if gates.len() == count && gates.values().all(|gate| gate.as_ref().is_some_and(is)) {
                let message =
                    |gate: Option<PodCondition>| gate.and_then(|gate| gate.message).unwrap_or_default();
                Ok(gates.into_iter().map(|(pod, gate)| (pod, message(gate))).collect())
            } else {
                Err(gates)
            }
        })
        .await
    }

    /// Sets the replicas of a Deployment.
    pub async fn scale(&self, name: &str, replicas: u32) {
        let patch = json!({"spec": {"replicas": replicas}});
        self.patch::<Deployment>(name, &patch).await;
    }

    /// A pod with the label `app: APP`.
    pub async fn pod(&self, name: &str, app: &str, ports: &[(&str, u16)]) {
        self.pod_with(name, app, pod_spec(ports)).await;
    }

    /// A pod with the label `app: APP` and a given spec.
    pub async fn pod_with(&self, name: &str, app: &str, spec: Value) {
        self.create::<Pod>(json!({"metadata": {"name": name, "labels": {"app": app}}, "spec": spec})).await;
    }

    /// A Service that selects `app: APP`, with ports as JSON, and with the annotation if given.
    pub async fn service(&self, name: &str, app: &str, ports: Value, target_groups: Option<&str>) {
        let mut object = json!({
            "metadata": {"name": name, "annotations": {}},
            "spec": {"selector": {"app": app}, "ports": ports},
        });
        if let Some(value) = target_groups {
            object["metadata"]["annotations"]["headgate.dev/target-groups"] = value.into();
        }
        self.create::<Service>(object).await;
    }

    /// Sets or removes the target group annotation of a Service.
    pub async fn annotate(&self, service: &str, target_groups: Option<&str>) {
        let patch = json!({"metadata": {"annotations": {"headgate.dev/target-groups": target_groups}}});
        self.patch::<Service>(service, &patch).await;
    }

    /// Sets or removes any annotation of a Service.
    pub async fn set_annotation(&self, service: &str, annotation: &str, value: Option<&str>) {
        self.patch::<Service>(service, &json!({"metadata": {"annotations": {annotation: value}}})).await;
    }

    /// Merges `patch` into an object.
    pub async fn patch<K>(&self, name: &str, patch: &Value)
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + serde::de::DeserializeOwned,
        K::DynamicType: Default,
    {
        let (api, parameters, patch) = (self.api::<K>(), PatchParams::default(), Patch::Merge(patch));
        wait::answered("an object is patched", || api.patch(name, &parameters, &patch)).await.unwrap();
    }

    /// Deletes a pod with a grace period in seconds; 0 is a force delete.
    pub async fn delete_pod(&self, name: &str, grace: u32) {
        let (pods, parameters) = (self.api::<Pod>(), DeleteParams::default().grace_period(grace));
        let mut asked = 0;
        let deleted = wait::answered("a pod is deleted", || {
            asked += 1;
            pods.delete(name, &parameters)
        });
        match deleted.await {
            // The answer to an earlier attempt may have been lost.
            Err(kube::Error::Api(status)) if status.code == 404 && asked > 1 => {}
            answer => drop(answer.unwrap()),
        }
    }

    /// Makes sure that a pod is deleted at once, even if it was deleted before.
    pub async fn end_pod(&self, name: &str) {
        let (pods, parameters) = (self.api::<Pod>(), DeleteParams::default().grace_period(0));
        match wait::answered("a pod is ended", || pods.delete(name, &parameters)).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => panic!("pod {name} cannot be deleted: {error}"),
        }
    }

    /// Evicts a pod through the API, like `kubectl drain`.
    pub async fn evict(&self, name: &str) {
        self.api::<Pod>().evict(name, &EvictParams::default()).await.unwrap();
    }

    /// The pods of `app` that have an IP and do not terminate.
    pub async fn running(&self, app: &str) -> Running {
        let alive =
            self.pods_of(app).await.into_iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
        alive.filter_map(|pod| Some((pod.metadata.name?, pod.status?.pod_ip?))).collect()
    }

    /// The number of pods of `app` in any state.
    pub async fn count(&self, app: &str) -> usize {
        self.pods_of(app).await.len()
    }

    /// Waits until `count` pods of `app` have an IP.
    pub async fn wait_running(&self, app: &str, count: usize) -> Running {
        wait::until(&format!("{count} pods of {app} have an IP"), || async {
            let running = self.running(app).await;
            if running.len() == count { Ok(running) } else { Err(running) }
        })
        .await
    }

    /// The table that kubectl requests to print columns.
    pub async fn table(&self, path: &str) -> Value {
        let accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
        let request = hyper::Request::get(path).header("Accept", accept).body(Vec::new()).unwrap();
        self.client.request(request).await.unwrap()
    }

    /// The Warning Events about an object: reason and note.
    pub async fn warnings(&self, about: &str) -> BTreeSet<(String, String)> {
        self.events("Warning", about).await
    }

    /// The Events of a type about an object: reason and note.
    pub async fn events(&self, kind: &str, about: &str) -> BTreeSet<(String, String)> {
        let events: Vec<Event> = self.listed(&ListParams::default()).await;
        let ours = events.into_iter().filter(|event| {
            event.reporting_controller.as_deref() == Some("headgate.dev/headgate")
                && event.type_.as_deref() == Some(kind)
                && event.regarding.as_ref().and_then(|object| object.name.as_deref()) == Some(about)
        });
        ours.map(|event| (event.reason.unwrap_or_default(), event.note.unwrap_or_default())).collect()
    }

    /// Waits for a Warning Event with this reason and this part of the note.
    pub async fn wait_warning(&self, about: &str, reason: &str, part: &str) {
        self.wait_event("Warning", about, reason, part).await;
    }

    /// The same, for an Event of this type.
    pub async fn wait_event(&self, kind: &str, about: &str, reason: &str, part: &str) {
        wait::until(&format!("a {kind} Event {reason} with \"{part}\" on {about}"), || async {
            let events = self.events(kind, about).await;
            let found = events.iter().any(|(is, note)| is == reason && note.contains(part));
            if found { Ok(()) } else { Err(events) }
        })
        .await;
    }
}

/// Creates an object that may exist already, because another test creates it too or an answer was lost.
async fn made<K>(api: &Api<K>, object: &K)
where
    K: Clone + std::fmt::Debug + serde::de::DeserializeOwned + serde::Serialize,
{
    let parameters = PostParams::default();
    match wait::answered("an object is made", || api.create(&parameters, object)).await {
        Ok(_) => {}
        Err(kube::Error::Api(status)) if status.is_already_exists() => {}
        Err(error) => panic!("{object:?} cannot be made: {error}"),
    }
}

/// A client of a local world's API server, as an administrator.
pub async fn client(facts: &Facts) -> Client {
    Client::try_from(config(facts).await).unwrap()
}

/// The spec of a pod with one container and servers on these named ports, and a short grace period. It is the same for
/// both kinds of nodes: a simulated kubelet reads ports and annotations, and a real server reads its environment.
pub fn pod_spec(ports: &[(&str, u16)]) -> Value {
    let numbers: Vec<String> = ports.iter().map(|(_, port)| port.to_string()).collect();
    let field =
        |name: &str, path: &str| json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}});
    let behaviour =
        |name: &str, word: &str| field(name, &format!("metadata.annotations['sim.headgate.dev/{word}']"));
    let environment = json!([
        {"name": "PORTS", "value": numbers.join(" ")},
        field("POD_NAME", "metadata.name"),
        field("POD_UID", "metadata.uid"),
        field("POD_IP", "status.podIP"),
        behaviour("ON_SIGTERM", "on-sigterm"),
        behaviour("DRAIN_FOR", "drain-for"),
        behaviour("START_DELAY", "start-delay"),
        behaviour("CRASH_AFTER", "crash-after"),
        behaviour("REQUEST_DELAY", "request-delay"),
    ]);
    let ports: Vec<Value> =
        ports.iter().map(|(name, port)| json!({"name": name, "containerPort": port})).collect();
    json!({
        "terminationGracePeriodSeconds": 30,
        "containers": [{"name": "web", "image": "headgate.local/web:1", "ports": ports, "env": environment}],
    })
}
