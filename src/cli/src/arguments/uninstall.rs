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
    /// Also deregister Headgate's own targets and delete the TargetLedgers. Without this flag, the targets and
    /// TargetLedgers remain.
    #[arg(long)]
    remove_targets: bool,
    /// Only open waiting readiness gates, in the given namespaces. Use this flag for namespaces that a running Headgate
    /// no longer manages.
    #[arg(long, conflicts_with_all = ["remove_targets", "stop", "force"])]
    only_gates: bool,
    /// Continue even if a replica holds the Lease, or if the last leader managed other namespaces.
    #[arg(long)]
    force: bool,
    /// First scale this Deployment in Headgate's namespace to 0, and wait until its pods are deleted.
    #[arg(long, value_name = "DEPLOYMENT")]
    stop: Option<String>,
    /// Managed namespaces, comma-separated; must match `headgate run --namespaces`.
    #[arg(long, env = "HEADGATE_NAMESPACES", value_delimiter = ',', value_parser = namespace, conflicts_with = "namespace_selector")]
    namespaces: Vec<String>,
    /// Label selector of the managed namespaces; must match `headgate run --namespace-selector`.
    #[arg(long, env = "HEADGATE_NAMESPACE_SELECTOR", value_name = "SELECTOR")]
    namespace_selector: Option<String>,
    /// Headgate's namespace; must match `headgate run --own-namespace`.
    #[arg(long, env = "HEADGATE_OWN_NAMESPACE", value_name = "NAMESPACE", value_parser = namespace)]
    own_namespace: Option<String>,
    /// Name of the Lease; must match `headgate run --lease-name`.
    #[arg(long, env = "HEADGATE_LEASE_NAME", default_value = LEASE, value_parser = lease_name, value_name = "NAME")]
    lease_name: String,
    /// Name of the webhook configurations to empty; must match `headgate certificates`. Default: LEASE.
    #[arg(long, env = "HEADGATE_WEBHOOK_CONFIGURATION", value_parser = lease_name, value_name = "NAME")]
    webhook_configuration: Option<String>,
    #[command(flatten)]
    which: Which,
}

impl Uninstall {
    /// Converts the arguments to options.
    ///
    /// # Errors
    /// The user set `--only-gates` without any namespace.
    pub fn options(self) -> anyhow::Result<Options> {
        let unnamed = self.namespaces.is_empty() && self.namespace_selector.is_none();
        anyhow::ensure!(
            !(self.only_gates && unnamed),
            "--only-gates needs --namespaces or --namespace-selector, because another Headgate may manage the other namespaces"
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
