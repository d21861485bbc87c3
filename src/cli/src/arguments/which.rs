//! Which cluster a command uses, with the arguments of kubectl.

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
    /// Converts the arguments.
    pub fn cluster(self) -> client::Which {
        client::Which { kubeconfig: self.kubeconfig, context: self.context }
    }
}
