//! `headgate certificates`: manages the webhook's certificate, its secret path, and both in the webhook configurations.
//!
//! It is a separate process, because its ServiceAccount may change what the API server calls and trusts.
//!
//! ```text
//!             ┌──► Secret ──► kubelets ──► the files that replicas of `headgate run` serve
//!  keeper ────┤
//!             └──► both webhook configurations: caBundle, path
//!  renewal: the next step, a pure function of both and the time
//! ```
//!
//! It listens on no port, and needs only the Kubernetes API.

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
    /// The names and addresses of the webhook for the API server.
    pub names: Vec<String>,
    /// The name of the Secret.
    pub secret: String,
    /// The name of both webhook configurations.
    pub configuration: String,
    /// How long a certificate is valid.
    pub lifetime: Duration,
}

/// The default name of the Secret.
#[must_use]
pub fn secret_name(lease: &str) -> String {
    format!("{lease}-webhook-tls")
}

/// Runs until SIGTERM or SIGINT.
///
/// # Errors
/// A part cannot be started, or ends.
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
