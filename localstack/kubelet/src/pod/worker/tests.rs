//! A pod's task against an API server in the same process, with real sockets.

use super::*;
use crate::container::http::Get;
use crate::fake::{Call, Fake};
use crate::network::network;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::timeout;

const LIMIT: Duration = Duration::from_secs(20);
const PORT: u16 = 18081;

/// One pod's task, and the hand that feeds it events.
struct Bench {
    api: Fake,
    seen: watch::Sender<Seen>,
    commands: mpsc::Sender<Command>,
    entry: Arc<Entry>,
    task: JoinHandle<()>,
}

fn pod(extra: &Value) -> Value {
    let mut container = json!({"name": "app", "image": "web:1", "ports": [{"containerPort": PORT}]});
    container.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    json!({"metadata": {"name": "web", "namespace": "shop", "uid": "u-1", "generation": 1},
           "spec": {"nodeName": "n1", "containers": [container]}, "status": {"phase": "Pending"}})
}

impl Bench {
    fn start(pod: Value) -> Self {
        let api = Fake::default();
        let pod = api.create(pod);
        Self::over(api, pod)
    }

    fn over(api: Fake, pod: Arc<Pod>) -> Self {
        let (commands, obeyed) = mpsc::channel(4);
        let entry = Arc::new(Entry::new(&pod, commands.clone()));
        let (seen, watched) = watch::channel(Seen::Present(Arc::clone(&pod)));
        let place = Place {
            node: Ipv4Addr::new(127, 9, 9, 9),
            pool: Arc::new(Mutex::new(IpPool::new(network(), Duration::ZERO))),
            kept: None,
        };
        let (worker, first) = Worker::new(pod, place, Arc::clone(&entry), Writer::new(api.client()));
        let task = tokio::spawn(worker.run(first, watched, obeyed));
        Self { api, seen, commands, entry, task }
    }

    async fn ready(&self) -> Value {
        let calls =
            self.api.until(|calls| last(calls).is_some_and(|status| is(status, "Ready", "True"))).await;
        last(&calls).cloned().unwrap()
    }

    fn delete(&self, grace: u32) {
        let pod = self.api.change("web", |pod| {
            pod["metadata"]["deletionTimestamp"] = json!("2026-01-02T03:04:05Z");
            pod["metadata"]["deletionGracePeriodSeconds"] = json!(grace);
        });
        self.seen.send_replace(Seen::Present(pod));
    }

    async fn ends(self) {
        self.seen.send_replace(Seen::Gone);
        timeout(LIMIT, self.task).await.expect("the task ends").unwrap();
    }
}

fn last(calls: &[Call]) -> Option<&Value> {
    calls.iter().rev().find_map(|call| match call {
        Call::Status(status) => Some(status),
        Call::Delete(_) => None,
    })
}

fn is(status: &Value, kind: &str, value: &str) -> bool {
    let conditions = status["conditions"].as_array();
    conditions.into_iter().flatten().any(|one| one["type"] == kind && one["status"] == value)
}

async fn answers(ip: &Value) -> bool {
    let to = format!("{}:{PORT}", ip.as_str().unwrap()).parse().unwrap();
    Get { to, path: "/".into(), headers: Vec::new() }.send(LIMIT).await.is_ok()
}

#[tokio::test]
async fn the_first_status_has_no_sandbox_and_no_address_and_the_running_one_has_both() {
    let bench = Bench::start(pod(&json!({})));
    let status = bench.ready().await;
    let calls = bench.api.calls();
    let Call::Status(first) = &calls[0] else { panic!("a status comes first") };
    assert!(is(first, "PodReadyToStartContainers", "False") && first.get("podIP").is_none(), "{first}");
    assert_eq!(first["containerStatuses"][0]["state"]["waiting"]["reason"], "ContainerCreating");
    for call in &calls {
        let Call::Status(status) = call else { panic!("nothing is deleted") };
        let running = status["containerStatuses"][0]["state"].get("running").is_some();
        assert_eq!(status.get("podIP").is_some(), running, "{status}");
    }
    assert!(answers(&status["podIP"]).await);
    bench.ends().await;
    assert!(!answers(&status["podIP"]).await);
}

#[tokio::test]
async fn the_object_is_deleted_after_its_last_status_with_its_uid() {
    let bench = Bench::start(pod(&json!({})));
    bench.ready().await;
    bench.delete(30);
    let calls = bench.api.until(|calls| matches!(calls.last(), Some(Call::Delete(_)))).await;
    let status = last(&calls).unwrap();
    assert_eq!(status["phase"], "Succeeded");
    assert_eq!(status["containerStatuses"][0]["state"]["terminated"]["exitCode"], 0);
    assert!(is(status, "Ready", "False") && status["podIP"].is_string());
    let Some(Call::Delete(options)) = calls.last() else { unreachable!() };
    assert_eq!(
        (&options["gracePeriodSeconds"], &options["preconditions"]["uid"]),
        (&json!(0), &json!("u-1"))
    );
    bench.ends().await;
}

#[tokio::test]
async fn a_held_pod_keeps_answering_and_stays_ready_until_its_grace_is_cut() {
    let bench = Bench::start(pod(&json!({"lifecycle": {"preStop": {"sleep": {"seconds": 600}}}})));
    let status = bench.ready().await;
    bench.delete(900);
    let terminating = || bench.entry.view().phase == "terminating";
    while !terminating() {
        tokio::task::yield_now().await;
    }
    assert!(answers(&status["podIP"]).await);
    assert!(is(last(&bench.api.calls()).unwrap(), "Ready", "True"));
    bench.delete(1);
    bench.api.until(|calls| matches!(calls.last(), Some(Call::Delete(_)))).await;
    assert!(!answers(&status["podIP"]).await);
    bench.ends().await;
}

#[tokio::test]
async fn ready_follows_a_gate_that_somebody_else_writes() {
    let mut gated = pod(&json!({}));
    gated["spec"]["readinessGates"] = json!([{"conditionType": "example.com/gate"}]);
    let bench = Bench::start(gated);
    bench.api.until(|calls| last(calls).is_some_and(|status| is(status, "ContainersReady", "True"))).await;
    assert!(is(last(&bench.api.calls()).unwrap(), "Ready", "False"));
    let opened = bench.api.change("web", |pod| {
        let gate = json!({"type": "example.com/gate", "status": "True"});
        pod["status"]["conditions"].as_array_mut().unwrap().push(gate);
    });
    bench.seen.send_replace(Seen::Present(opened));
    let status = bench.ready().await;
    assert!(is(&status, "example.com/gate", "True"), "the other writer's condition is kept");
    bench.ends().await;
}

#[tokio::test]
async fn failed_writes_are_repeated_with_what_is_true_by_then() {
    let api = Fake::default();
    api.fail(3);
    let created = api.create(pod(&json!({})));
    let bench = Bench::over(api, created);
    let status = bench.ready().await;
    assert_eq!(status["phase"], "Running");
    bench.ends().await;
}

#[tokio::test]
async fn a_pod_whose_object_is_gone_is_stopped_although_no_event_says_so() {
    let bench = Bench::start(pod(&json!({})));
    let status = bench.ready().await;
    bench.api.remove("web");
    bench.commands.send(Command::Finish { exit_code: 1 }).await.unwrap();
    let deadline = Instant::now() + LIMIT;
    while bench.entry.view().phase != "ended" {
        assert!(Instant::now() < deadline, "the pod goes on without an object");
        tokio::task::yield_now().await;
    }
    assert!(!answers(&status["podIP"]).await);
    bench.ends().await;
}

#[tokio::test]
async fn a_pod_of_another_uid_with_the_same_name_is_never_written() {
    let api = Fake::default();
    let old = api.create(pod(&json!({})));
    let mut other = pod(&json!({}));
    other["metadata"]["uid"] = json!("u-2");
    api.create(other);
    let bench = Bench::over(api, old);
    let deadline = Instant::now() + LIMIT;
    while bench.entry.view().phase != "ended" {
        assert!(Instant::now() < deadline, "the old pod goes on");
        tokio::task::yield_now().await;
    }
    assert_eq!(bench.api.calls(), []);
    bench.ends().await;
}

#[tokio::test]
async fn an_event_older_than_the_last_write_changes_nothing() {
    let api = Fake::default();
    let first = api.create(pod(&json!({})));
    let bench = Bench::over(api, Arc::clone(&first));
    bench.ready().await;
    let before = bench.api.calls().len();
    bench.seen.send_replace(Seen::Present(first));
    bench.delete(30);
    let calls = bench.api.until(|calls| matches!(calls.last(), Some(Call::Delete(_)))).await;
    assert!(calls.len() <= before + 2, "one last status and the deletion: {calls:#?}");
    bench.ends().await;
}
