//! Tests of a pod's task when its node is lost, is restored, shuts down or is short of memory.

use super::*;

#[tokio::test]
async fn a_restarted_kubelet_takes_ready_back_for_a_moment_and_keeps_the_address() {
    let bench = Bench::start(pod(&json!({})));
    let before = bench.ready().await;
    let count = bench.api.calls().len();
    bench.switch.restart_kubelet(false).unwrap();
    let flapped = |calls: &[Call]| readiness(&calls[count.min(calls.len())..]) == [false, true];
    let calls = bench.api.until(flapped).await;
    for call in &calls[count..] {
        let Call::Status(status) = call else { panic!("only statuses are written: {call:?}") };
        assert_eq!(status["podIP"], before["podIP"]);
        assert_eq!(is(status, "Ready", "True"), is(status, "ContainersReady", "True"));
        assert_eq!(status["containerStatuses"][0]["restartCount"], 0);
    }
    bench.ends().await;
}

#[tokio::test]
async fn a_lost_node_says_nothing_and_its_pods_are_restarted_when_it_is_back() {
    let bench = Bench::start(pod(&json!({})));
    let before = bench.ready().await;
    let count = bench.api.calls().len();
    bench.switch.lose().unwrap();
    bench.shows("lost").await;
    bench.silent(&before["podIP"]).await;
    bench.delete(30);
    assert_eq!(bench.api.calls().len(), count, "nobody is there to report anything");
    let undeleted = bench.api.change("web", |pod| {
        let metadata = pod["metadata"].as_object_mut().unwrap();
        metadata.remove("deletionTimestamp");
    });
    bench.seen.send_replace(Seen::Present(undeleted));
    bench.switch.restore().unwrap();
    let again = |calls: &[Call]| {
        last(calls).is_some_and(|status| {
            is(status, "Ready", "True") && status["containerStatuses"][0]["restartCount"] == 1
        })
    };
    let calls = bench.api.until(again).await;
    let after = last(&calls).unwrap();
    assert_eq!(after["podIP"], before["podIP"]);
    assert_eq!(after["containerStatuses"][0]["lastState"]["terminated"]["exitCode"], 255);
    assert!(answers(&after["podIP"]).await);
    bench.ends().await;
}

#[tokio::test]
async fn a_pod_whose_object_goes_while_its_node_is_lost_gives_its_address_back() {
    let bench = Bench::start(pod(&json!({})));
    let held = bench.ready().await;
    bench.switch.lose().unwrap();
    bench.shows("lost").await;
    let pool = Arc::clone(&bench.pool);
    bench.ends().await;
    let free = pool.lock().unwrap().allocate(Instant::now()).map(|ip| json!(ip));
    assert_eq!(free.as_ref(), Some(&held["podIP"]));
}

#[tokio::test]
async fn a_pod_that_a_shutdown_ends_with_an_error_is_failed_with_the_kubelets_words() {
    let bench = Bench::start(annotated(&json!({}), &[("sigterm-exit-code", "143")]));
    bench.ready().await;
    bench.switch.shut_down(Duration::from_secs(5), Instant::now()).unwrap();
    let status = bench.status_with("DisruptionTarget", "True").await;
    assert_eq!((&status["phase"], &status["reason"]), (&json!("Failed"), &json!("Terminated")));
    assert_eq!(status["message"], "Pod was terminated in response to imminent node shutdown.");
    assert_eq!(status["containerStatuses"][0]["state"]["terminated"]["exitCode"], 143);
    bench.ends().await;
}

#[tokio::test]
async fn a_kubelet_restarted_under_memory_pressure_clears_the_status_of_what_it_turns_away() {
    let mut cheap = pod(&json!({}));
    cheap["status"]["qosClass"] = json!("BestEffort");
    cheap["status"]["conditions"] = json!([{"type": "example.com/gate", "status": "True"}]);
    let bench = Bench::start(cheap);
    let before = bench.ready().await;
    bench.switch.restart_kubelet(true).unwrap();
    let calls = bench.api.until(|calls| last(calls).is_some_and(|status| status["phase"] == "Failed")).await;
    let status = last(&calls).unwrap();
    assert_eq!(status["reason"], "Evicted");
    for gone in ["podIP", "hostIP", "containerStatuses"] {
        assert!(status.get(gone).is_none(), "{gone} is still in {status}");
    }
    assert_eq!(status["podIPs"], json!([]));
    let left: Vec<_> = status["conditions"].as_array().unwrap().iter().map(|one| &one["type"]).collect();
    assert_eq!(left, ["example.com/gate"]);
    bench.silent(&before["podIP"]).await;
    bench.ends().await;
}

#[tokio::test]
async fn a_pod_bound_to_a_node_that_shuts_down_is_turned_away() {
    let switch = Switch::default();
    switch.shut_down(Duration::from_mins(10), Instant::now()).unwrap();
    let api = Fake::default();
    let created = api.create(pod(&json!({})));
    let bench = Bench::on(switch, api, created);
    let calls = bench.api.until(|calls| last(calls).is_some()).await;
    let status = last(&calls).unwrap();
    assert_eq!((&status["phase"], &status["reason"]), (&json!("Failed"), &json!("NodeShutdown")));
    bench.ends().await;
}
