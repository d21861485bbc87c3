//! The addresses of a world: its VPC, subnets and zones, all on loopback.
//!
//! Pure: from a slot and a number of zones follows everything else. The plan of slot N:
//!
//! | addresses | for |
//! |---|---|
//! | 127.(100+N).0.0/16 | the VPC |
//! | 127.(100+N).(32·i).0/19 | pods of zone i, 0 ≤ i < 6 |
//! | 127.(100+N).192.1 | the world's own servers |
//! | 127.(100+N).224.0/19 | nodes of load balancers |

use std::net::Ipv4Addr;

use ipnet::Ipv4Net;
use serde::{Deserialize, Serialize};

/// The AWS region of every world.
pub const REGION: &str = "us-east-1";
/// The AWS account of every world: the one that AWS uses in its own examples.
pub const ACCOUNT: &str = "123456789012";
/// The VPC of every world.
pub const VPC: &str = "vpc-0a1b2c3d4e5f60718";
/// As many zones as there are parts of the VPC left for them.
pub const MOST_ZONES: u8 = 6;

/// The addresses of a world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// The whole VPC.
    pub vpc_cidr: Ipv4Net,
    /// Where the API server and the other servers of the world listen.
    pub servers: Ipv4Addr,
    /// Where the nodes of load balancers take their addresses from.
    pub balancers: Ipv4Net,
    /// The zones, in the order of their letters.
    pub zones: Vec<Zone>,
}

/// One availability zone, its subnet and its nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Zone {
    /// As AWS and the node label `topology.kubernetes.io/zone` name it: `us-east-1a`.
    pub name: String,
    /// The subnet of the zone: `subnet-a`.
    pub subnet_id: String,
    /// Where the zone's pods take their IPs from.
    pub cidr: Ipv4Net,
    /// The Kubernetes nodes in the zone: `node-a1`, `node-a2`, ….
    pub nodes: Vec<String>,
}

/// The network of a slot (1 to 100) with so many zones (1 to [`MOST_ZONES`]) and nodes in each.
/// Zones beyond the last possible one are left out.
pub fn network(slot: u8, zones: u8, nodes_per_zone: u16) -> Network {
    let second = 100 + slot;
    let part = |third| net(Ipv4Addr::new(127, second, third, 0), 19);
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
        vpc_cidr: net(Ipv4Addr::new(127, second, 0, 0), 16),
        servers: Ipv4Addr::new(127, second, 192, 1),
        balancers: part(224),
        zones: (0..zones.min(MOST_ZONES)).map(zone).collect(),
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
            let network = network(slot, MOST_ZONES, 2);
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
        let network = network(3, 2, 2);
        let second = &network.zones[1];
        assert_eq!(second.name, "us-east-1b");
        assert_eq!(second.subnet_id, "subnet-b");
        assert_eq!(second.cidr.to_string(), "127.103.32.0/19");
        assert_eq!(second.nodes, ["node-b1", "node-b2"]);
        assert_eq!(network.zones.len(), 2);
    }
}
