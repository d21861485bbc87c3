//! Slim types for the watches: only the fields Headgate needs are decoded, and nothing in them can fail.
//!
//! A full `Pod` costs about 65 KB of heap and 370 allocations to decode; this form some 2 KB. Fields are lenient
//! on purpose: one item that cannot be decoded would fail a whole list forever. The API server decodes every object
//! itself before it serves it, so a field has the type that the API says; but any of them may be `null`, a number may
//! be out of range, and a later Kubernetes may have words in it that are not known here.

use std::{collections::BTreeMap, fmt, net::IpAddr};

use headgate_core::{
    annotation,
    gate::{EXPECTED_BINDINGS, GateFacts, Shown},
    hold::Hold,
    leaving,
    object::{Labels, ObjectKey, Uid},
    pod::{Ending, NamedPort, PodFacts, Protocol},
    policy::{self, Texts},
    readiness::{OWN_GATE, Readiness},
    service::{ServiceFacts, ServicePort, TargetPort},
};
use k8s_openapi::{
    api::core::v1::{Pod, Service},
    apimachinery::pkg::{
        apis::meta::v1::{ObjectMeta, Time},
        util::intstr::IntOrString,
    },
    jiff::Timestamp,
};
use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, Visitor},
};

use super::marks;

/// A pod as it is watched.
#[derive(Clone, Debug, Deserialize, kube::Resource)]
#[resource(inherit = Pod)]
pub struct SlimPod {
    #[serde(default, deserialize_with = "with_annotations_of_pod")]
    metadata: ObjectMeta,
    #[serde(default, deserialize_with = "null_is_default")]
    spec: PodSpec,
    #[serde(default, deserialize_with = "null_is_default")]
    status: PodStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodSpec {
    host_network: Option<bool>,
    node_name: Option<String>,
    containers: Option<Vec<Option<Container>>>,
    init_containers: Option<Vec<Option<Container>>>,
    readiness_gates: Option<Vec<Option<Gate>>>,
    termination_grace_period_seconds: Option<i64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Gate {
    condition_type: Option<Box<str>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Condition {
    #[serde(rename = "type")]
    kind: Option<Box<str>>,
    status: Option<Box<str>>,
    message: Option<Box<str>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Container {
    ports: Option<Vec<Option<ContainerPort>>>,
    restart_policy: Option<String>,
    lifecycle: Option<Lifecycle>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Lifecycle {
    pre_stop: Option<PreStop>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct PreStop {
    sleep: Option<Sleep>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Sleep {
    seconds: Option<i64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ContainerPort {
    name: Option<Box<str>>,
    #[serde(rename = "containerPort")]
    number: Option<i64>,
    protocol: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodStatus {
    phase: Option<String>,
    #[serde(rename = "podIP")]
    pod_ip: Option<String>,
    #[serde(rename = "podIPs")]
    pod_ips: Option<Vec<Option<PodIp>>>,
    conditions: Option<Vec<Option<Condition>>>,
    container_statuses: Option<Vec<Option<ContainerStatus>>>,
    init_container_statuses: Option<Vec<Option<ContainerStatus>>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct ContainerStatus {
    state: Option<ContainerState>,
}

/// Only what is running counts.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct ContainerState {
    running: Option<IgnoredAny>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct PodIp {
    ip: Option<String>,
}

/// A Service as it is watched.
#[derive(Clone, Debug, Deserialize, kube::Resource)]
#[resource(inherit = Service)]
pub struct SlimService {
    #[serde(default, deserialize_with = "with_annotations_of_service")]
    metadata: ObjectMeta,
    #[serde(default, deserialize_with = "null_is_default")]
    spec: ServiceSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ServiceSpec {
    selector: Option<BTreeMap<String, Option<String>>>,
    ports: Option<Vec<Option<SlimServicePort>>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SlimServicePort {
    name: Option<Box<str>>,
    port: Option<i64>,
    target_port: Option<IntOrString>,
    protocol: Option<String>,
}

/// The metadata that is kept; `managedFields` alone is often larger than the rest of an object.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default, bound = "A: Default + Deserialize<'de>")]
struct Meta<A> {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    labels: Option<BTreeMap<String, Option<String>>>,
    creation_timestamp: Option<String>,
    /// Only that it is there counts.
    deletion_timestamp: Option<IgnoredAny>,
    annotations: Option<A>,
}

/// Which annotations are kept.
trait Annotations {
    fn kept(self) -> Option<BTreeMap<String, String>>;
}

/// None.
impl Annotations for IgnoredAny {
    fn kept(self) -> Option<BTreeMap<String, String>> {
        None
    }
}

/// Those of a Service.
#[derive(Default, Deserialize)]
#[serde(transparent)]
struct OfService(BTreeMap<String, Option<String>>);

impl Annotations for OfService {
    fn kept(self) -> Option<BTreeMap<String, String>> {
        let mut all = known(self.0);
        all.retain(|key, _| key == annotation::TARGET_GROUPS || policy::ALL.contains(&key.as_str()));
        Some(all)
    }
}

/// Those of a pod that count.
const OF_POD: [&str; 6] = {
    let [leaving, waits, deregistered, may_go] = leaving::ALL;
    [EXPECTED_BINDINGS, policy::HOLD, leaving, waits, deregistered, may_go]
};

/// Those of a pod: there may be a hundred thousand of them, and each of their annotations may be long, so none is read
/// but those that count.
#[derive(Default)]
struct OfPod(BTreeMap<String, String>);

impl Annotations for OfPod {
    fn kept(self) -> Option<BTreeMap<String, String>> {
        (!self.0.is_empty()).then_some(self.0)
    }
}

/// The name of an annotation, if it is one that counts.
struct Counts(Option<&'static str>);

impl<'de> Deserialize<'de> for Counts {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Name;
        impl Visitor<'_> for Name {
            type Value = Counts;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of an annotation")
            }

            fn visit_str<E>(self, name: &str) -> Result<Counts, E> {
                Ok(Counts(OF_POD.into_iter().find(|counts| *counts == name)))
            }
        }
        from.deserialize_identifier(Name)
    }
}

impl<'de> Deserialize<'de> for OfPod {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Pairs;
        impl<'de> Visitor<'de> for Pairs {
            type Value = OfPod;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("annotations")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut pairs: M) -> Result<OfPod, M::Error> {
                let mut kept = OfPod::default();
                while let Some(Counts(name)) = pairs.next_key()? {
                    if let Some(name) = name {
                        let value: Option<String> = pairs.next_value()?;
                        kept.0.extend(value.map(|value| (name.to_owned(), value)));
                    } else {
                        pairs.next_value::<IgnoredAny>()?;
                    }
                }
                Ok(kept)
            }
        }
        from.deserialize_map(Pairs)
    }
}

impl<A: Annotations> From<Meta<A>> for ObjectMeta {
    fn from(meta: Meta<A>) -> Self {
        Self {
            name: meta.name,
            namespace: meta.namespace,
            uid: meta.uid,
            resource_version: meta.resource_version,
            labels: meta.labels.map(known),
            creation_timestamp: meta.creation_timestamp.and_then(|text| text.parse().ok()).map(Time),
            deletion_timestamp: meta.deletion_timestamp.map(|IgnoredAny| Time(Timestamp::UNIX_EPOCH)),
            annotations: meta.annotations.and_then(Annotations::kept),
            ..Self::default()
        }
    }
}

/// Pairs with a value.
fn known(pairs: BTreeMap<String, Option<String>>) -> BTreeMap<String, String> {
    pairs.into_iter().filter_map(|(key, value)| Some((key, value?))).collect()
}

fn null_is_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(from: D) -> Result<T, D::Error> {
    Option::deserialize(from).map(Option::unwrap_or_default)
}

pub(super) fn without_annotations<'de, D: Deserializer<'de>>(from: D) -> Result<ObjectMeta, D::Error> {
    null_is_default::<_, Meta<IgnoredAny>>(from).map(Into::into)
}

fn with_annotations_of_pod<'de, D: Deserializer<'de>>(from: D) -> Result<ObjectMeta, D::Error> {
    null_is_default::<_, Meta<OfPod>>(from).map(Into::into)
}

fn with_annotations_of_service<'de, D: Deserializer<'de>>(from: D) -> Result<ObjectMeta, D::Error> {
    null_is_default::<_, Meta<OfService>>(from).map(Into::into)
}

pub(super) fn identity(meta: &mut ObjectMeta) -> Option<(ObjectKey, Uid)> {
    let key = ObjectKey::new(meta.namespace.take()?, meta.name.take()?);
    Some((key, Uid::new(meta.uid.take()?)))
}

/// Whether the containers are ready, and every gate but our own has a condition that is true.
fn readiness(gates: &[Option<Gate>], conditions: &[Option<Condition>]) -> Readiness {
    let is_true = |kind: &str| {
        let mut conditions = conditions.iter().flatten();
        let condition = conditions.find(|condition| condition.kind.as_deref() == Some(kind));
        condition.is_some_and(|condition| condition.status.as_deref() == Some("True"))
    };
    let gates = gates.iter().flatten().filter_map(|gate| gate.condition_type.as_deref());
    let mut others = gates.filter(|kind| *kind != OWN_GATE);
    Readiness { containers: is_true("ContainersReady"), gates: others.all(is_true) }
}

/// Our own gate, if the pod has it.
fn own_gate(
    gates: &[Option<Gate>],
    conditions: &[Option<Condition>],
    expected: Option<String>,
) -> Option<Box<GateFacts>> {
    let mut gates = gates.iter().flatten();
    gates.find(|gate| gate.condition_type.as_deref() == Some(OWN_GATE))?;
    let condition = conditions.iter().flatten().find(|condition| condition.kind.as_deref() == Some(OWN_GATE));
    let shown = condition.map_or(Shown::Missing, |condition| {
        Shown::read(condition.status.as_deref(), condition.message.as_deref())
    });
    Some(Box::new(GateFacts { shown, expected: expected.map(String::into_boxed_str) }))
}

pub(crate) fn port_number(number: Option<i64>) -> Option<u16> {
    u16::try_from(number?).ok().filter(|port| *port > 0)
}

fn seconds(number: i64) -> u32 {
    u32::try_from(number.max(0)).unwrap_or(u32::MAX)
}

impl Container {
    /// For how many seconds it sleeps in its `preStop`.
    fn sleeps(&self) -> u32 {
        let pre_stop = self.lifecycle.as_ref().and_then(|lifecycle| lifecycle.pre_stop.as_ref());
        let sleep = pre_stop.and_then(|pre_stop| pre_stop.sleep.as_ref());
        sleep.and_then(|sleep| sleep.seconds).map(seconds).unwrap_or_default()
    }
}

impl SlimPod {
    /// What the core needs to know; `None` for an object without identity, which the API server never sends.
    pub fn into_facts(mut self) -> Option<PodFacts> {
        let (key, uid) = identity(&mut self.metadata)?;
        let mut ips: Vec<IpAddr> = Vec::new();
        let listed = self.status.pod_ips.unwrap_or_default().into_iter().filter_map(|entry| entry?.ip);
        for ip in self.status.pod_ip.into_iter().chain(listed).filter_map(|ip| ip.parse().ok()) {
            if !ips.contains(&ip) {
                ips.push(ip);
            }
        }
        let conditions = self.status.conditions.unwrap_or_default();
        let gates = self.spec.readiness_gates.unwrap_or_default();
        let readiness = readiness(&gates, &conditions);
        let mut annotations = self.metadata.annotations.take().unwrap_or_default();
        let expected = annotations.remove(EXPECTED_BINDINGS);
        let terminating = self.metadata.deletion_timestamp.is_some();
        // Containers that run before or beside the others count too: one of them may be what serves.
        let main = self.status.container_statuses.unwrap_or_default();
        let all = main.iter().chain(self.status.init_container_statuses.iter().flatten()).flatten();
        let runs = |container: &ContainerStatus| {
            container.state.as_ref().is_some_and(|state| state.running.is_some())
        };
        let stopped = terminating && !main.is_empty() && !all.into_iter().any(runs);
        let gate = own_gate(&gates, &conditions, expected);
        // A native sidecar is an init container that is restarted: it runs as long as the pod does.
        let sidecars = self.spec.init_containers.unwrap_or_default().into_iter().flatten();
        let sidecars = sidecars.filter(|c| c.restart_policy.as_deref() == Some("Always"));
        let containers = self.spec.containers.unwrap_or_default().into_iter().flatten();
        let staying: Vec<Container> = containers.chain(sidecars).collect();
        let ending = Ending {
            sleeps: staying.iter().map(Container::sleeps).min().unwrap_or_default(),
            grace: seconds(self.spec.termination_grace_period_seconds.unwrap_or(30)),
        };
        let leaving = marks::read(&uid, |name| annotations.get(name).map(String::as_str)).map(Box::new);
        let ports = staying.into_iter().flat_map(|c| c.ports.unwrap_or_default());
        let ports = ports
            .flatten()
            .filter_map(|port| {
                let protocol = Protocol::parse(port.protocol.as_deref());
                Some(NamedPort { name: port.name?, port: port_number(port.number)?, protocol })
            })
            .collect();
        Some(PodFacts {
            key,
            uid,
            labels: self.metadata.labels.unwrap_or_default().into_iter().collect(),
            created: self.metadata.creation_timestamp.map_or(0, |time| time.0.as_second()),
            terminating,
            finished: matches!(self.status.phase.as_deref(), Some("Succeeded" | "Failed")),
            stopped,
            host_network: self.spec.host_network.unwrap_or_default(),
            readiness,
            gate,
            hold: annotations.remove(policy::HOLD).and_then(|text| Hold::parse(&text)),
            node: self.spec.node_name.filter(|name| !name.is_empty()).map(Into::into),
            ending,
            leaving,
            ips,
            ports,
        })
    }
}

impl SlimService {
    /// What the core needs to know; `None` for an object without identity, which the API server never sends.
    pub fn into_facts(mut self) -> Option<ServiceFacts> {
        let (key, uid) = identity(&mut self.metadata)?;
        let mut annotations = self.metadata.annotations.unwrap_or_default();
        let target_groups = annotations.remove(annotation::TARGET_GROUPS).map(String::into_boxed_str);
        let mut policy = Texts::default();
        for (annotation, value) in &annotations {
            policy.set(annotation, value);
        }
        let ports = self.spec.ports.unwrap_or_default().into_iter().flatten().filter_map(|slim| {
            let port = port_number(slim.port)?;
            let target_port = match slim.target_port {
                None | Some(IntOrString::Int(0)) => TargetPort::Number(port),
                Some(IntOrString::Int(number)) => TargetPort::Number(port_number(Some(i64::from(number)))?),
                Some(IntOrString::String(name)) => TargetPort::Name(name.into()),
            };
            Some(ServicePort {
                name: slim.name.unwrap_or_default(),
                port,
                target_port,
                protocol: Protocol::parse(slim.protocol.as_deref()),
            })
        });
        Some(ServiceFacts {
            key,
            uid,
            target_groups,
            policy,
            selector: known(self.spec.selector.unwrap_or_default()).into_iter().collect::<Labels>(),
            ports: ports.collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(spec: &serde_json::Value, status: &serde_json::Value) -> PodFacts {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": "a", "namespace": "shop", "uid": "u-1", "resourceVersion": "7",
                "creationTimestamp": "2026-01-02T03:04:05Z", "labels": {"app": "web"},
                "annotations": {"x": "y"}, "managedFields": [{"manager": "kubelet"}],
            },
            "spec": spec, "status": status,
        });
        serde_json::from_value::<SlimPod>(pod).unwrap().into_facts().unwrap()
    }

    #[test]
    fn a_pod_is_read_with_its_ips_and_the_named_ports_of_containers_that_stay() {
        let facts = pod(
            &json!({
                "hostNetwork": true,
                "containers": [{"name": "c", "ports": [{"name": "web", "containerPort": 8080}, {"containerPort": 1}]}],
                "initContainers": [
                    {"name": "sidecar", "restartPolicy": "Always",
                     "ports": [{"name": "dns", "containerPort": 53, "protocol": "UDP"}]},
                    {"name": "once", "ports": [{"name": "setup", "containerPort": 9}]},
                ],
            }),
            &json!({"phase": "Running", "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]}),
        );
        assert_eq!((facts.key.to_string(), facts.uid.as_str()), ("shop/a".to_owned(), "u-1"));
        assert_eq!(facts.ips, ["10.0.0.1".parse::<IpAddr>().unwrap(), "fd00::1".parse().unwrap()]);
        assert_eq!(facts.port_named("web", Protocol::Tcp), Some(8080));
        assert_eq!(facts.port_named("dns", Protocol::Udp), Some(53));
        assert_eq!(facts.port_named("setup", Protocol::Tcp), None);
        assert!(facts.host_network && !facts.terminating && !facts.finished);
        assert_eq!(facts.labels.get("app"), Some("web"));
        assert_eq!(facts.created, 1_767_323_045);
    }

    #[test]
    fn a_pod_with_odd_fields_is_read_as_far_as_it_goes() {
        let facts = pod(&json!({"containers": [{}]}), &json!({"phase": "Failed", "podIP": "not an ip"}));
        assert!(facts.ips.is_empty() && facts.finished);
    }

    /// Every document that has `null` in one place of `whole` instead of what is there.
    fn with_one_null(whole: &serde_json::Value) -> Vec<serde_json::Value> {
        fn places(value: &serde_json::Value, here: &str, all: &mut Vec<String>) {
            all.push(here.to_owned());
            match value {
                serde_json::Value::Object(fields) => {
                    fields.iter().for_each(|(key, inner)| {
                        places(inner, &format!("{here}/{}", key.replace('/', "~1")), all);
                    });
                }
                serde_json::Value::Array(items) => {
                    items
                        .iter()
                        .enumerate()
                        .for_each(|(at, inner)| places(inner, &format!("{here}/{at}"), all));
                }
                _ => {}
            }
        }
        let mut all = Vec::new();
        places(whole, "", &mut all);
        let null = |place: &String| {
            let mut document = whole.clone();
            *document.pointer_mut(place).unwrap() = serde_json::Value::Null;
            document
        };
        all.iter().filter(|place| !place.is_empty()).map(null).collect()
    }

    #[test]
    fn no_null_anywhere_in_an_object_stops_the_list_it_is_in() {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "a", "namespace": "shop", "uid": "u-1", "labels": {"app": "web"},
                "resourceVersion": "7", "annotations": {"x": "y", "headgate.dev/expected-bindings": "b:80", "headgate.dev/hold": "9s"},
                "creationTimestamp": "2026-01-02T03:04:05Z", "deletionTimestamp": "2026-01-02T03:04:05Z"},
            "spec": {"hostNetwork": true, "readinessGates": [{"conditionType": "headgate.dev/target-health"}],
                "containers": [{"ports": [{"name": "web", "containerPort": 8080, "protocol": "TCP"}]}],
                "initContainers": [{"restartPolicy": "Always", "ports": [{"name": "dns", "containerPort": 53}]}]},
            "status": {"phase": "Running", "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}],
                "conditions": [{"type": "headgate.dev/target-health", "status": "True", "message": "fine"}],
                "containerStatuses": [{"name": "c", "state": {"running": {"startedAt": "x"}}}],
                "initContainerStatuses": [{"name": "i", "state": {"terminated": {"exitCode": 0}}}]},
        });
        let odd = with_one_null(&pod);
        assert!(odd.len() > 30);
        for document in odd {
            serde_json::from_value::<SlimPod>(document.clone())
                .unwrap_or_else(|error| panic!("{error}: {document}"));
        }
        let service = json!({
            "metadata": {"name": "web", "namespace": "shop", "uid": "s-1",
                "annotations": {"headgate.dev/target-groups": "http=blue", "other": "x"}},
            "spec": {"selector": {"app": "web"},
                "ports": [{"name": "http", "port": 80, "targetPort": "web", "protocol": "TCP"}]},
        });
        for document in with_one_null(&service) {
            serde_json::from_value::<SlimService>(document.clone())
                .unwrap_or_else(|error| panic!("{error}: {document}"));
        }
    }

    #[test]
    fn a_deletion_counts_and_a_port_does_not_whatever_odd_value_they_have() {
        let pod = json!({
            "metadata": {"name": "a", "namespace": "shop", "uid": "u-1", "labels": {"app": null, "zone": "a"},
                "creationTimestamp": "some day", "deletionTimestamp": "soon"},
            "spec": {"containers": [{"ports": [
                {"name": "negative", "containerPort": -1}, {"name": "huge", "containerPort": 9_999_999_999_i64}]}]},
            "status": {"phase": "SomethingNew"},
        });
        let facts = serde_json::from_value::<SlimPod>(pod).unwrap().into_facts().unwrap();
        assert!(facts.terminating && !facts.finished && facts.ports.is_empty());
        assert_eq!((facts.created, facts.labels.get("zone"), facts.labels.get("app")), (0, Some("a"), None));
    }

    #[test]
    fn readiness_is_ready_containers_and_every_gate_but_our_own() {
        let gates = json!({"containers": [], "readinessGates": [
            {"conditionType": "headgate.dev/target-health"}, {"conditionType": "example.com/warm"},
        ]});
        let conditions = |containers: &str, warm: &str| {
            json!({"conditions": [
                {"type": "Ready", "status": "False"},
                {"type": "ContainersReady", "status": containers},
                {"type": "headgate.dev/target-health", "status": "False"},
                {"type": "example.com/warm", "status": warm},
            ]})
        };
        let read = |containers, warm| pod(&gates, &conditions(containers, warm)).readiness;
        assert!(read("True", "True").is_ready());
        assert_eq!(read("True", "False"), Readiness { containers: true, gates: false });
        assert_eq!(read("Unknown", "True"), Readiness { containers: false, gates: true });
        let fresh = pod(&gates, &json!({})).readiness;
        assert_eq!(fresh, Readiness::default(), "a gate without a condition is not true");
    }

    #[test]
    fn how_a_pod_ends_and_what_is_written_of_its_leaving_are_read() {
        let sleeps = |seconds: i64| json!({"preStop": {"sleep": {"seconds": seconds}}});
        let read = |containers: serde_json::Value, grace: serde_json::Value, leaving: &str| {
            let pod = json!({
                "metadata": {"name": "a", "namespace": "shop", "uid": "u-1", "annotations": {
                    "headgate.dev/hold": "20s", "headgate.dev/leaving": leaving, "other": "x",
                    "headgate.dev/may-go": "u-1 EvictionAllowed at 2027-01-15T08:01:00Z",
                }},
                "spec": {"nodeName": "a1", "terminationGracePeriodSeconds": grace, "containers": containers,
                    "initContainers": [{"name": "once"}, {"restartPolicy": "Always", "lifecycle": sleeps(30)}]},
            });
            serde_json::from_value::<SlimPod>(pod).unwrap().into_facts().unwrap()
        };
        let asked = "u-1 since 2027-01-15T08:00:00Z asked 2027-01-15T08:00:00Z";
        let held = json!([{"lifecycle": sleeps(20)}, {"lifecycle": sleeps(150)}]);
        let pod = read(held, json!(50), asked);
        assert_eq!(pod.ending, Ending { sleeps: 20, grace: 50 });
        assert!(pod.leaving.is_some_and(|leaving| leaving.is_out()) && pod.node.as_deref() == Some("a1"));
        let own =
            json!([{"lifecycle": sleeps(20)}, {"lifecycle": {"preStop": {"exec": {"command": ["sleep"]}}}}]);
        let pod = read(own, json!(null), &asked.replace("u-1", "u-0"));
        assert_eq!((pod.ending.sleeps, pod.ending.grace, pod.leaving), (0, 30, None));
        for odd in [json!([]), json!([{"lifecycle": null}]), json!([{"lifecycle": sleeps(-1)}])] {
            assert_eq!(read(odd, json!(-5), "").ending.grace, 0);
        }
    }

    #[test]
    fn our_own_gate_is_read_with_what_it_says_and_what_was_expected() {
        let read = |gates: &serde_json::Value, conditions: &serde_json::Value| {
            pod(&json!({"containers": [], "readinessGates": gates}), &json!({"conditions": conditions})).gate
        };
        let ours = json!([{"conditionType": "headgate.dev/target-health"}, {"conditionType": "x/y"}]);
        let says = |status: &str| json!([{"type": "headgate.dev/target-health", "status": status, "message": "pod IP 10.0.0.1, fine"}]);
        let shown = |conditions| read(&ours, &conditions).unwrap().shown;
        assert_eq!(shown(json!([])), Shown::Missing);
        assert_eq!(shown(says("False")), Shown::Closed);
        assert_eq!(shown(says("True")), Shown::Open(Some("10.0.0.1".parse().unwrap())));
        assert_eq!(read(&json!([{"conditionType": "x/y"}]), &says("True")), None);
        let annotated = json!({
            "metadata": {"name": "a", "namespace": "shop", "uid": "u-1",
                "annotations": {"headgate.dev/expected-bindings": "blue:80", "x": "y"}},
            "spec": {"readinessGates": ours},
        });
        let facts = serde_json::from_value::<SlimPod>(annotated).unwrap().into_facts().unwrap();
        assert_eq!(facts.gate.unwrap().expected.as_deref(), Some("blue:80"));
    }

    #[test]
    fn a_pod_that_goes_has_stopped_when_none_of_its_containers_runs() {
        let (runs, over) = (json!({"running": {"startedAt": "x"}}), json!({"terminated": {"exitCode": 0}}));
        let status = |states: &[&serde_json::Value]| -> Vec<_> {
            states.iter().map(|state| json!({"name": "c", "state": state})).collect()
        };
        let read = |goes: bool, main: &[&serde_json::Value], sidecars: &[&serde_json::Value]| {
            let mut pod = json!({
                "metadata": {"name": "a", "namespace": "shop", "uid": "u-1"},
                "status": {"containerStatuses": status(main), "initContainerStatuses": status(sidecars)},
            });
            if goes {
                pod["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z".into();
            }
            let facts = serde_json::from_value::<SlimPod>(pod).unwrap().into_facts().unwrap();
            assert_eq!(facts.has_ended(), facts.stopped);
            facts.stopped
        };
        let waits = json!({"waiting": {"reason": "CrashLoopBackOff"}});
        assert!(read(true, &[&over, &over], &[&over]) && read(true, &[&waits], &[]));
        assert!(!read(true, &[&over, &runs], &[]) && !read(true, &[&over], &[&runs]));
        assert!(!read(false, &[&over], &[]), "it will be started again");
        assert!(!read(true, &[], &[]), "nothing is known of its containers");
    }

    #[test]
    fn the_hold_of_a_pod_is_its_own_annotation_if_that_can_be_read() {
        let read = |text: &str| {
            let pod = json!({"metadata": {"name": "a", "namespace": "shop", "uid": "u-1",
                "annotations": {"headgate.dev/hold": text, "x": "y"}}});
            serde_json::from_value::<SlimPod>(pod).unwrap().into_facts().unwrap().hold
        };
        assert_eq!((read("off"), read("90s"), read("soon")), (Some(Hold::Off), Some(Hold::For(90)), None));
    }

    #[test]
    fn a_service_is_read_with_its_annotation_and_ports() {
        let service = json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "web", "namespace": "shop", "uid": "s-1",
                "annotations": {"headgate.dev/target-groups": "http=blue", "headgate.dev/paused": "true", "other": "x"}},
            "spec": {"selector": {"app": "web"}, "ports": [
                {"name": "http", "port": 80, "targetPort": "web", "protocol": "TCP"},
                {"port": 53, "protocol": "UDP"},
            ]},
        });
        let facts = serde_json::from_value::<SlimService>(service).unwrap().into_facts().unwrap();
        assert_eq!(facts.target_groups.as_deref(), Some("http=blue"));
        assert_eq!(facts.policy.get(policy::PAUSED), Some("true"));
        assert_eq!(facts.ports[0].target_port, TargetPort::Name("web".into()));
        assert_eq!(facts.ports[1].target_port, TargetPort::Number(53));
        assert_eq!(facts.ports[1].protocol, Protocol::Udp);
    }
}
