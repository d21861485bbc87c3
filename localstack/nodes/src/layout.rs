//! The nodes, zones and images, and the paths of a node's files. The module contains pure data.

use std::{
    net::{Ipv4Addr, Ipv6Addr},
    path::{Path, PathBuf},
    str::FromStr,
};

use ipnet::{Ipv4Net, Ipv6Net};

/// A zone and the addresses of its pods, in the form `NAME=CIDR`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneOption {
    /// The value of the node label `topology.kubernetes.io/zone`.
    pub name: String,
    /// The address range of the pods in the zone.
    pub range: Ipv4Net,
}

/// A node in the form `NAME=ZONE=IP`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeOption {
    /// The name of the node.
    pub name: String,
    /// The zone of the node.
    pub zone: String,
    /// The address of the kubelet.
    pub ip: Ipv4Addr,
}

/// An image and its static binary, in the form `IMAGE=FILE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageOption {
    /// The name with a domain and a tag, such as `headgate.local/web:1`.
    pub name: String,
    /// The binary.
    pub binary: PathBuf,
}

/// All data that is fixed at the start of the nodes.
#[derive(Clone, Debug)]
pub struct Layout {
    /// The folder that contains the disks of all nodes.
    pub folder: PathBuf,
    /// The folder that contains all logs.
    pub logs: PathBuf,
    /// The folder that contains `kubelet`, `kube-proxy` and the programs of containerd.
    pub programs: PathBuf,
    /// The folder that contains the kubeconfig files: `NODE.kubeconfig` and `kube-proxy.kubeconfig`.
    pub credentials: PathBuf,
    /// The prefix of all cgroup names.
    pub cgroup: String,
    /// The address of kube-proxy, which is the address of the local cluster's servers.
    pub servers: Ipv4Addr,
    /// The address range of the VPC.
    pub vpc: Ipv4Net,
    /// The zones of the VPC.
    pub zones: Vec<ZoneOption>,
    /// The nodes.
    pub nodes: Vec<NodeOption>,
    /// The images that every node has.
    pub images: Vec<ImageOption>,
}

/// The address families of a pod. The default is IPv4. To request other families, a pod names a RuntimeClass with the
/// handler of the families.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Families {
    /// IPv4 only. This is the default.
    V4,
    /// IPv4 and IPv6. The first address of a pod is an IPv4 address.
    Both,
    /// IPv6 only. Pods in an EKS cluster for IPv6 have only IPv6 addresses too.
    V6,
}

impl Families {
    /// All combinations of address families.
    pub const ALL: [Self; 3] = [Self::V4, Self::Both, Self::V6];

    /// Returns the name of the runtime handler.
    pub const fn handler(self) -> &'static str {
        match self {
            Self::V4 => "runc",
            Self::Both => "dual-stack",
            Self::V6 => "ipv6",
        }
    }
}

/// The paths of one node. The paths are on the node's disk, which outlives the machine.
#[derive(Clone, Debug)]
pub struct Place {
    folder: PathBuf,
    logs: PathBuf,
    name: String,
}

/// Returns the IPv6 range of a zone's subnet, which is derived from the IPv4 range. For example, `10.0.32.0/19` results
/// in `fd00:a:0:20::/64`.
#[must_use]
pub fn ipv6_of(range: Ipv4Net) -> Ipv6Net {
    let [first, second, third, _] = range.network().octets();
    Ipv6Net::new_assert(Ipv6Addr::new(0xfd00, first.into(), second.into(), third.into(), 0, 0, 0, 0), 64)
}

impl Place {
    /// Returns the paths of a node in these two folders.
    pub fn of(folder: &Path, logs: &Path, node: &str) -> Self {
        Self { folder: folder.join(node), logs: logs.to_path_buf(), name: node.to_owned() }
    }

    /// Returns all folders that must exist before the machine starts.
    pub fn folders(&self) -> Vec<PathBuf> {
        let networks = Families::ALL.into_iter().map(|families| self.cni(families));
        [self.containerd(), self.kubelet(), self.pod_logs()].into_iter().chain(networks).collect()
    }

    /// Returns the folder for containerd's images, containers and snapshots.
    pub fn containerd(&self) -> PathBuf {
        self.folder.join("containerd")
    }

    /// Returns the folder for the kubelet's pods and volumes.
    pub fn kubelet(&self) -> PathBuf {
        self.folder.join("kubelet")
    }

    /// Returns the folder for the output of the pods' containers.
    pub fn pod_logs(&self) -> PathBuf {
        self.folder.join("pods")
    }

    /// Returns the folder with the configuration of the CNI plugins for pods with these address families.
    pub fn cni(&self, families: Families) -> PathBuf {
        self.folder.join(match families {
            Families::V4 => "cni",
            Families::Both => "cni-dual-stack",
            Families::V6 => "cni-ipv6",
        })
    }

    /// Returns the path of containerd's configuration.
    pub fn containerd_config(&self) -> PathBuf {
        self.folder.join("containerd.toml")
    }

    /// Returns the path of the kubelet's configuration.
    pub fn kubelet_config(&self) -> PathBuf {
        self.folder.join("kubelet.yaml")
    }

    /// Returns the log file of a program of the node.
    pub fn log(&self, program: &str) -> PathBuf {
        self.logs.join(format!("{}-{program}.log", self.name))
    }
}

/// The value on the command line is invalid.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} cannot be used: write {1}")]
pub struct ParseOptionError(String, &'static str);

impl FromStr for ZoneOption {
    type Err = ParseOptionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || ParseOptionError(text.to_owned(), "ZONE=CIDR, such as us-east-1a=10.0.0.0/19");
        let (name, range) = text.split_once('=').ok_or_else(wrong)?;
        Ok(Self { name: name.to_owned(), range: range.parse().map_err(|_| wrong())? })
    }
}

impl FromStr for NodeOption {
    type Err = ParseOptionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong =
            || ParseOptionError(text.to_owned(), "NODE=ZONE=IP, such as node-a1=us-east-1a=10.0.192.11");
        let parts: Vec<&str> = text.split('=').collect();
        let [name, zone, ip] = parts[..] else { return Err(wrong()) };
        Ok(Self { name: name.to_owned(), zone: zone.to_owned(), ip: ip.parse().map_err(|_| wrong())? })
    }
}

impl FromStr for ImageOption {
    type Err = ParseOptionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || ParseOptionError(text.to_owned(), "IMAGE=FILE, such as headgate.local/web:1=/tmp/web");
        let (name, binary) = text.split_once('=').ok_or_else(wrong)?;
        Ok(Self { name: name.to_owned(), binary: binary.into() })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Returns a layout with two nodes in two zones.
    pub(crate) fn layout() -> Layout {
        Layout {
            folder: "/world/nodes".into(),
            logs: "/world/logs".into(),
            programs: "/world/bin".into(),
            credentials: "/world/pki".into(),
            cgroup: "headgate-7".into(),
            servers: Ipv4Addr::new(10, 0, 192, 1),
            vpc: "10.0.0.0/16".parse().unwrap(),
            zones: vec![
                "us-east-1a=10.0.0.0/19".parse().unwrap(),
                "us-east-1b=10.0.32.0/19".parse().unwrap(),
            ],
            nodes: vec![
                "node-a1=us-east-1a=10.0.192.11".parse().unwrap(),
                "node-b1=us-east-1b=10.0.192.12".parse().unwrap(),
            ],
            images: vec!["headgate.local/pause:1=/bin/pause".parse().unwrap()],
        }
    }

    #[test]
    fn a_value_that_cannot_be_used_says_how_to_write_one() {
        let error = "node-a1=us-east-1a".parse::<NodeOption>().unwrap_err().to_string();
        assert!(error.contains("NODE=ZONE=IP"), "{error}");
        let error = "us-east-1a=10.0.0.0".parse::<ZoneOption>().unwrap_err().to_string();
        assert!(error.contains("ZONE=CIDR"), "{error}");
        let error = "headgate.local/web:1".parse::<ImageOption>().unwrap_err().to_string();
        assert!(error.contains("IMAGE=FILE"), "{error}");
    }
}
