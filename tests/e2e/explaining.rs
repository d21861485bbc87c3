//! `headgate explain` uses the same reasons as Events, log lines, metrics and the readiness gate.

use headgate_harness::{
    aws::Group,
    cluster::{OWN_GATE, pod_spec},
    headgate::{Headgate, command},
    scenario::{Scenario, http_port},
    shared_world::beside_others,
    wait,
};
use serde_json::{Value, json};

/// The output of `headgate explain` for a pod from this replica.
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

/// The same for another kind of object. Waits until the output meets the condition.
async fn wait_said(s: &Scenario, headgate: &Headgate, object: &str, is: impl Fn(&str) -> bool) -> String {
    wait::until(&format!("{object} is explained so"), || async {
        let (code, said) = ask(s, headgate, object, &[]).await;
        if code == Some(0) && is(&said) { Ok(said) } else { Err((code, said)) }
    })
    .await
}

/// Waits until the explanation of a pod meets the condition.
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
        assert_eq!((&target["state"], &target["reason"]), (&json!("registered"), &json!("PodSelected")));
        assert_logged(&headgate, &s, "web", "registering", "PodSelected");
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
            "PodSelected:",
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
            ("named", "/targets/0", "InvalidBinding"),
            ("bad", "/nowhere", "InvalidBinding"),
            ("plain", "/nowhere", "NotSelected"),
        ] {
            wait_explained(&s, &headgate, app, |said| {
                said.pointer(of).is_some_and(|word| word["reason"] == reason)
            })
            .await;
        }
        // The same reason is also where the pod's owner looks first.
        s.cluster.wait_warning("named", "InvalidBinding", "port \"nope\" for target group").await;
        s.cluster.wait_gates("named", 1, "False", "InvalidBinding").await;
        assert_eq!(explain(&s, &headgate, "named").await["gate"]["word"]["reason"], "InvalidBinding");
        // One for the pod, and one for the Service that cannot be applied.
        assert_eq!(headgate.metric("headgate_notices_total{reason=\"InvalidBinding\"}").await, Some(2.0));
        s.cluster.wait_gates("bad", 1, "False", "InvalidBinding").await;
        let said = explain(&s, &headgate, "plain").await;
        let why = said["nowhere"]["message"].as_str().unwrap();
        assert!(why.contains("these Services select the pod, but lack the annotation: plain"), "{why}");
        let (code, said) = ask(&s, &headgate, "nobody", &[]).await;
        assert!(
            code == Some(1) && said.contains("PodDeleted") && said.contains("there is no pod nobody"),
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
        s.cluster.wait_gates("web", 1, "False", "TargetPending").await;
        assert_eq!(said["gate"]["word"]["reason"], "TargetPending");

        s.cluster.set_annotation("web", "headgate.dev/paused", Some("true")).await;
        wait_explained(&s, &headgate, "web", |said| {
            said["targets"][0]["next"]["waits"]["reason"] == "Paused"
                && said["gate"]["word"]["reason"] == "Paused"
        })
        .await;
    });
}

/// A short Lease, so that tests need not wait long.
const QUICK: [&str; 3] = ["--lease-duration=4s", "--lease-renew-deadline=3s", "--lease-retry-period=500ms"];

#[test]
fn what_became_of_a_pod_that_is_gone_is_told_by_its_leader_and_by_the_next_one() {
    beside_others(|world| async move {
        let s = Scenario::new(world, "explain-past").await;
        let group = bound(&s, "web").await;
        let leader = s.headgate_with(&QUICK).await;
        leader.wait_leads().await;
        let next = s.headgate_with(&QUICK).await;
        wait::until("the next one has listed", || next.probe("/readyz")).await;
        wait_said(&s, &leader, "svc/web", |said| said.contains(&group.name)).await;
        gated_pod(&s, "web", "web").await;
        s.cluster.wait_gates("web", 1, "True", "TargetsHealthy").await;
        for (reason, part) in [("TargetRegistered", ": registered in"), ("TargetsHealthy", ": healthy in")] {
            s.cluster.wait_event("Normal", "web", reason, part).await;
        }
        s.cluster.delete_pod("web", 1).await;
        let is_told = |said: &str| said.contains("the pod no longer exists") && said.contains("→ absent");
        let said = wait_said(&s, &leader, "web", is_told).await;
        let name = &group.name;
        let steps = [
            "should be registered (PodSelected: ",
            "AWS accepted the registration",
            "→ healthy",
            "readiness gate open",
            "should be deregistered (PodTerminating)",
            "AWS accepted the deregistration",
            "→ absent",
        ];
        let mut rest = &said[..];
        for step in steps {
            let at = rest.find(step).unwrap_or_else(|| panic!("{step} is not in its place in {said}"));
            rest = &rest[at..];
        }
        assert!(said.contains(&format!("{name} ")) && said.contains("Pod  "), "{said}");
        assert!(!said.contains("only an earlier leader knew"), "{said}");
        s.cluster.wait_event("Normal", "web", "TargetDeregistered", name).await;

        // The journal of a standby is at its own address and has no answers of AWS.
        let journal = format!("/debug/journal?namespace={}", s.cluster.namespace);
        let own: Value = serde_json::from_str(&next.probe(&journal).await.unwrap()).unwrap();
        let words = |past: &Value| -> Vec<String> {
            let entries = past["entries"].as_array().unwrap().iter();
            entries.map(|entry| entry["what"].as_str().unwrap().to_owned()).collect()
        };
        let seen = words(&own);
        assert!(own["leadsSince"].is_null() && seen.contains(&"gone".to_owned()), "{own:#}");
        assert!(!seen.contains(&"registered".to_owned()), "{own:#}");

        leader.kill().await;
        next.wait_leads().await;
        let said = wait_said(&s, &next, "web", |said| said.contains("only an earlier leader knew")).await;
        // The reason depends on which event came last to this replica: the address or the binding.
        for part in
            ["should be registered (", "should be deregistered (PodTerminating)", "the pod no longer exists"]
        {
            assert!(said.contains(part), "{part} is not in {said}");
        }
        assert!(!said.contains("AWS accepted the registration"), "{said}");
        let after = own["entries"].as_array().unwrap().last().unwrap()["number"].as_u64().unwrap();
        let more = next.probe(&format!("/debug/journal?after={after}")).await.unwrap();
        let more: Value = serde_json::from_str(&more).unwrap();
        assert!(words(&more).contains(&"leads".to_owned()) && !more["leadsSince"].is_null(), "{more:#}");
    });
}

#[test]
fn a_service_a_targetbinding_and_a_node_are_explained_with_all_their_targets() {
    beside_others(|world| async move {
        let s = Scenario::new(world, "explain-all").await;
        let group = bound(&s, "web").await;
        let other = s.group("other").await;
        s.cluster.service("plain", "plain", http_port(), None).await;
        let headgate = s.headgate().await;
        s.cluster.write_binding("written", &other).await;
        for (binding, group) in [("svc/web", &group), ("targetbinding/written", &other)] {
            wait_said(&s, &headgate, binding, |said| said.contains(&group.name)).await;
        }
        gated_pod(&s, "web", "web").await;
        s.cluster.wait_gates("web", 1, "True", "TargetsHealthy").await;
        let is_healthy = |said: &str| said.contains("registered; AWS says healthy, readiness gate open");
        let said = wait_said(&s, &headgate, "svc/web", is_healthy).await;
        assert!(said.contains(&format!("Target group  {}, port http", group.name)), "{said}");
        let said = wait_said(&s, &headgate, "targetbinding/written", |said| said.contains(&other.name)).await;
        assert!(said.starts_with("TargetBinding  "), "{said}");
        wait_said(&s, &headgate, "service/plain", |said| said.contains("set the annotation")).await;

        let pod = s.cluster.api::<k8s_openapi::api::core::v1::Pod>().get("web").await.unwrap();
        let node = format!("node/{}", pod.spec.unwrap().node_name.unwrap());
        let part = format!("Pod  {}/web", s.cluster.namespace);
        let said = wait_said(&s, &headgate, &node, |said| said.contains(&part)).await;
        assert!(
            said.contains(": PodSelected: AWS has accepted the registration; AWS says healthy"),
            "{said}"
        );
        for nobody in ["svc/nobody", "targetbinding/nobody", "node/nobody"] {
            let (code, said) = ask(&s, &headgate, nobody, &[]).await;
            assert!(code == Some(1) && said.contains("Check the name"), "{said}");
        }
        let refused = headgate.probe("/debug/explain?namespace=a").await.unwrap_err();
        assert!(refused.contains("set namespace and one of"), "{refused}");
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
        assert!(code == Some(2) && text.contains(&expected), "{text}");
        let refused = follower.probe("/debug/explain?namespace=a&pod=b").await.unwrap_err();
        assert!(refused.starts_with("421 ") && refused.contains(&expected), "{refused}");

        // These replicas are no pods, so the API server cannot forward the request.
        let own = format!("--own-namespace={}", s.cluster.namespace);
        let (code, text) = command(s.facts(), &["explain", "web", &own]).await;
        assert_eq!(code, Some(2), "{text}");
        assert!(text.contains(&format!("{holder} holds the Lease, and is not a pod of namespace")), "{text}");
        let nobody = ["explain", "web", &own, "--lease-name=nobodys"];
        let (code, text) = command(s.facts(), &nobody).await;
        assert!(code == Some(2) && text.contains("there is no Lease"), "{text}");
    });
}
