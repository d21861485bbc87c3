//! Reads the Node of a pod whose eviction is requested, to check that the node remains.
//!
//! The watch of nodes may be late, because `kubectl drain` cordons a node and immediately evicts its pods. Therefore,
//! Headgate reads the Node before it allows the eviction of a pod without a hold.
//!
//! **Guarantees.**
//! * The GET begins after the eviction request has arrived. The API server may have answered an earlier GET before the
//!   node was cordoned.
//! * Only one GET for each node is in flight. Requests that arrive in the meantime share the next GET. The drain of a
//!   node with a hundred pods needs two or three GETs.
//! * A node that cannot be read does not count as remaining.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex as StdMutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures::future::BoxFuture;
use headgate_core::{
    Failure,
    model::{NodeFacts, Signals},
};
use tokio::{
    sync::{Mutex, Semaphore},
    time::timeout,
};
use tracing::{debug, warn};

use crate::{
    kube::nodes::Nodes,
    runtime::{clock::Clock, within::within},
    serving::seldom::Seldom,
};

/// The timeout of a GET for a Node. A request may wait for two GETs of a Node.
const PATIENCE: Duration = Duration::from_millis(800);
/// The maximum number of GETs in flight.
const AT_ONCE: usize = 16;

/// Reads Nodes from the API server.
pub trait ReadNode: Send + Sync {
    /// Reads the Node. `None`: the Node does not exist.
    fn read<'a>(&'a self, node: &'a str) -> BoxFuture<'a, Result<Option<NodeFacts>, Failure>>;
}

impl ReadNode for Nodes {
    fn read<'a>(&'a self, node: &'a str) -> BoxFuture<'a, Result<Option<NodeFacts>, Failure>> {
        Box::pin(self.get(node))
    }
}

/// Reads nodes for eviction requests.
#[derive(Clone)]
pub struct NodeReads {
    shared: Option<Arc<Shared>>,
}

struct Shared {
    reader: Box<dyn ReadNode>,
    signals: Signals,
    clock: Clock,
    /// The nodes for which requests wait.
    nodes: StdMutex<BTreeMap<Arc<str>, Arc<Node>>>,
    places: Semaphore,
    failed: Seldom,
}

/// A node for which requests wait.
#[derive(Default)]
struct Node {
    /// The number of started GETs.
    begun: AtomicU64,
    /// The number of the last completed GET, and whether the node remains.
    last: Mutex<(u64, bool)>,
}

/// A request that waits for a node. When the last request for a node is dropped, the node's entry is removed.
struct Waiting<'a> {
    shared: &'a Shared,
    name: &'a Arc<str>,
}

impl NodeReads {
    /// Creates a reader that reads no node, because Headgate has no permission to read nodes if `--namespaces` is set.
    pub const fn blind() -> Self {
        Self { shared: None }
    }

    /// Creates a reader that uses `reader`. `signals` contains the signs of nodes that will be removed.
    pub fn new(reader: impl ReadNode + 'static, signals: Signals, clock: Clock) -> Self {
        let (nodes, places) = (StdMutex::default(), Semaphore::new(AT_ONCE));
        let reader = Box::new(reader);
        let shared = Shared { reader, signals, clock, nodes, places, failed: Seldom::default() };
        Self { shared: Some(Arc::new(shared)) }
    }

    /// Returns whether the API server confirms that a node accepts pods and will not be removed. `None`: the result did
    /// not arrive within `patience`.
    pub async fn remains(&self, node: &Arc<str>, patience: Duration) -> Option<bool> {
        let Some(shared) = &self.shared else { return Some(false) };
        timeout(patience, shared.remains(node)).await.ok()
    }
}

impl Shared {
    async fn remains(&self, name: &Arc<str>) -> bool {
        // `_waiting` must be dropped after `node`.
        let _waiting = Waiting { shared: self, name };
        let node = self.nodes().entry(name.clone()).or_default().clone();
        let before = node.begun.load(Ordering::SeqCst);
        let mut last = node.last.lock().await;
        if last.0 > before {
            return last.1;
        }
        // The semaphore is never closed.
        let _place = self.places.acquire().await.ok();
        let number = node.begun.fetch_add(1, Ordering::SeqCst) + 1;
        let remains = self.read(name).await;
        *last = (number, remains);
        remains
    }

    async fn read(&self, name: &str) -> bool {
        match within(PATIENCE, self.reader.read(name)).await {
            Ok(node) => node.is_some_and(|node| self.signals.remains(&node)),
            Err(failure) => {
                let error = &failure.message;
                debug!(node = name, %error, "cannot read a Node for an eviction");
                if let Some(others) = self.failed.say(self.clock.now()) {
                    warn!(
                        node = name,
                        %error,
                        others,
                        "cannot read a Node, so the eviction of its pods waits as if it were drained. Grant \
                         get on nodes (config/rbac/clusterrole.yaml)"
                    );
                }
                false
            }
        }
    }

    fn nodes(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, Arc<Node>>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut nodes = self.shared.nodes();
        if nodes.get(self.name).is_some_and(|node| Arc::strong_count(node) == 1) {
            nodes.remove(self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::future::join_all;
    use headgate_core::FailureClass;
    use tokio::time::{Instant, sleep};

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    /// A cluster in which a slow GET returns the Node's state at the start of the GET.
    #[derive(Clone, Default)]
    struct Cluster(Arc<StdMutex<Known>>);

    #[derive(Default)]
    struct Known {
        open: BTreeMap<String, bool>,
        fails: bool,
        takes: Duration,
        gets: Vec<String>,
    }

    impl Cluster {
        fn with(nodes: &[&str], millis: u64) -> Self {
            let open = nodes.iter().map(|name| ((*name).to_owned(), true)).collect();
            let takes = Duration::from_millis(millis);
            Self(Arc::new(StdMutex::new(Known { open, takes, ..Known::default() })))
        }

        fn set(&self, change: impl FnOnce(&mut Known)) {
            change(&mut self.0.lock().unwrap());
        }

        fn gets(&self) -> usize {
            self.0.lock().unwrap().gets.len()
        }

        fn reads(&self) -> NodeReads {
            NodeReads::new(self.clone(), Signals::default(), Clock::start())
        }
    }

    impl ReadNode for Cluster {
        fn read<'a>(&'a self, node: &'a str) -> BoxFuture<'a, Result<Option<NodeFacts>, Failure>> {
            Box::pin(async move {
                let (answer, takes) = {
                    let mut known = self.0.lock().unwrap();
                    known.gets.push(node.to_owned());
                    let facts = |takes_pods: &bool| NodeFacts {
                        name: node.into(),
                        takes_pods: *takes_pods,
                        ..NodeFacts::default()
                    };
                    let failure = Failure::new(FailureClass::Denied, "Forbidden", "no");
                    let answer = if known.fails { Err(failure) } else { Ok(known.open.get(node).map(facts)) };
                    (answer, known.takes)
                };
                sleep(takes).await;
                answer
            })
        }
    }

    fn name(node: &str) -> Arc<str> {
        node.into()
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_remains_if_it_is_read_and_takes_pods() {
        let cluster = Cluster::with(&["open", "closed"], 1);
        cluster.set(|known| _ = known.open.insert("closed".into(), false));
        let reads = cluster.reads();
        for (node, remains) in [("open", true), ("closed", false), ("gone", false)] {
            assert_eq!(reads.remains(&name(node), LONG).await, Some(remains), "{node}");
        }
        cluster.set(|known| known.fails = true);
        assert_eq!(reads.remains(&name("open"), LONG).await, Some(false), "it cannot be read");
        cluster.set(|known| (known.fails, known.takes) = (false, LONG));
        let began = Instant::now();
        assert_eq!(reads.remains(&name("open"), LONG).await, Some(false), "it takes too long");
        assert_eq!(began.elapsed(), PATIENCE);
        assert_eq!(NodeReads::blind().remains(&name("open"), LONG).await, Some(false), "none can be seen");
        assert!(reads.shared.unwrap().nodes.lock().unwrap().is_empty(), "nothing is left");
    }

    #[tokio::test(start_paused = true)]
    async fn a_hundred_requests_for_a_node_at_once_need_two_reads() {
        for fails in [false, true] {
            let cluster = Cluster::with(&["n"], 50);
            cluster.set(|known| known.fails = fails);
            let (reads, node) = (cluster.reads(), name("n"));
            let answers = join_all((0..100).map(|_| reads.remains(&node, LONG))).await;
            assert_eq!(answers, vec![Some(!fails); 100]);
            assert_eq!(cluster.gets(), 2, "the first begins at once, and all others share the next");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_read_that_began_before_the_node_was_cordoned_says_nothing_to_a_request_that_came_after() {
        let cluster = Cluster::with(&["n"], 50);
        let (reads, node) = (cluster.reads(), name("n"));
        let before = reads.remains(&node, LONG);
        let after = async {
            sleep(Duration::from_millis(10)).await;
            cluster.set(|known| _ = known.open.insert("n".into(), false));
            reads.remains(&node, LONG).await
        };
        assert_eq!(futures::join!(before, after), (Some(true), Some(false)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_is_given_up_holds_up_no_other() {
        let cluster = Cluster::with(&["n"], 50);
        let (reads, node) = (cluster.reads(), name("n"));
        let hasty = reads.remains(&node, Duration::from_millis(10));
        let other = reads.remains(&node, LONG);
        assert_eq!(futures::join!(hasty, other), (None, Some(true)));
        assert_eq!(cluster.gets(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_few_nodes_are_read_at_a_time() {
        let names: Vec<String> = (0..=AT_ONCE).map(|at| format!("n{at}")).collect();
        let cluster = Cluster::with(&names.iter().map(String::as_str).collect::<Vec<_>>(), 50);
        let reads = cluster.reads();
        let nodes: Vec<Arc<str>> = names.iter().map(|node| name(node)).collect();
        let began = Instant::now();
        let answers = join_all(nodes.iter().map(|node| reads.remains(node, LONG))).await;
        assert_eq!(answers, vec![Some(true); AT_ONCE + 1]);
        assert_eq!(began.elapsed(), Duration::from_millis(100));
    }
}
