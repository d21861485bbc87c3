//! Formats the changes to a pod as a JSON Patch (RFC 6902).

use std::cell::RefCell;

use headgate_core::model::{
    injection::{Injection, Place, ProbeGrace, Wrapper},
    lifespan::{HOLD_PROGRAM, is_shell},
    readiness::OWN_GATE,
};
use serde_json::{Map, Value, json};

use super::{
    pod::{HttpGet, command},
    volume,
};

/// The JSON Patch operations that apply a decision to `pod`. `image` is the image that contains `headgate-hold`.
pub fn render(pod: &Value, injection: &Injection, image: &str) -> Vec<Value> {
    let operations = RefCell::new(Vec::new());
    let add = |path: &str, value: Value| {
        operations.borrow_mut().push(json!({"op": "add", "path": path, "value": value}));
    };
    let remove = |path: &str| operations.borrow_mut().push(json!({"op": "remove", "path": path}));
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
    for place in &injection.released {
        remove(&format!("{}/lifecycle/preStop", path(*place)));
    }
    for (place, wrapper) in &injection.wrapped {
        let container = &pod.pointer(&path(*place)).unwrap_or(&Value::Null);
        if let Some(command) = wrapped(container, *wrapper, injection.seconds) {
            add(&format!("{}/lifecycle/preStop", path(*place)), json!({"exec": {"command": command}}));
        }
    }
    let programs = injection.wrapped.iter().filter(|(_, wrapper)| *wrapper == Wrapper::Program);
    let programs: Vec<Place> = programs.map(|(place, _)| *place).collect();
    for place in &programs {
        let mounts = format!("{}/volumeMounts", path(*place));
        if pod.pointer(&mounts).is_some_and(Value::is_array) {
            add(&format!("{mounts}/-"), volume::mount());
        } else {
            add(&mounts, json!([volume::mount()]));
        }
    }
    if !programs.is_empty() && !volume::is_in(pod) {
        if pod["spec"]["volumes"].is_array() {
            add("/spec/volumes/-", volume::volume(image));
        } else {
            add("/spec/volumes", json!([volume::volume(image)]));
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
    operations.into_inner()
}

/// A command that holds for `seconds`, and then executes the container's own `preStop` hook. The command returns the
/// result of the container's own hook.
fn wrapped(container: &Value, wrapper: Wrapper, seconds: u32) -> Option<Vec<String>> {
    let own = command(&container["lifecycle"]["preStop"]);
    if wrapper == Wrapper::Present {
        return with_seconds(own?, seconds);
    }
    let mut before = match (wrapper, &own) {
        (Wrapper::Shell, Some(own)) => {
            let shell = own.first().filter(|program| is_shell(program)).unwrap_or(&"sh");
            let script = script(seconds);
            vec![(*shell).to_owned(), "-c".to_owned(), script, HOLD_PROGRAM.to_owned()]
        }
        (Wrapper::Program, Some(_)) => vec![volume::program(), seconds.to_string(), "run".to_owned()],
        (Wrapper::Program, None) => {
            let HttpGet { host, port, path, headers } = HttpGet::of(container)?;
            let headers = headers.into_iter().map(|(name, value)| format!("{name}: {value}"));
            let get = [volume::program(), seconds.to_string(), "get".to_owned()];
            return Some(
                get.into_iter().chain([format!("{host}:{port}"), path.to_owned()]).chain(headers).collect(),
            );
        }
        (Wrapper::Shell, None) | (Wrapper::Present, _) => return None,
    };
    before.extend(own.into_iter().flatten().map(str::to_owned));
    Some(before)
}

/// The shell script that sleeps, and then runs the container's own command.
fn script(seconds: u32) -> String {
    format!("sleep {seconds}; exec \"$@\"")
}

/// Changes the length of the hold in a wrapped command.
fn with_seconds(command: Vec<&str>, seconds: u32) -> Option<Vec<String>> {
    let mut command: Vec<String> = command.into_iter().map(str::to_owned).collect();
    let (at, text) = if is_shell(command.first()?) { (2, script(seconds)) } else { (1, seconds.to_string()) };
    *command.get_mut(at)? = text;
    Some(command)
}

/// The JSON pointer to a container.
fn path(place: Place) -> String {
    match place {
        Place::Container(at) => format!("/spec/containers/{at}"),
        Place::Sidecar(at) => format!("/spec/initContainers/{at}"),
    }
}

#[cfg(test)]
mod tests {
    use headgate_core::{
        inject::decide,
        model::injection::{Known, Program, Terms},
    };

    use super::*;
    use crate::webhook::pod;

    /// The pod after the decision for a pod whose bindings are unknown.
    fn injected(mut pod: Value) -> Value {
        let read = pod::read(&pod).unwrap();
        let terms = Terms { probe_grace: 5, program: Program::Available, ..Terms::default() };
        let injection = decide(&read, &Known::Bound(Vec::new()), terms);
        let operations = Value::from(render(&pod, &injection, "x.io/headgate:1"));
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

    #[test]
    fn a_hook_of_its_own_is_run_after_the_hold_where_the_pod_asks_for_it() {
        let pod = |asks: &str, containers: Value| json!({"metadata": {"annotations": {"headgate.dev/own-prestop": asks}}, "spec": {"containers": containers}});
        let hook = |hook: Value| json!({"name": "web", "lifecycle": {"preStop": hook}});
        let exec = |command: Value| hook(json!({"exec": {"command": command}}));
        let after = |asks: &str, container: Value| injected(pod(asks, json!([container])));
        let command =
            |pod: &Value| pod["spec"]["containers"][0]["lifecycle"]["preStop"]["exec"]["command"].clone();

        let script = after("wrap", exec(json!(["/bin/bash", "-c", "nginx -s quit; sleep 9"])));
        let put = "sleep 150; exec \"$@\"";
        let own = ["/bin/bash", "-c", "nginx -s quit; sleep 9"];
        assert_eq!(
            command(&script),
            json!([&["/bin/bash", "-c", put, "headgate-hold"][..], &own[..]].concat())
        );
        assert!(script["spec"]["volumes"].is_null(), "a shell needs none");
        assert_eq!(injected(script.clone()), script);

        let by_shell = after("wrap-by-shell", exec(json!(["/wait-shutdown"])));
        assert_eq!(command(&by_shell), json!(["sh", "-c", put, "headgate-hold", "/wait-shutdown"]));

        let run = after("wrap", exec(json!(["/wait-shutdown", "-v"])));
        assert_eq!(command(&run), json!(["/.headgate/headgate-hold", "150", "run", "/wait-shutdown", "-v"]));
        let volume = json!({"name": "headgate-hold", "image": {"reference": "x.io/headgate:1", "pullPolicy": "IfNotPresent"}});
        let mount = json!({"name": "headgate-hold", "mountPath": "/.headgate", "readOnly": true});
        assert_eq!(run["spec"]["volumes"], json!([volume]));
        assert_eq!(run["spec"]["containers"][0]["volumeMounts"], json!([mount]));
        assert_eq!(injected(run.clone()), run);

        let get = json!({"httpGet": {"port": "admin", "path": "/quit?now=1", "httpHeaders": [{"name": "X-By", "value": "a b"}]}});
        let mut container = hook(get);
        container["ports"] = json!([{"name": "admin", "containerPort": 9902}]);
        container["volumeMounts"] = json!([{"name": "data", "mountPath": "/data"}]);
        let mut two = pod("wrap", json!([container, exec(json!(["/wait-shutdown"]))]));
        two["spec"]["volumes"] = json!([{"name": "data", "emptyDir": {}}]);
        let two = injected(two);
        assert_eq!(
            command(&two),
            json!(["/.headgate/headgate-hold", "150", "get", ":9902", "/quit?now=1", "X-By: a b"])
        );
        assert_eq!(two["spec"]["volumes"], json!([{"name": "data", "emptyDir": {}}, volume]));
        let mounts = &two["spec"]["containers"][0]["volumeMounts"];
        assert_eq!(*mounts, json!([{"name": "data", "mountPath": "/data"}, mount]));
        assert_eq!(two["spec"]["containers"][1]["volumeMounts"], json!([mount]));
        assert_eq!(injected(two.clone()), two);
    }

    #[test]
    fn what_cannot_be_sent_from_within_or_is_of_another_system_stays() {
        for odd in [
            json!({"httpGet": {"port": 80, "scheme": "HTTPS"}}),
            json!({"httpGet": {"port": "absent"}}),
            json!({"httpGet": {"port": 0}}),
            json!({"httpGet": {"port": 80, "path": "/a b"}}),
            json!({"httpGet": {"port": 80, "host": "a\r\nb"}}),
            json!({"httpGet": {"port": 80, "httpHeaders": [{"name": "a:b", "value": ""}]}}),
            json!({"httpGet": {"port": 80, "httpHeaders": [{"name": "a", "value": "b\r\nHost: c"}]}}),
            json!({"httpGet": {"port": 80}, "exec": {"command": ["sh"]}}),
            json!({"exec": {"command": []}}),
            json!({"exec": {"command": ["sh", 7]}}),
            json!({"tcpSocket": {"port": 80}}),
        ] {
            let pod = json!({
                "metadata": {"annotations": {"headgate.dev/own-prestop": "wrap"}},
                "spec": {"containers": [{"name": "web", "lifecycle": {"preStop": odd}}]},
            });
            assert_eq!(injected(pod)["spec"]["containers"][0]["lifecycle"]["preStop"], odd);
        }
        let windows = json!({
            "metadata": {"annotations": {"headgate.dev/own-prestop": "wrap"}},
            "spec": {"os": {"name": "windows"}, "containers": [
                {"name": "web", "lifecycle": {"preStop": {"exec": {"command": ["sh", "-c", "x"]}}}},
                {"name": "log", "lifecycle": {"preStop": {"sleep": {"seconds": 5}}}},
            ]},
        });
        let containers = &injected(windows)["spec"]["containers"];
        assert_eq!(containers[0]["lifecycle"]["preStop"]["exec"]["command"], json!(["sh", "-c", "x"]));
        assert_eq!(containers[1]["lifecycle"]["preStop"]["sleep"]["seconds"], 150);
    }
}
