//! A Node object as a kubelet on EC2 registers and reports it.
//!
//! The module defines the labels, addresses, capacity and conditions of a node. The module is pure: it builds JSON for
//! the API and sends nothing.

use crate::clock::Moment;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};
use std::net::Ipv4Addr;

/// The default version that nodes report.
pub const KUBELET_VERSION: &str = "v1.36.3";

/// The fixed properties of a node.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// The name of the object, which is also the hostname.
    pub name: String,
    /// The zone, such as `us-east-1a`.
    pub zone: String,
    /// The InternalIP, which is the address of pods with `hostNetwork`.
    pub address: Ipv4Addr,
    /// The maximum number of pods on the node.
    pub max_pods: u32,
    /// The kubelet version that the node reports, such as `v1.36.3`.
    pub version: String,
}

/// The health that a node reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// The node is ready and has no pressure.
    Good,
    /// The node is ready but has memory pressure.
    ShortOfMemory,
    /// The node is not ready, because it is shutting down.
    ShuttingDown,
}

impl Node {
    /// Returns the region of the zone: the name of the zone without the letter at the end.
    pub fn region(&self) -> &str {
        self.zone.trim_end_matches(|letter: char| letter.is_ascii_lowercase())
    }

    /// Returns the object for the creation of the node.
    pub fn object(&self) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": self.name, "labels": self.labels()},
            "spec": {"providerID": format!("aws:///{}/{}", self.zone, self.instance_id())},
        })
    }

    /// Returns the labels that a kubelet and the AWS cloud provider set.
    pub fn labels(&self) -> Value {
        json!({
            "kubernetes.io/hostname": self.name,
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64",
            "topology.kubernetes.io/zone": self.zone,
            "topology.kubernetes.io/region": self.region(),
        })
    }

    /// Returns the patch for `nodes/status`. The node has had this health since `since`.
    pub fn status(&self, health: Health, since: &Time, now: Moment) -> Value {
        let condition = |kind: &str, status: &str, reason: &str, message: &str| {
            json!({"type": kind, "status": status, "reason": reason, "message": message,
                   "lastHeartbeatTime": now.timestamp(), "lastTransitionTime": since})
        };
        let memory = if health == Health::ShortOfMemory {
            condition(
                "MemoryPressure",
                "True",
                "KubeletHasInsufficientMemory",
                "kubelet has insufficient memory available",
            )
        } else {
            condition(
                "MemoryPressure",
                "False",
                "KubeletHasSufficientMemory",
                "kubelet has sufficient memory available",
            )
        };
        let ready = if health == Health::ShuttingDown {
            condition("Ready", "False", "KubeletNotReady", "node is shutting down")
        } else {
            condition("Ready", "True", "KubeletReady", "kubelet is posting ready status")
        };
        let room = json!({"pods": self.max_pods.to_string(), "cpu": "256", "memory": "1024Gi",
                          "ephemeral-storage": "1024Gi"});
        json!({"status": {
            "capacity": room,
            "allocatable": room,
            "addresses": [
                {"type": "InternalIP", "address": self.address.to_string()},
                {"type": "Hostname", "address": self.name},
            ],
            "conditions": [
                memory,
                condition("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
                condition("PIDPressure", "False", "KubeletHasSufficientPID",
                          "kubelet has sufficient PID available"),
                ready,
            ],
            "nodeInfo": {
                "architecture": "amd64", "operatingSystem": "linux", "osImage": "simulated",
                "kernelVersion": "6.1.0", "containerRuntimeVersion": "containerd://2.0.0",
                "kubeletVersion": self.version, "kubeProxyVersion": "",
                "machineID": self.instance_id(), "systemUUID": self.instance_id(), "bootID": self.instance_id(),
            },
        }})
    }

    /// Returns an EC2 instance ID that depends only on the name.
    fn instance_id(&self) -> String {
        format!("i-0{:016x}", crate::span::seed(&self.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node() -> Node {
        Node {
            name: "node-1".into(),
            zone: "us-east-1a".into(),
            address: Ipv4Addr::new(127, 101, 0, 10),
            max_pods: 110,
            version: KUBELET_VERSION.into(),
        }
    }

    #[test]
    fn a_node_carries_its_zone_and_region() {
        let object = node().object();
        assert_eq!(object["metadata"]["labels"]["topology.kubernetes.io/zone"], "us-east-1a");
        assert_eq!(object["metadata"]["labels"]["topology.kubernetes.io/region"], "us-east-1");
        assert_eq!(object["metadata"]["labels"]["kubernetes.io/hostname"], "node-1");
        let provider = object["spec"]["providerID"].as_str().unwrap();
        assert!(provider.starts_with("aws:///us-east-1a/i-0") && provider.len() == 37, "{provider}");
    }

    #[test]
    fn a_heartbeat_moves_only_the_heartbeat_time() {
        let start = Moment::now();
        let later = start.after(std::time::Duration::from_secs(300));
        let ready = &node().status(Health::Good, &start.timestamp(), later)["status"]["conditions"][3];
        assert_eq!((ready["type"].as_str(), ready["status"].as_str()), (Some("Ready"), Some("True")));
        assert_eq!(ready["lastTransitionTime"], json!(start.timestamp()));
        assert_eq!(ready["lastHeartbeatTime"], json!(later.timestamp()));
    }

    #[test]
    fn a_node_that_shuts_down_is_not_ready_and_says_why() {
        let now = Moment::now();
        let ready = &node().status(Health::ShuttingDown, &now.timestamp(), now)["status"]["conditions"][3];
        assert_eq!((&ready["status"], &ready["message"]), (&json!("False"), &json!("node is shutting down")));
        let memory = &node().status(Health::ShortOfMemory, &now.timestamp(), now)["status"]["conditions"][0];
        assert_eq!((&memory["type"], &memory["status"]), (&json!("MemoryPressure"), &json!("True")));
    }

    #[test]
    fn the_whole_node_parses_as_the_api_type() {
        let mut object = node().object();
        object["status"] =
            node().status(Health::Good, &Moment::now().timestamp(), Moment::now())["status"].clone();
        let parsed: k8s_openapi::api::core::v1::Node = serde_json::from_value(object).unwrap();
        let status = parsed.status.unwrap();
        assert_eq!(status.node_info.unwrap().kubelet_version, KUBELET_VERSION);
        assert_eq!(status.allocatable.unwrap()["pods"].0, "110");
    }
}
