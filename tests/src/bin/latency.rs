//! `make latency`: how long a deletion takes to reach AWS, on a world where nothing else happens.
//!
//! From just before the DELETE is sent to the API server until the DeregisterTargets has arrived at the stand-in, on
//! one clock; and what Headgate itself measures, from the event reaching it to the call being sent.

#![allow(clippy::expect_used, clippy::unwrap_used)] // whatever cannot go on says so and ends

use std::time::Duration;

use headgate_tests::{
    aws::Aws,
    cluster::Cluster,
    demo::{recorder::now, report::Percentiles},
    headgate::Headgate,
    kinds,
    scenario::http_port,
    wait,
};
use localstack_world::{Options, World};

const PODS: usize = 60;

#[tokio::main]
async fn main() {
    rustls::crypto::aws_lc_rs::default_provider().install_default().expect("the first TLS provider");
    let options = Options { name: "latency".parse().expect("a name"), ..Options::default() };
    let world = World::start(options).await.expect("a world");
    let facts = world.facts();
    kinds::install(facts).await;
    let (cluster, aws) = (Cluster::new(facts, "latency").await, Aws::new(facts).await);
    let group = aws.nlb_group("latency", 8000).await;
    let headgate = Headgate::start(facts, &facts.kubeconfig, &["--namespaces=latency"]).await;
    cluster.service("web", "web", http_port(), Some(&group.name)).await;
    for at in 0..PODS {
        cluster.pod(&format!("web-{at}"), "web", &[("http", 8080)]).await;
    }
    let pods = cluster.wait_running("web", PODS).await;
    wait::until_equal("all pods are registered", &PODS, || async { aws.registered(&group.arn).await.len() })
        .await;

    let mut deleted = Vec::new();
    for (name, ip) in &pods {
        // Apart from each other, and slower than AWS's limit of four calls a second.
        tokio::time::sleep(Duration::from_millis(300)).await;
        deleted.push((format!("{ip}:8080"), now()));
        cluster.delete_pod(name, 30).await;
    }
    wait::until_equal("all are deregistered", &0, || async { aws.registered(&group.arn).await.len() }).await;
    let calls = aws.calls("DeregisterTargets", &group.name).await;
    let reach = |(target, at): &(String, u64)| {
        let (_, arrived) =
            calls.iter().find(|(targets, _)| targets.contains(target)).expect("it was deregistered");
        #[allow(clippy::cast_precision_loss)] // milliseconds
        let millis = arrived.saturating_sub(*at) as f64 / 1000.0;
        millis
    };
    let inside = headgate.logged(|line| line["message"] == "deregistering" && line["attempt"] == 1);
    let inside: Vec<f64> = inside.iter().filter_map(|line| line["wait_ms"].as_f64()).collect();
    let show = |what: &str, values: Vec<f64>| {
        let (count, Percentiles { p50, p99 }) = (values.len(), Percentiles::of(values));
        println!("{what:<64} n {count:<4} p50 {:>7.2} ms   p99 {:>7.2} ms", p50.unwrap(), p99.unwrap());
    };
    show("DELETE sent to the API server → DeregisterTargets at AWS", deleted.iter().map(reach).collect());
    show("event at Headgate → DeregisterTargets handed to the client", inside);
    world.shutdown().await.expect("the world ends");
}
