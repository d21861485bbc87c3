//! Property tests with AdmissionReviews of new pods and evictions, in forms that no API server sends.

use headgate_core::{
    inject::decide,
    model::injection::{Known, Program, Terms},
};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{
    properties::{LONGEST_MESSAGE, changed, holds},
    webhook::{evict, patch, pod, review::Request},
};

fn new_pod() -> Value {
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "u-1", "operation": "CREATE", "namespace": "shop", "name": "", "dryRun": false,
            "resource": {"group": "", "version": "v1", "resource": "pods"}, "subResource": "",
            "object": {
                "metadata": {"generateName": "web-", "labels": {"app": "web", "headgate.dev/inject": "true"},
                    "annotations": {"headgate.dev/hold": "20s", "headgate.dev/injected": "GateAdded",
                        "headgate.dev/own-prestop": "wrap"}},
                "spec": {"terminationGracePeriodSeconds": 30, "readinessGates": [{"conditionType": "example.com/x"}],
                    "initContainers": [{"name": "proxy", "restartPolicy": "Always"}],
                    "containers": [{"name": "web", "lifecycle": {"postStart": {"sleep": {"seconds": 1}}},
                        "ports": [{"name": "http", "containerPort": 8080}]},
                        {"name": "own", "lifecycle": {"preStop": {"sleep": {"seconds": 1}}}, "livenessProbe": {"failureThreshold": 1}},
                        {"name": "exec", "lifecycle": {"preStop": {"exec": {"command": ["true"]}}}, "startupProbe": {}},
                        {"name": "get", "lifecycle": {"preStop": {"httpGet": {"port": 80}}}}]},
            },
        },
    })
}

fn eviction() -> Value {
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "u-1", "operation": "CREATE", "namespace": "shop", "name": "web", "dryRun": false,
            "resource": {"group": "", "version": "v1", "resource": "pods"}, "subResource": "eviction",
            "object": {"kind": "Eviction", "metadata": {"namespace": "shop", "name": "web"},
                "deleteOptions": {"gracePeriodSeconds": 1, "dryRun": [], "preconditions": {"uid": "u-1"}}},
        },
    })
}

/// A nearly valid body that is truncated or contains changed bytes.
fn garbled(review: &Value) -> impl Strategy<Value = Vec<u8>> + use<> {
    let body = review.to_string().into_bytes();
    let flips = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6);
    (flips, prop::option::of(any::<prop::sample::Index>())).prop_map(move |(flips, end)| {
        let mut body = body.clone();
        for (at, byte) in flips {
            let at = at.index(body.len());
            body[at] = byte;
        }
        if let Some(end) = end {
            body.truncate(end.index(body.len()));
        }
        body
    })
}

fn bodies(review: Value) -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        2 => garbled(&review),
        4 => changed(review.clone(), "").prop_map(|odd| odd.to_string().into_bytes()),
        2 => changed(review, "/request/object").prop_map(|odd| odd.to_string().into_bytes()),
        1 => any::<Vec<u8>>(),
    ]
}

fn read(body: &[u8]) -> Result<Option<Request>, TestCaseError> {
    match Request::read(body) {
        Ok(request) => Ok(Some(request)),
        Err(error) => {
            let said = error.to_string();
            prop_assert!(said.len() <= LONGEST_MESSAGE && said.contains("Send "), "{said}");
            Ok(None)
        }
    }
}

#[test]
fn whatever_is_sent_of_a_new_pod_the_patch_applies_and_takes_nothing_away() {
    holds(bodies(new_pod()), |body| {
        let Some(request) = read(&body)? else { return Ok(()) };
        let Some(new) = pod::read(&request.object) else { return Ok(()) };
        let terms = Terms { probe_grace: 5, program: Program::Available, ..Terms::default() };
        let injection = decide(&new, &Known::Bound(Vec::new()), terms);
        let operations = patch::render(&request.object, &injection, "x.io/headgate:1");
        prop_assert!(operations.iter().all(|operation| operation["op"] == "add"));
        let mut patched = request.object.clone();
        let patch: json_patch::Patch = serde_json::from_value(operations.into()).unwrap();
        json_patch::patch(&mut patched, &patch).map_err(|error| TestCaseError::fail(error.to_string()))?;
        for (at, container) in
            request.object["spec"]["containers"].as_array().into_iter().flatten().enumerate()
        {
            let before = &container["lifecycle"]["preStop"];
            let after = &patched["spec"]["containers"][at]["lifecycle"]["preStop"];
            let seconds = |hook: &Value| hook["sleep"]["seconds"].as_i64();
            let is_longer = seconds(before).is_some_and(|own| seconds(after).is_some_and(|now| own < now));
            // The new command ends with the container's own command.
            let ends_with = |own: &[Value]| {
                let now = after["exec"]["command"].as_array();
                now.is_some_and(|now| now.ends_with(own) && now.len() > own.len())
            };
            let is_wrapped = match before["exec"]["command"].as_array() {
                Some(own) => ends_with(own),
                None => before["httpGet"].is_object() && ends_with(&[]),
            };
            prop_assert!(
                before.is_null() || before == after || is_longer || is_wrapped,
                "a preStop of its own stays or is wrapped, and a sleep becomes no shorter"
            );
            for probe in ["livenessProbe", "startupProbe"] {
                let own = &container[probe]["terminationGracePeriodSeconds"];
                let after = &patched["spec"]["containers"][at][probe]["terminationGracePeriodSeconds"];
                prop_assert!(own.is_null() || own == after, "what a probe says of itself stays");
            }
        }
        let answer = request.allow(Vec::new(), &injection.warnings).to_string();
        prop_assert!(answer.len() <= request.uid.len() * 6 + LONGEST_MESSAGE);
        Ok(())
    });
}

#[test]
fn whatever_is_sent_of_an_eviction_it_is_read_without_harm() {
    holds(bodies(eviction()), |body| {
        let Some(request) = read(&body)? else { return Ok(()) };
        let asked = evict::read(&request);
        let options = &request.object["deleteOptions"];
        prop_assert_eq!(asked.uid.is_some(), options["preconditions"]["uid"].is_string());
        prop_assert_eq!(asked.grace.is_some(), options["gracePeriodSeconds"].as_i64().is_some());
        let in_the_body = options["dryRun"].as_array().is_some_and(|all| !all.is_empty());
        prop_assert_eq!(evict::is_dry_run(&request), request.dry_run == Some(true) || in_the_body);
        Ok(())
    });
}

#[test]
fn of_a_body_that_is_one_long_text_in_the_wrong_place_a_beginning_is_repeated() {
    let mut odd = new_pod();
    odd["request"]["dryRun"] = "A".repeat(250_000).into();
    let said = Request::read(odd.to_string().as_bytes()).unwrap_err().to_string();
    assert!(said.contains("invalid type: string \"AAA") && said.len() < 400, "{} bytes", said.len());
}
