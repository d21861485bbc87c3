//! The programs of a local cluster with their names and properties.
//!
//! The module contains pure data. Components start in the order of the variants, and stop in the reverse order.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A program of a local cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Component {
    /// The database of the API server.
    Etcd,
    /// The API server of Kubernetes.
    ApiServer,
    /// The controllers of Deployments, Nodes, ServiceAccounts and other kinds.
    ControllerManager,
    /// The scheduler, which binds pods to nodes.
    Scheduler,
    /// The load balancers and their AWS API.
    Elbv2,
    /// The simulated kubelets of all nodes.
    Kubelet,
    /// The real nodes with their kubelets and containerds, and kube-proxy.
    Nodes,
}

impl Component {
    /// All components, in the order in which they start.
    pub const ALL: [Self; 7] = [
        Self::Etcd,
        Self::ApiServer,
        Self::ControllerManager,
        Self::Scheduler,
        Self::Elbv2,
        Self::Kubelet,
        Self::Nodes,
    ];

    /// Returns the name of the program. The log file and the command line use the same name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::ApiServer => "kube-apiserver",
            Self::ControllerManager => "kube-controller-manager",
            Self::Scheduler => "kube-scheduler",
            Self::Elbv2 => "elbv2",
            Self::Kubelet => "kubelet",
            Self::Nodes => "nodes",
        }
    }

    /// Returns whether the program prints a ready line (one line of JSON) to standard output.
    pub fn announces_itself(self) -> bool {
        matches!(self, Self::Elbv2 | Self::Kubelet | Self::Nodes)
    }

    /// Returns whether a local cluster can run without this component. Kubernetes needs the database and the API
    /// server.
    pub fn is_optional(self) -> bool {
        !matches!(self, Self::Etcd | Self::ApiServer)
    }
}

impl std::fmt::Display for Component {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.pad(self.name())
    }
}

impl FromStr for Component {
    type Err = UnknownComponent;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|component| component.name() == text)
            .ok_or_else(|| UnknownComponent(text.to_owned()))
    }
}

impl TryFrom<String> for Component {
    type Error = UnknownComponent;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Component> for String {
    fn from(component: Component) -> Self {
        component.name().to_owned()
    }
}

/// No component has this name.
#[derive(Debug, thiserror::Error)]
#[error(
    "there is no component {0:?}: use etcd, kube-apiserver, kube-controller-manager, kube-scheduler, elbv2, kubelet or nodes"
)]
pub struct UnknownComponent(String);

/// The state of a component.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// The component has not started yet.
    Waiting,
    /// The process of the component runs, but the component does not serve yet.
    Starting,
    /// The component serves.
    Running,
    /// The component must stop, but its process still runs.
    Stopping,
    /// The component has exited after a request.
    Stopped,
    /// The component has exited without a request.
    Failed,
}

impl std::fmt::Display for State {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.pad(match self {
            Self::Waiting => "waiting",
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Stopping => "stopping",
            Self::Stopped => "stopped",
            Self::Failed => "failed",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_component_is_found_by_its_own_name() {
        for component in Component::ALL {
            assert_eq!(component.name().parse::<Component>().unwrap(), component);
        }
        let error = "kube-proxy".parse::<Component>().unwrap_err().to_string();
        assert!(error.contains("use etcd, kube-apiserver"), "{error}");
    }

    #[test]
    fn the_database_starts_first_and_stops_last() {
        assert_eq!(Component::ALL[0], Component::Etcd);
        assert_eq!(Component::ALL[1], Component::ApiServer);
        assert!(Component::ALL.is_sorted());
    }
}
