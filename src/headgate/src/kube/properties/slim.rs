//! Property tests with randomly changed pods, Services and nodes.

use headgate_core::{binding::annotation, model::load_balancer::LoadBalancerType};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::listed;
use crate::{
    kube::{
        nodes::SlimNode,
        slim::{SlimPod, SlimService},
    },
    properties::{holds, varied},
};

fn pod() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "a", "namespace": "shop", "uid": "u-1", "labels": {"app": "web"}, "resourceVersion": "7",
            "annotations": {"x": "y", "headgate.dev/expected-bindings": "b:80", "headgate.dev/hold": "9s",
                "headgate.dev/leaving": "u-1 since 2027-01-15T08:00:00Z asked 2027-01-15T08:00:00Z",
                "headgate.dev/deregistered-at": "u-1 2027-01-15T08:00:00Z bound 120s"},
            "creationTimestamp": "2026-01-02T03:04:05Z", "deletionTimestamp": "2026-01-02T03:04:05Z"},
        "spec": {"hostNetwork": true, "nodeName": "n", "terminationGracePeriodSeconds": 30,
            "readinessGates": [{"conditionType": "headgate.dev/target-health"}],
            "containers": [{"name": "web", "ports": [{"name": "web", "containerPort": 8080, "protocol": "TCP"}],
                "lifecycle": {"preStop": {"sleep": {"seconds": 9}}}}],
            "initContainers": [{"restartPolicy": "Always", "ports": [{"name": "dns", "containerPort": 53}]}]},
        "status": {"phase": "Running", "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}],
            "conditions": [{"type": "headgate.dev/target-health", "status": "True", "message": "pod IP 10.0.0.1, fine"}],
            "containerStatuses": [{"name": "c", "state": {"running": {"startedAt": "x"}}}],
            "initContainerStatuses": [{"name": "i", "state": {"terminated": {"exitCode": 0}}}]},
    })
}

#[test]
fn a_pod_with_any_values_is_read_in_bounds_and_hides_no_other_of_its_list() {
    holds(varied(pod()), |odd| {
        let all: Vec<SlimPod> = listed(&[pod(), odd, pod()]).map_err(TestCaseError::fail)?;
        let facts: Vec<_> = all.into_iter().map(SlimPod::into_facts).collect();
        prop_assert!(facts[0].is_some() && facts[0] == facts[2]);
        if let Some(odd) = &facts[1] {
            prop_assert!(odd.ips.len() <= 3 && odd.ports.iter().all(|port| port.port > 0));
            prop_assert!(odd.hold.is_none_or(|hold| hold.seconds(LoadBalancerType::Network) <= 3600));
        }
        Ok(())
    });
}

#[test]
fn a_service_with_any_values_is_read_in_bounds_and_hides_no_other_of_its_list() {
    let service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "web", "namespace": "shop", "uid": "s-1", "annotations": {
            "headgate.dev/target-groups": "http=blue", "headgate.dev/hold": "9s", "headgate.dev/hodl": "9s", "x": "y"}},
        "spec": {"selector": {"app": "web"}, "ports": [
            {"name": "http", "port": 80, "targetPort": "web", "protocol": "TCP"}, {"port": 53, "targetPort": 5353}]},
    });
    holds(varied(service.clone()), |odd| {
        let all: Vec<SlimService> =
            listed(&[service.clone(), odd, service.clone()]).map_err(TestCaseError::fail)?;
        let facts: Vec<_> = all.into_iter().map(SlimService::into_facts).collect();
        prop_assert!(facts[0].is_some() && facts[0] == facts[2]);
        if let Some(odd) = &facts[1] {
            prop_assert!(odd.ports.iter().all(|port| port.port > 0) && odd.policy.unknown().len() <= 8);
            let known = odd.policy.unknown().iter().all(|name| name.starts_with(annotation::PREFIX));
            prop_assert!(known, "{odd:?}");
        }
        Ok(())
    });
}

#[test]
fn a_node_with_any_values_is_read_and_hides_no_other_of_its_list() {
    let node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": "a1", "labels": {"topology.kubernetes.io/zone": "us-east-1a"}},
        "spec": {"unschedulable": true, "taints": [{"key": "a/b", "effect": "NoSchedule"}]},
        "status": {"conditions": [{"type": "Ready", "status": "False", "message": "node is shutting down"}]},
    });
    holds(varied(node.clone()), |odd| {
        let all: Vec<SlimNode> = listed(&[node.clone(), odd, node.clone()]).map_err(TestCaseError::fail)?;
        let facts: Vec<_> = all.into_iter().map(SlimNode::into_facts).collect();
        prop_assert!(facts[0].as_ref().is_some_and(|node| node.shuts_down) && facts[0] == facts[2]);
        Ok(())
    });
}
