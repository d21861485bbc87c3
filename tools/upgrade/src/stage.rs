//! The environment of an upgrade, and the order of its steps.

use std::{net::TcpListener, time::Duration};

use headgate_harness::{
    aws::{Aws, Group},
    cluster::Cluster,
    headgate::Headgate,
    kubectl::Kubectl,
    scenario::{http_port, targets},
    wait,
    webhook::{bare_pod, wait_injected},
};
use localstack_world::Facts;
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::{
    manifests::Manifests,
    report::Row,
    versions::Version,
    watching::{Tally, create_pods, has_gate_and_hold, watch_targets},
};

/// The number of pods that remain.
const PODS: u32 = 4;
/// Their namespace, which is also Headgate's.
const SHOP: &str = "shop";
const OWN: &str = "headgate";

/// The order in which versions change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The order for users: one replica after the other, then the manifests, and back in reverse.
    Right,
    /// The control: both replicas at once, which misses pods.
    Together,
}

/// The local world with Headgate.
pub struct Stage {
    facts: Facts,
    cluster: Cluster,
    aws: Aws,
    group: Group,
    manifests: Manifests,
    replicas: Vec<Option<Headgate>>,
    tally: Tally,
    rows: Vec<Row>,
    /// The pause after each step.
    rest: Duration,
}

/// A free port. A replica of either version uses the same address.
fn free_address() -> String {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).unwrap().to_string()
}

impl Stage {
    /// The local world with the CRDs of a version, and no running replica.
    pub async fn new(facts: &Facts, from: &Version, rest: Duration) -> Self {
        headgate_harness::kinds::install_as(facts, &from.file("config/crd/headgate.dev.yaml")).await;
        let cluster =
            Cluster { client: headgate_harness::cluster::client(facts).await, namespace: SHOP.to_owned() };
        let label = "upgrade.headgate.dev/mine";
        cluster.create_namespace(SHOP, &[(label, ""), ("headgate.dev/inject", "true")]).await;
        let aws = Aws::new(facts).await;
        let group = aws.nlb_group("upgrade", 20_080).await;
        let addresses = vec![free_address(), free_address()];
        let (client, name, label) = (cluster.client.clone(), "headgate".to_owned(), label.to_owned());
        let manifests = Manifests { client, name, label, addresses };
        let (tally, replicas) = (Tally::default(), vec![None, None]);
        Self { facts: facts.clone(), cluster, aws, group, manifests, replicas, tally, rows: Vec::new(), rest }
    }

    async fn start(&mut self, at: usize, version: &Version) {
        let webhook = format!("--webhook-address={}", self.manifests.addresses[at]);
        let (own, only) = (format!("--own-namespace={OWN}"), format!("--namespaces={SHOP}"));
        let arguments = [&*webhook, &*own, &*only];
        let arguments = [&arguments[..], version.free_ports()].concat();
        let facts = &self.facts;
        let headgate =
            Headgate::start_program(&version.program, facts, &facts.kubeconfig, &arguments, &[]).await;
        wait::until("headgate is ready", || headgate.probe("/readyz")).await;
        self.replicas[at] = Some(headgate);
    }

    /// Starts two replicas of a version with its manifests, and a Service whose pods are targets.
    pub async fn begin(&mut self, version: &Version) {
        self.start(0, version).await;
        self.start(1, version).await;
        self.manifests.apply(version).await;
        let value = format!("http={}", self.group.name);
        self.cluster.service("web", "web", http_port(), Some(&value)).await;
        wait_injected(&self.cluster, bare_pod("probe", &json!({})), has_gate_and_hold).await;
        self.cluster.deploy("web", PODS, &[("http", 8080)]).await;
    }

    /// Plays all steps. Returns the counts, and the targets that were deregistered.
    pub async fn play(mut self, from: &Version, to: &Version, order: Order) -> (Vec<Row>, Vec<String>) {
        let running = self.cluster.wait_running("web", PODS as usize).await;
        let wanted = targets(&running, 8080);
        wait::until_equal("the pods are targets", &wanted, || self.aws.registered(&self.group.arn)).await;
        let pods = create_pods(&self.cluster, &self.tally);
        let looks = watch_targets(Aws::new(&self.facts).await, &self.group, wanted.clone(), &self.tally);

        self.step(&format!("{} runs", from.name), async |_| {}, self.rest / 3).await;
        match order {
            Order::Right => self.there_and_back(from, to).await,
            Order::Together => {
                let step = format!("both replicas become {} at once", to.name);
                let replace = async |stage: &mut Self| {
                    for replica in stage.replicas.iter_mut().filter_map(Option::take) {
                        replica.terminate().await;
                    }
                    stage.start(0, to).await;
                    stage.start(1, to).await;
                };
                self.step(&step, replace, self.rest).await;
            }
        }
        pods.abort();
        looks.abort();
        let _ = (pods.await, looks.await);

        let calls = self.aws.calls("DeregisterTargets", &self.group.name).await;
        let removed = calls.into_iter().flat_map(|(targets, _)| targets);
        let removed = removed.filter(|target| wanted.contains(target)).collect();
        for replica in &mut self.replicas {
            if let Some(replica) = replica.take() {
                replica.terminate().await;
            }
        }
        (self.rows, removed)
    }

    async fn there_and_back(&mut self, from: &Version, to: &Version) {
        for at in 0..self.replicas.len() {
            let step = format!("replica {} becomes {}", at + 1, to.name);
            self.step(&step, async |stage| stage.replace(at, to).await, self.rest).await;
        }
        let step = format!("the manifests become those of {}", to.name);
        self.step(&step, async |stage| stage.apply(to).await, self.rest).await;
        let step = format!("back: the manifests become those of {}", from.name);
        self.step(&step, async |stage| stage.apply(from).await, self.rest / 6).await;
        for at in 0..self.replicas.len() {
            let step = format!("back: replica {} becomes {}", at + 1, from.name);
            self.step(&step, async |stage| stage.replace(at, from).await, self.rest / 2).await;
        }
    }

    async fn step(&mut self, step: &str, does: impl AsyncFnOnce(&mut Self), rest: Duration) {
        let (at, began) = (self.rows.len(), Instant::now());
        self.tally.begin(at);
        eprintln!("{step}");
        does(self).await;
        sleep(rest).await;
        let seconds = began.elapsed().as_secs();
        self.rows.push(Row { step: step.to_owned(), seconds, counts: self.tally.of(at) });
    }

    /// Stops one replica, and starts one of this version at the same address.
    async fn replace(&mut self, at: usize, version: &Version) {
        if let Some(before) = self.replicas[at].take() {
            before.terminate().await;
        }
        self.start(at, version).await;
    }

    async fn apply(&mut self, version: &Version) {
        let kubectl = Kubectl::new(&self.facts, OWN);
        let kinds = version.source.join("config/crd/headgate.dev.yaml");
        kubectl
            .run(&["apply", "--server-side", "--force-conflicts", "-f", &kinds.display().to_string()])
            .await;
        self.manifests.apply(version).await;
    }
}
