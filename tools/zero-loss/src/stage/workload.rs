//! The load balancer and the workload of one side of a cell, and the actions on them.

use std::collections::BTreeSet;

use headgate_core::{binding::annotation::TARGET_GROUPS, inject::INJECT};
use headgate_harness::{
    aws::{Aws, Group},
    cluster::OWN_GATE,
    daemonsets::IngressDaemonSet,
    ingresses,
    recorder::APP,
    wait,
};
use k8s_openapi::api::{
    apps::v1::{DaemonSet, Deployment},
    core::v1::{ConfigMap, Pod},
};
use localstack_world::{Nodes, ingresses::Ingress};
use serde_json::{Value, json};

use super::{Care, Place, REPLICAS, Stage};
use crate::profile::Profile;

/// The number of additional pods during a rollout.
const SURGE: u32 = 3;
/// The interval of the load balancers' health checks, as people set it who want speed.
pub const HEALTH_INTERVAL: i32 = 10;
const HEALTHY_THRESHOLD: i32 = 2;
/// How long Kubernetes waits for a revision that makes no progress, in seconds.
const PROGRESS_DEADLINE: u32 = 20;
/// The port that the load balancer sends to.
pub const PORT: u16 = 8080;
/// The port on which a bad revision listens instead.
const WRONG_PORT: u16 = 8081;
const LISTENER: u16 = 8000;
/// The delay of a pod that listens late.
const LISTENS_AFTER: &str = "5s";

/// The number of pods in the scenario with many.
const MANY: u32 = 60;
/// The label that distinguishes two sets of pods if one replaces the other.
pub(super) const SLOT: &str = "slot";
/// Its value on the first pods.
pub(super) const FIRST: &str = "blue";

/// The workload of the pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A Deployment of [`REPLICAS`] pods, spread over the zones.
    Deployment,
    /// A DaemonSet with one pod per node.
    DaemonSet,
    /// A DaemonSet with a hostPort, and therefore without surge, as many people have it.
    HostPort,
    /// An IngressDaemonSet with this many pods per node.
    IngressDaemonSet(u32, Update),
}

/// How the pods of an IngressDaemonSet are replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Update {
    /// New pods start next to the old ones of a node.
    Surge,
    /// All pods of a node at once, because it has no room for one more.
    NodeReplace,
}

impl Kind {
    /// The name for kubectl.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Deployment => "deployment",
            Self::DaemonSet | Self::HostPort => "daemonset",
            Self::IngressDaemonSet(..) => "ingressdaemonset",
        }
    }
}

impl Stage {
    pub(crate) async fn deploy(&self) {
        let (care, nodes) = (self.care, self.facts.nodes);
        if let Some(ingress) = self.ingress {
            return self.deploy_ingress(ingress).await;
        }
        match self.kind {
            Kind::Deployment => {
                let mut made = deployment(care, nodes);
                if self.is_probed_for_life {
                    let probe = made["spec"]["template"]["spec"]["containers"][0]["readinessProbe"].clone();
                    made["spec"]["template"]["spec"]["containers"][0]["livenessProbe"] = probe;
                }
                if self.is_late {
                    made["spec"]["strategy"]["rollingUpdate"]["maxSurge"] = "100%".into();
                    made["spec"]["template"]["metadata"]["annotations"] =
                        json!({"sim.headgate.dev/start-delay": LISTENS_AFTER});
                }
                if self.place == Place::BeforeItsService {
                    // Their namespace has the label.
                    let labels = made["spec"]["template"]["metadata"]["labels"].as_object_mut();
                    labels.expect("labels").remove(INJECT);
                }
                self.cluster.create::<Deployment>(made).await;
            }
            Kind::DaemonSet => _ = self.cluster.create::<DaemonSet>(daemon_set(care, nodes)).await,
            Kind::HostPort => _ = self.cluster.create::<DaemonSet>(host_port(care, nodes)).await,
            Kind::IngressDaemonSet(pods, update) => {
                let set = ingress_daemon_set(care, nodes, pods, update);
                self.cluster.create::<IngressDaemonSet>(set).await;
            }
        }
    }

    /// Deploys an ingress from its page: its configuration, and its Deployment, DaemonSet or IngressDaemonSet under the
    /// common name, with an image that was made for it. A control has neither label nor annotations of Headgate.
    async fn deploy_ingress(&self, ingress: Ingress) {
        for mut document in ingresses::manifest(ingress, self.kind.name(), self.time_scale) {
            match document["kind"].as_str() {
                Some("ConfigMap") => _ = self.cluster.create::<ConfigMap>(document).await,
                // There is one Service for all. Its target group is that of this cell.
                Some("Service") => {
                    let said = document["metadata"]["annotations"].as_object().cloned().unwrap_or_default();
                    for (name, value) in said.iter().filter(|(name, _)| *name != TARGET_GROUPS) {
                        self.cluster.set_annotation(APP, name, value.as_str()).await;
                    }
                }
                _ => {
                    self.adapt(ingress, &mut document);
                    match self.kind {
                        Kind::Deployment => _ = self.cluster.create::<Deployment>(document).await,
                        Kind::IngressDaemonSet(..) => {
                            self.cluster.create::<IngressDaemonSet>(document).await;
                        }
                        Kind::HostPort => {
                            without_surge(&mut document);
                            self.cluster.create::<DaemonSet>(document).await;
                        }
                        Kind::DaemonSet => _ = self.cluster.create::<DaemonSet>(document).await,
                    }
                }
            }
        }
    }

    fn adapt(&self, ingress: Ingress, workload: &mut Value) {
        let labels = json!({"app": APP});
        workload["metadata"]["name"] = APP.into();
        if !matches!(self.kind, Kind::IngressDaemonSet(..)) {
            workload["spec"]["selector"]["matchLabels"] = labels.clone();
        }
        let template = &mut workload["spec"]["template"];
        if self.care.hold().is_some() {
            template["metadata"]["labels"]["app"] = APP.into();
        } else {
            template["metadata"] = json!({"labels": labels});
        }
        if let Some(spread) = template["spec"]["topologySpreadConstraints"].get_mut(0) {
            spread["labelSelector"]["matchLabels"] = labels;
        }
        let container = &mut template["spec"]["containers"][0];
        container["image"] = ingress.image_name().into();
        container["imagePullPolicy"] = "Never".into();
    }

    /// Begins to replace every pod, and waits until there is a new one, so that the quiet state before does not count.
    pub async fn roll(&self) {
        // By UID, because a pod of an IngressDaemonSet may get the name of a deleted one.
        let uids = |pods: Vec<Pod>| pods.into_iter().filter_map(|pod| pod.metadata.uid);
        let old: BTreeSet<String> = uids(self.list().await).collect();
        if matches!(self.kind, Kind::IngressDaemonSet(..)) {
            let annotations = json!({"restarted": format!("{:?}", std::time::SystemTime::now())});
            let template = json!({"metadata": {"annotations": annotations}});
            self.cluster.patch::<IngressDaemonSet>(APP, &json!({"spec": {"template": template}})).await;
        } else {
            self.kubectl.run(&["rollout", "restart", &format!("{}/{APP}", self.kind.name())]).await;
        }
        wait::until("a new pod", || async {
            if uids(self.list().await).any(|uid| !old.contains(&uid)) { Ok(()) } else { Err("none") }
        })
        .await;
    }

    /// Waits until Kubernetes reports that a rolling update is complete.
    pub async fn wait_rolled(&self) {
        self.kubectl.run(&["rollout", "status", &format!("deployment/{APP}"), "--timeout=300s"]).await;
    }

    /// Terminates at least this many pods, [`MANY`] at a time, each time by a rollout that starts as many new ones.
    pub async fn depart(&self, pods: u32) {
        let surge = json!({"spec": {"strategy": {"rollingUpdate": {"maxSurge": MANY}}}});
        self.cluster.patch::<Deployment>(APP, &surge).await;
        self.scale(MANY).await;
        self.wait_quiet(MANY).await;
        for roll in 0..pods.div_ceil(MANY) {
            self.roll().await;
            self.wait_quiet(MANY).await;
            eprintln!("{} pods have left", (roll + 1) * MANY);
        }
    }

    /// Sets the number of replicas.
    pub async fn scale(&self, replicas: u32) {
        let replicas = format!("--replicas={replicas}");
        self.kubectl.run(&["scale", &format!("deployment/{APP}"), &replicas]).await;
    }

    /// Rolls out a revision whose pods are ready but not on the load balancer's port, until `kubectl rollout status`
    /// ends. It fails if the gate stops the rollout, and succeeds without a gate.
    pub async fn roll_out_what_is_never_healthy(&self) {
        let containers = json!([container(self.facts.nodes, WRONG_PORT)]);
        let template = json!({"spec": {"containers": containers}});
        let spec = json!({"progressDeadlineSeconds": PROGRESS_DEADLINE, "template": template});
        self.cluster.patch::<Deployment>(APP, &json!({"spec": spec})).await;
        let deployment = format!("deployment/{APP}");
        let ended = self.kubectl.try_run(&["rollout", "status", &deployment, "--timeout=120s"]).await;
        match (self.care.has_gate(), ended) {
            (true, Err(said)) => {
                assert!(said.contains("exceeded its progress deadline"), "{said}");
            }
            (false, Ok(_)) => {}
            (_, ended) => panic!("expected that only the gate stops this roll; kubectl said: {ended:?}"),
        }
    }

    /// The same for an IngressDaemonSet, until it reports that its rollout has stopped. Then the earlier template is
    /// restored. A DaemonSet without surge rolls it out everywhere.
    pub async fn try_what_is_never_healthy_on_every_node(&self) {
        let containers = |port| json!({"spec": {"containers": [container(self.facts.nodes, port)]}});
        let [good, bad] = [PORT, WRONG_PORT].map(containers);
        if matches!(self.kind, Kind::IngressDaemonSet(..)) {
            self.cluster.patch::<IngressDaemonSet>(APP, &json!({"spec": {"template": bad}})).await;
            let stopped = "--for=jsonpath={.status.conditions[?(@.type==\"Progressing\")].reason}=ProgressDeadlineExceeded";
            self.kubectl.run(&["wait", &format!("ids/{APP}"), stopped, "--timeout=180s"]).await;
            self.cluster.patch::<IngressDaemonSet>(APP, &json!({"spec": {"template": good}})).await;
        } else {
            self.cluster.patch::<DaemonSet>(APP, &json!({"spec": {"template": bad}})).await;
            self.kubectl.run(&["rollout", "status", &format!("daemonset/{APP}"), "--timeout=180s"]).await;
            self.cluster.patch::<DaemonSet>(APP, &json!({"spec": {"template": good}})).await;
        }
    }

    /// Undoes the last revision.
    pub async fn undo(&self) {
        self.kubectl.run(&["rollout", "undo", &format!("deployment/{APP}")]).await;
    }
}

/// The Deployment with these settings on nodes of this kind. No pod terminates before another one counts.
pub fn deployment(care: Care, nodes: Nodes) -> Value {
    let mut template = template(care, nodes);
    template["spec"]["topologySpreadConstraints"] = json!([{
        "maxSkew": 1,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": APP}},
        "matchLabelKeys": ["pod-template-hash"],
    }]);
    template["metadata"]["labels"][SLOT] = FIRST.into();
    json!({
        "metadata": {"name": APP},
        "spec": {
            "replicas": REPLICAS,
            "selector": {"matchLabels": {"app": APP, SLOT: FIRST}},
            "strategy": {"rollingUpdate": {"maxUnavailable": 0, "maxSurge": SURGE}},
            "template": template,
        },
    })
}

/// The DaemonSet in the same way.
pub fn daemon_set(care: Care, nodes: Nodes) -> Value {
    json!({
        "metadata": {"name": APP},
        "spec": {
            "selector": {"matchLabels": {"app": APP}},
            "updateStrategy": {"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}},
            "template": template(care, nodes),
        },
    })
}

/// The DaemonSet with a hostPort: a node's pod terminates before the next one starts.
fn host_port(care: Care, nodes: Nodes) -> Value {
    let mut made = daemon_set(care, nodes);
    without_surge(&mut made);
    made
}

fn without_surge(daemon_set: &mut Value) {
    daemon_set["spec"]["updateStrategy"] = json!({"rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}});
    daemon_set["spec"]["template"]["spec"]["containers"][0]["ports"][0]["hostPort"] = PORT.into();
}

/// The IngressDaemonSet with this many pods per node.
fn ingress_daemon_set(care: Care, nodes: Nodes, pods: u32, update: Update) -> Value {
    let kind = match update {
        Update::Surge => "RollingUpdate",
        Update::NodeReplace => "NodeReplace",
    };
    let update = json!({"type": kind, "progressDeadlineSeconds": PROGRESS_DEADLINE});
    json!({
        "apiVersion": "headgate.dev/v1alpha1", "kind": "IngressDaemonSet",
        "metadata": {"name": APP},
        "spec": {"podsPerNode": pods, "updateStrategy": update, "template": template(care, nodes)},
    })
}

fn template(care: Care, nodes: Nodes) -> Value {
    let mut labels = json!({"app": APP});
    if care.hold().is_some() {
        labels[INJECT] = "true".into();
    }
    let gates = match care {
        Care::GateAlone => json!([{"conditionType": OWN_GATE}]),
        Care::None | Care::GateAndHold(_) => json!([]),
    };
    json!({"metadata": {"labels": labels}, "spec": {
        "readinessGates": gates,
        "terminationGracePeriodSeconds": 10,
        "containers": [container(nodes, PORT)],
    }})
}

/// Skipper on real nodes, or a server of the simulated kubelet.
fn container(nodes: Nodes, port: u16) -> Value {
    let mut container = json!({
        "name": APP,
        "image": "headgate.local/ingress:1",
        "ports": [{"name": "http", "containerPort": port}],
        "readinessProbe": {"httpGet": {"path": "/", "port": port}, "periodSeconds": 1},
    });
    if nodes == Nodes::Real {
        container["image"] = "headgate.local/skipper:1".into();
        container["env"] =
            json!([{"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]);
        container["args"] = json!([
            format!("-address=:{port}"),
            "-support-listener=:9911",
            // The hold waits for the load balancer. The control does not wait.
            "-wait-for-healthcheck-interval=0s",
            "-inline-routes=all: * -> setResponseHeader(\"X-Pod\", \"$(POD_NAME)\") \
             -> inlineContent(\"$(POD_NAME)\") -> <shunt>",
        ]);
    }
    container
}

impl Care {
    /// Whether a pod has exactly what it should have.
    pub fn is_given_to(self, pod: &Pod) -> bool {
        let held = ingresses::hold(pod);
        let pod = serde_json::to_value(pod).unwrap();
        let gated = pod["spec"]["readinessGates"][0]["conditionType"] == OWN_GATE;
        (gated, held) == (self.has_gate(), self.hold().map(u64::from))
    }
}

/// Whether a condition of a pod is true.
pub fn is_true(pod: &Pod, condition: &str) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().any(|is| is.type_ == condition && is.status == "True")
}

/// Creates a load balancer, and the target group behind its listener.
pub async fn balancer(aws: &Aws, name: &str, profile: Profile, cross_zone: bool) -> Group {
    let (arn, dns_name) = aws.balancer(name, profile.kind()).await;
    let group_name = format!("{name}-web");
    let group = aws.create_ip_group_as(&group_name, profile.protocol(), PORT).await;
    let health = aws.client().modify_target_group().target_group_arn(&group);
    let health = health.health_check_interval_seconds(HEALTH_INTERVAL);
    health.healthy_threshold_count(HEALTHY_THRESHOLD).send().await.unwrap();
    aws.set_attribute(&group, "load_balancing.cross_zone.enabled", &cross_zone.to_string()).await;
    aws.listen_as(&arn, profile.protocol(), LISTENER, &group).await;
    Group { name: group_name, arn: group, dns_name, listener_port: LISTENER }
}
