//! Reads a new pod from a request. Reading is lenient: unexpected content is ignored, never rejected.

use headgate_core::{
    inject::INJECTED,
    lifespan::DEFAULT_GRACE,
    model::{
        expected::EXPECTED_BINDINGS,
        injection::{Container, Hook, MAX_GRACE, NewPod, OWN_PRESTOP, Obstacle, Place, Probe},
        lifespan::{PreStop, hold_of_command, is_shell, only_sleeps},
        object::{Labels, Uid},
        pod::{NamedPort, Protocol},
        policy::HOLD,
    },
};
use serde_json::Value;

use super::volume;
use crate::kube::slim::port_number;

/// Reads the parts of a pod that Headgate needs. `None`: the pod has no containers.
pub fn read(pod: &Value) -> Option<NewPod> {
    let containers = pod.pointer("/spec/containers")?.as_array()?;
    let sidecars = pod.pointer("/spec/initContainers").and_then(Value::as_array);
    // A native sidecar runs during the whole life of the pod. Other init containers cannot have a `preStop` hook.
    let is_sidecar = |container: &&(usize, &Value)| container.1["restartPolicy"] == "Always";
    let sidecars: Vec<_> = sidecars.into_iter().flatten().enumerate().collect();
    let sidecars = sidecars.iter().filter(is_sidecar).map(|(at, one)| (Place::Sidecar(*at), *one));
    let containers = containers.iter().enumerate().map(|(at, one)| (Place::Container(at), one));
    let staying: Vec<(Place, &Value)> =
        containers.chain(sidecars).filter(|(_, container)| container.is_object()).collect();
    if staying.is_empty() {
        return None;
    }
    let of_pod = OfPod::read(pod);
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
        max_grace: annotation(MAX_GRACE),
        injected: annotation(INJECTED),
        has_expectations: annotation(EXPECTED_BINDINGS).is_some(),
        owner: controller(pod).and_then(|owner| owner["uid"].as_str()).map(Uid::new),
        of_job: is_of_job(pod),
        gates: gates.into_iter().flatten().filter_map(condition).collect(),
        grace: pod["spec"]["terminationGracePeriodSeconds"].as_i64(),
        containers: staying
            .iter()
            .map(|(place, container)| of_pod.container(pod, *place, container))
            .collect(),
        ports: staying.iter().flat_map(|(_, container)| ports(container)).collect(),
    })
}

/// Whether the pod's controller is a Job.
fn is_of_job(pod: &Value) -> bool {
    controller(pod).is_some_and(|owner| {
        let is_batch = owner["apiVersion"].as_str().is_some_and(|version| version.starts_with("batch/"));
        owner["kind"] == "Job" && is_batch
    })
}

/// The owner reference to the pod's controller.
fn controller(pod: &Value) -> Option<&Value> {
    let owners = pod.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    owners.into_iter().flatten().find(|owner| owner["controller"] == true)
}

/// The properties of a pod that apply to each of its containers.
struct OfPod {
    /// The reason why no container of the pod can mount `headgate-hold`, if there is one.
    obstacle: Option<Obstacle>,
    /// The longest time in seconds that a command can run when the pod terminates.
    grace: u32,
}

impl OfPod {
    fn read(pod: &Value) -> Self {
        let spec = &pod["spec"];
        let has_runtime = spec["runtimeClassName"].as_str().is_some_and(|name| !name.is_empty());
        let obstacle = if may_be_windows(spec) {
            Some(Obstacle::Windows)
        } else {
            has_runtime.then_some(Obstacle::RuntimeClass)
        };
        let grace = spec["terminationGracePeriodSeconds"].as_i64();
        let grace = grace.map_or(DEFAULT_GRACE, |grace| u32::try_from(grace.max(0)).unwrap_or(u32::MAX));
        Self { obstacle, grace }
    }

    fn container(&self, pod: &Value, place: Place, container: &Value) -> Container {
        // Headgate does not change a probe that has its own grace period.
        let probe = |probe: &Probe| {
            let probe = &container[probe.field()];
            probe.is_object() && probe["terminationGracePeriodSeconds"].is_null()
        };
        let declared = container["ports"].as_array().into_iter().flatten();
        Container {
            name: container["name"].as_str().unwrap_or_default().into(),
            place,
            pre_stop: if self.obstacle == Some(Obstacle::Windows) {
                // Windows containers have neither a POSIX shell nor `headgate-hold`.
                read_simple_hook(&container["lifecycle"]["preStop"])
            } else {
                read_hook(container, self.grace)
            },
            obstacle: self
                .obstacle
                .or_else(|| (!volume::has_room(pod, container)).then_some(Obstacle::Taken)),
            ports: declared.filter_map(|port| port_number(port["containerPort"].as_i64())).collect(),
            probes: Probe::ALL.into_iter().filter(probe).collect(),
        }
    }
}

/// Whether a pod may run on Windows, according to its `os` or its node selection.
fn may_be_windows(spec: &Value) -> bool {
    const LABELS: [&str; 2] = ["kubernetes.io/os", "beta.kubernetes.io/os"];
    match spec["os"]["name"].as_str() {
        Some(os) if !os.is_empty() => return os == "windows",
        _ => {}
    }
    let selected = LABELS.iter().any(|label| spec["nodeSelector"][label] == "windows");
    let required = "/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
    let terms = spec.pointer(required).and_then(Value::as_array).into_iter().flatten();
    let mut expressions = terms.flat_map(|term| term["matchExpressions"].as_array().into_iter().flatten());
    selected
        || expressions.any(|expression| {
            let is_of_os = LABELS.iter().any(|label| expression["key"] == *label);
            let names =
                |os: &str| expression["values"].as_array().is_some_and(|all| all.iter().any(|is| is == os));
            match expression["operator"].as_str() {
                Some("In") => is_of_os && names("windows"),
                Some("NotIn") => is_of_os && names("linux"),
                _ => false,
            }
        })
}

/// Reads a hook in a container that cannot run a wrapper.
fn read_simple_hook(hook: &Value) -> Hook {
    if hook.is_null() {
        return Hook::None;
    }
    let sleep = hook["sleep"]["seconds"].as_i64().and_then(|seconds| u32::try_from(seconds).ok());
    sleep.filter(|_| is_alone(hook)).map_or(Hook::Other, Hook::Sleep)
}

/// Reads a container's hook. `grace` is the number of seconds after which Kubernetes kills every command.
fn read_hook(container: &Value, grace: u32) -> Hook {
    let hook = &container["lifecycle"]["preStop"];
    if !is_alone(hook) {
        return read_simple_hook(hook);
    }
    if let Some(command) = command(hook) {
        if let Some(seconds) = hold_of_command(&command) {
            return Hook::Wrapped(seconds);
        }
        if let Some(seconds) = only_sleeps(&command) {
            return Hook::Sleep(seconds.min(grace));
        }
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

/// Whether a hook has exactly one kind of handler. Kubernetes rejects a pod with two kinds.
fn is_alone(hook: &Value) -> bool {
    hook.as_object().is_some_and(|kinds| kinds.len() == 1)
}

/// The command of a hook, if the hook runs a command.
pub fn command(hook: &Value) -> Option<Vec<&str>> {
    let command = hook["exec"]["command"].as_array().filter(|command| !command.is_empty())?;
    command.iter().map(Value::as_str).collect()
}

/// The HTTP request of a `preStop` hook.
#[derive(Debug, PartialEq, Eq)]
pub struct HttpGet<'a> {
    /// The host of the request. An empty host means the pod itself.
    pub host: &'a str,
    /// The port of the request.
    pub port: u16,
    /// The path and query of the request.
    pub path: &'a str,
    /// The names and values of the headers.
    pub headers: Vec<(&'a str, &'a str)>,
}

impl<'a> HttpGet<'a> {
    /// Reads the HTTP request of a container's `preStop` hook, if a program in the container can send it. The request
    /// must use plain HTTP and a known port, and must not contain ambiguous parts.
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
                ("shell", Place::Container(1), Hook::Sleep(5), &[Probe::Startup]),
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
    fn a_command_that_only_sleeps_is_a_sleep_and_one_that_outlasts_the_grace_period_ends_with_it() {
        for (command, grace, hook) in [
            (json!(["sh", "-c", "sleep 15"]), json!(null), Hook::Sleep(15)),
            (json!(["sleep", "infinity"]), json!(null), Hook::Sleep(30)),
            (json!(["sleep", "100"]), json!(60), Hook::Sleep(60)),
            (
                json!(["sh", "-c", "sleep 15; nginx -s quit"]),
                json!(60),
                Hook::Command { sleeps: 15, by_shell: true },
            ),
            (json!(["/.headgate/headgate-hold", "45", "run", "nginx"]), json!(60), Hook::Wrapped(45)),
            (
                json!(["sh", "-c", "sleep 45; exec \"$@\"", "headgate-hold", "nginx"]),
                json!(60),
                Hook::Wrapped(45),
            ),
        ] {
            let container = json!({"name": "web", "lifecycle": {"preStop": {"exec": {"command": command}}}});
            let pod = json!({"spec": {"terminationGracePeriodSeconds": grace, "containers": [container]}});
            assert_eq!(read(&pod).unwrap().containers[0].pre_stop, hook, "{command}");
        }
    }

    #[test]
    fn a_pod_for_windows_is_known_by_what_it_says_of_its_nodes() {
        let required = |operator: &str, values: Value| {
            let expression = json!({"key": "kubernetes.io/os", "operator": operator, "values": values});
            let terms = json!([{"matchExpressions": [expression]}]);
            json!({"affinity": {"nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms},
            }}})
        };
        let windows = [Some(Obstacle::Windows), None];
        for (spec, obstacle) in [
            (json!({"os": {"name": "windows"}}), windows[0]),
            (json!({"nodeSelector": {"kubernetes.io/os": "windows"}}), windows[0]),
            (json!({"nodeSelector": {"beta.kubernetes.io/os": "windows"}}), windows[0]),
            (required("In", json!(["windows"])), windows[0]),
            (required("In", json!(["linux", "windows"])), windows[0]),
            (required("NotIn", json!(["linux"])), windows[0]),
            (json!({"runtimeClassName": "windows-2022"}), Some(Obstacle::RuntimeClass)),
            (required("In", json!(["linux"])), windows[1]),
            (required("NotIn", json!(["windows"])), windows[1]),
            (json!({"nodeSelector": {"kubernetes.io/os": "linux"}, "runtimeClassName": ""}), windows[1]),
            (json!({"os": {"name": "linux"}, "nodeSelector": {"kubernetes.io/os": "windows"}}), windows[1]),
        ] {
            let mut spec = spec;
            let hook = json!({"exec": {"command": ["sh", "-c", "drain"]}});
            spec["containers"] = json!([{"name": "web", "lifecycle": {"preStop": hook}}]);
            let container = read(&json!({"spec": spec})).unwrap().containers.remove(0);
            assert_eq!(container.obstacle, obstacle, "{spec}");
            assert_eq!(container.pre_stop == Hook::Other, obstacle == windows[0], "{spec}");
        }
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
