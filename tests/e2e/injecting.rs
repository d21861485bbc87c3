//! The changes that the webhook makes to new pods.

use headgate_harness::{
    injection::{Stage, create, injected},
    other_webhook::{Does, OtherWebhook, SIDECAR},
    scenario::{Scenario, http_port},
    shared_world::{beside_others, on},
    wait,
    webhook::{Configuration, bare_pod, dry_run_create, manifest},
};
use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
use kube::api::{ListParams, PostParams};
use localstack_world::Nodes;
use serde_json::{Value, json};

fn is_untouched(pod: &Value) -> bool {
    injected(pod).is_none()
        && pod["spec"]["readinessGates"].is_null()
        && pod["spec"]["containers"][0]["lifecycle"].is_null()
        && pod["spec"]["terminationGracePeriodSeconds"] == 30
}

#[test]
fn new_pods_of_a_labelled_namespace_get_gate_and_hold_and_others_nothing() {
    beside_others(|world| async move {
        let stage = Stage::new(world, "inject").await;
        let Stage { s, labelled, plain } = &stage;
        let group = s.group("web").await;
        labelled.service("web", "web", http_port(), Some(&format!("http={}", group.name))).await;
        let headgate = stage.headgate(&[]).await;
        let configuration = Configuration::install(s, &[&headgate]).await;
        wait::until("the binding is in force", || async {
            let shown = headgate.probe("/debug/bindings").await?;
            if shown.contains(&group.arn) { Ok(()) } else { Err(shown) }
        })
        .await;
        // The API server follows its configurations by a watch.
        let web = bare_pod("probe", &json!({"app": "web"}));
        wait::until("the API server asks", || async {
            let pod = create(labelled, &web, true).await;
            if injected(&pod).is_some() { Ok(()) } else { Err(headgate.text()) }
        })
        .await;

        let pod = create(labelled, &bare_pod("bound", &json!({"app": "web"})), false).await;
        assert_eq!(pod["spec"]["readinessGates"], json!([{"conditionType": "headgate.dev/target-health"}]));
        assert_eq!(pod["spec"]["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"], 150);
        assert_eq!(pod["spec"]["terminationGracePeriodSeconds"], 180);
        assert_eq!(injected(&pod), Some("GateAdded; HoldAdded: 150s in web (NLB); GraceRaised: 180s"));
        let expected = pod["metadata"]["annotations"]["headgate.dev/expected-bindings"].as_str();
        assert_eq!(expected, Some(format!("{}:8080", group.name).as_str()));

        wait::until("the gate that was added opens", || async {
            let pod = labelled.api::<Pod>().get("bound").await.unwrap();
            let conditions = pod.status.and_then(|status| status.conditions).unwrap_or_default();
            let ready = conditions.iter().any(|is| is.type_ == "Ready" && is.status == "True");
            if ready { Ok(()) } else { Err(conditions) }
        })
        .await;

        let mut own = bare_pod("own", &json!({"app": "other"}));
        let pre_stop = json!({"preStop": {"exec": {"command": ["nginx", "-s", "quit"]}}});
        own["spec"]["containers"][0]["lifecycle"] = pre_stop.clone();
        own["spec"]["initContainers"] =
            json!([{"name": "proxy", "image": "headgate.local/web:1", "restartPolicy": "Always"}]);
        own["metadata"]["annotations"] = json!({"headgate.dev/hold": "7s"});
        let pod = create(labelled, &own, true).await;
        assert_eq!(pod["spec"]["containers"][0]["lifecycle"], pre_stop);
        assert_eq!(pod["spec"]["initContainers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"], 7);
        assert_eq!(pod["spec"]["terminationGracePeriodSeconds"], 37);

        assert!(is_untouched(&create(plain, &web, true).await));
        let asks = bare_pod("asks", &json!({"headgate.dev/inject": "true"}));
        assert!(injected(&create(plain, &asks, true).await).is_some(), "the pod's own label is enough");
        let refuses = bare_pod("refuses", &json!({"headgate.dev/inject": "false"}));
        assert!(is_untouched(&create(labelled, &refuses, true).await));

        let counted = headgate.metric("headgate_injections_total{decision=\"GateAdded\"}").await;
        assert_eq!(counted, Some(1.0), "dry runs do not count");
        configuration.remove().await;
    });
}

#[test]
fn a_container_that_another_webhook_adds_after_headgate_is_held_too_and_nothing_is_given_twice() {
    beside_others(|world| async move {
        let stage = Stage::new(world, "inject-two").await;
        let headgate = stage.headgate(&[]).await;
        let configuration = Configuration::install(&stage.s, &[&headgate]).await;
        // The API server calls webhooks in the order of their names: Headgate, this one, and Headgate again.
        let name = format!("{}-later", configuration.name);
        let later =
            OtherWebhook::install(&stage.s.cluster.client, &name, &configuration.label, Does::AddsContainer)
                .await;
        let pod = bare_pod("web", &json!({}));
        let tried = wait::until("the API server asks both", || async {
            let tried = create(&stage.labelled, &pod, true).await;
            if tried["spec"]["containers"][1]["name"] == SIDECAR { Ok(tried) } else { Err(tried) }
        })
        .await;
        let made = create(&stage.labelled, &pod, false).await;
        for pod in [&tried, &made] {
            for container in pod["spec"]["containers"].as_array().unwrap() {
                assert_eq!(container["lifecycle"]["preStop"]["sleep"]["seconds"], 150, "{pod}");
            }
            assert_eq!(pod["spec"]["terminationGracePeriodSeconds"], 180);
            assert_eq!(
                pod["spec"]["readinessGates"],
                json!([{"conditionType": "headgate.dev/target-health"}])
            );
            let why = "no binding known, so as for an NLB";
            let said = format!("GateAdded; HoldAdded: 150s in web, {SIDECAR} ({why}); GraceRaised: 180s");
            assert_eq!(injected(pod), Some(&*said));
        }
        for reason in ["GateAdded", "HoldAdded", "GraceRaised"] {
            let counted =
                headgate.metric(&format!("headgate_injections_total{{decision=\"{reason}\"}}")).await;
            assert_eq!(counted, Some(1.0), "{reason} counts once");
        }
        later.remove().await;
        configuration.remove().await;
    });
}

#[test]
fn with_every_replica_down_pods_are_created_all_the_same() {
    beside_others(|world| async move {
        let stage = Stage::new(world, "inject-down").await;
        let (first, second) = (stage.headgate(&[]).await, stage.headgate(&[]).await);
        let configuration = Configuration::install(&stage.s, &[&first, &second]).await;
        let pod = bare_pod("web", &json!({}));
        wait::until("the API server asks", || async {
            let pod = create(&stage.labelled, &pod, true).await;
            if injected(&pod).is_some() { Ok(()) } else { Err(first.text() + &second.text()) }
        })
        .await;
        first.kill().await;
        let pod_now = create(&stage.labelled, &pod, true).await;
        assert!(injected(&pod_now).is_some(), "the standby answers too");
        second.kill().await;
        assert!(is_untouched(&create(&stage.labelled, &pod, false).await));
        configuration.remove().await;
    });
}

#[test]
fn the_configuration_that_users_apply_stops_no_pod_and_asks_for_as_few_as_can_be() {
    beside_others(|world| async move {
        let s = Scenario::new(world, "inject-yaml").await;
        let configuration = manifest();
        let entries = configuration.webhooks.clone().unwrap();
        assert_eq!(entries.len(), 2);
        for entry in &entries {
            assert_eq!(entry.failure_policy.as_deref(), Some("Ignore"));
            assert_eq!((entry.timeout_seconds, &*entry.side_effects), (Some(2), "None"));
            assert!(entry.name.ends_with(".inject.headgate.dev"));
            let namespaces = entry.namespace_selector.as_ref().unwrap().match_expressions.as_ref().unwrap();
            let excluded = namespaces.iter().find(|rule| rule.key == "kubernetes.io/metadata.name").unwrap();
            let values = excluded.values.as_ref().unwrap();
            assert_eq!(excluded.operator, "NotIn");
            for own in ["headgate", "kube-system"] {
                assert!(values.iter().any(|value| value == own), "{own} is never asked about");
            }
            let rule = &entry.rules.as_ref().unwrap()[0];
            assert_eq!(rule.resources.as_deref(), Some(&["pods".to_owned()][..]));
            assert_eq!(rule.operations.as_deref(), Some(&["CREATE".to_owned()][..]));
        }
        dry_run_create(s.cluster.client.clone(), &configuration).await.unwrap();
    });
}

/// Run by `.ci/run` and not by `make test`.
mod more {
    use super::*;

    #[test]
    fn a_held_container_that_hangs_starts_again_long_before_its_hold_is_over() {
        on(Nodes::Real, "a held container whose liveness probe fails", |world| async move {
            let stage = Stage::new(world, "hangs").await;
            let headgate = stage.headgate(&[]).await;
            let configuration = Configuration::install(&stage.s, &[&headgate]).await;
            let mut hangs = bare_pod("hangs", &json!({"app": "hangs"}));
            // Nothing listens there.
            let probe = json!({"tcpSocket": {"port": 9}, "periodSeconds": 1, "failureThreshold": 1});
            hangs["spec"]["containers"][0]["livenessProbe"] = probe;
            wait::until("the API server asks", || async {
                let pod = create(&stage.labelled, &hangs, true).await;
                if injected(&pod).is_some() { Ok(()) } else { Err(headgate.text()) }
            })
            .await;

            let pod = create(&stage.labelled, &hangs, false).await;
            let container = &pod["spec"]["containers"][0];
            assert_eq!(container["lifecycle"]["preStop"]["sleep"]["seconds"], 150);
            assert_eq!(container["livenessProbe"]["terminationGracePeriodSeconds"], 5);
            let said = injected(&pod).unwrap();
            assert!(
                said.ends_with("GraceRaised: 180s; ProbeGraceAdded: 5s for livenessProbe of web"),
                "{said}"
            );
            // The kubelet waits for less time than the hold takes.
            wait::until("the container has started again", || async {
                let pod = stage.labelled.api::<Pod>().get("hangs").await.unwrap();
                let statuses = pod.status.and_then(|status| status.container_statuses).unwrap_or_default();
                if statuses.iter().any(|is| is.restart_count > 0) { Ok(()) } else { Err(statuses) }
            })
            .await;
            configuration.remove().await;
        });
    }

    #[test]
    fn beside_an_ingress_a_job_and_a_database_are_not_held_under_the_label_of_their_namespace() {
        beside_others(|world| async move {
            let stage = Stage::new(world, "not-held").await;
            let Stage { s, labelled, .. } = &stage;
            let group = s.group("web").await;
            labelled.service("web", "web", http_port(), Some(&format!("http={}", group.name))).await;
            let headgate = stage.headgate(&[]).await;
            let configuration = Configuration::install(s, &[&headgate]).await;
            let of = |name: &str, app: &str| bare_pod(name, &json!({"app": app}));
            wait::until("the API server asks", || async {
                let pod = create(labelled, &of("probe", "web"), true).await;
                let said = injected(&pod).unwrap_or_default();
                if said.contains("(NLB)") { Ok(()) } else { Err(headgate.text()) }
            })
            .await;

            let job = json!({
                "metadata": {"name": "nightly"},
                "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": of("x", "y")["spec"]["containers"]}}},
            });
            let job: Job = serde_json::from_value(job).unwrap();
            labelled.api::<Job>().create(&PostParams::default(), &job).await.unwrap();
            let of_job = wait::until("the Job has made its pod", || async {
                let pods =
                    labelled.api::<Pod>().list(&ListParams::default().labels("job-name=nightly")).await;
                pods.unwrap().items.pop().ok_or(())
            })
            .await;
            let of_job = serde_json::to_value(of_job).unwrap();
            assert_eq!(injected(&of_job), Some("HoldNotNeeded: a Job made it"));
            assert_eq!(of_job["spec"]["readinessGates"], Value::Null);
            assert_eq!(of_job["spec"]["terminationGracePeriodSeconds"], 30);

            // The first pod may belong to an ingress whose Service will be created soon.
            let first = create(labelled, &of("db-0", "db"), false).await;
            assert!(injected(&first).unwrap().starts_with("GateAdded; HoldAdded: 150s in web"), "{first}");
            wait::until("others of the same workload are left out", || async {
                let pod = create(labelled, &of("db-1", "db"), true).await;
                let spared = injected(&pod) == Some("HoldNotNeeded: no binding selects it");
                if spared && pod["spec"]["terminationGracePeriodSeconds"] == 30 { Ok(()) } else { Err(pod) }
            })
            .await;
            let web = create(labelled, &of("web", "web"), true).await;
            assert!(injected(&web).unwrap().contains("HoldAdded: 150s in web (NLB)"), "{web}");
            let new = create(labelled, &of("new", "new"), true).await;
            assert!(injected(&new).unwrap().contains("HoldAdded"), "{new}");
            let mut asks = of("asks", "db");
            asks["metadata"]["labels"]["headgate.dev/inject"] = "true".into();
            let asks = create(labelled, &asks, true).await;
            assert!(injected(&asks).unwrap().contains("HoldAdded"), "{asks}");
            configuration.remove().await;
        });
    }
}
