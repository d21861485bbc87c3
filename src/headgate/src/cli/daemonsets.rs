//! The arguments of `headgate daemonsets`.

use std::net::SocketAddr;

use clap::Args;

use super::{leading::Leading, log::Log, namespace};
use crate::daemonsets::run::Options;

/// The name of the Lease, unless another is given.
const LEASE: &str = "headgate-daemonsets";

// Where arguments are put together from several places, as a chart's `extraArgs` are, the last one counts.
/// The flags.
#[derive(Debug, Args)]
#[command(args_override_self = true, mut_arg("lease_name", |arg| arg.default_value(LEASE)))]
pub struct Daemonsets {
    /// Only in these namespaces, comma-separated. Nodes are watched all the same. Default: in all namespaces.
    #[arg(long, env = "HEADGATE_NAMESPACES", value_delimiter = ',', value_parser = namespace)]
    namespaces: Vec<String>,
    /// Where /livez, /readyz and /metrics are served. `[::]` is every address, IPv4 too.
    #[arg(long, env = "HEADGATE_ADMIN_ADDRESS", default_value = "[::]:8080", value_name = "IP:PORT")]
    admin_address: SocketAddr,
    #[command(flatten)]
    leading: Leading,
    #[command(flatten)]
    log: Log,
}

impl Daemonsets {
    /// Starts the log, and gives what was asked for.
    pub fn options(self) -> anyhow::Result<Options> {
        self.log.start();
        Ok(Options {
            namespaces: self.namespaces,
            admin_address: self.admin_address,
            leading: self.leading.options()?,
        })
    }
}
