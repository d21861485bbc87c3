//! The replicas of Headgate of one side of a cell, and what happens to them.

use std::time::Duration;

use headgate_core::inject::INJECT;
use headgate_harness::{
    headgate::Headgate,
    recorder::APP,
    webhook::{Configuration, bare_pod, wait_injected},
};

use serde_json::json;

use super::{Care, Stage};
use crate::replica::{Lease, Replica, Start, leader, lease_arguments};

/// The Lease of both replicas, if the reserve is scaled with the load balancer.
pub const LEASE: Lease = ["3s", "2s", "500ms"];

impl Stage {
    /// Starts two replicas. If pods get gate and hold, also their webhooks, and waits until they answer.
    pub(crate) async fn start_headgate(&mut self, bound: String, lease: Option<Lease>) {
        let (own, namespace) = (&self.name, &self.cluster.namespace);
        let webhook = format!("{own}-webhook");
        // Not --namespaces, which only needs Roles and does not read nodes.
        let only = format!("--namespace-selector=kubernetes.io/metadata.name={namespace}");
        let mut arguments = vec![format!("--own-namespace={own}"), only, bound];
        arguments.extend(lease.into_iter().flat_map(lease_arguments));
        if self.care.has_gate() {
            arguments.push("--webhook-address=127.0.0.1:0".into());
        }
        for _ in 0..2 {
            self.replicas.push(Start::new(&self.facts, arguments.clone()).start().await);
        }
        if !self.care.has_gate() {
            return;
        }
        let label = format!("{own}-mine");
        self.kubectl.run(&["label", "namespace", namespace, &format!("{label}=")]).await;
        let headgates: Vec<&Headgate> = self.replicas.iter().map(|replica| &replica.headgate).collect();
        let client = self.cluster.client.clone();
        let configuration = Configuration::install_as(client, webhook, label, &headgates).await;
        configuration.opt_in(&self.cluster.namespace).await;
        self.configuration = Some(configuration);
        if let Care::GateAndHold(_) = self.care {
            let probe = bare_pod("probe", &json!({"app": APP, INJECT: "true"}));
            wait_injected(&self.cluster, probe, |pod| self.is_cared_for(pod)).await;
        }
    }

    /// Starts two replicas of `headgate daemonsets`.
    pub(crate) async fn start_daemonsets(&mut self) {
        let arguments =
            [format!("--own-namespace={}", self.name), format!("--namespaces={}", self.cluster.namespace)];
        let lease = lease_arguments(LEASE);
        let arguments: Vec<&str> = arguments.iter().chain(&lease).map(String::as_str).collect();
        for _ in 0..2 {
            let started = Headgate::start_daemonsets(&self.facts, &self.facts.kubeconfig, &arguments).await;
            self.of_sets.push(started);
        }
    }

    /// Kills the leader of `headgate daemonsets`.
    pub async fn kill_leader_of_sets(&mut self) {
        for at in 0..self.of_sets.len() {
            if self.of_sets[at].leads_sets().await {
                return self.of_sets.remove(at).kill().await;
            }
        }
    }

    /// Kills the leader.
    pub async fn kill_leader(&mut self) {
        let leader = leader(&self.replicas).await.expect("one replica leads");
        self.replicas.remove(leader).kill().await;
    }

    /// Kills all replicas, and starts them again after this time.
    pub async fn all_down_for(&mut self, time: Duration) {
        let replicas = std::mem::take(&mut self.replicas);
        let killed = futures::future::join_all(replicas.into_iter().map(Replica::kill)).await;
        tokio::time::sleep(time).await;
        let started = killed.into_iter().map(Start::start);
        self.replicas = futures::future::join_all(started).await;
    }

    /// The number of pods that stopped before the load balancer had stopped sending to them, as counted by the running
    /// replicas.
    pub async fn holds_too_short(&self) -> u64 {
        let count = format!("headgate_holds_too_short_total{{target_group=\"{}\"}}", self.group.name);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a few pods
        let pods = self.sum(&count).await as u64;
        pods
    }

    /// The sum of a metric over the running replicas.
    pub(crate) async fn sum(&self, metric: &str) -> f64 {
        let mut sum = 0.0;
        for replica in &self.replicas {
            sum += replica.headgate.metric(metric).await.unwrap_or_default();
        }
        sum
    }
}
