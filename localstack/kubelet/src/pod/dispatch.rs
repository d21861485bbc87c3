//! Watches all pods, and starts the tasks of pods.
//!
//! The dispatcher manages the watch of bound pods, and the tasks of the pods on the simulated nodes. After a relist, an
//! unlisted pod counts as deleted. The dispatcher never waits for a pod. A broken watch is opened again after at most
//! two seconds. While the watch is broken, pods continue unchanged.

use crate::address::IpPool;
use crate::node::state::Switch;
use crate::object::Pod;
use crate::pod::registry::{Entry, Registry};
use crate::pod::worker::{Place, Seen, Worker};
use crate::pod::write::Writer;
use futures::StreamExt;
use kube::runtime::WatchStreamExt;
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};
use std::collections::{HashMap, HashSet};
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

/// The duration of a watch in seconds. The watch is opened again after this time, so that a dead connection is noticed.
const WATCH_TIMEOUT: u32 = 240;

/// The resources of one node that its pods use.
#[derive(Clone, Debug)]
pub struct Home {
    /// The address of the node.
    pub address: Ipv4Addr,
    /// The switch of the node.
    pub switch: Switch,
    /// The address pool of the zone.
    pub pool: Arc<Mutex<IpPool>>,
}

/// Watches all pods, and starts the tasks of pods.
pub struct Dispatcher {
    client: Client,
    writer: Writer,
    homes: HashMap<String, Home>,
    registry: Arc<Registry>,
    tasks: JoinSet<String>,
    pods: HashMap<String, watch::Sender<Seen>>,
    names: HashMap<(String, String), String>,
}

impl Dispatcher {
    /// Creates a dispatcher for the pods of these nodes.
    pub fn new(client: Client, homes: HashMap<String, Home>, registry: Arc<Registry>) -> Self {
        Self {
            writer: Writer::new(client.clone()),
            client,
            homes,
            registry,
            tasks: JoinSet::new(),
            pods: HashMap::new(),
            names: HashMap::new(),
        }
    }

    /// Watches until `shutdown`. After `shutdown`, all processes of all pods stop immediately, like processes on a
    /// machine that is switched off.
    pub async fn run(mut self, shutdown: CancellationToken) {
        let api: Api<Pod> = Api::all(self.client.clone());
        let config = watcher::Config::default().fields("spec.nodeName!=").timeout(WATCH_TIMEOUT);
        let mut events = watcher(api, config)
            .backoff(Reconnect::default())
            .modify(|pod: &mut Pod| pod.metadata.managed_fields = None)
            .boxed();
        let mut listed = Vec::new();
        loop {
            tokio::select! {
                () = shutdown.cancelled() => break,
                Some(ended) = self.tasks.join_next() => match ended {
                    Ok(uid) => self.forget(&uid),
                    Err(error) => tracing::error!(%error, "the task of a pod has failed"),
                },
                event = events.next() => match event {
                    Some(Ok(Event::Init)) => listed.clear(),
                    Some(Ok(Event::InitApply(pod))) => listed.push(pod),
                    Some(Ok(Event::InitDone)) => self.relisted(std::mem::take(&mut listed)),
                    Some(Ok(Event::Apply(pod))) => self.apply(pod, None),
                    Some(Ok(Event::Delete(pod))) => self.gone(pod.uid()),
                    Some(Err(error)) => tracing::warn!(%error, "the pod watch was cut and is opened again"),
                    None => break,
                },
            }
        }
        self.tasks.shutdown().await;
    }

    /// Handles a complete list. Unlisted pods count as deleted.
    fn relisted(&mut self, pods: Vec<Pod>) {
        let present: HashSet<&str> = pods.iter().map(Pod::uid).collect();
        let missing: Vec<_> =
            self.pods.keys().filter(|uid| !present.contains(uid.as_str())).cloned().collect();
        for uid in missing {
            self.gone(&uid);
        }
        // Addresses in existing statuses are claimed first, so that no new pod gets one of these addresses.
        let kept: Vec<_> = pods.iter().map(|pod| self.claim(pod)).collect();
        for (pod, kept) in pods.into_iter().zip(kept) {
            self.apply(pod, kept);
        }
    }

    /// Claims the address in the status of a pod that an earlier run of this kubelet started.
    fn claim(&self, pod: &Pod) -> Option<Ipv4Addr> {
        if self.pods.contains_key(pod.uid()) || pod.is_terminal() || pod.spec.uses_host_network() {
            return None;
        }
        let home = self.homes.get(pod.spec.node_name.as_deref()?)?;
        let ip: Ipv4Addr = pod.status.pod_ip.as_deref()?.parse().ok()?;
        home.pool.lock().unwrap_or_else(PoisonError::into_inner).claim(ip).then_some(ip)
    }

    fn apply(&mut self, pod: Pod, kept: Option<Ipv4Addr>) {
        let Some(home) = pod.spec.node_name.as_deref().and_then(|node| self.homes.get(node)).cloned() else {
            return;
        };
        let name = (pod.namespace().to_owned(), pod.name().to_owned());
        let uid = pod.uid().to_owned();
        if let Some(known) = self.names.get(&name).filter(|known| **known != uid).cloned() {
            self.gone(&known);
        }
        let pod = Arc::new(pod);
        if let Some(task) = self.pods.get(&uid) {
            task.send_replace(Seen::Present(pod));
            return;
        }
        let (commands, obeyed) = mpsc::channel(4);
        let entry = Arc::new(Entry::new(&pod, commands));
        self.registry.add(Arc::clone(&entry));
        let (seen, watched) = watch::channel(Seen::Present(Arc::clone(&pod)));
        let span = tracing::info_span!("pod", namespace = name.0, name = name.1, uid);
        let place = Place { node: home.address, state: home.switch.follow(), pool: home.pool, kept };
        let (writer, task_uid) = (self.writer.clone(), uid.clone());
        self.tasks.spawn(
            async move {
                let (worker, first) = Worker::new(pod, place, entry, writer);
                worker.run(first, watched, obeyed).await;
                task_uid
            }
            .instrument(span),
        );
        self.names.insert(name, uid.clone());
        self.pods.insert(uid, seen);
    }

    fn gone(&mut self, uid: &str) {
        if let Some(task) = self.pods.get(uid) {
            task.send_replace(Seen::Gone);
        }
    }

    fn forget(&mut self, uid: &str) {
        self.pods.remove(uid);
        self.names.retain(|_, known| known != uid);
        self.registry.remove(uid);
    }
}

/// The pause before a broken watch is opened again. The pause starts at 100 ms, and doubles up to 2 s.
#[derive(Debug, Default)]
struct Reconnect {
    failures: u32,
}

impl Iterator for Reconnect {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let pause = Duration::from_millis(100) * 2_u32.pow(self.failures.min(5));
        self.failures = self.failures.saturating_add(1);
        Some(pause.min(Duration::from_secs(2)))
    }
}

impl Backoff for Reconnect {
    fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests;
