//! Targets that never become healthy are told and counted.

use headgate_tests::{
    cluster::pod_spec,
    on_both_kinds_of_nodes,
    scenario::{Scenario, http_port},
    wait,
};
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

/// A pod of the app `web` with annotations for how its server behaves.
async fn pod(s: &Scenario, name: &str, behaviour: &[(&str, &str)]) {
    let behaviour = behaviour.iter().map(|(word, value)| (format!("sim.headgate.dev/{word}"), json!(value)));
    s.cluster
        .create::<Pod>(json!({
            "metadata": {
                "name": name,
                "labels": {"app": "web"},
                "annotations": behaviour.collect::<serde_json::Map<_, _>>(),
            },
            "spec": pod_spec(&[("http", 8080)]),
        }))
        .await;
}

on_both_kinds_of_nodes! {
    async fn a_target_that_never_was_healthy_is_told_and_counted_until_it_is_or_leaves(world: World) {
        let s = Scenario::new(world, "never").await;
        let group = s.group("web").await;
        s.cluster.service("web", "web", http_port(), Some(&group.name)).await;
        // One starts late; the other never serves, as a wrong image does not.
        pod(&s, "late", &[("start-delay", "25s")]).await;
        pod(&s, "wrong", &[("start-delay", "2h")]).await;
        let headgate = s.headgate_with(&["--never-healthy-after=5s"]).await;
        let count = format!("headgate_never_healthy_targets{{target_group=\"{}\"}}", group.name);
        let counted = |wanted: f64| {
            let (headgate, count) = (&headgate, &count);
            let what = format!("{wanted} targets were never healthy");
            async move { wait::until_equal(&what, &Some(wanted), || headgate.metric(count)).await }
        };
        counted(2.0).await;
        for name in ["late", "wrong"] {
            s.cluster.wait_warning(name, "NeverHealthy", "and was never healthy, it is ").await;
        }
        counted(1.0).await;
        s.cluster.delete_pod("wrong", 0).await;
        counted(0.0).await;
        assert_eq!(s.cluster.warnings("late").await.len(), 1, "told once");
    }
}

#[test]
fn a_crash_loop_is_told_as_a_target_that_never_was_healthy() {
    headgate_tests::shared_world::beside_others(|world| async move {
        let s = Scenario::new(world, "never-crash").await;
        let group = s.group("web").await;
        s.cluster.service("web", "web", http_port(), Some(&group.name)).await;
        pod(&s, "web", &[("start-delay", "1h"), ("crash-after", "500ms")]).await;
        let _headgate = s.headgate_with(&["--never-healthy-after=5s"]).await;
        s.cluster.wait_warning("web", "NeverHealthy", "do they start, and stay?").await;
        let statuses = s.cluster.api::<Pod>().get("web").await.unwrap().status.unwrap().container_statuses;
        assert!(statuses.unwrap()[0].restart_count > 0, "it crashes again and again");
    });
}
