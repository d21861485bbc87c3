//! The webhook configurations of a version, as its users apply them.

use headgate_harness::certificates::Files;
use k8s_openapi::{
    ByteString,
    api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration},
};
use kube::{
    Api, Client, Resource,
    api::{Patch, PatchParams, PostParams},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::versions::Version;

/// The configurations in the local world.
pub struct Manifests {
    /// The client of the API server.
    pub client: Client,
    /// The name of both configurations.
    pub name: String,
    /// The label of the namespaces that they select.
    pub label: String,
    /// The addresses at which the replicas serve their webhooks.
    pub addresses: Vec<String>,
}

impl Manifests {
    /// Applies the configurations of this version.
    pub async fn apply(&self, version: &Version) {
        let mutating = version.file("config/webhook/mutating.yaml");
        let document = mutating.split("\n---\n").nth(1).unwrap();
        self.apply_one::<MutatingWebhookConfiguration>(document).await;
        self.apply_one::<ValidatingWebhookConfiguration>(&version.file("config/webhook/validating.yaml"))
            .await;
    }

    async fn apply_one<K>(&self, document: &str)
    where
        K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + Serialize + DeserializeOwned,
    {
        let api: Api<K> = Api::all(self.client.clone());
        let manifest: Value = serde_saphyr::from_str(document).unwrap();
        let entries: Vec<Value> = self.entries(&manifest["webhooks"]);
        if api.get_opt(&self.name).await.unwrap().is_none() {
            let object = json!({"metadata": {"name": self.name}, "webhooks": entries});
            api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
        } else {
            let patch = Patch::Merge(json!({ "webhooks": entries }));
            api.patch(&self.name, &PatchParams::default(), &patch).await.unwrap();
        }
    }

    /// One entry for each replica with its address and the shared CA.
    fn entries(&self, manifest: &Value) -> Vec<Value> {
        let files = Files::shared();
        let bundle = ByteString(files.trusted.clone().into_bytes());
        let mut all = Vec::new();
        for (at, address) in self.addresses.iter().enumerate() {
            for entry in manifest.as_array().unwrap() {
                let mut entry = entry.clone();
                let name = format!("r{at}.{}", entry["name"].as_str().unwrap());
                entry["name"] = name.into();
                entry["clientConfig"] =
                    json!({"url": format!("https://{address}{}", files.path), "caBundle": bundle});
                let only = json!({"key": self.label, "operator": "Exists"});
                entry["namespaceSelector"]["matchExpressions"].as_array_mut().unwrap().push(only);
                all.push(entry);
            }
        }
        all
    }
}
