//! The programs of a world: their names and properties.
//!
//! Pure data. The variants are in the order of the start. Components stop in reverse order.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// One of the programs of a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Component {
    /// The database of the API server.
    Etcd,
    /// The Kubernetes API.
    ApiServer,
    /// The controllers of Deployments, Nodes, ServiceAccounts and so on.
    ControllerManager,
    /// Binds pods to nodes.
    Scheduler,
    /// The load balancers and their AWS API.
    Elbv2,
    /// The simulated kubelets of all nodes.
    Kubelet,
    /// The real nodes: their kubelets and containerds, and kube-proxy.
    Nodes,
}

impl Component {
    /// All of them, in the order in which they start.
    pub const ALL: [Self; 7] = [
        Self::Etcd,
        Self::ApiServer,
        Self::ControllerManager,
        Self::Scheduler,
        Self::Elbv2,
        Self::Kubelet,
        Self::Nodes,
    ];

    /// The name of the program, its log file, and the component on the command line.
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

    /// Whether the program prints a ready line, one line of JSON, to standard output.
    pub fn announces_itself(self) -> bool {
        matches!(self, Self::Elbv2 | Self::Kubelet | Self::Nodes)
    }

    /// Whether a world can run without it. Kubernetes needs the database and the API.
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
    /// Not started yet.
    Waiting,
    /// Its process runs, but it does not serve yet.
    Starting,
    /// It serves.
    Running,
    /// It was told to end.
    Stopping,
    /// It ended on request.
    Stopped,
    /// It ended without a request.
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
