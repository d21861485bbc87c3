//! The webhook of a `headgate` process. The local world's API server calls it by its address.

use k8s_openapi::{
    ByteString,
    api::{
        admissionregistration::v1::{
            MutatingWebhookConfiguration, ValidatingWebhookConfiguration, WebhookClientConfig,
        },
        core::v1::Pod,
    },
};
use kube::{
    Api, Client,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use crate::{certificates::Files, cluster::Cluster, headgate::Headgate, scenario::Scenario, wait};

/// The manifests that users apply.
const MANIFEST: &str = include_str!("../../../config/webhook/mutating.yaml");
const FOR_EVICTIONS: &str = include_str!("../../../config/webhook/validating.yaml");

/// The configuration that users apply.
pub fn manifest() -> MutatingWebhookConfiguration {
    let document = MANIFEST.split("\n---\n").nth(1).unwrap();
    serde_saphyr::from_str(document).unwrap()
}

/// The configuration for evictions.
pub fn manifest_for_evictions() -> ValidatingWebhookConfiguration {
    serde_saphyr::from_str(FOR_EVICTIONS).unwrap()
}

/// The configurations of this test. They only apply to namespaces with this test's label.
pub struct Configuration {
    api: Api<MutatingWebhookConfiguration>,
    for_evictions: Api<ValidatingWebhookConfiguration>,
    /// Its name.
    pub name: String,
    /// The label of its namespaces.
    pub label: String,
}

impl Configuration {
    /// Installs the users' configurations with addresses instead of the Service, only for namespaces with this test's
    /// label. They contain the certificates and paths of the replicas.
    pub async fn install(s: &Scenario, headgates: &[&Headgate]) -> Self {
        Self::install_as(s.cluster.client.clone(), s.name("webhook"), s.name("mine"), headgates).await
    }

    /// The same with a name, for namespaces with a label.
    pub async fn install_as(client: Client, name: String, label: String, headgates: &[&Headgate]) -> Self {
        let files = Files::shared();
        let known = json!({"caBundle": ByteString(files.trusted.clone().into_bytes())});
        Self::install_with((client, name, label), headgates, &known, &files.path).await
    }

    /// The same without certificates and paths. `headgate certificates` fills them in.
    pub async fn install_bare(s: &Scenario, headgates: &[&Headgate]) -> Self {
        let place = (s.cluster.client.clone(), s.name("webhook"), s.name("mine"));
        Self::install_with(place, headgates, &json!({}), "/").await
    }

    async fn install_with(
        (client, name, label): (Client, String, String),
        headgates: &[&Headgate],
        known: &Value,
        path: &str,
    ) -> Self {
        let api: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
        let for_evictions: Api<ValidatingWebhookConfiguration> = Api::all(client);
        let object = |entries: Vec<Value>| json!({"metadata": {"name": name}, "webhooks": entries});
        let new_pods = serde_json::to_value(manifest().webhooks).unwrap();
        let new_pods = object(called_by_address(&new_pods, (known, path), headgates, &label).await);
        api.create(&PostParams::default(), &serde_json::from_value(new_pods).unwrap()).await.unwrap();
        let evictions = serde_json::to_value(manifest_for_evictions().webhooks).unwrap();
        let evictions = object(called_by_address(&evictions, (known, path), headgates, &label).await);
        for_evictions
            .create(&PostParams::default(), &serde_json::from_value(evictions).unwrap())
            .await
            .unwrap();
        Self { api, for_evictions, name, label }
    }

    /// An existing configuration with this name.
    pub fn of(client: Client, name: String) -> Self {
        Self { api: Api::all(client.clone()), for_evictions: Api::all(client), name, label: String::new() }
    }

    /// Makes its entries call another path, like after a user applies other manifests.
    pub async fn set_path(&self, path: &str) {
        self.change(|entry| match entry["clientConfig"]["url"].as_str() {
            Some(url) => {
                let host = url.split('/').nth(2).unwrap();
                entry["clientConfig"]["url"] = format!("https://{host}{path}").into();
            }
            None => entry["clientConfig"]["service"]["path"] = path.into(),
        })
        .await;
    }

    /// Makes its entries trust these certificates, PEM.
    pub async fn set_bundle(&self, bundle: &str) {
        let bundle = json!(ByteString(bundle.as_bytes().to_vec()));
        self.change(|entry| entry["clientConfig"]["caBundle"] = bundle.clone()).await;
    }

    /// Includes the pods of a namespace that is excluded by default, such as `kube-system`.
    pub async fn opt_in(&self, namespace: &str) {
        self.change(|entry| {
            let rules = entry["namespaceSelector"]["matchExpressions"].as_array_mut().unwrap();
            for rule in rules.iter_mut().filter(|rule| rule["operator"] == "NotIn") {
                rule["values"].as_array_mut().unwrap().retain(|value| value != namespace);
            }
        })
        .await;
    }

    /// Sets what happens to a request if no replica answers.
    pub async fn set_failure_policy(&self, policy: &str) {
        self.change(|entry| entry["failurePolicy"] = policy.into()).await;
    }

    /// Changes its entries, with retries if another client writes them too.
    async fn change(&self, change: impl Fn(&mut Value)) {
        let changed = |webhooks: Value| {
            let mut all = webhooks;
            all.as_array_mut().unwrap().iter_mut().for_each(&change);
            Patch::Merge(json!({ "webhooks": all }))
        };
        let parameters = PatchParams::default();
        let is = json!(self.api.get(&self.name).await.unwrap().webhooks);
        self.api.patch(&self.name, &parameters, &changed(is)).await.unwrap();
        let is = json!(self.for_evictions.get(&self.name).await.unwrap().webhooks);
        self.for_evictions.patch(&self.name, &parameters, &changed(is)).await.unwrap();
    }

    /// The client configurations of its entries.
    pub async fn clients(&self) -> Vec<WebhookClientConfig> {
        let new_pods = self.api.get(&self.name).await.unwrap().webhooks.into_iter().flatten();
        let evictions = self.for_evictions.get(&self.name).await.unwrap().webhooks.into_iter().flatten();
        let new_pods = new_pods.map(|entry| entry.client_config);
        new_pods.chain(evictions.map(|entry| entry.client_config)).collect()
    }

    /// The certificates that its entries trust.
    ///
    /// # Errors If an entry trusts none yet.
    pub async fn trusted(&self) -> Result<Vec<String>, String> {
        let text = |config: WebhookClientConfig| String::from_utf8(config.ca_bundle?.0).ok();
        self.clients()
            .await
            .into_iter()
            .map(text)
            .collect::<Option<_>>()
            .ok_or("a caBundle is missing".into())
    }

    /// Waits until the certificates are filled in.
    pub async fn wait_trusted(&self) {
        wait::until("the caBundle is filled in", || self.trusted()).await;
    }

    /// Deletes the configurations.
    pub async fn remove(self) {
        self.api.delete(&self.name, &DeleteParams::default()).await.unwrap();
        self.for_evictions.delete(&self.name, &DeleteParams::default()).await.unwrap();
    }
}

/// The path that an entry calls.
#[derive(Debug)]
pub struct Named {
    /// The path, with the host if the entry has a URL.
    pub path: String,
}

/// The paths in both configurations with this name.
pub async fn named(client: &Client, name: &str) -> Vec<Named> {
    let all = Configuration::of(client.clone(), name.to_owned()).clients().await.into_iter();
    all.map(|client| Named { path: client.url.or_else(|| client.service?.path).unwrap_or_default() })
        .collect()
}

/// The secret part of a path.
pub fn is_secret(path: &str) -> Option<String> {
    let is = |part: &&str| part.len() == 64 && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    path.split('/').find(is).map(str::to_owned)
}

/// Waits until the entries have secret paths with the same secret, and returns it.
pub async fn wait_secret(client: &Client, name: &str) -> String {
    wait::until("the API server is told the secret path", || async {
        let named = named(client, name).await;
        let mut secrets: Vec<_> = named.iter().map(|named| is_secret(&named.path)).collect();
        secrets.dedup();
        match &secrets[..] {
            [Some(one)] => Ok(one.clone()),
            _ => Err(named),
        }
    })
    .await
}

/// The entries of a configuration, once for each replica with its address instead of the Service, only for namespaces
/// with this label.
async fn called_by_address(
    entries: &Value,
    (known, path): (&Value, &str),
    headgates: &[&Headgate],
    label: &str,
) -> Vec<Value> {
    let mut all = Vec::new();
    for (at, headgate) in headgates.iter().enumerate() {
        let url = format!("https://{}{path}", headgate.webhook().await);
        for entry in entries.as_array().unwrap() {
            let mut entry = entry.clone();
            entry["name"] = format!("r{at}.{}", entry["name"].as_str().unwrap()).into();
            entry["clientConfig"] = known.clone();
            entry["clientConfig"]["url"] = url.clone().into();
            let only = json!({"key": label, "operator": "Exists"});
            entry["namespaceSelector"]["matchExpressions"].as_array_mut().unwrap().push(only);
            all.push(entry);
        }
    }
    all
}

/// A client for dry runs: the API server validates an object without storing it.
pub async fn dry_run_create(
    client: Client,
    object: &MutatingWebhookConfiguration,
) -> Result<(), kube::Error> {
    let parameters = PostParams { dry_run: true, ..PostParams::default() };
    Api::<MutatingWebhookConfiguration>::all(client).create(&parameters, object).await.map(|_| ())
}

/// Waits until a new pod like this one gets the expected injection. The API server watches its configurations, and each
/// replica watches the Services.
pub async fn wait_injected(cluster: &Cluster, pod: Value, is_given: impl Fn(&Pod) -> bool) {
    let probe: Pod = serde_json::from_value(pod).unwrap();
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    wait::until("a new pod would get the gate and the hold", || async {
        let made = cluster.api::<Pod>().create(&dry_run, &probe).await.map_err(|error| error.to_string())?;
        if is_given(&made) { Ok(()) } else { Err(format!("{:?}", made.metadata.annotations)) }
    })
    .await;
}

/// A minimal pod without a hold.
pub fn bare_pod(name: &str, labels: &Value) -> Value {
    json!({
        "metadata": {"name": name, "labels": labels},
        "spec": {"containers": [{"name": "web", "image": "headgate.local/web:1",
            "ports": [{"name": "http", "containerPort": 8080}]}]},
    })
}
