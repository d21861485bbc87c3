//! The flags of `headgate daemonsets`.

use std::net::SocketAddr;

use clap::Args;

use super::{All, docs_url, leading::Leading, log::Log, namespace};
use crate::{daemonsets::run::Options, kube::installation::Serves, metrics::Level};

/// The default name of the Lease.
const LEASE: &str = "headgate-daemonsets";

// If an argument occurs several times, for example because of a chart's `extraArgs`, the last value applies.
/// The flags of `headgate daemonsets`.
#[derive(Debug, Args)]
#[command(args_override_self = true, mut_arg("lease_name", |arg| arg.default_value(LEASE)))]
pub struct Daemonsets {
    /// Namespaces to manage, comma-separated. The controller watches nodes even if you set this flag. Default: all
    /// namespaces.
    #[arg(long, env = "HEADGATE_NAMESPACES", value_delimiter = ',', value_parser = namespace)]
    namespaces: Vec<String>,
    /// Annotation keys that IngressDaemonSets may set on Nodes (annotateNodeToDetach), comma-separated. Requires
    /// permission to patch nodes. Default: none.
    #[arg(long, env = "HEADGATE_NODE_ANNOTATIONS", value_delimiter = ',', value_parser = annotation, value_name = "KEY")]
    node_annotations: Vec<String>,
    /// Address for /livez, /readyz and /metrics. `[::]` means every address, including IPv4.
    #[arg(long, env = "HEADGATE_ADMIN_ADDRESS", default_value = "[::]:8080", value_name = "IP:PORT")]
    admin_address: SocketAddr,
    /// Metrics to serve. `debug` adds metrics for developers.
    #[arg(
        long,
        env = "HEADGATE_METRICS",
        value_enum,
        default_value = "default",
        value_name = "LEVEL",
        hide = true
    )]
    metrics: Level,
    /// Address of the docs, such as `https://docs.example/headgate`, for a link at the end of each Event. Default: no
    /// links.
    #[arg(long, env = "HEADGATE_DOCS_URL", value_parser = docs_url, value_name = "URL")]
    docs_url: Option<Box<str>>,
    #[command(flatten)]
    leading: Leading,
    #[command(flatten)]
    log: Log,
    #[command(flatten)]
    help: All,
}

/// Checks the key of an annotation with Kubernetes' rule for qualified names, as far as Headgate needs it.
fn annotation(text: &str) -> Result<String, String> {
    let (prefix, name) = text.split_once('/').unwrap_or(("", text));
    let is_name = (1..=63).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.ends_with(|c: char| c.is_ascii_alphanumeric());
    if is_name && (prefix.is_empty() || super::is_subdomain(prefix)) && !text.starts_with('/') {
        Ok(text.to_owned())
    } else {
        Err("set the key of an annotation, such as example.com/detach".to_owned())
    }
}

impl Daemonsets {
    /// Whether the user only requests the help with all flags.
    #[must_use]
    pub const fn asks_for_help(&self) -> bool {
        self.help.all
    }

    /// Starts logging, and converts the flags to options.
    pub fn options(self) -> anyhow::Result<Options> {
        self.log.start();
        Ok(Options {
            serves: Serves { namespaces: self.namespaces, selector: None },
            node_annotations: self.node_annotations,
            admin_address: self.admin_address,
            metrics: self.metrics,
            docs_url: self.docs_url.filter(|url| !url.is_empty()),
            leading: self.leading.options()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nodes_may_be_annotated_with_are_keys_of_annotations() {
        for good in ["example.com/detach", "detach", "node-detacher.variant.run/detached", "a/b_c.d"] {
            assert_eq!(annotation(good).as_deref(), Ok(good));
        }
        for bad in ["", "/detach", "a b/c", "example.com/", "example.com/-x", "a/b/c", "Example.com/x"] {
            assert!(annotation(bad).is_err(), "{bad}");
        }
    }
}
