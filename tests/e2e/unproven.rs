//! Targets that never become healthy are reported and counted.

use headgate_harness::{
    cluster::{OWN_GATE, pod_spec},
    on_real_nodes,
    scenario::{Scenario, http_port},
    wait,
};
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

/// A pod of the app `web` with annotations for the behavior of its server.
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

on_real_nodes! {
    async fn every_kind_of_bad_image_is_told_while_it_is_a_target(world: World) {
        let s = Scenario::new(world, "never-image").await;
        let (group, careful) = (s.group("web").await, s.group("careful").await);
        s.cluster.service("web", "web", http_port(), Some(&group.name)).await;
        s.cluster.service("careful", "careful", http_port(), Some(&careful.name)).await;
        s.cluster.set_annotation("careful", "headgate.dev/register-when", Some("containers-ready")).await;
        pod(&s, "silent", &[("start-delay", "2h")]).await;
        pod(&s, "crashing", &[("start-delay", "2h"), ("crash-after", "500ms")]).await;
        let mut nowhere = pod_spec(&[("http", 8080)]);
        nowhere["containers"][0]["image"] = "headgate.local/nowhere:1".into();
        let pull_fails = json!({"sim.headgate.dev/pull-fails": "true"});
        for (name, app) in [("unpullable", "web"), ("careful", "careful")] {
            if app == "careful" {
                nowhere["readinessGates"] = json!([{"conditionType": OWN_GATE}]);
            }
            let metadata = json!({"name": name, "labels": {"app": app}, "annotations": pull_fails});
            s.cluster.create::<Pod>(json!({"metadata": metadata, "spec": nowhere})).await;
        }
        let headgate = s.headgate_with(&["--never-healthy-after=5s"]).await;
        let count = format!("headgate_never_healthy_targets{{target_group=\"{}\"}}", group.name);
        wait::until_equal("three are counted", &Some(3.0), || headgate.metric(&count)).await;
        for name in ["silent", "crashing", "unpullable"] {
            s.cluster.wait_warning(name, "NeverHealthy", "Check containers").await;
        }
        let container = async |name: &str| {
            let status = s.cluster.api::<Pod>().get(name).await.unwrap().status.unwrap();
            (status.phase.unwrap(), status.container_statuses.unwrap().remove(0))
        };
        assert!(container("silent").await.1.state.unwrap().running.is_some());
        assert!(container("crashing").await.1.restart_count > 0, "it crashes again and again");
        let (phase, unpullable) = container("unpullable").await;
        let waits = unpullable.state.unwrap().waiting.unwrap().reason.unwrap();
        assert_eq!(phase, "Pending", "but it has an address");
        assert!(["ErrImagePull", "ImagePullBackOff"].contains(&&*waits), "{waits}");

        // If only pods with ready containers are registered, this pod is no target, and its gate shows why.
        s.cluster.wait_gates("careful", 1, "False", "NotReady").await;
        assert_eq!(s.aws.calls("RegisterTargets", &careful.name).await, []);
        assert!(s.cluster.warnings("careful").await.iter().all(|(reason, _)| reason != "NeverHealthy"));

        for name in ["silent", "crashing", "unpullable"] {
            s.cluster.delete_pod(name, 0).await;
        }
        wait::until_equal("none is counted any more", &Some(0.0), || headgate.metric(&count)).await;
    }
}
