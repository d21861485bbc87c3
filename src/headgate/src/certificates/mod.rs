//! `headgate certificates`: manages the webhook's certificate and secret path, and writes both to the webhook
//! configurations.
//!
//! The command is a separate process, because its ServiceAccount may change which webhooks the API server calls and
//! which CAs the API server trusts.
//!
//! ```text
//!             ┌──► Secret ──► kubelets ──► the files that replicas of `headgate run` serve
//!  keeper ────┤
//!             └──► both webhook configurations: caBundle, path
//!  renewal: decides the next step from both and the time
//! ```
//!
//! The process listens on no port, and needs only the Kubernetes API.

pub mod certificate;
pub mod configurations;
mod keeper;
mod renewal;
mod stored;

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::{
    admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration},
    core::v1::Secret,
};
use kube::Api;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tracing::info;

use self::keeper::{Keeper, watch};
use crate::{
    kube::client,
    runtime::supervise::{Supervisor, stop_on_signals},
};

/// The options of `headgate certificates`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Headgate's own namespace.
    pub namespace: String,
    /// The names and addresses at which the API server calls the webhook.
    pub names: Vec<String>,
    /// The name of the Secret.
    pub secret: String,
    /// The name that both webhook configurations have.
    pub configuration: String,
    /// The lifetime of a certificate.
    pub lifetime: Duration,
}

/// The default name of the Secret.
#[must_use]
pub fn secret_name(lease: &str) -> String {
    format!("{lease}-webhook-tls")
}

/// Runs `headgate certificates` until SIGTERM or SIGINT.
///
/// # Errors
/// A part cannot be started, or ends unexpectedly.
pub async fn run(options: Options) -> anyhow::Result<()> {
    let stop = CancellationToken::new();
    stop_on_signals(&stop)?;
    let client = client::connect().await?;
    let Options { namespace, secret, configuration, .. } = options.clone();
    info!(version = env!("CARGO_PKG_VERSION"), namespace, secret, configuration, "starting");
    let mut tasks = Supervisor::new(stop);
    let changed = Arc::new(Notify::new());
    let secrets: Api<Secret> = Api::namespaced(client.clone(), &namespace);
    tasks.spawn("watch the secret", watch(secrets, secret, changed.clone()));
    let for_new_pods: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    let name = "watch the mutatingwebhookconfiguration";
    tasks.spawn(name, watch(for_new_pods, configuration.clone(), changed.clone()));
    let for_evictions: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    let name = "watch the validatingwebhookconfiguration";
    tasks.spawn(name, watch(for_evictions, configuration, changed.clone()));
    tasks.spawn("certificates", Keeper::new(client, options, changed).run());
    tasks.run().await?;
    info!("ended");
    Ok(())
}
