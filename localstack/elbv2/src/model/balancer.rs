//! Load balancers and their nodes. Each enabled zone has one node with its own address.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use super::names::{Arn, ArnKind, check_name};
use super::timers::Due;
use super::{BalancerId, Kind, ListenerId, Model, Refusal, Tags, attributes};

/// The state of a load balancer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BalancerState {
    /// The load balancer is being created.
    Provisioning,
    /// The load balancer is ready.
    Active,
}

impl BalancerState {
    /// Returns the name in the AWS API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Provisioning => "provisioning",
            Self::Active => "active",
        }
    }
}

/// A node of a load balancer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    pub zone: String,
    pub subnet: String,
    /// The address that the node listens on, and that targets see as the client.
    pub address: IpAddr,
}

/// The parameters of CreateLoadBalancer.
#[derive(Debug, Clone)]
pub struct NewBalancer {
    /// The name, which is unique in the account.
    pub name: String,
    pub kind: Kind,
    /// Whether the scheme is `internal` instead of `internet-facing`. With either scheme, nodes listen only on
    /// loopback.
    pub internal: bool,
    /// The subnets, one per zone.
    pub subnets: Vec<String>,
    /// Whether targets may have IPv6 addresses. Clients always use IPv4.
    pub dualstack: bool,
    /// The security groups. The API returns the security groups, but security groups have no effect.
    pub security_groups: Vec<String>,
    /// The current tags.
    pub tags: Tags,
}

/// A load balancer.
#[derive(Debug)]
pub struct LoadBalancer {
    pub id: BalancerId,
    pub arn: String,
    /// The DNS name, in lower case.
    pub dns_name: String,
    /// The parameters at the creation of the load balancer. Only `tags` is kept current.
    pub spec: NewBalancer,
    pub state: BalancerState,
    /// The time of the creation.
    pub created: Duration,
    /// The nodes, one per zone, in the order of the subnets.
    pub nodes: Vec<Node>,
    /// All attributes and their values.
    pub attributes: BTreeMap<String, String>,
    /// The zones that get no new traffic because of a zonal shift.
    pub shifted: BTreeSet<String>,
}

impl Model {
    /// Creates a load balancer. If a load balancer with the same name and settings exists, returns the existing load
    /// balancer.
    pub fn create_balancer(&mut self, spec: NewBalancer, now: Duration) -> Result<BalancerId, Refusal> {
        check_name(ArnKind::LoadBalancer, &spec.name)?;
        let zones = self.zones_of(&spec)?;
        if let Some(existing) = self.balancers.values().find(|other| other.spec.name == spec.name) {
            let (old, new) = (&existing.spec, &spec);
            let same = (old.kind, old.internal, old.dualstack, &old.subnets)
                == (new.kind, new.internal, new.dualstack, &new.subnets);
            return if same { Ok(existing.id) } else { Err(Refusal::DuplicateLoadBalancerName(spec.name)) };
        }
        let mut nodes = Vec::with_capacity(zones.len());
        for (zone, subnet) in zones.into_iter().zip(&spec.subnets) {
            nodes.push(Node { zone, subnet: subnet.clone(), address: self.next_address()? });
        }
        let id = BalancerId(self.serial());
        let hex = self.hex(16);
        let (region, account) = (&self.settings.region, &self.settings.account);
        let arn = format!(
            "arn:aws:elasticloadbalancing:{region}:{account}:loadbalancer/{}/{}/{hex}",
            spec.kind.arn_word(),
            spec.name
        );
        let dns_name = match (spec.kind, spec.internal) {
            (Kind::Network, _) => format!("{}-{hex}.elb.{region}.amazonaws.com", spec.name),
            (Kind::Application, false) => format!("{}-{hex}.{region}.elb.amazonaws.com", spec.name),
            (Kind::Application, true) => format!("internal-{}-{hex}.{region}.elb.amazonaws.com", spec.name),
        }
        .to_ascii_lowercase();
        let provisioning = self.behaviour.lag(spec.kind).provisioning;
        let active_at = now + self.draw_scaled(provisioning);
        self.timers.add(active_at, Due::Activate(id));
        let balancer = LoadBalancer {
            id,
            arn,
            dns_name,
            state: BalancerState::Provisioning,
            created: now,
            nodes,
            attributes: attributes::balancer_defaults(spec.kind),
            shifted: BTreeSet::new(),
            spec,
        };
        self.balancers.insert(id, balancer);
        Ok(id)
    }

    fn zones_of(&self, spec: &NewBalancer) -> Result<Vec<String>, Refusal> {
        if spec.subnets.is_empty() {
            return Err(Refusal::validation("At least one subnet must be specified"));
        }
        let mut zones: Vec<String> = Vec::new();
        for id in &spec.subnets {
            let subnet = self
                .settings
                .subnets
                .iter()
                .find(|subnet| subnet.id == *id)
                .ok_or_else(|| Refusal::SubnetNotFound(id.clone()))?;
            if zones.contains(&subnet.zone) {
                return Err(Refusal::InvalidConfiguration(format!(
                    "A load balancer cannot be attached to multiple subnets in the same Availability Zone \
                     '{}'",
                    subnet.zone
                )));
            }
            zones.push(subnet.zone.clone());
        }
        if spec.kind == Kind::Application && zones.len() < 2 {
            return Err(Refusal::validation(
                "At least two subnets in two different Availability Zones must be specified",
            ));
        }
        Ok(zones)
    }

    /// Assigns addresses in order, and starts again at the end of the range. An address is therefore not reused soon,
    /// which matters because clients cache DNS answers.
    fn next_address(&mut self) -> Result<IpAddr, Refusal> {
        let range = self.settings.node_addresses;
        let IpAddr::V4(base) = range.network() else {
            return Err(Refusal::InvalidSubnet("Node addresses must be IPv4 addresses".to_owned()));
        };
        let hosts = 1_u32.checked_shl(32 - u32::from(range.prefix_len())).unwrap_or(u32::MAX);
        for _ in 0..hosts {
            self.next_node = (self.next_node + 1) % hosts;
            // Hosts never get the first or the last address of a subnet.
            if self.next_node == 0 || self.next_node + 1 == hosts {
                continue;
            }
            let address = IpAddr::from((u32::from(base) + self.next_node).to_be_bytes());
            let taken = |balancer: &LoadBalancer| balancer.nodes.iter().any(|node| node.address == address);
            if !self.balancers.values().any(taken) {
                return Ok(address);
            }
        }
        Err(Refusal::InvalidSubnet(format!("There is no free address for another node in {range}")))
    }

    /// Returns the node with this address.
    pub(super) fn node_at(&self, address: IpAddr) -> Option<&Node> {
        self.balancers.values().flat_map(|balancer| &balancer.nodes).find(|node| node.address == address)
    }

    pub(super) fn activate(&mut self, id: BalancerId) {
        if let Some(balancer) = self.balancers.get_mut(&id) {
            balancer.state = BalancerState::Active;
        }
    }

    /// Deletes a load balancer and its listeners. Returns the listeners, so that the caller can close their sockets.
    pub fn delete_balancer(&mut self, id: BalancerId, now: Duration) -> Result<Vec<ListenerId>, Refusal> {
        let balancer = self.balancer(id)?;
        if balancer.attributes.get(attributes::DELETION_PROTECTION).is_some_and(|on| on == "true") {
            return Err(Refusal::OperationNotPermitted(format!(
                "Load balancer '{}' cannot be deleted because deletion protection is enabled",
                balancer.arn
            )));
        }
        let listeners: Vec<ListenerId> =
            self.listeners.values().filter(|listener| listener.balancer == id).map(|l| l.id).collect();
        for listener in &listeners {
            self.listeners.remove(listener);
        }
        self.reattach(now);
        self.balancers.remove(&id);
        Ok(listeners)
    }

    /// Returns all load balancers in the order of their creation.
    pub fn balancers(&self) -> impl Iterator<Item = &LoadBalancer> {
        self.balancers.values()
    }

    /// Returns the load balancer with this identifier.
    pub fn balancer(&self, id: BalancerId) -> Result<&LoadBalancer, Refusal> {
        self.balancers.get(&id).ok_or(Refusal::LoadBalancerNotFound)
    }

    pub(super) fn balancer_mut(&mut self, id: BalancerId) -> Result<&mut LoadBalancer, Refusal> {
        self.balancers.get_mut(&id).ok_or(Refusal::LoadBalancerNotFound)
    }

    /// Returns the load balancer with this ARN. A malformed ARN is an error.
    pub fn balancer_by_arn(&self, arn: &str) -> Result<BalancerId, Refusal> {
        Arn::expect_kind(arn, ArnKind::LoadBalancer)?;
        self.balancers.values().find(|b| b.arn == arn).map(|b| b.id).ok_or(Refusal::LoadBalancerNotFound)
    }

    /// Returns the load balancer with this name.
    pub fn balancer_by_name(&self, name: &str) -> Result<BalancerId, Refusal> {
        self.balancers
            .values()
            .find(|balancer| balancer.spec.name == name)
            .map(|balancer| balancer.id)
            .ok_or(Refusal::LoadBalancerNotFound)
    }
}
