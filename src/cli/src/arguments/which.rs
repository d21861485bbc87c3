//! Which cluster a command is about, as kubectl is told it.

use std::path::PathBuf;

use clap::Args;
use headgate::kube::client;

/// The arguments.
#[derive(Clone, Debug, Default, Args)]
pub struct Which {
    /// The kubeconfig. Default: KUBECONFIG, ~/.kube/config, or the ServiceAccount of the pod that this runs in.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig. Default: its current one.
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
}

impl Which {
    /// What was asked for.
    pub fn cluster(self) -> client::Which {
        client::Which { kubeconfig: self.kubeconfig, context: self.context }
    }
}
