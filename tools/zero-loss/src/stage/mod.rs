//! The environment of one side of a cell: an ingress behind its own load balancer, and two replicas of Headgate.

pub mod nodes;
pub mod replicas;
pub mod swap;
pub mod workload;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use headgate_core::inject::INJECT;
use headgate_harness::{
    aws::{Aws, Group},
    bindings,
    cluster::{Cluster, OWN_GATE, Running},
    headgate::Headgate,
    ingresses,
    kubectl::Kubectl,
    recorder::APP,
    scenario::http_port,
    wait,
    webhook::Configuration,
};
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use localstack_world::{Facts, ingresses::Ingress};
use serde_json::{Value, json};

use self::{
    nodes::Drained,
    workload::{Kind, PORT, balancer, is_true},
};
use crate::{
    asks::{Asks, Least},
    profile::Profile,
    replica::{Lease, Replica},
};

/// The number of pods of a Deployment.
pub const REPLICAS: u32 = 6;

/// The namespace of the system's own pods.
const SYSTEM: &str = "kube-system";
/// The hold of pods without a known binding, in real seconds: as behind an NLB.
const UNBOUND_HOLD: Duration = Duration::from_secs(150);
/// How long pods exist before the Service that binds them.
const BEFORE_THE_SERVICE: Duration = Duration::from_secs(20);

/// The place of the pods, and what exists before them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In their own namespace, after their Service.
    Usual,
    /// In a namespace with the label, before their Service.
    BeforeItsService,
    /// In [`SYSTEM`], which must be enabled.
    System,
    /// In their own namespace, bound by a TargetBinding instead of a Service.
    ByBinding,
}

/// What pods get so that no request is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Care {
    /// Nothing: the control.
    None,
    /// The readiness gate and a hold of this many seconds, from Headgate's webhook.
    GateAndHold(u32),
    /// The readiness gate in the manifest. Evictions wait.
    GateAlone,
}

impl Care {
    /// Whether pods have the readiness gate.
    pub fn has_gate(self) -> bool {
        self != Self::None
    }

    /// The length of the hold.
    pub const fn hold(self) -> Option<u32> {
        match self {
            Self::GateAndHold(seconds) => Some(seconds),
            Self::None | Self::GateAlone => None,
        }
    }
}

/// One side of a cell.
pub struct Stage {
    /// The namespace.
    pub cluster: Cluster,
    /// AWS.
    pub aws: Aws,
    /// The target group.
    pub group: Group,
    /// The local world.
    pub facts: Facts,
    /// What pods get.
    pub care: Care,
    /// The workload.
    pub kind: Kind,
    /// The ingress, if the pods are not made for the table only.
    pub ingress: Option<Ingress>,
    /// Real seconds per AWS second.
    pub time_scale: f64,
    /// The reserve of the hold above the propagation delay, in seconds.
    pub margin: u32,
    /// The propagation delay and the reserve, in seconds.
    pub covering: u32,
    /// The observed drains.
    pub drained: Option<Drained>,
    /// The name of Headgate's and the load balancer's objects, and of Headgate's own namespace.
    pub(crate) name: String,
    pub(crate) place: Place,
    pub(crate) kubectl: Kubectl,
    pub(crate) replicas: Vec<Replica>,
    pub(crate) configuration: Option<Configuration>,
    pub(crate) patience: Duration,
    /// Whether pods without gate and hold may exist where there should be none.
    pub(crate) may_be_bare: bool,
    /// Whether a liveness probe restarts containers that do not answer.
    pub(crate) is_probed_for_life: bool,
    /// Whether pods listen late, and all are rolled out at once.
    pub(crate) is_late: bool,
    /// The replicas of `headgate daemonsets`, if there are any.
    pub(crate) of_sets: Vec<Headgate>,
}

/// The settings of a side.
#[derive(Clone, Copy, Debug)]
pub struct Side<'a> {
    /// The name of its load balancer, and of its namespace unless that is one of the system's.
    pub name: &'a str,
    /// The place of its pods.
    pub place: Place,
    /// The profile of its load balancer.
    pub profile: Profile,
    /// Whether nodes of the load balancer send to targets of all zones.
    pub cross_zone: bool,
    /// Real seconds per AWS second.
    pub time_scale: f64,
    /// How long its load balancer may keep sending after a DeregisterTargets, in real seconds.
    pub bound: u32,
    /// The reserve of a hold above that.
    pub margin: u32,
    /// What pods get.
    pub care: Care,
    /// The value of `headgate.dev/hold`.
    pub annotation: &'a str,
    /// Whether pods may be created while no webhook answers.
    pub may_be_bare: bool,
    /// Whether a liveness probe restarts containers that do not answer.
    pub is_probed_for_life: bool,
    /// The Lease of the replicas, if it is not Headgate's default.
    pub lease: Option<Lease>,
    /// How much longer than usual its steps may take.
    pub takes_longer: Duration,
    /// The workload.
    pub kind: Kind,
    /// The ingress, if the pods are not made for the table only.
    pub ingress: Option<Ingress>,
    /// The minimum of healthy targets in the target group, if it is not AWS's default. Pods then listen late, and all
    /// are rolled out at once.
    pub asks: Option<Asks>,
}

impl Stage {
    /// Sets it up, and waits until the load balancer sends to every pod.
    pub async fn set(facts: &Facts, side: Side<'_>) -> Self {
        let Side { name, profile, time_scale, bound, margin, care, .. } = side;
        let mut cluster = Cluster::new(facts, name).await;
        if side.place == Place::System {
            cluster = cluster.within(SYSTEM);
        }
        let aws = Aws::new(facts).await;
        let group = balancer(&aws, name, profile, side.cross_zone).await;
        let mut stage = Self {
            name: name.to_owned(),
            place: side.place,
            kubectl: Kubectl::new(facts, &cluster.namespace),
            cluster,
            aws,
            group,
            facts: facts.clone(),
            care,
            kind: side.kind,
            ingress: side.ingress,
            time_scale,
            margin,
            covering: bound + margin,
            drained: None,
            replicas: Vec::new(),
            configuration: None,
            // A deregistration may take five minutes of AWS time, a registration too, and pods start in between.
            patience: wait::DEADLINE
                + Duration::from_secs_f64(900.0 * time_scale)
                + if side.place == Place::BeforeItsService { UNBOUND_HOLD } else { Duration::ZERO }
                + side.takes_longer,
            may_be_bare: side.may_be_bare,
            is_probed_for_life: side.is_probed_for_life,
            is_late: side.asks.is_some(),
            of_sets: Vec::new(),
        };
        if let Some(asks) = side.asks {
            stage.ask_for(asks.least).await;
        }
        if side.asks.is_some_and(|asks| !asks.is_read) {
            let denied = json!({"code": "AccessDenied", "message": "not authorized"});
            let fault = json!({"action": "DescribeTargetGroupAttributes", "effect": {"refuse": denied}});
            stage.aws.control("POST", "/faults", Some(&fault)).await;
        }
        if side.place != Place::BeforeItsService {
            stage.bind(side.annotation).await;
        } else if care.has_gate() {
            stage.kubectl.run(&["label", "namespace", name, &format!("{INJECT}=true")]).await;
        }
        let kind = if profile.is_application() { "alb" } else { "nlb" };
        stage.start_headgate(format!("--{kind}-propagation-bound={bound}s"), side.lease).await;
        if matches!(side.kind, Kind::IngressDaemonSet(..)) {
            stage.start_daemonsets().await;
        }
        // The first pods are not measured, so they need not wait for a slow load balancer.
        stage.registrations_take(&json!([0, 0])).await;
        stage.deploy().await;
        if side.place == Place::BeforeItsService {
            tokio::time::sleep(BEFORE_THE_SERVICE).await;
            stage.bind(side.annotation).await;
        }
        stage.wait_quiet(stage.pods_at_rest()).await;
        // Headgate does not count a pod that it never saw healthy.
        let seen = "headgate_register_to_healthy_seconds_count";
        wait::until_equal("Headgate has seen all healthy", &stage.pods_at_rest().into(), || stage.sum(seen))
            .await;
        stage.registrations_take(&Value::Null).await;
        stage
    }

    /// Whether a pod has gate and hold. For a pod that existed before its Service, the length of the hold was unknown.
    pub(crate) fn is_cared_for(&self, pod: &Pod) -> bool {
        let is_for_longer = |hold| ingresses::hold(pod).is_some_and(|held| held >= u64::from(hold));
        match (self.place, self.care) {
            (Place::BeforeItsService, Care::GateAndHold(hold)) => is_for_longer(hold),
            _ => self.care.is_given_to(pod),
        }
    }

    /// Creates the Service or the TargetBinding of the pods.
    async fn bind(&self, hold: &str) {
        if self.place == Place::ByBinding {
            let mut spec = bindings::pods_of(APP, &self.group.name);
            if self.care.has_gate() {
                spec["hold"] = hold.into();
            }
            bindings::write_in(&self.cluster, APP, spec).await.expect("it is right");
            return;
        }
        self.cluster.service(APP, APP, http_port(), Some(&self.group.name)).await;
        if self.care.has_gate() {
            self.cluster.set_annotation(APP, "headgate.dev/hold", Some(hold)).await;
        }
    }

    /// The number of pods when nothing changes.
    pub fn pods_at_rest(&self) -> u32 {
        let nodes = self.facts.zones.iter().map(|zone| zone.nodes.len()).sum::<usize>();
        let nodes = u32::try_from(nodes).expect("some");
        match self.kind {
            Kind::Deployment => REPLICAS,
            Kind::DaemonSet | Kind::HostPort => nodes,
            Kind::IngressDaemonSet(pods, _) => nodes * pods,
        }
    }

    /// Sets how long the load balancer takes to learn of a target, in AWS seconds. Null: the profile's value.
    async fn registrations_take(&self, range: &Value) {
        let path = format!("/target-groups/{}/settings", self.group.name);
        self.aws.control("PATCH", &path, Some(&json!({"registration": range}))).await;
    }

    /// The running pods.
    pub async fn pods(&self) -> Running {
        self.cluster.running(APP).await
    }

    /// All pods in any state.
    pub(crate) async fn list(&self) -> Vec<Pod> {
        let ours = ListParams::default().labels(&format!("app={APP}"));
        self.cluster.api::<Pod>().list(&ours).await.unwrap().items
    }

    /// Begins a rolling update, and waits until the first new pod counts and old ones will terminate: its gate is open,
    /// or, without a gate, it is ready.
    pub async fn roll_until_a_new_pod_counts(&self) {
        let old = self.pods().await;
        self.roll().await;
        let counts = if self.care.has_gate() { OWN_GATE } else { "Ready" };
        wait::within(self.patience, "the first new pod", || async {
            let pods = self.list().await;
            let is_new = |pod: &&Pod| !old.contains_key(pod.metadata.name.as_deref().unwrap_or_default());
            if pods.iter().filter(is_new).any(|pod| is_true(pod, counts)) { Ok(()) } else { Err("none") }
        })
        .await;
    }

    /// Sets the minimum of healthy targets of the target group, for routing and for DNS.
    async fn ask_for(&self, least: Least) {
        let (unit, value) = match least {
            Least::Percent(percent) => ("percentage", percent),
            Least::Count(count) => ("count", count),
        };
        for what in ["unhealthy_state_routing", "dns_failover"] {
            let key = format!("target_group_health.{what}.minimum_healthy_targets.{unit}");
            self.aws.set_attribute(&self.group.arn, &key, &value.to_string()).await;
        }
    }

    /// Shifts traffic away from the first zone, or back.
    pub async fn shift_away(&self, is_shifted: bool) {
        let zones: &[&str] = if is_shifted { &[&self.facts.zones[0].name] } else { &[] };
        let path = format!("/load-balancers/{}/zonal-shift", self.name);
        self.aws.allow_zonal_shifts(&self.name).await;
        self.aws.control("PUT", &path, Some(&json!({"zones": zones}))).await;
    }

    /// Makes AWS reject all calls about the target group for this time.
    pub async fn throttle_for(&self, time: Duration) {
        let refusal = json!({"code": "Throttling", "message": "Rate exceeded"});
        let fault = json!({"target_group": self.group.name, "effect": {"refuse": refusal}});
        self.aws.control("POST", "/faults", Some(&fault)).await;
        tokio::time::sleep(time).await;
        self.aws.control("DELETE", "/faults", None).await;
    }

    /// Waits until exactly `count` pods are ready, all of them are healthy targets, and every node of the load balancer
    /// sends to all of them and to nothing else. Pods that should have gate and hold have them.
    pub async fn wait_quiet(&self, count: u32) {
        let count = usize::try_from(count).expect("a few");
        let what = format!("{count} pods, healthy at every node of the load balancer");
        wait::within(self.patience, &what, || async {
            let (running, all) = (self.pods().await, self.list().await);
            if running.len() != count || all.len() != count {
                return Err(format!("{} of {} pods run", running.len(), all.len()));
            }
            // The controller of a DaemonSet deletes an old pod that is not ready at once, for any state of the new one.
            let unready = all.iter().filter(|pod| !is_true(pod, "Ready")).count();
            if unready > 0 {
                return Err(format!("{unready} pods are not ready"));
            }
            let wanted: BTreeMap<_, _> =
                running.values().map(|ip| (format!("{ip}:{PORT}"), "healthy".to_owned())).collect();
            let mut targets = self.aws.targets(&self.group.arn).await;
            targets.retain(|_, state| state != "draining");
            if targets != wanted {
                return Err(format!("{targets:?}"));
            }
            let bare = all.iter().filter(|pod| !self.is_cared_for(pod)).map(|pod| &pod.metadata.name);
            let bare: BTreeSet<_> = bare.collect();
            assert!(bare.is_empty() || self.may_be_bare, "expected {:?} in {bare:?}", self.care);
            if self.aws.is_settled(&self.name).await {
                Ok(())
            } else {
                Err("the load balancer is not settled".to_owned())
            }
        })
        .await;
    }

    /// Removes the environment. Nothing is served any more, so no pod is held.
    pub async fn strike(self) {
        self.kubectl.run(&["delete", self.kind.name(), "--all", "--wait=false"]).await;
        let binds = if self.place == Place::ByBinding { "targetbinding" } else { "service" };
        self.kubectl.run(&["delete", binds, APP]).await;
        self.kubectl.run(&["delete", "pods", "--all", "--grace-period=1", "--wait=false"]).await;
        wait::within(self.patience, "no pods are left", || async {
            let left = self.cluster.count(APP).await;
            if left == 0 { Ok(()) } else { Err(left) }
        })
        .await;
        if let Some(configuration) = self.configuration {
            configuration.remove().await;
        }
        for replica in self.replicas {
            replica.headgate.kill().await;
        }
        for headgate in self.of_sets {
            headgate.kill().await;
        }
    }
}
