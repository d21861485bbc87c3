//! The webhooks: the API server asks what a pod should be given before it creates it, and whether a pod may be evicted.
//!
//! ```text
//!  API server ──AdmissionReview──► server ─► review ─► pod ─► question to the engine's owner
//!                                                               │  (deadline, then as if nothing bound it)
//!             ◄──JSON Patch─────── patch ◄── inject::decide ◄───┘
//!                                               ▲
//!                                             giving: what there is to give
//! ```
//!
//! Served by every replica, whoever leads. It never refuses a pod. An eviction that has to wait is answered with 429
//! (`evict`), and noted on the pod behind the answer (`notes`); the leader does the rest. Before the eviction of a pod without
//! a hold passes, its Node is read (`node_reads`). What cannot be read is answered with a 4xx, which the API server takes as an absent webhook (`failurePolicy: Ignore`).

pub mod ask;
pub mod certificate;
pub mod evict;
pub mod files;
pub mod giving;
pub mod node_reads;
pub mod notes;
pub mod patch;
pub mod path;
pub mod pod;
#[cfg(test)]
mod properties;
pub mod review;
pub mod secret;
pub mod server;
mod volume;

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use anyhow::Context;
use headgate_core::model::hold::MARGIN;
use kube::Client;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::info;

use self::{ask::Asking, evict::Evicting, giving::Giving, notes::OnPods, path::Paths};
use crate::{
    kube::evictions::Evictions,
    metrics::Metrics,
    runtime::{clock::Clock, supervise::Supervisor},
    serving::{listen::listen, tls},
};

/// How the webhook is served.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where.
    pub address: SocketAddr,
    /// Where its certificate comes from.
    pub certificate: Source,
    /// What Headgate keeps itself.
    pub own: Own,
    /// What there is to give.
    pub giving: giving::Options,
}

/// Where the certificate comes from.
#[derive(Clone, Debug)]
pub enum Source {
    /// A folder with `tls.crt` and `tls.key`, which somebody else looks after.
    Files(PathBuf),
    /// Headgate makes it.
    Own,
}

/// How Headgate keeps its secret path, and makes a certificate for itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Own {
    /// The names and addresses that the API server calls it by; none: that of the Service `LEASE-webhook`.
    pub names: Vec<String>,
    /// The name of the Secret, in Headgate's own namespace; empty: `LEASE-webhook-tls`.
    pub secret: String,
    /// The name of the MutatingWebhookConfiguration and the ValidatingWebhookConfiguration whose path and `caBundle` are
    /// kept right; empty: `LEASE`.
    pub configuration: String,
    /// How long a certificate and a secret path live.
    pub lifetime: Duration,
}

/// The name of the Secret, if it was not given.
#[must_use]
pub fn secret_name(lease: &str) -> String {
    format!("{lease}-webhook-tls")
}

impl Own {
    /// With names after that of the Lease, which names the installation, for those that were not given.
    #[must_use]
    pub fn of_installation(mut self, lease: &str, namespace: &str) -> Self {
        if self.names.is_empty() {
            self.names = vec![format!("{lease}-webhook.{namespace}.svc")];
        }
        if self.secret.is_empty() {
            self.secret = secret_name(lease);
        }
        if self.configuration.is_empty() {
            lease.clone_into(&mut self.configuration);
        }
        self
    }
}

impl Options {
    /// Whether it goes together with the rest; `lease`: how long the Lease lasts, if replicas elect their leader by one.
    ///
    /// # Errors
    /// Says what was expected.
    pub fn check(&self, lease: Option<Duration>, read_only: bool) -> anyhow::Result<()> {
        anyhow::ensure!(
            !read_only,
            "--webhook-address with --read-only: a readiness gate that is added to a pod would never be opened; expected \
             one of the two"
        );
        let lease = lease.unwrap_or_default();
        anyhow::ensure!(
            lease < MARGIN,
            "--lease-duration is {lease:?}: a pod that ends while a killed leader is still missed would not be held \
             long enough; expected less than {MARGIN:?}, the margin of headgate.dev/hold: auto"
        );
        Ok(())
    }
}

/// What answers need.
#[derive(Clone)]
pub struct Webhook {
    /// What would bind a pod.
    pub asking: Asking,
    /// What evictions need besides.
    pub evicting: Evicting,
    /// The metrics.
    pub metrics: Arc<Metrics>,
    /// The time.
    pub clock: Clock,
    /// The paths that are answered.
    pub paths: Paths,
    /// What there is to give.
    pub giving: Giving,
}

/// What the webhook is served with.
pub struct Served<L> {
    /// For the certificate.
    pub client: Client,
    /// Headgate's own namespace.
    pub own_namespace: String,
    /// The name of the Lease.
    pub lease: String,
    /// Whether this replica leads.
    pub leads: L,
    /// What answers.
    pub webhook: Webhook,
    /// Writes what is noted of evictions.
    pub evictions: Evictions,
    /// The certificate that is served, as soon as there is one.
    pub certificate: watch::Sender<tls::Served>,
    /// The paths that are served.
    pub paths: path::Publisher,
}

impl<L: Fn() -> bool + Clone + Send + Sync + 'static> Served<L> {
    /// Starts serving.
    ///
    /// # Errors
    /// If the address cannot be listened on.
    pub async fn start(
        self,
        options: Options,
        tasks: &mut Supervisor,
        stop: &CancellationToken,
    ) -> anyhow::Result<()> {
        let listener = listen(options.address).await.with_context(|| {
            format!("cannot listen on {}; expected a free address in --webhook-address", options.address)
        })?;
        info!(webhook = %listener.local_addr()?, "serving the webhooks for new pods and evictions");
        let (serve, served) = (self.certificate.clone(), self.certificate.subscribe());
        let metrics = self.webhook.metrics.clone();
        let (namespace, from_files) = (&self.own_namespace, matches!(options.certificate, Source::Files(_)));
        let own = options.own.of_installation(&self.lease, namespace);
        let looker = path::Looker::new(self.client.clone(), namespace, own.clone(), self.paths);
        tasks.spawn("webhook paths", looker.run());
        let giving = self.webhook.giving.clone();
        if giving.wants_the_version() {
            tasks.spawn("version of the API server", giving.learn(self.client.clone()));
        }
        let (client, leads) = (self.client.clone(), self.leads.clone());
        let keeper = path::Keeper::new(client, namespace, own.clone(), from_files, leads);
        tasks.spawn("webhook path keeper", keeper.run());
        match options.certificate {
            Source::Files(folder) => tasks.spawn("webhook certificate", async move {
                files::keep(folder, serve).await;
                Ok(())
            }),
            Source::Own => {
                let keeper = secret::Keeper::new(self.client, namespace, own, self.leads, serve, metrics);
                tasks.spawn("webhook certificate", keeper.run());
            }
        }
        let Webhook { asking, clock, evicting, .. } = &self.webhook;
        let on_pods = OnPods { asking: asking.clone(), evictions: self.evictions, clock: *clock };
        tasks.spawn("notes of evictions", evicting.notes.clone().write(on_pods));
        tasks.spawn_draining("webhook", server::serve(listener, served, self.webhook, stop.clone()));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_named_is_named_after_the_lease() {
        let own = |name: &str| Own {
            names: Vec::new(),
            secret: name.into(),
            configuration: name.into(),
            lifetime: Duration::from_secs(60),
        };
        let made = own("").of_installation("team-b", "ops");
        assert_eq!(made.names, ["team-b-webhook.ops.svc"]);
        assert_eq!((&*made.secret, &*made.configuration), ("team-b-webhook-tls", "team-b"));
        let given = own("x").of_installation("team-b", "ops");
        assert_eq!((&*given.secret, &*given.configuration), ("x", "x"));
    }

    #[test]
    fn a_lease_that_outlasts_the_margin_of_the_hold_is_refused_and_so_is_one_that_opens_no_gates() {
        let own = Own {
            names: Vec::new(),
            secret: String::new(),
            configuration: String::new(),
            lifetime: Duration::from_secs(60),
        };
        let certificate = Source::Files("/tls".into());
        let giving = giving::Options { probe_grace: 5, image: None };
        let options = Options { address: ([127, 0, 0, 1], 0).into(), certificate, own, giving };
        let lease = |seconds| Some(Duration::from_secs(seconds));
        assert!(options.check(lease(24), false).is_ok());
        let error = options.check(lease(25), false).unwrap_err().to_string();
        assert!(error.contains("expected less than 25s"), "{error}");
        assert!(options.check(None, false).is_ok());
        let error = options.check(lease(15), true).unwrap_err().to_string();
        assert!(error.contains("would never be opened"), "{error}");
    }
}
