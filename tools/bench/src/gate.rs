//! The time from a healthy target in the load balancer's API to the open readiness gate of its pod.
//!
//! There is no floor: AWS sends no notification, so a program must poll, and the time is that between two reads.

use std::net::Ipv4Addr;

use futures::{StreamExt, future::join_all};
use headgate_harness::{
    cluster::OWN_GATE,
    headgate::Headgate,
    recorder::{Micros, now},
};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{WatchEvent, WatchParams};
use localstack_world::Facts;
use serde_json::json;
use tokio::{net::TcpListener, task::JoinSet};

use crate::{
    Size,
    contender::Contender,
    report::Row,
    stage::{PORT, Stage, target},
    tape::millis,
};

/// The port of the load balancer.
const LISTENER: u16 = 29_000;

/// Runs the measure; see the module docs.
pub async fn measure(facts: &Facts, size: &Size) -> Vec<Row> {
    let stage = Stage::new(facts, "gate").await;
    let group = stage.aws.nlb_group("gate", LISTENER).await;
    stage.bind("web", &group).await;
    let headgate = Headgate::start(facts, &facts.kubeconfig, &[&stage.only_here()]).await;
    let mut times = Vec::new();
    for run in 0..size.runs {
        let mut servers = JoinSet::new();
        let mut pods = Vec::new();
        for at in 0..size.cycles {
            let (name, ip) = (format!("web-{run}-{at}"), stage.fresh_ip());
            serve(&mut servers, &ip).await;
            stage.gated_pod(&name, "web").await;
            pods.push((name, ip));
        }
        let opened = join_all(pods.iter().map(|(name, ip)| async {
            stage.give_ip(name, ip).await;
            opened(&stage, name).await
        }))
        .await;
        let healthy = stage.aws.turned(&group.name, "healthy").await;
        for ((_, ip), opened) in pods.iter().zip(opened) {
            let became = healthy.iter().find(|(healthy, _)| *healthy == target(ip));
            let (_, became) = became.unwrap_or_else(|| panic!("{ip} was healthy before its gate opened"));
            times.push(millis(*became, opened) / 1000.0);
        }
        stage.end_pods().await;
    }
    Contender::Headgate(headgate).end().await;
    vec![Row::of("healthy in the load balancer's API → readiness gate open", "s", &times, &[])]
}

/// Answers health checks at a pod's address.
pub async fn serve(servers: &mut JoinSet<()>, ip: &str) {
    let ip: Ipv4Addr = ip.parse().unwrap();
    let listener = TcpListener::bind((ip, PORT)).await.unwrap();
    servers.spawn(async move {
        loop {
            let _ = listener.accept().await;
        }
    });
}

/// When the API server shows that the gate of a pod is open.
pub async fn opened(stage: &Stage, name: &str) -> Micros {
    let parameters = WatchParams::default().fields(&format!("metadata.name={name}")).timeout(120);
    let events = stage.cluster.api::<Pod>().watch(&parameters, "0").await.unwrap();
    let mut events = std::pin::pin!(events);
    while let Some(event) = events.next().await {
        let (WatchEvent::Added(pod) | WatchEvent::Modified(pod)) = event.unwrap() else { continue };
        let conditions = pod.status.and_then(|status| status.conditions).unwrap_or_default();
        if conditions.iter().any(|condition| condition.type_ == OWN_GATE && condition.status == "True") {
            return now();
        }
    }
    panic!("the gate of {name} did not open within two minutes")
}

impl Stage {
    /// A pod on the node with Headgate's readiness gate, without an IP.
    pub async fn gated_pod(&self, name: &str, app: &str) {
        let gates = json!([{"conditionType": OWN_GATE}]);
        self.pod_with(name, app, |pod| pod["spec"]["readinessGates"] = gates).await;
    }
}
