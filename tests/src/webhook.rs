//! The webhook of a `headgate` process, called by the world's API server by its address.

use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration, WebhookClientConfig,
};
use kube::{
    Api, Client,
    api::{DeleteParams, PostParams},
};
use serde_json::{Value, json};

use crate::{headgate::Headgate, scenario::Scenario, wait};

/// The files that users apply.
const MANIFEST: &str = include_str!("../../config/webhook/mutating.yaml");
const FOR_EVICTIONS: &str = include_str!("../../config/webhook/validating.yaml");

/// The configuration that users apply.
pub fn manifest() -> MutatingWebhookConfiguration {
    let document = MANIFEST.split("\n---\n").nth(1).unwrap();
    serde_saphyr::from_str(document).unwrap()
}

/// The one for evictions.
pub fn manifest_for_evictions() -> ValidatingWebhookConfiguration {
    serde_saphyr::from_str(FOR_EVICTIONS).unwrap()
}

/// The configuration of this test. Others are not asked: it is for namespaces of this test's name only.
pub struct Configuration {
    api: Api<MutatingWebhookConfiguration>,
    for_evictions: Api<ValidatingWebhookConfiguration>,
    /// Its name.
    pub name: String,
    /// The namespaces of it have this label.
    pub label: String,
}

impl Configuration {
    /// As users have it, but with addresses for the Service, and only for namespaces with a label of this test's own.
    pub async fn install(s: &Scenario, headgates: &[&Headgate]) -> Self {
        Self::install_as(s.cluster.client.clone(), s.name("webhook"), s.name("mine"), headgates).await
    }

    /// The same under a name, for namespaces with a label.
    pub async fn install_as(client: Client, name: String, label: String, headgates: &[&Headgate]) -> Self {
        let api: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
        let for_evictions: Api<ValidatingWebhookConfiguration> = Api::all(client);
        let object = |entries: Vec<Value>| json!({"metadata": {"name": name}, "webhooks": entries});
        let new_pods = serde_json::to_value(manifest().webhooks).unwrap();
        let new_pods = object(called_by_address(&new_pods, "inject", headgates, &label).await);
        api.create(&PostParams::default(), &serde_json::from_value(new_pods).unwrap()).await.unwrap();
        let evictions = serde_json::to_value(manifest_for_evictions().webhooks).unwrap();
        let evictions = object(called_by_address(&evictions, "evict", headgates, &label).await);
        for_evictions
            .create(&PostParams::default(), &serde_json::from_value(evictions).unwrap())
            .await
            .unwrap();
        Self { api, for_evictions, name, label }
    }

    /// How its entries are called.
    pub async fn clients(&self) -> Vec<WebhookClientConfig> {
        let new_pods = self.api.get(&self.name).await.unwrap().webhooks.into_iter().flatten();
        let evictions = self.for_evictions.get(&self.name).await.unwrap().webhooks.into_iter().flatten();
        let new_pods = new_pods.map(|entry| entry.client_config);
        new_pods.chain(evictions.map(|entry| entry.client_config)).collect()
    }

    /// What its entries trust; `Err` while one of them trusts nothing.
    ///
    /// # Errors
    /// If one trusts nothing yet.
    pub async fn trusted(&self) -> Result<Vec<String>, String> {
        let text = |config: WebhookClientConfig| String::from_utf8(config.ca_bundle?.0).ok();
        self.clients()
            .await
            .into_iter()
            .map(text)
            .collect::<Option<_>>()
            .ok_or("a caBundle is missing".into())
    }

    /// Waits until Headgate has said what is to be trusted.
    pub async fn wait_trusted(&self) {
        wait::until("the caBundle is filled in", || self.trusted()).await;
    }

    /// Takes it away.
    pub async fn remove(self) {
        self.api.delete(&self.name, &DeleteParams::default()).await.unwrap();
        self.for_evictions.delete(&self.name, &DeleteParams::default()).await.unwrap();
    }
}

/// The entries of a configuration once for each replica, with addresses for the Service, and only for namespaces with
/// this label.
async fn called_by_address(entries: &Value, path: &str, headgates: &[&Headgate], label: &str) -> Vec<Value> {
    let mut all = Vec::new();
    for (at, headgate) in headgates.iter().enumerate() {
        let url = format!("https://{}/{path}", headgate.webhook().await);
        for entry in entries.as_array().unwrap() {
            let mut entry = entry.clone();
            entry["name"] = format!("r{at}.{}", entry["name"].as_str().unwrap()).into();
            entry["clientConfig"] = json!({"url": url});
            let only = json!({"key": label, "operator": "Exists"});
            entry["namespaceSelector"]["matchExpressions"].as_array_mut().unwrap().push(only);
            all.push(entry);
        }
    }
    all
}

/// A client for the API server's own validation of an object, without storing it.
pub async fn dry_run_create(
    client: Client,
    object: &MutatingWebhookConfiguration,
) -> Result<(), kube::Error> {
    let parameters = PostParams { dry_run: true, ..PostParams::default() };
    Api::<MutatingWebhookConfiguration>::all(client).create(&parameters, object).await.map(|_| ())
}

/// A pod that sleeps nowhere and has nothing.
pub fn bare_pod(name: &str, labels: &Value) -> Value {
    json!({
        "metadata": {"name": name, "labels": labels},
        "spec": {"containers": [{"name": "web", "image": "headgate.local/web:1",
            "ports": [{"name": "http", "containerPort": 8080}]}]},
    })
}
