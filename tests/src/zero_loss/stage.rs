//! The stage of one side of a cell: an ingress behind a load balancer of its own, two replicas of Headgate, and what
//! happens to them.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use aws_sdk_elasticloadbalancingv2::types::{LoadBalancerAttribute, LoadBalancerTypeEnum};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
use kube::api::ListParams;
use localstack_world::{Facts, Nodes};
use serde_json::{Value, json};

use super::profile::Profile;
use crate::{
    aws::{Aws, Group},
    cluster::{Cluster, OWN_GATE, Running},
    demo::stage::APP,
    headgate::Headgate,
    kubectl::Kubectl,
    scenario::http_port,
    wait,
    webhook::{Configuration, bare_pod},
};

/// The pods at rest.
pub const REPLICAS: u32 = 6;
/// How many more there may be during a roll.
const SURGE: u32 = 3;
/// The Lease of both replicas: duration, renew deadline, retry period.
pub const LEASE: [&str; 3] = ["3s", "2s", "500ms"];
/// What the load balancers' health checks are like: people who want speed set these.
pub const HEALTH_INTERVAL: i32 = 10;
const HEALTHY_THRESHOLD: i32 = 2;
/// How long Kubernetes waits for a revision that makes no progress, in seconds.
const PROGRESS_DEADLINE: u32 = 20;
/// The port that the load balancer sends to.
pub const PORT: u16 = 8080;
/// The port on which a bad revision listens instead.
const WRONG_PORT: u16 = 8081;
const LISTENER: u16 = 8000;

/// One side of a cell.
pub struct Stage {
    /// The namespace.
    pub cluster: Cluster,
    /// AWS.
    pub aws: Aws,
    /// The target group.
    pub group: Group,
    nodes: Nodes,
    kubectl: Kubectl,
    hold: Option<u32>,
    headgates: Vec<Headgate>,
    configuration: Option<Configuration>,
    patience: Duration,
}

/// What a side is like.
#[derive(Clone, Copy, Debug)]
pub struct Side<'a> {
    /// Its namespace and load balancer are called so.
    pub name: &'a str,
    /// Behind what.
    pub profile: Profile,
    /// Real seconds per AWS second.
    pub time_scale: f64,
    /// How long its load balancer may go on sending after a DeregisterTargets, in real seconds.
    pub bound: u32,
    /// With the gate and a hold of so many seconds, and how `headgate.dev/hold` says so; without both if there is none.
    pub hold: Option<(u32, &'a str)>,
}

impl Stage {
    /// Sets it up, and waits until the load balancer sends to every pod.
    pub async fn set(facts: &Facts, side: Side<'_>) -> Self {
        let Side { name, profile, time_scale, bound, hold } = side;
        let cluster = Cluster::new(facts, name).await;
        let aws = Aws::new(facts).await;
        let group = balancer(&aws, name, profile).await;
        let mut stage = Self {
            kubectl: Kubectl::new(facts, name),
            cluster,
            aws,
            group,
            nodes: facts.nodes,
            hold: hold.map(|(seconds, _)| seconds),
            headgates: Vec::new(),
            configuration: None,
            // A deregistration may take five minutes of AWS's, a registration too, and pods start in between.
            patience: wait::DEADLINE + Duration::from_secs_f64(900.0 * time_scale),
        };
        stage.cluster.service(APP, APP, http_port(), Some(&stage.group.name)).await;
        if let Some((_, annotation)) = hold {
            stage.cluster.set_annotation(APP, "headgate.dev/hold", Some(annotation)).await;
        }
        let kind = if profile.is_application() { "alb" } else { "nlb" };
        stage.start_headgate(facts, format!("--{kind}-propagation-bound={bound}s")).await;
        // The first pods are not what is measured: they need not wait for a slow load balancer.
        stage.registrations_take(&json!([0, 0])).await;
        stage.deploy().await;
        stage.wait_quiet(REPLICAS).await;
        // A pod that it never saw healthy is none that Headgate counts as held too short.
        let seen = "headgate_register_to_healthy_seconds_count";
        wait::until_equal("Headgate has seen all healthy", &REPLICAS.into(), || stage.sum(seen)).await;
        stage.registrations_take(&Value::Null).await;
        stage
    }

    /// How long the load balancer takes to learn of a target, in AWS seconds; null: as its profile says.
    async fn registrations_take(&self, range: &Value) {
        let path = format!("/target-groups/{}/settings", self.group.name);
        self.aws.control("PATCH", &path, Some(&json!({"registration": range}))).await;
    }

    /// Two replicas; where pods are to have gate and hold, their webhook, waited for until it gives them.
    async fn start_headgate(&mut self, facts: &Facts, bound: String) {
        let webhook = format!("{}-webhook", self.cluster.namespace);
        let lease = ["duration", "renew-deadline", "retry-period"]
            .iter()
            .zip(LEASE)
            .map(|(of, is)| format!("--lease-{of}={is}"));
        let mut arguments: Vec<String> = vec![format!("--namespaces={}", self.cluster.namespace)];
        arguments.extend(lease);
        arguments.push(bound);
        if self.hold.is_some() {
            arguments.extend(["--webhook-address=127.0.0.1:0".into(), "--webhook-names=127.0.0.1".into()]);
            arguments.push(format!("--webhook-configuration={webhook}"));
        }
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        for _ in 0..2 {
            self.headgates.push(Headgate::start(facts, &facts.kubeconfig, &arguments).await);
        }
        let Some(hold) = self.hold else { return };
        let label = format!("{}-mine", self.cluster.namespace);
        self.kubectl.run(&["label", "namespace", &self.cluster.namespace, &format!("{label}=")]).await;
        let headgates: Vec<&Headgate> = self.headgates.iter().collect();
        let client = self.cluster.client.clone();
        let configuration = Configuration::install_as(client, webhook, label, &headgates).await;
        configuration.wait_trusted().await;
        self.configuration = Some(configuration);
        // The API server follows its configurations by a watch, each replica the Services.
        let probe = bare_pod("probe", &json!({"app": APP, "headgate.dev/inject": "true"}));
        let probe: Pod = serde_json::from_value(probe).unwrap();
        let dry_run = kube::api::PostParams { dry_run: true, ..kube::api::PostParams::default() };
        wait::until("a new pod would get the gate and the hold", || async {
            let pod = self.cluster.api::<Pod>().create(&dry_run, &probe).await.unwrap();
            if is_injected(&pod, Some(hold)) { Ok(()) } else { Err(pod.metadata.annotations) }
        })
        .await;
    }

    async fn deploy(&self) {
        let labels = json!({"app": APP});
        let mut template_labels = labels.clone();
        if self.hold.is_some() {
            template_labels["headgate.dev/inject"] = "true".into();
        }
        self.cluster
            .create::<Deployment>(json!({
                "metadata": {"name": APP},
                "spec": {
                    "replicas": REPLICAS,
                    "selector": {"matchLabels": labels},
                    "strategy": {"rollingUpdate": {"maxUnavailable": 0, "maxSurge": SURGE}},
                    "template": {"metadata": {"labels": template_labels}, "spec": {
                        "terminationGracePeriodSeconds": 10,
                        "topologySpreadConstraints": [{
                            "maxSkew": 1,
                            "topologyKey": "topology.kubernetes.io/zone",
                            "whenUnsatisfiable": "ScheduleAnyway",
                            "labelSelector": {"matchLabels": labels},
                            "matchLabelKeys": ["pod-template-hash"],
                        }],
                        "containers": [self.container(PORT)],
                    }},
                },
            }))
            .await;
    }

    /// Skipper on real nodes, a server of the simulated kubelet otherwise.
    fn container(&self, port: u16) -> Value {
        let mut container = json!({
            "name": APP,
            "image": "headgate.local/ingress:1",
            "ports": [{"name": "http", "containerPort": port}],
            "readinessProbe": {"httpGet": {"path": "/", "port": port}, "periodSeconds": 1},
        });
        if self.nodes == Nodes::Real {
            container["image"] = "headgate.local/skipper:1".into();
            container["env"] =
                json!([{"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]);
            container["args"] = json!([
                format!("-address=:{port}"),
                "-support-listener=:9911",
                // The load balancer is waited for by the hold, or, in the control, by nobody.
                "-wait-for-healthcheck-interval=0s",
                "-inline-routes=all: * -> setResponseHeader(\"X-Pod\", \"$(POD_NAME)\") \
                 -> inlineContent(\"$(POD_NAME)\") -> <shunt>",
            ]);
        }
        container
    }

    /// The pods that run.
    pub async fn pods(&self) -> Running {
        self.cluster.running(APP).await
    }

    /// Begins to replace every pod.
    pub async fn roll(&self) {
        self.kubectl.run(&["rollout", "restart", &format!("deployment/{APP}")]).await;
    }

    /// Sets the replicas.
    pub async fn scale(&self, replicas: u32) {
        let replicas = format!("--replicas={replicas}");
        self.kubectl.run(&["scale", &format!("deployment/{APP}"), &replicas]).await;
    }

    /// Rolls out a revision whose pods are ready, but not where the load balancer looks, until `kubectl rollout status`
    /// ends: it fails where the gate stops the roll, and succeeds where nothing does.
    pub async fn roll_out_what_is_never_healthy(&self) {
        let containers = json!([self.container(WRONG_PORT)]);
        let template = json!({"spec": {"containers": containers}});
        let spec = json!({"progressDeadlineSeconds": PROGRESS_DEADLINE, "template": template});
        self.cluster.patch::<Deployment>(APP, &json!({"spec": spec})).await;
        let deployment = format!("deployment/{APP}");
        let ended = self.kubectl.try_run(&["rollout", "status", &deployment, "--timeout=120s"]).await;
        match (self.hold, ended) {
            (Some(_), Err(said)) => {
                assert!(said.contains("exceeded its progress deadline"), "{said}");
            }
            (None, Ok(_)) => {}
            (_, ended) => panic!("expected that only the gate stops this roll; kubectl said: {ended:?}"),
        }
    }

    /// Takes the last revision back.
    pub async fn undo(&self) {
        self.kubectl.run(&["rollout", "undo", &format!("deployment/{APP}")]).await;
    }

    /// Kills the leading replica as the first pod that is not one of `old` is about to count, and old ones are about
    /// to go: its gate is open, or, without one, it is ready.
    pub async fn kill_leader_with_first_of_new(&mut self, old: &Running) {
        let mut leading = Vec::new();
        for (at, headgate) in self.headgates.iter().enumerate() {
            if headgate.leads().await {
                leading.push(at);
            }
        }
        let [leader] = leading[..] else { panic!("one replica leads, expected; these do: {leading:?}") };
        let counts = if self.hold.is_some() { OWN_GATE } else { "Ready" };
        wait::within(self.patience, "the first new pod", || async {
            let pods = self.list().await;
            let is_new = |pod: &&Pod| !old.contains_key(pod.metadata.name.as_deref().unwrap_or_default());
            if pods.iter().filter(is_new).any(|pod| is_true(pod, counts)) { Ok(()) } else { Err("none") }
        })
        .await;
        self.headgates.remove(leader).kill().await;
    }

    /// Waits until `count` pods run and no other is left, all of them are healthy targets, and every node of the
    /// load balancer sends to them all and to nothing else. Whoever is to have gate and hold has them.
    pub async fn wait_quiet(&self, count: u32) {
        let count = usize::try_from(count).expect("a few");
        let what = format!("{count} pods, healthy at every node of the load balancer");
        wait::within(self.patience, &what, || async {
            let (running, all) = (self.pods().await, self.list().await);
            if running.len() != count || all.len() != count {
                return Err(format!("{} of {} pods run", running.len(), all.len()));
            }
            let wanted: BTreeMap<_, _> =
                running.values().map(|ip| (format!("{ip}:{PORT}"), "healthy".to_owned())).collect();
            let mut targets = self.aws.targets(&self.group.arn).await;
            targets.retain(|_, state| state != "draining");
            if targets != wanted {
                return Err(format!("{targets:?}"));
            }
            let bare: BTreeSet<_> =
                all.iter().filter(|pod| !is_injected(pod, self.hold)).map(|pod| &pod.metadata.name).collect();
            assert!(bare.is_empty(), "expected a hold of {:?} s in {bare:?}", self.hold);
            if self.aws.is_settled(&self.cluster.namespace).await {
                Ok(())
            } else {
                Err("the load balancer is not settled".to_owned())
            }
        })
        .await;
    }

    async fn list(&self) -> Vec<Pod> {
        let ours = ListParams::default().labels(&format!("app={APP}"));
        self.cluster.api::<Pod>().list(&ours).await.unwrap().items
    }

    /// How many pods ended before the load balancer had stopped sending to them, as the replicas that live have counted.
    pub async fn holds_too_short(&self) -> u64 {
        let count = format!("headgate_holds_too_short_total{{target_group=\"{}\"}}", self.group.name);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a few pods
        let pods = self.sum(&count).await as u64;
        pods
    }

    /// What a metric comes to over the replicas that live.
    async fn sum(&self, metric: &str) -> f64 {
        let mut sum = 0.0;
        for headgate in &self.headgates {
            sum += headgate.metric(metric).await.unwrap_or_default();
        }
        sum
    }

    /// Takes it down; nobody is served any more, so nobody is held.
    pub async fn strike(self) {
        self.scale(0).await;
        self.kubectl.run(&["delete", "pods", "--all", "--grace-period=1", "--wait=false"]).await;
        wait::within(self.patience, "no pods are left", || async {
            let left = self.cluster.count(APP).await;
            if left == 0 { Ok(()) } else { Err(left) }
        })
        .await;
        if let Some(configuration) = self.configuration {
            configuration.remove().await;
        }
        for headgate in self.headgates {
            headgate.kill().await;
        }
    }
}

fn is_true(pod: &Pod, condition: &str) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().any(|is| is.type_ == condition && is.status == "True")
}

/// Whether the pod has the gate and this hold, or, if there is to be none, neither.
fn is_injected(pod: &Pod, hold: Option<u32>) -> bool {
    let pod = serde_json::to_value(pod).unwrap();
    let gated = pod["spec"]["readinessGates"][0]["conditionType"] == OWN_GATE;
    let sleeps = pod["spec"]["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"].as_u64();
    (gated, sleeps) == (hold.is_some(), hold.map(u64::from))
}

/// A load balancer with cross-zone load balancing, and the target group behind its listener.
async fn balancer(aws: &Aws, name: &str, profile: Profile) -> Group {
    let (arn, dns_name) = aws.balancer(name, profile.kind()).await;
    if profile.kind() == LoadBalancerTypeEnum::Network {
        let cross_zone =
            LoadBalancerAttribute::builder().key("load_balancing.cross_zone.enabled").value("true").build();
        let modify = aws.client().modify_load_balancer_attributes().load_balancer_arn(&arn);
        modify.attributes(cross_zone).send().await.unwrap();
    }
    let group_name = format!("{name}-web");
    let group = aws.create_ip_group_as(&group_name, profile.protocol(), PORT).await;
    let health = aws.client().modify_target_group().target_group_arn(&group);
    let health = health.health_check_interval_seconds(HEALTH_INTERVAL);
    health.healthy_threshold_count(HEALTHY_THRESHOLD).send().await.unwrap();
    aws.listen_as(&arn, profile.protocol(), LISTENER, &group).await;
    Group { name: group_name, arn: group, dns_name, listener_port: LISTENER }
}
