//! Looks at the webhooks, and tries that for new pods: with a pod that the API server is told not to store.

use std::collections::BTreeSet;

use headgate::{
    kube::words::plain,
    redact::redacted,
    webhook::path::{self, SecretPath, Stored},
};
use headgate_core::inject::{INJECT, INJECTED};
use k8s_openapi::api::{
    admissionregistration::v1::{
        MutatingWebhookConfiguration, ValidatingWebhookConfiguration, WebhookClientConfig,
    },
    core::v1::{Pod, Secret},
};
use kube::{Api, Client, ResourceExt, api::PostParams};
use serde_json::json;

use super::Options;
use crate::doctor::facts::{Entry, Looked, Path, Tried, Webhook};

pub async fn look(
    client: &Client,
    options: &Options,
    namespaces: &BTreeSet<&str>,
    asking: Option<&BTreeSet<String>>,
) -> Webhook {
    let names = &options.webhook;
    let own = &options.way.own_namespace;
    let secrets: Api<Secret> = Api::namespaced(client.clone(), own);
    let secret = secrets.get_opt(&names.secret).await.map_err(|error| {
        format!(
            "Secret {own}/{} cannot be read, its caBundle and path are not compared: {}",
            names.secret,
            plain(&error)
        )
    });
    let stored = secret.as_ref().map(|secret| secret.as_ref().and_then(path::read)).map_err(|_| ());
    let (mutating, validating) = configurations(client, &names.configuration, &stored).await;
    let authorities = secret.map(|secret| {
        let ca = secret.and_then(|secret| secret.data?.remove("ca.crt"));
        ca.map(|ca| ca.0)
    });
    let tried = match &mutating {
        Ok(Some(_)) => try_it(client, namespaces, asking).await,
        _ => Ok(Tried::Not),
    };
    Webhook { name: names.configuration.clone(), mutating, validating, authorities, tried }
}

async fn configurations(
    client: &Client,
    name: &str,
    stored: &Result<Option<Stored>, ()>,
) -> (Looked<Option<Vec<Entry>>>, Looked<Option<Vec<Entry>>>) {
    let unread = |error: kube::Error| {
        format!(
            "it cannot be read ({}); expected the right to get mutating- and validatingwebhookconfigurations",
            plain(&error)
        )
    };
    let mutating: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    let entry = |name, client, policy: Option<String>| entry(name, client, policy.as_deref(), stored);
    let mutating = mutating.get_opt(name).await.map_err(unread).map(|found| {
        let entries = found?.webhooks.into_iter().flatten();
        Some(entries.map(|one| entry(one.name, one.client_config, one.failure_policy)).collect())
    });
    let validating: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    let validating = validating.get_opt(name).await.map_err(unread).map(|found| {
        let entries = found?.webhooks.into_iter().flatten();
        Some(entries.map(|one| entry(one.name, one.client_config, one.failure_policy)).collect())
    });
    (mutating, validating)
}

fn entry(
    name: String,
    client: WebhookClientConfig,
    policy: Option<&str>,
    stored: &Result<Option<Stored>, ()>,
) -> Entry {
    let own = path::own_entries([(&*name, &client)].into_iter()).pop();
    let path = own.map_or(Path::Bare, |own| match (own.path(), stored) {
        (path, _) if !SecretPath::is_in(&path) => Path::Bare,
        (_, Err(())) => Path::Uncompared,
        (path, Ok(Some(stored))) if path == stored.present.path(own.kind) => Path::Present,
        _ => Path::Other,
    });
    let bundle = client.ca_bundle.map(|bundle| bundle.0).unwrap_or_default();
    Entry { name, bundle, ignores_failures: policy == Some("Ignore"), path }
}

/// Creates a pod that asks for the gate and the hold, and does not.
async fn try_it(
    client: &Client,
    namespaces: &BTreeSet<&str>,
    asking: Option<&BTreeSet<String>>,
) -> Looked<Tried> {
    let asks = |namespace: &&&str| asking.is_some_and(|asking| asking.contains(**namespace));
    let Some(namespace) = namespaces.iter().find(asks).or_else(|| namespaces.first()) else {
        return Ok(Tried::Not);
    };
    let pod = json!({
        "metadata": {"generateName": "headgate-doctor-", "labels": {INJECT: "true"}},
        "spec": {
            "automountServiceAccountToken": false,
            "securityContext": {"runAsNonRoot": true, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [{
                "name": "none", "image": "headgate.invalid/none",
                "resources": {"requests": {"cpu": "1m", "memory": "1Mi"}, "limits": {"cpu": "1m", "memory": "1Mi"}},
                "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
            }],
        },
    });
    let pod: Pod = serde_json::from_value(pod).map_err(|error| error.to_string())?;
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let parameters = PostParams { dry_run: true, ..PostParams::default() };
    match pods.create(&parameters, &pod).await {
        Ok(pod) if pod.annotations().contains_key(INJECTED) => Ok(Tried::Asked),
        Ok(_) => Ok(Tried::Silent { namespace: (*namespace).to_owned() }),
        // With failurePolicy: Fail the API server says by which path it called.
        Err(error) => Err(redacted(&format!(
            "it was not tried: a pod cannot be created in namespace {namespace}, not even one that is not stored ({})",
            plain(&error)
        ))),
    }
}
