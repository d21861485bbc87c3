//! Decides which targets a target group accepts, by address, family, port and zone.
//!
//! The rules are the rules of AWS for `ip` groups (CreateTargetGroup, RegisterTargets). An address in a subnet of the
//! VPC gets the zone of the subnet. Addresses in 10/8, 172.16/12, 192.168/16 and 100.64/10 are also accepted, but the
//! call must contain the zone.

use std::net::{IpAddr, Ipv4Addr};

use super::target::{TargetKey, Zone};
use super::{Family, Model, Refusal, TargetGroup, TargetType};

/// A target in the form of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawTarget {
    /// The address of the target, for `ip` groups.
    pub id: String,
    /// The port of the target. `None`: the port of the target group.
    pub port: Option<u16>,
    /// The zone of the target, or `all`.
    pub zone: Option<String>,
}

/// Returns the key of a target to deregister or to look up. The key may be invalid for a registration.
pub fn key_of(group: &TargetGroup, raw: &RawTarget) -> Result<TargetKey, Refusal> {
    let ip = address(group, raw)?;
    let port = raw
        .port
        .or(group.spec.port)
        .ok_or_else(|| Refusal::validation(format!("A port must be specified for target '{}'", raw.id)))?;
    Ok(TargetKey { ip, port })
}

fn address(group: &TargetGroup, raw: &RawTarget) -> Result<IpAddr, Refusal> {
    let id = &raw.id;
    match group.spec.target_type {
        TargetType::Ip => {
            let wrong = || {
                let family = if group.spec.family == Family::Ipv4 { "IPv4" } else { "IPv6" };
                Refusal::validation(format!("The IP address '{id}' is not a valid {family} address"))
            };
            let ip: IpAddr = id.parse().map_err(|_| wrong())?;
            if ip.is_ipv4() == (group.spec.family == Family::Ipv4) { Ok(ip) } else { Err(wrong()) }
        }
        TargetType::Instance if id.starts_with("i-") => Err(Refusal::InvalidTarget(format!(
            "The following targets are not in a running state and cannot be registered: '{id}'"
        ))),
        TargetType::Instance => Err(Refusal::validation(format!("Instance ID '{id}' is not valid"))),
        TargetType::Lambda | TargetType::Alb => {
            Err(Refusal::InvalidTarget(format!("The following targets do not exist: '{id}'")))
        }
    }
}

impl Model {
    /// Returns the key and the zone of a target to register.
    pub(super) fn admit(&self, group: &TargetGroup, raw: &RawTarget) -> Result<(TargetKey, Zone), Refusal> {
        let key = key_of(group, raw)?;
        let zone = self.zone_of(key.ip, raw)?;
        Ok((key, zone))
    }

    fn zone_of(&self, ip: IpAddr, raw: &RawTarget) -> Result<Zone, Refusal> {
        let subnet = self.settings.subnets.iter().find(|subnet| subnet.has(ip));
        if let Some(node) = self.node_at(ip) {
            // The target can be registered, but no node uses it.
            return Ok(Zone::Named(node.zone.as_str().into()));
        }
        match (subnet, raw.zone.as_deref()) {
            (Some(subnet), Some(zone)) if zone != subnet.zone => Err(Refusal::validation(format!(
                "The IP address '{ip}' is within the VPC, and cannot have its Availability Zone overridden to \
                 '{zone}' from '{}'",
                subnet.zone
            ))),
            (Some(subnet), _) => Ok(Zone::Named(subnet.zone.as_str().into())),
            (None, _) if !is_private(ip) => Err(Refusal::validation(format!(
                "The IP address '{ip}' is not within a subnet of the VPC '{}', nor within 10.0.0.0/8, \
                 172.16.0.0/12, 192.168.0.0/16 or 100.64.0.0/10",
                self.settings.vpc.id
            ))),
            (None, None) => Err(Refusal::validation(format!(
                "The Availability Zone is required for IP address '{ip}' because it is not in the VPC"
            ))),
            (None, Some("all")) => Ok(Zone::All),
            (None, Some(zone)) if self.settings.subnets.iter().any(|subnet| subnet.zone == zone) => {
                Ok(Zone::Named(zone.into()))
            }
            (None, Some(zone)) => {
                Err(Refusal::validation(format!("The Availability Zone '{zone}' is not valid")))
            }
        }
    }
}

fn is_private(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_private() || is_shared(ip),
        IpAddr::V6(_) => false,
    }
}

/// Returns whether an address is in 100.64.0.0/10 (RFC 6598).
fn is_shared(ip: Ipv4Addr) -> bool {
    let [first, second, ..] = ip.octets();
    first == 100 && (64..128).contains(&second)
}
