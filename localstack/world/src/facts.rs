//! The facts about a local cluster, which are in `world.json` in the cluster's folder.
//!
//! The module defines the format, which other programs read too. Only the cluster's supervisor writes the file. Each
//! write replaces the whole file, so readers never see a partial file.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::{
    cache::WorldName,
    component::{Component, State},
    network::{ACCOUNT, REGION, VPC, Zone},
    options::Nodes,
    plan::Plan,
    process::Process,
};

/// All facts about a local cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Facts {
    /// The name of the cluster.
    pub name: WorldName,
    /// Whether the start of the cluster was completed. The value remains true in all later states of the components.
    pub ready: bool,
    /// The folder of the cluster.
    pub folder: PathBuf,
    /// The process that owns the cluster.
    pub supervisor: Process,
    /// The start time of the cluster (RFC 3339).
    pub started_at: String,
    /// The version of Kubernetes, such as `v1.36.3`.
    pub kubernetes_version: String,
    /// A kubeconfig of a cluster administrator.
    pub kubeconfig: PathBuf,
    /// The path of the cluster's `kubectl`. The folder of `kubectl` can be added to `PATH`.
    pub kubectl: PathBuf,
    /// The base URL of the Kubernetes API (HTTPS).
    pub api_server: String,
    /// The endpoint URL of the ELBv2 API (HTTP).
    pub aws_endpoint: String,
    /// The base URL of the load balancers' control API (HTTP).
    pub elbv2_control: String,
    /// The UDP address of the DNS server for the load balancers' names, as `IP:PORT`.
    pub dns: String,
    /// The base URL of the control API of the simulated or real nodes (HTTP).
    pub kubelet_control: String,
    /// The AWS region.
    pub region: String,
    /// The AWS account.
    pub account: String,
    /// The ID of the VPC.
    pub vpc: String,
    /// The address range of the VPC.
    pub vpc_cidr: String,
    /// The Availability Zones with their subnets and nodes.
    pub zones: Vec<Zone>,
    /// The type of the nodes.
    pub nodes: Nodes,
    /// The network namespace of the cluster. With a network namespace, the cluster's servers are only reachable from
    /// inside the namespace.
    pub network_namespace: Option<PathBuf>,
    /// The prefix of the names of the real nodes' cgroups.
    pub cgroup: String,
    /// The duration of an AWS or kubelet second, in real seconds.
    pub time_scale: f64,
    /// The slot of the loopback range. Without a network namespace, all addresses of the cluster begin with 127.(100 +
    /// slot).
    pub slot: u8,
    /// The folder that contains the log files.
    pub logs: PathBuf,
    /// The components of the cluster.
    pub components: Vec<ComponentFacts>,
}

/// The facts about one component.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ComponentFacts {
    /// The name of the component.
    pub name: Component,
    /// The state of the component.
    pub state: State,
    /// The current or last process of the component.
    pub process: Option<Process>,
    /// The address of the component, as `IP:PORT`.
    pub address: String,
    /// The log file of the component.
    pub log: PathBuf,
    /// The exit status of the component. `None`: the component has not exited.
    pub ended: Option<String>,
}

impl Facts {
    /// Creates the facts of a local cluster before its start.
    pub fn of(plan: &Plan, supervisor: Process) -> Self {
        let component = |name| ComponentFacts {
            name,
            state: State::Waiting,
            process: None,
            address: plan.address(name).to_string(),
            log: plan.log(name),
            ended: None,
        };
        Self {
            name: plan.options.name.clone(),
            ready: false,
            folder: plan.folder.clone(),
            supervisor,
            started_at: jiff::Timestamp::now().to_string(),
            kubernetes_version: plan.options.minor().version().to_owned(),
            kubeconfig: plan.kubeconfig(),
            kubectl: plan.bin().join("kubectl"),
            api_server: format!("https://{}", plan.ports.api_server),
            aws_endpoint: format!("http://{}", plan.ports.elbv2),
            elbv2_control: format!("http://{}", plan.ports.elbv2_control),
            dns: plan.ports.dns.to_string(),
            kubelet_control: format!("http://{}", plan.ports.kubelet_control),
            region: REGION.to_owned(),
            account: ACCOUNT.to_owned(),
            vpc: VPC.to_owned(),
            vpc_cidr: plan.network.vpc_cidr.to_string(),
            zones: plan.network.zones.clone(),
            nodes: plan.options.nodes,
            network_namespace: (plan.options.nodes == Nodes::Real)
                .then(|| PathBuf::from(format!("/proc/{}/ns/net", supervisor.pid))),
            cgroup: plan.cgroup.clone(),
            time_scale: plan.options.time_scale,
            slot: plan.slot,
            logs: plan.logs(),
            components: plan.options.components().map(component).collect(),
        }
    }

    /// See [`crate::World::enter_network`].
    pub fn enter_network(&self) -> Result<(), FactsError> {
        let Some(network) = &self.network_namespace else { return Ok(()) };
        let failed = |source| FactsError::Network { path: network.clone(), source };
        localstack_nodes::network::enter(network).map_err(failed)
    }

    /// Returns the path of the facts in a cluster's folder.
    pub fn path(folder: &Path) -> PathBuf {
        folder.join("world.json")
    }

    /// Reads the facts of the cluster in this folder.
    pub fn read(folder: &Path) -> Result<Self, FactsError> {
        let path = Self::path(folder);
        let text = fs::read(&path).map_err(|source| FactsError::Read { path: path.clone(), source })?;
        serde_json::from_slice(&text).map_err(|source| FactsError::Parse { path, source })
    }

    /// Replaces the facts in the cluster's folder.
    pub fn write(&self) -> io::Result<()> {
        let path = Self::path(&self.folder);
        let unfinished = path.with_extension("json.new");
        fs::write(&unfinished, serde_json::to_vec_pretty(self)?)?;
        fs::rename(&unfinished, &path)
    }
}

/// The reason why the facts of a local cluster are not available.
#[derive(Debug, thiserror::Error)]
pub enum FactsError {
    /// The network of the cluster cannot be entered.
    #[error("cannot enter the network at {path}: {source}", path = path.display())]
    Network {
        /// The path of the network namespace.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The file cannot be read.
    #[error("cannot read {path}: {source}", path = path.display())]
    Read {
        /// The path of the file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// Another version of this program wrote the file, or the file was edited.
    #[error(
        "{path} is not what this version of `world` writes ({source}): `world down` it with the version that \
         started it",
        path = path.display()
    )]
    Parse {
        /// The path of the file.
        path: PathBuf,
        /// The parse error.
        source: serde_json::Error,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::scratch_folder;

    #[test]
    fn facts_survive_being_written_and_read() {
        let folder = scratch_folder();
        let plan = Plan { folder: folder.path().to_path_buf(), ..crate::plan::tests::plan() };
        let facts = Facts::of(&plan, Process::current());
        facts.write().unwrap();
        assert_eq!(Facts::read(folder.path()).unwrap(), facts);
    }

    #[test]
    fn facts_of_another_version_are_refused_with_what_to_do() {
        let folder = scratch_folder();
        fs::write(Facts::path(folder.path()), r#"{"name":"default"}"#).unwrap();
        let error = Facts::read(folder.path()).unwrap_err().to_string();
        assert!(error.contains("world.json") && error.contains("world down"), "{error}");
    }
}
