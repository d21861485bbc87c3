//! The webhook configurations of a version, as its users apply them.

use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use kube::{
    Api, Client, Resource,
    api::{Patch, PatchParams, PostParams},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::versions::Version;

/// The configurations that are in the world.
pub struct Manifests {
    /// To reach the API server.
    pub client: Client,
    /// The name of both.
    pub name: String,
    /// They are about namespaces with this label.
    pub label: String,
    /// Where the replicas serve their webhooks: each is called by its address.
    pub addresses: Vec<String>,
}

impl Manifests {
    /// Applies those of this version, as `kubectl apply` does: what they do not say stays, but the path that the manifests
    /// before had goes if these have none.
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
        let there = api.get_opt(&self.name).await.unwrap().map(|there| json!(there));
        let entries: Vec<Value> = self.entries(&manifest["webhooks"], there.as_ref());
        if there.is_none() {
            let object = json!({"metadata": {"name": self.name}, "webhooks": entries});
            api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
        } else {
            let patch = Patch::Merge(json!({ "webhooks": entries }));
            api.patch(&self.name, &PatchParams::default(), &patch).await.unwrap();
        }
    }

    /// Once for each replica, called by its address, with the certificate that it is trusted by already.
    fn entries(&self, manifest: &Value, there: Option<&Value>) -> Vec<Value> {
        let mut all = Vec::new();
        for (at, address) in self.addresses.iter().enumerate() {
            for entry in manifest.as_array().unwrap() {
                let mut entry = entry.clone();
                let name = format!("r{at}.{}", entry["name"].as_str().unwrap());
                let path = entry["clientConfig"]["service"]["path"].as_str().unwrap_or_default();
                let mut client = json!({"url": format!("https://{address}{path}")});
                let known = there.and_then(|there| there["webhooks"].as_array()).into_iter().flatten();
                if let Some(known) = known.clone().find(|known| known["name"] == name.as_str()) {
                    client["caBundle"] = known["clientConfig"]["caBundle"].clone();
                }
                entry["name"] = name.into();
                entry["clientConfig"] = client;
                let only = json!({"key": self.label, "operator": "Exists"});
                entry["namespaceSelector"]["matchExpressions"].as_array_mut().unwrap().push(only);
                all.push(entry);
            }
        }
        all
    }
}
