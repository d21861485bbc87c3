//! What is said of a pod when somebody asks: the words of its Events, log lines, metrics and its readiness gate.

use headgate_harness::{
    aws::Group,
    cluster::{OWN_GATE, pod_spec},
    headgate::{Headgate, command},
    scenario::{Scenario, http_port},
    shared_world::beside_others,
    wait,
};
use serde_json::{Value, json};

/// What `headgate explain` says of a pod, asked of this replica.
async fn explain(s: &Scenario, headgate: &Headgate, pod: &str) -> Value {
    let (code, said) = ask(s, headgate, pod, &["-o=json"]).await;
    assert_eq!(code, Some(0), "{said}");
    serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said}"))
}

async fn ask(s: &Scenario, headgate: &Headgate, pod: &str, more: &[&str]) -> (Option<i32>, String) {
    let namespace = format!("--namespace={}", s.cluster.namespace);
    let address = format!("--address={}", headgate.debug());
    let arguments = [&["explain", pod, &namespace, &address], more].concat();
    command(s.facts(), &arguments).await
}

/// Waits until the explanation of a pod is so.
async fn wait_explained(s: &Scenario, headgate: &Headgate, pod: &str, is: impl Fn(&Value) -> bool) -> Value {
    wait::until(&format!("{pod} is explained so"), || async {
        let said = explain(s, headgate, pod).await;
        if is(&said) { Ok(said) } else { Err(said) }
    })
    .await
}

/// Asserts that the log has a line about this pod with this reason.
fn assert_logged(headgate: &Headgate, s: &Scenario, pod: &str, message: &str, reason: &str) {
    let key = format!("{}/{pod}", s.cluster.namespace);
    let lines = headgate.logged(|line| line["message"] == message && line["pod"] == *key);
    assert!(lines.iter().any(|line| line["reason"] == reason), "{reason} is not in {lines:?}");
}

async fn gated_pod(s: &Scenario, name: &str, app: &str) {
    let mut spec = pod_spec(&[("http", 8080)]);
    spec["readinessGates"] = json!([{"conditionType": OWN_GATE}]);
    s.cluster.pod_with(name, app, spec).await;
}

async fn bound(s: &Scenario, app: &str) -> Group {
    let group = s.group(app).await;
    s.cluster.service(app, app, http_port(), Some(&format!("http={}", group.name))).await;
    group
}

#[test]
fn a_pod_is_followed_from_its_registration_to_its_end_with_the_words_of_log_gate_and_metrics() {
    beside_others(|world| async move {
        let s = Scenario::new(world, "explain").await;
        let group = bound(&s, "web").await;
        let headgate = s.headgate().await;
        wait::until("the binding is in force", || async {
            let shown = headgate.probe("/debug/bindings").await?;
            if shown.contains(&group.arn) { Ok(()) } else { Err(shown) }
        })
        .await;
        gated_pod(&s, "web", "web").await;
        let is_healthy = |said: &Value| said["targets"][0]["health"]["state"] == "healthy";
        s.cluster.wait_gates("web", 1, "True", "TargetsHealthy").await;
        let said =
            wait_explained(&s, &headgate, "web", |said| is_healthy(said) && said["gate"]["state"] == "open")
                .await;
        let target = &said["targets"][0];
        assert_eq!((&target["state"], &target["reason"]), (&json!("registered"), &json!("PodHasIp")));
        assert_logged(&headgate, &s, "web", "registering", "PodHasIp");
        assert_eq!(headgate.metric("headgate_pod_ip_to_register_seconds_count").await, Some(1.0));
        assert_eq!(target["targetGroup"], group.arn.as_str());
        assert_eq!(target["binding"], json!({"kind": "Service", "name": "web", "port": "http"}));
        assert_eq!(target["next"]["action"], "DescribeTargetHealth");
        assert_eq!(said["gate"]["word"]["reason"], "TargetsHealthy");
        assert_eq!(
            (&said["hold"]["word"]["reason"], &said["nowhere"]),
            (&json!("HoldMissing"), &Value::Null)
        );

        let (code, text) = ask(&s, &headgate, "pod/web", &[]).await;
        assert_eq!(code, Some(0), "{text}");
        for part in [
            "Target group  web-explain",
            "registered since",
            "PodHasIp:",
            "healthy, read",
            "Readiness gate  open",
        ] {
            assert!(text.contains(part), "{part} is not in {text}");
        }

        s.cluster.delete_pod("web", 30).await;
        let said = wait_explained(&s, &headgate, "web", |said| {
            said["targets"].as_array().unwrap().iter().any(|target| target["state"] == "deregistered")
        })
        .await;
        let left =
            said["targets"].as_array().unwrap().iter().find(|target| target["state"] == "deregistered");
        assert_eq!(left.unwrap()["reason"], "PodTerminating");
        assert_logged(&headgate, &s, "web", "deregistering", "PodTerminating");
    });
}

#[test]
fn a_pod_that_is_no_target_is_told_why_with_the_word_of_the_event() {
    beside_others(|world| async move {
        let s = Scenario::new(world, "explain-not").await;
        let group = s.group("web").await;
        let named = json!([{"name": "http", "port": 80, "targetPort": "nope"}]);
        s.cluster.service("named", "named", named, Some(&group.name)).await;
        s.cluster.service("bad", "bad", http_port(), Some("http=")).await;
        s.cluster.service("plain", "plain", http_port(), None).await;
        let headgate = s.headgate().await;
        for app in ["named", "bad", "plain"] {
            gated_pod(&s, app, app).await;
        }
        for (app, of, reason) in [
            ("named", "/targets/0", "NoSuchPort"),
            ("bad", "/nowhere", "BindingUnreadable"),
            ("plain", "/nowhere", "NotSelected"),
        ] {
            wait_explained(&s, &headgate, app, |said| {
                said.pointer(of).is_some_and(|word| word["reason"] == reason)
            })
            .await;
        }
        // The same words where the pod's owner looks first.
        s.cluster.wait_warning("named", "NoSuchPort", "no container port named \"nope\"").await;
        s.cluster.wait_gates("named", 1, "False", "NoSuchPort").await;
        assert_eq!(explain(&s, &headgate, "named").await["gate"]["word"]["reason"], "NoSuchPort");
        assert_eq!(headgate.metric("headgate_notices_total{reason=\"NoSuchPort\"}").await, Some(1.0));
        s.cluster.wait_gates("bad", 1, "False", "BindingUnreadable").await;
        let said = explain(&s, &headgate, "plain").await;
        let why = said["nowhere"]["message"].as_str().unwrap();
        assert!(why.contains("without that annotation these Services do: plain"), "{why}");
        let (code, said) = ask(&s, &headgate, "nobody", &[]).await;
        assert!(
            code == Some(1) && said.contains("PodNotFound") && said.contains("there is no pod nobody"),
            "{said}"
        );
        let elsewhere = ["explain", "web", "--namespace=kube-system", "--address", headgate.debug()];
        let (code, text) = command(s.facts(), &elsewhere).await;
        assert!(code == Some(1) && text.contains("NamespaceNotServed: "), "{text}");
    });
}

#[test]
fn what_a_call_waits_for_has_the_word_of_event_log_and_metric() {
    beside_others(|world| async move {
        let s = Scenario::new(world, "explain-wait").await;
        let group = bound(&s, "web").await;
        let refused = json!({"refuse": {"code": "AccessDenied", "message": "not allowed"}});
        let fault = json!({
            "action": "RegisterTargets", "target_group": group.name, "times": 1000, "effect": refused,
        });
        s.aws.control("POST", "/faults", Some(&fault)).await;
        let headgate = s.headgate().await;
        gated_pod(&s, "web", "web").await;
        let said = wait_explained(&s, &headgate, "web", |said| {
            said["targets"][0]["next"]["waits"]["reason"] == "AccessDenied"
        })
        .await;
        let target = &said["targets"][0];
        assert_eq!(
            (&target["state"], &target["next"]["action"]),
            (&json!("registering"), &json!("RegisterTargets"))
        );
        assert!(target["troubles"].as_array().unwrap().iter().any(|word| word["reason"] == "AccessDenied"));
        s.cluster.wait_warning("web", "AccessDenied", "elasticloadbalancing:RegisterTargets").await;
        assert!(
            !headgate.logged(|line| line["reason"] == "AccessDenied" && line["kind"] == "service").is_empty()
        );
        let calls = "headgate_aws_calls_total{action=\"RegisterTargets\",outcome=\"AccessDenied\"}";
        assert!(headgate.metric(calls).await.unwrap() >= 1.0);
        s.cluster.wait_gates("web", 1, "False", "NotRegisteredYet").await;
        assert_eq!(said["gate"]["word"]["reason"], "NotRegisteredYet");

        s.cluster.set_annotation("web", "headgate.dev/paused", Some("true")).await;
        wait_explained(&s, &headgate, "web", |said| {
            said["targets"][0]["next"]["waits"]["reason"] == "Paused"
                && said["gate"]["word"]["reason"] == "RegistrationPaused"
        })
        .await;
    });
}

#[test]
fn a_replica_that_does_not_lead_says_who_does_and_so_does_the_lease() {
    beside_others(|world| async move {
        let s = Scenario::new(world, "explain-lead").await;
        let leader = s.headgate().await;
        leader.wait_leads().await;
        let follower = s.headgate().await;
        let holder: Value = serde_json::from_str(&leader.probe("/debug/leader").await.unwrap()).unwrap();
        let holder = holder["holder"].as_str().unwrap();
        let expected = format!("does not lead, {holder} leads");
        let (code, text) = ask(&s, &follower, "web", &[]).await;
        assert!(code == Some(1) && text.contains(&expected), "{text}");
        let refused = follower.probe("/debug/explain?namespace=a&pod=b").await.unwrap_err();
        assert!(refused.starts_with("421 ") && refused.contains(&expected), "{refused}");

        // These replicas are no pods, so the API server cannot pass the question on.
        let own = format!("--own-namespace={}", s.cluster.namespace);
        let (code, text) = command(s.facts(), &["explain", "web", &own]).await;
        assert_eq!(code, Some(1), "{text}");
        assert!(
            text.contains(&format!("{holder} leads, by its Lease, and is not a pod of namespace")),
            "{text}"
        );
        let nobody = ["explain", "web", &own, "--lease-name=nobodys"];
        let (code, text) = command(s.facts(), &nobody).await;
        assert!(code == Some(1) && text.contains("there is no Lease"), "{text}");
    });
}
