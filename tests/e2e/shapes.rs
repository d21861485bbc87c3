//! Realistic shapes of pods, Services and policies, each with the real program.

use std::{collections::BTreeSet, time::Duration};

use aws_sdk_elasticloadbalancingv2::types::{ProtocolEnum, TargetTypeEnum};
use headgate_harness::{
    cluster::pod_spec,
    forward_proxy::ForwardProxy,
    headgate::{Headgate, command},
    injection::{Stage, create, injected},
    other_webhook::{Does, OtherWebhook},
    scenario::{Scenario, http_port, targets},
    shared_world::beside_others,
    wait,
    webhook::{Configuration, bare_pod},
};
use k8s_openapi::api::{
    admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding},
    apps::v1::Deployment,
    core::v1::Service,
};
use kube::{
    Api,
    api::{DeleteParams, PostParams},
};
use serde_json::{Value, json};

/// A Service on port 8080 for the pods of `web`, in force, and the webhook for new pods.
async fn bound(stage: &Stage, arguments: &[&str]) -> (Headgate, Configuration) {
    let Stage { s, labelled, .. } = stage;
    let group = s.group("web").await;
    labelled.service("web", "web", http_port(), Some(&format!("http={}", group.name))).await;
    let headgate = stage.headgate(arguments).await;
    let configuration = Configuration::install(s, &[&headgate]).await;
    wait::until("the binding is in force, and the API server asks", || async {
        let shown = headgate.probe("/debug/bindings").await?;
        let pod = create(labelled, &bare_pod("probe", &json!({"app": "web"})), true).await;
        let is_bound = injected(&pod).is_some_and(|said| said.contains("(NLB)"));
        if shown.contains(&group.arn) && is_bound { Ok(()) } else { Err(shown) }
    })
    .await;
    (headgate, configuration)
}

/// A pod of `web` whose container has this `preStop` hook.
fn with_hook(hook: &Value) -> Value {
    let mut pod = bare_pod("shape", &json!({"app": "web"}));
    pod["spec"]["containers"][0]["lifecycle"] = json!({"preStop": hook});
    pod["spec"]["containers"][0]["ports"] = json!([{"containerPort": 8080}]);
    pod
}

#[test]
fn each_shape_of_a_hook_is_raised_or_left_and_said() {
    beside_others(|world| async move {
        let stage = Stage::new(world, "hooks").await;
        let (headgate, configuration) = bound(&stage, &["--hold-image=headgate.local/hold:1"]).await;
        let exec = |command: &[&str]| json!({"exec": {"command": command}});
        for sleeps in [
            exec(&["sleep", "15"]),
            exec(&["sh", "-c", "sleep 15"]),
            exec(&["/bin/sh", "-c", "sleep 15s"]),
            exec(&["bash", "-lc", "sleep 15"]),
            exec(&["/usr/bin/env", "sleep", "15"]),
            exec(&["sh", "-c", "trap '' TERM; sleep 10; sleep 5"]),
            json!({"sleep": {"seconds": 15}}),
        ] {
            let pod = create(&stage.labelled, &with_hook(&sleeps), true).await;
            let lifecycle = &pod["spec"]["containers"][0]["lifecycle"];
            assert_eq!(lifecycle, &json!({"preStop": {"sleep": {"seconds": 150}}}), "{sleeps}");
            assert_eq!(pod["spec"]["terminationGracePeriodSeconds"], 180);
            assert!(injected(&pod).unwrap().contains("OwnSleepRaised: web from 15s"), "{sleeps}: {pod}");
        }
        let forever = create(&stage.labelled, &with_hook(&exec(&["sleep", "infinity"])), true).await;
        assert!(injected(&forever).unwrap().contains("OwnSleepRaised: web from 30s"), "{forever}");
        for own in [exec(&["sh", "-c", "sleep 15; nginx -s quit"]), exec(&["nginx", "-s", "quit"])] {
            let pod = create(&stage.labelled, &with_hook(&own), true).await;
            assert_eq!(pod["spec"]["containers"][0]["lifecycle"]["preStop"]["exec"], own["exec"]);
            assert!(injected(&pod).unwrap().contains("OwnPreStop: web"), "{pod}");
        }

        // A native sidecar, like in a mesh, with the port and its own hook: the Service gets an Event.
        let mut mesh = bare_pod("mesh", &json!({"app": "web"}));
        mesh["spec"]["schedulerName"] = "nobody".into();
        mesh["spec"]["initContainers"] = json!([{
            "name": "proxy", "image": "headgate.local/web:1", "restartPolicy": "Always",
            "ports": [{"containerPort": 8080}],
            "lifecycle": {"preStop": exec(&["pilot-agent", "drain"])},
        }]);
        let pod = create(&stage.labelled, &mesh, false).await;
        assert!(injected(&pod).unwrap().contains("OwnPreStop: proxy"), "{pod}");
        stage.labelled.wait_warning("web", "HoldMissing", "container proxy has its own preStop").await;

        // Windows by its node selector, and another runtime: no Linux program can be added.
        for (spec, why) in [
            (json!({"nodeSelector": {"kubernetes.io/os": "windows"}}), "the pod may run on Windows"),
            (
                json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [
                    {"key": "kubernetes.io/os", "operator": "In", "values": ["windows"]}]}]}}}}),
                "the pod may run on Windows",
            ),
        ] {
            let mut pod = with_hook(&exec(&["powershell", "-c", "drain"]));
            pod["metadata"]["annotations"] = json!({"headgate.dev/own-prestop": "wrap"});
            for (field, value) in spec.as_object().unwrap() {
                pod["spec"][field] = value.clone();
            }
            let pod = create(&stage.labelled, &pod, true).await;
            assert!(
                pod["spec"]["volumes"]
                    .as_array()
                    .is_none_or(|all| all.iter().all(|it| it["image"].is_null()))
            );
            assert!(injected(&pod).unwrap().contains(&format!("OwnPreStopNotWrapped: web: {why}")), "{pod}");
        }

        // A copied pod with stale annotations gets what it needs here.
        let mut copied = with_hook(&json!({"sleep": {"seconds": 45}}));
        copied["spec"]["terminationGracePeriodSeconds"] = 75.into();
        copied["metadata"]["annotations"] =
            json!({"headgate.dev/injected": "GateAdded; HoldAdded: 45s in web (ALB); GraceRaised: 75s"});
        for (hold, seconds) in [(None, 150), (Some("200s"), 200)] {
            if let Some(hold) = hold {
                copied["metadata"]["annotations"]["headgate.dev/hold"] = hold.into();
            }
            let pod = create(&stage.labelled, &copied, true).await;
            let hook = &pod["spec"]["containers"][0]["lifecycle"]["preStop"];
            assert_eq!(hook, &json!({"sleep": {"seconds": seconds}}));
            assert_eq!(pod["spec"]["terminationGracePeriodSeconds"], 30 + seconds);
        }
        drop(headgate);
        configuration.remove().await;
    });
}

#[test]
fn a_list_says_what_is_bound_and_a_service_that_selects_no_pods_keeps_its_targets() {
    beside_others(|world| async move {
        let s = Scenario::new(world, "lists").await;
        let (kept, ended) = (s.group("kept").await, s.group("ended").await);
        s.cluster.deploy("web", 2, &[("http", 8080)]).await;
        let lines = format!("http={},\n  80={}\n", kept.name, ended.name);
        s.cluster.service("web", "web", http_port(), Some(&lines)).await;
        let _headgate = s.headgate().await;
        let two = s.cluster.wait_running("web", 2).await;
        for group in [&kept, &ended] {
            s.wait_targets(group, &targets(&two, 8080)).await;
        }
        // With a trailing comma and an invalid part, only named target groups remain in force.
        s.cluster.annotate("web", Some(&format!("http={},", kept.name))).await;
        s.wait_targets(&ended, &BTreeSet::new()).await;
        s.cluster.annotate("web", Some(&format!("[\"http={}\"]", kept.name))).await;
        s.cluster.wait_warning("web", "InvalidBinding", "has brackets, braces or quotes").await;
        assert_eq!(s.aws.registered(&kept.arn).await, targets(&two, 8080), "nothing of it can be read");
        s.cluster.annotate("web", Some(&format!("http={}", kept.name))).await;

        // The name now refers to something else: current targets remain until their pods terminate, and no new ones are
        // added.
        let external =
            json!({"spec": {"type": "ExternalName", "externalName": "web.example.com", "clusterIP": null}});
        s.cluster.patch::<Service>("web", &external).await;
        s.cluster.wait_warning("web", "InvalidBinding", "type ExternalName and selects no pods").await;
        s.cluster.scale("web", 3).await;
        let three = s.cluster.wait_running("web", 3).await;
        // Headgate sees the change after the third pod got its address, so it also sees that the pod was not
        // registered.
        s.cluster.annotate("web", Some(&format!("http={},other=x", kept.name))).await;
        s.cluster.wait_warning("web", "InvalidBinding", "part \"other=x\"").await;
        assert_eq!(s.aws.registered(&kept.arn).await, targets(&two, 8080));
        let (first, _) = two.first_key_value().unwrap();
        s.cluster.delete_pod(first, 1).await;
        let mut rest = two.clone();
        rest.retain(|name, _| name != first);
        s.wait_targets(&kept, &targets(&rest, 8080)).await;
        s.cluster
            .patch::<Service>("web", &json!({"spec": {"type": "ClusterIP", "externalName": null}}))
            .await;
        let now = s.cluster.wait_running("web", 3).await;
        assert_eq!(three.len(), now.len());
        s.wait_targets(&kept, &targets(&now, 8080)).await;
    });
}

#[test]
fn a_port_number_of_tcp_and_udp_means_what_the_target_group_can_take() {
    beside_others(|world| async move {
        let s = Scenario::new(world, "dns").await;
        s.cluster.deploy("dns", 1, &[("dns", 53)]).await;
        let ports = json!([
            {"name": "dns-tcp", "port": 53, "protocol": "TCP", "targetPort": 53},
            {"name": "dns-udp", "port": 53, "protocol": "UDP", "targetPort": 53},
        ]);
        let mut arns = Vec::new();
        for (name, protocol) in
            [("udp", ProtocolEnum::Udp), ("both", ProtocolEnum::TcpUdp), ("tcp", ProtocolEnum::Tcp)]
        {
            arns.push(s.aws.bare_group(&s.name(name), TargetTypeEnum::Ip, protocol).await);
        }
        let list: Vec<String> = arns.iter().map(|arn| format!("53={arn}")).collect();
        s.cluster.service("dns", "dns", ports, Some(&list.join(","))).await;
        let _headgate = s.headgate().await;
        let pods = s.cluster.wait_running("dns", 1).await;
        for arn in &arns {
            wait::until_equal("the pod is a target", &targets(&pods, 53), || s.aws.registered(arn)).await;
        }
        assert_eq!(s.cluster.warnings("dns").await, BTreeSet::new());
    });
}

#[test]
fn the_proxy_of_a_kubeconfig_is_used_as_by_kubectl() {
    beside_others(|world| async move {
        let s = Scenario::new(world, "proxies").await;
        let group = s.web(1).await;
        let proxy = ForwardProxy::start().await;
        let only = format!("--namespaces={}", s.cluster.namespace);
        for scheme in ["http", "socks5"] {
            let kubeconfig = proxy.kubeconfig(s.facts(), &s.facts().folder, scheme);
            let before = proxy.led();
            let _headgate = Headgate::start(s.facts(), &kubeconfig, &[&only]).await;
            s.wait_registered(&group, "web", 1, 8080).await;
            let (by_http, by_socks) = proxy.led();
            assert_eq!((by_http > before.0, by_socks > before.1), (scheme == "http", scheme == "socks5"));
        }
    });
}

/// Run by `.ci/run` and not by `make test`.
mod more {
    use super::*;

    /// A policy of the platform: pods in namespaces with the label have a maximum grace period.
    struct Capped {
        policies: Api<ValidatingAdmissionPolicy>,
        bindings: Api<ValidatingAdmissionPolicyBinding>,
        name: String,
    }

    impl Capped {
        async fn install(s: &Scenario, label: &str) -> Self {
            let name = s.name("capped");
            let (policies, bindings) =
                (Api::all(s.cluster.client.clone()), Api::all(s.cluster.client.clone()));
            let policy = json!({"metadata": {"name": name}, "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {
                    "namespaceSelector": {"matchExpressions": [{"key": label, "operator": "Exists"}]},
                    "resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
                        "resources": ["pods"]}],
                },
                "validations": [{"expression": "object.spec.terminationGracePeriodSeconds <= 120",
                    "message": "at most 120 s of grace"}],
            }});
            let binding = json!({"metadata": {"name": name}, "spec": {
                "policyName": name, "validationActions": ["Deny"],
            }});
            let parameters = PostParams::default();
            policies.create(&parameters, &serde_json::from_value(policy).unwrap()).await.unwrap();
            bindings.create(&parameters, &serde_json::from_value(binding).unwrap()).await.unwrap();
            Self { policies, bindings, name }
        }

        async fn remove(self) {
            self.bindings.delete(&self.name, &DeleteParams::default()).await.unwrap();
            self.policies.delete(&self.name, &DeleteParams::default()).await.unwrap();
        }
    }

    /// A Deployment whose pods have this annotation.
    fn deployment(name: &str, annotations: &Value) -> Value {
        json!({"metadata": {"name": name}, "spec": {
            "replicas": 3, "selector": {"matchLabels": {"app": "web", "set": name}},
            "template": {
                "metadata": {"labels": {"app": "web", "set": name}, "annotations": annotations},
                "spec": pod_spec(&[("http", 8080)]),
            },
        }})
    }

    #[test]
    fn a_policy_that_refuses_long_grace_periods_keeps_no_deployment_from_being_complete() {
        beside_others(|world| async move {
            let stage = Stage::new(world, "capped").await;
            let (headgate, configuration) = bound(&stage, &[]).await;
            let capped = Capped::install(&stage.s, &configuration.label).await;
            let raw = serde_json::from_value(bare_pod("probe", &json!({"app": "web"}))).unwrap();
            let dry_run = PostParams { dry_run: true, ..PostParams::default() };
            wait::until("the policy refuses what Headgate raised", || async {
                let made =
                    stage.labelled.api::<k8s_openapi::api::core::v1::Pod>().create(&dry_run, &raw).await;
                if made.is_err() { Ok(()) } else { Err("it was let through") }
            })
            .await;

            stage.labelled.create::<Deployment>(deployment("free", &json!({}))).await;
            let pods =
                tokio::time::timeout(Duration::from_secs(60), stage.labelled.wait_running("web", 3)).await;
            let pods = pods.unwrap_or_else(|_| panic!("not complete: {}", headgate.text()));
            let said = stage.labelled.pods_of("web").await;
            let refused = |pod: &&k8s_openapi::api::core::v1::Pod| {
                let annotations = pod.metadata.annotations.clone().unwrap_or_default();
                annotations["headgate.dev/injected"].contains("HoldRefused: 0s of 150s")
            };
            assert_eq!((pods.len(), said.iter().filter(refused).count()), (3, 3), "{said:?}");
            stage.labelled.wait_warning("web", "HoldTooShort", "were not created").await;
            let (first, _) = pods.first_key_value().unwrap();
            let address = format!("--address={}", headgate.debug());
            let own = format!("--own-namespace={}", stage.s.cluster.namespace);
            let namespace = format!("--namespace={}", stage.labelled.namespace);
            let configuration_is = format!("--webhook-configuration={}", configuration.name);
            let ask = async |arguments: &[&str]| {
                command(stage.s.facts(), &[arguments, &[&address, &own]].concat()).await.1
            };
            wait::until("explain and doctor say why", || async {
                let said =
                    [ask(&["explain", first, &namespace]).await, ask(&["doctor", &configuration_is]).await];
                let is_said =
                    said.iter().all(|said| said.contains("HoldTooShort") && said.contains("0s of 150s"));
                if is_said { Ok(()) } else { Err(said) }
            })
            .await;

            // With a declared limit, a pod gets the longest hold that fits at once.
            stage
                .labelled
                .create::<Deployment>(deployment("said", &json!({"headgate.dev/max-grace": "120s"})))
                .await;
            stage.labelled.wait_running("web", 6).await;
            let of_set = stage.labelled.pods_of("web").await;
            let held: Vec<Value> = of_set
                .iter()
                .filter(|pod| pod.metadata.labels.as_ref().is_some_and(|labels| labels["set"] == "said"))
                .map(|pod| serde_json::to_value(&pod.spec).unwrap())
                .collect();
            assert_eq!(held.len(), 3);
            for spec in held {
                assert_eq!(spec["terminationGracePeriodSeconds"], 120);
                assert_eq!(spec["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"], 90);
            }
            stage.labelled.wait_warning("web", "HoldTooShort", "Allow a terminationGracePeriod").await;
            capped.remove().await;
            configuration.remove().await;
        });
    }

    #[test]
    fn a_webhook_that_lowers_grace_periods_makes_the_hold_shorter_whichever_is_asked_first() {
        beside_others(|world| async move {
            let stage = Stage::new(world, "lowered").await;
            let (_headgate, configuration) = bound(&stage, &[]).await;
            // The API server calls webhooks in the order of their names.
            for name in ["a", "zz"].map(|order| format!("{order}-{}", configuration.name)) {
                let client = &stage.s.cluster.client;
                let lowers =
                    OtherWebhook::install(client, &name, &configuration.label, Does::LowersGrace(120)).await;
                let pod = bare_pod("web", &json!({"app": "web"}));
                let made = wait::until("both are asked", || async {
                    let made = create(&stage.labelled, &pod, true).await;
                    if made["spec"]["terminationGracePeriodSeconds"] == 120 { Ok(made) } else { Err(made) }
                })
                .await;
                let hook = &made["spec"]["containers"][0]["lifecycle"]["preStop"];
                assert_eq!(hook, &json!({"sleep": {"seconds": 90}}), "{name}");
                let said = "HoldShortened: 90s of 150s, because another webhook has lowered the grace period";
                assert!(injected(&made).unwrap().contains(said), "{made}");
                lowers.remove().await;
                wait::until("it is asked no more", || async {
                    let made = create(&stage.labelled, &pod, true).await;
                    if made["spec"]["terminationGracePeriodSeconds"] == 180 { Ok(()) } else { Err(made) }
                })
                .await;
            }
            configuration.remove().await;
        });
    }

    #[test]
    fn a_namespace_may_limit_the_grace_periods_of_its_pods() {
        beside_others(|world| async move {
            let stage = Stage::new(world, "nslimit").await;
            let namespaces: Api<k8s_openapi::api::core::v1::Namespace> =
                Api::all(stage.s.cluster.client.clone());
            let limit = json!({"metadata": {"annotations": {"headgate.dev/max-grace": "100s"}}});
            let patch = kube::api::Patch::Merge(&limit);
            namespaces
                .patch(&stage.labelled.namespace, &kube::api::PatchParams::default(), &patch)
                .await
                .unwrap();
            let headgate = stage.headgate(&[]).await;
            let configuration = Configuration::install(&stage.s, &[&headgate]).await;
            let pod = bare_pod("web", &json!({"app": "web"}));
            let made = wait::until("the API server asks", || async {
                let made = create(&stage.labelled, &pod, true).await;
                if injected(&made).is_some() { Ok(made) } else { Err(made) }
            })
            .await;
            assert_eq!(made["spec"]["terminationGracePeriodSeconds"], 100);
            let said = "HoldShortened: 70s of 150s, because the annotation headgate.dev/max-grace of its namespace says 100s";
            assert!(injected(&made).unwrap().contains(said), "{made}");
            configuration.remove().await;
        });
    }
}
