//! Reads and writes the webhook configurations: the CAs that Headgate's own entries trust, and the paths that they
//! call. Entries of other programs are not changed.

use std::fmt::Debug;

use hyper::Uri;
use k8s_openapi::{
    ByteString,
    api::admissionregistration::v1::{
        MutatingWebhookConfiguration, ValidatingWebhookConfiguration, WebhookClientConfig,
    },
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{Patch, PatchParams},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::webhook::path::CallPath;

/// The suffixes of the names of Headgate's own entries.
pub const OWN_ENTRIES: [&str; 2] = [".inject.headgate.dev", ".evict.headgate.dev"];

/// The way in which the API server calls the webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// The API server calls a Service.
    Service {
        /// The path on the Service.
        path: String,
    },
    /// The API server calls a URL.
    Url(String),
}

/// One of Headgate's own entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The index of the entry in its configuration.
    index: usize,
    name: String,
    /// The way in which the API server calls this entry's webhook.
    pub call: Call,
    /// The trusted CA certificates, as PEM. The field may be empty.
    pub bundle: Vec<u8>,
}

impl Entry {
    /// The path that the API server calls.
    pub fn path(&self) -> String {
        match &self.call {
            Call::Service { path } => path.clone(),
            Call::Url(url) => url.parse().map_or_else(|_| "/".to_owned(), |url: Uri| url.path().to_owned()),
        }
    }

    /// The JSON Patch operations that set the trusted CA certificates and the path.
    fn operations(&self, bundle: &str, path: &str) -> Result<[Value; 2], String> {
        let at = format!("/webhooks/{}", self.index);
        let place = |field: &str| format!("{at}/clientConfig/{field}");
        let call = match &self.call {
            Call::Service { .. } => json!({"op": "add", "path": place("service/path"), "value": path}),
            Call::Url(url) => {
                let unfit =
                    || format!("the url of {} cannot be read; set it to https://HOST:PORT/", self.name);
                let url: Uri = url.parse().map_err(|_| unfit())?;
                let (scheme, host) = url.scheme_str().zip(url.authority()).ok_or_else(unfit)?;
                json!({"op": "add", "path": place("url"), "value": format!("{scheme}://{host}{path}")})
            }
        };
        let bundle = ByteString(bundle.as_bytes().to_vec());
        Ok([json!({"op": "add", "path": place("caBundle"), "value": bundle}), call])
    }
}

/// Headgate's own entries in a configuration.
pub fn own_entries<'a>(all: impl Iterator<Item = (&'a str, &'a WebhookClientConfig)>) -> Vec<Entry> {
    let own = all.enumerate().filter(|(_, (name, _))| OWN_ENTRIES.iter().any(|own| name.ends_with(own)));
    let own = own.filter_map(|(index, (name, client))| {
        let call = match (&client.service, &client.url) {
            (Some(service), _) => Call::Service {
                path: service.path.clone().filter(|path| !path.is_empty()).unwrap_or_else(|| "/".into()),
            },
            (None, url) => Call::Url(url.clone()?),
        };
        let bundle = client.ca_bundle.clone().map(|bundle| bundle.0).unwrap_or_default();
        Some(Entry { index, name: name.to_owned(), call, bundle })
    });
    own.collect()
}

/// A kind of webhook configuration.
pub trait Configuration: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned {
    /// The file in the repository that contains the configuration.
    const FILE: &'static str;
    /// The feature that is missing without the configuration, for messages.
    const WITHOUT: &'static str;

    /// Headgate's own entries in this configuration.
    fn entries(&self) -> Vec<Entry>;
}

impl Configuration for MutatingWebhookConfiguration {
    const FILE: &'static str = "config/webhook/mutating.yaml";
    const WITHOUT: &'static str = "no new pod gets the readiness gate and the hold";

    fn entries(&self) -> Vec<Entry> {
        own_entries(self.webhooks.iter().flatten().map(|entry| (&*entry.name, &entry.client_config)))
    }
}

impl Configuration for ValidatingWebhookConfiguration {
    const FILE: &'static str = "config/webhook/validating.yaml";
    const WITHOUT: &'static str = "no eviction waits for its pod to be deregistered";

    fn entries(&self) -> Vec<Entry> {
        own_entries(self.webhooks.iter().flatten().map(|entry| (&*entry.name, &entry.client_config)))
    }
}

/// The state of a configuration in the API server.
#[derive(Debug, Default)]
pub struct Found {
    version: Option<String>,
    /// Headgate's own entries.
    pub entries: Vec<Entry>,
    /// The reason why no API server calls the webhook, if none does.
    pub unused: Option<String>,
}

/// Reads the configuration `name`.
///
/// # Errors
/// The API server returns an error.
pub async fn read<K: Configuration>(client: &Client, name: &str) -> kube::Result<Found> {
    let found = Api::<K>::all(client.clone()).get_opt(name).await?;
    let (kind, file, without) = (K::kind(&()), K::FILE, K::WITHOUT);
    let Some(found) = found else {
        let unused = format!(
            "{kind} {name} does not exist, so {without}. Apply that of {file}, or set \
             --webhook-configuration to the name of yours"
        );
        return Ok(Found { unused: Some(unused), ..Found::default() });
    };
    let entries = found.entries();
    let unused = entries.is_empty().then(|| {
        let own = OWN_ENTRIES.join(" or ");
        format!(
            "{kind} {name} has no entry whose name ends in {own}, so {without}. Apply that of {file} again"
        )
    });
    Ok(Found { version: found.resource_version(), entries, unused })
}

/// Sets the trusted CA certificates and the path of Headgate's own entries in the configuration `name`.
///
/// # Errors
/// The API server returns an error, or the configuration contains an invalid URL.
pub async fn write<K: Configuration>(
    client: &Client,
    name: &str,
    found: &Found,
    (bundle, called): (&str, &CallPath),
) -> kube::Result<()> {
    if found.entries.is_empty() {
        return Ok(());
    }
    // The API server rejects the patch with 409 if the configuration has changed since it was read.
    let mut operations =
        vec![json!({"op": "replace", "path": "/metadata/resourceVersion", "value": found.version})];
    for entry in &found.entries {
        let of_entry = entry.operations(bundle, called.as_str());
        operations.extend(of_entry.map_err(|error| kube::Error::Service(error.into()))?);
    }
    let patch = serde_json::from_value(operations.into()).map_err(kube::Error::SerdeError)?;
    Api::<K>::all(client.clone()).patch(name, &PatchParams::default(), &Patch::Json::<()>(patch)).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::admissionregistration::v1::ServiceReference;

    use super::*;

    fn by_service(path: Option<&str>) -> WebhookClientConfig {
        let service = ServiceReference { path: path.map(str::to_owned), ..ServiceReference::default() };
        WebhookClientConfig { service: Some(service), ..WebhookClientConfig::default() }
    }

    fn by_url(url: &str) -> WebhookClientConfig {
        WebhookClientConfig { url: Some(url.to_owned()), ..WebhookClientConfig::default() }
    }

    #[test]
    fn only_own_entries_are_written_at_their_place_and_of_a_url_only_the_path() {
        let (bare, service, url) =
            (by_service(None), by_service(Some("/a")), by_url("https://10.0.0.1:9443/b?c"));
        let named = [
            ("other.example.com", &bare),
            ("pods.inject.headgate.dev", &bare),
            ("system.inject.headgate.dev", &service),
            ("pods.evict.headgate.dev", &url),
            ("nowhere.evict.headgate.dev", &WebhookClientConfig::default()),
        ];
        let entries = own_entries(named.into_iter());
        assert_eq!(entries.iter().map(Entry::path).collect::<Vec<_>>(), ["/", "/a", "/b"]);
        let written: Vec<Value> =
            entries.iter().flat_map(|entry| entry.operations("CA", "/secret").unwrap()).collect();
        let ca = |at: usize| json!({"op": "add", "path": format!("/webhooks/{at}/clientConfig/caBundle"), "value": "Q0E="});
        let path = |at: usize| json!({"op": "add", "path": format!("/webhooks/{at}/clientConfig/service/path"), "value": "/secret"});
        let url = json!({"op": "add", "path": "/webhooks/3/clientConfig/url", "value": "https://10.0.0.1:9443/secret"});
        assert_eq!(written, [ca(1), path(1), ca(2), path(2), ca(3), url]);
    }

    #[test]
    fn a_url_that_cannot_be_read_is_said_and_not_written() {
        for url in ["", "not a url", "/path"] {
            let client = by_url(url);
            let entries = own_entries([("pods.evict.headgate.dev", &client)].into_iter());
            let said = entries[0].operations("CA", "/secret").unwrap_err();
            assert!(said.contains("set it to https://HOST:PORT/"), "{url}: {said}");
        }
    }
}
