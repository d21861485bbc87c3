//! The webhook of a `headgate` process, called by the world's API server by its address.

use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, WebhookClientConfig};
use kube::{
    Api, Client,
    api::{DeleteParams, PostParams},
};
use serde_json::{Value, json};

use crate::{headgate::Headgate, scenario::Scenario, wait};

/// The file that users apply.
const MANIFEST: &str = include_str!("../../config/webhook/mutating.yaml");

/// The configuration that users apply.
pub fn manifest() -> MutatingWebhookConfiguration {
    let document = MANIFEST.split("\n---\n").nth(1).unwrap();
    serde_saphyr::from_str(document).unwrap()
}

/// The configuration of this test. Others are not asked: it is for namespaces of this test's name only.
pub struct Configuration {
    api: Api<MutatingWebhookConfiguration>,
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
        let api: Api<MutatingWebhookConfiguration> = Api::all(client);
        let mut all = Vec::new();
        for (at, headgate) in headgates.iter().enumerate() {
            let url = format!("https://{}/inject", headgate.webhook().await);
            for entry in manifest().webhooks.into_iter().flatten() {
                let mut entry = serde_json::to_value(entry).unwrap();
                entry["name"] = format!("r{at}.{}", entry["name"].as_str().unwrap()).into();
                entry["clientConfig"] = json!({"url": url});
                let only = json!({"key": label, "operator": "Exists"});
                entry["namespaceSelector"]["matchExpressions"].as_array_mut().unwrap().push(only);
                all.push(entry);
            }
        }
        let object = json!({"metadata": {"name": name}, "webhooks": all});
        api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
        Self { api, name, label }
    }

    /// How its entries are called.
    pub async fn clients(&self) -> Vec<WebhookClientConfig> {
        let now = self.api.get(&self.name).await.unwrap();
        now.webhooks.into_iter().flatten().map(|entry| entry.client_config).collect()
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
    }
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
