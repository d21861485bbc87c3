//! Pods become targets.

use std::collections::BTreeSet;

use headgate_harness::{
    cluster::pod_spec,
    http, on_both_kinds_of_nodes,
    scenario::{Scenario, http_port, targets},
    shared_world::beside_others,
    wait,
};
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

on_both_kinds_of_nodes! {
    async fn a_pod_is_registered_when_it_has_its_ip_before_it_is_ready(world: World) {
        let s = Scenario::new(world, "at-ip").await;
        let group = s.group("web").await;
        let _headgate = s.headgate().await;
        s.cluster.service("web", "web", http_port(), Some(&format!("http={}", group.arn))).await;
        let mut spec = pod_spec(&[("http", 8080)]);
        spec["containers"][0]["readinessProbe"] =
            json!({"httpGet": {"path": "/", "port": 8080}, "initialDelaySeconds": 3600});
        s.cluster.pod_with("slow", "web", spec).await;
        s.wait_registered(&group, "web", 1, 8080).await;
        let pod = s.cluster.api::<Pod>().get("slow").await.unwrap();
        let conditions = pod.status.unwrap().conditions.unwrap();
        let ready = conditions.iter().find(|condition| condition.type_ == "Ready").unwrap();
        assert_eq!(ready.status, "False");
    }
}

#[test]
fn requests_through_the_load_balancer_reach_the_pods() {
    beside_others(|world| async move {
        let s = Scenario::new(world, "traffic").await;
        let group = s.web(3).await;
        let _headgate = s.headgate().await;
        let running = s.wait_registered(&group, "web", 3, 8080).await;
        let pods: BTreeSet<String> = running.into_keys().collect();
        wait::until("every zone is resolved, and every pod answers", || async {
            let mut seen = BTreeSet::new();
            for node in headgate_harness::dns::resolve(s.facts(), &group.dns_name).await {
                for _ in 0..10 {
                    let address = format!("{node}:{}", group.listener_port);
                    let (_, answer) = http::request("GET", &address, "/", None).await?;
                    let answer: serde_json::Value =
                        serde_json::from_str(&answer).map_err(|e| e.to_string())?;
                    seen.insert(answer["pod"].as_str().unwrap_or_default().to_owned());
                }
            }
            if seen == pods { Ok(()) } else { Err(format!("{seen:?}")) }
        })
        .await;
    });
}

#[test]
fn every_port_of_a_service_has_its_own_target_group() {
    beside_others(|world| async move {
        let s = Scenario::new(world, "two-groups").await;
        let (web, secure) = (s.group("web").await, s.group("sec").await);
        s.cluster.deploy("web", 2, &[("http", 8080), ("https", 8443)]).await;
        let ports = json!([
            {"name": "http", "port": 80, "targetPort": "http"},
            {"name": "https", "port": 443, "targetPort": 8443},
        ]);
        // By name and by number, by name and by ARN.
        let annotation = format!("http={}, 443={}", web.name, secure.arn);
        s.cluster.service("web", "web", ports, Some(&annotation)).await;
        let _headgate = s.headgate().await;
        s.wait_registered(&web, "web", 2, 8080).await;
        s.wait_registered(&secure, "web", 2, 8443).await;
    });
}

/// Run by `.ci/run` and not by `make test`.
mod more {
    use super::*;

    #[test]
    fn a_restart_adopts_what_is_there_without_a_gap() {
        beside_others(|world| async move {
            let s = Scenario::new(world, "restart").await;
            let group = s.web(2).await;
            let headgate = s.headgate().await;
            s.wait_registered(&group, "web", 2, 8080).await;
            headgate.terminate().await;
            s.cluster.scale("web", 3).await;
            let running = s.cluster.wait_running("web", 3).await;
            let _headgate = s.headgate().await;
            s.wait_targets(&group, &targets(&running, 8080)).await;
            assert_eq!(s.aws.calls("DeregisterTargets", &group.name).await, []);
        });
    }
}
