//! Pods that stop before their load balancer has stopped sending to them are counted and reported.

use headgate_harness::{
    cluster::pod_spec,
    headgate::Headgate,
    on_real_nodes,
    scenario::{Scenario, http_port},
    wait,
};
use serde_json::json;

/// Shorter than AWS's delay at the local world's time scale, because these tests only count.
const BOUND: &str = "--nlb-propagation-bound=12s";

/// A pod of the app `web` with a hold of this many seconds.
async fn held(s: &Scenario, name: &str, seconds: u32) {
    let mut spec = pod_spec(&[("http", 8080)]);
    if seconds > 0 {
        spec["containers"][0]["lifecycle"] = json!({"preStop": {"sleep": {"seconds": seconds}}});
    }
    s.cluster.pod_with(name, "web", spec).await;
}

/// Waits until Headgate has seen `count` healthy targets.
async fn wait_healthy(headgate: &Headgate, count: f64) {
    let healthy = || headgate.metric("headgate_register_to_healthy_seconds_count");
    wait::until_equal("Headgate has seen the targets healthy", &Some(count), healthy).await;
}

/// Waits until Headgate has seen the deletion of every pod.
async fn wait_gone(headgate: &Headgate) {
    wait::until_equal("every pod is gone", &Some(0.0), || headgate.metric("headgate_pods")).await;
}

on_real_nodes! {
    async fn a_pod_that_ends_before_the_load_balancer_stops_sending_is_counted_and_told(world: World) {
        let s = Scenario::new(world, "hold").await;
        let group = s.group("web").await;
        s.cluster.service("web", "web", http_port(), Some(&group.name)).await;
        held(&s, "held", 20).await;
        held(&s, "short", 1).await;
        held(&s, "forced", 20).await;
        let headgate = s.headgate_with(&[BOUND]).await;
        let count = format!("headgate_holds_too_short_total{{target_group=\"{}\"}}", group.name);
        wait_healthy(&headgate, 3.0).await;
        assert_eq!(headgate.metric(&count).await, Some(0.0), "it begins at zero");

        for name in ["held", "short"] {
            s.cluster.delete_pod(name, 30).await;
        }
        s.cluster.delete_pod("forced", 0).await;
        wait_gone(&headgate).await;
        assert_eq!(headgate.metric(&count).await, Some(2.0));
        s.cluster.wait_warning("short", "HoldTooShort", "s after deregistration").await;
        s.cluster.wait_warning("forced", "HoldTooShort", "pod stopped").await;
        s.cluster.wait_warning("web", "HoldTooShort", "See the pod's Event HoldTooShort").await;
        assert!(s.cluster.warnings("held").await.is_empty());
        let told = |name: &str| {
            let pod = format!("{}/{name}", s.cluster.namespace);
            headgate.logged(move |line| line["reason"] == "HoldTooShort" && line["object"] == *pod).len()
        };
        assert_eq!([told("short"), told("forced"), told("held")], [1, 1, 0]);
    }
}
