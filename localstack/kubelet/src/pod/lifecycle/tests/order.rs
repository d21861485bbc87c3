//! Tests of the order in which containers start and stop.

use super::*;

/// Returns a pod with two init containers around a sidecar, a second sidecar, and a main container.
fn layered(policy: &str) -> Pod {
    pod(&json!({"restartPolicy": policy, "terminationGracePeriodSeconds": 30,
        "initContainers": [
            {"name": "first"},
            {"name": "proxy", "restartPolicy": "Always"},
            {"name": "second"},
            {"name": "log", "restartPolicy": "Always",
             "lifecycle": {"preStop": {"sleep": {"seconds": 4}}}}],
        "containers": [{"name": "app", "lifecycle": {"preStop": {"sleep": {"seconds": 6}}}}]}))
}

const FIRST: usize = 0;
const PROXY: usize = 1;
const SECOND: usize = 2;
const LOG: usize = 3;
const APP: usize = 4;

fn start(index: usize) -> [Action; 1] {
    [Action::Start { index, run: 0 }]
}

fn up(policy: &str) -> Bench {
    let mut bench = Bench::new(&layered(policy));
    assert_eq!(bench.step(Input::Sandbox(IP)), start(FIRST));
    assert_eq!(bench.report(FIRST, ContainerEvent::Started), []);
    assert_eq!(bench.report(FIRST, exit(0)), start(PROXY));
    assert_eq!(bench.report(PROXY, ContainerEvent::Started), start(SECOND));
    assert_eq!(bench.report(SECOND, ContainerEvent::Started), []);
    assert_eq!(bench.report(SECOND, exit(0)), start(LOG));
    assert_eq!(bench.report(LOG, ContainerEvent::Started), start(APP));
    assert_eq!(bench.report(APP, ContainerEvent::Started), []);
    bench
}

#[test]
fn init_containers_start_one_after_the_other_and_the_main_ones_last() {
    let bench = up("Always");
    assert!(bench.machine.containers()[FIRST].is_done());
    assert!(bench.machine.containers()[PROXY].is_ready());
}

#[test]
fn the_address_is_shown_with_the_first_init_container_that_runs() {
    let mut bench = Bench::new(&layered("Always"));
    bench.step(Input::Sandbox(IP));
    assert_eq!(bench.machine.shown_ip(), None);
    bench.report(FIRST, ContainerEvent::Started);
    assert_eq!(bench.machine.shown_ip(), Some(IP));
}

#[test]
fn sidecars_stop_after_the_main_container_in_reverse_order_and_their_hooks_run_beside_its_own() {
    let mut bench = up("Always");
    assert_eq!(bench.step(Input::Deleting(seconds(30))), []);
    assert_eq!(bench.pass(seconds(5)), [], "the hook of the second sidecar is over, its turn is not");
    assert_eq!(bench.pass(seconds(1)), [Action::Terminate { index: APP }]);
    assert_eq!(bench.report(APP, exit(0)), [Action::Terminate { index: LOG }]);
    assert_eq!(bench.report(LOG, exit(0)), [Action::Terminate { index: PROXY }]);
    assert_eq!(bench.report(PROXY, exit(0)), [Action::Release]);
}

#[test]
fn sidecars_get_sigterm_at_the_end_of_the_grace_period_whatever_the_others_do() {
    let mut bench = up("Always");
    bench.step(Input::Deleting(seconds(10)));
    assert_eq!(bench.pass(seconds(9)), [Action::Terminate { index: APP }]);
    let at_the_end = bench.pass(seconds(1));
    let terminated = |index| at_the_end.contains(&Action::Terminate { index });
    assert!(terminated(LOG) && terminated(PROXY), "{at_the_end:?}");
    assert!(at_the_end.contains(&Action::Kill { index: APP }), "{at_the_end:?}");
    let later = bench.pass(MINIMUM_AFTER_HOOK);
    assert!(later.contains(&Action::Kill { index: LOG }) && later.contains(&Action::Kill { index: PROXY }));
}

#[test]
fn sidecars_do_not_outlive_a_pod_that_has_done_its_work() {
    let mut bench = up("Never");
    assert_eq!(bench.report(APP, exit(0)), [], "the hook of the second sidecar runs first");
    assert!(bench.machine.is_terminating());
    assert_eq!(bench.pass(seconds(4)), [Action::Terminate { index: LOG }]);
    assert_eq!(bench.report(LOG, exit(0)), [Action::Terminate { index: PROXY }]);
    assert_eq!(bench.report(PROXY, exit(137)), [Action::Release]);
}

#[test]
fn a_sidecar_is_started_again_whatever_the_pods_policy_says() {
    let mut bench = up("Never");
    assert_eq!(bench.report(PROXY, exit(0)), []);
    assert_eq!(bench.pass(backoff::FIRST), [Action::Start { index: PROXY, run: 1 }]);
}

#[test]
fn a_failed_init_container_is_tried_again_and_the_others_wait() {
    let mut bench = Bench::new(&layered("Always"));
    bench.step(Input::Sandbox(IP));
    bench.report(FIRST, ContainerEvent::Started);
    assert_eq!(bench.report(FIRST, exit(1)), []);
    assert_eq!(bench.pass(backoff::FIRST), [Action::Start { index: FIRST, run: 1 }]);
    bench.report(FIRST, ContainerEvent::Started);
    assert_eq!(bench.report(FIRST, exit(0)), start(PROXY));
}

#[test]
fn an_init_container_that_may_not_be_tried_again_ends_the_pod() {
    let mut bench = Bench::new(&layered("Never"));
    bench.step(Input::Sandbox(IP));
    bench.report(FIRST, ContainerEvent::Started);
    assert_eq!(bench.report(FIRST, exit(1)), [Action::Release]);
    assert!(bench.machine.has_ended() && !bench.machine.containers()[APP].has_run());
}

#[test]
fn a_sidecar_that_is_not_up_yet_holds_the_next_ones_back() {
    let mut slow = layered("Always");
    slow.spec.init_containers[PROXY].startup_probe = serde_json::from_value(json!({})).unwrap();
    let mut bench = Bench::new(&slow);
    bench.step(Input::Sandbox(IP));
    bench.report(FIRST, ContainerEvent::Started);
    bench.report(FIRST, exit(0));
    assert_eq!(bench.report(PROXY, ContainerEvent::Started), []);
    assert_eq!(bench.report(PROXY, ContainerEvent::Up), start(SECOND));
}

#[test]
fn in_a_new_sandbox_the_init_containers_run_again() {
    let mut bench = up("Always");
    bench.step(Input::SandboxLost);
    bench.pass(backoff::FIRST);
    assert_eq!(bench.step(Input::Sandbox(IP)), [Action::Start { index: FIRST, run: 1 }]);
}
