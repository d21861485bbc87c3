//! The environment: two Deployments behind load balancers of both kinds, a foreign target in the group of each, two
//! replicas of Headgate, and its webhook.

use std::time::{Duration, Instant};

use headgate_core::inject::INJECT;
use headgate_harness::{
    admission,
    aws::{Aws, Group},
    cluster::{Cluster, Running},
    headgate::Headgate,
    kinds,
    kubectl::Kubectl,
    recorder::{APP, Recorder},
    scenario::{http_port, targets},
    wait,
    webhook::{Configuration, bare_pod, wait_injected},
};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
use kube::api::DeleteParams;
use localstack_world::Facts;
use serde_json::json;
use tokio::time::sleep;

use crate::{
    profile::Profile,
    replica::{Lease, Replica, Start, lease_arguments},
    stage::{
        Care,
        workload::{PORT, balancer, deployment},
    },
};

/// Real seconds per AWS second. With this value a round takes little more than a minute.
pub const TIME_SCALE: f64 = 0.075;
/// The label of namespaces for the webhook.
const MINE: &str = "chaos-mine";
/// The pause between requests to the same AWS that Headgate uses, which is throttled.
const ASK_AGAIN: Duration = Duration::from_millis(250);
/// The Lease of both replicas.
const LEASE: Lease = ["4s", "3s", "500ms"];
const WEBHOOK: &str = "chaos-webhook";
/// An address within a VPC without a pod, and a port on which nothing listens.
const FOREIGN: (&str, u16) = (".0.250", 9);

/// A Deployment behind a load balancer.
pub struct Workload {
    /// The name of its namespace and load balancer.
    pub name: &'static str,
    /// The namespace.
    pub cluster: Cluster,
    /// The target group.
    pub group: Group,
    /// The gate and the hold of its pods.
    pub care: Care,
    /// A target that somebody else has registered.
    pub foreign: String,
    /// The recorded events.
    pub recorder: Recorder,
}

/// The environment.
pub struct Stage {
    /// The local world.
    pub facts: Facts,
    /// AWS.
    pub aws: Aws,
    /// Both Deployments.
    pub workloads: Vec<Workload>,
    /// Both replicas.
    pub replicas: Vec<Replica>,
}

impl Stage {
    /// Sets it up in a new world, without pods. `margin`: the reserve of their hold beyond the propagation delay, in
    /// seconds.
    pub async fn set(facts: &Facts, margin: u32) -> Self {
        kinds::install(facts).await;
        admission::install(facts).await;
        let aws = Aws::new(facts).await;
        Profile::TypicalNlb.apply(&aws, TIME_SCALE).await;
        let (nlb, alb) = (bound(&aws, Profile::TypicalNlb).await, bound(&aws, Profile::TypicalAlb).await);
        let arguments = [
            // A replica that runs for half an hour need not log every detail.
            "--log=info".to_owned(),
            "--own-namespace=headgate".to_owned(),
            "--webhook-address=127.0.0.1:0".to_owned(),
            format!("--nlb-propagation-bound={nlb}s"),
            format!("--alb-propagation-bound={alb}s"),
        ];
        let arguments = [&arguments[..], &lease_arguments(LEASE)].concat();
        let mut replicas = Vec::new();
        for _ in 0..2 {
            replicas.push(Start::with_ways(facts, arguments.clone()).await.start().await);
        }
        let mut workloads = Vec::new();
        for (name, profile, bound) in
            [("chaos-nlb", Profile::TypicalNlb, nlb), ("chaos-alb", Profile::TypicalAlb, alb)]
        {
            workloads.push(Workload::new(facts, &aws, name, profile, bound + margin).await);
        }
        let headgates: Vec<&Headgate> = replicas.iter().map(|replica| &replica.headgate).collect();
        let client = workloads[0].cluster.client.clone();
        let _configuration = Configuration::install_as(client, WEBHOOK.into(), MINE.into(), &headgates).await;
        for workload in &workloads {
            workload.deploy(facts).await;
        }
        Self { facts: facts.clone(), aws, workloads, replicas }
    }

    /// Ends the users of the local world before the local world ends.
    pub async fn strike(self) {
        for workload in self.workloads {
            workload.recorder.stop().await;
        }
        for replica in self.replicas {
            replica.kill().await;
        }
    }
}

/// How long the nodes of a load balancer keep sending after a DeregisterTargets, in whole real seconds.
async fn bound(aws: &Aws, profile: Profile) -> u32 {
    let settings = aws.control("GET", "/settings", None).await;
    let lag = settings[profile.kind().as_str()]["deregistration"][1].as_f64().expect("a bound");
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // some seconds, never negative
    let bound = (lag * TIME_SCALE).ceil() as u32;
    bound
}

impl Workload {
    async fn new(facts: &Facts, aws: &Aws, name: &'static str, profile: Profile, hold: u32) -> Self {
        let cluster = Cluster::new(facts, name).await;
        Kubectl::new(facts, name).run(&["label", "namespace", name, &format!("{MINE}=")]).await;
        let group = balancer(aws, name, profile, true).await;
        let (host, port) = FOREIGN;
        let foreign = format!("{}:{port}", facts.vpc_cidr.replace(".0.0/16", host));
        aws.register_by_hand(&group.arn, &foreign).await;
        cluster.service(APP, APP, http_port(), Some(&group.name)).await;
        cluster.set_annotation(APP, "headgate.dev/hold", Some(&format!("{hold}s"))).await;
        let recorder = Recorder::start(aws, &cluster, name);
        Self { name, cluster, group, care: Care::GateAndHold(hold), foreign, recorder }
    }

    /// Creates its pods when they get gate and hold.
    async fn deploy(&self, facts: &Facts) {
        let probe = bare_pod("probe", &json!({"app": APP, INJECT: "true"}));
        wait_injected(&self.cluster, probe, |pod| self.care.is_given_to(pod)).await;
        self.cluster.create::<Deployment>(deployment(self.care, facts.nodes)).await;
    }

    /// Deletes a pod that counts, with its grace period, and returns it. `None`: no pod counts.
    pub async fn delete_one(&self) -> Running {
        let (gates, pods) = (self.cluster.gates(APP).await, self.cluster.running(APP).await);
        let counts =
            |pod: &String| gates.get(pod).and_then(Option::as_ref).is_some_and(|gate| gate.status == "True");
        let chosen: Running = pods.into_iter().filter(|(pod, _)| counts(pod)).take(1).collect();
        for pod in chosen.keys() {
            let (pods, parameters) = (self.cluster.api::<Pod>(), DeleteParams::default());
            match wait::answered("a pod is deleted", || pods.delete(pod, &parameters)).await {
                Ok(_) => {}
                // The rollout may have deleted it.
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                Err(error) => panic!("pod {pod} cannot be deleted: {error}"),
            }
        }
        chosen
    }

    /// Waits until AWS holds no target of a terminating or deleted pod.
    ///
    /// # Errors
    /// The remaining targets after the holds of terminated pods have ended.
    pub async fn wait_removed(&self, aws: &Aws) -> Result<(), String> {
        let end = Instant::now() + wait::DEADLINE;
        loop {
            sleep(ASK_AGAIN).await;
            let held = aws.registered(&self.group.arn).await;
            let mut wanted = targets(&self.cluster.running(APP).await, PORT);
            wanted.insert(self.foreign.clone());
            let late: Vec<String> = held.difference(&wanted).cloned().collect();
            if late.is_empty() {
                return Ok(());
            }
            if Instant::now() > end {
                return Err(format!("{}: pods that have gone are still targets: {late:?}", self.name));
            }
        }
    }

    /// Begins to replace every pod.
    pub async fn roll(&self) {
        self.cluster.restart(APP).await;
    }
}
