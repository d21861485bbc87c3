//! A new pod as the API server sends it, read leniently: what is odd is left out, never refused.

use headgate_core::{
    inject::INJECTED,
    model::{
        expected::EXPECTED_BINDINGS,
        injection::{Container, Hook, NewPod, OWN_PRESTOP, Place, Probe},
        lifespan::{PreStop, is_shell},
        object::Labels,
        pod::{NamedPort, Protocol},
        policy::HOLD,
    },
};
use serde_json::Value;

use super::volume;
use crate::kube::slim::port_number;

/// What counts of a pod; `None` if it has no containers to speak of.
pub fn read(pod: &Value) -> Option<NewPod> {
    let containers = pod.pointer("/spec/containers")?.as_array()?;
    let sidecars = pod.pointer("/spec/initContainers").and_then(Value::as_array);
    // A native sidecar runs as long as the pod does; other init containers can have no preStop.
    let is_sidecar = |container: &&(usize, &Value)| container.1["restartPolicy"] == "Always";
    let sidecars: Vec<_> = sidecars.into_iter().flatten().enumerate().collect();
    let sidecars = sidecars.iter().filter(is_sidecar).map(|(at, one)| (Place::Sidecar(*at), *one));
    let containers = containers.iter().enumerate().map(|(at, one)| (Place::Container(at), one));
    let staying: Vec<(Place, &Value)> =
        containers.chain(sidecars).filter(|(_, container)| container.is_object()).collect();
    if staying.is_empty() {
        return None;
    }
    let annotation = |name: &str| pod["metadata"]["annotations"][name].as_str().map(Box::from);
    let labels = pod.pointer("/metadata/labels").and_then(Value::as_object);
    let gates = pod.pointer("/spec/readinessGates").and_then(Value::as_array);
    let condition = |gate: &Value| gate["conditionType"].as_str().map(Box::from);
    Some(NewPod {
        labels: labels
            .into_iter()
            .flatten()
            .filter_map(|(key, value)| Some((key, value.as_str()?)))
            .collect::<Labels>(),
        hold: annotation(HOLD),
        own_pre_stop: annotation(OWN_PRESTOP),
        injected: annotation(INJECTED),
        has_expectations: annotation(EXPECTED_BINDINGS).is_some(),
        of_job: is_of_job(pod),
        gates: gates.into_iter().flatten().filter_map(condition).collect(),
        grace: pod["spec"]["terminationGracePeriodSeconds"].as_i64(),
        containers: staying.iter().map(|(place, container)| read_container(pod, *place, container)).collect(),
        ports: staying.iter().flat_map(|(_, container)| ports(container)).collect(),
    })
}

/// Whether its controller is a Job.
fn is_of_job(pod: &Value) -> bool {
    let mut owners = pod.pointer("/metadata/ownerReferences").and_then(Value::as_array).into_iter().flatten();
    owners.any(|owner| {
        let is_batch = owner["apiVersion"].as_str().is_some_and(|version| version.starts_with("batch/"));
        owner["controller"] == true && owner["kind"] == "Job" && is_batch
    })
}

fn read_container(pod: &Value, place: Place, container: &Value) -> Container {
    // A probe with a grace period of its own keeps it.
    let probe = |probe: &Probe| {
        let probe = &container[probe.field()];
        probe.is_object() && probe["terminationGracePeriodSeconds"].is_null()
    };
    Container {
        name: container["name"].as_str().unwrap_or_default().into(),
        place,
        pre_stop: if pod["spec"]["os"]["name"] == "windows" {
            // There is neither a shell of the kind that is meant, nor a program for it.
            read_simple_hook(&container["lifecycle"]["preStop"])
        } else {
            read_hook(container)
        },
        has_room: volume::has_room(pod, container),
        probes: Probe::ALL.into_iter().filter(probe).collect(),
    }
}

/// A hook of a container for which nothing else can be run.
fn read_simple_hook(hook: &Value) -> Hook {
    if hook.is_null() {
        return Hook::None;
    }
    let sleep = hook["sleep"]["seconds"].as_i64().and_then(|seconds| u32::try_from(seconds).ok());
    sleep.filter(|_| is_alone(hook)).map_or(Hook::Other, Hook::Sleep)
}

fn read_hook(container: &Value) -> Hook {
    let hook = &container["lifecycle"]["preStop"];
    if !is_alone(hook) {
        return read_simple_hook(hook);
    }
    if let Some(command) = command(hook) {
        let sleeps = match PreStop::of_command(&command) {
            PreStop::Sleeps(seconds) => seconds,
            PreStop::None | PreStop::Unknown => 0,
        };
        return Hook::Command { sleeps, by_shell: command.first().is_some_and(|program| is_shell(program)) };
    }
    match HttpGet::of(container) {
        Some(_) => Hook::Request,
        None => read_simple_hook(hook),
    }
}

/// Kubernetes takes one kind of hook only, and refuses the pod if there are two.
fn is_alone(hook: &Value) -> bool {
    hook.as_object().is_some_and(|kinds| kinds.len() == 1)
}

/// The command of a hook, if it is one.
pub fn command(hook: &Value) -> Option<Vec<&str>> {
    let command = hook["exec"]["command"].as_array().filter(|command| !command.is_empty())?;
    command.iter().map(Value::as_str).collect()
}

/// The HTTP request of a `preStop`.
#[derive(Debug, PartialEq, Eq)]
pub struct HttpGet<'a> {
    /// To whom; empty: to the pod itself.
    pub host: &'a str,
    /// To which port.
    pub port: u16,
    /// What stands behind them.
    pub path: &'a str,
    /// Names and values.
    pub headers: Vec<(&'a str, &'a str)>,
}

impl<'a> HttpGet<'a> {
    /// Of a container, if its `preStop` is one that can be sent from within: plain, with a port that is known, and with
    /// nothing in it that could be read as something else.
    pub fn of(container: &'a Value) -> Option<Self> {
        let get = container["lifecycle"]["preStop"]["httpGet"].as_object()?;
        let text = |name: &str, default: &'static str| match get.get(name) {
            None | Some(Value::Null) => Some(default),
            Some(value) => value.as_str(),
        };
        let is_plain = |text: &str| !text.chars().any(|c| c.is_control() || c.is_whitespace());
        if !matches!(text("scheme", "HTTP")?, "HTTP" | "") {
            return None;
        }
        let port = match get.get("port")? {
            Value::String(name) => name.parse().ok().or_else(|| {
                let port = ports(container).into_iter().find(|port| *port.name == **name)?;
                Some(port.port)
            })?,
            number => port_number(number.as_i64())?,
        };
        let (host, path) = (text("host", "")?, text("path", "/")?);
        let headers = get.get("httpHeaders").and_then(Value::as_array).into_iter().flatten();
        let headers: Option<Vec<_>> =
            headers.map(|header| Some((header["name"].as_str()?, header["value"].as_str()?))).collect();
        let headers = headers?;
        let is_sendable = |(name, value): &(&str, &str)| {
            is_plain(name) && !name.is_empty() && !name.contains(':') && !value.chars().any(char::is_control)
        };
        let is_sound = is_plain(host) && is_plain(path) && headers.iter().all(is_sendable) && port > 0;
        is_sound.then_some(Self { host, port, path: if path.is_empty() { "/" } else { path }, headers })
    }
}

fn ports(container: &Value) -> Vec<NamedPort> {
    let ports = container["ports"].as_array().into_iter().flatten();
    let named = ports.filter_map(|port| {
        Some(NamedPort {
            name: port["name"].as_str()?.into(),
            port: port_number(port["containerPort"].as_i64())?,
            protocol: Protocol::parse(port["protocol"].as_str()),
        })
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_is_read_with_its_native_sidecars_and_without_its_other_init_containers() {
        let pod = json!({
            "metadata": {"labels": {"app": "web", "odd": 7}, "annotations": {"headgate.dev/hold": "5s", "x": "y"}},
            "spec": {
                "terminationGracePeriodSeconds": 60,
                "readinessGates": [{"conditionType": "example.com/x"}],
                "initContainers": [
                    {"name": "once", "ports": [{"name": "setup", "containerPort": 9}]},
                    {"name": "proxy", "restartPolicy": "Always", "ports": [{"name": "admin", "containerPort": 15000}]},
                ],
                "containers": [
                    {"name": "web", "ports": [{"name": "http", "containerPort": 8080}, {"containerPort": 1}],
                        "livenessProbe": {"httpGet": {"port": 80}}, "readinessProbe": {"httpGet": {"port": 80}}},
                    {"name": "shell", "lifecycle": {"preStop": {"exec": {"command": ["sleep", "5"]}}},
                        "livenessProbe": {"terminationGracePeriodSeconds": 9}, "startupProbe": {"httpGet": {"port": 80}}},
                    {"name": "job", "lifecycle": {"preStop": null}, "livenessProbe": null},
                    {"name": "slow", "lifecycle": {"preStop": {"sleep": {"seconds": 20}}}},
                    {"name": "odd", "lifecycle": {"preStop": {"sleep": {"seconds": -1}}}, "startupProbe": 7},
                    {"name": "both", "lifecycle": {"preStop": {"sleep": {"seconds": 1}, "httpGet": {}}}},
                ],
            },
        });
        let read = read(&pod).unwrap();
        let shown: Vec<_> =
            read.containers.iter().map(|c| (&*c.name, c.place, c.pre_stop, &c.probes[..])).collect();
        assert_eq!(
            shown,
            [
                ("web", Place::Container(0), Hook::None, &[Probe::Liveness][..]),
                (
                    "shell",
                    Place::Container(1),
                    Hook::Command { sleeps: 5, by_shell: false },
                    &[Probe::Startup]
                ),
                ("job", Place::Container(2), Hook::None, &[]),
                ("slow", Place::Container(3), Hook::Sleep(20), &[]),
                ("odd", Place::Container(4), Hook::Other, &[]),
                ("both", Place::Container(5), Hook::Other, &[]),
                ("proxy", Place::Sidecar(1), Hook::None, &[]),
            ]
        );
        let ports: Vec<_> = read.ports.iter().map(|port| (&*port.name, port.port)).collect();
        assert_eq!(ports, [("http", 8080), ("admin", 15000)]);
        assert_eq!((read.grace, read.hold.as_deref(), read.injected), (Some(60), Some("5s"), None));
        assert_eq!((read.labels.get("app"), read.labels.get("odd")), (Some("web"), None));
        assert_eq!(&*read.gates[0], "example.com/x");
    }

    #[test]
    fn a_pod_is_of_a_job_if_that_is_its_controller() {
        let made_by =
            |owner: Value| json!({"metadata": {"ownerReferences": [owner]}, "spec": {"containers": [{}]}});
        let job = json!({"apiVersion": "batch/v1", "kind": "Job", "name": "nightly", "controller": true});
        assert!(read(&made_by(job.clone())).unwrap().of_job);
        for (field, other) in [
            ("apiVersion", json!("example.com/v1")),
            ("kind", json!("ReplicaSet")),
            ("controller", json!(false)),
        ] {
            let mut owner = job.clone();
            owner[field] = other;
            assert!(!read(&made_by(owner)).unwrap().of_job, "{field}");
        }
        for odd in [json!(null), json!(7), json!("batch/v1"), json!([])] {
            assert!(!read(&made_by(odd)).unwrap().of_job);
        }
    }

    #[test]
    fn what_is_no_pod_is_none() {
        for odd in [
            json!(null),
            json!(7),
            json!([]),
            json!({}),
            json!({"spec": 3}),
            json!({"spec": {"containers": {}}}),
            json!({"spec": {"containers": [7, null]}, "metadata": []}),
        ] {
            assert_eq!(read(&odd), None, "{odd}");
        }
    }
}
