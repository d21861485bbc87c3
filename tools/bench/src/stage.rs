//! The environment of a measure: a namespace, a node without a kubelet, and pods that are written through the API
//! directly.
//!
//! The time of a kubelet to start a pod is not Headgate's time. A pod has its IP when its status shows it.

use std::{
    net::Ipv4Addr,
    sync::atomic::{AtomicU32, Ordering},
};

use aws_sdk_elasticloadbalancingv2::types::{ProtocolEnum, TargetTypeEnum};
use futures::{StreamExt, stream};
use headgate_harness::{
    aws::{Aws, Group},
    cluster::Cluster,
    recorder::{Micros, now},
    wait,
};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use localstack_world::Facts;
use serde_json::{Value, json};

/// The number of requests to the API server in flight.
pub const AT_ONCE: usize = 8;
/// The port of every target.
pub const PORT: u16 = 8080;

/// A measure's part of the local world.
pub struct Stage {
    /// The local world.
    pub facts: Facts,
    /// Its namespace.
    pub cluster: Cluster,
    /// AWS.
    pub aws: Aws,
    node: String,
    first_ip: u32,
    next_ip: AtomicU32,
}

impl Stage {
    /// Creates a namespace and a node with this name.
    pub async fn new(facts: &Facts, name: &str) -> Self {
        let cluster = Cluster::new(facts, name).await;
        let node = json!({"metadata": {"name": format!("bench-{name}")}});
        let nodes: Api<Node> = Api::all(cluster.client.clone());
        nodes.create(&PostParams::default(), &serde_json::from_value(node).unwrap()).await.unwrap();
        let cidr = facts.zones[0].cidr;
        Self {
            facts: facts.clone(),
            cluster,
            aws: Aws::new(facts).await,
            node: format!("bench-{name}"),
            // The simulated kubelets use addresses from the beginning.
            first_ip: cidr.network().to_bits() + 2048,
            next_ip: AtomicU32::new(0),
        }
    }

    /// The argument that limits a program to this namespace.
    pub fn only_here(&self) -> String {
        format!("--namespaces={}", self.cluster.namespace)
    }

    /// A target group without a load balancer.
    pub async fn group(&self, name: &str) -> Group {
        let arn = self.aws.bare_group(name, TargetTypeEnum::Ip, ProtocolEnum::Tcp).await;
        Group { name: name.into(), arn, dns_name: String::new(), listener_port: 0 }
    }

    /// A Service that selects `app: APP`, bound to a group.
    pub async fn bind(&self, app: &str, group: &Group) {
        self.cluster.service(app, app, headgate_harness::scenario::http_port(), Some(&group.name)).await;
    }

    /// An address that no pod had here before, for a pod that becomes a target.
    pub fn fresh_ip(&self) -> String {
        // The addresses of one zone, each used once before the first one again.
        let ip = self.first_ip + self.next_ip.fetch_add(1, Ordering::Relaxed) % 6000;
        Ipv4Addr::from_bits(ip).to_string()
    }

    /// A pod on the node, without an IP.
    pub async fn pod(&self, name: &str, app: &str) {
        self.pod_with(name, app, |_| {}).await;
    }

    /// A pod on the node, changed before it is created.
    pub async fn pod_with(&self, name: &str, app: &str, change: impl FnOnce(&mut Value)) {
        let mut object = pod(name, &self.cluster.namespace, app);
        object["spec"]["nodeName"] = self.node.as_str().into();
        change(&mut object);
        self.cluster.create::<Pod>(object).await;
    }

    /// Gives a pod its IP, like its kubelet would. Returns when that was sent.
    pub async fn give_ip(&self, name: &str, ip: &str) -> Micros {
        let patch = json!({"status": running(ip)});
        let sent = now();
        let api = self.cluster.api::<Pod>();
        api.patch_status(name, &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
        sent
    }

    /// A pod with an IP. Returns that IP.
    pub async fn running_pod(&self, name: &str, app: &str) -> String {
        let ip = self.fresh_ip();
        self.pod(name, app).await;
        self.give_ip(name, &ip).await;
        ip
    }

    /// Pods with an IP, [`AT_ONCE`] at a time. Returns their names and IPs.
    pub async fn running_pods(&self, pods: Vec<(String, String)>) -> Vec<(String, String)> {
        let make = |(name, app): (String, String)| async move {
            let ip = self.running_pod(&name, &app).await;
            (name, ip)
        };
        stream::iter(pods).map(make).buffered(AT_ONCE).collect().await
    }

    /// Deletes a pod gracefully. Returns when that was sent.
    pub async fn delete(&self, name: &str) -> Micros {
        let sent = now();
        self.cluster.delete_pod(name, 30).await;
        sent
    }

    /// Deletes all pods, and waits until they no longer exist.
    pub async fn end_pods(&self) {
        let api = self.cluster.api::<Pod>();
        let at_once = DeleteParams::default().grace_period(0);
        api.delete_collection(&at_once, &ListParams::default()).await.unwrap();
        wait::until_equal("no pods are left", &0, || async {
            api.list_metadata(&ListParams::default().limit(1)).await.unwrap().items.len()
        })
        .await;
    }

    /// Waits until this many targets of a group are registered.
    pub async fn wait_targets(&self, group: &Group, count: usize) {
        let what = format!("{count} targets in {}", group.name);
        wait::until_equal(&what, &count, || async { self.aws.registered(&group.arn).await.len() }).await;
    }

    /// Changes the stand-in's settings.
    pub async fn settings(&self, patch: Value) {
        self.aws.control("PATCH", "/settings", Some(&patch)).await;
    }

    /// Adds a fault to the stand-in.
    pub async fn fault(&self, fault: Value) {
        self.aws.control("POST", "/faults", Some(&fault)).await;
    }

    /// Removes all faults.
    pub async fn no_faults(&self) {
        self.aws.control("DELETE", "/faults", None).await;
    }
}

/// `ip:port`, as AWS and the trace write it.
pub fn target(ip: &str) -> String {
    format!("{ip}:{PORT}")
}

/// A pod of typical size: two containers, 30 environment variables, the labels of charts.
pub fn pod(name: &str, namespace: &str, app: &str) -> Value {
    let env: Vec<Value> = (0..30)
        .map(|at| json!({"name": format!("SETTING_NUMBER_{at}"), "value": format!("the value of setting number {at}")}))
        .collect();
    json!({
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {
                "app": app,
                "app.kubernetes.io/name": app,
                "app.kubernetes.io/instance": format!("{app}-production"),
                "app.kubernetes.io/managed-by": "Helm",
                "pod-template-hash": "5d8f7c9b64",
            },
            "annotations": {"prometheus.io/scrape": "true", "prometheus.io/port": "9090"},
        },
        "spec": {
            "terminationGracePeriodSeconds": 30,
            "automountServiceAccountToken": false,
            // The node has no kubelet, and must not be treated like a dead one.
            "tolerations": [{"operator": "Exists"}],
            "containers": [
                {
                    "name": "web",
                    "image": "registry.example/web:1.2.3",
                    "env": env,
                    "ports": [{"name": "http", "containerPort": PORT}, {"name": "metrics", "containerPort": 9090}],
                    "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
                },
                {"name": "proxy", "image": "registry.example/proxy:1.2.3"},
            ],
        },
    })
}

/// The status of a pod whose containers are ready.
pub fn running(ip: &str) -> Value {
    json!({
        "phase": "Running",
        "podIP": ip,
        "podIPs": [{"ip": ip}],
        "conditions": [
            {"type": "ContainersReady", "status": "True"},
            {"type": "PodScheduled", "status": "True"},
        ],
    })
}
