//! More shapes: copied pods with stale annotations, Services whose ports change, and platform requirements for pods.

use std::collections::BTreeSet;

use headgate_harness::{
    cluster::pod_spec,
    injection::{Stage, create, injected},
    scenario::{Scenario, http_port, targets},
    shared_world::beside_others,
    wait,
    webhook::{Configuration, bare_pod},
};
use k8s_openapi::api::core::v1::{LimitRange, Pod, Service};
use kube::{
    ResourceExt,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::{Value, json};

#[test]
fn a_pod_that_was_copied_with_its_notes_gate_and_finalizer_begins_anew() {
    beside_others(|world| async move {
        let s = Scenario::new(world, "copied").await;
        let group = s.group("web").await;
        s.cluster.service("web", "web", http_port(), Some(&format!("http={}", group.name))).await;
        let headgate = s.headgate().await;
        let other = "0b2e6a54-6f7d-4a2c-9d38-3a5f2c1b0a99";
        let mut spec = pod_spec(&[("http", 8080)]);
        spec["readinessGates"] = json!([{"conditionType": "headgate.dev/target-health"}]);
        let since = "2026-11-01T08:00:00Z";
        let copy = json!({
            "metadata": {
                "name": "copy", "labels": {"app": "web"}, "finalizers": ["example.com/kept"],
                "annotations": {
                    "headgate.dev/leaving": format!("{other} since {since} asked {since}"),
                    "headgate.dev/deregistered-at": format!("{other} {since} bound 120s"),
                    "headgate.dev/may-go": format!("{other} EvictionAllowed at {since}"),
                },
            },
            "spec": spec,
            "status": {"phase": "Running", "conditions": [
                {"type": "headgate.dev/target-health", "status": "True", "reason": "TargetsHealthy"},
            ]},
        });
        s.cluster.create::<Pod>(copy).await;
        let running = s.wait_registered(&group, "web", 1, 8080).await;
        s.cluster.wait_gates("web", 1, "True", "TargetsHealthy").await;
        assert_eq!(s.aws.calls("DeregisterTargets", &group.name).await, []);

        // Its finalizer keeps the object after the pod has ended. The address is deregistered at the deletion and is
        // not registered again.
        s.cluster.api::<Pod>().delete("copy", &DeleteParams::default().grace_period(1)).await.unwrap();
        s.wait_targets(&group, &BTreeSet::new()).await;
        s.cluster.pod("next", "web", &[("http", 8080)]).await;
        let next = wait::until("the next pod runs", || async {
            let mut pods = s.cluster.running("web").await;
            pods.retain(|name, _| name == "next");
            if pods.len() == 1 { Ok(pods) } else { Err(pods) }
        })
        .await;
        s.wait_targets(&group, &targets(&next, 8080)).await;
        let left = s.cluster.api::<Pod>().get("copy").await.unwrap();
        assert!(left.finalizers() == ["example.com/kept"] && running.len() == 1, "{}", headgate.text());
        let gone = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        s.cluster.api::<Pod>().patch("copy", &PatchParams::default(), &gone).await.unwrap();
        wait::until("the object goes", || async {
            match s.cluster.api::<Pod>().get_opt("copy").await.unwrap() {
                None => Ok(()),
                Some(left) => Err(left.metadata),
            }
        })
        .await;
        assert_eq!(s.aws.registered(&group.arn).await, targets(&next, 8080));
    });
}

#[test]
fn a_service_whose_ports_change_takes_its_targets_along_or_says_why_not() {
    beside_others(|world| async move {
        let s = Scenario::new(world, "ports").await;
        let group = s.group("web").await;
        s.cluster.deploy("web", 2, &[("http", 8080), ("other", 9090)]).await;
        s.cluster.service("web", "web", http_port(), Some(&format!("http={}", group.name))).await;
        let _headgate = s.headgate().await;
        let pods = s.wait_registered(&group, "web", 2, 8080).await;
        let (at_first, at_other) = (targets(&pods, 8080), targets(&pods, 9090));
        let set = async |port: Value| {
            s.cluster.patch::<Service>("web", &json!({"spec": {"ports": [port]}})).await;
        };

        // The name differs from the annotation: the last valid state remains in force until the annotation follows.
        set(json!({"name": "renamed", "port": 80, "targetPort": 8080})).await;
        s.cluster
            .wait_warning(
                "web",
                "InvalidBinding",
                "names port \"http\", which the Service lacks. Name one of: renamed",
            )
            .await;
        s.cluster.annotate("web", Some(&format!("renamed={}", group.name))).await;
        // A protocol that the target group does not support.
        set(json!({"name": "renamed", "port": 80, "targetPort": 8080, "protocol": "UDP"})).await;
        s.cluster.wait_warning("web", "TargetGroupUnsupported", "UDP").await;
        assert_eq!(s.aws.registered(&group.arn).await, at_first);
        assert_eq!(s.aws.calls("DeregisterTargets", &group.name).await, [], "nothing went until now");

        // Another pod port: the new targets become healthy before the old ones are deregistered.
        set(json!({"name": "renamed", "port": 80, "targetPort": 9090, "protocol": "TCP"})).await;
        s.wait_targets(&group, &at_other).await;

        // Deleted and created again: headless, with other ports.
        let services = s.cluster.api::<Service>();
        services.delete("web", &DeleteParams::default()).await.unwrap();
        let headless = json!({
            "metadata": {
                "name": "web", "annotations": {"headgate.dev/target-groups": format!("8000={}", group.name)},
            },
            "spec": {"clusterIP": "None", "selector": {"app": "web"}, "ports": [
                {"name": "a", "port": 8000, "targetPort": "http"},
            ]},
        });
        s.cluster.create::<Service>(headless).await;
        s.wait_targets(&group, &at_first).await;
    });
}

/// A container that meets Pod Security's level `restricted`.
fn restricted(pod: &mut Value) {
    pod["spec"]["containers"][0]["securityContext"] = json!({
        "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}, "runAsNonRoot": true,
        "seccompProfile": {"type": "RuntimeDefault"},
    });
}

#[test]
fn where_pod_security_and_a_limit_range_are_strict_pods_get_what_they_may_have() {
    beside_others(|world| async move {
        let stage = Stage::new(world, "strict").await;
        let Stage { s, labelled, .. } = &stage;
        let level = json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}});
        let namespaces: kube::Api<k8s_openapi::api::core::v1::Namespace> =
            kube::Api::all(s.cluster.client.clone());
        let patch = Patch::Merge(&level);
        namespaces.patch(&labelled.namespace, &PatchParams::default(), &patch).await.unwrap();
        labelled
            .create::<LimitRange>(json!({"metadata": {"name": "limits"}, "spec": {"limits": [
                {"type": "Container", "default": {"memory": "64Mi"}, "max": {"memory": "128Mi"}},
            ]}}))
            .await;
        let headgate = stage.headgate(&["--hold-image=headgate.local/hold:1"]).await;
        let configuration = Configuration::install(s, &[&headgate]).await;
        let mut pod = bare_pod("web", &json!({"app": "web"}));
        restricted(&mut pod);
        let made = wait::until("the API server asks", || async {
            let made = create(labelled, &pod, true).await;
            if injected(&made).is_some() { Ok(made) } else { Err(made) }
        })
        .await;
        assert_eq!(made["spec"]["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"], 150);
        assert_eq!(made["spec"]["containers"][0]["resources"]["limits"]["memory"], "64Mi");

        // One hook that a shell script can delay, and one for which a program of Headgate would have to be mounted.
        pod["metadata"]["annotations"] = json!({"headgate.dev/own-prestop": "wrap"});
        for (hook, said) in [
            (json!({"exec": {"command": ["/bin/sh", "-c", "nginx -s quit"]}}), "OwnPreStopWrapped"),
            (json!({"exec": {"command": ["/wait-shutdown"]}}), "OwnPreStop"),
        ] {
            pod["spec"]["containers"][0]["lifecycle"] = json!({"preStop": hook});
            let made = create(labelled, &pod, true).await;
            assert!(injected(&made).unwrap().contains(said), "{made}");
        }
        configuration.remove().await;
    });
}
