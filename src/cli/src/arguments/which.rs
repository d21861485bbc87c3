//! The arguments that choose the cluster. kubectl has the same arguments.

use std::path::PathBuf;

use clap::Args;
use headgate::kube::client;

/// The arguments.
#[derive(Clone, Debug, Default, Args)]
pub struct Which {
    /// Path of the kubeconfig. Default: KUBECONFIG, ~/.kube/config, or the ServiceAccount of the pod.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig. Default: the current context.
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
}

impl Which {
    pub fn cluster(self) -> client::Which {
        client::Which { kubeconfig: self.kubeconfig, context: self.context }
    }
}
