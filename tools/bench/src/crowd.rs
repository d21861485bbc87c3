//! New pods while one client opens as many connections to the webhook as possible, compared with the same pods without
//! that. Measures the time of their creation, which includes the API server's call of the webhook, and resident memory.
//!
//! The client runs on the same machine, and uses its processors as much as it can.

use std::{sync::atomic::Ordering::Relaxed, time::Instant};

use futures::{StreamExt, stream};
use headgate_harness::{
    crowd::Crowd,
    figures::percentile,
    headgate::Headgate,
    wait,
    webhook::{Configuration, bare_pod},
};
use k8s_openapi::api::core::v1::Pod;
use kube::api::PostParams;
use localstack_world::Facts;
use serde_json::json;

use crate::{
    Size,
    contender::{Contender, memory},
    report::Row,
    stage::Stage,
};

/// The number of requests to the API server in flight.
const AT_ONCE: usize = 4;

/// Runs the measure; see the module docs.
pub async fn measure(facts: &Facts, size: &Size) -> Vec<Row> {
    let stage = Stage::new(facts, "crowd").await;
    let pods = stage.cluster.within("bench-crowd-injected");
    let labels = [("bench-crowd", ""), ("headgate.dev/inject", "true")];
    pods.create_namespace(&pods.namespace, &labels).await;
    let serves = format!("{},{}", stage.only_here(), pods.namespace);
    let arguments = ["--webhook-address=127.0.0.1:0", &serves];
    let headgate = Headgate::start(facts, &facts.kubeconfig, &arguments).await;
    let client = pods.client.clone();
    let configuration =
        Configuration::install_as(client, "bench-crowd".into(), "bench-crowd".into(), &[&headgate]).await;
    let create = async || {
        let parameters = PostParams { dry_run: true, ..PostParams::default() };
        let pod = serde_json::from_value(bare_pod("web", &json!({"app": "web"}))).unwrap();
        let began = Instant::now();
        let made = pods.api::<Pod>().create(&parameters, &pod).await.unwrap();
        let took = began.elapsed().as_secs_f64() * 1000.0;
        let injected = made.metadata.annotations.is_some_and(|all| all.contains_key("headgate.dev/injected"));
        (took, injected)
    };
    wait::until("the API server asks about new pods", || async {
        if create().await.1 { Ok(()) } else { Err(headgate.text()) }
    })
    .await;
    let (crowd_size, count) = size.crowd;
    let take = async || {
        let all = stream::iter(0..count).map(|_| create()).buffered(AT_ONCE).collect::<Vec<_>>().await;
        let missed = all.iter().filter(|(_, injected)| !injected).count();
        let times: Vec<f64> = all.into_iter().map(|(took, _)| took).collect();
        ([50, 99].map(|percent| percentile(&times, percent).unwrap_or_default()), missed)
    };
    let quiet = take().await;
    let resident = memory(headgate.pid());
    let authorities = configuration.trusted().await.unwrap().remove(0);
    let crowd = Crowd::at_https(&headgate.webhook().await, &authorities, crowd_size);
    wait::until("the crowd is there, and comes again", || async {
        let closed = crowd.counts.closed.load(Relaxed);
        if closed > crowd_size.slow as u64 { Ok(()) } else { Err(closed) }
    })
    .await;
    let crowded = take().await;
    let crowded_resident = memory(headgate.pid());
    eprintln!("the crowd opened {} connections", crowd.counts.opened.load(Relaxed));
    drop(crowd);
    configuration.remove().await;
    Contender::Headgate(headgate).end().await;
    let beside =
        format!("{} connections of one client; beside it, quiet", crowd_size.silent + crowd_size.slow);
    #[allow(clippy::cast_precision_loss)] // a few hundred
    let missed = |of: usize| of as f64;
    let row = |what: &str, unit, ours, quiet| Row::of(format!("{what}, {beside}"), unit, &[ours], &[quiet]);
    vec![
        row("a new pod with the webhook's answer, p50", "ms", crowded.0[0], quiet.0[0]),
        row("a new pod with the webhook's answer, p99", "ms", crowded.0[1], quiet.0[1]),
        row("new pods whose webhook call was missed", "pods", missed(crowded.1), missed(quiet.1)),
        row("resident memory", "MiB", crowded_resident, resident),
    ]
}
