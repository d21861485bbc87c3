//! Records what happens during a run: the stand-in's trace and the history of the pods.

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex},
    time::{Duration, SystemTime},
};

use futures::StreamExt;
use k8s_openapi::{api::core::v1::Pod, jiff::Timestamp};
use kube::runtime::{
    WatchStreamExt,
    watcher::{self, Event, watcher},
};
use serde::{Deserialize, Deserializer};
use tokio::task::JoinHandle;

use crate::{aws::Aws, cluster::Cluster};

/// The label `app` of the recorded pods, and the name of their Deployment and Service.
pub const APP: &str = "ingress";

/// Microseconds since 1970.
pub type Micros = u64;

/// One entry of the stand-in's trace (`localstack/elbv2/README.md`), with the fields that are used here.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Traced {
    /// A call of the AWS API.
    Call {
        /// The action.
        action: String,
        /// The target group in the call.
        target_group: Option<String>,
        /// `ip:port` of the targets in the call.
        targets: Vec<String>,
        /// `ok` or an error code.
        outcome: String,
        /// When it was answered.
        #[serde(deserialize_with = "micros")]
        answered: Micros,
    },
    /// The API shows another state of a target.
    Target {
        /// The target group.
        target_group: String,
        /// The target.
        target: SocketAddr,
        /// The state.
        to: String,
        /// The time.
        #[serde(deserialize_with = "micros")]
        at: Micros,
    },
    /// A node started or stopped sending to a target.
    Route {
        /// The target group.
        target_group: String,
        /// The node.
        node: IpAddr,
        /// The target.
        target: SocketAddr,
        /// Whether it sends there now.
        routing: bool,
        /// The time.
        #[serde(deserialize_with = "micros")]
        at: Micros,
    },
    /// A connection through a node has ended.
    Connection {
        /// The load balancer.
        load_balancer: String,
        /// The target group, if one was chosen.
        target_group: Option<String>,
        /// The node.
        node: IpAddr,
        /// The client's end of the connection.
        client: SocketAddr,
        /// The target it was sent to.
        target: Option<SocketAddr>,
        /// When the target was chosen.
        #[serde(deserialize_with = "micros")]
        opened: Micros,
        /// How it ended.
        outcome: String,
    },
}

/// Parses a time of the stand-in.
///
/// # Errors The text is not a time.
pub fn micros<'de, D: Deserializer<'de>>(from: D) -> Result<Micros, D::Error> {
    let time: Timestamp = Deserialize::deserialize(from)?;
    u64::try_from(time.as_microsecond()).map_err(serde::de::Error::custom)
}

/// One life of a pod, from the API server's events. Times are when the event arrived.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodLife {
    /// Its name.
    pub name: String,
    /// Its IP, once it had one.
    pub ip: Option<IpAddr>,
    /// When its `deletionTimestamp`, or else its deletion, was seen.
    pub leaving: Option<Micros>,
    /// Whether the object is deleted.
    pub gone: bool,
}

/// All records so far.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// The trace of this run's target groups, in the order of the stand-in.
    pub trace: Vec<Traced>,
    /// The pods by UID.
    pub pods: BTreeMap<String, PodLife>,
    /// The current state of each target in the API, by group.
    pub states: BTreeMap<(String, SocketAddr), String>,
    /// Not zero if the trace lost entries. Then it proves nothing.
    pub dropped: u64,
}

/// Records until it is stopped.
pub struct Recorder {
    record: Arc<Mutex<Record>>,
    feed: Feed,
    tasks: Vec<JoinHandle<()>>,
}

/// The stand-in's trace from the last read position on.
#[derive(Clone)]
struct Feed {
    aws: Aws,
    load_balancer: String,
    next: Arc<tokio::sync::Mutex<u64>>,
}

#[derive(Deserialize)]
struct Page {
    next: u64,
    #[serde(default)]
    dropped: u64,
    entries: Vec<serde_json::Value>,
}

const PERIOD: Duration = Duration::from_millis(200);

impl Recorder {
    /// Records the events of one load balancer and its target groups, whose names begin with its name.
    pub fn start(aws: &Aws, cluster: &Cluster, load_balancer: &str) -> Self {
        let feed = Feed { aws: aws.clone(), load_balancer: load_balancer.into(), next: Arc::default() };
        let recorder = Self { record: Arc::default(), feed, tasks: Vec::new() };
        let (record, feed) = (recorder.record.clone(), recorder.feed.clone());
        let polling = tokio::spawn(async move {
            loop {
                feed.poll(&record).await;
                tokio::time::sleep(PERIOD).await;
            }
        });
        let pods = tokio::spawn(watch(cluster.clone(), recorder.record.clone()));
        Self { tasks: vec![polling, pods], ..recorder }
    }

    /// Reads the records so far.
    pub fn look<T>(&self, at: impl FnOnce(&Record) -> T) -> T {
        at(&self.record.lock().unwrap())
    }

    /// Stops, and returns all records including the last entries.
    pub async fn stop(self) -> Record {
        for task in &self.tasks {
            task.abort();
        }
        self.feed.poll(&self.record).await;
        self.look(Record::clone)
    }
}

impl Feed {
    async fn poll(&self, record: &Mutex<Record>) {
        let mut next = self.next.lock().await;
        let page = self.aws.control("GET", &format!("/trace?since={next}"), None).await;
        let page: Page = serde_json::from_value(page).unwrap();
        *next = page.next;
        let mut record = record.lock().unwrap();
        record.dropped += page.dropped;
        for entry in page.entries {
            let entry: Traced = serde_json::from_value(entry).unwrap();
            if !self.concerns(&entry) {
                continue;
            }
            if let Traced::Target { target_group, target, to, .. } = &entry {
                let key = (target_group.clone(), *target);
                if to == "unused" {
                    record.states.remove(&key);
                } else {
                    record.states.insert(key, to.clone());
                }
            }
            record.trace.push(entry);
        }
    }

    fn concerns(&self, entry: &Traced) -> bool {
        let ours =
            |group: &str| group.strip_prefix(&self.load_balancer).is_some_and(|rest| rest.starts_with('-'));
        match entry {
            Traced::Call { target_group, .. } => target_group.as_deref().is_some_and(ours),
            Traced::Target { target_group, .. } | Traced::Route { target_group, .. } => ours(target_group),
            Traced::Connection { load_balancer, .. } => *load_balancer == self.load_balancer,
        }
    }
}

async fn watch(cluster: Cluster, record: Arc<Mutex<Record>>) {
    let config = watcher::Config::default().labels(&format!("app={APP}"));
    let mut events = watcher(cluster.api::<Pod>(), config).default_backoff().boxed();
    while let Some(event) = events.next().await {
        let now = now();
        let (pod, gone) = match event {
            Ok(Event::Apply(pod) | Event::InitApply(pod)) => (pod, false),
            Ok(Event::Delete(pod)) => (pod, true),
            Ok(Event::Init | Event::InitDone) | Err(_) => continue,
        };
        let Some(uid) = pod.metadata.uid else { continue };
        let mut record = record.lock().unwrap();
        let life = record.pods.entry(uid).or_default();
        life.name = pod.metadata.name.unwrap_or_default();
        life.ip = life.ip.or(pod.status.and_then(|status| status.pod_ip?.parse().ok()));
        life.gone |= gone;
        if gone || pod.metadata.deletion_timestamp.is_some() {
            life.leaving.get_or_insert(now);
        }
    }
}

/// The wall clock, which the stand-in's trace and the load generator use too.
pub fn now() -> Micros {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("the clock is past 1970");
    u64::try_from(since.as_micros()).expect("not yet")
}
