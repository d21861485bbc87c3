//! The Secret in which Headgate has kept the webhook's secret path, its certificate and key.

use std::io::Write;

use anyhow::Context;
use headgate::webhook::{path::PATHS, secret::CONTENTS};
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, Preconditions},
};

/// Removes the Secret of this name if Headgate has made it, and says on `out` what was done.
///
/// Whoever may not even look at it has most likely never served a webhook: that is said, and is no failure.
pub async fn remove(
    client: &Client,
    namespace: &str,
    name: &str,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let found = match secrets.get_metadata_opt(name).await {
        Ok(Some(found)) => found,
        Ok(None) => return Ok(()),
        Err(kube::Error::Api(status)) if status.code == 403 => {
            writeln!(
                out,
                "Secret {namespace}/{name} is not looked at ({}); if Headgate has served its webhook, it stays: expected the \
                 Role of config/rbac/webhook.yaml, or delete the Secret by hand",
                status.message
            )?;
            return Ok(());
        }
        Err(error) => return Err(error).with_context(|| format!("cannot read Secret {namespace}/{name}")),
    };
    if ![CONTENTS, PATHS].iter().any(|name| found.annotations().contains_key(*name)) {
        writeln!(out, "Secret {namespace}/{name} stays: Headgate has not made it")?;
        return Ok(());
    }
    let this_one = Preconditions { uid: found.uid(), resource_version: None };
    match secrets.delete(name, &DeleteParams::default().preconditions(this_one)).await {
        Ok(_) => writeln!(out, "Secret {namespace}/{name} is removed")?,
        Err(kube::Error::Api(status)) if status.code == 404 => {}
        Err(error) => {
            return Err(error).with_context(|| {
                format!(
                    "cannot remove Secret {namespace}/{name}, with the webhook's private key; expected the verb delete in \
                     the Role of config/rbac/webhook.yaml"
                )
            });
        }
    }
    Ok(())
}
