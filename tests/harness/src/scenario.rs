//! The resources of one test: a namespace, target groups, and a `headgate` that manages the namespace.

use std::{
    collections::BTreeSet,
    path::Path,
    sync::atomic::{AtomicU16, Ordering},
};

use aws_sdk_elasticloadbalancingv2::types::TargetDescription;
use localstack_world::{Facts, World};
use serde_json::{Value, json};

use crate::{
    aws::{Aws, Group},
    cluster::{Cluster, Running},
    headgate::Headgate,
    wait,
};

/// Listener ports and names are never reused in a run.
static NEXT: AtomicU16 = AtomicU16::new(1);

/// One test's part of the local world.
pub struct Scenario {
    /// The local world.
    pub world: &'static World,
    /// Its namespace.
    pub cluster: Cluster,
    /// AWS.
    pub aws: Aws,
    name: String,
}

impl Scenario {
    /// A namespace named after the test.
    pub async fn new(world: &'static World, test: &str) -> Self {
        let name = format!("{test}-{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let cluster = Cluster::new(world.facts(), &name).await;
        let aws = Aws::new(world.facts()).await;
        Self { world, cluster, aws, name }
    }

    /// The facts of the local world.
    pub fn facts(&self) -> &'static Facts {
        self.world.facts()
    }

    /// A name for a resource of this test, unique in the local world, within AWS's 32 characters.
    pub fn name(&self, of: &str) -> String {
        format!("{of}-{}", self.name)
    }

    /// A target group behind a new NLB.
    pub async fn group(&self, of: &str) -> Group {
        let port = 20_000 + NEXT.fetch_add(1, Ordering::Relaxed);
        self.aws.nlb_group(&self.name(of), port).await
    }

    /// A target group for IPv6 addresses behind a new NLB.
    pub async fn ipv6_group(&self, of: &str) -> Group {
        let port = 20_000 + NEXT.fetch_add(1, Ordering::Relaxed);
        self.aws.ipv6_nlb_group(&self.name(of), port).await
    }

    /// Starts `headgate run --namespaces` for this test's namespace.
    pub async fn headgate(&self) -> Headgate {
        self.headgate_with(&[]).await
    }

    /// The same with more arguments.
    pub async fn headgate_with(&self, arguments: &[&str]) -> Headgate {
        let only = format!("--namespaces={}", self.cluster.namespace);
        let arguments: Vec<&str> = [&*only].into_iter().chain(arguments.iter().copied()).collect();
        Headgate::start(self.facts(), &self.facts().kubeconfig, &arguments).await
    }

    /// The same with only these arguments, which must include the namespaces.
    pub async fn headgate_of(&self, arguments: &[&str]) -> Headgate {
        Headgate::start(self.facts(), &self.facts().kubeconfig, arguments).await
    }

    /// Starts `headgate run` for this test's namespace, but with a view of all pods. So it knows if an address of this
    /// test's former pod now belongs to another test.
    pub async fn headgate_that_sees_all(&self, kubeconfig: &Path, arguments: &[&str]) -> Headgate {
        let own = format!("--own-namespace={}", self.cluster.namespace);
        let only = format!("--namespace-selector=kubernetes.io/metadata.name={}", self.cluster.namespace);
        let arguments: Vec<&str> = [&*own, &*only].into_iter().chain(arguments.iter().copied()).collect();
        Headgate::start(self.facts(), kubeconfig, &arguments).await
    }

    /// A Service and a Deployment, both called `web`, bound to a target group through the port `http` (8080).
    pub async fn web(&self, replicas: u32) -> Group {
        let group = self.group("web").await;
        self.cluster.deploy("web", replicas, &[("http", 8080)]).await;
        self.cluster.service("web", "web", http_port(), Some(&format!("http={}", group.name))).await;
        group
    }

    /// Registers a target that is no pod, like another program.
    pub async fn foreign_target(&self, group: &Group) -> String {
        let ip = self.facts().vpc_cidr.replace(".0.0/16", ".0.250");
        let target = TargetDescription::builder().id(&ip).port(9).build();
        let call = self.aws.client().register_targets().target_group_arn(&group.arn).targets(target);
        call.send().await.unwrap();
        format!("{ip}:9")
    }

    /// Waits until there are `count` pods of `app`, and none terminates.
    pub async fn wait_quiet(&self, app: &str, count: usize) {
        self.wait_quiet_in(&self.cluster, app, count).await;
    }

    /// The same in another namespace.
    pub async fn wait_quiet_in(&self, cluster: &Cluster, app: &str, count: usize) {
        wait::until(&format!("{count} pods of {app} and no others"), || async {
            let (all, running) = (cluster.count(app).await, cluster.running(app).await);
            if all == count && running.len() == count { Ok(()) } else { Err((all, running)) }
        })
        .await;
    }

    /// Waits until a group has exactly these registered targets.
    pub async fn wait_targets(&self, group: &Group, wanted: &BTreeSet<String>) {
        let what = format!("the targets of {}", group.name);
        wait::until_equal(&what, wanted, || self.aws.registered(&group.arn)).await;
    }

    /// Waits until `count` pods of `app` with this port are the registered targets of a group.
    pub async fn wait_registered(&self, group: &Group, app: &str, count: usize, port: u16) -> Running {
        let running = self.cluster.wait_running(app, count).await;
        self.wait_targets(group, &targets(&running, port)).await;
        running
    }
}

/// The targets of these pods.
pub fn targets(pods: &Running, port: u16) -> BTreeSet<String> {
    pods.values().map(|ip| format!("{ip}:{port}")).collect()
}

/// The ports of a Service with one port `http`, which maps 80 to 8080.
pub fn http_port() -> Value {
    json!([{"name": "http", "port": 80, "targetPort": 8080}])
}
