//! Tests of all statuses that a pod reports from its creation to its end.

use super::*;
use crate::clock::Moment;
use crate::container::event::ContainerEvent;
use crate::pod::lifecycle::{Ending, Input, Rejection};
use k8s_openapi::api::core::v1::PodCondition;
use serde_json::{Value, json};

const IP: Ipv4Addr = Ipv4Addr::new(127, 101, 0, 20);
const NODE: Ipv4Addr = Ipv4Addr::new(127, 101, 0, 10);

macro_rules! text {
    ($text:expr) => {
        Some(String::from($text))
    };
}

fn pod(spec: &Value) -> Pod {
    let metadata = json!({"name": "web", "namespace": "shop", "uid": "u-1", "generation": 1});
    serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
}

fn plain() -> Pod {
    pod(&json!({"containers": [{"name": "app", "image": "web:1", "ports": [{"containerPort": 80}]}]}))
}

fn probed() -> Pod {
    let probe = json!({"httpGet": {"port": 80}});
    pod(
        &json!({"containers": [{"name": "app", "image": "web:1", "readinessProbe": probe}, {"name": "side"}]}),
    )
}

fn report(lifecycle: &mut Lifecycle, index: usize, event: ContainerEvent) {
    let run = lifecycle.containers()[index].run();
    lifecycle.step(Input::Container { index, run, event }, Moment::now());
}

fn exited(code: i32) -> ContainerEvent {
    ContainerEvent::Exited { code, message: None }
}

fn prepared(pod: &Pod) -> Lifecycle {
    let (mut lifecycle, _) = Lifecycle::begin(pod, Moment::now());
    lifecycle.step(Input::Sandbox(IP), Moment::now());
    lifecycle
}

fn running(pod: &Pod) -> Lifecycle {
    let mut lifecycle = prepared(pod);
    for index in 0..pod.spec.containers.len() {
        report(&mut lifecycle, index, ContainerEvent::Started);
    }
    lifecycle
}

fn status(pod: &Pod, lifecycle: &Lifecycle) -> PodStatus {
    desired(pod, lifecycle, NODE, &Moment::now().timestamp())
}

fn condition(status: &PodStatus, kind: &str) -> (String, Option<String>, Option<String>) {
    let all: &[PodCondition] = status.conditions.as_deref().unwrap();
    let found = all.iter().find(|condition| condition.type_ == kind).unwrap().clone();
    (found.status, found.reason, found.message)
}

#[test]
fn a_new_pod_is_pending_and_names_the_containers_it_waits_for() {
    let (lifecycle, _) = Lifecycle::begin(&probed(), Moment::now());
    let status = status(&probed(), &lifecycle);
    assert_eq!(status.phase, text!("Pending"));
    let unready =
        ("False".into(), text!("ContainersNotReady"), text!("containers with unready status: [app side]"));
    assert_eq!(condition(&status, "Ready"), unready);
    assert_eq!(condition(&status, "ContainersReady"), unready);
    assert_eq!(condition(&status, "PodReadyToStartContainers").0, "False");
    assert_eq!(condition(&status, "Initialized"), ("True".into(), None, None));
    let waiting = status.container_statuses.unwrap()[0].state.clone().unwrap().waiting.unwrap();
    assert_eq!(waiting.reason, text!("ContainerCreating"));
}

#[test]
fn the_address_appears_with_container_running_and_not_before() {
    let mut lifecycle = prepared(&plain());
    let before = status(&plain(), &lifecycle);
    assert_eq!((before.pod_ip, before.pod_ips), (None, None));
    assert_eq!(condition(&status(&plain(), &lifecycle), "PodReadyToStartContainers").0, "True");
    report(&mut lifecycle, 0, ContainerEvent::Started);
    let after = status(&plain(), &lifecycle);
    assert_eq!(after.pod_ip, text!("127.101.0.20"));
    assert!(after.container_statuses.unwrap()[0].state.as_ref().unwrap().running.is_some());
    assert_eq!(after.phase, text!("Running"));
}

#[test]
fn a_pod_on_its_nodes_network_shows_the_nodes_address_from_the_first_status() {
    let pod = pod(&json!({"hostNetwork": true, "containers": [{"name": "app"}]}));
    let (lifecycle, _) = Lifecycle::begin(&pod, Moment::now());
    let status = status(&pod, &lifecycle);
    assert_eq!((status.pod_ip, status.host_ip), (text!("127.101.0.10"), text!("127.101.0.10")));
}

#[test]
fn a_container_without_a_probe_is_ready_in_the_status_that_says_running() {
    let status = status(&plain(), &running(&plain()));
    let container = &status.container_statuses.as_ref().unwrap()[0];
    assert_eq!((container.ready, container.started), (true, Some(true)));
    assert!(container.container_id.as_ref().is_some_and(|id| id.len() == "containerd://".len() + 64));
    assert_eq!(condition(&status, "Ready"), ("True".into(), None, None));
}

#[test]
fn only_the_container_whose_probe_has_not_succeeded_is_named() {
    let mut lifecycle = running(&probed());
    let expected = text!("containers with unready status: [app]");
    assert_eq!(condition(&status(&probed(), &lifecycle), "Ready").2, expected);
    report(&mut lifecycle, 0, ContainerEvent::Ready(true));
    assert_eq!(condition(&status(&probed(), &lifecycle), "Ready").0, "True");
}

#[test]
fn ready_waits_for_every_gate_and_says_which_one_is_shut() {
    let gate = "headgate.dev/target-health";
    let mut pod = plain();
    pod.spec.readiness_gates = serde_json::from_value(json!([{"conditionType": gate}])).unwrap();
    let lifecycle = running(&pod);
    let missing = format!("corresponding condition of pod readiness gate {gate:?} does not exist.");
    let reason = || text!("ReadinessGatesNotReady");
    assert_eq!(condition(&status(&pod, &lifecycle), "Ready"), ("False".into(), reason(), Some(missing)));
    assert_eq!(condition(&status(&pod, &lifecycle), "ContainersReady").0, "True");
    for (value, ready) in [("False", "False"), ("Unknown", "False"), ("True", "True")] {
        pod.status.conditions = serde_json::from_value(json!([{"type": gate, "status": value}])).unwrap();
        assert_eq!(condition(&status(&pod, &lifecycle), "Ready").0, ready);
    }
    pod.status.conditions = serde_json::from_value(json!([{"type": gate, "status": "False"}])).unwrap();
    let shut = format!("the status of pod readiness gate {gate:?} is not \"True\", but False");
    assert_eq!(condition(&status(&pod, &lifecycle), "Ready").2, Some(shut));
}

#[test]
fn others_conditions_are_never_in_a_report() {
    let mut pod = plain();
    let others =
        json!([{"type": "PodScheduled", "status": "True"}, {"type": "DisruptionTarget", "status": "True"}]);
    pod.status.conditions = serde_json::from_value(others).unwrap();
    let status = status(&pod, &running(&pod));
    let kinds: Vec<_> =
        status.conditions.iter().flatten().map(|condition| condition.type_.as_str()).collect();
    assert_eq!(kinds, ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady"]);
}

#[test]
fn ready_stays_true_while_terminating() {
    let mut lifecycle = running(&plain());
    lifecycle.step(Input::Deleting(Duration::from_secs(30)), Moment::now());
    let status = status(&plain(), &lifecycle);
    assert_eq!(condition(&status, "Ready").0, "True");
    assert_eq!(condition(&status, "ContainersReady").0, "True");
    assert_eq!(status.phase, text!("Running"));
}

#[test]
fn while_one_container_still_runs_nothing_of_the_termination_is_reported() {
    let pod = pod(&json!({"containers": [{"name": "app"}, {"name": "side"}]}));
    let mut lifecycle = running(&pod);
    let before = status(&pod, &lifecycle);
    lifecycle.step(Input::Deleting(Duration::from_secs(30)), Moment::now());
    report(&mut lifecycle, 0, exited(0));
    let between = status(&pod, &lifecycle);
    assert_eq!((between.container_statuses, between.phase), (before.container_statuses, before.phase));
    assert_eq!(between.conditions, before.conditions);
    report(&mut lifecycle, 1, exited(137));
    let after = status(&pod, &lifecycle);
    assert_eq!(after.phase, text!("Failed"));
    let states: Vec<_> =
        after.container_statuses.unwrap().into_iter().map(|one| one.state.unwrap()).collect();
    assert_eq!(
        states.iter().map(|one| one.terminated.as_ref().unwrap().exit_code).collect::<Vec<_>>(),
        [0, 137]
    );
}

#[test]
fn the_last_status_is_terminal_and_still_shows_the_address() {
    let mut lifecycle = running(&plain());
    lifecycle.step(Input::Deleting(Duration::from_secs(30)), Moment::now());
    report(&mut lifecycle, 0, exited(0));
    let status = status(&plain(), &lifecycle);
    assert_eq!((status.phase.clone(), status.pod_ip.clone()), (text!("Succeeded"), text!("127.101.0.20")));
    assert_eq!(condition(&status, "Ready"), ("False".into(), text!("PodCompleted"), None));
    assert_eq!(condition(&status, "Initialized"), ("True".into(), text!("PodCompleted"), None));
    assert_eq!(condition(&status, "PodReadyToStartContainers").0, "False");
    let ended = status.container_statuses.unwrap()[0].state.clone().unwrap().terminated.unwrap();
    assert_eq!((ended.exit_code, ended.reason), (0, text!("Completed")));
}

#[test]
fn one_failed_container_makes_the_pod_failed() {
    let mut pod = probed();
    pod.spec.restart_policy = text!("Never");
    let mut lifecycle = running(&pod);
    report(&mut lifecycle, 0, exited(0));
    assert_eq!(phase(&lifecycle), Phase::Running, "one container still runs");
    report(&mut lifecycle, 1, exited(137));
    let status = status(&pod, &lifecycle);
    assert_eq!(status.phase, text!("Failed"));
    assert_eq!(condition(&status, "ContainersReady"), ("False".into(), text!("PodFailed"), None));
}

#[test]
fn a_restarted_container_counts_one_more_and_remembers_how_it_ended() {
    let mut lifecycle = running(&plain());
    let first_id = status(&plain(), &lifecycle).container_statuses.unwrap()[0].container_id.clone();
    report(&mut lifecycle, 0, exited(3));
    let ended = status(&plain(), &lifecycle);
    let between = &ended.container_statuses.as_ref().unwrap()[0];
    assert_eq!((between.restart_count, between.ready, between.started), (0, false, Some(false)));
    assert_eq!(between.state.as_ref().unwrap().terminated.as_ref().unwrap().reason, text!("Error"));
    assert_eq!((ended.phase.clone(), ended.pod_ip.clone()), (text!("Running"), text!("127.101.0.20")));
    lifecycle.step(Input::Elapsed, Moment::now().after(Duration::from_secs(5)));
    report(&mut lifecycle, 0, ContainerEvent::Started);
    let again = &status(&plain(), &lifecycle).container_statuses.unwrap()[0];
    assert_eq!((again.restart_count, again.ready), (1, true));
    assert_eq!(again.last_state.as_ref().unwrap().terminated.as_ref().unwrap().exit_code, 3);
    assert_ne!(again.container_id, first_id);
}

#[test]
fn a_crash_loop_says_so() {
    let mut lifecycle = running(&plain());
    let mut now = Moment::now();
    report(&mut lifecycle, 0, exited(1));
    now = now.after(Duration::from_secs(5));
    lifecycle.step(Input::Elapsed, now);
    report(&mut lifecycle, 0, ContainerEvent::Started);
    report(&mut lifecycle, 0, exited(1));
    let status = status(&plain(), &lifecycle);
    let container = &status.container_statuses.as_ref().unwrap()[0];
    let waiting = container.state.as_ref().unwrap().waiting.as_ref().unwrap();
    assert_eq!(waiting.reason, text!("CrashLoopBackOff"));
    assert_eq!(waiting.message, text!("back-off 10s restarting failed container=app pod=web_shop(u-1)"));
    assert_eq!(container.restart_count, 1);
}

#[test]
fn a_pod_whose_image_cannot_be_pulled_is_pending_with_an_address() {
    let mut pod = pod(&json!({"initContainers": [{"name": "init", "image": "none:1"}],
                              "containers": [{"name": "app", "image": "web:1"}]}));
    pod.metadata.annotations = Some([("sim.headgate.dev/pull-fails".into(), "true".into())].into());
    let mut now = Moment::now();
    let (mut lifecycle, _) = Lifecycle::begin(&pod, now);
    lifecycle.step(Input::Sandbox(IP), now);
    for (reason, message) in [
        ("ErrImagePull", "failed to pull and unpack image \"none:1\": not found"),
        ("ImagePullBackOff", "Back-off pulling image \"none:1\": ErrImagePull: failed to pull"),
    ] {
        lifecycle.step(Input::Elapsed, now);
        let status = status(&pod, &lifecycle);
        assert_eq!((status.phase, status.pod_ip), (text!("Pending"), text!(IP.to_string())));
        let waits = |statuses: Option<Vec<ContainerStatus>>| {
            let container = statuses.unwrap().remove(0);
            assert_eq!((container.restart_count, &*container.image_id), (0, ""));
            container.state.unwrap().waiting.unwrap()
        };
        let init = waits(status.init_container_statuses);
        assert_eq!(init.reason, text!(reason));
        assert!(init.message.unwrap().starts_with(message));
        assert_eq!(waits(status.container_statuses).reason, text!("PodInitializing"));
        now = now.after(Duration::from_secs(12));
    }
}

#[test]
fn a_pod_deleted_before_it_started_fails_without_an_address() {
    let mut pod = plain();
    pod.metadata.deletion_timestamp = Some(Moment::now().timestamp());
    let (lifecycle, _) = Lifecycle::begin(&pod, Moment::now());
    let status = status(&pod, &lifecycle);
    assert_eq!((status.phase, status.pod_ip), (text!("Failed"), None));
    let ended = status.container_statuses.unwrap()[0].state.clone().unwrap().terminated.unwrap();
    assert_eq!((ended.exit_code, ended.reason), (137, text!("ContainerStatusUnknown")));
}

#[test]
fn a_status_survives_the_way_through_json_unchanged() {
    let wanted = status(&plain(), &running(&plain()));
    let stored: PodStatus = serde_json::from_value(json!(wanted)).unwrap();
    assert_eq!(stored, wanted);
}

#[test]
fn a_pod_never_falls_back_to_pending_when_its_kubelet_was_restarted() {
    let mut pod = plain();
    pod.status = status(&pod, &running(&pod));
    let (mut lifecycle, _) = Lifecycle::begin(&pod, Moment::now());
    assert_eq!(phase(&lifecycle), Phase::Running);
    lifecycle.step(Input::Sandbox(IP), Moment::now());
    report(&mut lifecycle, 0, ContainerEvent::Started);
    let container = &status(&pod, &lifecycle).container_statuses.unwrap()[0];
    let ended = container.last_state.as_ref().unwrap().terminated.as_ref().unwrap();
    assert_eq!((container.restart_count, ended.exit_code, ended.reason.clone()), (1, 255, text!("Unknown")));
}

fn layered() -> Pod {
    pod(&json!({"initContainers": [{"name": "setup"}, {"name": "proxy", "restartPolicy": "Always"}],
                "containers": [{"name": "app"}]}))
}

#[test]
fn a_pod_that_initialises_names_what_is_incomplete_and_is_pending() {
    let mut lifecycle = prepared(&layered());
    let incomplete = |names: &str| {
        let message = format!("containers with incomplete status: [{names}]");
        ("False".into(), text!("ContainersNotInitialized"), Some(message))
    };
    assert_eq!(condition(&status(&layered(), &lifecycle), "Initialized"), incomplete("setup proxy"));
    report(&mut lifecycle, 0, ContainerEvent::Started);
    report(&mut lifecycle, 0, exited(0));
    let between = status(&layered(), &lifecycle);
    assert_eq!(condition(&between, "Initialized"), incomplete("proxy"));
    assert_eq!((between.phase.clone(), between.pod_ip.is_some()), (text!("Pending"), true));
    let waiting = between.container_statuses.unwrap()[0].state.clone().unwrap().waiting.unwrap();
    assert_eq!(waiting.reason, text!("PodInitializing"));
    let unready = text!("containers with unready status: [proxy app]");
    assert_eq!(condition(&status(&layered(), &lifecycle), "Ready").2, unready);
    report(&mut lifecycle, 1, ContainerEvent::Started);
    report(&mut lifecycle, 2, ContainerEvent::Started);
    let after = status(&layered(), &lifecycle);
    assert_eq!(condition(&after, "Initialized"), ("True".into(), None, None));
    let names: Vec<_> = after.init_container_statuses.unwrap().into_iter().map(|one| one.name).collect();
    assert_eq!(names, ["setup", "proxy"], "in the order of the spec");
}

#[test]
fn a_sidecar_that_crashes_takes_ready_away_and_leaves_initialized() {
    let mut lifecycle = prepared(&layered());
    report(&mut lifecycle, 0, exited(0));
    report(&mut lifecycle, 1, ContainerEvent::Started);
    report(&mut lifecycle, 2, ContainerEvent::Started);
    report(&mut lifecycle, 1, exited(1));
    let status = status(&layered(), &lifecycle);
    assert_eq!(condition(&status, "Ready").2, text!("containers with unready status: [proxy]"));
    assert_eq!(condition(&status, "Initialized").0, "True");
    assert_eq!(status.phase, text!("Running"));
}

#[test]
fn a_pod_the_kubelet_ended_is_succeeded_or_failed_by_its_exit_codes_and_only_failed_keeps_the_reason() {
    let ended = |code| {
        let mut lifecycle = running(&plain());
        lifecycle.step(Input::Ending(Duration::from_secs(30), Ending::shutdown()), Moment::now());
        let before = status(&plain(), &lifecycle);
        assert!(before.conditions.unwrap().iter().all(|one| one.type_ != "DisruptionTarget"));
        report(&mut lifecycle, 0, exited(code));
        status(&plain(), &lifecycle)
    };
    let message = "Pod was terminated in response to imminent node shutdown.";
    let target = ("True".into(), text!("TerminationByKubelet"), text!(message));
    let clean = ended(0);
    assert_eq!((clean.phase.clone(), clean.reason.clone()), (text!("Succeeded"), None));
    assert_eq!(condition(&clean, "DisruptionTarget"), target);
    let broken = ended(137);
    assert_eq!((broken.phase.clone(), broken.reason.clone()), (text!("Failed"), text!("Terminated")));
    assert_eq!(broken.message, text!(message));
    assert_eq!(condition(&broken, "DisruptionTarget"), target);
}

#[test]
fn a_pod_that_was_turned_away_shows_its_reason_and_nothing_else() {
    let mut lifecycle = running(&plain());
    lifecycle.step(Input::Rejected(Rejection::pressure()), Moment::now());
    let status = status(&plain(), &lifecycle);
    assert_eq!((status.phase, status.reason), (text!("Failed"), text!("Evicted")));
    assert!(status.pod_ip.is_none() && status.conditions.is_none() && status.container_statuses.is_none());
}
