//! `headgate doctor`.

use clap::Args;
use headgate::{
    certificates::secret_name,
    flags::{lease_name, namespace},
};

use super::explain::{Output, Way};
use crate::doctor::gather::{Names, Options};

/// The arguments.
#[derive(Debug, Args)]
pub struct Doctor {
    /// Check only bindings in this namespace, and Headgate itself. Default: all managed namespaces.
    #[arg(short, long, value_parser = namespace, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// Output format.
    #[arg(short, long, value_enum, default_value = "text", value_name = "FORMAT")]
    output: Output,
    /// Headgate's ServiceAccount. Default: the ServiceAccount of the leader's pod.
    #[arg(long, value_parser = lease_name, value_name = "NAME")]
    service_account: Option<String>,
    /// Name of the webhook configurations; must match `headgate certificates`. Default: the name of the Lease.
    #[arg(long, env = "HEADGATE_WEBHOOK_CONFIGURATION", value_name = "NAME")]
    webhook_configuration: Option<String>,
    /// Secret of the webhook; must match `headgate certificates`. Default: LEASE-webhook-tls.
    #[arg(long, env = "HEADGATE_WEBHOOK_SECRET", value_name = "NAME")]
    webhook_secret: Option<String>,
    #[command(flatten)]
    way: Way,
}

impl Doctor {
    /// Converts the arguments to options. The flag is true if the output format is JSON.
    pub fn options(self) -> (Options, bool) {
        let way = self.way.way();
        let webhook = Names {
            configuration: self.webhook_configuration.unwrap_or_else(|| way.lease.clone()),
            secret: self.webhook_secret.unwrap_or_else(|| secret_name(&way.lease)),
        };
        let options =
            Options { namespace: self.namespace, service_account: self.service_account, webhook, way };
        (options, self.output == Output::Json)
    }
}
