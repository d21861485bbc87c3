//! Settings that are fixed at the start: the sockets, the simulated account, and the addresses of the nodes.
//!
//! The module also contains the forms on the command line (`ID=CIDR`, `ID=ZONE=CIDR`) and the defaults. The behavior is
//! separate, because the control API can change it at run time.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::str::FromStr;

use ipnet::{IpNet, Ipv6Net};

use crate::behaviour::Profile;

/// All settings that are fixed at the start.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The socket of the AWS Query API. Port 0: a free port.
    pub api: SocketAddr,
    /// The socket of the control API.
    pub control: SocketAddr,
    /// The UDP socket of the DNS server.
    pub dns: SocketAddr,
    /// Real seconds per AWS second. With `0.05`, an AWS minute takes three real seconds.
    pub time_scale: f64,
    /// The behavior at the start and after a reset. `None`: the published and measured behavior of AWS.
    pub profile: Option<Profile>,
    /// The region in ARNs and DNS names.
    pub region: String,
    /// The account in ARNs, which has twelve digits.
    pub account: String,
    /// The only VPC.
    pub vpc: Vpc,
    /// The subnets of the VPC. An `ip` target is in the zone of the subnet that contains the target's address.
    pub subnets: Vec<Subnet>,
    /// The address range of the load balancer nodes.
    pub node_addresses: IpNet,
    /// Whether the process is in a network namespace without a route out. Node addresses may then be outside of
    /// loopback, and nodes contact all targets in the VPC.
    pub own_network: bool,
    /// The seed of all random values, such as delays and identifiers.
    pub seed: u64,
    /// The number of trace entries to keep. If the trace is full, the oldest entry is dropped.
    pub trace_capacity: usize,
}

/// A VPC in the form `ID=CIDR`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vpc {
    /// The identifier: `vpc-` and hexadecimal digits.
    pub id: String,
    /// The addresses of the VPC.
    pub cidr: IpNet,
}

/// A subnet in the form `ID=ZONE=CIDR` or `ID=ZONE=CIDR,CIDR`. The second range contains IPv6 addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subnet {
    /// The identifier, which can be any name. In AWS, identifiers begin with `subnet-`.
    pub id: String,
    /// The Availability Zone, such as `us-east-1a`.
    pub zone: String,
    /// The addresses of the subnet, which are part of the VPC.
    pub cidr: IpNet,
    /// The IPv6 addresses of the subnet.
    pub cidr_v6: Option<Ipv6Net>,
}

impl Subnet {
    /// Returns whether the subnet contains the address.
    pub fn has(&self, ip: IpAddr) -> bool {
        match ip {
            IpAddr::V4(_) => self.cidr.contains(&ip),
            IpAddr::V6(ip) => self.cidr_v6.is_some_and(|range| range.contains(&ip)),
        }
    }
}

/// An invalid value on the command line.
#[derive(Debug, thiserror::Error)]
pub enum ParseSettingError {
    /// The value is not in the form `ID=CIDR`.
    #[error("'{0}' is not a VPC: write ID=CIDR, for example vpc-0a1b2c3d4e5f60718=127.101.0.0/16")]
    Vpc(String),
    /// The value is not in the form `ID=ZONE=CIDR` or `ID=ZONE=CIDR,CIDR`.
    #[error(
        "'{0}' is not a subnet: write ID=ZONE=CIDR or ID=ZONE=CIDR,IPV6CIDR, for example subnet-a=us-east-1a=127.101.0.0/19"
    )]
    Subnet(String),
}

impl FromStr for Vpc {
    type Err = ParseSettingError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || ParseSettingError::Vpc(text.to_owned());
        let (id, cidr) = text.split_once('=').ok_or_else(wrong)?;
        let cidr = cidr.parse().map_err(|_| wrong())?;
        if id.is_empty() { Err(wrong()) } else { Ok(Self { id: id.to_owned(), cidr }) }
    }
}

impl FromStr for Subnet {
    type Err = ParseSettingError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || ParseSettingError::Subnet(text.to_owned());
        let mut parts = text.splitn(3, '=');
        match (parts.next(), parts.next(), parts.next()) {
            (Some(id), Some(zone), Some(ranges)) if !id.is_empty() && !zone.is_empty() => {
                let (cidr, cidr_v6) = match ranges.split_once(',') {
                    Some((cidr, cidr_v6)) => (cidr, Some(cidr_v6.parse().map_err(|_| wrong())?)),
                    None => (ranges, None),
                };
                let cidr = cidr.parse().map_err(|_| wrong())?;
                Ok(Self { id: id.to_owned(), zone: zone.to_owned(), cidr, cidr_v6 })
            }
            _ => Err(wrong()),
        }
    }
}

impl Settings {
    /// Returns the settings of slot number `slot` with loopback addresses. The VPC is `127.(100+slot).0.0/16`, with
    /// `zones` subnets of /19. The nodes are in `127.(100+slot).224.0/19`. `slot` is 1..=100, and `zones` is 1..=6.
    /// Values outside these ranges are clamped.
    pub fn slot(slot: u8, zones: u8) -> Self {
        let second = 100 + slot.clamp(1, 100);
        let net = |third: u8, bits: u8| {
            IpNet::new(IpAddr::V4(Ipv4Addr::new(127, second, third, 0)), bits).unwrap_or_default()
        };
        let letter = |zone: u8| char::from(b'a' + zone);
        Self {
            vpc: Vpc { id: "vpc-0a1b2c3d4e5f60718".to_owned(), cidr: net(0, 16) },
            subnets: (0..zones.clamp(1, 6))
                .map(|zone| Subnet {
                    id: format!("subnet-{}", letter(zone)),
                    zone: format!("us-east-1{}", letter(zone)),
                    cidr: net(32 * zone, 19),
                    cidr_v6: None,
                })
                .collect(),
            node_addresses: net(224, 19),
            ..Self::bare()
        }
    }

    fn bare() -> Self {
        let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        Self {
            api: any_port,
            control: any_port,
            dns: any_port,
            time_scale: 0.05,
            profile: None,
            region: "us-east-1".to_owned(),
            account: "123456789012".to_owned(),
            vpc: Vpc { id: String::new(), cidr: IpNet::default() },
            subnets: Vec::new(),
            node_addresses: IpNet::default(),
            own_network: false,
            seed: 1,
            trace_capacity: 500_000,
        }
    }
}

impl Default for Settings {
    /// Returns the settings of slot 1 with three zones. All sockets are on free ports.
    fn default() -> Self {
        Self::slot(1, 3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subnet_reads_as_id_zone_and_range() {
        let subnet: Subnet = "subnet-a=us-east-1a=127.101.0.0/19".parse().unwrap();
        assert_eq!((subnet.id.as_str(), subnet.zone.as_str()), ("subnet-a", "us-east-1a"));
        assert!(subnet.has("127.101.31.255".parse().unwrap()) && !subnet.has("fd00::1".parse().unwrap()));
        let both: Subnet = "subnet-a=us-east-1a=10.0.0.0/19,fd00:a::/64".parse().unwrap();
        assert!(both.has("10.0.0.1".parse().unwrap()) && both.has("fd00:a::1".parse().unwrap()));
        assert!(!both.has("fd00:b::1".parse().unwrap()));
        assert!("subnet-a=us-east-1a=10.0.0.0/19,10.1.0.0/19".parse::<Subnet>().is_err());
    }

    #[test]
    fn a_subnet_without_zone_says_how_to_write_one() {
        let error = "subnet-a=127.101.0.0/19".parse::<Subnet>().unwrap_err();
        assert!(error.to_string().contains("ID=ZONE=CIDR"));
    }

    #[test]
    fn zones_of_a_slot_do_not_overlap_with_its_nodes() {
        let settings = Settings::slot(7, 6);
        assert_eq!(settings.vpc.cidr.to_string(), "127.107.0.0/16");
        assert_eq!(settings.subnets[5].cidr.to_string(), "127.107.160.0/19");
        assert!(settings.subnets.iter().all(|s| !s.cidr.contains(&settings.node_addresses.addr())));
    }
}
