//! The certificate that Headgate makes for itself: one Secret in its own namespace, which also has the secret
//! [path](super::path), and the `caBundle` of its webhook configurations.
//!
//! Whichever replica comes first makes the Secret; all read it and serve what is in it. Only the leader replaces the
//! certificate, as [`rotation`] says, and only the leader writes the `caBundle`, of Headgate's own entries and of
//! nothing else. A write names the state that it replaces. A failure is logged when it begins, changes, goes on and ends,
//! and tried again for ever; what is served meanwhile stays.

use std::{
    collections::BTreeMap,
    fmt::Debug,
    future::Future,
    sync::Arc,
    time::{Duration, SystemTime},
};

use headgate_core::{
    model::webhook::{Certificate, Life},
    rotation::{self, Step},
};
use k8s_openapi::{
    ByteString,
    api::{
        admissionregistration::v1::{
            MutatingWebhookConfiguration, ValidatingWebhookConfiguration, WebhookClientConfig,
        },
        core::v1::Secret,
    },
};
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams, PostParams},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::json;
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};
use tracing::{info, warn};

use super::{
    Own,
    certificate::{Issued, authority, issue},
    tls::{self, Served},
};
use crate::{
    kube::words::plain,
    metrics::Metrics,
    runtime::{
        clock::Clock,
        outage::{Outage, Spelled, What},
    },
};

/// How often the Secret and the configuration are looked at.
const PERIOD: Duration = Duration::from_secs(10);
/// After the first of several failures; each further one doubles it, up to the period.
const AGAIN: Duration = Duration::from_millis(500);
/// How often it is seen whether this replica leads: until the first leader has said whom to trust, new pods are missed.
pub(super) const GLANCE: Duration = Duration::from_millis(250);
/// For one request.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The entries of webhook configurations that are Headgate's own end so.
pub const OWN_ENTRIES: [&str; 2] = [".inject.headgate.dev", ".evict.headgate.dev"];
/// The annotation of the Secret that says what is in it: Headgate has made it.
pub const CONTENTS: &str = "headgate.dev/certificates";

/// The annotation of the Secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Contents {
    names: Vec<String>,
    serving: Span,
    next: Option<Span>,
    /// The names of the next one.
    next_names: Option<Vec<String>>,
}

/// In seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Span {
    from: i64,
    until: i64,
}

impl From<Life> for Span {
    fn from(life: Life) -> Self {
        Self { from: life.from, until: life.until }
    }
}

/// What is in the Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stored {
    contents: Contents,
    serving: Issued,
    next: Option<Issued>,
    /// The authorities to be trusted.
    bundle: String,
}

/// Keeps the certificate.
pub struct Keeper<L> {
    secrets: Api<Secret>,
    for_new_pods: Api<MutatingWebhookConfiguration>,
    for_evictions: Api<ValidatingWebhookConfiguration>,
    own: Own,
    /// Whether this replica leads.
    leads: L,
    serve: watch::Sender<Served>,
    metrics: Arc<Metrics>,
    /// The chain that is served.
    chain: String,
}

impl<L: Fn() -> bool> Keeper<L> {
    /// For a Headgate with this namespace of its own.
    pub fn new(
        client: Client,
        namespace: &str,
        own: Own,
        leads: L,
        serve: watch::Sender<Served>,
        metrics: Arc<Metrics>,
    ) -> Self {
        let secrets = Api::namespaced(client.clone(), namespace);
        let (for_new_pods, for_evictions) = (Api::all(client.clone()), Api::all(client));
        Self { secrets, for_new_pods, for_evictions, own, leads, serve, metrics, chain: String::new() }
    }

    /// Keeps it for ever.
    pub async fn run(mut self) -> Result<(), String> {
        let period = period(self.own.lifetime);
        let (clock, mut outage) = (Clock::start(), Outage::default());
        let mut again = AGAIN;
        loop {
            let led = (self.leads)();
            let error = self.round().await.err();
            let pause = if error.is_some() { again.min(period) } else { period };
            again = if error.is_some() { pause * 2 } else { AGAIN };
            if let Some(error) = error {
                if let Some(told) = outage.failed(&error, clock.now()) {
                    let since = match told.what {
                        What::GoesOn => format!(" for {} now", Spelled(told.lasted)),
                        _ => String::new(),
                    };
                    warn!(error, "the webhook's certificate cannot be kept{since}, tried again");
                }
            } else if let Some(told) = outage.worked(clock.now()) {
                info!("the webhook's certificate is kept again, after {}", Spelled(told.lasted));
            }
            tokio::select! {
                () = sleep(pause) => {}
                () = self.comes_to_lead(), if !led => {}
            }
        }
    }

    async fn comes_to_lead(&self) {
        while !(self.leads)() {
            sleep(GLANCE).await;
        }
    }

    async fn round(&mut self) -> Result<(), String> {
        let name = &self.own.secret.clone();
        let found = match within(self.secrets.get_opt(name)).await.map_err(|error| self.said(&error))? {
            Some(secret) => secret,
            None => {
                match within(self.secrets.create(&PostParams::default(), &self.fresh(&Secret::default())?))
                    .await
                {
                    Ok(secret) => {
                        info!(secret = name, "made a certificate for the webhook");
                        secret
                    }
                    // Another replica was first.
                    Err(kube::Error::Api(status)) if status.code == 409 => {
                        within(self.secrets.get(name)).await.map_err(|error| self.said(&error))?
                    }
                    Err(error) => return Err(self.said(&error)),
                }
            }
        };
        let stored = match read(&found).and_then(|stored| self.serve(&stored).map(|()| stored)) {
            Ok(stored) => stored,
            Err(error) if (self.leads)() => {
                warn!(secret = name, %error, "the Secret makes no sense, making a new certificate");
                return self.replace(&self.fresh(&found)?).await;
            }
            Err(error) => {
                return Err(format!("the Secret {name} makes no sense: {error}; the leader repairs it"));
            }
        };
        if !(self.leads)() {
            return Ok(());
        }
        let trusted = self.keep_trusted(&stored.bundle).await;
        let now = now();
        let certificate = |span: Span, names: &[String]| Certificate {
            life: Life { from: span.from, until: span.until },
            fits: *names == *self.own.names,
        };
        let contents = &stored.contents;
        let next_names = contents.next_names.as_ref().unwrap_or(&contents.names);
        let step = rotation::step(
            certificate(contents.serving, &contents.names),
            contents.next.map(|span| certificate(span, next_names)),
            trusted.is_ok(),
            now,
        );
        match step {
            Step::Nothing => {}
            Step::Prepare => {
                info!(secret = name, "preparing the next certificate for the webhook");
                self.replace(&self.prepared(stored, &found)?).await?;
            }
            Step::Promote => {
                info!(secret = name, "the next certificate takes its place");
                self.replace(&self.write(&promoted(stored), &found)?).await?;
            }
        }
        trusted
    }

    /// A Secret with a certificate that nobody trusts yet.
    fn fresh(&self, found: &Secret) -> Result<Secret, String> {
        let (issued, span) = self.issue()?;
        let bundle = authority(&issued.chain).unwrap_or_default().to_owned();
        let contents =
            Contents { names: self.own.names.clone(), serving: span, next: None, next_names: None };
        self.write(&Stored { contents, serving: issued, next: None, bundle }, found)
    }

    /// The same with a next certificate, and its authority trusted besides the present one.
    fn prepared(&self, mut stored: Stored, found: &Secret) -> Result<Secret, String> {
        let (issued, span) = self.issue()?;
        let both = [&issued, &stored.serving].map(|issued| authority(&issued.chain).unwrap_or_default());
        stored.bundle = both.concat();
        stored.contents.next = Some(span);
        stored.contents.next_names = Some(self.own.names.clone());
        stored.next = Some(issued);
        self.write(&stored, found)
    }

    fn issue(&self) -> Result<(Issued, Span), String> {
        let issued = issue(&self.own.names, SystemTime::now(), self.own.lifetime).map_err(|error| {
            let names = self.own.names.join(",");
            format!("no certificate can be made for {names} ({error}); expected names and addresses in --webhook-names")
        })?;
        Ok((issued, Life::new(now(), self.own.lifetime).into()))
    }

    /// The Secret with this in it, and what else it has: the path.
    fn write(&self, stored: &Stored, found: &Secret) -> Result<Secret, String> {
        let contents = serde_json::to_string(&stored.contents).map_err(|error| error.to_string())?;
        let mut secret = found.clone();
        let data = secret.data.get_or_insert_with(BTreeMap::new);
        let mut put = |name: &str, text: &str| {
            data.insert(name.to_owned(), ByteString(text.as_bytes().to_vec()));
        };
        put("ca.crt", &stored.bundle);
        put("tls.crt", &stored.serving.chain);
        put("tls.key", &stored.serving.key);
        if let Some(next) = &stored.next {
            put("next.crt", &next.chain);
            put("next.key", &next.key);
        } else {
            data.remove("next.crt");
            data.remove("next.key");
        }
        secret.metadata.name = Some(self.own.secret.clone());
        secret.annotations_mut().insert(CONTENTS.to_owned(), contents);
        secret.type_.get_or_insert_with(|| "Opaque".into());
        Ok(secret)
    }

    async fn replace(&self, secret: &Secret) -> Result<(), String> {
        match within(self.secrets.replace(&self.own.secret, &PostParams::default(), secret)).await {
            Ok(_) => Ok(()),
            // Somebody else was first: seen the next time.
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
            Err(error) => Err(self.said(&error)),
        }
    }

    fn serve(&mut self, stored: &Stored) -> Result<(), String> {
        if self.chain != stored.serving.chain {
            let serving = &stored.serving;
            let certified = tls::certified(serving.chain.as_bytes(), serving.key.as_bytes())
                .map_err(|error| error.to_string())?;
            self.serve.send_replace(Some(Arc::new(certified)));
            self.chain.clone_from(&serving.chain);
            self.metrics.certificate_ends(stored.contents.serving.until);
            info!(until = stored.contents.serving.until, "serving the webhook with a certificate of its own");
        }
        Ok(())
    }

    /// Has the API server trust these authorities. `Ok` if it does, or does not ask.
    async fn keep_trusted(&self, bundle: &str) -> Result<(), String> {
        let name = &self.own.configuration;
        let found = within(self.for_new_pods.get_opt(name)).await.map_err(|error| self.said(&error))?;
        let Some(found) = found else {
            return Err(format!(
                "there is no MutatingWebhookConfiguration {name}, so no new pod is looked at; expected that of \
                 config/webhook/mutating.yaml, or another name in --webhook-configuration"
            ));
        };
        let entries = found.webhooks.iter().flatten().map(|entry| (&*entry.name, &entry.client_config));
        self.trust(&self.for_new_pods, entries, bundle).await?;
        let found = within(self.for_evictions.get_opt(name)).await.map_err(|error| self.said(&error))?;
        let Some(found) = found else {
            return Err(format!(
                "there is no ValidatingWebhookConfiguration {name}, so no eviction waits for its pod to be deregistered; \
                 expected that of config/webhook/validating.yaml, or another name in --webhook-configuration"
            ));
        };
        let entries = found.webhooks.iter().flatten().map(|entry| (&*entry.name, &entry.client_config));
        self.trust(&self.for_evictions, entries, bundle).await
    }

    /// Writes the authorities into those entries of a configuration that are Headgate's own.
    async fn trust<'a, K: Clone + DeserializeOwned + Debug>(
        &self,
        configurations: &Api<K>,
        entries: impl Iterator<Item = (&'a str, &'a WebhookClientConfig)>,
        bundle: &str,
    ) -> Result<(), String> {
        let name = &self.own.configuration;
        let mut operations = Vec::new();
        for (at, (entry, client)) in entries.enumerate() {
            let is = client.ca_bundle.as_ref().map(|bytes| &*bytes.0);
            if OWN_ENTRIES.iter().any(|own| entry.ends_with(own)) && is != Some(bundle.as_bytes()) {
                let value = ByteString(bundle.as_bytes().to_vec());
                // The list may have been changed since it was read.
                operations
                    .push(json!({"op": "test", "path": format!("/webhooks/{at}/name"), "value": entry}));
                operations.push(
                    json!({"op": "add", "path": format!("/webhooks/{at}/clientConfig/caBundle"), "value": value}),
                );
            }
        }
        if operations.is_empty() {
            return Ok(());
        }
        let patch = serde_json::from_value(operations.into()).map_err(|error| error.to_string())?;
        let patch = Patch::Json::<()>(patch);
        let parameters = PatchParams::default();
        within(configurations.patch(name, &parameters, &patch)).await.map_err(|error| self.said(&error))?;
        info!(configuration = name, "the API server is told which certificate to trust");
        Ok(())
    }

    fn said(&self, error: &kube::Error) -> String {
        match error {
            kube::Error::Api(status) if status.code == 403 => format!(
                "{}; expected the roles of config/rbac/webhook.yaml: create, get and update for the Secret {}, get and \
                 patch for the MutatingWebhookConfiguration and the ValidatingWebhookConfiguration {}",
                status.message, self.own.secret, self.own.configuration
            ),
            error => plain(error),
        }
    }
}

pub(super) fn read(secret: &Secret) -> Result<Stored, String> {
    let text = |name: &str| {
        let bytes = secret.data.as_ref().and_then(|data| data.get(name)).map(|bytes| bytes.0.clone());
        bytes.and_then(|bytes| String::from_utf8(bytes).ok()).ok_or_else(|| format!("it has no {name}"))
    };
    let contents = secret.metadata.annotations.as_ref().and_then(|all| all.get(CONTENTS));
    let contents = contents.ok_or_else(|| format!("it has no annotation {CONTENTS}"))?;
    let contents: Contents = serde_json::from_str(contents)
        .map_err(|error| format!("the annotation {CONTENTS} cannot be read: {error}"))?;
    let next = match contents.next {
        Some(_) => Some(Issued { chain: text("next.crt")?, key: text("next.key")? }),
        None => None,
    };
    let serving = Issued { chain: text("tls.crt")?, key: text("tls.key")? };
    Ok(Stored { contents, serving, next, bundle: text("ca.crt")? })
}

/// The next certificate takes the place of the present one, whose authority stays trusted until the one after is
/// prepared: replicas that have not read the Secret yet still serve it.
fn promoted(mut stored: Stored) -> Stored {
    if let (Some(next), Some(span)) = (stored.next.take(), stored.contents.next.take()) {
        stored.serving = next;
        stored.contents.serving = span;
        if let Some(names) = stored.contents.next_names.take() {
            stored.contents.names = names;
        }
    }
    stored
}

/// The wall clock, in seconds since 1970.
pub(super) fn now() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or(i64::MAX))
}

/// How often all is looked at, with certificates and paths that live so long.
pub(super) fn period(lifetime: Duration) -> Duration {
    PERIOD.min(lifetime / 40).max(Duration::from_millis(250))
}

/// A request, but no longer than five seconds.
pub(super) async fn within<T>(request: impl Future<Output = kube::Result<T>>) -> kube::Result<T> {
    match timeout(TIMEOUT, request).await {
        Ok(result) => result,
        Err(_) => Err(kube::Error::Service(format!("no answer within {TIMEOUT:?}").into())),
    }
}
