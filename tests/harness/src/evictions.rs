//! The stage of eviction tests: a Service bound to a target group, and replicas of Headgate whose webhooks handle the
//! evictions of its pods.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, SystemTime},
};

use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams},
};
use localstack_world::World;
use serde_json::{Value, json};

use crate::{
    aws::Group,
    cluster::{Cluster, Running, client_without_retries},
    headgate::Headgate,
    scenario::{Scenario, http_port, targets},
    wait,
    webhook::Configuration,
};

/// A namespace whose evictions go through the webhooks of these replicas.
pub struct Stage {
    /// The test, and the namespace of its Headgate replicas.
    pub s: Scenario,
    /// The namespace of the pods.
    pub cluster: Cluster,
    /// The target group of `web`.
    pub group: Group,
    /// The replicas.
    pub headgates: Vec<Headgate>,
    configuration: Option<Configuration>,
    /// The client that sends evictions.
    client: Client,
}

/// The answer to an eviction.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer {
    /// The pod is being deleted.
    Done,
    /// The eviction must wait: `Retry-After` in seconds, and the message.
    Wait(u32, String),
}

impl Stage {
    /// A Service that is bound to a target group, and replicas of Headgate with Roles only.
    pub async fn new(world: &'static World, test: &str, replicas: usize, arguments: &[&str]) -> Self {
        let s = Scenario::new(world, test).await;
        let serves = [format!("--namespaces={},{}", s.cluster.namespace, s.name("pods"))];
        Self::serving(s, replicas, &serves, arguments).await
    }

    /// The same, with replicas that can read nodes.
    pub async fn with_nodes(world: &'static World, test: &str, replicas: usize, arguments: &[&str]) -> Self {
        let s = Scenario::new(world, test).await;
        let serves = [
            format!("--namespace-selector=kubernetes.io/metadata.name={}", s.name("pods")),
            format!("--own-namespace={}", s.cluster.namespace),
        ];
        Self::serving(s, replicas, &serves, arguments).await
    }

    async fn serving(s: Scenario, replicas: usize, serves: &[String], arguments: &[&str]) -> Self {
        let cluster = s.cluster.within(&s.name("pods"));
        cluster.create_namespace(&cluster.namespace, &[(&s.name("mine"), "")]).await;
        let group = s.group("web").await;
        cluster.service("web", "web", http_port(), Some(&format!("http={}", group.name))).await;
        cluster.set_annotation("web", "headgate.dev/hold", Some("3s")).await;
        let mut all = vec!["--webhook-address=127.0.0.1:0", "--nlb-propagation-bound=3s"];
        all.extend(serves.iter().map(String::as_str));
        all.extend(arguments);
        let mut headgates = Vec::new();
        for _ in 0..replicas {
            headgates.push(s.headgate_of(&all).await);
        }
        let configuration = Configuration::install(&s, &headgates.iter().collect::<Vec<_>>()).await;
        let client = client_without_retries(s.facts()).await;
        Self { s, cluster, group, headgates, configuration: Some(configuration), client }
    }

    /// A Deployment `web` whose pods are all targets, and an API server that calls the webhooks for their evictions.
    pub async fn deployed(world: &'static World, test: &str, replicas: usize, pods: u32) -> (Self, Running) {
        let stage = Self::new(world, test, replicas, &[]).await;
        stage.cluster.deploy("web", pods, &[("http", 8080)]).await;
        let running = stage.wait_asked("web", pods as usize).await;
        (stage, running)
    }

    /// Waits until the pods of `app` are targets and the webhooks are called for their evictions.
    pub async fn wait_asked(&self, app: &str, count: usize) -> Running {
        let running = self.cluster.wait_running(app, count).await;
        self.s.wait_targets(&self.group, &targets(&running, 8080)).await;
        self.wait_heard(running.keys().next().unwrap()).await;
        running
    }

    /// Waits until the API server calls every replica for the eviction of a pod.
    async fn wait_heard(&self, pod: &str) {
        wait::until("the API server asks every replica", || async {
            self.try_evict(pod, &json!({"dryRun": ["All"]})).await.unwrap();
            let asked =
                |it: &&Headgate| it.logged(|line| line["message"] == "eviction dry run allowed").is_empty();
            let silent = self.headgates.iter().filter(asked).count();
            if silent == 0 { Ok(()) } else { Err(silent) }
        })
        .await;
    }

    /// Deletes pods of earlier tests from the node. Some have a hold that would outlast the drain.
    pub async fn remove_those_that_end_slowly(&self, node: &str) {
        let client = &self.s.cluster.client;
        let on_node = ListParams::default().fields(&format!("spec.nodeName={node}"));
        let pods: Api<Pod> = Api::all(client.clone());
        let is_slow = |pod: &Pod| {
            pod.spec
                .as_ref()
                .and_then(|spec| spec.termination_grace_period_seconds)
                .is_some_and(|grace| grace > 30)
        };
        for pod in pods.list(&on_node).await.unwrap().items.into_iter().filter(is_slow) {
            let meta = pod.metadata;
            let here: Api<Pod> = Api::namespaced(client.clone(), &meta.namespace.unwrap());
            // The pod may have been deleted in the meantime.
            let _ = here.delete(&meta.name.unwrap(), &DeleteParams::default().grace_period(0)).await;
        }
    }

    /// Sends one eviction, like `kubectl drain`.
    ///
    /// # Errors Any answer other than success or 429.
    pub async fn try_evict(&self, pod: &str, options: &Value) -> kube::Result<Answer> {
        try_evict(&self.client, &self.cluster.namespace, pod, options).await
    }

    /// Sends one eviction.
    pub async fn evict(&self, pod: &str) -> Answer {
        self.try_evict(pod, &json!({})).await.unwrap()
    }

    /// Sends an eviction that must not be allowed. Returns the message.
    pub async fn must_wait(&self, pod: &str) -> String {
        match self.evict(pod).await {
            Answer::Wait(_, said) => said,
            Answer::Done => panic!("{pod} was evicted: {}", self.said()),
        }
    }

    /// The log lines of all replicas about evictions.
    pub fn said(&self) -> String {
        let of = |it: &Headgate| it.logged(|line| line["reason"].is_string() && line["pod"].is_string());
        let lines = self.headgates.iter().flat_map(of).map(|line| line.to_string());
        lines.collect::<Vec<_>>().join("\n")
    }

    /// Repeats the eviction until it is allowed. Returns when.
    pub async fn evict_until_done(&self, pod: &str) -> SystemTime {
        wait::until(&format!("{pod} is evicted"), || async {
            match self.evict(pod).await {
                Answer::Done => Ok(SystemTime::now()),
                Answer::Wait(seconds, said) => {
                    assert!((1..=5).contains(&seconds) && said.contains("retry"), "{seconds} {said}");
                    Err(said)
                }
            }
        })
        .await
    }

    /// Waits until the pod with this address is deregistered, and checks that no other pod is.
    pub async fn wait_only_deregistered(&self, ip: &str) {
        wait::until("the pod is deregistered", || async { self.deregistered(ip).await.ok_or("not yet") })
            .await;
        let calls = self.s.aws.calls("DeregisterTargets", &self.group.name).await;
        let gone: BTreeSet<String> = calls.into_iter().flat_map(|(targets, _)| targets).collect();
        assert_eq!(gone, BTreeSet::from([format!("{ip}:8080")]));
    }

    /// When the target at this address was deregistered, if it was.
    pub async fn deregistered(&self, ip: &str) -> Option<SystemTime> {
        let calls = self.s.aws.calls("DeregisterTargets", &self.group.name).await;
        let target = format!("{ip}:8080");
        let call = calls.into_iter().find(|(targets, _)| targets.contains(&target));
        call.map(|(_, at)| SystemTime::UNIX_EPOCH + Duration::from_micros(at))
    }

    /// Headgate's annotations on a pod.
    pub async fn annotations(&self, pod: &str) -> BTreeMap<String, String> {
        let pod = self.cluster.api::<Pod>().get_opt(pod).await.unwrap();
        let all = pod.and_then(|pod| pod.metadata.annotations).unwrap_or_default();
        all.into_iter().filter(|(name, _)| name.starts_with("headgate.dev/")).collect()
    }

    /// The number of healthy targets.
    pub async fn healthy(&self) -> usize {
        let targets = self.s.aws.targets(&self.group.arn).await;
        targets.values().filter(|state| *state == "healthy").count()
    }

    /// Waits until `count` targets are healthy, also in Headgate's state. Headgate reads a healthy group rarely, and an
    /// unhealthy one soon.
    pub async fn wait_healthy(&self, count: usize) {
        let seen = [("target_group", &*self.group.name), ("state", "healthy")];
        wait::until("the leader has read that all are healthy", || async {
            let mut most: f64 = 0.0;
            for headgate in &self.headgates {
                most = most.max(headgate.sum("headgate_targets", &seen).await.unwrap_or_default());
            }
            #[allow(clippy::cast_precision_loss)] // a handful
            if most >= count as f64 && self.healthy().await >= count { Ok(()) } else { Err(most) }
        })
        .await;
    }

    /// Deletes the webhook configurations.
    pub async fn end(mut self) {
        if let Some(configuration) = self.configuration.take() {
            configuration.remove().await;
        }
    }
}

/// Sends one eviction, like `kubectl drain`. The `client` must be one [without retries](client_without_retries).
///
/// # Errors Any answer other than success or 429.
pub async fn try_evict(client: &Client, namespace: &str, pod: &str, options: &Value) -> kube::Result<Answer> {
    let body = json!({
        "apiVersion": "policy/v1", "kind": "Eviction",
        "metadata": {"namespace": namespace, "name": pod}, "deleteOptions": options,
    });
    let path = format!("/api/v1/namespaces/{namespace}/pods/{pod}/eviction");
    let request = hyper::Request::post(path).header("Content-Type", "application/json");
    let request = request.body(body.to_string().into_bytes()).unwrap();
    match client.request::<Value>(request).await {
        Ok(_) => Ok(Answer::Done),
        Err(kube::Error::Api(status)) if status.code == 429 => {
            let seconds = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
            Ok(Answer::Wait(seconds, status.message.clone()))
        }
        Err(error) => Err(error),
    }
}

/// The `pod-template-hash` in the name of a Deployment's pod.
pub fn hash_of(pod: &str) -> &str {
    pod.rsplit('-').nth(1).unwrap()
}
