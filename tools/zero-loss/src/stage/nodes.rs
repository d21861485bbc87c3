//! What happens to the nodes of the pods, and to pods because of their node.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use headgate_harness::{
    aws::authority,
    cluster::{Cluster, client_without_retries},
    http, pods,
    recorder::APP,
    wait,
};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api,
    api::{DeleteParams, EvictParams},
};
use localstack_world::Nodes;
use serde_json::{Value, json};

use super::{
    Stage,
    workload::{Kind, is_true},
};

/// How often an eviction that must wait is retried.
const ASK_AGAIN: Duration = Duration::from_secs(1);
/// How many pods may be missing at once while nodes are drained.
const MAX_UNAVAILABLE: i32 = 2;

/// A finished drain.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Drained {
    /// Its duration.
    pub seconds: f64,
    /// The number of pods by the reason in the answer: Headgate's reasons, and `PodDisruptionBudget` if Kubernetes
    /// itself rejected the eviction.
    pub because: BTreeMap<String, u64>,
}

impl Stage {
    /// The pods by the name of their node.
    async fn by_node(&self) -> BTreeMap<String, Vec<String>> {
        let mut nodes: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for pod in self.list().await {
            let node = pod.spec.and_then(|spec| spec.node_name).unwrap_or_default();
            nodes.entry(node).or_default().extend(pod.metadata.name);
        }
        nodes
    }

    /// The node with the most pods.
    pub async fn one_node(&self) -> String {
        let nodes = self.by_node().await.into_iter();
        nodes.max_by_key(|(_, pods)| pods.len()).expect("a node with pods").0
    }

    /// The node with the most pods in each zone.
    pub async fn half_of_the_nodes(&self) -> Vec<String> {
        let pods = self.by_node().await;
        let count = |node: &&String| pods.get(*node).map_or(0, Vec::len);
        let fullest = self.facts.zones.iter().map(|zone| {
            assert_eq!(zone.nodes.len(), 2, "two nodes in each zone, expected");
            zone.nodes.iter().max_by_key(count).expect("two").clone()
        });
        fullest.collect()
    }

    /// Creates a budget for the pods.
    pub async fn limit_disruptions(&self) {
        self.cluster.limit_disruptions(APP, "maxUnavailable", MAX_UNAVAILABLE, MAX_UNAVAILABLE).await;
    }

    /// Runs `kubectl drain` of these nodes at the same time, each in its own process. Then uncordons them.
    pub async fn drain(&mut self, nodes: &[String]) {
        let selector = format!("--pod-selector=app={APP}");
        let began = Instant::now();
        let drains = nodes.iter().map(|node| async {
            let arguments = ["drain", node, "--ignore-daemonsets", "--timeout=300s", &selector];
            self.kubectl.transcript(&arguments).await
        });
        let said = futures::future::join_all(drains).await.join("\n");
        let seconds = began.elapsed().as_secs_f64();
        let mut because = self.answers();
        let refused = said.lines().filter(|line| line.contains("disruption budget")).filter_map(pod_of);
        let refused = refused.collect::<BTreeSet<_>>().len() as u64;
        if refused > 0 {
            because.insert("PodDisruptionBudget".into(), refused);
        }
        self.drained = Some(Drained { seconds, because });
        self.repair().await;
    }

    /// Runs `kubectl drain` of a node that only has pods of DaemonSets and remains cordoned.
    pub async fn cordon(&self, node: &str) {
        let selector = format!("--pod-selector=app={APP}");
        self.kubectl.run(&["drain", node, "--ignore-daemonsets", "--timeout=300s", &selector]).await;
    }

    /// Drains these nodes at the same time, and loses each when its drain is over.
    pub async fn drain_and_lose(&mut self, nodes: &[String]) {
        let began = Instant::now();
        let drains = nodes.iter().map(|node| async {
            self.cordon(node).await;
            self.lose_until_restored(node).await;
        });
        futures::future::join_all(drains).await;
        self.drained = Some(Drained { seconds: began.elapsed().as_secs_f64(), because: self.answers() });
        self.repair().await;
    }

    /// Drains a node, ends its machine and deletes its Node. After this time, a new machine with that name registers.
    pub async fn replace_machine(&mut self, node: &str, later: Duration) {
        let began = Instant::now();
        self.cordon(node).await;
        self.drained = Some(Drained { seconds: began.elapsed().as_secs_f64(), because: self.answers() });
        let pods = self.by_node().await.remove(node).unwrap_or_default();
        self.ask_node(node, "lose", None).await;
        if !pods.is_empty() {
            self.force_delete(&pods).await;
        }
        self.kubectl.run(&["delete", "node", node]).await;
        tokio::time::sleep(later).await;
        self.ask_node(node, "restore", None).await;
        let nodes: Api<Node> = Api::all(self.cluster.client.clone());
        wait::until(&format!("{node} has registered itself"), || async {
            let found = nodes.get_metadata_opt(node).await.map_err(|error| error.to_string())?;
            found.map(|_| ()).ok_or_else(|| "there is none".to_owned())
        })
        .await;
        self.repair().await;
    }

    /// Waits, like a lifecycle hook, until no load balancer sends to a node any more.
    pub async fn wait_detached(&self, node: &str) {
        let annotation = r"--for=jsonpath={.metadata.annotations.headgate\.dev/detached-at}";
        let timeout = format!("--timeout={}s", self.patience.as_secs());
        self.kubectl.run(&["wait", &format!("node/{node}"), annotation, &timeout]).await;
    }

    /// The number of pods by the reason in the answer to their eviction, without Headgate's own dry runs.
    fn answers(&self) -> BTreeMap<String, u64> {
        let mut pods: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for replica in &self.replicas {
            let answers = replica.headgate.logged(|line| {
                let is_answer = |message| matches!(message, "eviction allowed" | "an eviction waits");
                line["message"].as_str().is_some_and(is_answer)
            });
            for line in answers {
                let word = |key: &str| line[key].as_str().unwrap_or_default().to_owned();
                pods.entry(word("reason")).or_default().insert(word("pod"));
            }
        }
        pods.into_iter().map(|(reason, pods)| (reason, pods.len() as u64)).collect()
    }

    /// Taints a node so that no new pods are scheduled there.
    pub async fn taint(&self, node: &str, key: &str) {
        self.kubectl.run(&["taint", "nodes", node, &format!("{key}=:NoSchedule")]).await;
    }

    /// Replaces nodes like EKS does for a managed node group: all of them are tainted before the first is drained.
    /// Then, one after another, the pods of a node are evicted except those of DaemonSets, the node is cordoned, and is
    /// lost after this time.
    pub async fn replace_group(&mut self, nodes: &[String], wait: Duration) {
        let taint = "eks.amazonaws.com/nodegroup=unschedulable:NoSchedule";
        for node in nodes {
            self.kubectl.run(&["taint", "nodes", node, taint]).await;
        }
        for node in nodes {
            if self.kind == Kind::Deployment {
                self.evict_all(node).await;
            }
            self.kubectl.run(&["cordon", node]).await;
            tokio::time::sleep(wait).await;
            self.lose_until_restored(node).await;
            // Its replacement has no taint.
            self.kubectl.run(&["taint", "nodes", node, "eks.amazonaws.com/nodegroup-"]).await;
            self.kubectl.run(&["uncordon", node]).await;
        }
        self.repair().await;
    }

    /// Evicts all pods of a node and retries, like Karpenter, until they are deleted. Then uncordons it.
    pub async fn evict_all_of(&mut self, node: &str) {
        self.evict_all(node).await;
        self.repair().await;
    }

    async fn evict_all(&mut self, node: &str) {
        let pods = self.by_node().await.remove(node).unwrap_or_default();
        let client = client_without_retries(&self.facts).await;
        let asking = Cluster { client, namespace: self.cluster.namespace.clone() };
        let began = Instant::now();
        let evicted = pods.iter().map(|pod| evict(&asking, pod));
        futures::future::join_all(evicted).await;
        self.wait_gone(&pods).await;
        let because = self.answers();
        let before = self.drained.take().map_or(0.0, |drained| drained.seconds);
        self.drained = Some(Drained { seconds: before + began.elapsed().as_secs_f64(), because });
    }

    async fn wait_gone(&self, pods: &[String]) {
        wait::within(self.patience, "the pods are gone", || async {
            let left = self.list().await.into_iter().filter_map(|pod| pod.metadata.name);
            let left: Vec<String> = left.filter(|pod| pods.contains(pod)).collect();
            if left.is_empty() { Ok(()) } else { Err(left) }
        })
        .await;
    }

    async fn ask_node(&self, node: &str, what: &str, body: Option<&Value>) {
        let control = authority(&self.facts.kubelet_control);
        http::json("POST", &control, &format!("/nodes/{node}/{what}"), body).await;
    }

    /// Switches a node off, deletes its pods and targets like a controller of lost nodes, and switches it on again.
    pub async fn lose(&self, node: &str) {
        self.lose_until_restored(node).await;
        self.repair().await;
    }

    async fn lose_until_restored(&self, node: &str) {
        let pods = self.by_node().await.remove(node).unwrap_or_default();
        self.ask_node(node, "lose", None).await;
        if !pods.is_empty() {
            self.force_delete(&pods).await;
        }
        self.ask_node(node, "restore", None).await;
    }

    /// Shuts a simulated node down, waits until it is off, and switches it on again.
    pub async fn shut_down(&self, node: &str, seconds: u32) {
        self.ask_node(node, "shutdown", Some(&json!({"seconds": seconds}))).await;
        let control = authority(&self.facts.kubelet_control);
        wait::until(&format!("{node} is off"), || async {
            let nodes = http::json("GET", &control, "/nodes", None).await;
            if nodes[node]["power"] == "off" { Ok(()) } else { Err(nodes[node].clone()) }
        })
        .await;
        self.clear_ended().await;
        self.ask_node(node, "restore", None).await;
        self.repair().await;
    }

    /// Stops the process of a pod, so that it does not answer, and waits until its container was restarted and serves.
    pub async fn wedge_one(&self) {
        let (pod, _) = self.pods().await.pop_first().expect("pods run");
        match self.facts.nodes {
            Nodes::Real => pods::signal(&pod, "STOP").await,
            Nodes::Simulated => {
                let control = authority(&self.facts.kubelet_control);
                let path = format!("/pods/{}/{pod}/hang", self.cluster.namespace);
                http::json("POST", &control, &path, Some(&json!({"hanging": true}))).await;
            }
        }
        wait::within(self.patience, &format!("{pod} is there again"), || async {
            let is = self.cluster.api::<Pod>().get(&pod).await.unwrap();
            let status = is.status.as_ref().and_then(|status| status.container_statuses.as_ref());
            let started_again =
                status.is_some_and(|all| all.iter().any(|container| container.restart_count > 0));
            if started_again && is_true(&is, "Ready") { Ok(()) } else { Err(status.cloned()) }
        })
        .await;
    }

    /// Makes the simulated kubelet terminate a pod, as at a hard memory threshold.
    pub async fn evict_one_under_pressure(&self) {
        let (pod, _) = self.pods().await.pop_first().expect("pods run");
        let control = authority(&self.facts.kubelet_control);
        let path = format!("/pods/{}/{pod}/pressure-evict", self.cluster.namespace);
        http::json("POST", &control, &path, Some(&json!({"grace_seconds": 1}))).await;
        wait::until(&format!("{pod} has ended"), || async {
            let phase = self.cluster.api::<Pod>().get(&pod).await.unwrap().status.and_then(|is| is.phase);
            if has_ended(phase.as_deref()) { Ok(()) } else { Err(phase) }
        })
        .await;
        self.clear_ended().await;
    }

    /// Deletes a running pod that is not terminating. A rollout may just have deleted it.
    pub async fn delete_one(&self) {
        let pods = self.cluster.api::<Pod>();
        for (pod, _) in self.pods().await {
            match pods.delete(&pod, &DeleteParams::default()).await {
                Ok(_) => return,
                Err(kube::Error::Api(error)) if error.code == 404 => {}
                Err(error) => panic!("cannot delete pod {pod}: {error}"),
            }
        }
        panic!("no pod runs");
    }

    /// Deletes a pod by force.
    pub async fn force_delete_one(&self) {
        let (pod, _) = self.pods().await.pop_first().expect("pods run");
        self.force_delete(&[pod]).await;
    }

    async fn force_delete(&self, pods: &[String]) {
        let mut arguments = vec!["delete", "pods", "--force", "--grace-period=0", "--wait=false"];
        arguments.extend(pods.iter().map(String::as_str));
        self.kubectl.run(&arguments).await;
    }

    /// Deletes the objects of finished pods, because no controller does so soon.
    async fn clear_ended(&self) {
        for phase in ["Failed", "Succeeded"] {
            let selector = format!("--field-selector=status.phase={phase}");
            self.kubectl.run(&["delete", "pods", &selector, "--wait=false"]).await;
        }
    }

    /// Makes all nodes schedulable again.
    async fn repair(&self) {
        let nodes: Vec<&str> =
            self.facts.zones.iter().flat_map(|zone| &zone.nodes).map(String::as_str).collect();
        self.kubectl.run(&[&["uncordon"], &nodes[..]].concat()).await;
        for key in ["karpenter.sh/disrupted", "aws-node-termination-handler/spot-itn"] {
            // There may be no taint.
            let taint = format!("{key}-");
            let _ = self.kubectl.try_run(&[&["taint", "nodes"], &nodes[..], &[&taint[..]]].concat()).await;
        }
        // Others in the local world may have Node objects on which nothing runs.
        let ready = ["wait", "--for=condition=Ready", "--timeout=90s", "nodes"];
        self.kubectl.run(&[&ready[..], &nodes[..]].concat()).await;
    }
}

/// Requests the eviction of a pod until it is allowed, or the pod is deleted.
async fn evict(cluster: &Cluster, pod: &str) {
    let patience = Instant::now() + wait::DEADLINE * 3;
    loop {
        match cluster.api::<Pod>().evict(pod, &EvictParams::default()).await {
            Ok(_) => return,
            Err(kube::Error::Api(status)) if status.code == 404 => return,
            Err(kube::Error::Api(status)) if status.code == 429 && Instant::now() < patience => {
                tokio::time::sleep(ASK_AGAIN).await;
            }
            Err(error) => panic!("pod {pod} cannot be evicted: {error}"),
        }
    }
}

fn has_ended(phase: Option<&str>) -> bool {
    matches!(phase, Some("Failed" | "Succeeded"))
}

/// The pod in a line like `error when evicting pods/"web" -n "shop" (will retry after 5s): …`.
fn pod_of(line: &str) -> Option<&str> {
    line.split_once("pods/\"")?.1.split_once('"').map(|(pod, _)| pod)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pod_that_a_budget_keeps_is_read_from_what_kubectl_says() {
        let said = "error when evicting pods/\"web-1\" -n \"shop\" (will retry after 5s): Cannot evict pod as it would \
                    violate the pod's disruption budget.";
        assert_eq!(pod_of(said), Some("web-1"));
        assert_eq!(pod_of("evicting pod shop/web-1"), None);
    }
}
