//! Tests with pods in the form that the API server returns.

use serde_json::json;

use super::*;
use headgate_core::model::gate::Shown;

fn pod(spec: &serde_json::Value, status: &serde_json::Value) -> PodFacts {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "a", "namespace": "shop", "uid": "u-1", "resourceVersion": "7",
            "creationTimestamp": "2026-01-02T03:04:05Z", "labels": {"app": "web"},
            "annotations": {"x": "y"}, "managedFields": [{"manager": "kubelet"}],
        },
        "spec": spec, "status": status,
    });
    serde_json::from_value::<SlimPod>(pod).unwrap().into_facts().unwrap()
}

#[test]
fn a_pod_is_read_with_its_ips_and_the_named_ports_of_containers_that_stay() {
    let facts = pod(
        &json!({
            "hostNetwork": true,
            "containers": [{"name": "c", "ports": [{"name": "web", "containerPort": 8080}, {"containerPort": 1}]}],
            "initContainers": [
                {"name": "sidecar", "restartPolicy": "Always",
                 "ports": [{"name": "dns", "containerPort": 53, "protocol": "UDP"}]},
                {"name": "once", "ports": [{"name": "setup", "containerPort": 9}]},
            ],
        }),
        &json!({"phase": "Running", "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]}),
    );
    assert_eq!((facts.key.to_string(), facts.uid.as_str()), ("shop/a".to_owned(), "u-1"));
    assert_eq!(facts.ips, ["10.0.0.1".parse::<IpAddr>().unwrap(), "fd00::1".parse().unwrap()]);
    assert_eq!(facts.port_named("web", Protocol::Tcp), Some(8080));
    assert_eq!(facts.port_named("dns", Protocol::Udp), Some(53));
    assert_eq!(facts.port_named("setup", Protocol::Tcp), None);
    assert!(facts.host_network && !facts.terminating && !facts.finished);
    assert_eq!(facts.labels.get("app"), Some("web"));
    assert_eq!(facts.created, 1_767_323_045);
}

#[test]
fn a_pod_with_odd_fields_is_read_as_far_as_it_goes() {
    let facts = pod(&json!({"containers": [{}]}), &json!({"phase": "Failed", "podIP": "not an ip"}));
    assert!(facts.ips.is_empty() && facts.finished);
}

#[test]
fn a_deletion_counts_and_a_port_does_not_whatever_odd_value_they_have() {
    let pod = json!({
        "metadata": {"name": "a", "namespace": "shop", "uid": "u-1", "labels": {"app": null, "zone": "a"},
            "creationTimestamp": "some day", "deletionTimestamp": "soon"},
        "spec": {"containers": [{"ports": [
            {"name": "negative", "containerPort": -1}, {"name": "huge", "containerPort": 9_999_999_999_i64}]}]},
        "status": {"phase": "SomethingNew"},
    });
    let facts = serde_json::from_value::<SlimPod>(pod).unwrap().into_facts().unwrap();
    assert!(facts.terminating && !facts.finished && facts.ports.is_empty());
    assert_eq!((facts.created, facts.labels.get("zone"), facts.labels.get("app")), (0, Some("a"), None));
}

#[test]
fn readiness_is_ready_containers_and_every_gate_but_our_own() {
    let gates = json!({"containers": [], "readinessGates": [
        {"conditionType": "headgate.dev/target-health"}, {"conditionType": "example.com/warm"},
    ]});
    let conditions = |containers: &str, warm: &str| {
        json!({"conditions": [
            {"type": "Ready", "status": "False"},
            {"type": "ContainersReady", "status": containers},
            {"type": "headgate.dev/target-health", "status": "False"},
            {"type": "example.com/warm", "status": warm},
        ]})
    };
    let read = |containers, warm| pod(&gates, &conditions(containers, warm)).readiness;
    assert!(read("True", "True").is_ready());
    assert_eq!(read("True", "False"), Readiness { containers: true, gates: false });
    assert_eq!(read("Unknown", "True"), Readiness { containers: false, gates: true });
    let fresh = pod(&gates, &json!({})).readiness;
    assert_eq!(fresh, Readiness::default(), "a gate without a condition is not true");
}

#[test]
fn how_a_pod_ends_and_what_is_written_of_its_leaving_are_read() {
    let sleeps = |seconds: i64| json!({"preStop": {"sleep": {"seconds": seconds}}});
    let read = |containers: serde_json::Value, grace: serde_json::Value, leaving: &str| {
        let pod = json!({
            "metadata": {"name": "a", "namespace": "shop", "uid": "u-1", "annotations": {
                "headgate.dev/hold": "20s", "headgate.dev/leaving": leaving, "other": "x",
                "headgate.dev/may-go": "u-1 EvictionAllowed at 2027-01-15T08:01:00Z",
            }},
            "spec": {"nodeName": "a1", "terminationGracePeriodSeconds": grace, "containers": containers,
                "initContainers": [{"name": "once"}, {"restartPolicy": "Always", "lifecycle": sleeps(30)}]},
        });
        serde_json::from_value::<SlimPod>(pod).unwrap().into_facts().unwrap()
    };
    let asked = "u-1 since 2027-01-15T08:00:00Z asked 2027-01-15T08:00:00Z";
    let held = json!([{"lifecycle": sleeps(20)}, {"lifecycle": sleeps(150)}]);
    let pod = read(held, json!(50), asked);
    assert_eq!(pod.ending, Ending { sleeps: 20, grace: 50 });
    assert!(pod.leaving.is_some_and(|leaving| leaving.is_out()) && pod.node.as_deref() == Some("a1"));
    let own =
        json!([{"lifecycle": sleeps(20)}, {"lifecycle": {"preStop": {"exec": {"command": ["sleep"]}}}}]);
    let pod = read(own, json!(null), &asked.replace("u-1", "u-0"));
    assert_eq!((pod.ending.sleeps, pod.ending.grace, pod.leaving), (0, 30, None));
    let wrapped = json!(["sh", "-c", "sleep 20; exec \"$@\"", "headgate-hold", "nginx", "-s", "quit"]);
    let own = json!([{"lifecycle": {"preStop": {"exec": {"command": wrapped}}}}]);
    assert_eq!(read(own, json!(50), "").ending, Ending { sleeps: 20, grace: 50 });
    for odd in [
        json!([]),
        json!([{"lifecycle": null}]),
        json!([{"lifecycle": {"preStop": {"exec": {"command": [null]}}}}]),
        json!([{"lifecycle": sleeps(-1)}]),
    ] {
        assert_eq!(read(odd, json!(-5), "").ending.grace, 0);
    }
}

#[test]
fn our_own_gate_is_read_with_what_it_says_and_what_was_expected() {
    let read = |gates: &serde_json::Value, conditions: &serde_json::Value| {
        pod(&json!({"containers": [], "readinessGates": gates}), &json!({"conditions": conditions})).gate
    };
    let ours = json!([{"conditionType": "headgate.dev/target-health"}, {"conditionType": "x/y"}]);
    let says = |status: &str| json!([{"type": "headgate.dev/target-health", "status": status, "message": "pod IP 10.0.0.1, fine"}]);
    let shown = |conditions| read(&ours, &conditions).unwrap().shown;
    assert_eq!(shown(json!([])), Shown::Missing);
    assert_eq!(shown(says("False")), Shown::Closed);
    assert_eq!(shown(says("True")), Shown::Open(Some("10.0.0.1".parse().unwrap())));
    let because = |reason: &str| {
        let mut conditions = says("True");
        conditions[0]["reason"] = json!(reason);
        read(&ours, &conditions).unwrap().unread
    };
    assert!(because("HealthUnread") && !because("TargetsHealthy"));
    assert_eq!(read(&json!([{"conditionType": "x/y"}]), &says("True")), None);
    let annotated = json!({
        "metadata": {"name": "a", "namespace": "shop", "uid": "u-1",
            "annotations": {"headgate.dev/expected-bindings": "blue:80", "x": "y"}},
        "spec": {"readinessGates": ours},
    });
    let facts = serde_json::from_value::<SlimPod>(annotated).unwrap().into_facts().unwrap();
    assert_eq!(facts.gate.unwrap().expected.as_deref(), Some("blue:80"));
}

#[test]
fn a_pod_that_goes_has_stopped_when_none_of_its_containers_runs() {
    let (runs, over) = (json!({"running": {"startedAt": "x"}}), json!({"terminated": {"exitCode": 0}}));
    let status = |states: &[&serde_json::Value]| -> Vec<_> {
        states.iter().map(|state| json!({"name": "c", "state": state})).collect()
    };
    let read = |goes: bool, main: &[&serde_json::Value], sidecars: &[&serde_json::Value]| {
        let mut pod = json!({
            "metadata": {"name": "a", "namespace": "shop", "uid": "u-1"},
            "status": {"containerStatuses": status(main), "initContainerStatuses": status(sidecars)},
        });
        if goes {
            pod["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z".into();
        }
        let facts = serde_json::from_value::<SlimPod>(pod).unwrap().into_facts().unwrap();
        assert_eq!(facts.has_ended(), facts.stopped);
        facts.stopped
    };
    let waits = json!({"waiting": {"reason": "CrashLoopBackOff"}});
    assert!(read(true, &[&over, &over], &[&over]) && read(true, &[&waits], &[]));
    assert!(!read(true, &[&over, &runs], &[]) && !read(true, &[&over], &[&runs]));
    assert!(!read(false, &[&over], &[]), "it will be started again");
    assert!(!read(true, &[], &[]), "nothing is known of its containers");
}

#[test]
fn a_pod_has_its_sandbox_as_the_condition_says_or_while_a_container_runs() {
    let read = |condition: Option<&str>, state: &serde_json::Value| {
        let conditions: Vec<_> = condition
            .iter()
            .map(|status| json!({"type": "PodReadyToStartContainers", "status": status}))
            .collect();
        let pod = json!({
            "metadata": {"name": "a", "namespace": "shop", "uid": "u-1"},
            "status": {"conditions": conditions, "containerStatuses": [{"name": "c", "state": state}]},
        });
        serde_json::from_value::<SlimPod>(pod).unwrap().into_facts().unwrap().has_sandbox
    };
    let (runs, waits) = (json!({"running": {}}), json!({"waiting": {"reason": "CrashLoopBackOff"}}));
    assert!(read(Some("True"), &waits) && read(Some("True"), &runs) && !read(Some("False"), &runs));
    assert!(read(None, &runs) && !read(None, &waits));
}

#[test]
fn the_hold_of_a_pod_is_its_own_annotation_if_that_can_be_read() {
    let read = |text: &str| {
        let pod = json!({"metadata": {"name": "a", "namespace": "shop", "uid": "u-1",
            "annotations": {"headgate.dev/hold": text, "x": "y"}}});
        serde_json::from_value::<SlimPod>(pod).unwrap().into_facts().unwrap().hold
    };
    assert_eq!((read("off"), read("90s"), read("soon")), (Some(Hold::Off), Some(Hold::For(90)), None));
}

/// How drain tools treat a pod with this controller and these tolerations.
fn owned(api_version: &str, kind: &str, tolerations: &serde_json::Value) -> PassedOver {
    let owners = json!([{"apiVersion": "v1", "kind": "ConfigMap"}, null,
        {"apiVersion": api_version, "kind": kind, "name": "x", "uid": "u", "controller": true}]);
    let pod = json!({
        "metadata": {"name": "a", "namespace": "shop", "uid": "u-1", "ownerReferences": owners},
        "spec": {"containers": [{}], "tolerations": tolerations},
    });
    serde_json::from_value::<SlimPod>(pod).unwrap().into_facts().unwrap().passed_over
}

#[test]
fn who_passes_over_a_pod_follows_from_its_controller_its_tolerations_and_what_it_says() {
    let all = PassedOver { by_all: true, by_cluster_api: true, ..PassedOver::default() };
    let none = PassedOver::default();
    for (api_version, kind, is) in [
        ("apps/v1", "DaemonSet", all),
        ("apps/v1beta9", "DaemonSet", all),
        ("apps.kruise.io/v1alpha1", "DaemonSet", PassedOver { by_all: false, ..all }),
        ("v1", "Node", PassedOver { by_cluster_api: false, ..all }),
        ("example.com/v1", "Node", none),
        ("apps/v1", "ReplicaSet", none),
        ("apps/v1", "StatefulSet", none),
    ] {
        assert_eq!(owned(api_version, kind, &json!(null)), is, "{api_version} {kind}");
    }
    let key = "karpenter.sh/disrupted";
    for (tolerations, is) in [
        (json!([{"operator": "Exists"}]), true),
        (json!([null, {"operator": "Exists", "effect": "NoSchedule"}]), true),
        (json!([{"key": "", "operator": "Exists", "effect": ""}]), true),
        (json!([{"key": key, "operator": "Exists"}]), true),
        (json!([{"key": key, "operator": "Equal", "value": ""}]), true),
        (json!([{"key": key}]), true),
        (json!([{"key": key, "operator": "Equal", "value": "x"}]), false),
        (json!([{"key": key, "operator": "Exists", "effect": "NoExecute"}]), false),
        (json!([{"key": "other", "operator": "Exists"}]), false),
        (json!([{}, {"operator": "Equal"}]), false),
        (json!([]), false),
    ] {
        assert_eq!(owned("apps/v1", "ReplicaSet", &tolerations).by_karpenter, is, "{tolerations}");
    }
    for (text, is) in [("true", true), ("false", false), ("", false), ("True", false)] {
        let annotations = json!({"cluster-autoscaler.kubernetes.io/daemonset-pod": text});
        let pod =
            json!({"metadata": {"name": "a", "namespace": "shop", "uid": "u-1", "annotations": annotations}});
        let facts = serde_json::from_value::<SlimPod>(pod).unwrap().into_facts().unwrap();
        let only = PassedOver { by_cluster_autoscaler: is, ..none };
        assert_eq!(facts.passed_over, only, "{text}");
    }
}

#[test]
fn a_pod_is_evicted_if_the_api_server_says_that_it_was_asked_for() {
    for (status, reason, is) in [
        ("True", "EvictionByEvictionAPI", true),
        ("False", "EvictionByEvictionAPI", false),
        ("True", "TerminationByKubelet", false),
        ("True", "PreemptionByScheduler", false),
    ] {
        let condition = json!({"type": "DisruptionTarget", "status": status, "reason": reason});
        let facts = pod(&json!({"containers": [{}]}), &json!({"conditions": [condition]}));
        assert_eq!(facts.is_evicted, is, "{status} {reason}");
    }
}

#[test]
fn what_of_a_pod_exceeds_a_bound_is_not_read_and_the_rest_is() {
    let ports: Vec<_> =
        (1..=300).map(|port| json!({"name": format!("p{port}"), "containerPort": port})).collect();
    let labels: serde_json::Map<String, serde_json::Value> =
        (0..50_000).map(|at| (format!("k{at:05}"), json!("x"))).collect();
    let object = json!({
        "metadata": {
            "name": "a", "namespace": "shop", "uid": "u-1", "labels": labels,
            "annotations": {"headgate.dev/expected-bindings": "x".repeat(9000)},
        },
        "spec": {
            "containers": [{"name": "c", "ports": ports}],
            "readinessGates": [{"conditionType": "headgate.dev/target-health"}],
        },
        "status": {"podIP": "10.0.0.1"},
    });
    let facts = serde_json::from_value::<SlimPod>(object).unwrap().into_facts().unwrap();
    let limits: Vec<&str> = facts.beyond.iter().map(|excess| excess.limit.what).collect();
    assert_eq!(limits, ["headgate.dev/expected-bindings", "named ports of a pod", "the labels of a pod"]);
    assert!(facts.labels.is_empty() && facts.gate.unwrap().expected.is_none());
    assert_eq!((facts.ports.len(), facts.ips.len()), (256, 1));
}

#[test]
fn ten_thousand_gates_and_conditions_are_read_in_one_walk() {
    let gates: Vec<_> = (0..10_000).map(|at| json!({"conditionType": format!("example.com/{at}")})).collect();
    let mut conditions: Vec<_> =
        (0..10_000).map(|at| json!({"type": format!("example.com/{at}"), "status": "True"})).collect();
    conditions.push(json!({"type": "ContainersReady", "status": "True"}));
    let read = |conditions: &[serde_json::Value]| {
        pod(&json!({"readinessGates": gates}), &json!({"conditions": conditions})).readiness
    };
    assert!(read(&conditions).is_ready());
    conditions[9_999]["status"] = json!("False");
    assert!(!read(&conditions).is_ready());
}
