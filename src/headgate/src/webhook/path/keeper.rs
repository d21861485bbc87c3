//! Keeps the secret path: the leader makes it, changes it, and writes it into the webhook configurations.
//!
//! The order is that of [`secret_path`]. Each write names the state that it replaces. A failure is logged when it begins
//! and changes, and tried again for ever; what is served and called meanwhile stays.

use std::time::Duration;

use headgate_core::secret_path::{self, Step, Times};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client, api::PostParams, core::ObjectMeta};
use tokio::time::sleep;
use tracing::{info, warn};

use super::{
    Entry,
    named::{Configurations, Found, named},
    probe,
    stored::{self, Stored},
};
use crate::redact::redacted;
use crate::webhook::{
    Own,
    secret::{GLANCE, now, period, within},
};

/// Between two steps of one change.
const SOON: Duration = Duration::from_secs(1);

/// Keeps the path.
pub struct Keeper<L> {
    client: Client,
    namespace: String,
    secrets: Api<Secret>,
    configurations: Configurations,
    own: Own,
    times: Times,
    /// Whether the certificate comes from files: then the Secret has the path alone.
    from_files: bool,
    /// Whether this replica leads.
    leads: L,
}

/// How a round has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Round {
    /// There is nothing more to do for now.
    Settled,
    /// A step was taken, or is about to be possible, and another one follows.
    Changed,
}

/// Why there is no next step for now.
#[derive(Debug, PartialEq, Eq)]
enum Hitch {
    /// That which is waited for.
    Waits(String),
    /// What went wrong.
    Failed(String),
}

impl<L: Fn() -> bool> Keeper<L> {
    /// For a Headgate with this namespace of its own.
    pub fn new(client: Client, namespace: &str, own: Own, from_files: bool, leads: L) -> Self {
        let secrets = Api::namespaced(client.clone(), namespace);
        let configurations = Configurations::new(client.clone(), own.configuration.clone());
        let (namespace, times) = (namespace.to_owned(), Times::new(own.lifetime));
        Self { client, namespace, secrets, configurations, own, times, from_files, leads }
    }

    /// Keeps it for ever.
    pub async fn run(self) -> Result<(), String> {
        let period = period(self.own.lifetime);
        let mut before = None;
        loop {
            while !(self.leads)() {
                before = None;
                sleep(GLANCE).await;
            }
            let (pause, hitch) = match self.round().await {
                Ok(Round::Settled) => (period, None),
                Ok(Round::Changed) => (period.min(SOON), None),
                Err(hitch) => (period, Some(hitch)),
            };
            if hitch != before {
                match &hitch {
                    Some(Hitch::Failed(error)) => {
                        warn!(
                            error = redacted(error),
                            "the webhook's secret path cannot be kept, tried again"
                        );
                    }
                    Some(Hitch::Waits(why)) => {
                        info!(
                            why = redacted(why),
                            "the API server is not told the webhook's secret path yet"
                        );
                    }
                    None => info!("the webhook's secret path is kept again"),
                }
                before = hitch;
            }
            sleep(pause).await;
        }
    }

    async fn round(&self) -> Result<Round, Hitch> {
        let Some((mut secret, stored)) = self.stored().await.map_err(Hitch::Failed)? else {
            return Ok(Round::Changed);
        };
        let unread = |error: kube::Error| Hitch::Failed(self.said(&error));
        let new_pods = self.configurations.for_new_pods().await.map_err(unread)?;
        let evictions = self.configurations.for_evictions().await.map_err(unread)?;
        let entries = own([&new_pods, &evictions]);
        if entries.is_empty() {
            // The certificate's keeper says so where there is one.
            let missing = || {
                let name = &self.own.configuration;
                Hitch::Failed(format!(
                    "no MutatingWebhookConfiguration or ValidatingWebhookConfiguration {name} has an entry of Headgate's \
                     own; expected those of config/webhook, or their name in --webhook-configuration"
                ))
            };
            return if self.from_files { Err(missing()) } else { Ok(Round::Settled) };
        }
        let now = now();
        let is = named(entries.iter(), &stored.present);
        let certificate = stored::certificate_made(&secret);
        match secret_path::step(stored.times(), is, certificate, self.times, now) {
            Step::Nothing => Ok(Round::Settled),
            Step::Write => self.write([&new_pods, &evictions], &secret, &stored, now).await,
            Step::Confirm => {
                info!("the API server calls the webhooks by their secret path");
                self.store(&mut secret, &stored.confirmed(now, self.times.overlap())).await
            }
            Step::Forget => {
                info!("the webhook's secret path before the present one is served no more");
                self.store(&mut secret, &stored.without_previous()).await
            }
            Step::Replace => {
                info!("another secret path for the webhooks is made");
                let next = stored.replaced(now).map_err(Hitch::Failed)?;
                self.store(&mut secret, &next).await
            }
        }
    }

    /// The Secret and what is stored in it, made if need be; none: it is not to be made yet, or has just been.
    async fn stored(&self) -> Result<Option<(Secret, Stored)>, String> {
        let name = &self.own.secret;
        let found = within(self.secrets.get_opt(name)).await.map_err(|error| self.said(&error))?;
        let Some(mut secret) = found else {
            if self.from_files {
                let metadata = ObjectMeta { name: Some(name.clone()), ..ObjectMeta::default() };
                let mut secret = Secret { metadata, type_: Some("Opaque".into()), ..Secret::default() };
                Stored::make(now())?.put(&mut secret)?;
                match within(self.secrets.create(&PostParams::default(), &secret)).await {
                    Ok(_) => info!(secret = name, "made a secret path for the webhooks"),
                    Err(kube::Error::Api(status)) if status.code == 409 => {}
                    Err(error) => return Err(self.said(&error)),
                }
            }
            return Ok(None);
        };
        if !stored::is_own(&secret) {
            if !self.from_files {
                return Ok(None);
            }
            return Err(format!(
                "the Secret {}/{name} is not Headgate's, so the webhook's path is not kept in it; expected the name of \
                 one that it may make in --webhook-secret, and in the Role of config/rbac/webhook.yaml",
                self.namespace
            ));
        }
        if let Some(stored) = stored::read(&secret) {
            return Ok(Some((secret, stored)));
        }
        info!(secret = name, "made a secret path for the webhooks");
        Stored::make(now())?.put(&mut secret)?;
        self.replace(&secret).await?;
        Ok(None)
    }

    /// Has the API server call the present path, if all who may be called serve it.
    async fn write(
        &self,
        found: [&Option<Found>; 2],
        secret: &Secret,
        stored: &Stored,
        now: i64,
    ) -> Result<Round, Hitch> {
        let authorities = secret.data.as_ref().and_then(|data| data.get("ca.crt"));
        let authorities = authorities.map(|authorities| &*authorities.0).unwrap_or_default();
        for entry in &own(found) {
            let spread = self.times.spread();
            if matches!(entry.call, super::Call::Url(_)) && now.saturating_sub(stored.times().made) < spread {
                return Err(Hitch::Waits(format!(
                    "replicas that are called by a url cannot be asked one by one, so they have {spread} seconds to read it"
                )));
            }
            let bundle = if entry.bundle.is_empty() { authorities } else { &entry.bundle };
            let path = stored.present.path(entry.kind);
            probe::all_serve(&self.client, entry, bundle, &path).await.map_err(Hitch::Waits)?;
        }
        let [new_pods, evictions] = found;
        let unwritten = |error: kube::Error| match &error {
            kube::Error::Api(status) if [409, 422].contains(&status.code) => Hitch::Waits(format!(
                "the configurations {} were changed meanwhile, or take no path: {}",
                self.own.configuration, status.message
            )),
            error => Hitch::Failed(self.said(error)),
        };
        if let Some(found) = new_pods {
            self.configurations.write_for_new_pods(found, &stored.present).await.map_err(unwritten)?;
        }
        if let Some(found) = evictions {
            self.configurations.write_for_evictions(found, &stored.present).await.map_err(unwritten)?;
        }
        info!(configuration = self.own.configuration, "the API server is told the webhook's secret path");
        Ok(Round::Changed)
    }

    async fn store(&self, secret: &mut Secret, stored: &Stored) -> Result<Round, Hitch> {
        stored.put(secret).map_err(Hitch::Failed)?;
        self.replace(secret).await.map_err(Hitch::Failed)?;
        Ok(Round::Changed)
    }

    async fn replace(&self, secret: &Secret) -> Result<(), String> {
        match within(self.secrets.replace(&self.own.secret, &PostParams::default(), secret)).await {
            Ok(_) => Ok(()),
            // Somebody else was first: seen the next time.
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
            Err(error) => Err(self.said(&error)),
        }
    }

    fn said(&self, error: &kube::Error) -> String {
        match error {
            kube::Error::Api(status) if status.code == 403 => format!(
                "{}; expected the roles of config/rbac/webhook.yaml: create, get and update for the Secret {}, get and \
                 patch for both configurations {}",
                status.message, self.own.secret, self.own.configuration
            ),
            error => error.to_string(),
        }
    }
}

/// Headgate's own entries of both configurations.
fn own(found: [&Option<Found>; 2]) -> Vec<Entry> {
    found.into_iter().flatten().flat_map(|found| found.entries.iter().cloned()).collect()
}
