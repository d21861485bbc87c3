//! `headgate drain`.

use std::time::Duration;

use clap::Args;
use headgate::flags::{duration, namespace};

use super::which::Which;
use crate::drain::{Options, What};

/// The arguments.
#[derive(Clone, Debug, Args)]
pub struct Drain {
    /// `NAME` or `pod/NAME`: evict one pod. `node/NAME`: cordon the node and evict its pods.
    #[arg(value_name = "POD|NODE", value_parser = what)]
    what: What,
    /// Namespace of the pod. Default: the namespace of the kubeconfig's context.
    #[arg(short, long, value_name = "NAMESPACE", value_parser = namespace)]
    namespace: Option<String>,
    /// Also evict pods without a controller. Kubernetes does not replace pods without a controller.
    #[arg(long)]
    force: bool,
    /// When you drain a node: also wait until no load balancer sends to its pods, including DaemonSet pods. You can
    /// then stop the machine.
    #[arg(long)]
    daemonsets: bool,
    /// Only show the planned actions, and the evictions that a PodDisruptionBudget would delay.
    #[arg(long)]
    dry_run: bool,
    /// Maximum duration of the command.
    #[arg(long, default_value = "30m", value_name = "DURATION", value_parser = duration)]
    timeout: Duration,
    #[command(flatten)]
    which: Which,
}

impl Drain {
    pub fn options(self) -> Options {
        let Self { what, namespace, force, daemonsets, dry_run, timeout, which } = self;
        Options { which: which.cluster(), what, namespace, force, daemonsets, dry_run, timeout }
    }
}

fn what(text: &str) -> Result<What, String> {
    match text.split_once('/') {
        None if !text.is_empty() => Ok(What::Pod(text.to_owned())),
        Some(("pod" | "pods" | "po", name)) if !name.is_empty() => Ok(What::Pod(name.to_owned())),
        Some(("node" | "nodes" | "no", name)) if !name.is_empty() => Ok(What::Node(name.to_owned())),
        _ => Err("set the name of a pod, pod/NAME or node/NAME".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_name_is_that_of_a_pod() {
        assert_eq!(what("web"), Ok(What::Pod("web".into())));
        assert_eq!(what("pod/web"), Ok(What::Pod("web".into())));
        assert_eq!(what("node/a1"), Ok(What::Node("a1".into())));
        for bad in ["", "node/", "deployment/web", "/web"] {
            assert!(what(bad).unwrap_err().contains("set the name of a pod"), "{bad}");
        }
    }
}
