//! What the webhook configurations name, and how a path is written into them: of Headgate's own entries only.

use std::fmt::Debug;

use headgate_core::secret_path::Named;
use hyper::Uri;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration, WebhookClientConfig,
};
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{Kind, SecretPath};
use crate::webhook::secret::within;

/// How the API server calls.
#[derive(Clone, PartialEq, Eq)]
pub enum Call {
    /// Through a Service.
    Service {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// The path.
        path: String,
    },
    /// By an address.
    Url(String),
}

/// An entry of Headgate's own.
#[derive(Clone, PartialEq, Eq)]
pub struct Entry {
    /// Where it stands in its configuration.
    index: usize,
    name: String,
    /// What it asks.
    pub kind: Kind,
    /// How.
    pub call: Call,
    /// Whom it trusts, as PEM; empty: nobody.
    pub bundle: Vec<u8>,
}

impl Entry {
    /// The path that is called.
    pub fn path(&self) -> String {
        match &self.call {
            Call::Service { path, .. } => path.clone(),
            Call::Url(url) => url.parse().map_or_else(|_| "/".to_owned(), |url: Uri| url.path().to_owned()),
        }
    }

    /// Has it call this path.
    pub(super) fn operations(&self, path: &str) -> Result<[Value; 2], String> {
        let at = format!("/webhooks/{}", self.index);
        // The list may have been changed since it was read.
        let same = json!({"op": "test", "path": format!("{at}/name"), "value": self.name});
        let write = match &self.call {
            Call::Service { .. } => {
                json!({"op": "add", "path": format!("{at}/clientConfig/service/path"), "value": path})
            }
            Call::Url(url) => {
                let unfit = || format!("the url of {} cannot be read; expected https://HOST/", self.name);
                let url: Uri = url.parse().map_err(|_| unfit())?;
                let (scheme, host) = url.scheme_str().zip(url.authority()).ok_or_else(unfit)?;
                let url = format!("{scheme}://{host}{path}");
                json!({"op": "add", "path": format!("{at}/clientConfig/url"), "value": url})
            }
        };
        Ok([same, write])
    }
}

/// Headgate's own among the entries of a configuration.
pub fn own_entries<'a>(all: impl Iterator<Item = (&'a str, &'a WebhookClientConfig)>) -> Vec<Entry> {
    let own = all.enumerate().filter_map(|(index, (name, client))| {
        let kind = Kind::of_entry(name)?;
        let call = match (&client.service, &client.url) {
            (Some(service), _) => Call::Service {
                namespace: service.namespace.clone(),
                name: service.name.clone(),
                path: service.path.clone().filter(|path| !path.is_empty()).unwrap_or_else(|| "/".into()),
            },
            (None, url) => Call::Url(url.clone()?),
        };
        let bundle = client.ca_bundle.clone().map(|bundle| bundle.0).unwrap_or_default();
        Some(Entry { index, name: name.to_owned(), kind, call, bundle })
    });
    own.collect()
}

/// What the entries name, all together.
pub fn named<'a>(mut entries: impl Iterator<Item = &'a Entry>, present: &SecretPath) -> Named {
    let all = entries.all(|entry| entry.path() == present.path(entry.kind));
    if all { Named::Present } else { Named::Other }
}

/// A configuration, as far as it concerns Headgate.
pub struct Found {
    version: String,
    /// Headgate's own entries.
    pub entries: Vec<Entry>,
}

/// Both configurations.
#[derive(Clone)]
pub struct Configurations {
    name: String,
    for_new_pods: Api<MutatingWebhookConfiguration>,
    for_evictions: Api<ValidatingWebhookConfiguration>,
}

impl Configurations {
    /// Those of this name.
    pub fn new(client: Client, name: String) -> Self {
        Self { name, for_new_pods: Api::all(client.clone()), for_evictions: Api::all(client) }
    }

    /// That for new pods, if it is there.
    pub async fn for_new_pods(&self) -> kube::Result<Option<Found>> {
        let found = within(self.for_new_pods.get_opt(&self.name)).await?;
        Ok(found.map(|found| {
            let version = found.resource_version().unwrap_or_default();
            let all = found.webhooks.iter().flatten().map(|entry| (&*entry.name, &entry.client_config));
            Found { version, entries: own_entries(all) }
        }))
    }

    /// That for evictions, if it is there.
    pub async fn for_evictions(&self) -> kube::Result<Option<Found>> {
        let found = within(self.for_evictions.get_opt(&self.name)).await?;
        Ok(found.map(|found| {
            let version = found.resource_version().unwrap_or_default();
            let all = found.webhooks.iter().flatten().map(|entry| (&*entry.name, &entry.client_config));
            Found { version, entries: own_entries(all) }
        }))
    }

    /// Writes the path into those entries of that for new pods that do not call it.
    pub async fn write_for_new_pods(&self, found: &Found, path: &SecretPath) -> kube::Result<()> {
        self.write(&self.for_new_pods, found, path).await
    }

    /// The same for evictions.
    pub async fn write_for_evictions(&self, found: &Found, path: &SecretPath) -> kube::Result<()> {
        self.write(&self.for_evictions, found, path).await
    }

    async fn write<K: Clone + DeserializeOwned + Debug>(
        &self,
        configurations: &Api<K>,
        found: &Found,
        present: &SecretPath,
    ) -> kube::Result<()> {
        let unlike = found.entries.iter().filter(|entry| entry.path() != present.path(entry.kind));
        let mut operations = vec![json!({
            "op": "test", "path": "/metadata/resourceVersion", "value": found.version,
        })];
        for entry in unlike {
            let of_entry = entry.operations(&present.path(entry.kind));
            operations.extend(of_entry.map_err(|error| kube::Error::Service(error.into()))?);
        }
        if operations.len() == 1 {
            return Ok(());
        }
        let patch = serde_json::from_value(operations.into()).map_err(kube::Error::SerdeError)?;
        let patch = Patch::Json::<()>(patch);
        within(configurations.patch(&self.name, &PatchParams::default(), &patch)).await.map(|_| ())
    }
}
