//! A rollout of an IngressDaemonSet over many nodes, a tenth of them at once: how long nodes wait for Headgate instead
//! of pods. Also its cost, compared with a rollout of a DaemonSet on the same nodes.
//!
//! An updating node waits for pods while one of them is created and not ready. Terminating pods do not count. While
//! nodes remain that were not updated, the maximum number should be waiting for pods: the difference is Headgate's
//! time.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use futures::{StreamExt, TryStreamExt};
use headgate_harness::{
    cluster::{Cluster, pod_spec},
    daemonsets::IngressDaemonSet,
    headgate::Headgate,
};
use k8s_openapi::api::{
    apps::v1::{ControllerRevision, DaemonSet},
    core::v1::{Event, Node, Pod},
};
use kube::{
    Api, Resource, ResourceExt,
    api::{DeleteParams, ListParams},
    runtime::watcher::{self, watcher},
};
use localstack_world::Facts;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::{
    Size,
    contender::{Contender, memory},
    report::Row,
};

/// The name of the set and of the DaemonSet.
const NAME: &str = "edge";
/// The share of nodes that are updated at once, in percent.
const AT_ONCE: usize = 10;
/// The longest time that a rollout may make no progress.
const STANDS_STILL: Duration = Duration::from_secs(120);

/// Runs the measure; see the module docs.
pub async fn measure(facts: &Facts, size: &Size) -> Vec<Row> {
    let cluster = Cluster::new(facts, "daemonsets").await;
    let nodes = Api::<Node>::all(cluster.client.clone()).list(&ListParams::default()).await.unwrap().items;
    let nodes = nodes.iter().filter(|node| has_kubelet(node)).count();
    let only = format!("--namespaces={}", cluster.namespace);
    let contender = Contender::Headgate(
        Headgate::start_daemonsets(facts, &facts.kubeconfig, &[&only, "--log=info"]).await,
    );
    let Contender::Headgate(headgate) = &contender else { panic!("it is Headgate") };
    let per_node = size.pods_per_node;
    let roll = |version: &str| json!({"template": template(size, version)});
    cluster
        .create::<IngressDaemonSet>(json!({
            "apiVersion": "headgate.dev/v1alpha1", "kind": "IngressDaemonSet", "metadata": {"name": NAME},
            "spec": {
                "podsPerNode": per_node, "template": template(size, "1"),
                "updateStrategy": {"maxNodesAtOnce": format!("{AT_ONCE}%")},
            },
        }))
        .await;
    wait_still("all nodes have the set's pods", || set_is_done(&cluster, nodes)).await;
    let seen = Seen::begin(&cluster).await;
    let (before, used) = (writes(headgate).await, contender.processor_time());
    let began = Instant::now();
    cluster.patch::<IngressDaemonSet>(NAME, &json!({"spec": roll("2")})).await;
    wait_still("the set is rolled", || set_is_done(&cluster, nodes)).await;
    let (took, used) = (began.elapsed(), contender.processor_time() - used);
    let pods = nodes * per_node;
    let per_pod = |all: f64| all / f64::from(u32::try_from(pods).unwrap());
    let ours = per_pod(writes(headgate).await - before);
    let resident = memory(contender.pid());
    let at_once = (nodes * AT_ONCE / 100).max(1);
    let waited = seen.end().waited(began, at_once);
    let api = cluster.api::<IngressDaemonSet>();
    api.delete(NAME, &DeleteParams::background()).await.unwrap();
    no_pods(&cluster).await;
    contender.end().await;

    let theirs = of_a_daemon_set(&cluster, size, nodes).await;
    let what = format!(
        "roll of an IngressDaemonSet on {nodes} nodes with {per_node} pods each, {AT_ONCE} % of them at once"
    );
    vec![
        Row::of(&what, "s", &[took.as_secs_f64()], &[]),
        Row::of("– share of the time in which a node waited for Headgate", "%", &[100.0 * waited], &[]),
        Row::of("– processor time per pod", "ms", &[per_pod(1000.0 * used)], &[]),
        Row::of("– memory", "MiB", &[resident], &[]),
        Row::of(
            "– API writes per pod, beside the DaemonSet controller's in a roll of its own",
            "writes",
            &[ours],
            &[theirs],
        ),
    ]
}

fn has_kubelet(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().any(|is| is.type_ == "Ready" && is.status == "True")
}

/// Pods that take a while to become ready, and to terminate.
fn template(size: &Size, version: &str) -> Value {
    let mut spec = pod_spec(&[("http", 8080)]);
    spec["nodeSelector"] = json!({"kubernetes.io/os": "linux"});
    spec["terminationGracePeriodSeconds"] = (size.pod_seconds + 5).into();
    spec["containers"][0]["lifecycle"] = json!({"preStop": {"sleep": {"seconds": size.pod_seconds}}});
    spec["containers"][0]["readinessProbe"] = json!({
        "httpGet": {"path": "/", "port": 8080}, "initialDelaySeconds": size.pod_seconds, "periodSeconds": 1,
    });
    json!({"metadata": {"labels": {"app": NAME}, "annotations": {"version": version}}, "spec": spec})
}

/// Waits for a condition while the observed state keeps changing.
async fn wait_still<F, Fut>(what: &str, look: F)
where
    F: Fn() -> Fut,
    Fut: Future<Output = Result<(), String>>,
{
    let (mut last, mut since) = (String::new(), Instant::now());
    while let Err(seen) = look().await {
        if seen != last {
            (last, since) = (seen, Instant::now());
        }
        assert!(since.elapsed() < STANDS_STILL, "{what}: for {STANDS_STILL:?} now: {last}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

async fn set_is_done(cluster: &Cluster, nodes: usize) -> Result<(), String> {
    let set = cluster.api::<IngressDaemonSet>().get(NAME).await.map_err(|error| error.to_string())?;
    let (generation, status) = (set.metadata.generation, set.status.unwrap_or_default());
    let is_done = status.observed_generation == generation
        && usize::try_from(status.updated_nodes) == Ok(nodes)
        && status.turns.is_empty()
        && status.current_revision == status.update_revision;
    let pods = (status.pods, status.updated_pods, status.available_pods);
    if is_done { Ok(()) } else { Err(format!("{} nodes, pods {pods:?}", status.updated_nodes)) }
}

async fn no_pods(cluster: &Cluster) {
    let api = cluster.api::<Pod>();
    wait_still("no pods are left", || async {
        let left =
            api.list_metadata(&ListParams::default()).await.map_err(|error| error.to_string())?.items.len();
        if left == 0 { Ok(()) } else { Err(left.to_string()) }
    })
    .await;
}

/// The number of writes of the controller of IngressDaemonSets so far, without its Lease.
async fn writes(headgate: &Headgate) -> f64 {
    let requests = headgate.sum("headgate_daemonsets_requests_total", &[]).await;
    let events = headgate.sum("headgate_daemonsets_events_total", &[("outcome", "written")]).await;
    requests.unwrap_or_default() + events.unwrap_or_default()
}

/// The number of writes per pod in a rollout of a DaemonSet, with as many nodes at once.
async fn of_a_daemon_set(cluster: &Cluster, size: &Size, nodes: usize) -> f64 {
    let rolling = json!({"maxSurge": format!("{AT_ONCE}%"), "maxUnavailable": 0});
    cluster
        .create::<DaemonSet>(json!({
            "metadata": {"name": NAME},
            "spec": {
                "selector": {"matchLabels": {"app": NAME}}, "template": template(size, "1"),
                "updateStrategy": {"rollingUpdate": rolling},
            },
        }))
        .await;
    let is_done = async || {
        let set = cluster.api::<DaemonSet>().get(NAME).await.map_err(|error| error.to_string())?;
        let (generation, status) = (set.metadata.generation, set.status.unwrap_or_default());
        let updated = status.updated_number_scheduled.unwrap_or_default();
        let is_done = status.observed_generation == generation
            && usize::try_from(updated) == Ok(nodes)
            && status.number_available == Some(updated);
        if is_done { Ok(()) } else { Err(format!("{updated} updated, {:?}", status.number_available)) }
    };
    wait_still("all nodes have the DaemonSet's pods", is_done).await;
    let seen = Seen::begin(cluster).await;
    let (sets, revisions) = (
        Counted::begin::<DaemonSet>(cluster, |_| true).await,
        Counted::begin::<ControllerRevision>(cluster, |_| true).await,
    );
    let events = Counted::begin::<Event>(cluster, |event| {
        event.source.as_ref().and_then(|source| source.component.as_deref()) == Some("daemonset-controller")
    })
    .await;
    cluster.patch::<DaemonSet>(NAME, &json!({"spec": {"template": template(size, "2")}})).await;
    wait_still("the DaemonSet is rolled", is_done).await;
    let pods = seen.end().writes();
    // One of them is this program's own.
    let all = pods + (sets.end() - 1) + revisions.end() + events.end();
    cluster.api::<DaemonSet>().delete(NAME, &DeleteParams::background()).await.unwrap();
    no_pods(cluster).await;
    #[allow(clippy::cast_precision_loss)] // thousands
    let per_pod = all as f64 / nodes as f64;
    per_pod
}

/// The observed life of the pods in a namespace.
#[derive(Debug, Default)]
struct Life {
    node: String,
    made: Option<Instant>,
    ready: Option<Instant>,
    leaves: Option<Instant>,
}

type Lives = BTreeMap<String, Life>;

/// Watches the pods from now on.
struct Seen {
    lives: Arc<Mutex<Lives>>,
    watch: tokio::task::JoinHandle<()>,
}

impl Seen {
    async fn begin(cluster: &Cluster) -> Self {
        let lives: Arc<Mutex<Lives>> = Arc::default();
        let (noted, api) = (lives.clone(), cluster.api::<Pod>());
        let (listed, is_listed) = tokio::sync::oneshot::channel();
        let watch = tokio::spawn(async move {
            let mut listed = Some(listed);
            let mut events = watcher(api, watcher::Config::default()).boxed();
            while let Some(event) = events.try_next().await.expect("the watch goes on") {
                let now = Instant::now();
                let mut lives = noted.lock().unwrap();
                match event {
                    watcher::Event::InitApply(pod) => {
                        lives.entry(pod.uid().unwrap()).or_default().node = node_of(&pod);
                    }
                    watcher::Event::InitDone => drop(listed.take().map(|listed| listed.send(()))),
                    watcher::Event::Apply(pod) => {
                        let is_new = !lives.contains_key(&pod.uid().unwrap());
                        let life = lives.entry(pod.uid().unwrap()).or_default();
                        life.made = life.made.or(is_new.then_some(now));
                        life.node = node_of(&pod);
                        if life.ready.is_none() && is_ready(&pod) {
                            life.ready = Some(now);
                        }
                        if life.leaves.is_none() && pod.metadata.deletion_timestamp.is_some() {
                            life.leaves = Some(now);
                        }
                    }
                    watcher::Event::Delete(pod) => {
                        if let Some(life) = lives.get_mut(&pod.uid().unwrap()) {
                            life.leaves = life.leaves.or(Some(now));
                        }
                    }
                    watcher::Event::Init => {}
                }
            }
        });
        is_listed.await.expect("the pods are listed");
        Self { lives, watch }
    }

    fn end(self) -> Roll {
        self.watch.abort();
        Roll(std::mem::take(&mut *self.lives.lock().unwrap()))
    }
}

/// The name is in the affinity until the pod is scheduled.
fn node_of(pod: &Pod) -> String {
    pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).unwrap_or_default()
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().any(|is| is.type_ == "Ready" && is.status == "True")
}

/// The pods of a roll.
struct Roll(Lives);

impl Roll {
    /// The number of pods that were created, and of those whose deletion was requested.
    fn writes(&self) -> u64 {
        let count = |is: fn(&Life) -> bool| self.0.values().filter(|life| is(life)).count();
        u64::try_from(count(|life| life.made.is_some()) + count(|life| life.leaves.is_some())).unwrap()
    }

    /// The share of the time in which fewer nodes than allowed waited for pods.
    fn waited(&self, began: Instant, at_once: usize) -> f64 {
        let mut nodes: BTreeMap<&str, Vec<(Instant, Instant)>> = BTreeMap::new();
        for life in self.0.values() {
            nodes.entry(&life.node).or_default().extend(life.made.zip(life.ready));
        }
        waited(began, at_once, nodes.into_values().filter(|spans| !spans.is_empty()).collect())
    }
}

/// The share of the time in which fewer nodes than allowed waited for pods, from the waits of each node.
fn waited(began: Instant, at_once: usize, nodes: Vec<Vec<(Instant, Instant)>>) -> f64 {
    let mut busy = Duration::ZERO;
    let mut ends = Vec::new();
    for mut spans in nodes {
        spans.sort_unstable();
        let mut until = began;
        for (from, to) in spans {
            busy += to.saturating_duration_since(from.max(until));
            until = until.max(to);
        }
        ends.push(until);
    }
    ends.sort_unstable();
    // While more nodes remain than may be updated at once, the maximum may wait; after that, each remaining one.
    let (mut could, mut from) = (Duration::ZERO, began);
    for (at, end) in ends.iter().enumerate() {
        let left = (ends.len() - at).min(at_once);
        could += end.saturating_duration_since(from) * u32::try_from(left).unwrap();
        from = from.max(*end);
    }
    1.0 - busy.as_secs_f64() / could.as_secs_f64()
}

/// Counts the writes of objects of a kind.
struct Counted {
    count: Arc<AtomicU64>,
    watch: tokio::task::JoinHandle<()>,
}

impl Counted {
    async fn begin<K>(cluster: &Cluster, is: fn(&K) -> bool) -> Self
    where
        K: Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>
            + Clone
            + DeserializeOwned
            + std::fmt::Debug
            + Send
            + 'static,
    {
        let count: Arc<AtomicU64> = Arc::default();
        let counts = count.clone();
        let api: Api<K> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
        let (listed, is_listed) = tokio::sync::oneshot::channel();
        let watch = tokio::spawn(async move {
            let mut listed = Some(listed);
            let mut events = watcher(api, watcher::Config::default()).boxed();
            while let Some(event) = events.try_next().await.expect("the watch goes on") {
                match event {
                    watcher::Event::InitDone => drop(listed.take().map(|listed| listed.send(()))),
                    watcher::Event::Apply(object) if is(&object) => {
                        counts.fetch_add(1, Ordering::Relaxed);
                    }
                    _ => {}
                }
            }
        });
        is_listed.await.expect("they are listed");
        Self { count, watch }
    }

    fn end(self) -> u64 {
        self.watch.abort();
        self.count.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_beside_the_pods_times_is_waiting() {
        let began = Instant::now();
        let at = |seconds: u64| began + Duration::from_secs(seconds);
        let span = |from, to| (at(from), at(to));
        let share = |at_once, nodes| format!("{:.2}", waited(began, at_once, nodes));
        assert_eq!(share(1, vec![vec![span(0, 10)], vec![span(10, 20)]]), "0.00");
        assert_eq!(
            share(1, vec![vec![span(0, 10)], vec![span(15, 20)]]),
            "0.25",
            "five seconds between them"
        );
        assert_eq!(share(1, vec![vec![span(5, 10), span(8, 20)]]), "0.25", "it begins late");
        assert_eq!(share(2, vec![vec![span(0, 10)], vec![span(0, 10)], vec![span(10, 20)]]), "0.00");
        assert_eq!(share(2, vec![vec![span(0, 10)], vec![span(10, 20)], vec![span(20, 30)]]), "0.40");
    }
}
