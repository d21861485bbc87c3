//! All decisions about a local cluster before the start of its first process.
//!
//! The module contains pure data and pure functions: paths in the cluster's folder, addresses, and the command line of
//! each component. A restarted component gets the same command line.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};

use localstack_nodes::layout::ipv6_of;

use crate::{
    component::Component,
    network::{ACCOUNT, Network, REGION, VPC},
    options::{Nodes, Options},
    ports::Ports,
};

/// The plan of a local cluster.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The options of the user.
    pub options: Options,
    /// The slot of the loopback range, from 1 to 100.
    pub slot: u8,
    /// The addresses of the VPC, its zones and its nodes.
    pub network: Network,
    /// The addresses of the servers.
    pub ports: Ports,
    /// The folder of the cluster.
    pub folder: PathBuf,
    /// The folder that contains `elbv2`, `kubelet` and `nodes`, which is also the folder of `world`.
    pub programs: PathBuf,
    /// The prefix of the names of the real nodes' cgroups.
    pub cgroup: String,
    /// The names of the images for real nodes, and the paths of their programs.
    pub images: Vec<(String, PathBuf)>,
}

/// A program and its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandLine {
    /// The executable.
    pub program: PathBuf,
    /// The arguments without the name of the program.
    pub arguments: Vec<String>,
}

impl Plan {
    /// Returns the folder of links to the Kubernetes programs, for `PATH`. Each link has the name of its program.
    pub fn bin(&self) -> PathBuf {
        self.folder.join("bin")
    }

    /// Returns the folder of keys, certificates and the components' kubeconfig files.
    pub fn pki(&self) -> PathBuf {
        self.folder.join("pki")
    }

    /// Returns the path of the administrator's kubeconfig.
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.join("kubeconfig")
    }

    /// Returns the folder of the logs.
    pub fn logs(&self) -> PathBuf {
        logs(&self.folder)
    }

    /// Returns the path of a component's log file.
    pub fn log(&self, component: Component) -> PathBuf {
        self.logs().join(format!("{component}.log"))
    }

    /// Returns the address of a component.
    pub fn address(&self, component: Component) -> SocketAddr {
        match component {
            Component::Etcd => self.ports.etcd,
            Component::ApiServer => self.ports.api_server,
            Component::ControllerManager => self.ports.controller_manager,
            Component::Scheduler => self.ports.scheduler,
            Component::Elbv2 => self.ports.elbv2,
            Component::Kubelet | Component::Nodes => self.ports.kubelet_control,
        }
    }

    /// Returns the command line of a component.
    pub fn command_line(&self, component: Component) -> CommandLine {
        let (program, arguments) = match component {
            Component::Etcd => (self.bin(), self.etcd()),
            Component::ApiServer => (self.bin(), self.api_server()),
            Component::ControllerManager => (self.bin(), self.controller_manager()),
            Component::Scheduler => (self.bin(), self.scheduler()),
            Component::Elbv2 => (self.programs.clone(), self.elbv2()),
            Component::Kubelet => (self.programs.clone(), self.kubelet()),
            Component::Nodes => (self.programs.clone(), self.nodes()),
        };
        CommandLine { program: program.join(component.name()), arguments }
    }

    fn etcd(&self) -> Vec<String> {
        let (client, peer) = (self.ports.etcd, self.ports.etcd_peer);
        vec![
            flag("data-dir", self.folder.join("etcd").display()),
            flag("listen-client-urls", format_args!("http://{client}")),
            flag("advertise-client-urls", format_args!("http://{client}")),
            flag("listen-peer-urls", format_args!("http://{peer}")),
            flag("initial-advertise-peer-urls", format_args!("http://{peer}")),
            flag("initial-cluster", format_args!("default=http://{peer}")),
            // A local cluster does not survive a power failure, and fsync would slow down writes.
            "--unsafe-no-fsync".to_owned(),
            // A single member need not wait one second for the votes of other members. The values are in milliseconds.
            flag("heartbeat-interval", 20),
            flag("election-timeout", 200),
        ]
    }

    fn api_server(&self) -> Vec<String> {
        let pki = self.pki();
        let address = self.ports.api_server;
        vec![
            flag("etcd-servers", format_args!("http://{}", self.ports.etcd)),
            flag("bind-address", address.ip()),
            flag("advertise-address", address.ip()),
            flag("secure-port", address.port()),
            flag("tls-cert-file", pki.join("serving.crt").display()),
            flag("tls-private-key-file", pki.join("serving.key").display()),
            flag("client-ca-file", pki.join("ca.crt").display()),
            // No aggregated API uses these flags, but without the flags, every controller logs errors.
            flag("requestheader-client-ca-file", pki.join("ca.crt").display()),
            flag("requestheader-allowed-names", "front-proxy"),
            flag("requestheader-username-headers", "X-Remote-User"),
            flag("requestheader-group-headers", "X-Remote-Group"),
            flag("requestheader-extra-headers-prefix", "X-Remote-Extra-"),
            flag("service-account-key-file", pki.join("service-account.pub").display()),
            flag("service-account-signing-key-file", pki.join("service-account.key").display()),
            flag("service-account-issuer", "https://kubernetes.default.svc"),
            flag("service-cluster-ip-range", "10.96.0.0/16"),
            flag("authorization-mode", "Node,RBAC"),
            flag("enable-admission-plugins", "NodeRestriction"),
            // A loopback address cannot be an endpoint. With a real address, pods can reach the API server at
            // 10.96.0.1.
            flag("endpoint-reconciler-type", if self.has_real_nodes() { "lease" } else { "none" }),
            // `kubectl logs` and `kubectl exec` need this flag, because node names have no DNS records.
            flag("kubelet-preferred-address-types", "InternalIP"),
            flag("event-ttl", "1h"),
            // The limits are high enough for tests that start a thousand pods simultaneously.
            flag("max-requests-inflight", 3000),
            flag("max-mutating-requests-inflight", 1500),
        ]
    }

    fn controller_manager(&self) -> Vec<String> {
        let pki = self.pki();
        let mut arguments = self.controller(Component::ControllerManager, self.ports.controller_manager);
        arguments.extend([
            flag("service-account-private-key-file", pki.join("service-account.key").display()),
            flag("root-ca-file", pki.join("ca.crt").display()),
            // As in a real cluster, each controller has its own user name. Webhooks can therefore distinguish the
            // controllers.
            flag("use-service-account-credentials", true),
        ]);
        arguments
    }

    fn scheduler(&self) -> Vec<String> {
        self.controller(Component::Scheduler, self.ports.scheduler)
    }

    fn controller(&self, component: Component, address: SocketAddr) -> Vec<String> {
        let pki = self.pki();
        let kubeconfig = self.component_kubeconfig(component);
        vec![
            flag("kubeconfig", kubeconfig.display()),
            flag("authentication-kubeconfig", kubeconfig.display()),
            flag("authorization-kubeconfig", kubeconfig.display()),
            flag("bind-address", address.ip()),
            flag("secure-port", address.port()),
            flag("tls-cert-file", pki.join("serving.crt").display()),
            flag("tls-private-key-file", pki.join("serving.key").display()),
            flag("leader-elect", false),
            flag("kube-api-qps", 1000),
            flag("kube-api-burst", 2000),
        ]
    }

    /// Returns the path of the kubeconfig of a control plane component, or of the kubelets.
    pub fn component_kubeconfig(&self, component: Component) -> PathBuf {
        self.pki().join(format!("{component}.kubeconfig"))
    }

    fn elbv2(&self) -> Vec<String> {
        let mut arguments = vec![
            flag("api", self.ports.elbv2),
            flag("control", self.ports.elbv2_control),
            flag("dns", self.ports.dns),
            flag("time-scale", self.options.time_scale),
            flag("region", REGION),
            flag("account", ACCOUNT),
            flag("vpc", format_args!("{VPC}={}", self.network.vpc_cidr)),
            flag("node-addresses", self.network.balancers),
            flag("seed", self.options.seed),
            flag("log-format", "text"),
            "--print-ready".to_owned(),
        ];
        if self.has_real_nodes() {
            arguments.push("--own-network".to_owned());
        }
        arguments.extend(self.network.zones.iter().map(|zone| {
            let cidr = zone.cidr;
            let ranges =
                if self.has_real_nodes() { format!("{cidr},{}", ipv6_of(cidr)) } else { cidr.to_string() };
            flag("subnet", format_args!("{}={}={ranges}", zone.subnet_id, zone.name))
        }));
        arguments
    }

    fn has_real_nodes(&self) -> bool {
        self.options.nodes == Nodes::Real
    }

    fn nodes(&self) -> Vec<String> {
        let mut arguments = vec![
            "run".to_owned(),
            flag("folder", self.folder.join("nodes").display()),
            flag("logs", self.logs().display()),
            flag("programs", self.bin().display()),
            flag("credentials", self.pki().display()),
            flag("cgroup", &self.cgroup),
            flag("servers", self.network.servers),
            flag("vpc", self.network.vpc_cidr),
            flag("control", self.ports.kubelet_control),
        ];
        let zones = self.network.zones.iter();
        arguments.extend(zones.map(|zone| flag("zone", format_args!("{}={}", zone.name, zone.cidr))));
        let nodes = self.network.nodes();
        arguments
            .extend(nodes.map(|(zone, node, ip)| flag("node", format_args!("{node}={}={ip}", zone.name))));
        let images = self.images.iter();
        arguments.extend(images.map(|(name, file)| flag("image", format_args!("{name}={}", file.display()))));
        arguments
    }

    fn kubelet(&self) -> Vec<String> {
        let mut arguments = vec![
            flag("kubeconfig", self.component_kubeconfig(Component::Kubelet).display()),
            flag("time-scale", self.options.time_scale),
            flag("control", self.ports.kubelet_control),
            // A kubelet must not be newer than its API server.
            flag("kubelet-version", self.options.minor().version()),
            flag("log-format", "text"),
        ];
        for zone in &self.network.zones {
            arguments.push(flag("zone", format_args!("{}={}", zone.name, zone.cidr)));
            let nodes = zone.nodes.iter();
            arguments.extend(nodes.map(|node| flag("node", format_args!("{node}={}", zone.name))));
        }
        arguments
    }
}

/// Returns the folder of the logs in a cluster's folder.
pub fn logs(folder: &Path) -> PathBuf {
    folder.join("logs")
}

fn flag(name: &str, value: impl std::fmt::Display) -> String {
    format!("--{name}={value}")
}

#[cfg(test)]
pub(crate) mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;
    use crate::{
        minor::Minor,
        network::{Base, network},
    };

    /// Returns a plan with slot 7, two zones and fixed ports.
    pub(crate) fn plan() -> Plan {
        let address = |port| SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 107, 192, 1)), port);
        Plan {
            options: Options { zones: 2, ..Options::default() },
            slot: 7,
            network: network(Base::Slot(7), 2, 1),
            ports: Ports {
                etcd: address(1),
                etcd_peer: address(2),
                api_server: address(3),
                controller_manager: address(4),
                scheduler: address(5),
                elbv2: address(6),
                elbv2_control: address(7),
                dns: address(8),
                kubelet_control: address(9),
            },
            folder: PathBuf::from("/cache/worlds/default"),
            programs: PathBuf::from("/programs"),
            cgroup: "headgate-7".to_owned(),
            images: vec![("headgate.local/web:1".to_owned(), PathBuf::from("/images/web"))],
        }
    }

    #[test]
    fn the_load_balancers_are_told_their_subnets_and_addresses() {
        let command = plan().command_line(Component::Elbv2);
        assert_eq!(command.program, Path::new("/programs/elbv2"));
        for expected in [
            "--api=127.107.192.1:6",
            "--vpc=vpc-0a1b2c3d4e5f60718=127.107.0.0/16",
            "--subnet=subnet-a=us-east-1a=127.107.0.0/19",
            "--subnet=subnet-b=us-east-1b=127.107.32.0/19",
            "--node-addresses=127.107.224.0/19",
            "--print-ready",
        ] {
            assert!(command.arguments.iter().any(|argument| argument == expected), "{expected}");
        }
    }

    #[test]
    fn the_kubelets_are_told_their_nodes_and_the_ranges_of_their_pods() {
        let command = plan().command_line(Component::Kubelet);
        for expected in [
            "--node=node-a1=us-east-1a",
            "--node=node-b1=us-east-1b",
            "--zone=us-east-1b=127.107.32.0/19",
            "--kubeconfig=/cache/worlds/default/pki/kubelet.kubeconfig",
            &format!("--kubelet-version={}", Minor::default().version()),
        ] {
            assert!(command.arguments.iter().any(|argument| argument == expected), "{expected}");
        }
    }

    #[test]
    fn real_nodes_are_told_their_addresses_and_images_and_the_load_balancers_that_loopback_is_not_all() {
        let plan = Plan { options: Options::real(), network: network(Base::Own, 2, 1), ..plan() };
        let nodes = plan.command_line(Component::Nodes);
        assert_eq!(
            (nodes.program.as_path(), nodes.arguments[0].as_str()),
            (Path::new("/programs/nodes"), "run")
        );
        for expected in [
            "--node=node-b1=us-east-1b=10.0.193.2",
            "--zone=us-east-1b=10.0.32.0/19",
            "--image=headgate.local/web:1=/images/web",
            "--cgroup=headgate-7",
        ] {
            assert!(nodes.arguments.iter().any(|argument| argument == expected), "{expected}");
        }
        let balancers = plan.command_line(Component::Elbv2);
        assert!(balancers.arguments.iter().any(|argument| argument == "--own-network"));
    }

    #[test]
    fn the_kubernetes_programs_come_from_the_world_and_keep_their_names() {
        let plan = plan();
        for component in [Component::Etcd, Component::ApiServer, Component::Scheduler] {
            let command = plan.command_line(component);
            assert_eq!(command.program, plan.bin().join(component.name()));
        }
    }
}
