//! Reads the Secret and the configurations, and executes one step at a time.
//!
//! Watches report changes, and the task also checks all objects every 30 s. Each write contains the version of the
//! object that it replaces. The task logs a failure when it begins, changes, continues and ends, and retries forever.

use std::{
    fmt::Debug,
    future::Future,
    sync::Arc,
    time::{Duration, SystemTime},
};

use futures::StreamExt;
use k8s_openapi::api::{
    admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration},
    core::v1::Secret,
};
use kube::{
    Api, Client, Resource,
    api::{PostParams, WatchParams},
};
use serde::de::DeserializeOwned;
use tokio::{
    sync::Notify,
    time::{sleep, timeout},
};
use tracing::{debug, info, warn};

use super::{
    Options,
    certificate::{Certificate, issue},
    configurations::{self, Configuration, Found},
    renewal::{self, Step},
    stored::Stored,
};
use crate::{
    kube::words::plain,
    redact::redacted,
    runtime::{
        clock::Clock,
        outage::{Outage, Spelled, What},
    },
    webhook::path::CallPath,
};

/// The interval between checks of all objects.
const PERIOD: Duration = Duration::from_secs(30);
/// The pause between two steps. The pause limits the rate of writes if another program repeatedly reverts changes.
const PAUSE: Duration = Duration::from_millis(100);
/// The pause after the first failure. The pause doubles with each failure, up to the period.
const AGAIN: Duration = Duration::from_millis(500);
/// The timeout of a request.
const TIMEOUT: Duration = Duration::from_secs(5);
/// A watch ends after this many seconds, because the client closes a connection without data after 30 s.
const WATCH_SECONDS: u32 = 25;

/// Manages the certificate, the path and the configurations.
pub struct Keeper {
    client: Client,
    secrets: Api<Secret>,
    options: Options,
    changed: Arc<Notify>,
    /// The last logged reasons why no API server calls the webhooks.
    unused: Vec<String>,
}

/// The objects that the task last read.
struct Seen {
    secret: Secret,
    stored: Stored,
    new_pods: Found,
    evictions: Found,
}

impl Seen {
    fn entries(&self) -> Vec<configurations::Entry> {
        [&*self.new_pods.entries, &*self.evictions.entries].concat()
    }
}

impl Keeper {
    /// Creates a keeper with these options.
    pub fn new(client: Client, options: Options, changed: Arc<Notify>) -> Self {
        let secrets = Api::namespaced(client.clone(), &options.namespace);
        Self { client, secrets, options, changed, unused: Vec::new() }
    }

    /// Runs until the program stops.
    pub async fn run(mut self) -> Result<(), String> {
        let period = PERIOD.min(self.options.lifetime / 40).max(Duration::from_millis(250));
        let (clock, mut outage, mut again) = (Clock::start(), Outage::default(), AGAIN);
        loop {
            match self.round().await {
                Ok(step) => {
                    again = AGAIN;
                    if let Some(told) = outage.worked(clock.now()) {
                        info!("certificates are managed again, after {}", Spelled(told.lasted));
                    }
                    if step == Step::Nothing {
                        let _ = timeout(period, self.changed.notified()).await;
                    } else {
                        sleep(PAUSE).await;
                    }
                }
                Err(error) => {
                    let error = redacted(&error);
                    if let Some(told) = outage.failed(&error, clock.now()) {
                        let since = match told.what {
                            What::GoesOn => format!(" for {} now", Spelled(told.lasted)),
                            _ => String::new(),
                        };
                        warn!(error, "cannot manage the webhook's certificate{since}; retrying");
                    }
                    sleep(again.min(period)).await;
                    again = (again * 2).min(PERIOD);
                }
            }
        }
    }

    /// Reads all objects, and executes one step.
    async fn round(&mut self) -> Result<Step, String> {
        let seen = self.look().await?;
        let entries = seen.entries();
        let (overlap, now) = (renewal::overlap(self.options.lifetime), now());
        let step = renewal::step(&seen.stored, &entries, overlap, now);
        let stored = seen.stored.clone();
        let (next, done) = match step {
            Step::Nothing => return Ok(step),
            Step::Configure => {
                self.configure(&seen).await?;
                return Ok(step);
            }
            Step::MakePath => {
                let path = match renewal::called(&entries) {
                    Some(path) => path,
                    None => CallPath::random()?,
                };
                (stored.with_path(path), "stored a secret path for the webhooks")
            }
            Step::Prepare => {
                let next = self.issue()?;
                let next = stored.with_next(next, &renewal::trusted(&entries));
                (
                    next,
                    "stored the webhook's next certificate; replicas serve it once the API server trusts it",
                )
            }
            Step::NoteDistrusted => (
                stored.counted_from(None),
                "the API server did not trust the webhook's next certificate for a while; waiting again",
            ),
            Step::NoteTrusted => {
                (stored.counted_from(Some(now)), "the API server trusts the webhook's next certificate")
            }
            Step::Swap => (stored.swapped(now), "stored the webhook's next certificate as the one to serve"),
            Step::NoteSwapped => {
                (stored.counted_from(Some(now)), "stored since when the webhook's certificate is served")
            }
            Step::Forget => {
                (stored.without_replaced(), "no replica serves the previous certificate any more")
            }
        };
        let mut secret = seen.secret;
        next.put(&mut secret);
        let name = &self.options.secret;
        match within(self.secrets.replace(name, &PostParams::default(), &secret)).await {
            Ok(_) => {
                let until = next.serving.map(|serving| serving.life.until);
                info!(secret = name, until, "{done}");
                Ok(step)
            }
            // Another client wrote the Secret first. The next round reads the other client's change.
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(step),
            Err(error) => Err(self.said(&error)),
        }
    }

    async fn look(&mut self) -> Result<Seen, String> {
        let Options { secret: name, namespace, configuration, .. } = &self.options;
        let secret = within(self.secrets.get_opt(name)).await.map_err(|error| self.said(&error))?;
        let secret = secret.ok_or_else(|| {
            format!(
                "Secret {namespace}/{name} does not exist. Create it empty, like deploy/install.yaml does, \
                 or set --webhook-secret to the name of yours"
            )
        })?;
        let new_pods = configurations::read::<MutatingWebhookConfiguration>(&self.client, configuration);
        let new_pods = within(new_pods).await.map_err(|error| self.said(&error))?;
        let evictions = configurations::read::<ValidatingWebhookConfiguration>(&self.client, configuration);
        let evictions = within(evictions).await.map_err(|error| self.said(&error))?;
        let unused: Vec<String> =
            [&new_pods, &evictions].into_iter().filter_map(|found| found.unused.clone()).collect();
        if unused != self.unused {
            for why in &unused {
                warn!("{why}. Checking again every {} s", PERIOD.as_secs());
            }
            if unused.is_empty() {
                info!(configuration, "both webhook configurations exist");
            }
            self.unused = unused;
        }
        let stored = Stored::read(&secret, &self.options.names);
        Ok(Seen { secret, stored, new_pods, evictions })
    }

    async fn configure(&self, seen: &Seen) -> Result<(), String> {
        let Seen { stored, new_pods, evictions, .. } = seen;
        let Some(path) = &stored.path else { return Ok(()) };
        let trusted = stored.trusted();
        self.write::<MutatingWebhookConfiguration>(new_pods, &trusted, path).await?;
        self.write::<ValidatingWebhookConfiguration>(evictions, &trusted, path).await?;
        Ok(())
    }

    async fn write<K: Configuration>(
        &self,
        found: &Found,
        trusted: &str,
        path: &CallPath,
    ) -> Result<(), String> {
        let name = &self.options.configuration;
        if found.entries.is_empty() {
            return Ok(());
        }
        match within(configurations::write::<K>(&self.client, name, found, (trusted, path))).await {
            Ok(()) => {
                info!(kind = &*K::kind(&()), name, "wrote the webhook's CA and path into its configuration");
                Ok(())
            }
            // Another client wrote the configuration first. The next round reads the other client's change.
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
            Err(error) => Err(self.said(&error)),
        }
    }

    fn issue(&self) -> Result<Certificate, String> {
        let Options { names, lifetime, .. } = &self.options;
        let unfit = |why: &str| {
            let names = names.join(",");
            format!(
                "cannot make a certificate for {names}: {why}. Set --webhook-names to names and addresses"
            )
        };
        let issued = issue(names, SystemTime::now(), *lifetime).map_err(|error| unfit(&error.to_string()))?;
        Certificate::read(issued, names).ok_or_else(|| unfit("it would not contain all of them"))
    }

    fn said(&self, error: &kube::Error) -> String {
        match error {
            kube::Error::Api(status) if status.code == 403 => format!(
                "{}. Grant the roles of config/rbac/certificates.yaml: get, update and watch for the Secret \
                 {}, and get, patch and watch for the MutatingWebhookConfiguration and the \
                 ValidatingWebhookConfiguration {}",
                status.message, self.options.secret, self.options.configuration
            ),
            error => plain(error),
        }
    }
}

/// Notifies `changed` whenever the object `name` changes, and never returns.
pub async fn watch<K>(api: Api<K>, name: String, changed: Arc<Notify>) -> Result<(), String>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let mut is_forbidden = false;
    loop {
        let only = WatchParams::default().fields(&format!("metadata.name={name}")).timeout(WATCH_SECONDS);
        match within(api.watch(&only.disable_bookmarks(), "0")).await {
            Ok(events) => {
                is_forbidden = false;
                let mut events = std::pin::pin!(events);
                while let Some(Ok(_)) = events.next().await {
                    changed.notify_one();
                }
            }
            Err(kube::Error::Api(status)) if status.code == 403 => {
                if !std::mem::replace(&mut is_forbidden, true) {
                    warn!("{}. Grant the verb watch, see config/rbac/certificates.yaml", status.message);
                }
            }
            Err(error) => debug!(kind = &*K::kind(&()), name, error = plain(&error), "cannot watch it"),
        }
        sleep(Duration::from_secs(1)).await;
    }
}

/// The wall clock's time, in seconds since 1970.
fn now() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or(i64::MAX))
}

/// Adds a timeout of five seconds to a request.
async fn within<T>(request: impl Future<Output = kube::Result<T>>) -> kube::Result<T> {
    match timeout(TIMEOUT, request).await {
        Ok(result) => result,
        Err(_) => Err(kube::Error::Service(format!("no answer within {TIMEOUT:?}").into())),
    }
}
