//! What a pod is given, as a JSON Patch (RFC 6902) of the pod that was sent.

use headgate_core::model::{
    injection::{Injection, Place, ProbeGrace},
    readiness::OWN_GATE,
};
use serde_json::{Map, Value, json};

/// The operations that turn `pod` into what was decided.
pub fn render(pod: &Value, injection: &Injection) -> Vec<Value> {
    let mut operations = Vec::new();
    let mut add = |path: &str, value: Value| {
        operations.push(json!({"op": "add", "path": path, "value": value}));
    };
    if injection.gate {
        let gate = json!({"conditionType": OWN_GATE});
        if pod["spec"]["readinessGates"].is_array() {
            add("/spec/readinessGates/-", gate);
        } else {
            add("/spec/readinessGates", json!([gate]));
        }
    }
    for place in &injection.held {
        let path = format!("{}/lifecycle", path(*place));
        let sleep = json!({"sleep": {"seconds": injection.seconds}});
        if pod.pointer(&path).is_some_and(Value::is_object) {
            add(&format!("{path}/preStop"), sleep);
        } else {
            add(&path, json!({"preStop": sleep}));
        }
    }
    for ProbeGrace { place, probe, seconds } in &injection.probes {
        let path = format!("{}/{}/terminationGracePeriodSeconds", path(*place), probe.field());
        add(&path, json!(seconds));
    }
    if let Some(grace) = injection.grace {
        add("/spec/terminationGracePeriodSeconds", json!(grace));
    }
    let annotations = injection.annotations.iter();
    if !pod["metadata"].is_object() && !injection.annotations.is_empty() {
        let all: Map<_, _> = annotations.map(|(name, value)| ((*name).into(), json!(value))).collect();
        add("/metadata", json!({"annotations": all}));
    } else if pod["metadata"]["annotations"].is_object() {
        for (name, value) in annotations {
            add(
                &format!("/metadata/annotations/{}", name.replace('~', "~0").replace('/', "~1")),
                json!(value),
            );
        }
    } else if !injection.annotations.is_empty() {
        let all: Map<_, _> = annotations.map(|(name, value)| ((*name).into(), json!(value))).collect();
        add("/metadata/annotations", json!(all));
    }
    operations
}

/// Where a container stands.
fn path(place: Place) -> String {
    match place {
        Place::Container(at) => format!("/spec/containers/{at}"),
        Place::Sidecar(at) => format!("/spec/initContainers/{at}"),
    }
}

#[cfg(test)]
mod tests {
    use headgate_core::{inject::decide, model::injection::Known};

    use super::*;
    use crate::webhook::pod;

    /// The pod after what is decided for it while nothing is known to bind it.
    fn injected(mut pod: Value) -> Value {
        let read = pod::read(&pod).unwrap();
        let injection = decide(&read, &Known::Bound(Vec::new()), 5);
        let operations = Value::from(render(&pod, &injection));
        let patch: json_patch::Patch = serde_json::from_value(operations).unwrap();
        json_patch::patch(&mut pod, &patch).unwrap();
        pod
    }

    #[test]
    fn a_bare_pod_gets_the_lists_and_maps_that_it_lacks() {
        for bare in [
            json!({"spec": {"containers": [{"name": "web"}]}}),
            json!({"metadata": {}, "spec": {"containers": [{"name": "web"}]}}),
            json!({"metadata": {"annotations": null},
                "spec": {"readinessGates": null, "containers": [{"name": "web", "lifecycle": null}]}}),
        ] {
            let pod = injected(bare);
            assert_eq!(
                pod["spec"]["readinessGates"],
                json!([{"conditionType": "headgate.dev/target-health"}])
            );
            assert_eq!(
                pod["spec"]["containers"][0]["lifecycle"],
                json!({"preStop": {"sleep": {"seconds": 150}}})
            );
            assert_eq!(pod["spec"]["terminationGracePeriodSeconds"], 180);
            let said = pod["metadata"]["annotations"]["headgate.dev/injected"].as_str().unwrap();
            assert!(said.starts_with("GateAdded; HoldAdded: 150s in web"), "{said}");
        }
    }

    #[test]
    fn what_is_there_stays_and_the_second_time_nothing_is_to_do() {
        let pod = injected(json!({
            "metadata": {"annotations": {"x": "y"}},
            "spec": {
                "terminationGracePeriodSeconds": 10,
                "readinessGates": [{"conditionType": "example.com/x"}],
                "initContainers": [{"name": "once"}, {"name": "proxy", "restartPolicy": "Always"}],
                "containers": [
                    {"name": "web", "lifecycle": {"postStart": {"sleep": {"seconds": 1}}}},
                    {"name": "shell", "lifecycle": {"preStop": {"exec": {"command": ["true"]}}}},
                    {"name": "slow", "lifecycle": {"preStop": {"sleep": {"seconds": 20}}},
                        "livenessProbe": {"httpGet": {"port": 80}}, "startupProbe": {"terminationGracePeriodSeconds": 7}},
                ],
            },
        }));
        assert_eq!(pod["metadata"]["annotations"]["x"], "y");
        assert_eq!(pod["spec"]["readinessGates"][0]["conditionType"], "example.com/x");
        assert_eq!(pod["spec"]["readinessGates"].as_array().unwrap().len(), 2);
        assert_eq!(pod["spec"]["initContainers"][0], json!({"name": "once"}));
        assert_eq!(pod["spec"]["initContainers"][1]["lifecycle"]["preStop"]["sleep"]["seconds"], 150);
        assert_eq!(pod["spec"]["containers"][0]["lifecycle"]["postStart"]["sleep"]["seconds"], 1);
        assert_eq!(pod["spec"]["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"], 150);
        assert_eq!(
            pod["spec"]["containers"][1]["lifecycle"],
            json!({"preStop": {"exec": {"command": ["true"]}}})
        );
        let slow = &pod["spec"]["containers"][2];
        assert_eq!(slow["lifecycle"], json!({"preStop": {"sleep": {"seconds": 150}}}));
        assert_eq!(
            slow["livenessProbe"],
            json!({"httpGet": {"port": 80}, "terminationGracePeriodSeconds": 5})
        );
        assert_eq!(slow["startupProbe"], json!({"terminationGracePeriodSeconds": 7}));
        assert_eq!(pod["spec"]["terminationGracePeriodSeconds"], 160);
        assert_eq!(injected(pod.clone()), pod);
    }
}
