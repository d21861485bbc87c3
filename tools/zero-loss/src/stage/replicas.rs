//! The replicas of Headgate of one side of a cell, and what happens to them.

use std::time::Duration;

use headgate_harness::{
    headgate::Headgate,
    recorder::APP,
    wait,
    webhook::{Configuration, bare_pod},
};
use k8s_openapi::api::core::v1::Pod;
use localstack_world::Facts;
use serde_json::json;

use super::{Care, Stage};

/// A Lease: duration, renew deadline, retry period.
pub type Lease = [&'static str; 3];

/// The Lease of both replicas, where the margin is scaled with the load balancer.
pub const LEASE: Lease = ["3s", "2s", "500ms"];

/// A replica, and what it was started with.
pub struct Replica {
    /// Its process.
    pub headgate: Headgate,
    arguments: Vec<String>,
}

impl Replica {
    async fn start(facts: &Facts, arguments: Vec<String>) -> Self {
        let all: Vec<&str> = arguments.iter().map(String::as_str).collect();
        Self { headgate: Headgate::start(facts, &facts.kubeconfig, &all).await, arguments }
    }

    /// Kills it; gives what another one is started with that takes its place, at the same address.
    async fn kill(self) -> Vec<String> {
        let Self { headgate, mut arguments } = self;
        for argument in &mut arguments {
            if argument.starts_with("--webhook-address=") {
                *argument = format!("--webhook-address={}", headgate.webhook().await);
            }
        }
        headgate.kill().await;
        arguments
    }
}

impl Stage {
    /// Two replicas; where pods are cared for, their webhooks, waited for until they answer.
    pub(crate) async fn start_headgate(&mut self, bound: String, lease: Option<Lease>) {
        let (own, namespace) = (&self.name, &self.cluster.namespace);
        let webhook = format!("{own}-webhook");
        // Not --namespaces: that needs Roles only, and sees no nodes.
        let only = format!("--namespace-selector=kubernetes.io/metadata.name={namespace}");
        let mut arguments = vec![format!("--own-namespace={own}"), only, bound];
        let times = ["duration", "renew-deadline", "retry-period"];
        let lease = lease.into_iter().flatten();
        arguments.extend(times.iter().zip(lease).map(|(of, is)| format!("--lease-{of}={is}")));
        if self.care.has_gate() {
            arguments.extend(["--webhook-address=127.0.0.1:0".into(), "--webhook-names=127.0.0.1".into()]);
            arguments.push(format!("--webhook-configuration={webhook}"));
        }
        for _ in 0..2 {
            self.replicas.push(Replica::start(&self.facts, arguments.clone()).await);
        }
        if !self.care.has_gate() {
            return;
        }
        let label = format!("{own}-mine");
        self.kubectl.run(&["label", "namespace", namespace, &format!("{label}=")]).await;
        let headgates: Vec<&Headgate> = self.replicas.iter().map(|replica| &replica.headgate).collect();
        let client = self.cluster.client.clone();
        let configuration = Configuration::install_as(client, webhook, label, &headgates).await;
        configuration.wait_trusted().await;
        configuration.opt_in(&self.cluster.namespace).await;
        self.configuration = Some(configuration);
        self.wait_asked().await;
    }

    /// The API server follows its configurations by a watch, each replica the Services.
    async fn wait_asked(&self) {
        let Care::GateAndHold(_) = self.care else { return };
        let probe = bare_pod("probe", &json!({"app": APP, "headgate.dev/inject": "true"}));
        let probe: Pod = serde_json::from_value(probe).unwrap();
        let dry_run = kube::api::PostParams { dry_run: true, ..kube::api::PostParams::default() };
        wait::until("a new pod would get the gate and the hold", || async {
            let pod = self.cluster.api::<Pod>().create(&dry_run, &probe).await.unwrap();
            if self.is_cared_for(&pod) { Ok(()) } else { Err(pod.metadata.annotations) }
        })
        .await;
    }

    /// Two that see to IngressDaemonSets.
    pub(crate) async fn start_daemonsets(&mut self) {
        let arguments =
            [format!("--own-namespace={}", self.name), format!("--namespaces={}", self.cluster.namespace)];
        let times = ["duration", "renew-deadline", "retry-period"];
        let lease = times.iter().zip(LEASE).map(|(of, is)| format!("--lease-{of}={is}"));
        let arguments: Vec<String> = arguments.into_iter().chain(lease).collect();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        for _ in 0..2 {
            let started = Headgate::start_daemonsets(&self.facts, &self.facts.kubeconfig, &arguments).await;
            self.of_sets.push(started);
        }
    }

    /// Kills the one that sees to IngressDaemonSets.
    pub async fn kill_leader_of_sets(&mut self) {
        for at in 0..self.of_sets.len() {
            if self.of_sets[at].leads_sets().await {
                return self.of_sets.remove(at).kill().await;
            }
        }
    }

    /// Kills the leading replica.
    pub async fn kill_leader(&mut self) {
        let mut leading = Vec::new();
        for (at, replica) in self.replicas.iter().enumerate() {
            if replica.headgate.leads().await {
                leading.push(at);
            }
        }
        let [leader] = leading[..] else { panic!("one replica leads, expected; these do: {leading:?}") };
        self.replicas.remove(leader).kill().await;
    }

    /// Kills all replicas, and starts them again after this time.
    pub async fn all_down_for(&mut self, time: Duration) {
        let replicas = std::mem::take(&mut self.replicas);
        let killed = replicas.into_iter().map(Replica::kill);
        let arguments = futures::future::join_all(killed).await;
        tokio::time::sleep(time).await;
        let started = arguments.into_iter().map(|arguments| Replica::start(&self.facts, arguments));
        self.replicas = futures::future::join_all(started).await;
    }

    /// How many pods ended before the load balancer had stopped sending to them, as the replicas that live have counted.
    pub async fn holds_too_short(&self) -> u64 {
        let count = format!("headgate_holds_too_short_total{{target_group=\"{}\"}}", self.group.name);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a few pods
        let pods = self.sum(&count).await as u64;
        pods
    }

    /// What a metric comes to over the replicas that live.
    pub(crate) async fn sum(&self, metric: &str) -> f64 {
        let mut sum = 0.0;
        for replica in &self.replicas {
            sum += replica.headgate.metric(metric).await.unwrap_or_default();
        }
        sum
    }
}
