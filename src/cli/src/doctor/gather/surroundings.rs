//! Reads the settings that can shorten a hold: nodes and kubelets, Karpenter, the cluster-autoscaler and quotas.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        core::v1::{Node, Pod, ResourceQuota},
    },
    jiff::SignedDuration,
};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, GroupVersionKind, ListParams},
};
use serde_json::Value;

use crate::doctor::facts::{Autoscaler, Looked, Machine, Pool, Reserved, Surroundings, Unseen};

/// The maximum number of nodes to read. Most clusters have only a few node configurations.
const NODES: usize = 20;
/// The timeout of a request to a kubelet.
const PATIENCE: Duration = Duration::from_secs(5);
/// The namespace of the cluster-autoscaler in its chart and in the AWS documentation.
const SYSTEM: &str = "kube-system";
/// The default of `--max-graceful-termination-sec`, in seconds.
const MAX_GRACE: u32 = 600;
const MAX_EVICTION: u32 = 120;

/// Reads the settings for these pods and namespaces.
pub async fn look(client: &Client, namespaces: &BTreeSet<&str>, pods: &Looked<Vec<Pod>>) -> Surroundings {
    let pods = pods.as_deref().unwrap_or_default();
    let nodes: BTreeSet<&str> =
        pods.iter().filter_map(|pod| pod.spec.as_ref()?.node_name.as_deref()).take(NODES).collect();
    Surroundings {
        nodes: machines(client, &nodes).await,
        pools: pools(client).await,
        autoscaler: autoscaler(client).await,
        quotas: quotas(client, namespaces).await,
    }
}

async fn machines(client: &Client, names: &BTreeSet<&str>) -> Reserved<BTreeMap<String, Machine>> {
    let api: Api<Node> = Api::all(client.clone());
    let mut machines = BTreeMap::new();
    for name in names {
        let found = api.get_opt(name).await.map_err(|error| Unseen::because(&error))?;
        let Some(labels) = found.and_then(|node| node.metadata.labels) else { continue };
        let is =
            |label: &str, value: &str| labels.get(label).is_some_and(|is| is.eq_ignore_ascii_case(value));
        let machine = Machine {
            is_spot: is("karpenter.sh/capacity-type", "spot") || is("eks.amazonaws.com/capacityType", "SPOT"),
            pool: labels.get("karpenter.sh/nodepool").cloned(),
            shutdown: shutdown(client, name).await,
        };
        machines.insert((*name).to_owned(), machine);
    }
    Ok(machines)
}

/// Returns how many seconds the kubelet of a node keeps pods running when the node shuts down.
async fn shutdown(client: &Client, node: &str) -> Reserved<u32> {
    let path = format!("/api/v1/nodes/{node}/proxy/configz");
    let request =
        hyper::Request::get(path).body(Vec::new()).map_err(|error| Unseen::Failed(error.to_string()))?;
    let asked = tokio::time::timeout(PATIENCE, client.request::<Value>(request)).await;
    let answer = asked.map_err(|_| Unseen::Failed(format!("the kubelet of {node} does not answer")))?;
    let answer = answer.map_err(|error| Unseen::because(&error))?;
    Ok(grace(&answer["kubeletconfig"]))
}

/// Returns the shutdown grace period in seconds that a KubeletConfiguration gives pods with the default priority.
/// <https://kubernetes.io/docs/reference/config-api/kubelet-config.v1beta1/>
fn grace(config: &Value) -> u32 {
    let by_priority =
        config["shutdownGracePeriodByPodPriority"].as_array().map(Vec::as_slice).unwrap_or_default();
    let priority = |entry: &&Value| entry["priority"].as_i64().unwrap_or_default();
    let usual = by_priority.iter().filter(|entry| priority(entry) <= 0).max_by_key(priority);
    if let Some(entry) = usual.or_else(|| by_priority.iter().min_by_key(priority)) {
        let seconds = entry["shutdownGracePeriodSeconds"].as_u64().unwrap_or_default();
        return u32::try_from(seconds).unwrap_or(u32::MAX);
    }
    let of = |field: &str| config[field].as_str().and_then(seconds).unwrap_or_default();
    of("shutdownGracePeriod").saturating_sub(of("shutdownGracePeriodCriticalPods"))
}

/// Parses a duration in Go's notation, such as `2m30s`.
fn seconds(text: &str) -> Option<u32> {
    u32::try_from(text.parse::<SignedDuration>().ok()?.as_secs()).ok()
}

/// Reads Karpenter's NodePools. Empty if the CRD is not installed.
async fn pools(client: &Client) -> Reserved<BTreeMap<String, Pool>> {
    let kind = GroupVersionKind::gvk("karpenter.sh", "v1", "NodePool");
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::from_gvk(&kind));
    let listed = match api.list(&ListParams::default()).await {
        Ok(listed) => listed.items,
        Err(kube::Error::Api(status)) if status.code == 404 => Vec::new(),
        Err(error) => return Err(Unseen::because(&error)),
    };
    let pool = |object: DynamicObject| {
        let grace = object.data.pointer("/spec/template/spec/terminationGracePeriod").and_then(Value::as_str);
        Some((object.metadata.name?, Pool { grace: grace.and_then(seconds) }))
    };
    Ok(listed.into_iter().filter_map(pool).collect())
}

/// Reads the settings of the cluster-autoscaler. `None`: the usual namespace has no cluster-autoscaler.
async fn autoscaler(client: &Client) -> Reserved<Option<Autoscaler>> {
    let api: Api<Deployment> = Api::namespaced(client.clone(), SYSTEM);
    let listed = api.list(&ListParams::default()).await.map_err(|error| Unseen::because(&error))?;
    Ok(listed.iter().find_map(of_deployment))
}

fn of_deployment(deployment: &Deployment) -> Option<Autoscaler> {
    let template = deployment.spec.as_ref()?.template.spec.as_ref()?;
    let words = |list: &Option<Vec<String>>| list.clone().unwrap_or_default();
    template.containers.iter().find_map(|container| {
        let said: Vec<String> = [words(&container.command), words(&container.args)].concat();
        let is_it = |text: &str| text.contains("cluster-autoscaler");
        let named =
            container.image.as_deref().is_some_and(is_it) || said.first().is_some_and(|first| is_it(first));
        let flag = |name: &str| {
            let value = |word: &String| {
                Some(word.trim_start_matches('-').strip_prefix(name)?.strip_prefix('=')?.to_owned())
            };
            said.iter().find_map(value)
        };
        named.then(|| Autoscaler {
            grace: flag("max-graceful-termination-sec")
                .and_then(|text| text.parse().ok())
                .unwrap_or(MAX_GRACE),
            eviction: flag("max-pod-eviction-time").and_then(|text| seconds(&text)).unwrap_or(MAX_EVICTION),
        })
    })
}

async fn quotas(client: &Client, namespaces: &BTreeSet<&str>) -> Reserved<Vec<ResourceQuota>> {
    let mut all = Vec::new();
    for namespace in namespaces {
        let api: Api<ResourceQuota> = Api::namespaced(client.clone(), namespace);
        all.extend(api.list(&ListParams::default()).await.map_err(|error| Unseen::because(&error))?);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_kubelet_says_how_long_pods_have_when_its_node_shuts_down() {
        for (config, seconds) in [
            (json!({}), 0),
            (json!({"shutdownGracePeriod": "0s", "shutdownGracePeriodCriticalPods": "0s"}), 0),
            (json!({"shutdownGracePeriod": "2m30s", "shutdownGracePeriodCriticalPods": "30s"}), 120),
            (
                json!({"shutdownGracePeriodByPodPriority": [
                    {"priority": 1000, "shutdownGracePeriodSeconds": 10},
                    {"priority": 0, "shutdownGracePeriodSeconds": 200},
                    {"priority": -5, "shutdownGracePeriodSeconds": 300},
                ]}),
                200,
            ),
            (
                json!({"shutdownGracePeriodByPodPriority": [
                    {"priority": 1000, "shutdownGracePeriodSeconds": 10},
                    {"priority": 500, "shutdownGracePeriodSeconds": 20},
                ]}),
                20,
            ),
        ] {
            assert_eq!(grace(&config), seconds, "{config}");
        }
    }

    #[test]
    fn cluster_autoscaler_is_known_by_its_image_or_its_command() {
        let of = |container: Value| {
            let object = json!({"spec": {"selector": {}, "template": {"spec": {"containers": [container]}}}});
            of_deployment(&serde_json::from_value(object).unwrap())
        };
        let usual = Autoscaler { grace: 600, eviction: 120 };
        let image = "registry.k8s.io/autoscaling/cluster-autoscaler:v1.36.0";
        assert_eq!(of(json!({"name": "a", "image": image})), Some(usual));
        let command = [
            "./cluster-autoscaler",
            "--v=4",
            "--max-graceful-termination-sec=60",
            "--max-pod-eviction-time=5m0s",
        ];
        assert_eq!(
            of(json!({"name": "a", "command": command})),
            Some(Autoscaler { grace: 60, eviction: 300 })
        );
        assert_eq!(of(json!({"name": "dns", "image": "coredns"})), None);
    }
}
