//! Unit tests of the state machine.

use super::*;
use crate::pod::backoff;
use crate::pod::grace::{MINIMUM_AFTER_HOOK, VANISHED};
use serde_json::{Value, json};

mod order;

/// A state machine with its own clock.
struct Bench {
    machine: Lifecycle,
    now: Moment,
    first: Vec<Action>,
}

const IP: Ipv4Addr = Ipv4Addr::new(127, 101, 0, 20);

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

fn pod(spec: &Value) -> Pod {
    serde_json::from_value(json!({"metadata": {"name": "web", "uid": "u"}, "spec": spec})).unwrap()
}

fn one_container(extra: &Value) -> Pod {
    let mut container = json!({"name": "app", "ports": [{"containerPort": 80}]});
    container.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    pod(&json!({"containers": [container]}))
}

fn with_sleep(length: u64) -> Pod {
    one_container(&json!({"lifecycle": {"preStop": {"sleep": {"seconds": length}}}}))
}

impl Bench {
    fn new(pod: &Pod) -> Self {
        let now = Moment::now();
        let (machine, first) = Lifecycle::begin(pod, now);
        Self { machine, now, first }
    }

    fn running(pod: &Pod) -> Self {
        let mut bench = Self::new(pod);
        assert_eq!(bench.first, [Action::Prepare]);
        bench.step(Input::Sandbox(IP));
        for index in 0..bench.machine.containers().len() {
            bench.report(index, ContainerEvent::Started);
        }
        bench
    }

    fn step(&mut self, input: Input) -> Vec<Action> {
        self.machine.step(input, self.now)
    }

    fn report(&mut self, index: usize, event: ContainerEvent) -> Vec<Action> {
        let run = self.machine.containers()[index].run();
        self.step(Input::Container { index, run, event })
    }

    fn exits(&mut self, code: i32) -> Vec<Action> {
        self.report(0, ContainerEvent::Exited { code, message: None })
    }

    /// Advances the time as the task of a pod does: a step runs only if a timer is due.
    fn pass(&mut self, span: Duration) -> Vec<Action> {
        let end = self.now.after(span);
        let mut actions = Vec::new();
        while let Some(due) = self.machine.wake().filter(|due| *due <= end.instant) {
            let ahead = due.saturating_duration_since(self.now.instant);
            self.now = self.now.after(ahead);
            actions.extend(self.step(Input::Elapsed));
        }
        self.now = end;
        actions
    }
}

#[test]
fn a_pod_gets_its_address_before_its_containers_start() {
    let mut bench = Bench::new(&one_container(&json!({})));
    assert_eq!(bench.first, [Action::Prepare]);
    assert_eq!(bench.step(Input::Sandbox(IP)), [Action::Start { index: 0, run: 0 }]);
    assert!(!bench.machine.containers()[0].is_ready());
    bench.report(0, ContainerEvent::Started);
    assert!(bench.machine.containers()[0].is_ready());
    assert_eq!(bench.machine.wake(), None);
}

#[test]
fn a_probed_container_is_ready_only_while_its_probe_says_so() {
    let mut bench = Bench::running(&one_container(&json!({"readinessProbe": {"tcpSocket": {"port": 80}}})));
    assert!(!bench.machine.containers()[0].is_ready());
    bench.report(0, ContainerEvent::Ready(true));
    assert!(bench.machine.containers()[0].is_ready());
    bench.report(0, ContainerEvent::Ready(false));
    assert!(!bench.machine.containers()[0].is_ready());
}

#[test]
fn without_a_hook_sigterm_comes_with_the_deletion() {
    let mut bench = Bench::running(&one_container(&json!({})));
    assert_eq!(bench.step(Input::Deleting(seconds(30))), [Action::Terminate { index: 0 }]);
    assert!(bench.machine.containers()[0].is_ready(), "the deletion itself changes no readiness");
    assert_eq!(bench.exits(0), [Action::Release]);
    assert!(bench.machine.has_ended());
    assert_eq!(bench.machine.ip(), Some(IP), "an ended pod still shows its address");
}

#[test]
fn a_sleep_hook_holds_sigterm_back_and_sigkill_ends_what_does_not_listen() {
    let mut bench = Bench::running(&with_sleep(10));
    assert_eq!(bench.step(Input::Deleting(seconds(30))), []);
    assert_eq!(bench.pass(seconds(9)), []);
    assert_eq!(bench.pass(seconds(1)), [Action::Terminate { index: 0 }]);
    assert_eq!(bench.pass(seconds(19)), []);
    assert_eq!(bench.pass(seconds(1)), [Action::Kill { index: 0 }]);
    assert_eq!(bench.pass(seconds(60)), [], "SIGKILL is sent once");
    assert_eq!(bench.exits(137), [Action::Release]);
}

#[test]
fn a_deletion_seen_again_changes_nothing() {
    let mut bench = Bench::running(&with_sleep(10));
    bench.step(Input::Deleting(seconds(30)));
    bench.pass(seconds(8));
    bench.step(Input::Deleting(seconds(30)));
    assert_eq!(bench.pass(seconds(2)), [Action::Terminate { index: 0 }]);
}

#[test]
fn a_second_delete_cuts_the_hook() {
    let mut bench = Bench::running(&with_sleep(60));
    bench.step(Input::Deleting(seconds(90)));
    bench.pass(seconds(10));
    assert_eq!(bench.step(Input::Deleting(seconds(3))), []);
    assert_eq!(bench.pass(seconds(3)), [Action::Terminate { index: 0 }]);
    assert_eq!(bench.pass(MINIMUM_AFTER_HOOK), [Action::Kill { index: 0 }]);
}

#[test]
fn a_second_delete_after_sigterm_brings_sigkill_forward() {
    let mut bench = Bench::running(&one_container(&json!({})));
    bench.step(Input::Deleting(seconds(90)));
    bench.pass(seconds(10));
    assert_eq!(bench.step(Input::Deleting(seconds(1))), []);
    assert_eq!(bench.pass(seconds(1)), [Action::Kill { index: 0 }]);
}

#[test]
fn a_pod_whose_object_vanished_keeps_its_hook_for_about_a_second() {
    let mut bench = Bench::running(&with_sleep(5));
    assert_eq!(bench.step(Input::Vanished), []);
    assert_eq!(bench.pass(seconds(1)), []);
    assert_eq!(bench.pass(VANISHED.saturating_sub(seconds(1))), [Action::Terminate { index: 0 }]);
}

#[test]
fn an_http_hook_ends_with_its_answer_or_with_the_grace_period() {
    let hooked = one_container(&json!({"lifecycle": {"preStop": {"httpGet": {"port": 80, "path": "/bye"}}}}));
    let mut answered = Bench::running(&hooked);
    assert_eq!(answered.step(Input::Deleting(seconds(30))), [Action::CallHook { index: 0, run: 0 }]);
    assert_eq!(answered.report(0, ContainerEvent::HookEnded), [Action::Terminate { index: 0 }]);
    assert_eq!(answered.report(0, ContainerEvent::HookEnded), [], "a hook ends once");
    let mut silent = Bench::running(&hooked);
    silent.step(Input::Deleting(seconds(30)));
    assert_eq!(silent.pass(seconds(30)), [Action::Terminate { index: 0 }]);
}

#[test]
fn containers_with_different_hooks_end_each_in_its_own_time() {
    let sleep = |length: u64| json!({"preStop": {"sleep": {"seconds": length}}});
    let mut bench = Bench::running(&pod(&json!({"containers": [
        {"name": "app", "lifecycle": sleep(5)}, {"name": "proxy", "lifecycle": sleep(8)}]})));
    bench.step(Input::Deleting(seconds(30)));
    assert_eq!(bench.pass(seconds(5)), [Action::Terminate { index: 0 }]);
    assert_eq!(bench.report(0, ContainerEvent::Exited { code: 0, message: None }), []);
    assert_eq!(bench.pass(seconds(3)), [Action::Terminate { index: 1 }]);
    let last = bench.report(1, ContainerEvent::Exited { code: 0, message: None });
    assert_eq!(last, [Action::Release]);
}

#[test]
fn a_container_that_exits_is_restarted_and_a_late_report_of_its_earlier_run_is_ignored() {
    let mut bench = Bench::running(&one_container(&json!({})));
    assert_eq!(bench.exits(1), []);
    assert!(!bench.machine.containers()[0].is_ready());
    assert_eq!(bench.pass(backoff::FIRST), [Action::Start { index: 0, run: 1 }]);
    bench.report(0, ContainerEvent::Started);
    let late = ContainerEvent::Exited { code: 1, message: None };
    assert_eq!(bench.step(Input::Container { index: 0, run: 0, event: late }), []);
    assert!(bench.machine.containers()[0].is_ready());
    bench.exits(1);
    assert_eq!(bench.pass(seconds(9)), [], "the second restart waits ten seconds");
    assert_eq!(bench.pass(seconds(1)), [Action::Start { index: 0, run: 2 }]);
}

#[test]
fn restart_policies_decide_whether_the_pod_ends() {
    let ends = |policy: &str, code: i32| {
        let mut bench =
            Bench::running(&pod(&json!({"restartPolicy": policy, "containers": [{"name": "app"}]})));
        bench.exits(code);
        bench.machine.has_ended()
    };
    assert!(ends("Never", 0) && ends("Never", 1) && ends("OnFailure", 0));
    assert!(!ends("OnFailure", 1) && !ends("Always", 0));
}

#[test]
fn a_pod_deleted_in_a_restart_pause_ends_at_once() {
    let mut bench = Bench::running(&one_container(&json!({})));
    bench.exits(1);
    assert_eq!(bench.step(Input::Deleting(seconds(30))), [Action::Release]);
    assert_eq!(bench.pass(seconds(60)), []);
}

#[test]
fn a_pod_deleted_while_it_starts_is_stopped_once_it_runs() {
    let mut bench = Bench::new(&one_container(&json!({})));
    bench.step(Input::Sandbox(IP));
    assert_eq!(bench.step(Input::Deleting(seconds(30))), []);
    assert_eq!(bench.report(0, ContainerEvent::Started), [Action::Terminate { index: 0 }]);
}

#[test]
fn a_pod_first_seen_while_it_is_deleted_never_starts() {
    let mut pod = one_container(&json!({}));
    pod.metadata.deletion_timestamp = Some(Moment::now().timestamp());
    pod.metadata.deletion_grace_period_seconds = Some(30);
    let bench = Bench::new(&pod);
    assert_eq!(bench.first, [Action::Release]);
    assert!(bench.machine.has_ended() && !bench.machine.is_settled());
}

#[test]
fn a_pod_that_was_over_before_is_left_as_it_is() {
    let mut pod = one_container(&json!({}));
    pod.status.phase = Some("Succeeded".into());
    let bench = Bench::new(&pod);
    assert_eq!(bench.first, []);
    assert!(bench.machine.has_ended() && bench.machine.is_settled());
}

fn exit(code: i32) -> ContainerEvent {
    ContainerEvent::Exited { code, message: None }
}

#[test]
fn images_are_pulled_between_the_sandbox_and_the_first_container() {
    let mut slow = one_container(&json!({}));
    slow.metadata.annotations = Some([("sim.headgate.dev/pull-delay".to_owned(), "9s".to_owned())].into());
    let mut bench = Bench::new(&slow);
    assert_eq!(bench.step(Input::Sandbox(IP)), []);
    assert!(bench.machine.has_sandbox() && bench.machine.shown_ip().is_none());
    assert_eq!(bench.pass(seconds(8)), []);
    assert_eq!(bench.pass(seconds(1)), [Action::Start { index: 0, run: 0 }]);
    bench.report(0, ContainerEvent::Started);
    assert_eq!(bench.machine.shown_ip(), Some(IP));
}

#[test]
fn an_image_that_cannot_be_pulled_shows_the_address_and_no_container_ever_starts() {
    let mut broken = one_container(&json!({}));
    let behaviour = [("pull-delay", "7s"), ("pull-fails", "true")];
    let behaviour = behaviour.map(|(word, value)| (format!("sim.headgate.dev/{word}"), value.to_owned()));
    broken.metadata.annotations = Some(behaviour.into());
    let mut bench = Bench::new(&broken);
    bench.step(Input::Sandbox(IP));
    bench.pass(seconds(6));
    assert_eq!((bench.machine.shown_ip(), bench.machine.pull_failure()), (None, None));
    for (pass, failure) in [(1, PullFailure::Error), (12, PullFailure::BackOff), (600, PullFailure::BackOff)]
    {
        assert_eq!(bench.pass(seconds(pass)), []);
        assert_eq!((bench.machine.shown_ip(), bench.machine.pull_failure()), (Some(IP), Some(failure)));
    }
    assert_eq!(bench.step(Input::Deleting(seconds(30))), [Action::Release]);
}

#[test]
fn a_pod_deleted_while_its_image_is_pulled_never_starts() {
    let mut slow = one_container(&json!({}));
    slow.metadata.annotations = Some([("sim.headgate.dev/pull-delay".to_owned(), "9s".to_owned())].into());
    let mut bench = Bench::new(&slow);
    bench.step(Input::Sandbox(IP));
    assert_eq!(bench.step(Input::Deleting(seconds(30))), [Action::Release]);
    assert_eq!(bench.pass(seconds(60)), []);
}

#[test]
fn an_unhealthy_container_is_stopped_as_in_a_termination_and_started_again() {
    let probed = json!({"livenessProbe": {"tcpSocket": {"port": 80}},
                        "lifecycle": {"preStop": {"sleep": {"seconds": 10}}}});
    let mut bench = Bench::running(&one_container(&probed));
    assert_eq!(bench.report(0, ContainerEvent::Unhealthy), []);
    assert_eq!(bench.pass(seconds(10)), [Action::Terminate { index: 0 }]);
    assert!(bench.machine.containers()[0].is_ready(), "nothing is reported before it is dead");
    assert_eq!(bench.pass(seconds(20)), [Action::Kill { index: 0 }]);
    assert_eq!(bench.exits(137), []);
    assert_eq!(bench.pass(backoff::FIRST), [Action::Start { index: 0, run: 1 }]);
}

#[test]
fn a_probe_may_bring_a_grace_period_of_its_own() {
    let probe = json!({"tcpSocket": {"port": 80}, "terminationGracePeriodSeconds": 3});
    let mut bench = Bench::running(&one_container(&json!({"livenessProbe": probe})));
    assert_eq!(bench.report(0, ContainerEvent::Unhealthy), [Action::Terminate { index: 0 }]);
    assert_eq!(bench.pass(seconds(3)), [Action::Kill { index: 0 }]);
}

#[test]
fn a_terminating_pod_pays_no_heed_to_liveness() {
    let probe = json!({"tcpSocket": {"port": 80}, "terminationGracePeriodSeconds": 1});
    let hooks = json!({"preStop": {"sleep": {"seconds": 10}}});
    let mut bench = Bench::running(&one_container(&json!({"livenessProbe": probe, "lifecycle": hooks})));
    bench.step(Input::Deleting(seconds(30)));
    assert_eq!(bench.report(0, ContainerEvent::Unhealthy), []);
    assert_eq!(bench.pass(seconds(9)), [], "the probe's own grace period cuts nothing");
    assert_eq!(bench.pass(seconds(1)), [Action::Terminate { index: 0 }]);
    assert_eq!(bench.exits(0), [Action::Release]);
}

#[test]
fn a_deletion_brings_the_end_of_an_unhealthy_container_forward_and_never_back() {
    let mut bench = Bench::running(&with_sleep(20));
    bench.report(0, ContainerEvent::Unhealthy);
    bench.pass(seconds(5));
    bench.step(Input::Deleting(seconds(3)));
    assert_eq!(bench.pass(seconds(3)), [Action::Terminate { index: 0 }]);
    assert_eq!(bench.exits(0), [Action::Release], "it is not started again");
}

#[test]
fn a_container_with_a_startup_probe_is_ready_no_sooner_than_it_is_up() {
    let mut bench = Bench::running(&one_container(&json!({"startupProbe": {"tcpSocket": {"port": 80}}})));
    assert!(!bench.machine.containers()[0].is_ready() && !bench.machine.containers()[0].is_up());
    bench.report(0, ContainerEvent::Up);
    assert!(bench.machine.containers()[0].is_ready() && bench.machine.containers()[0].is_up());
    bench.exits(1);
    bench.pass(backoff::FIRST);
    bench.report(0, ContainerEvent::Started);
    assert!(!bench.machine.containers()[0].is_up(), "each run begins anew");
}

#[test]
fn a_lost_sandbox_is_noticed_after_a_second_and_everything_starts_anew() {
    let mut bench = Bench::running(&one_container(&json!({})));
    assert_eq!(bench.step(Input::SandboxLost), [Action::Kill { index: 0 }]);
    assert!(!bench.machine.has_sandbox() && !bench.machine.containers()[0].is_ready());
    let late = Input::Container { index: 0, run: 0, event: exit(137) };
    assert_eq!(bench.step(late), [], "the exit of the old process is no news");
    assert_eq!(bench.pass(backoff::FIRST), [Action::Renew]);
    let other = Ipv4Addr::new(127, 101, 0, 21);
    assert_eq!(bench.step(Input::Sandbox(other)), [Action::Start { index: 0, run: 1 }]);
    assert_eq!(bench.machine.shown_ip(), Some(IP), "the old address until a container runs");
    bench.report(0, ContainerEvent::Started);
    assert_eq!(bench.machine.shown_ip(), Some(other));
    assert_eq!(bench.machine.containers()[0].last_exit().map(|exit| exit.code), Some(137));
}

#[test]
fn a_pod_deleted_without_a_sandbox_ends_at_once() {
    let mut bench = Bench::running(&one_container(&json!({})));
    bench.step(Input::SandboxLost);
    assert_eq!(bench.step(Input::Deleting(seconds(30))), [Action::Release]);
    assert_eq!(bench.pass(seconds(60)), [], "no new sandbox");
}

#[test]
fn a_restarted_kubelet_knows_of_no_readiness_for_a_moment() {
    let mut bench = Bench::running(&one_container(&json!({})));
    let is_ready = |bench: &Bench| bench.machine.is_ready(&bench.machine.containers()[0]);
    bench.step(Input::KubeletRestarted);
    assert!(!is_ready(&bench));
    bench.pass(FLAP.saturating_sub(Duration::from_millis(1)));
    assert!(!is_ready(&bench));
    bench.pass(Duration::from_millis(1));
    assert!(is_ready(&bench) && bench.machine.wake().is_none());
}

#[test]
fn a_pod_that_the_kubelet_ends_pays_its_hook_and_says_why_only_at_its_end() {
    let mut bench = Bench::running(&with_sleep(8));
    bench.step(Input::Ending(seconds(20), Ending::pressure()));
    assert!(bench.machine.is_terminating() && bench.machine.ending().is_none());
    assert_eq!(bench.pass(seconds(8)), [Action::Terminate { index: 0 }]);
    bench.exits(0);
    assert_eq!(bench.machine.ending(), Some(&Ending::pressure()));
}

#[test]
fn a_pod_that_is_being_deleted_is_not_ended_by_the_kubelet_too() {
    let mut bench = Bench::running(&with_sleep(8));
    bench.step(Input::Deleting(seconds(30)));
    bench.step(Input::Ending(seconds(4), Ending::shutdown()));
    assert_eq!(bench.pass(seconds(4)), [Action::Terminate { index: 0 }], "but its time is cut");
    bench.exits(0);
    assert_eq!(bench.machine.ending(), None);
}

#[test]
fn a_pod_that_is_turned_away_has_a_second_left() {
    let mut bench = Bench::running(&with_sleep(8));
    bench.step(Input::Rejected(Rejection::pressure()));
    assert!(bench.machine.rejection().is_some());
    assert_eq!(bench.pass(seconds(1)), [Action::Terminate { index: 0 }]);
}

fn after_a_reboot(policy: &str) -> Pod {
    let mut pod = pod(&json!({"restartPolicy": policy, "containers": [{"name": "app"}]}));
    pod.status = serde_json::from_value(json!({"phase": "Running", "containerStatuses": [
        {"name": "app", "containerID": "containerd://1", "restartCount": 2, "image": "", "imageID": "",
         "ready": true, "state": {"running": {"startedAt": "2026-01-02T03:04:05Z"}}}]}))
    .unwrap();
    pod
}

#[test]
fn a_container_that_an_earlier_kubelet_had_started_is_started_again_and_counted() {
    let mut bench = Bench::new(&after_a_reboot("Always"));
    assert_eq!(bench.first, [Action::Prepare]);
    assert_eq!(bench.step(Input::Sandbox(IP)), [Action::Start { index: 0, run: 3 }]);
    assert_eq!(bench.machine.containers()[0].last_exit().map(|exit| exit.code), Some(255));
}

#[test]
fn a_container_that_may_not_be_restarted_does_not_survive_the_kubelet() {
    let bench = Bench::new(&after_a_reboot("Never"));
    assert_eq!(bench.first, [Action::Release]);
    assert!(bench.machine.has_ended());
}
