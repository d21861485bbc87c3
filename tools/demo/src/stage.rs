//! The environment of one run: an ingress behind a Network Load Balancer, and the actions on it.

use aws_sdk_elasticloadbalancingv2::types::LoadBalancerAttribute;
use headgate_harness::{
    aws::{Aws, Group},
    cluster::Cluster,
    kubectl::Kubectl,
    recorder::APP,
    wait,
    webhook::{bare_pod, wait_injected},
};
use k8s_openapi::api::{apps::v1::Deployment, policy::v1::PodDisruptionBudget};
use localstack_world::Facts;
use serde_json::{Value, json};

/// The content that a pod serves, and the load balancer's port: both ports of the Service.
pub const PORTS: [(&str, u16, u16); 2] = [("web", 8080, 8000), ("websecure", 8443, 8001)];
/// The number of replicas.
pub const REPLICAS: u32 = 6;

/// AWS's propagation delay that a hold must cover, in seconds (`localstack/elbv2/README.md`).
pub const DEREGISTRATION_BOUND: f64 = 120.0;
const HEALTH_INTERVAL: i32 = 10;
const HEALTHY_THRESHOLD: i32 = 2;

/// Sets a profile of the stand-in. Returns how long its nodes keep sending after a DeregisterTargets, in AWS seconds.
///
/// # Panics
/// There is no such profile.
pub async fn bound_of_profile(aws: &Aws, profile: &str) -> f64 {
    let settings = aws.control("PATCH", "/settings", Some(&json!({"profile": profile}))).await;
    let high = settings["network"]["deregistration"].as_array().and_then(|range| range.get(1)?.as_f64());
    high.unwrap_or_else(|| panic!("the stand-in has no profile '{profile}': {settings}"))
}

/// What the pods get from Headgate's webhook.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Care {
    /// Nothing: the control.
    #[default]
    None,
    /// The readiness gate, and a hold of this many seconds.
    GateAndHold(u32),
}

impl Care {
    /// Covers this delay at this time scale, rounded up to whole seconds, as the annotation `headgate.dev/hold`. In
    /// real time, nobody would have to write it.
    pub fn covering(bound: f64, scale: f64) -> Self {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // some seconds, never negative
        Self::GateAndHold((bound * scale).floor() as u32 + 1)
    }
}

/// The environment.
pub struct Stage {
    /// The namespace.
    pub cluster: Cluster,
    /// AWS.
    pub aws: Aws,
    /// The target groups, in the order of [`PORTS`].
    pub groups: Vec<Group>,
    kubectl: Kubectl,
}

impl Stage {
    /// Sets up the run `name` with these settings. `mine`: the label of namespaces for the webhook.
    pub async fn set(facts: &Facts, name: &str, care: Care, mine: &str) -> Self {
        let cluster = Cluster::new(facts, name).await;
        let aws = Aws::new(facts).await;
        let groups = balancer(&aws, name).await;
        let kubectl = Kubectl::new(facts, &cluster.namespace);
        let stage = Self { cluster, aws, groups, kubectl };
        stage.bind().await;
        if let Care::GateAndHold(seconds) = care {
            stage.inject(seconds, mine).await;
        }
        stage.deploy().await;
        stage
    }

    /// The Service that binds both ports.
    async fn bind(&self) {
        let ports: Vec<Value> = PORTS
            .iter()
            .enumerate()
            .map(|(at, (name, ..))| json!({"name": name, "port": 80 + at, "targetPort": name}))
            .collect();
        let bound: Vec<String> = PORTS
            .iter()
            .zip(&self.groups)
            .map(|((port, ..), group)| format!("{port}={}", group.name))
            .collect();
        self.cluster.service(APP, APP, ports.into(), Some(&bound.join(","))).await;
    }

    /// Asks for gate and hold, like users do, and waits until a new pod would get them. The API server watches its
    /// configurations, and Headgate the Service.
    async fn inject(&self, seconds: u32, mine: &str) {
        self.cluster.set_annotation(APP, "headgate.dev/hold", Some(&format!("{seconds}s"))).await;
        let namespace = self.cluster.namespace.as_str();
        self.kubectl
            .run(&["label", "namespace", namespace, "headgate.dev/inject=true", &format!("{mine}=")])
            .await;
        let mut probe = bare_pod("probe", &json!({"app": APP}));
        probe["spec"]["containers"][0]["ports"] = container_ports();
        wait_injected(&self.cluster, probe, |pod| {
            let done = pod.metadata.annotations.as_ref().and_then(|all| all.get("headgate.dev/injected"));
            let hold = format!("HoldAdded: {seconds}s in ");
            done.is_some_and(|said| said.contains("GateAdded") && said.contains(&hold))
        })
        .await;
    }

    async fn deploy(&self) {
        let labels = json!({"app": APP});
        let container = json!({
            "name": APP,
            "image": "headgate.local/ingress:1",
            "ports": container_ports(),
            "readinessProbe": {"httpGet": {"path": "/", "port": 8080}, "periodSeconds": 1},
        });
        self.cluster
            .create::<Deployment>(json!({
                "metadata": {"name": APP},
                "spec": {
                    "replicas": REPLICAS,
                    "selector": {"matchLabels": labels},
                    "strategy": {"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 2}},
                    "template": {"metadata": {"labels": labels}, "spec": {
                        "terminationGracePeriodSeconds": 10,
                        "topologySpreadConstraints": [{
                            "maxSkew": 1,
                            "topologyKey": "topology.kubernetes.io/zone",
                            "whenUnsatisfiable": "ScheduleAnyway",
                            "labelSelector": {"matchLabels": labels},
                            "matchLabelKeys": ["pod-template-hash"],
                        }],
                        "containers": [container],
                    }},
                },
            }))
            .await;
        self.cluster
            .create::<PodDisruptionBudget>(json!({
                "metadata": {"name": APP},
                "spec": {"maxUnavailable": 1, "selector": {"matchLabels": labels}},
            }))
            .await;
    }

    /// Replaces every pod.
    pub async fn restart(&self) {
        let deployment = format!("deployment/{APP}");
        self.kubectl.run(&["rollout", "restart", &deployment]).await;
        self.kubectl.run(&["rollout", "status", &deployment, "--timeout=120s"]).await;
    }

    /// Sets the number of replicas.
    pub async fn scale(&self, replicas: u32) {
        self.kubectl.run(&["scale", &format!("deployment/{APP}"), &format!("--replicas={replicas}")]).await;
    }

    /// The node with the most of the pods.
    pub async fn busiest_node(&self) -> String {
        let nodes = self.kubectl.run(&["get", "pods", "-o", "jsonpath={.items[*].spec.nodeName}"]).await;
        let mut counts = std::collections::BTreeMap::new();
        for node in nodes.split_whitespace() {
            *counts.entry(node.to_owned()).or_insert(0) += 1;
        }
        counts.into_iter().max_by_key(|(_, count)| *count).expect("there are pods").0
    }

    /// Drains a node, like an operator. Pods of others in the local world remain.
    pub async fn drain(&self, node: &str) {
        let own = format!("--pod-selector=app={APP}");
        let flags = ["--ignore-daemonsets", "--delete-emptydir-data", "--timeout=120s", &own];
        self.kubectl.run(&[&["drain", node], &flags[..]].concat()).await;
    }

    /// Uncordons a node.
    pub async fn uncordon(&self, node: &str) {
        self.kubectl.run(&["uncordon", node]).await;
    }

    /// Waits until exactly `count` pods run, all of them are healthy targets, and every node of the load balancer sends
    /// to all of them and to nothing else.
    pub async fn wait_quiet(&self, count: usize) {
        wait::until(&format!("{count} pods, healthy at every node of the load balancer"), || async {
            let running = self.cluster.running(APP).await;
            let all = self.cluster.count(APP).await;
            if running.len() != count || all != count {
                return Err(format!("{} of {all} pods run", running.len()));
            }
            for ((_, port, _), group) in PORTS.iter().zip(&self.groups) {
                let wanted =
                    running.values().map(|ip| (format!("{ip}:{port}"), "healthy".to_owned())).collect();
                let targets = self.aws.targets(&group.arn).await;
                let live: std::collections::BTreeMap<_, _> =
                    targets.into_iter().filter(|(_, state)| state != "draining").collect();
                if live != wanted {
                    return Err(format!("{}: {live:?}", group.name));
                }
            }
            if self.aws.is_settled(&self.cluster.namespace).await {
                Ok(())
            } else {
                Err("the load balancer is not settled".to_owned())
            }
        })
        .await;
    }
}

/// One Network Load Balancer with cross-zone load balancing, and a target group behind each of its two listeners.
async fn balancer(aws: &Aws, name: &str) -> Vec<Group> {
    let (arn, dns_name) = aws.nlb(name).await;
    let cross_zone =
        LoadBalancerAttribute::builder().key("load_balancing.cross_zone.enabled").value("true").build();
    let modify = aws.client().modify_load_balancer_attributes().load_balancer_arn(&arn);
    modify.attributes(cross_zone).send().await.unwrap();
    let mut groups = Vec::new();
    for (port, pod_port, listener_port) in PORTS {
        let group_name = format!("{name}-{port}");
        let group = aws.create_ip_group(&group_name, pod_port).await;
        let health = aws.client().modify_target_group().target_group_arn(&group);
        let health = health.health_check_interval_seconds(HEALTH_INTERVAL);
        health.healthy_threshold_count(HEALTHY_THRESHOLD).send().await.unwrap();
        aws.listen(&arn, listener_port, &group).await;
        groups.push(Group { name: group_name, arn: group, dns_name: dns_name.clone(), listener_port });
    }
    groups
}

fn container_ports() -> Value {
    PORTS.iter().map(|(name, port, _)| json!({"name": name, "containerPort": port})).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hold_covers_the_scaled_bound() {
        assert_eq!(Care::covering(DEREGISTRATION_BOUND, 0.05), Care::GateAndHold(7));
        assert_eq!(Care::covering(DEREGISTRATION_BOUND, 1.0), Care::GateAndHold(121));
    }
}
