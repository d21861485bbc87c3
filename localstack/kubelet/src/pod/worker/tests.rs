//! Tests of a pod's task with an in-process API server and real sockets.

mod node;

use super::*;
use crate::address::IpPool;
use crate::container::http::Get;
use crate::fake::{Call, Fake};
use crate::network::network;
use crate::node::state::Switch;
use serde_json::{Value, json};
use std::net::Ipv4Addr;
use std::sync::Mutex;
use tokio::task::JoinHandle;
use tokio::time::timeout;

const LIMIT: Duration = Duration::from_secs(20);
const PORT: u16 = 18081;

/// The task of one pod, and the senders for its events.
struct Bench {
    api: Fake,
    seen: watch::Sender<Seen>,
    commands: mpsc::Sender<Command>,
    entry: Arc<Entry>,
    switch: Switch,
    pool: Arc<Mutex<IpPool>>,
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
        Self::on(Switch::default(), api, pod)
    }

    fn on(switch: Switch, api: Fake, pod: Arc<Pod>) -> Self {
        let (commands, obeyed) = mpsc::channel(4);
        let entry = Arc::new(Entry::new(&pod, commands.clone()));
        let (seen, watched) = watch::channel(Seen::Present(Arc::clone(&pod)));
        let pool = Arc::new(Mutex::new(IpPool::new(network(), Duration::ZERO)));
        let place = Place {
            node: Ipv4Addr::new(127, 9, 9, 9),
            state: switch.follow(),
            pool: Arc::clone(&pool),
            kept: None,
        };
        let (worker, first) = Worker::new(pod, place, Arc::clone(&entry), Writer::new(api.client()));
        let task = tokio::spawn(worker.run(first, watched, obeyed));
        Self { api, seen, commands, entry, switch, pool, task }
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
        Call::Delete(_) | Call::Annotations(_) => None,
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

fn annotated(extra: &Value, annotations: &[(&str, &str)]) -> Value {
    let mut pod = pod(extra);
    for (name, value) in annotations {
        pod["metadata"]["annotations"][format!("sim.headgate.dev/{name}")] = json!(value);
    }
    pod
}

/// Returns the values of `Ready` in the statuses, without repetitions.
fn readiness(calls: &[Call]) -> Vec<bool> {
    let statuses = calls.iter().filter_map(|call| match call {
        Call::Status(status) => Some(is(status, "Ready", "True")),
        _ => None,
    });
    let mut seen: Vec<bool> = statuses.collect();
    seen.dedup();
    seen
}

impl Bench {
    async fn status_with(&self, kind: &str, value: &str) -> Value {
        let calls = self.api.until(|calls| last(calls).is_some_and(|status| is(status, kind, value))).await;
        last(&calls).cloned().unwrap()
    }

    async fn shows(&self, phase: &str) {
        let deadline = Instant::now() + LIMIT;
        while self.entry.view().phase != phase {
            assert!(Instant::now() < deadline, "{} instead of {phase}", self.entry.view().phase);
            tokio::task::yield_now().await;
        }
    }

    /// Waits until no process listens at this address.
    async fn silent(&self, ip: &Value) {
        let deadline = Instant::now() + LIMIT;
        while answers(ip).await {
            assert!(Instant::now() < deadline, "{ip} still answers");
        }
    }
}

#[tokio::test]
async fn while_the_image_is_pulled_the_sandbox_is_reported_and_the_address_is_not() {
    let bench = Bench::start(annotated(&json!({}), &[("pull-delay", "300ms")]));
    let pulling = bench.status_with("PodReadyToStartContainers", "True").await;
    assert!(pulling.get("podIP").is_none() && bench.entry.view().ip.is_some(), "{pulling}");
    assert_eq!(pulling["containerStatuses"][0]["state"]["waiting"]["reason"], "ContainerCreating");
    let status = bench.ready().await;
    assert_eq!(status["podIP"], json!(bench.entry.view().ip));
    bench.ends().await;
}

#[tokio::test]
async fn the_cni_writes_its_annotation_before_the_status_shows_the_address_and_empties_it_at_the_end() {
    let bench = Bench::start(annotated(&json!({}), &[("cni-annotation", "true")]));
    let status = bench.ready().await;
    let calls = bench.api.calls();
    let position = |wanted: &dyn Fn(&Call) -> bool| calls.iter().position(wanted).expect("the call is made");
    let annotated = position(&|call| matches!(call, Call::Annotations(_)));
    let shown = position(&|call| matches!(call, Call::Status(status) if status.get("podIP").is_some()));
    assert!(annotated < shown, "{calls:#?}");
    let key = "vpc.amazonaws.com/pod-ips";
    assert!(matches!(&calls[annotated], Call::Annotations(all) if all[key] == status["podIP"]));
    bench.switch.shut_down(Duration::from_secs(1), Instant::now()).unwrap();
    let emptied = |call: &Call| matches!(call, Call::Annotations(all) if all[key] == "");
    bench.api.until(|calls| calls.iter().any(emptied)).await;
    bench.ends().await;
}

#[tokio::test]
async fn a_gate_that_comes_with_the_answer_to_a_write_is_not_overlooked() {
    let mut gated = pod(&json!({}));
    gated["spec"]["readinessGates"] = json!([{"conditionType": "example.com/gate"}]);
    let api = Fake::default();
    let first = api.create(gated);
    let (commands, _obeyed) = mpsc::channel(4);
    let entry = Arc::new(Entry::new(&first, commands));
    let switch = Switch::default();
    let pool = Arc::new(Mutex::new(IpPool::new(network(), Duration::ZERO)));
    let place = Place { node: Ipv4Addr::new(127, 9, 9, 9), state: switch.follow(), pool, kept: None };
    let (mut worker, _) = Worker::new(first, place, entry, Writer::new(api.client()));
    worker.stale = false;
    let ours = api.change("web", |pod| pod["status"]["phase"] = json!("Running"));
    worker.adopt(Box::new((*ours).clone()));
    assert!(!worker.stale, "what it has written itself is no news");
    let gate = json!([{"type": "example.com/gate", "status": "True"}]);
    let theirs = api.change("web", |pod| pod["status"]["conditions"] = gate);
    worker.adopt(Box::new((*theirs).clone()));
    assert!(worker.stale, "the gate is open: Ready is to be written");
}

#[tokio::test]
async fn a_new_sandbox_has_another_address_and_the_gate_is_never_touched() {
    let mut gated = pod(&json!({}));
    gated["spec"]["readinessGates"] = json!([{"conditionType": "example.com/gate"}]);
    gated["status"]["conditions"] = json!([{"type": "example.com/gate", "status": "True"}]);
    let bench = Bench::start(gated);
    let before = bench.ready().await;
    let count = bench.api.calls().len();
    bench.commands.send(Command::LoseSandbox).await.unwrap();
    let replaced = |calls: &[Call]| {
        last(calls).is_some_and(|status| is(status, "Ready", "True") && status["podIP"] != before["podIP"])
    };
    let calls = bench.api.until(replaced).await;
    assert_eq!(readiness(&calls[count..]), [false, true]);
    for call in &calls[count..] {
        let Call::Status(status) = call else { panic!("nothing is deleted") };
        assert!(is(status, "example.com/gate", "True") && status["podIP"].is_string(), "{status}");
    }
    let after = last(&calls).unwrap();
    assert_eq!(after["podIPs"].as_array().map(Vec::len), Some(1));
    assert!(answers(&after["podIP"]).await && !answers(&before["podIP"]).await);
    bench.ends().await;
}

#[tokio::test]
async fn an_evicted_pod_serves_until_its_end_and_then_one_status_tells_it_all() {
    let bench = Bench::start(pod(&json!({"lifecycle": {"preStop": {"sleep": {"seconds": 1}}}})));
    let before = bench.ready().await;
    let count = bench.api.calls().len();
    bench.commands.send(Command::Evict { grace: Some(Duration::from_secs(5)) }).await.unwrap();
    bench.shows("terminating").await;
    assert!(answers(&before["podIP"]).await);
    let status = bench.status_with("DisruptionTarget", "True").await;
    assert_eq!(bench.api.calls().len(), count + 1, "nothing is said before the end");
    assert_eq!((&status["phase"], status.get("reason")), (&json!("Succeeded"), None));
    assert!(is(&status, "Ready", "False") && status["podIP"] == before["podIP"]);
    let target = status["conditions"].as_array().unwrap();
    let target = target.iter().find(|one| one["type"] == "DisruptionTarget").unwrap();
    assert_eq!(target["reason"], "TerminationByKubelet");
    bench.ends().await;
}

#[tokio::test]
async fn a_crash_is_137_and_the_container_is_started_again() {
    let bench = Bench::start(pod(&json!({})));
    bench.ready().await;
    bench.commands.send(Command::Crash { container: None }).await.unwrap();
    let again = |calls: &[Call]| {
        last(calls).is_some_and(|status| {
            is(status, "Ready", "True") && status["containerStatuses"][0]["restartCount"] == 1
        })
    };
    let calls = bench.api.until(again).await;
    let ended = &last(&calls).unwrap()["containerStatuses"][0]["lastState"]["terminated"];
    assert_eq!(ended["exitCode"], 137);
    bench.ends().await;
}

#[tokio::test]
async fn a_hanging_container_is_restarted_by_its_liveness_probe_and_then_answers() {
    let probe = json!({"httpGet": {"port": PORT}, "periodSeconds": 1, "failureThreshold": 1});
    let bench = Bench::start(pod(&json!({"livenessProbe": probe})));
    let before = bench.ready().await;
    bench.commands.send(Command::Hang(true)).await.unwrap();
    let again = |calls: &[Call]| {
        last(calls).is_some_and(|status| {
            is(status, "Ready", "True") && status["containerStatuses"][0]["restartCount"] == 1
        })
    };
    bench.api.until(again).await;
    assert!(answers(&before["podIP"]).await && !bench.entry.view().hanging);
    bench.ends().await;
}

#[tokio::test]
async fn a_startup_probe_holds_ready_back_until_the_port_is_open() {
    let probe = json!({"tcpSocket": {"port": PORT}, "periodSeconds": 1, "failureThreshold": 30});
    let bench = Bench::start(annotated(&json!({"startupProbe": probe}), &[("start-delay", "200ms")]));
    let status = bench.ready().await;
    assert!(answers(&status["podIP"]).await, "ready means that it listens");
    let calls = bench.api.calls();
    let slow = calls.iter().find_map(|call| match call {
        Call::Status(status) if status.get("podIP").is_some() => Some(status),
        _ => None,
    });
    let container = &slow.unwrap()["containerStatuses"][0];
    assert_eq!((&container["started"], &container["ready"]), (&json!(false), &json!(false)));
    assert_eq!(status["containerStatuses"][0]["started"], true);
    bench.ends().await;
}

#[tokio::test]
async fn init_containers_run_first_and_a_sidecar_serves_beside_the_main_container() {
    let mut layered = annotated(&json!({}), &[("init-duration", "50ms")]);
    layered["spec"]["initContainers"] = json!([
        {"name": "setup", "image": "setup:1"},
        {"name": "proxy", "image": "proxy:1", "restartPolicy": "Always",
         "ports": [{"containerPort": PORT + 1}]}]);
    let bench = Bench::start(layered);
    let status = bench.ready().await;
    assert!(is(&status, "Initialized", "True"));
    let setup = &status["initContainerStatuses"][0];
    assert_eq!((&setup["state"]["terminated"]["exitCode"], &setup["ready"]), (&json!(0), &json!(true)));
    let proxy = &status["initContainerStatuses"][1];
    assert!(proxy["state"]["running"].is_object() && proxy["ready"] == true, "{proxy}");
    let ip: Ipv4Addr = status["podIP"].as_str().unwrap().parse().unwrap();
    let sidecar = Get { to: (ip, PORT + 1).into(), path: "/".into(), headers: Vec::new() };
    sidecar.send(LIMIT).await.unwrap();
    bench.delete(30);
    bench.api.until(|calls| matches!(calls.last(), Some(Call::Delete(_)))).await;
    assert!(sidecar.send(LIMIT).await.is_err());
    bench.ends().await;
}

#[tokio::test]
async fn a_kubelet_that_is_slow_to_notice_a_gate_is_ready_no_sooner() {
    let mut gated = annotated(&json!({}), &[("gate-delay", "200ms")]);
    gated["spec"]["readinessGates"] = json!([{"conditionType": "example.com/gate"}]);
    let bench = Bench::start(gated);
    bench.status_with("ContainersReady", "True").await;
    let opened = bench.api.change("web", |pod| {
        let gate = json!({"type": "example.com/gate", "status": "True"});
        pod["status"]["conditions"].as_array_mut().unwrap().push(gate);
    });
    let before = Instant::now();
    bench.seen.send_replace(Seen::Present(opened));
    bench.ready().await;
    assert!(before.elapsed() >= Duration::from_millis(200));
    bench.ends().await;
}
