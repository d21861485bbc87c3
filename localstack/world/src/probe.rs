//! Probes whether the components of the control plane serve.
//!
//! The caller decides when and how often to probe. Probes never change the cluster.

use std::{net::SocketAddr, time::Duration};

use hyper::{Request, Uri};
use k8s_openapi::api::core::v1::{Namespace, Node, ServiceAccount};
use kube::{
    Api, Client, Config,
    api::ListParams,
    config::{KubeConfigOptions, Kubeconfig},
};

use crate::component::Component;

/// The timeout of one probe.
const PATIENCE: Duration = Duration::from_secs(2);

/// The probes of one local cluster.
#[derive(Clone)]
pub(crate) struct Probe {
    administrator: Config,
}

impl Probe {
    /// Creates a probe with the permissions of this kubeconfig.
    pub(crate) async fn new(kubeconfig: &str) -> Result<Self, ProbeError> {
        let parsed = Kubeconfig::from_yaml(kubeconfig)?;
        let mut administrator = Config::from_custom_kubeconfig(parsed, &KubeConfigOptions::default()).await?;
        // The caller retries, so the client must not retry.
        administrator.default_retry = false;
        Ok(Self { administrator })
    }

    /// Checks whether a component of the control plane serves. All other components always pass.
    pub(crate) async fn serves(&self, component: Component, address: SocketAddr) -> Result<(), ProbeError> {
        let (scheme, path) = match component {
            Component::Etcd => ("http", "/health"),
            Component::ApiServer => ("https", "/readyz"),
            Component::ControllerManager | Component::Scheduler => ("https", "/healthz"),
            Component::Elbv2 | Component::Kubelet | Component::Nodes => return Ok(()),
        };
        let uri: Uri = format!("{scheme}://{address}").parse()?;
        let mut config = self.administrator.clone();
        config.cluster_url = uri;
        let question = Request::get(path).body(Vec::new())?;
        let client = Client::try_from(config)?;
        in_time(client.request_text(question)).await.map(|_| ())
    }

    /// Returns the version of the API server, such as `v1.36.3`.
    pub(crate) async fn version(&self) -> Result<String, ProbeError> {
        let client = Client::try_from(self.administrator.clone())?;
        Ok(in_time(client.apiserver_version()).await?.git_version)
    }

    /// Checks whether the namespace `default` and its ServiceAccount exist, so that pods can be created.
    pub(crate) async fn default_namespace(&self) -> Result<(), ProbeError> {
        let client = Client::try_from(self.administrator.clone())?;
        in_time(Api::<Namespace>::all(client.clone()).get("default")).await?;
        in_time(Api::<ServiceAccount>::namespaced(client, "default").get("default")).await?;
        Ok(())
    }

    /// Checks whether this many nodes are ready and schedulable.
    pub(crate) async fn nodes(&self, wanted: usize) -> Result<(), ProbeError> {
        let client = Client::try_from(self.administrator.clone())?;
        let nodes = in_time(Api::<Node>::all(client).list(&ListParams::default())).await?;
        let ready = nodes.items.iter().filter(|node| is_ready(node)).count();
        if ready >= wanted { Ok(()) } else { Err(ProbeError::Nodes { ready, wanted }) }
    }
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let says_so =
        conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True");
    // The controllers remove the taint of a new node just after the node becomes ready.
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    let tainted = taints.into_iter().any(|taint| taint.key.starts_with("node.kubernetes.io/"));
    says_so && !tainted
}

async fn in_time<T>(question: impl Future<Output = kube::Result<T>>) -> Result<T, ProbeError> {
    Ok(tokio::time::timeout(PATIENCE, question).await.map_err(|_| ProbeError::Slow)??)
}

/// The reason why a component does not serve yet, or cannot be probed.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The probe timed out.
    #[error("no answer within {} s", PATIENCE.as_secs())]
    Slow,
    /// Some nodes are missing or not ready.
    #[error("{ready} of {wanted} nodes are ready")]
    Nodes {
        /// The number of ready and schedulable nodes.
        ready: usize,
        /// The expected number of nodes.
        wanted: usize,
    },
    /// The component rejected the request, or does not listen.
    #[error(transparent)]
    Kubernetes(Box<kube::Error>),
    /// The kubeconfig of the cluster is invalid.
    #[error("the kubeconfig of the world cannot be used: {0}")]
    Kubeconfig(#[from] kube::config::KubeconfigError),
    /// The request has an invalid address or path.
    #[error("cannot ask: {0}")]
    Question(#[from] hyper::http::Error),
    /// An address is not a URL.
    #[error("cannot ask: {0}")]
    Uri(#[from] hyper::http::uri::InvalidUri),
}

impl From<kube::Error> for ProbeError {
    fn from(error: kube::Error) -> Self {
        Self::Kubernetes(Box::new(error))
    }
}
