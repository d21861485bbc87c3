//! Opens all closed readiness gates in namespaces that Headgate no longer manages. No other program opens closed gates,
//! and pods with a closed gate never become ready.
//!
//! Open gates remain open. A pod that was deleted in the meantime is not an error. If Headgate has no permission to
//! write to a pod, the function reports the pod and continues with the other pods.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::Write,
    time::Duration,
};

use anyhow::bail;
use futures::{StreamExt, stream};
use headgate_core::model::{Reason, gate::Shown, pod::PodFacts, readiness::OWN_GATE};
use k8s_openapi::{api::core::v1::Pod, jiff::Timestamp};
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
    core::PartialObjectMeta,
};
use serde_json::{Value, json};

use crate::kube::{
    pages::{apis, each},
    slim::SlimPod,
};

/// The reason of a gate that is opened because Headgate is uninstalled or no longer manages the namespace.
pub const REASON: &str = Reason::HeadgateLeft.as_str();
const MESSAGE: &str = "Headgate no longer manages this pod; the condition does not show the health of the \
                       pod's targets";
/// The number of gates that are written at once.
const AT_ONCE: usize = 8;
/// The pods are listed this many times, because the webhook may still add the gate to pods that are being created.
const PASSES: usize = 5;
/// The time within which every API server stops using a deleted webhook.
const SETTLE: Duration = Duration::from_secs(1);

/// Opens every closed gate in `namespaces`, or in all namespaces if `namespaces` is `None`. The namespaces `but` are
/// excluded. Prints the number of opened gates to `out`.
///
/// # Errors
/// Pods cannot be listed, or a gate cannot be opened.
pub async fn open(
    client: &Client,
    namespaces: Option<&[String]>,
    but: &[String],
    out: &mut impl Write,
) -> anyhow::Result<()> {
    let mut opened = BTreeMap::<Box<str>, usize>::new();
    let mut refused = BTreeSet::new();
    for pass in 0..PASSES {
        if pass > 0 {
            tokio::time::sleep(SETTLE).await;
        }
        let mut waiting = waiting(client, namespaces).await?;
        waiting.retain(|pod| !but.iter().any(|name| **name == *pod.key.namespace));
        waiting.retain(|pod| !refused.contains(&pod.uid));
        let writes = waiting.into_iter().map(|pod| {
            let client = client.clone();
            async move {
                let result = write(&client, &pod).await;
                (pod, result)
            }
        });
        let written: Vec<_> = stream::iter(writes).buffer_unordered(AT_ONCE).collect().await;
        if written.is_empty() && pass > 0 {
            break;
        }
        for (pod, result) in written {
            match result {
                Ok(true) => *opened.entry((*pod.key.namespace).into()).or_default() += 1,
                Ok(false) => {}
                Err(error) => {
                    writeln!(out, "the readiness gate of pod {} remains closed: {error}", pod.key)?;
                    refused.insert(pod.uid.clone());
                }
            }
        }
    }
    for (namespace, count) in &opened {
        writeln!(out, "namespace {namespace}: opened {count} closed readiness gates")?;
    }
    if !opened.is_empty() {
        writeln!(
            out,
            "a new pod whose own template has the readiness gate {OWN_GATE} is never ready from now on. \
             Remove the gate from such templates, or run this again"
        )?;
    }
    if !refused.is_empty() {
        bail!(
            "{} readiness gates could not be opened, see above. Grant patch on pods/status in the namespaces \
             that were managed",
            refused.len()
        );
    }
    Ok(())
}

/// The pods that have a closed gate and have not terminated.
async fn waiting(client: &Client, namespaces: Option<&[String]>) -> anyhow::Result<Vec<PodFacts>> {
    let mut all = Vec::new();
    for api in apis::<SlimPod>(client, namespaces) {
        each(&api, |pod: SlimPod| {
            let pod = pod.into_facts().filter(|pod| pod.goes().is_none());
            let is_closed = |pod: &PodFacts| {
                pod.gate.as_deref().is_some_and(|gate| !matches!(gate.shown, Shown::Open(_)))
            };
            all.extend(pod.filter(is_closed));
        })
        .await?;
    }
    Ok(all)
}

/// Opens one pod's gate. Returns `false` if the pod does not exist.
async fn write(client: &Client, pod: &PodFacts) -> Result<bool, String> {
    let api: Api<PartialObjectMeta<Pod>> = Api::namespaced(client.clone(), &pod.key.namespace);
    let patch = Patch::Strategic(patch(pod, Timestamp::now()));
    match api.patch_subresource("status", &pod.key.name, &PatchParams::default(), &patch).await {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
        // A new pod with the same name has replaced the pod.
        Err(kube::Error::Api(status)) if status.code == 422 && status.message.contains("metadata.uid") => {
            Ok(false)
        }
        Err(kube::Error::Api(status)) => Err(status.message.clone()),
        Err(error) => Err(error.to_string()),
    }
}

fn patch(pod: &PodFacts, now: Timestamp) -> Value {
    let now = Timestamp::from_second(now.as_second()).unwrap_or_default().to_string();
    let condition = json!({
        "type": OWN_GATE, "status": "True", "reason": REASON, "message": MESSAGE,
        "lastProbeTime": now, "lastTransitionTime": now,
    });
    json!({"metadata": {"uid": pod.uid.as_str()}, "status": {"conditions": [condition]}})
}
