//! A pod is deleted while another tenant attacks, for one attack after another, and without an attack. Measures the
//! time from the event at Headgate to the call, and resident memory.
//!
//! The attacks run on the same machine, and use its processors as much as they can. The API server bears most of the
//! load, so the time begins with the event.

use std::{
    collections::{BTreeMap, VecDeque},
    net::SocketAddr,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use headgate_harness::{
    cluster::Cluster,
    figures::percentile,
    headgate::Headgate,
    hostile::{
        large_pod, large_selector, names_that_do_not_exist, never_started, slow_reader, touch_large_selector,
    },
};
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use localstack_world::Facts;
use serde_json::json;
use tokio::time::{Instant, interval};

use crate::{
    Size,
    contender::{Contender, memory},
    quiet::PACE,
    report::Row,
    sight::deletions_seen,
    stage::{Stage, target},
    tape::{Tape, millis},
};

/// The number of open readers of metrics.
const READERS: usize = 400;

/// An attack of the other tenant.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Attack {
    Nothing,
    Selector,
    Names,
    Labels,
    Statuses,
    Readers,
}

impl Attack {
    const ALL: [Self; 6] =
        [Self::Nothing, Self::Selector, Self::Names, Self::Labels, Self::Statuses, Self::Readers];

    fn words(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Selector => "a pod and a Service of 50,000 pairs, written all the time",
            Self::Names => "1,600 target groups that do not exist",
            Self::Labels => "pods with 0.9 MB of labels that come and go",
            Self::Statuses => "the status of a pod, written all the time",
            Self::Readers => "400 slow readers of metrics",
        }
    }

    /// Runs until `enough` is set. It does not stop between a request and its answer.
    async fn run(self, evil: &Cluster, group: &str, admin: SocketAddr, enough: &AtomicBool) {
        match self {
            Self::Selector => large_selector(evil, group).await,
            Self::Names => names_that_do_not_exist(evil).await,
            Self::Statuses => _ = evil.create::<Pod>(never_started("victim", &BTreeMap::new())).await,
            Self::Nothing | Self::Labels | Self::Readers => {}
        }
        let mut readers = VecDeque::new();
        let mut tick = interval(Duration::from_millis(10));
        for at in 0.. {
            tick.tick().await;
            if enough.load(Ordering::Relaxed) {
                break;
            }
            match self {
                Self::Nothing | Self::Names => {}
                Self::Selector => touch_large_selector(evil, at).await,
                Self::Labels => large_pod(evil, at).await,
                Self::Statuses => {
                    let ip = format!("10.200.{}.{}", at / 256 % 256, at % 256);
                    let status = json!({"status": {"podIP": ip, "podIPs": [{"ip": ip}]}});
                    let pods = evil.api::<Pod>();
                    let written =
                        pods.patch_status("victim", &PatchParams::default(), &Patch::Merge(&status)).await;
                    written.unwrap();
                }
                Self::Readers => {
                    readers.push_back(slow_reader(admin).await);
                    if readers.len() > READERS {
                        readers.pop_front();
                    }
                }
            }
        }
    }
}

/// The times of deletions in milliseconds, and resident memory in MiB.
struct Taken {
    times: Vec<f64>,
    memory: f64,
}

/// Runs the measure; see the module docs.
pub async fn measure(facts: &Facts, size: &Size) -> Vec<Row> {
    let stage = Stage::new(facts, "hostile").await;
    let evil = stage.cluster.within("bench-hostile-evil");
    stage.cluster.create_namespace(&evil.namespace, &[]).await;
    let group = stage.group("hostile").await;
    stage.bind("web", &group).await;
    let mut all = Vec::new();
    for attack in Attack::ALL {
        eprintln!("the attack: {}", attack.words());
        all.push((attack, one(&stage, &evil, &group, attack, size).await));
    }
    let quiet = all.remove(0).1;
    let of = |taken: &Taken, percent| percentile(&taken.times, percent).unwrap_or_default();
    all.iter()
        .flat_map(|(attack, taken)| {
            let row = |what: &str, unit, ours, quiet| {
                Row::of(format!("{what} beside {}; beside nothing", attack.words()), unit, &[ours], &[quiet])
            };
            [
                row("event → DeregisterTargets, p50,", "ms", of(taken, 50), of(&quiet, 50)),
                row("event → DeregisterTargets, p99,", "ms", of(taken, 99), of(&quiet, 99)),
                row("resident memory", "MiB", taken.memory, quiet.memory),
            ]
        })
        .collect()
}

async fn one(
    stage: &Stage,
    evil: &Cluster,
    group: &headgate_harness::aws::Group,
    attack: Attack,
    size: &Size,
) -> Taken {
    let count = size.cycles * size.runs;
    let pods = (0..=count).map(|at| (format!("web-{attack:?}-{at}").to_lowercase(), "web".to_owned()));
    let pods = stage.running_pods(pods.collect()).await;
    let both = format!("{},{}", stage.only_here(), evil.namespace);
    let headgate = Headgate::start(&stage.facts, &stage.facts.kubeconfig, &[&both]).await;
    stage.wait_targets(group, pods.len()).await;
    let admin = headgate.admin().parse().unwrap();
    let enough = AtomicBool::new(false);
    let deleting = async {
        // The attack is running, and the token bucket is full again.
        tokio::time::sleep(size.rest).await;
        let mut tape = Tape::from_now(&stage.aws).await;
        let mut all = Vec::new();
        for (name, ip) in &pods {
            let began = Instant::now();
            stage.delete(name).await;
            let arrived = tape.arrival("DeregisterTargets", &group.name, &target(ip)).await;
            all.push((target(ip), arrived));
            tokio::time::sleep_until(began + PACE).await;
        }
        let resident = memory(headgate.pid());
        enough.store(true, Ordering::Relaxed);
        (all, resident)
    };
    let ((deleted, memory), ()) = futures::join!(deleting, attack.run(evil, &group.name, admin, &enough));
    let seen = deletions_seen(&headgate);
    // The first call must open connections.
    let time = |(target, arrived): &(String, _)| Some(millis(*seen.get(target)?, *arrived));
    let times = deleted.iter().skip(1).filter_map(time).collect();
    Contender::Headgate(headgate).end().await;
    stage.end_pods().await;
    let at_once = DeleteParams::default().grace_period(0);
    evil.api::<Pod>().delete_collection(&at_once, &ListParams::default()).await.unwrap();
    for service in evil.api::<Service>().list(&ListParams::default()).await.unwrap() {
        let name = service.metadata.name.unwrap_or_default();
        evil.api::<Service>().delete(&name, &DeleteParams::default()).await.unwrap();
    }
    Taken { times, memory }
}
