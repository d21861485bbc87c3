//! The addresses of a local cluster: the VPC, subnets and zones.
//!
//! The module is pure. The first two bytes A.B and the number of zones determine all addresses. On loopback, A.B is
//! 127.(100+N) for slot N. In the network namespace of a local cluster, A.B is 10.0.
//!
//! | addresses | for |
//! |---|---|
//! | A.B.0.0/16 | the VPC |
//! | A.B.(32·i).0/19 | pods of zone i, 0 ≤ i < 6 |
//! | A.B.192.1 | the cluster's own servers |
//! | A.B.193.1 … | real nodes |
//! | A.B.224.0/19 | nodes of load balancers |

use std::net::Ipv4Addr;

use ipnet::Ipv4Net;
use serde::{Deserialize, Serialize};

/// The AWS region of every local cluster.
pub const REGION: &str = "us-east-1";
/// The AWS account of every local cluster. The examples of AWS use the same account.
pub const ACCOUNT: &str = "123456789012";
/// The identifier of every cluster's VPC.
pub const VPC: &str = "vpc-0a1b2c3d4e5f60718";
/// The maximum number of zones that fit into the VPC.
pub const MOST_ZONES: u8 = 6;

/// The addresses of a local cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// The address range of the VPC.
    pub vpc_cidr: Ipv4Net,
    /// The address of the API server and of all other servers of the cluster.
    pub servers: Ipv4Addr,
    /// The address range of the load balancer nodes.
    pub balancers: Ipv4Net,
    /// The zones, in the order of their letters.
    pub zones: Vec<Zone>,
}

/// An Availability Zone with its subnet and nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Zone {
    /// The name of the zone in AWS and in the node label `topology.kubernetes.io/zone`, such as `us-east-1a`.
    pub name: String,
    /// The identifier of the zone's subnet, such as `subnet-a`.
    pub subnet_id: String,
    /// The address range of the pods in the zone.
    pub cidr: Ipv4Net,
    /// The names of the Kubernetes nodes in the zone, such as `node-a1`.
    pub nodes: Vec<String>,
}

/// The first two bytes of all addresses of a local cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    /// The bytes of a slot of the loopback range. Slots have the numbers 1 to 100.
    Slot(u8),
    /// The bytes in the network namespace of a local cluster.
    Own,
}

/// Returns the network with this number of zones (1 to [`MOST_ZONES`]) and of nodes per zone. Further zones are
/// ignored.
pub fn network(base: Base, zones: u8, nodes_per_zone: u16) -> Network {
    let (first, second) = match base {
        Base::Slot(slot) => (127, 100 + slot),
        Base::Own => (10, 0),
    };
    let part = |third| net(Ipv4Addr::new(first, second, third, 0), 19);
    let zone = |index: u8| {
        let letter = char::from(b'a' + index);
        Zone {
            name: format!("{REGION}{letter}"),
            subnet_id: format!("subnet-{letter}"),
            cidr: part(32 * index),
            nodes: (1..=nodes_per_zone).map(|number| format!("node-{letter}{number}")).collect(),
        }
    };
    Network {
        vpc_cidr: net(Ipv4Addr::new(first, second, 0, 0), 16),
        servers: Ipv4Addr::new(first, second, 192, 1),
        balancers: part(224),
        zones: (0..zones.min(MOST_ZONES)).map(zone).collect(),
    }
}

impl Network {
    /// Returns the nodes with their zones and addresses, in order.
    pub fn nodes(&self) -> impl Iterator<Item = (&Zone, &str, Ipv4Addr)> {
        let [first, second, ..] = self.servers.octets();
        let start = Ipv4Addr::new(first, second, 193, 1);
        let nodes =
            self.zones.iter().flat_map(|zone| zone.nodes.iter().map(move |node| (zone, node.as_str())));
        let ip = move |number: u32| Ipv4Addr::from(u32::from(start) + number);
        (0..).zip(nodes).map(move |(number, (zone, node))| (zone, node, ip(number)))
    }
}

fn net(address: Ipv4Addr, prefix: u8) -> Ipv4Net {
    Ipv4Net::new_assert(address, prefix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_vpc_are_inside_it_and_do_not_overlap() {
        for slot in crate::slot::SLOTS {
            let network = network(Base::Slot(slot), MOST_ZONES, 2);
            let mut parts: Vec<Ipv4Net> = network.zones.iter().map(|zone| zone.cidr).collect();
            parts.push(network.balancers);
            for (index, part) in parts.iter().enumerate() {
                assert!(network.vpc_cidr.contains(part), "{part}");
                assert!(!part.contains(&network.servers), "{part}");
                for other in &parts[index + 1..] {
                    assert!(!part.contains(other) && !other.contains(part), "{part} and {other}");
                }
            }
            assert!(network.vpc_cidr.contains(&network.servers));
        }
    }

    #[test]
    fn a_zone_has_the_names_that_aws_and_kubernetes_give_it() {
        let network = network(Base::Slot(3), 2, 2);
        let second = &network.zones[1];
        assert_eq!(second.name, "us-east-1b");
        assert_eq!(second.subnet_id, "subnet-b");
        assert_eq!(second.cidr.to_string(), "127.103.32.0/19");
        assert_eq!(second.nodes, ["node-b1", "node-b2"]);
        assert_eq!(network.zones.len(), 2);
    }

    #[test]
    fn real_nodes_have_addresses_beside_those_of_the_servers() {
        let network = network(Base::Own, 2, 2);
        let nodes: Vec<String> =
            network.nodes().map(|(zone, node, ip)| format!("{node} {} {ip}", zone.name)).collect();
        assert_eq!(nodes[0], "node-a1 us-east-1a 10.0.193.1");
        assert_eq!(nodes[3], "node-b2 us-east-1b 10.0.193.4");
        assert_eq!(network.servers, Ipv4Addr::new(10, 0, 192, 1));
    }
}
