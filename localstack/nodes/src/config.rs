//! The configuration files of a node's programs, which pure functions build from the layout.
//!
//! A comment explains each line that differs from the default of the program.

use std::{net::Ipv6Addr, path::Path};

use ipnet::Ipv6Net;
use serde_json::{Value, json};

use crate::{
    layout::{Families, Layout, NodeOption, Place, ZoneOption, ipv6_of},
    requirements::CNI_PLUGINS,
};

/// The socket of containerd in the machine's own `/run`.
pub const SOCKET: &str = "/run/containerd/containerd.sock";
/// The image of a pod's sandbox. Every node has this image.
pub const PAUSE: &str = "headgate.local/pause:1";

/// Returns `containerd.toml`.
pub fn containerd(place: &Place) -> String {
    let (root, cni) = (place.containerd(), place.cni(Families::V4));
    let common = format!(
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

[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{CNI_PLUGINS}"
conf_dir = {cni}
"#,
        root = quoted(&root),
        cni = quoted(&cni),
    );
    // Each handler has a separate CNI network.
    let runtime = |families: Families| {
        let handler = families.handler();
        format!(
            r#"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.{handler}]
runtime_type = "io.containerd.runc.v2"
cni_conf_dir = {cni}
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.{handler}.options]
SystemdCgroup = false
"#,
            cni = quoted(&place.cni(families)),
        )
    };
    Families::ALL.map(runtime).into_iter().fold(common, |text, runtime| text + &runtime)
}

/// Formats a path as a TOML string. JSON strings are valid in TOML.
fn quoted(path: &Path) -> String {
    json!(path).to_string()
}

/// Returns `kubelet.yaml` as JSON, which is valid YAML.
pub fn kubelet(layout: &Layout, node: &NodeOption, place: &Place) -> Value {
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": node.ip,
        "healthzBindAddress": node.ip,
        "containerRuntimeEndpoint": format!("unix://{SOCKET}"),
        // The nodes are only for tests, so every caller may use the kubelet's API.
        "authentication": {"anonymous": {"enabled": true}, "webhook": {"enabled": false}},
        "authorization": {"mode": "AlwaysAllow"},
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": format!("/{}", cgroup(layout, node)),
        "failCgroupV1": false,
        "failSwapOn": false,
        "enforceNodeAllocatable": [],
        // All nodes share the machine's disk and memory, so evictions for these resources are disabled.
        "evictionHard": {},
        "imageGCHighThresholdPercent": 100,
        "podLogsDir": place.pod_logs(),
        "resolvConf": "",
        "clusterDNS": [],
        "registerNode": true,
        "serializeImagePulls": false,
        // Tests start many pods simultaneously.
        "kubeAPIQPS": 500,
        "kubeAPIBurst": 1000,
        "eventRecordQPS": 0,
        // Tests also wait for changes of mounted Secrets. The default is one minute.
        "syncFrequency": "10s",
    })
}

/// Returns the name of a node's cgroup.
pub fn cgroup(layout: &Layout, node: &NodeOption) -> String {
    format!("{}-{}", layout.cgroup, node.name)
}

/// Returns the CNI network of a zone for pods with these address families. All nodes of the zone share one bridge and
/// one store of addresses, which act like a subnet of a VPC.
pub fn cni(layout: &Layout, zone: &ZoneOption, families: Families) -> Value {
    // The parts of the zone's IPv6 range do not overlap, because a bridge has one address in each part.
    let v6 = |part: u16| {
        let segments = ipv6_of(zone.range).network().segments();
        let [a, b, c, d, ..] = segments;
        json!([{"subnet": Ipv6Net::new_assert(Ipv6Addr::new(a, b, c, d, part, 0, 0, 0), 80)}])
    };
    let v4 = json!([{"subnet": zone.range}]);
    let (v4_route, v6_route) = (json!({"dst": "0.0.0.0/0"}), json!({"dst": "::/0"}));
    // All networks of the zone get their IPv4 addresses from the same store.
    let (name, ranges, routes) = match families {
        Families::V4 => (zone.name.clone(), vec![v4], vec![v4_route]),
        Families::Both => (zone.name.clone(), vec![v4, v6(1)], vec![v4_route, v6_route]),
        Families::V6 => (format!("{}-ipv6", zone.name), vec![v6(2)], vec![v6_route]),
    };
    json!({
        "cniVersion": "0.4.0",
        "name": name,
        "plugins": [{
            "type": "bridge",
            "bridge": bridge(zone),
            "isGateway": true,
            "hairpinMode": true,
            // Masquerading is disabled, because no address outside is reachable.
            "ipMasq": false,
            "ipam": {
                "type": "host-local",
                "ranges": ranges,
                "routes": routes,
                "dataDir": layout.folder.join("addresses"),
            },
        }],
    })
}

/// Returns the name of a zone's bridge. The name contains only the letter of the zone, because a name has at most 15
/// characters.
fn bridge(zone: &ZoneOption) -> String {
    format!("zone-{}", zone.name.chars().last().unwrap_or('a'))
}

/// Returns the configuration of the only kube-proxy as JSON, which is valid YAML.
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
        // The limits of the machine's connection tracking remain unchanged.
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
        assert!(text.contains("\nconf_dir = \"/world/nodes/node-a1/cni\"\n"), "{text}");
        for (handler, folder) in [("runc", "cni"), ("dual-stack", "cni-dual-stack"), ("ipv6", "cni-ipv6")] {
            let runtime = format!(
                "runtimes.{handler}]\nruntime_type = \"io.containerd.runc.v2\"\ncni_conf_dir = \"/world/nodes/node-a1/{folder}\""
            );
            assert!(text.contains(&runtime), "{text}");
        }
        let layout = layout();
        let kubelet = kubelet(&layout, &layout.nodes[0], &place());
        assert_eq!(kubelet["address"], "10.0.192.11");
        assert_eq!(kubelet["cgroupRoot"], "/headgate-7-node-a1");
    }

    #[test]
    fn the_nodes_of_a_zone_take_addresses_from_one_store() {
        let layout = layout();
        let network = cni(&layout, &layout.zones[1], Families::V4);
        let plugin = &network["plugins"][0];
        assert_eq!(plugin["bridge"], "zone-b");
        assert_eq!(plugin["ipam"]["ranges"][0][0]["subnet"], "10.0.32.0/19");
        assert_eq!(plugin["ipam"]["dataDir"], "/world/nodes/addresses");
        let both = cni(&layout, &layout.zones[1], Families::Both);
        let ranges = &both["plugins"][0]["ipam"]["ranges"];
        assert_eq!((&both["name"], &ranges[0][0]["subnet"]), (&network["name"], &json!("10.0.32.0/19")));
        assert_eq!(ranges[1][0]["subnet"], "fd00:a:0:20:1::/80");
        let v6 = cni(&layout, &layout.zones[1], Families::V6);
        assert_eq!(v6["plugins"][0]["ipam"]["ranges"], json!([[{"subnet": "fd00:a:0:20:2::/80"}]]));
        assert_eq!(v6["name"], "us-east-1b-ipv6");
    }
}
