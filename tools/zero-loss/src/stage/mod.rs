//! The stage of one side of a cell: an ingress behind a load balancer of its own, and two replicas of Headgate.

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

/// The pods of a Deployment at rest.
pub const REPLICAS: u32 = 6;

/// The namespace of the system's own pods.
const SYSTEM: &str = "kube-system";
/// For how long pods are held that nothing binds yet, in real seconds: as behind an NLB.
const UNBOUND_HOLD: Duration = Duration::from_secs(150);
/// How long pods are there before the Service that binds them.
const BEFORE_THE_SERVICE: Duration = Duration::from_secs(20);

/// Where pods are, and what is there before them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In a namespace of their own, after their Service.
    Usual,
    /// In a namespace with the label, before their Service.
    BeforeItsService,
    /// In [`SYSTEM`], which has to be opted in.
    System,
    /// In a namespace of their own, bound by a TargetBinding instead of a Service.
    ByBinding,
}

/// What keeps pods from being lost sight of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Care {
    /// Nothing: the control.
    None,
    /// The readiness gate and a hold of so many seconds, from Headgate's webhook.
    GateAndHold(u32),
    /// The readiness gate, written by hand; evictions wait.
    GateAlone,
}

impl Care {
    /// Whether pods have the readiness gate.
    pub fn has_gate(self) -> bool {
        self != Self::None
    }

    /// How long pods are held.
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
    /// The world.
    pub facts: Facts,
    /// What pods have.
    pub care: Care,
    /// What makes them.
    pub kind: Kind,
    /// The ingress that they are, if not one that is made for the table alone.
    pub ingress: Option<Ingress>,
    /// Real seconds per AWS second.
    pub time_scale: f64,
    /// What the hold has above the load balancer's bound, in seconds.
    pub margin: u32,
    /// Bound and margin, in seconds.
    pub covering: u32,
    /// What was seen of drains.
    pub drained: Option<Drained>,
    /// What is Headgate's and the load balancer's is called so, and Headgate's own namespace.
    pub(crate) name: String,
    pub(crate) place: Place,
    pub(crate) kubectl: Kubectl,
    pub(crate) replicas: Vec<Replica>,
    pub(crate) configuration: Option<Configuration>,
    pub(crate) patience: Duration,
    /// Whether there may be pods without gate and hold where there should be none.
    pub(crate) may_be_bare: bool,
    /// Whether containers that do not answer are started again.
    pub(crate) is_probed_for_life: bool,
    /// Whether pods listen late, and all are rolled at once.
    pub(crate) is_late: bool,
    /// Those that see to IngressDaemonSets, if there are any.
    pub(crate) of_sets: Vec<Headgate>,
}

/// What a side is like.
#[derive(Clone, Copy, Debug)]
pub struct Side<'a> {
    /// Its load balancer is called so, and its namespace, if that is none of the system's.
    pub name: &'a str,
    /// Where it is.
    pub place: Place,
    /// Behind what.
    pub profile: Profile,
    /// Whether nodes of the load balancer send to targets of all zones.
    pub cross_zone: bool,
    /// Real seconds per AWS second.
    pub time_scale: f64,
    /// How long its load balancer may go on sending after a DeregisterTargets, in real seconds.
    pub bound: u32,
    /// What a hold should have above that.
    pub margin: u32,
    /// What pods have.
    pub care: Care,
    /// What `headgate.dev/hold` says.
    pub annotation: &'a str,
    /// Whether pods may be made while no webhook answers.
    pub may_be_bare: bool,
    /// Whether containers that do not answer are started again.
    pub is_probed_for_life: bool,
    /// The Lease of the replicas, if not Headgate's default.
    pub lease: Option<Lease>,
    /// For how much longer than usual it is waited for that something happens.
    pub takes_longer: Duration,
    /// What makes them.
    pub kind: Kind,
    /// The ingress that they are, if not one that is made for the table alone.
    pub ingress: Option<Ingress>,
    /// How many healthy targets the target group asks for, if not AWS's default: then pods listen late, and all are rolled at
    /// once.
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
            // A deregistration may take five minutes of AWS's, a registration too, and pods start in between.
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
        // The first pods are not what is measured: they need not wait for a slow load balancer.
        stage.registrations_take(&json!([0, 0])).await;
        stage.deploy().await;
        if side.place == Place::BeforeItsService {
            tokio::time::sleep(BEFORE_THE_SERVICE).await;
            stage.bind(side.annotation).await;
        }
        stage.wait_quiet(stage.pods_at_rest()).await;
        // A pod that it never saw healthy is none that Headgate counts as held too short.
        let seen = "headgate_register_to_healthy_seconds_count";
        wait::until_equal("Headgate has seen all healthy", &stage.pods_at_rest().into(), || stage.sum(seen))
            .await;
        stage.registrations_take(&Value::Null).await;
        stage
    }

    /// Whether a pod has what it should have. Of one that was there before its Service nobody knew for how long it would have
    /// to be held.
    pub(crate) fn is_cared_for(&self, pod: &Pod) -> bool {
        let is_for_longer = |hold| ingresses::hold(pod).is_some_and(|held| held >= u64::from(hold));
        match (self.place, self.care) {
            (Place::BeforeItsService, Care::GateAndHold(hold)) => is_for_longer(hold),
            _ => self.care.is_given_to(pod),
        }
    }

    /// The Service, or the TargetBinding, which binds the pods.
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

    /// How many pods there are at rest.
    pub fn pods_at_rest(&self) -> u32 {
        let nodes = self.facts.zones.iter().map(|zone| zone.nodes.len()).sum::<usize>();
        let nodes = u32::try_from(nodes).expect("some");
        match self.kind {
            Kind::Deployment => REPLICAS,
            Kind::DaemonSet | Kind::HostPort => nodes,
            Kind::IngressDaemonSet(pods, _) => nodes * pods,
        }
    }

    /// How long the load balancer takes to learn of a target, in AWS seconds; null: as its profile says.
    async fn registrations_take(&self, range: &Value) {
        let path = format!("/target-groups/{}/settings", self.group.name);
        self.aws.control("PATCH", &path, Some(&json!({"registration": range}))).await;
    }

    /// The pods that run.
    pub async fn pods(&self) -> Running {
        self.cluster.running(APP).await
    }

    /// All pods, in whatever state.
    pub(crate) async fn list(&self) -> Vec<Pod> {
        let ours = ListParams::default().labels(&format!("app={APP}"));
        self.cluster.api::<Pod>().list(&ours).await.unwrap().items
    }

    /// Begins a rolling update, and waits until the first new pod is about to count, and old ones are about to go: its
    /// gate is open, or, without one, it is ready.
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

    /// The target group asks for so many healthy targets, for routing and for DNS.
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

    /// Traffic is shifted away from the first zone, or back.
    pub async fn shift_away(&self, is_shifted: bool) {
        let zones: &[&str] = if is_shifted { &[&self.facts.zones[0].name] } else { &[] };
        let path = format!("/load-balancers/{}/zonal-shift", self.name);
        self.aws.allow_zonal_shifts(&self.name).await;
        self.aws.control("PUT", &path, Some(&json!({"zones": zones}))).await;
    }

    /// AWS refuses all calls about the target group, for so long.
    pub async fn throttle_for(&self, time: Duration) {
        let refusal = json!({"code": "Throttling", "message": "Rate exceeded"});
        let fault = json!({"target_group": self.group.name, "effect": {"refuse": refusal}});
        self.aws.control("POST", "/faults", Some(&fault)).await;
        tokio::time::sleep(time).await;
        self.aws.control("DELETE", "/faults", None).await;
    }

    /// Waits until `count` pods are ready and no other is left, all of them are healthy targets, and every node of the
    /// load balancer sends to them all and to nothing else. Whoever is to have gate and hold has them.
    pub async fn wait_quiet(&self, count: u32) {
        let count = usize::try_from(count).expect("a few");
        let what = format!("{count} pods, healthy at every node of the load balancer");
        wait::within(self.patience, &what, || async {
            let (running, all) = (self.pods().await, self.list().await);
            if running.len() != count || all.len() != count {
                return Err(format!("{} of {} pods run", running.len(), all.len()));
            }
            // A DaemonSet's controller ends an old pod at once that is not ready yet, whatever the new one is.
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

    /// Takes it down; nobody is served any more, so nobody is held.
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
