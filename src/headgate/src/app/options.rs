//! The options of `headgate run`, and what follows from them alone.

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
    /// Which namespaces are served.
    pub serves: Serves,
    /// The address of probes and metrics.
    pub admin_address: SocketAddr,
    /// The address of the debug endpoints.
    pub debug_address: SocketAddr,
    /// Which metrics are served.
    pub metrics: Level,
    /// The address of the docs, if Events link to them.
    pub docs_url: Option<Box<str>>,
    /// Whether IngressDaemonSets are shown.
    pub show_daemonsets: bool,
    /// How many entries the journal keeps.
    pub journal_entries: usize,
    /// Which replica leads.
    pub leading: Leading,
    /// How the engine works; what it works on is filled in here.
    pub settings: Settings,
    /// How the webhook for new pods is served, if it is.
    pub webhook: Option<webhook::Options>,
}

impl Options {
    /// Whether the webhook ends together with the other parts.
    ///
    /// # Errors
    /// Returns what to set.
    pub(super) fn check_webhook(&self) -> anyhow::Result<()> {
        let Some(webhook) = &self.webhook else { return Ok(()) };
        let lease = self.leading.elect.then(|| self.leading.timing.duration());
        webhook.check(lease, self.settings.read_only)
    }

    /// The engine for what is in this region of AWS.
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

/// Only for jitter: it need not be secret, just different between replicas.
fn seed() -> u64 {
    u64::from(wall().elapsed().subsec_nanos()) ^ (u64::from(std::process::id()) << 32)
}
