//! Reads the webhook configurations, and tests the webhook for new pods with a dry run.

use std::collections::BTreeSet;

use headgate::{
    certificates::configurations::own_entries, kube::words::plain, redact::redacted, webhook::path::CallPath,
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
use crate::doctor::facts::{Entry, Path, Reserved, Tried, Unseen, Webhook};

pub async fn look(
    client: &Client,
    options: &Options,
    namespaces: &BTreeSet<&str>,
    asking: Option<&BTreeSet<String>>,
) -> Webhook {
    let names = &options.webhook;
    let secrets: Api<Secret> = Api::namespaced(client.clone(), &options.way.own_namespace);
    let secret = secrets.get_opt(&names.secret).await.map_err(|error| Unseen::because(&error));
    let text = |secret: &Option<Secret>, name: &str| {
        let bytes = secret.as_ref()?.data.as_ref()?.get(name)?.0.clone();
        String::from_utf8(bytes).ok()
    };
    // If the Secret has no file `path`, the replicas serve the fixed path.
    let path = secret.as_ref().ok().map(|secret| {
        text(secret, "path").and_then(|digits| CallPath::from_digits(&digits)).unwrap_or_else(CallPath::fixed)
    });
    let (mutating, validating) = configurations(client, &names.configuration, path.as_ref()).await;
    let authorities = secret.map(|secret| text(&secret, "ca.crt").map(String::into_bytes));
    let tried = match &mutating {
        Ok(Some(_)) => try_it(client, namespaces, asking).await,
        _ => Ok(Tried::Not),
    };
    let secret = format!("{}/{}", options.way.own_namespace, names.secret);
    Webhook { name: names.configuration.clone(), secret, mutating, validating, authorities, tried }
}

async fn configurations(
    client: &Client,
    name: &str,
    path: Option<&CallPath>,
) -> (Reserved<Option<Vec<Entry>>>, Reserved<Option<Vec<Entry>>>) {
    let unseen = |error: kube::Error| Unseen::because(&error);
    let mutating: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    let entry = |name, client, policy: Option<String>| entry(name, client, policy.as_deref(), path);
    let mutating = mutating.get_opt(name).await.map_err(unseen).map(|found| {
        let entries = found?.webhooks.into_iter().flatten();
        Some(entries.map(|one| entry(one.name, one.client_config, one.failure_policy)).collect())
    });
    let validating: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    let validating = validating.get_opt(name).await.map_err(unseen).map(|found| {
        let entries = found?.webhooks.into_iter().flatten();
        Some(entries.map(|one| entry(one.name, one.client_config, one.failure_policy)).collect())
    });
    (mutating, validating)
}

fn entry(name: String, client: WebhookClientConfig, policy: Option<&str>, path: Option<&CallPath>) -> Entry {
    let called = own_entries([(&*name, &client)].into_iter()).pop().map(|own| own.path());
    let path = match (path, called) {
        (None, _) => Path::Uncompared,
        (Some(path), Some(called)) if path.is(&called) => Path::Right,
        _ => Path::Other,
    };
    let bundle = client.ca_bundle.map(|bundle| bundle.0).unwrap_or_default();
    Entry { name, bundle, ignores_failures: policy == Some("Ignore"), path }
}

/// Creates a pod that requests the gate and the hold, as a dry run.
async fn try_it(
    client: &Client,
    namespaces: &BTreeSet<&str>,
    asking: Option<&BTreeSet<String>>,
) -> Reserved<Tried> {
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
    let pod: Pod = serde_json::from_value(pod).map_err(|error| Unseen::Failed(error.to_string()))?;
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let parameters = PostParams { dry_run: true, ..PostParams::default() };
    match pods.create(&parameters, &pod).await {
        Ok(pod) if pod.annotations().contains_key(INJECTED) => Ok(Tried::Asked),
        Ok(_) => Ok(Tried::Silent { namespace: (*namespace).to_owned() }),
        // With `failurePolicy: Fail`, the API server's error contains the secret path.
        Err(error) => {
            let why = redacted(&format!("no pod can be created in namespace {namespace}: {}", plain(&error)));
            Err(match Unseen::because(&error) {
                // Webhooks and policies also reject requests with code 403.
                Unseen::Forbidden(said) if said.contains("cannot create resource") => Unseen::Forbidden(why),
                _ => Unseen::Failed(why),
            })
        }
    }
}
