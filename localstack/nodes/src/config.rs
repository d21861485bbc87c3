//! What the programs of a node are told in files: pure functions from the layout to text.
//!
//! Each line that is not the program's own default says why.

use std::path::Path;

use serde_json::{Value, json};

use crate::{
    layout::{Layout, NodeOption, Place, ZoneOption},
    requirements::CNI_PLUGINS,
};

/// containerd's socket, on the machine's own `/run`.
pub const SOCKET: &str = "/run/containerd/containerd.sock";
/// The image that holds a pod's network; one of the images that every node has.
pub const PAUSE: &str = "headgate.local/pause:1";

/// `containerd.toml`.
pub fn containerd(place: &Place) -> String {
    let (root, cni) = (place.containerd(), place.cni());
    format!(
        r#"version = 2
root = {root}
state = "/run/containerd"
# Nothing here needs these, and each complains that it cannot work.
disabled_plugins = ["io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs", "io.containerd.tracing.processor.v1.otlp",
  "io.containerd.internal.v1.tracing", "io.containerd.internal.v1.opt"]

[grpc]
address = "{SOCKET}"

[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{PAUSE}"
# Root of a machine that is itself a container may not lower it, and runc would fail.
restrict_oom_score_adj = true
stream_server_address = "127.0.0.1"
stream_server_port = "0"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
SystemdCgroup = false

[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{CNI_PLUGINS}"
conf_dir = {cni}
"#,
        root = quoted(&root),
        cni = quoted(&cni),
    )
}

/// A path as TOML: JSON's strings are TOML's.
fn quoted(path: &Path) -> String {
    json!(path).to_string()
}

/// `kubelet.yaml`, as JSON, which is YAML.
pub fn kubelet(layout: &Layout, node: &NodeOption, place: &Place) -> Value {
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": node.ip,
        "healthzBindAddress": node.ip,
        "containerRuntimeEndpoint": format!("unix://{SOCKET}"),
        // A world for tests: who reaches the kubelet may ask it anything.
        "authentication": {"anonymous": {"enabled": true}, "webhook": {"enabled": false}},
        "authorization": {"mode": "AlwaysAllow"},
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": format!("/{}", cgroup(layout, node)),
        "failCgroupV1": false,
        "failSwapOn": false,
        "enforceNodeAllocatable": [],
        // The disk and memory are those of the machine that all nodes share: no reason to evict.
        "evictionHard": {},
        "imageGCHighThresholdPercent": 100,
        "podLogsDir": place.pod_logs(),
        "resolvConf": "",
        "clusterDNS": [],
        "registerNode": true,
        "serializeImagePulls": false,
        // Tests start many pods at once.
        "kubeAPIQPS": 500,
        "kubeAPIBurst": 1000,
        "eventRecordQPS": 0,
    })
}

/// The name of a node's cgroup.
pub fn cgroup(layout: &Layout, node: &NodeOption) -> String {
    format!("{}-{}", layout.cgroup, node.name)
}

/// The CNI network of a zone: one bridge for all its nodes, and one store of addresses, as a
/// subnet of a VPC is.
pub fn cni(layout: &Layout, zone: &ZoneOption) -> Value {
    json!({
        "cniVersion": "0.4.0",
        "name": zone.name,
        "plugins": [{
            "type": "bridge",
            "bridge": bridge(zone),
            "isGateway": true,
            "hairpinMode": true,
            // Nobody is outside to whom an address would have to be hidden.
            "ipMasq": false,
            "ipam": {
                "type": "host-local",
                "ranges": [[{"subnet": zone.range}]],
                "routes": [{"dst": "0.0.0.0/0"}],
                "dataDir": layout.folder.join("addresses"),
            },
        }],
    })
}

/// The bridge of a zone: its letter, because 15 characters are the most.
fn bridge(zone: &ZoneOption) -> String {
    format!("zone-{}", zone.name.chars().last().unwrap_or('a'))
}

/// Configuration of the one kube-proxy, as JSON, which is YAML.
pub fn proxy(layout: &Layout) -> Value {
    let first = layout.nodes.first().map(|node| node.name.clone()).unwrap_or_default();
    json!({
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "clientConnection": {"kubeconfig": layout.credentials.join("kube-proxy.kubeconfig")},
        "clusterCIDR": layout.vpc,
        "hostnameOverride": first,
        "bindAddress": layout.servers,
        "healthzBindAddress": format!("{}:10256", layout.servers),
        "metricsBindAddress": format!("{}:10249", layout.servers),
        // The limits of connection tracking are the machine's own.
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
        "nftables": {"syncPeriod": "30s", "minSyncPeriod": "100ms"},
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::tests::layout;

    fn place() -> Place {
        Place::of(Path::new("/world/nodes"), Path::new("/world/logs"), "node-a1")
    }

    #[test]
    fn a_node_has_its_own_containerd_and_its_own_addresses() {
        let text = containerd(&place());
        assert!(text.contains("root = \"/world/nodes/node-a1/containerd\"\n"), "{text}");
        assert!(text.contains("conf_dir = \"/world/nodes/node-a1/cni\"\n"), "{text}");
        let layout = layout();
        let kubelet = kubelet(&layout, &layout.nodes[0], &place());
        assert_eq!(kubelet["address"], "10.0.192.11");
        assert_eq!(kubelet["cgroupRoot"], "/headgate-7-node-a1");
    }

    #[test]
    fn the_nodes_of_a_zone_take_addresses_from_one_store() {
        let layout = layout();
        let network = cni(&layout, &layout.zones[1]);
        let plugin = &network["plugins"][0];
        assert_eq!(plugin["bridge"], "zone-b");
        assert_eq!(plugin["ipam"]["ranges"][0][0]["subnet"], "10.0.32.0/19");
        assert_eq!(plugin["ipam"]["dataDir"], "/world/nodes/addresses");
    }
}
