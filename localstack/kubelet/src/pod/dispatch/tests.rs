//! Tests of which pods the dispatcher starts and notifies, without a watch.

use super::*;
use crate::fake::Fake;
use crate::network::network;
use serde_json::json;
use tokio::time::{Instant, timeout};

const LIMIT: Duration = Duration::from_secs(20);

struct Bench {
    api: Fake,
    dispatcher: Dispatcher,
    registry: Arc<Registry>,
}

fn bench() -> Bench {
    let api = Fake::default();
    let registry = Arc::<Registry>::default();
    let pool = Arc::new(Mutex::new(IpPool::new(network(), Duration::ZERO)));
    let home = Home { address: Ipv4Addr::new(127, 9, 9, 9), switch: Switch::default(), pool };
    let homes = HashMap::from([("n1".to_owned(), home)]);
    let dispatcher = Dispatcher::new(api.client(), homes, Arc::clone(&registry));
    Bench { api, dispatcher, registry }
}

impl Bench {
    fn pod(&self, name: &str, uid: &str, node: &str) -> Pod {
        let pod = json!({"metadata": {"name": name, "namespace": "shop", "uid": uid},
                         "spec": {"nodeName": node, "containers": [{"name": "app"}]}, "status": {}});
        Pod::clone(&self.api.create(pod))
    }

    fn uids(&self) -> Vec<String> {
        self.registry.views().into_iter().map(|view| view.uid).collect()
    }

    /// Removes stopped tasks, as the dispatcher's loop does, until only the tasks of these pods remain.
    async fn until(&mut self, uids: &[&str]) {
        let deadline = Instant::now() + LIMIT;
        while self.uids() != uids {
            assert!(Instant::now() < deadline, "{:?} instead of {uids:?}", self.uids());
            let ended = timeout(LIMIT, self.dispatcher.tasks.join_next()).await.expect("a task ends");
            self.dispatcher.forget(&ended.expect("there is a task").unwrap());
        }
    }
}

#[tokio::test]
async fn only_pods_of_its_own_nodes_are_run() {
    let mut bench = bench();
    let (ours, theirs) = (bench.pod("a", "u-a", "n1"), bench.pod("b", "u-b", "elsewhere"));
    bench.dispatcher.relisted(vec![ours, theirs]);
    assert_eq!(bench.uids(), ["u-a"]);
}

#[tokio::test]
async fn a_pod_that_is_missing_after_a_relist_is_stopped() {
    let mut bench = bench();
    let (first, second) = (bench.pod("a", "u-a", "n1"), bench.pod("b", "u-b", "n1"));
    bench.dispatcher.relisted(vec![first, second.clone()]);
    assert_eq!(bench.uids(), ["u-a", "u-b"]);
    bench.dispatcher.relisted(vec![second]);
    bench.until(&["u-b"]).await;
}

#[tokio::test]
async fn a_new_pod_of_the_same_name_stops_the_old_one_and_runs_on_its_own() {
    let mut bench = bench();
    let old = bench.pod("a", "u-old", "n1");
    bench.dispatcher.apply(old, None);
    let new = bench.pod("a", "u-new", "n1");
    bench.dispatcher.apply(new, None);
    assert_eq!(bench.registry.find("shop", "a").unwrap().uid, "u-new");
    bench.until(&["u-new"]).await;
    assert!(bench.dispatcher.pods.contains_key("u-new"));
}

#[tokio::test]
async fn an_address_shown_in_a_status_stays_with_its_pod_and_is_not_given_to_another() {
    let mut bench = bench();
    let range = bench.dispatcher.homes["n1"].pool.lock().unwrap().allocate(Instant::now()).unwrap();
    bench.dispatcher.homes["n1"].pool.lock().unwrap().release(range, Instant::now());
    let new = bench.pod("a-new", "u-new", "n1");
    let mut old = bench.pod("b-old", "u-old", "n1");
    old.status.pod_ip = Some(range.to_string());
    bench.dispatcher.relisted(vec![new, old]);
    let deadline = Instant::now() + LIMIT;
    while bench.registry.views().iter().any(|view| view.ip.is_none()) {
        assert!(Instant::now() < deadline, "no address");
        tokio::task::yield_now().await;
    }
    let ips: Vec<_> = bench.registry.views().into_iter().map(|view| (view.uid, view.ip.unwrap())).collect();
    assert_eq!(ips[1], ("u-old".to_owned(), range));
    assert_ne!(ips[0].1, range);
}

#[test]
fn a_cut_watch_is_opened_again_within_two_seconds() {
    let mut pauses = Reconnect::default();
    let first: Vec<_> = pauses.by_ref().take(7).map(|pause| pause.as_millis()).collect();
    assert_eq!(first, [100, 200, 400, 800, 1600, 2000, 2000]);
    pauses.reset();
    assert_eq!(pauses.next(), Some(Duration::from_millis(100)));
}
