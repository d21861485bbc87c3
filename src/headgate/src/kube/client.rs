//! Creates clients for the Kubernetes API.

use std::{path::PathBuf, time::Duration};

use kube::{
    Client, Config,
    client::ClientBuilder,
    config::{KubeConfigOptions, Kubeconfig, KubeconfigError},
};
use thiserror::Error;

use super::{
    installation::NAMESPACE,
    lists::Bounded,
    proxy::{self, ProxyError},
};

/// The reason why there is no client.
#[derive(Debug, Error)]
pub enum ClientError {
    /// No kubeconfig and no service account was found, or the configuration cannot be read.
    #[error(
        "no usable Kubernetes configuration: {0}. Set KUBECONFIG, create ~/.kube/config, or run in a pod \
         with a service account"
    )]
    Config(#[from] kube::config::InferConfigError),
    /// The kubeconfig cannot be read, or does not contain the requested context.
    #[error("cannot use the kubeconfig: {0}. Correct --kubeconfig, or the context in --context")]
    Kubeconfig(#[from] kube::config::KubeconfigError),
    /// The configured proxy cannot be used.
    #[error(transparent)]
    Proxy(#[from] ProxyError),
    /// The Kubernetes client cannot read `NO_PROXY`.
    #[error(
        "cannot read NO_PROXY: {0}. Write host names, domains, addresses and CIDRs, separated by single \
         commas"
    )]
    NoProxy(String),
    /// The configuration was read, but does not result in a valid client.
    #[error("cannot use the Kubernetes configuration: {0}")]
    Client(#[from] kube::Error),
}

/// The client closes a connection that is silent for this time while an answer is pending. A watch times out earlier
/// ([`watch`](super::watch)). Therefore, a broken connection or an unresponsive API server is detected within 30 s.
const SILENCE: Duration = Duration::from_secs(30);

/// The file that contains the namespace of a pod.
const OWN: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// Headgate's own namespace, if no flag sets it. In a pod, the namespace of the ServiceAccount is used. Outside of a
/// pod, the default of all commands and manifests is used. The namespace of the kubeconfig's context does not matter.
pub fn own_namespace() -> String {
    let pods = std::fs::read_to_string(OWN).ok().map(|text| text.trim().to_owned());
    pods.filter(|name| !name.is_empty()).unwrap_or_else(|| NAMESPACE.to_owned())
}

/// The cluster to connect to. Unset fields have the same defaults as in kubectl.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Which {
    /// The path of the kubeconfig.
    pub kubeconfig: Option<PathBuf>,
    /// The name of a context in the kubeconfig.
    pub context: Option<String>,
}

impl Which {
    async fn config(&self) -> Result<Config, ClientError> {
        let Self { kubeconfig, context } = self;
        let read = kubeconfig.as_ref().map_or_else(Kubeconfig::read, Kubeconfig::read_from);
        let read = match read {
            Ok(read) => read,
            // A pod has no kubeconfig.
            Err(_) if kubeconfig.is_none() && context.is_none() => return Ok(Config::infer().await?),
            Err(error) => return Err(error.into()),
        };
        let named = proxy_of(&read, context.as_deref()).map(str::to_owned);
        let options = KubeConfigOptions { context: context.clone(), ..KubeConfigOptions::default() };
        let config = Config::from_custom_kubeconfig(read, &options).await;
        let mut config = config.map_err(|error| match error {
            KubeconfigError::ParseNoProxy(error) => ClientError::NoProxy(error.to_string()),
            error => error.into(),
        })?;
        // The client would compare `NO_PROXY` with the host name of the proxy.
        config.proxy_url = proxy::of(&config.cluster_url, named.as_deref(), |name| std::env::var(name).ok())?;
        Ok(config)
    }
}

/// The `proxy-url` of the cluster in the context `context` or in the current context.
fn proxy_of<'a>(read: &'a Kubeconfig, context: Option<&str>) -> Option<&'a str> {
    let context = context.or(read.current_context.as_deref())?;
    let named = read.contexts.iter().find(|named| named.name == context)?.context.as_ref()?;
    let cluster = read.clusters.iter().find(|cluster| cluster.name == named.cluster)?;
    cluster.cluster.as_ref()?.proxy_url.as_deref()
}

/// Connects with `KUBECONFIG`, `~/.kube/config` or the pod's service account.
///
/// Retries inside the client are disabled. Each caller has its own retries, and retries inside the client would delay
/// the caller by minutes.
pub async fn connect() -> Result<Client, ClientError> {
    connect_to(&Which::default()).await
}

/// Connects to the cluster `which`.
pub async fn connect_to(which: &Which) -> Result<Client, ClientError> {
    let mut config = which.config().await?;
    config.connect_timeout = Some(Duration::from_secs(5));
    config.read_timeout = Some(SILENCE);
    // A pooled connection may have been idle, so the timeout starts with the request.
    config.reset_reader_on_write = true;
    config.default_retry = false;
    Ok(ClientBuilder::try_from(config)?.with_layer(&Bounded).build())
}
