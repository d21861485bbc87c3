//! `kubectl drain` of one node in the demo's world, compared with the earliest possible end with hold and health
//! checks.
//!
//! The demo's budget allows one missing pod, so the pods of a node are evicted one after another. A pod is evicted when
//! the replacement of the previous one is a healthy target with an open gate, and terminates after its hold. `kubectl`
//! retries 5 s after a rejection. That time is not Headgate's, so the explained time includes it.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use futures::{StreamExt, TryStreamExt};
use headgate_demo::{
    play::start,
    stage::{Care, REPLICAS, Stage, bound_of_profile},
};
use headgate_harness::{aws::Aws, cluster::Cluster, wait};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    ResourceExt,
    api::{ListParams, WatchEvent, WatchParams},
};
use localstack_world::Facts;

use crate::{Size, report::Row};

/// The time after which `kubectl` retries a rejected eviction.
const ASKS_AGAIN: Duration = Duration::from_secs(5);
/// The name of the namespace and of all other objects.
const NAME: &str = "drained";

/// An event of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Ready,
    Deleted,
    Gone,
}

/// The event, its time since the drain began, and the pod.
type Event = (Duration, What, String);

/// Runs the measure; see the module docs.
pub async fn measure(facts: &Facts, size: &Size) -> Vec<Row> {
    let bound = bound_of_profile(&Aws::new(facts).await, "typical-nlb").await;
    let (_headgate, configuration) = start(facts, &[NAME], NAME, bound).await;
    let care = Care::covering(bound, facts.time_scale);
    let stage = Stage::set(facts, NAME, care, NAME).await;
    let rest = usize::try_from(REPLICAS).expect("a few");
    let (mut took, mut explained, mut longest) = (Vec::new(), Vec::new(), f64::MIN);
    for run in 0..size.drains {
        stage.wait_quiet(rest).await;
        wait_ready(&stage.cluster, rest).await;
        let node = stage.busiest_node().await;
        let (events, began) = (Arc::default(), Instant::now());
        let watch = tokio::spawn(watch(stage.cluster.clone(), began, Arc::clone(&events)));
        stage.drain(&node).await;
        let whole = began.elapsed();
        watch.abort();
        let events = std::mem::take(&mut *events.lock().expect("nobody panics with it"));
        eprintln!("drain {run}, {:.1} s: {}", whole.as_secs_f64(), told(&events));
        let late: f64 = late(&events).iter().sum();
        took.push(whole.as_secs_f64());
        explained.push(whole.as_secs_f64() - late);
        longest = longest.max(late);
        stage.uncordon(&node).await;
        stage.restart().await;
    }
    stage.wait_quiet(rest).await;
    stage.scale(0).await;
    configuration.remove().await;
    vec![
        Row::of(
            "kubectl drain of a node with two pods, beside what hold, health checks and kubectl's asking every 5 s explain",
            "s",
            &took,
            &explained,
        ),
        Row::of("kubectl drain: the longest beyond that", "s", &[longest], &[]),
    ]
}

/// Waits until this many pods are ready. The load balancer may report them as healthy before their gates are open.
async fn wait_ready(cluster: &Cluster, count: usize) {
    wait::until_equal("the pods are ready", &count, || async {
        let pods = cluster.api::<Pod>().list(&ListParams::default()).await.expect("pods can be listed");
        pods.iter().filter(|pod| state(pod) == Some(What::Ready)).count()
    })
    .await;
}

/// Records what happens to the pods. Does not end.
async fn watch(cluster: Cluster, began: Instant, events: Arc<Mutex<Vec<Event>>>) {
    let pods = cluster.api::<Pod>();
    let there = pods.list(&ListParams::default()).await.expect("pods can be listed");
    let mut before: BTreeMap<String, What> = BTreeMap::new();
    before.extend(there.items.iter().filter_map(|pod| Some((pod.name_any(), state(pod)?))));
    let from = there.metadata.resource_version.expect("a list has a version");
    let mut watched = pods.watch(&WatchParams::default(), &from).await.expect("pods can be watched").boxed();
    while let Some(event) = watched.try_next().await.expect("the watch goes on") {
        let (pod, state) = match event {
            WatchEvent::Added(pod) | WatchEvent::Modified(pod) => (pod.name_any(), state(&pod)),
            WatchEvent::Deleted(pod) => (pod.name_any(), Some(What::Gone)),
            _ => continue,
        };
        let Some(state) = state else { continue };
        if before.insert(pod.clone(), state) != Some(state) {
            events.lock().expect("nobody panics with it").push((began.elapsed(), state, pod));
        }
    }
}

fn state(pod: &Pod) -> Option<What> {
    if pod.metadata.deletion_timestamp.is_some() {
        return Some(What::Deleted);
    }
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let ready = conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True");
    ready.then_some(What::Ready)
}

fn told(events: &[Event]) -> String {
    let told = events.iter().map(|(at, what, pod)| {
        let end = pod.rsplit('-').next().unwrap_or_default();
        format!("{end} {what:?} {:.2}", at.as_secs_f64())
    });
    told.collect::<Vec<_>>().join(", ")
}

/// For each evicted pod, how many seconds after the earliest possible time its eviction was allowed. The earliest time
/// is the beginning, or when `kubectl` would retry after the previous replacement is ready. Negative: the request came
/// earlier and was kept waiting.
fn late(events: &[Event]) -> Vec<f64> {
    let mut since = Duration::ZERO;
    let mut first = None;
    let mut late = Vec::new();
    for (at, what, _) in events {
        match what {
            What::Ready => since = *at,
            What::Deleted => {
                let first = *first.get_or_insert(*at);
                let mut asked = first;
                while asked < since {
                    asked += ASKS_AGAIN;
                }
                late.push(at.as_secs_f64() - asked.as_secs_f64());
            }
            What::Gone => {}
        }
    }
    late
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_may_go_when_kubectl_asks_after_the_one_in_place_of_that_before_is_ready() {
        let event = |ms, what, pod: &str| (Duration::from_millis(ms), what, pod.to_owned());
        let drain = |ready, deleted| {
            let events = [
                event(200, What::Deleted, "a"),
                event(ready, What::Ready, "c"),
                event(deleted, What::Deleted, "b"),
                event(deleted + 7_000, What::Gone, "b"),
            ];
            late(&events)[1]
        };
        assert!((drain(3_000, 5_300) - 0.1).abs() < 1e-6);
        assert!((drain(5_300, 10_700) - 0.5).abs() < 1e-6);
        assert!((drain(5_300, 5_400) - -4.8).abs() < 1e-6, "it was asked before, and kept waiting");
    }
}
