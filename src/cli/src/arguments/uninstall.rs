//! `headgate uninstall`.

use clap::Args;
use headgate::{
    flags::{lease_name, namespace},
    kube::installation::{LEASE, Serves},
};

use super::which::Which;
use crate::uninstall::Options;

/// The arguments.
#[derive(Debug, Args)]
pub struct Uninstall {
    /// Take Headgate's own targets out of their target groups, and forget them. Without it they stay, and so do the
    /// TargetLedgers that name them.
    #[arg(long)]
    remove_targets: bool,
    /// Only open the readiness gates that wait, in these namespaces: those that a Headgate which goes on no longer serves.
    #[arg(long, conflicts_with_all = ["remove_targets", "stop", "force"])]
    only_gates: bool,
    /// Also while a Headgate holds the Lease, and if it served other namespaces.
    #[arg(long)]
    force: bool,
    /// Scale this Deployment in Headgate's own namespace down to 0 first, and wait until its pods are gone.
    #[arg(long, value_name = "DEPLOYMENT")]
    stop: Option<String>,
    /// As `headgate run` has it.
    #[arg(long, env = "HEADGATE_NAMESPACES", value_delimiter = ',', value_parser = namespace, conflicts_with = "namespace_selector")]
    namespaces: Vec<String>,
    /// As `headgate run` has it.
    #[arg(long, env = "HEADGATE_NAMESPACE_SELECTOR", value_name = "SELECTOR")]
    namespace_selector: Option<String>,
    /// As `headgate run` has it.
    #[arg(long, env = "HEADGATE_OWN_NAMESPACE", value_name = "NAMESPACE", value_parser = namespace)]
    own_namespace: Option<String>,
    /// As `headgate run` has it.
    #[arg(long, env = "HEADGATE_LEASE_NAME", default_value = LEASE, value_parser = lease_name, value_name = "NAME")]
    lease_name: String,
    /// As `headgate certificates` has it: its entries are taken out, so that nobody is asked any more. Default: LEASE.
    #[arg(long, env = "HEADGATE_WEBHOOK_CONFIGURATION", value_parser = lease_name, value_name = "NAME")]
    webhook_configuration: Option<String>,
    #[command(flatten)]
    which: Which,
}

impl Uninstall {
    /// What was asked for.
    ///
    /// # Errors
    /// If it is not said in which namespaces the gates are.
    pub fn options(self) -> anyhow::Result<Options> {
        let unnamed = self.namespaces.is_empty() && self.namespace_selector.is_none();
        anyhow::ensure!(
            !(self.only_gates && unnamed),
            "--only-gates: expected --namespaces or --namespace-selector as well, because a Headgate may serve the others"
        );
        Ok(Options {
            which: self.which.cluster(),
            serves: Serves { namespaces: self.namespaces, selector: self.namespace_selector },
            own_namespace: self.own_namespace,
            lease: self.lease_name,
            webhook_configuration: self.webhook_configuration,
            only_gates: self.only_gates,
            remove_targets: self.remove_targets,
            force: self.force,
            stop: self.stop,
        })
    }
}
