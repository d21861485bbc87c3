//! What `headgate run` is told, and what follows from it alone.

use std::{net::SocketAddr, path::PathBuf, sync::Arc};

use headgate_core::{Engine, Scope, Settings, leadership::lease::Timing, requests::CALL_PATIENCE};

use crate::{
    kube::{client, installation::Serves, lease},
    runtime::clock::{Wall, wall},
    webhook,
};

/// What `headgate run` is told.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which namespaces are served.
    pub serves: Serves,
    /// Where probes and metrics are served.
    pub admin_address: SocketAddr,
    /// Where people's questions are answered.
    pub debug_address: SocketAddr,
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

/// How a replica comes to lead.
#[derive(Clone, Debug)]
pub struct Leading {
    /// By holding a Lease; otherwise it always leads.
    pub elect: bool,
    /// Headgate's own namespace; none: [`client::own_namespace`].
    pub namespace: Option<String>,
    /// The name of the Lease, which is the installation's.
    pub lease: String,
    /// How this replica calls itself.
    pub identity: Arc<str>,
    /// How long the Lease lasts.
    pub timing: Timing,
    /// Where this replica leaves its identity for the kubelet to find.
    pub termination_log: PathBuf,
}

impl Options {
    /// Whether the webhook goes together with the rest.
    ///
    /// # Errors
    /// Says what was expected.
    pub(super) fn check_webhook(&self) -> anyhow::Result<()> {
        let Some(webhook) = &self.webhook else { return Ok(()) };
        let lease = self.leading.elect.then(|| self.leading.timing.duration());
        webhook.check(lease, self.settings.read_only)
    }

    /// Where pods, Services and TargetBindings are watched.
    pub(super) fn scopes(&self) -> Vec<Scope> {
        match &self.serves.namespaces[..] {
            [] => vec![Scope::Cluster],
            named => named.iter().map(|name| Scope::Namespace(name.as_str().into())).collect(),
        }
    }

    /// Headgate's own namespace.
    pub(super) fn own_namespace(&self) -> String {
        self.leading.namespace.clone().unwrap_or_else(client::own_namespace)
    }

    /// How the Lease is kept.
    pub(super) fn lease(&self, own_namespace: &str) -> lease::Options {
        lease::Options {
            name: self.leading.lease.clone(),
            namespace: own_namespace.to_owned(),
            identity: self.leading.identity.clone(),
            timing: self.leading.timing,
            serves: self.serves.to_string(),
        }
    }

    /// The engine for what is in this region of AWS.
    pub(super) fn engine(&self, region: &str, wall: Wall) -> Engine {
        Engine::new(Settings {
            region: region.into(),
            scopes: self.scopes(),
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
