//! The options of `headgate run`, and values that depend on the options alone.

use std::net::SocketAddr;

use headgate_core::{Engine, Settings, requests::CALL_PATIENCE};

use super::leading::Leading;
use crate::{
    kube::installation::Serves,
    metrics::Level,
    runtime::clock::{Wall, wall},
    webhook,
};

/// The options of `headgate run`.
#[derive(Clone, Debug)]
pub struct Options {
    /// The namespaces that Headgate manages.
    pub serves: Serves,
    /// The listen address for probes and metrics.
    pub admin_address: SocketAddr,
    /// The listen address of the debug endpoints.
    pub debug_address: SocketAddr,
    /// The level of the served metrics.
    pub metrics: Level,
    /// The URL of the docs, if Events contain links to the docs.
    pub docs_url: Option<Box<str>>,
    /// Whether Headgate shows IngressDaemonSets.
    pub show_daemonsets: bool,
    /// The maximum number of journal entries.
    pub journal_entries: usize,
    /// The options of the leader election.
    pub leading: Leading,
    /// The settings of the engine. `Options::engine` sets the region and the scopes.
    pub settings: Settings,
    /// The options of the webhooks, if this replica serves them.
    pub webhook: Option<webhook::Options>,
}

impl Options {
    /// Checks that the options of the webhooks fit the other options.
    ///
    /// # Errors
    /// The error names the option to set.
    pub(super) fn check_webhook(&self) -> anyhow::Result<()> {
        let Some(webhook) = &self.webhook else { return Ok(()) };
        let lease = self.leading.elect.then(|| self.leading.timing.duration());
        webhook.check(lease, self.settings.read_only)
    }

    /// Creates the engine for this AWS region.
    pub(super) fn engine(&self, region: &str, wall: Wall) -> Engine {
        Engine::new(Settings {
            region: region.into(),
            scopes: self.serves.scopes(),
            namespaces_are_selected: self.serves.selector.is_some(),
            late: self.leading.timing.duration() + 2 * CALL_PATIENCE,
            seed: seed(),
            started: wall.started(),
            ..self.settings.clone()
        })
    }
}

/// A seed for jitter. The seed need not be secret, but must differ between replicas.
fn seed() -> u64 {
    u64::from(wall().elapsed().subsec_nanos()) ^ (u64::from(std::process::id()) << 32)
}
