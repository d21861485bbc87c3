//! Removes the entries of Headgate's webhook configurations. New pods then get no readiness gate, which no controller
//! would open. Evictions then call no webhook.
//!
//! The empty configurations remain. The Helm release or manifest that created a configuration can delete or restore it.

use std::io::Write;

use anyhow::Context;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{Patch, PatchParams},
};
use serde::de::DeserializeOwned;
use serde_json::json;

/// The suffix of the names of Headgate's entries.
const OURS: &str = ".headgate.dev";
/// The maximum number of attempts, because another client may write at the same time.
const TRIES: usize = 5;

/// Removes all entries of both configurations with this name if the configurations belong to Headgate, and prints the
/// result on `out`.
///
/// The chart's Job has no permission to read webhook configurations. Without the permission, the function prints that
/// the configuration was not emptied, and returns no error.
pub async fn empty(client: &Client, name: &str, out: &mut impl Write) -> anyhow::Result<()> {
    let new_pods = |is: &MutatingWebhookConfiguration| {
        is.webhooks.iter().flatten().map(|entry| entry.name.clone()).collect()
    };
    empty_one(client, name, new_pods, out).await?;
    let evictions = |is: &ValidatingWebhookConfiguration| {
        is.webhooks.iter().flatten().map(|entry| entry.name.clone()).collect()
    };
    empty_one(client, name, evictions, out).await
}

async fn empty_one<K>(
    client: &Client,
    name: &str,
    entries: impl Fn(&K) -> Vec<String>,
    out: &mut impl Write,
) -> anyhow::Result<()>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
{
    let (api, kind) = (Api::<K>::all(client.clone()), K::kind(&()));
    for _ in 0..TRIES {
        let found = match api.get_opt(name).await {
            Ok(Some(found)) => found,
            Ok(None) => return Ok(()),
            Err(kube::Error::Api(status)) if status.code == 403 => {
                writeln!(
                    out,
                    "{kind} {name} was not emptied ({}). Delete it with the manifest or the release that \
                     created it. No Headgate answers it any more, so pods are created without a readiness \
                     gate",
                    status.message
                )?;
                return Ok(());
            }
            Err(error) => return Err(error).with_context(|| format!("cannot read {kind} {name}")),
        };
        let entries = entries(&found);
        if entries.is_empty() {
            return Ok(());
        }
        if let Some(other) = entries.iter().find(|entry| !entry.ends_with(OURS)) {
            writeln!(out, "{kind} {name} remains unchanged: its entry {other} is not Headgate's")?;
            return Ok(());
        }
        let none =
            Patch::Merge(json!({"metadata": {"resourceVersion": found.resource_version()}, "webhooks": []}));
        match api.patch_metadata(name, &PatchParams::default(), &none).await {
            Ok(_) => {
                writeln!(out, "{kind} {name} calls no webhook any more")?;
                return Ok(());
            }
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(()),
            Err(error) => {
                return Err(error).with_context(|| {
                    format!(
                        "cannot remove the entries of {kind} {name}. Grant yourself patch on it, or delete \
                         it"
                    )
                });
            }
        }
    }
    anyhow::bail!("somebody else repeatedly changes {kind} {name}. Run this again")
}
