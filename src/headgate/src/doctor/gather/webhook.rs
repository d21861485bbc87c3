//! Looks at the webhooks, and tries that for new pods: with a pod that the API server is told not to store.

use std::collections::BTreeSet;

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
use crate::doctor::facts::{Entry, Looked, Tried, Webhook};

pub async fn look(
    client: &Client,
    options: &Options,
    namespaces: &BTreeSet<&str>,
    asking: Option<&BTreeSet<String>>,
) -> Webhook {
    let names = &options.webhook;
    let (mutating, validating) = configurations(client, &names.configuration).await;
    let own = &options.way.own_namespace;
    let secrets: Api<Secret> = Api::namespaced(client.clone(), own);
    let authorities = secrets.get_opt(&names.secret).await.map_err(|error| {
        format!("Secret {own}/{} cannot be read, its caBundle is not compared: {error}", names.secret)
    });
    let authorities = authorities.map(|secret| {
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
) -> (Looked<Option<Vec<Entry>>>, Looked<Option<Vec<Entry>>>) {
    let unread = |error: kube::Error| {
        format!(
            "it cannot be read ({error}); expected the right to get mutating- and validatingwebhookconfigurations"
        )
    };
    let mutating: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    let mutating = mutating.get_opt(name).await.map_err(unread).map(|found| {
        let entries = found?.webhooks.into_iter().flatten();
        Some(entries.map(|one| entry(one.name, one.client_config, one.failure_policy.as_deref())).collect())
    });
    let validating: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    let validating = validating.get_opt(name).await.map_err(unread).map(|found| {
        let entries = found?.webhooks.into_iter().flatten();
        Some(entries.map(|one| entry(one.name, one.client_config, one.failure_policy.as_deref())).collect())
    });
    (mutating, validating)
}

fn entry(name: String, client: WebhookClientConfig, policy: Option<&str>) -> Entry {
    let bundle = client.ca_bundle.map(|bundle| bundle.0).unwrap_or_default();
    Entry { name, bundle, ignores_failures: policy == Some("Ignore") }
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
        Err(error) => Err(format!(
            "it was not tried: a pod cannot be created in namespace {namespace}, not even one that is not stored ({error})"
        )),
    }
}
