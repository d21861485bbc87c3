//! The webhooks, which the API server calls for each new pod and for each eviction of a pod.
//!
//! ```text
//!  API server ──AdmissionReview──► server ─► review ─► pod ─► query to the engine's owner
//!                                                               │  (after a deadline, as if the pod had no binding)
//!             ◄──JSON Patch─────── patch ◄── inject::decide ◄───┘
//!                                               ▲
//!                                             giving: the settings for new pods
//! ```
//!
//! Every replica serves the webhooks, including standbys. The webhooks never reject a new pod. An eviction that must
//! wait is rejected with 429 (`evict`), and Headgate records it on the pod after the answer (`notes`). The leader does
//! all other work for an eviction. Before Headgate allows the eviction of a pod without a hold, it reads the pod's Node
//! (`node_reads`). An invalid request gets a 4xx response, which the API server treats as if there were no webhook
//! (`failurePolicy: Ignore`).

pub mod ask;
pub mod evict;
pub mod files;
pub mod giving;
pub mod namespaces;
pub mod node_reads;
pub mod notes;
pub mod patch;
pub mod path;
pub mod pod;
#[cfg(test)]
mod properties;
pub mod review;
pub mod server;
mod volume;

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use anyhow::Context;
use headgate_core::model::hold::MARGIN;
use kube::Client;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::info;

use self::{
    ask::Asking, evict::Evicting, files::Published, giving::Giving, namespaces::Namespaces, notes::OnPods,
    path::CallPath,
};
use crate::{
    kube::evictions::Evictions,
    metrics::Metrics,
    runtime::{clock::Clock, supervise::Supervisor},
    serving::listen::listen,
};

/// The options of the webhooks.
#[derive(Clone, Debug)]
pub struct Options {
    /// The listen address of the webhooks.
    pub address: SocketAddr,
    /// The folder with the certificate, the key and the path.
    pub folder: PathBuf,
    /// The options for new pods.
    pub giving: giving::Options,
}

impl Options {
    /// Checks that these options fit the program's other options. `lease` is the duration of the Lease, if replicas
    /// elect a leader.
    ///
    /// # Errors
    /// The error states which option to change.
    pub fn check(&self, lease: Option<Duration>, read_only: bool) -> anyhow::Result<()> {
        anyhow::ensure!(
            !read_only,
            "--webhook-address with --read-only: nothing would ever open the readiness gates of new pods. \
             Remove one of the two flags"
        );
        let lease = lease.unwrap_or_default();
        anyhow::ensure!(
            lease < MARGIN,
            "--lease-duration is {lease:?}: a pod that terminates before a killed leader is replaced would \
             not be held long enough. Set less than {MARGIN:?}, the reserve of headgate.dev/hold: auto"
        );
        Ok(())
    }
}

/// The data that the webhooks need for their answers.
#[derive(Clone)]
pub struct Webhook {
    /// Queries to the engine.
    pub asking: Asking,
    /// The additional data for evictions.
    pub evicting: Evicting,
    /// The metrics.
    pub metrics: Arc<Metrics>,
    /// The time.
    pub clock: Clock,
    /// The path on which the webhooks are served. `None`: no certificate was read yet.
    pub path: watch::Receiver<Option<CallPath>>,
    /// The settings for new pods.
    pub giving: Giving,
    /// The limits that namespaces set.
    pub namespaces: Namespaces,
}

/// The parts that are needed to serve the webhooks.
pub struct Served {
    /// The client that requests the API server's version.
    pub client: Client,
    /// The data that the webhooks need for their answers.
    pub webhook: Webhook,
    /// Writes the records of evictions to pods.
    pub evictions: Evictions,
    /// The channels for the certificate and the path.
    pub published: Published,
}

impl Served {
    /// Starts the server and its tasks.
    ///
    /// # Errors
    /// The address is not available.
    pub async fn start(
        self,
        options: Options,
        tasks: &mut Supervisor,
        stop: &CancellationToken,
    ) -> anyhow::Result<()> {
        let listener = listen(options.address).await.with_context(|| {
            format!("cannot listen on {}. Set --webhook-address to a free address", options.address)
        })?;
        info!(webhook = %listener.local_addr()?, "serving the webhooks for new pods and evictions");
        let served = self.published.certificate.subscribe();
        let giving = self.webhook.giving.clone();
        if giving.wants_the_version() {
            tasks.spawn("version of the API server", giving.learn(self.client.clone()));
        }
        let keeping = files::keep(options.folder, self.published, self.webhook.metrics.clone());
        tasks.spawn("webhook certificate", async move {
            keeping.await;
            Ok(())
        });
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
    fn a_lease_that_outlasts_the_margin_of_the_hold_is_refused_and_so_is_one_that_opens_no_gates() {
        let giving = giving::Options { probe_grace: 5, max_grace: None, image: None };
        let options = Options { address: ([127, 0, 0, 1], 0).into(), folder: "/tls".into(), giving };
        let lease = |seconds| Some(Duration::from_secs(seconds));
        assert!(options.check(lease(24), false).is_ok());
        let error = options.check(lease(25), false).unwrap_err().to_string();
        assert!(error.contains("Set less than 25s"), "{error}");
        assert!(options.check(None, false).is_ok());
        let error = options.check(lease(15), true).unwrap_err().to_string();
        assert!(error.contains("would ever open"), "{error}");
    }
}
