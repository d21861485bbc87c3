//! The readiness gate: a pod is ready only when the load balancer reports it as healthy.

use aws_sdk_elasticloadbalancingv2::types::{ProtocolEnum, TargetTypeEnum};
use headgate_harness::{
    aws::Group,
    cluster::{OWN_GATE, pod_spec},
    on_both_kinds_of_nodes,
    scenario::{Scenario, http_port},
    shared_world::beside_others,
    wait,
};
use k8s_openapi::api::apps::v1::Deployment;
use serde_json::json;

const ZONE: &str = "topology.kubernetes.io/zone";

/// A Service and a Deployment with the gate, both named `web`, bound through the port `http` (8080).
async fn gated(s: &Scenario, replicas: u32) -> Group {
    let group = s.group("web").await;
    s.cluster.service("web", "web", http_port(), Some(&format!("http={}", group.name))).await;
    s.cluster.deploy_gated("web", replicas, &[("http", 8080)]).await;
    group
}

async fn healthy(s: &Scenario, group: &Group) -> usize {
    s.aws.targets(&group.arn).await.values().filter(|state| *state == "healthy").count()
}

/// Whether all pods of the Deployment have the newest revision and are available.
async fn is_rolled_out(s: &Scenario) -> Result<(), String> {
    let web = s.cluster.api::<Deployment>().get("web").await.unwrap();
    let (seen, wanted) = (web.metadata.generation, web.spec.and_then(|spec| spec.replicas));
    let status = web.status.unwrap_or_default();
    let done = status.observed_generation == seen
        && [status.updated_replicas, status.available_replicas, status.replicas] == [wanted; 3];
    if done { Ok(()) } else { Err(format!("{status:?}")) }
}

on_both_kinds_of_nodes! {
    async fn a_rollout_waits_for_the_load_balancer(world: World) {
        let s = Scenario::new(world, "gate").await;
        let group = gated(&s, 2).await;
        let headgate = s.headgate().await;
        let messages = s.cluster.wait_gates("web", 2, "True", "TargetsHealthy").await;
        assert_eq!(healthy(&s, &group).await, 2, "open only when they are healthy");
        for (pod, ip) in s.cluster.running("web").await {
            let says = format!("pod IP {ip}, target {ip}:8080 of target group {}: healthy", group.name);
            assert_eq!(messages[&pod], says);
        }
        wait::until("it is available", || is_rolled_out(&s)).await;
        s.cluster.restart("web").await;
        wait::until("it is rolled out, and two targets are healthy all the time", || async {
            let healthy = healthy(&s, &group).await;
            assert!(healthy >= 2, "{healthy} healthy targets during the rollout");
            is_rolled_out(&s).await
        })
        .await;
        let opened = headgate.metric("headgate_healthy_to_gate_seconds_count").await;
        assert_eq!(opened, Some(4.0));
        let grown = headgate.metric("headgate_register_to_healthy_seconds_count").await;
        assert_eq!(grown, Some(4.0));
    }
}

#[test]
fn a_target_group_without_a_listener_opens_the_gate_or_waits_as_the_service_says() {
    beside_others(|world| async move {
        let s = Scenario::new(world, "gate-unused").await;
        for (app, word) in [("opens", None), ("waits", Some("wait"))] {
            let name = s.name(app);
            s.aws.bare_group(&name, TargetTypeEnum::Ip, ProtocolEnum::Tcp).await;
            s.cluster.service(app, app, http_port(), Some(&name)).await;
            s.cluster.set_annotation(app, "headgate.dev/gate-when-unused", word).await;
            s.cluster.deploy_gated(app, 1, &[("http", 8080)]).await;
        }
        let _headgate = s.headgate().await;
        s.cluster.wait_gates("opens", 1, "True", "TargetUnused").await;
        let why = s.cluster.wait_gates("waits", 1, "False", "TargetUnused").await;
        let why = why.values().next().unwrap();
        assert!(why.contains("unused (Target.NotInUse) (since 2"), "{why}");
        let (balancer, _) = s.aws.nlb(&s.name("lb")).await;
        let group = s.aws.client().describe_target_groups().names(s.name("waits")).send().await.unwrap();
        s.aws.listen(&balancer, 19_999, group.target_groups()[0].target_group_arn().unwrap()).await;
        s.cluster.wait_gates("waits", 1, "True", "TargetsHealthy").await;
    });
}

/// Run by `.ci/run` and not by `make test`.
mod more {
    use super::*;

    #[test]
    fn a_gate_in_a_zone_that_the_load_balancer_does_not_serve_stays_closed_and_that_is_told() {
        beside_others(|world| async move {
            let s = Scenario::new(world, "gate-zone").await;
            let (balancer, _) = s.aws.nlb_in(&s.name("lb"), 2).await;
            let name = s.name("web");
            s.aws.listen(&balancer, 19_998, &s.aws.create_ip_group(&name, 8080).await).await;
            let in_zone = |app: &'static str, zone: usize| {
                let mut spec = pod_spec(&[("http", 8080)]);
                spec["readinessGates"] = json!([{"conditionType": OWN_GATE}]);
                spec["nodeSelector"] = json!({ZONE: s.facts().zones[zone].name});
                let (s, pod) = (&s, format!("{app}-{zone}"));
                async move { s.cluster.pod_with(&pod, app, spec).await }
            };
            for app in ["outside", "inside"] {
                s.cluster.service(app, app, http_port(), Some(&name)).await;
            }
            let _headgate = s.headgate().await;
            // At first the group has no other targets, so only AWS's answer shows the reason.
            in_zone("outside", 2).await;
            s.cluster.wait_gates("outside", 1, "False", "ZoneNotServed").await;
            in_zone("inside", 0).await;
            in_zone("inside", 1).await;
            s.cluster.wait_gates("inside", 2, "True", "TargetsHealthy").await;
            let why = s.cluster.wait_gates("outside", 1, "False", "ZoneNotServed").await;
            let why = why.values().next().unwrap();
            assert!(why.contains("its zone is not enabled for the load balancer"), "{why}");
            s.cluster.wait_warning("outside", "ZoneNotServed", "Enable the zone").await;
        });
    }

    #[test]
    fn pods_without_the_gate_and_with_a_closed_one_are_counted() {
        beside_others(|world| async move {
            let s = Scenario::new(world, "gate-count").await;
            let group = gated(&s, 1).await;
            s.cluster.pod("plain", "web", &[("http", 8080)]).await;
            let headgate = s.headgate().await;
            let count = |kind: &str| {
                format!(
                    "headgate_binding_targets{{namespace=\"{}\",service=\"web\",port=\"http\",target_group=\"{}\",kind=\"{kind}\"}}",
                    s.cluster.namespace, group.name
                )
            };
            let (without, closed) = (count("without_gate"), count("gate_closed"));
            wait::until_equal("one has no gate", &Some(1.0), || headgate.metric(&without)).await;
            // No gate closes before the first target is healthy.
            let gates = wait::until("one gate is open", || async {
                let gates = s.cluster.gates("web").await;
                let open = gates.values().flatten().filter(|gate| gate.status == "True").count();
                if open == 1 { Ok(gates) } else { Err(gates) }
            })
            .await;
            wait::until_equal("no gate is closed", &Some(0.0), || headgate.metric(&closed)).await;
            assert!(gates["plain"].is_none());
        });
    }
}
