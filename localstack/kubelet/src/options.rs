//! The options of a kubelet and their textual forms (`NAME=ZONE`, `ZONE=CIDR`).
//!
//! The module is pure. The error for an invalid value shows a valid form.

use ipnet::Ipv4Net;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use tokio::sync::oneshot;

/// The options of a kubelet.
#[derive(Debug)]
pub struct Options {
    /// The path of an administrator's kubeconfig.
    pub kubeconfig: PathBuf,
    /// The nodes to simulate. Each node is in one of `zones`.
    pub nodes: Vec<NodeOption>,
    /// The zones and their pod addresses, which must be within 127.0.0.0/8.
    pub zones: Vec<ZoneOption>,
    /// The factor for the cool-down of addresses. With 1, the cool-down is 30 s; with 0.05, the cool-down is 1.5 s.
    /// Must be above 0, and at most 100.
    pub time_scale: f64,
    /// The address of the control API. Port 0: a free port.
    pub control: SocketAddr,
    /// The maximum number of pods per node. Must be at least 1.
    pub max_pods: u32,
    /// The kubelet version that every node reports, such as `v1.36.3`.
    pub kubelet_version: String,
    /// Notified after every Node is registered as ready and the control API is open.
    pub ready: Option<oneshot::Sender<Ready>>,
}

/// The data that the caller receives after the start of a kubelet.
#[derive(Clone, Debug, PartialEq)]
pub struct Ready {
    /// The address of the control API.
    pub control: SocketAddr,
}

/// A node in the form `NAME=ZONE`.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeOption {
    /// The name of the Node object.
    pub name: String,
    /// The zone of the node.
    pub zone: String,
}

/// A zone in the form `ZONE=CIDR`.
#[derive(Clone, Debug, PartialEq)]
pub struct ZoneOption {
    /// The name of the zone.
    pub name: String,
    /// The address range of the pods and nodes in the zone.
    pub range: Ipv4Net,
}

/// The reason why an option is invalid.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum OptionError {
    /// The value does not have the form `LEFT=RIGHT`.
    #[error("`{0}` must have the form {1}")]
    Form(String, &'static str),
    /// The value is not an IPv4 range.
    #[error("`{0}` is not an IPv4 range such as 127.101.0.0/19")]
    Range(String),
    /// The range is outside of loopback.
    #[error("zone {0}: {1} is not within 127.0.0.0/8; pods only ever listen on loopback addresses")]
    NotLoopback(String, Ipv4Net),
    /// The range has no room for a pod.
    #[error("zone {0}: {1} is too small; a zone needs at least a /27")]
    TooSmall(String, Ipv4Net),
    /// Two zones share addresses.
    #[error("zones {0} and {1} overlap")]
    Overlap(String, String),
    /// The zone of a node has no range.
    #[error("node {0} is in zone {1}, which has no --zone {1}=CIDR")]
    UnknownZone(String, String),
    /// The same name is given twice.
    #[error("{0} is given twice")]
    Twice(String),
    /// The options contain no node.
    #[error("at least one --node NAME=ZONE is needed")]
    NoNode,
    /// The time scale is out of range.
    #[error("a time scale of {0} makes no sense; give a number above 0, at most 100")]
    TimeScale(f64),
    /// The nodes have no room for any pod.
    #[error("a node must have room for at least one pod")]
    NoRoom,
}

impl FromStr for NodeOption {
    type Err = OptionError;

    fn from_str(text: &str) -> Result<Self, OptionError> {
        let (name, zone) = pair(text, "NAME=ZONE")?;
        Ok(Self { name, zone })
    }
}

impl FromStr for ZoneOption {
    type Err = OptionError;

    fn from_str(text: &str) -> Result<Self, OptionError> {
        let (name, range) = pair(text, "ZONE=CIDR")?;
        let range: Ipv4Net = range.parse().map_err(|_| OptionError::Range(range))?;
        Ok(Self { name, range: range.trunc() })
    }
}

fn pair(text: &str, form: &'static str) -> Result<(String, String), OptionError> {
    match text.split_once('=') {
        Some((left, right)) if !left.is_empty() && !right.is_empty() => Ok((left.into(), right.into())),
        _ => Err(OptionError::Form(text.into(), form)),
    }
}

impl Options {
    /// Checks the rules that the types do not enforce.
    pub fn check(&self) -> Result<(), OptionError> {
        if self.nodes.is_empty() {
            return Err(OptionError::NoNode);
        }
        if self.max_pods == 0 {
            return Err(OptionError::NoRoom);
        }
        if !(self.time_scale > 0.0 && self.time_scale <= 100.0) {
            return Err(OptionError::TimeScale(self.time_scale));
        }
        for (position, zone) in self.zones.iter().enumerate() {
            if !zone.range.network().is_loopback() || zone.range.prefix_len() < 8 {
                return Err(OptionError::NotLoopback(zone.name.clone(), zone.range));
            }
            if zone.range.prefix_len() > 27 {
                return Err(OptionError::TooSmall(zone.name.clone(), zone.range));
            }
            for other in &self.zones[..position] {
                if other.name == zone.name {
                    return Err(OptionError::Twice(format!("zone {}", zone.name)));
                }
                if other.range.contains(&zone.range) || zone.range.contains(&other.range) {
                    return Err(OptionError::Overlap(other.name.clone(), zone.name.clone()));
                }
            }
        }
        for (position, node) in self.nodes.iter().enumerate() {
            if self.nodes[..position].iter().any(|other| other.name == node.name) {
                return Err(OptionError::Twice(format!("node {}", node.name)));
            }
            if !self.zones.iter().any(|zone| zone.name == node.zone) {
                return Err(OptionError::UnknownZone(node.name.clone(), node.zone.clone()));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(nodes: &[&str], zones: &[&str]) -> Options {
        Options {
            kubeconfig: "admin.kubeconfig".into(),
            nodes: nodes.iter().map(|node| node.parse().unwrap()).collect(),
            zones: zones.iter().map(|zone| zone.parse().unwrap()).collect(),
            time_scale: 1.0,
            control: SocketAddr::from(([127, 0, 0, 1], 0)),
            max_pods: 110,
            kubelet_version: "v1.36.3".into(),
            ready: None,
        }
    }

    #[test]
    fn nodes_and_zones_that_fit_are_accepted() {
        assert_eq!(options(&["n1=a", "n2=b"], &["a=127.101.0.0/19", "b=127.101.32.0/19"]).check(), Ok(()));
    }

    #[test]
    fn what_cannot_work_is_refused_with_its_reason() {
        let a = "a=127.101.0.0/19";
        let refused = |options: Options| options.check().unwrap_err().to_string();
        assert!(refused(options(&[], &[a])).contains("--node NAME=ZONE"));
        assert!(refused(options(&["n=b"], &[a])).contains("--zone b=CIDR"));
        assert!(refused(options(&["n=a", "n=a"], &[a])).contains("twice"));
        assert!(refused(options(&["n=a"], &[a, "b=127.101.16.0/20"])).contains("overlap"));
        assert!(refused(options(&["n=a"], &["a=10.0.0.0/19"])).contains("loopback"));
        assert!(refused(options(&["n=a"], &["a=127.1.0.0/30"])).contains("too small"));
        assert!(refused(Options { time_scale: f64::NAN, ..options(&["n=a"], &[a]) }).contains("time scale"));
        assert!(refused(Options { max_pods: 0, ..options(&["n=a"], &[a]) }).contains("at least one pod"));
        assert!("n1".parse::<NodeOption>().unwrap_err().to_string().contains("NAME=ZONE"));
        assert!("a=127.0.0".parse::<ZoneOption>().unwrap_err().to_string().contains("127.101.0.0/19"));
    }
}
