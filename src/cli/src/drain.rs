//! `headgate drain`: evicts one pod or all pods of a node, and prints why each eviction waits.
//!
//! The command requests evictions with the caller's permissions, as `kubectl drain` does. If Headgate's eviction gate
//! is enabled, the API server calls Headgate, which returns why a pod has to wait. The command does not finish when an
//! eviction is allowed: it waits until the pod is deleted.
//!
//! The command does not evict pods of DaemonSets. With `--daemonsets`, the command waits until Headgate annotates the
//! Node as detached, so no load balancer sends requests to any pod on the node.

use std::{
    collections::BTreeMap,
    io::Write,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use headgate::kube::{client, evictions::Evictions, marks};
use headgate_core::model::{
    Cause,
    node::DETACHED_AT,
    object::{ObjectKey, Uid},
};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api, Client, ResourceExt,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::json;
use tokio::time::sleep;

#[derive(Clone, Debug)]
pub struct Options {
    /// The cluster.
    pub which: client::Which,
    /// The pod or node to drain.
    pub what: What,
    /// The namespace of the pod. `None`: the namespace of the kubeconfig's context.
    pub namespace: Option<String>,
    /// Whether to also evict pods without a controller.
    pub force: bool,
    /// Whether to wait until no load balancer sends requests to the pods that are not evicted. Needs a node.
    pub daemonsets: bool,
    /// Whether to print the evictions without requesting them.
    pub dry_run: bool,
    /// The timeout of the whole command.
    pub timeout: Duration,
}

/// The pod or node to drain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// One pod.
    Pod(String),
    /// All pods of a node. The node is cordoned first.
    Node(String),
}

/// The interval between two checks of a delayed eviction or of a terminating pod.
const AGAIN: Duration = Duration::from_secs(2);

/// A pod that is being evicted.
struct Leaving {
    uid: Uid,
    /// The last line that the command printed about this pod.
    said: String,
    ends: bool,
    again: Instant,
}

/// Returns why the command does not evict a pod. `None`: the pod is evicted.
fn left_alone(pod: &Pod) -> Option<&'static str> {
    let owned_by = |kind: &str| pod.owner_references().iter().any(|owner| owner.kind == kind);
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    if pod.annotations().contains_key("kubernetes.io/config.mirror") {
        Some("a static pod")
    } else if owned_by("DaemonSet") {
        Some("of a DaemonSet, which ignores cordons")
    } else if matches!(phase, Some("Succeeded" | "Failed")) {
        Some("it has ended")
    } else {
        None
    }
}

/// Evicts the pods and prints progress on `out`.
///
/// # Errors
/// An object does not exist, the API server rejects an eviction, or the command times out.
pub async fn drain(options: Options, out: &mut impl Write) -> anyhow::Result<()> {
    if options.daemonsets && matches!(options.what, What::Pod(_)) {
        bail!("--daemonsets needs a node. Name a node: node/NAME");
    }
    let end = Instant::now() + options.timeout;
    let client = client::connect_to(&options.which).await?;
    let namespace = options.namespace.clone().unwrap_or_else(|| client.default_namespace().to_owned());
    let pods = match &options.what {
        What::Pod(name) => {
            let api: Api<Pod> = Api::namespaced(client.clone(), &namespace);
            let found = api.get_opt(name).await?;
            vec![found.with_context(|| {
                format!("there is no pod {namespace}/{name}. Check the name and --namespace, or name a node: node/NAME")
            })?]
        }
        What::Node(name) => pods_of(&client, name, options.dry_run, out).await?,
    };
    let mut leaving = BTreeMap::new();
    for pod in pods {
        let key = ObjectKey::new(pod.namespace().unwrap_or_default(), pod.name_any());
        if let Some(why) = left_alone(&pod) {
            writeln!(out, "{key}: not evicted, {why}")?;
            continue;
        }
        let is_made_again = pod.owner_references().iter().any(|owner| owner.controller == Some(true));
        if !is_made_again && !options.force {
            bail!(
                "{key} has no controller, so nothing replaces it. Nothing was evicted. Add --force to evict it"
            );
        }
        let uid = Uid::new(pod.uid().unwrap_or_default());
        let again = Instant::now();
        leaving.insert(key, Leaving { uid, said: String::new(), ends: false, again });
    }
    let evictions = Evictions::new(client.clone());
    if options.dry_run {
        for (key, pod) in &leaving {
            let said = match evictions.evict(key, &pod.uid, true).await? {
                Some((said, _)) => format!("would have to wait: {said}"),
                None => "would be evicted".to_owned(),
            };
            writeln!(out, "{key}: {said}")?;
        }
        return Ok(());
    }
    evict_all(&client, &evictions, leaving, (end, options.timeout), out).await?;
    match options.what {
        What::Node(name) if options.daemonsets => detached(&client, &name, (end, options.timeout), out).await,
        _ => Ok(()),
    }
}

/// Describes the progress of a pod's deregistration. `None`: the deregistration has not begun.
fn stands(pod: &Pod) -> Option<String> {
    let annotations = pod.annotations();
    let uid = Uid::new(pod.uid()?);
    let leaving = marks::read(&uid, |name| annotations.get(name).map(String::as_str)).facts()?;
    Some(match (leaving.may_go, leaving.deregistered, leaving.waits) {
        (Some(reason), ..) => format!("no load balancer sends to it any more ({})", why(reason)),
        (_, Some(_), _) => {
            "it was deregistered, and its load balancers may keep sending for a while".to_owned()
        }
        (.., Some((_, reason))) => format!("waits to be deregistered ({})", why(reason)),
        _ => "it should be deregistered".to_owned(),
    })
}

/// Returns the reason of a cause. The detail distinguishes causes that have the same reason.
fn why(cause: Cause) -> String {
    let reason = cause.reason();
    cause.detail().map_or_else(|| reason.to_string(), |detail| format!("{reason}: {detail}"))
}

/// Waits until Headgate has annotated the Node as detached.
async fn detached(
    client: &Client,
    name: &str,
    (end, patience): (Instant, Duration),
    out: &mut impl Write,
) -> anyhow::Result<()> {
    let nodes: Api<Node> = Api::all(client.clone());
    let pods: Api<Pod> = Api::all(client.clone());
    let here = ListParams::default().fields(&format!("spec.nodeName={name}"));
    let mut said: BTreeMap<ObjectKey, String> = BTreeMap::new();
    writeln!(out, "node {name}: waits until no load balancer sends to a pod there ({DETACHED_AT})")?;
    loop {
        for pod in pods.list(&here).await?.items.iter().filter(|pod| left_alone(pod).is_some()) {
            let key = ObjectKey::new(pod.namespace().unwrap_or_default(), pod.name_any());
            let Some(stands) = stands(pod).filter(|stands| said.get(&key) != Some(stands)) else { continue };
            writeln!(out, "{key}: {stands}")?;
            said.insert(key, stands);
        }
        let node = nodes.get_metadata_opt(name).await?;
        let node = node.with_context(|| format!("node {name} was deleted before it was detached"))?;
        if let Some(at) = node.annotations().get(DETACHED_AT) {
            writeln!(out, "node {name}: no load balancer sends to a pod there since {at}")?;
            return Ok(());
        }
        if Instant::now() > end {
            bail!(
                "node {name} does not have {DETACHED_AT} after {} s. Run headgate doctor, and headgate explain for its pods, then \
                 run this again",
                patience.as_secs()
            );
        }
        sleep(AGAIN / 2).await;
    }
}

/// Cordons a node and returns its pods.
async fn pods_of(
    client: &Client,
    name: &str,
    dry_run: bool,
    out: &mut impl Write,
) -> anyhow::Result<Vec<Pod>> {
    let nodes: Api<Node> = Api::all(client.clone());
    let node = nodes.get_opt(name).await?;
    let node = node.with_context(|| format!("there is no node {name}; see kubectl get nodes"))?;
    let is_cordoned = node.spec.and_then(|spec| spec.unschedulable).unwrap_or_default();
    if is_cordoned {
        writeln!(out, "node {name} is already cordoned")?;
    } else if dry_run {
        writeln!(out, "node {name} would be cordoned")?;
    } else {
        // Removes the annotation that an earlier drain may have left.
        let annotations = json!({DETACHED_AT: null});
        let patch =
            Patch::Merge(json!({"metadata": {"annotations": annotations}, "spec": {"unschedulable": true}}));
        nodes.patch(name, &PatchParams::default(), &patch).await?;
        writeln!(out, "node {name} is cordoned (kubectl uncordon {name} reverts that)")?;
    }
    let pods: Api<Pod> = Api::all(client.clone());
    Ok(pods.list(&ListParams::default().fields(&format!("spec.nodeName={name}"))).await?.items)
}

async fn evict_all(
    client: &Client,
    evictions: &Evictions,
    mut leaving: BTreeMap<ObjectKey, Leaving>,
    (end, patience): (Instant, Duration),
    out: &mut impl Write,
) -> anyhow::Result<()> {
    while !leaving.is_empty() {
        let mut gone = Vec::new();
        for (key, pod) in &mut leaving {
            if pod.again > Instant::now() {
                continue;
            }
            let (said, retry) = if pod.ends {
                let api: Api<Pod> = Api::namespaced(client.clone(), &key.namespace);
                let now = api.get_metadata_opt(&key.name).await?;
                if now.is_none_or(|now| now.uid().as_deref() != Some(pod.uid.as_str())) {
                    gone.push(key.clone());
                    ("gone".to_owned(), AGAIN)
                } else {
                    ("evicted, it ends".to_owned(), AGAIN / 4)
                }
            } else {
                match evictions.evict(key, &pod.uid, false).await? {
                    None => {
                        pod.ends = true;
                        ("evicted, it ends".to_owned(), AGAIN / 4)
                    }
                    Some((said, retry)) => (format!("waits: {said}"), retry.min(AGAIN)),
                }
            };
            pod.again = Instant::now() + retry;
            if pod.said != said {
                writeln!(out, "{key}: {said}")?;
                pod.said = said;
            }
        }
        for key in gone {
            leaving.remove(&key);
        }
        if Instant::now() > end {
            let left: Vec<String> = leaving.keys().map(ToString::to_string).collect();
            bail!(
                "{} still exist after {} s. Check above what they wait for, then run this again",
                left.join(", "),
                patience.as_secs()
            );
        }
        sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_of_daemon_sets_static_ones_and_those_that_have_ended_are_left_alone() {
        let owner = |kind: &str| json!([{"apiVersion": "apps/v1", "kind": kind, "name": "x", "uid": "o"}]);
        for (pod, alone) in [
            (json!({"metadata": {"ownerReferences": owner("DaemonSet")}}), true),
            (json!({"metadata": {"ownerReferences": owner("ReplicaSet")}}), false),
            (json!({"metadata": {"annotations": {"kubernetes.io/config.mirror": "x"}}}), true),
            (json!({"metadata": {}, "status": {"phase": "Failed"}}), true),
            (json!({"metadata": {}, "status": {"phase": "Running"}}), false),
        ] {
            let pod: Pod = serde_json::from_value(pod).unwrap();
            assert_eq!(left_alone(&pod).is_some(), alone, "{:?}", pod.metadata);
        }
    }
}
