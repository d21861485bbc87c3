//! The state that the control API shows: the targets that each node sends to, and whether all nodes agree with the API.
//! This module does not change the state.

use std::net::{IpAddr, SocketAddr};

use serde::Serialize;

use super::target::State;
use super::{Model, TargetGroup};

/// A load balancer.
#[derive(Debug, Serialize)]
#[allow(missing_docs)] // the words of the API
pub struct BalancerView {
    pub name: String,
    pub arn: String,
    #[serde(rename = "type")]
    pub kind: &'static str,
    pub dns_name: String,
    pub state: &'static str,
    pub nodes: Vec<NodeAddress>,
    pub listeners: Vec<ListenerView>,
    pub target_groups: Vec<GroupView>,
    /// Whether all target groups of the load balancer are settled.
    pub settled: bool,
}

/// A node.
#[derive(Debug, Serialize)]
#[allow(missing_docs)] // plain words
pub struct NodeAddress {
    pub zone: String,
    pub address: IpAddr,
    /// Whether DNS answers contain the node's address.
    pub in_dns: bool,
}

/// A listener.
#[derive(Debug, Serialize)]
#[allow(missing_docs)] // the words of the API
pub struct ListenerView {
    pub port: u16,
    pub protocol: &'static str,
    pub arn: String,
    pub forwards: Vec<ForwardView>,
}

/// A target group of a listener.
#[derive(Debug, Serialize)]
#[allow(missing_docs)] // the words of the API
pub struct ForwardView {
    pub target_group: String,
    pub weight: u32,
}

/// A target group that a listener uses.
#[derive(Debug, Serialize)]
pub struct GroupView {
    pub name: String,
    /// Whether all changes have arrived: no target is initial, and each node acts on the state that the API shows.
    pub settled: bool,
    /// The targets that each node sends to.
    pub nodes: Vec<NodeRoutes>,
}

/// The targets that a node sends to.
#[derive(Debug, Serialize)]
#[allow(missing_docs)] // plain words
pub struct NodeRoutes {
    pub zone: String,
    pub address: IpAddr,
    pub routes: Vec<SocketAddr>,
}

impl Model {
    /// Returns the state of all load balancers.
    pub fn snapshot(&self) -> Vec<BalancerView> {
        self.balancers().map(|balancer| self.view(balancer)).collect()
    }

    fn view(&self, balancer: &super::LoadBalancer) -> BalancerView {
        let groups: Vec<GroupView> =
            self.groups().filter(|g| g.balancer() == Some(balancer.id)).map(group_view).collect();
        let in_dns = self.addresses_in_dns(balancer);
        BalancerView {
            name: balancer.spec.name.clone(),
            arn: balancer.arn.clone(),
            kind: balancer.spec.kind.as_str(),
            dns_name: balancer.dns_name.clone(),
            state: balancer.state.as_str(),
            nodes: balancer
                .nodes
                .iter()
                .map(|node| NodeAddress {
                    zone: node.zone.clone(),
                    address: node.address,
                    in_dns: in_dns.contains(&node.address),
                })
                .collect(),
            listeners: self
                .listeners()
                .filter(|listener| listener.balancer == balancer.id)
                .map(|listener| ListenerView {
                    port: listener.port,
                    protocol: listener.protocol.as_str(),
                    arn: listener.arn.clone(),
                    forwards: listener
                        .action
                        .forwards()
                        .iter()
                        .filter_map(|forward| {
                            let target_group = self.group(forward.group).ok()?.spec.name.clone();
                            Some(ForwardView { target_group, weight: forward.weight })
                        })
                        .collect(),
                })
                .collect(),
            settled: groups.iter().all(|group| group.settled),
            target_groups: groups,
        }
    }

    /// Returns the addresses of a load balancer in DNS answers. A node is included if the node sees enough healthy
    /// targets in every used group. If no node sees enough healthy targets, all nodes are included.
    pub fn addresses_in_dns(&self, balancer: &super::LoadBalancer) -> Vec<IpAddr> {
        let shifted =
            |node: usize| balancer.nodes.get(node).is_some_and(|node| balancer.is_shifted(&node.zone));
        let sound = |node: usize| {
            !shifted(node)
                && self
                    .groups()
                    .filter_map(|group| group.attachment.as_ref())
                    .filter(|attachment| attachment.balancer == balancer.id)
                    .all(|attachment| {
                        attachment.nodes.get(node).is_some_and(super::routing::NodeView::is_sound)
                    })
        };
        let addresses =
            |all: bool| balancer.nodes.iter().enumerate().filter(move |(node, _)| all || sound(*node));
        let some: Vec<IpAddr> = addresses(false).map(|(_, node)| node.address).collect();
        if some.is_empty() { addresses(true).map(|(_, node)| node.address).collect() } else { some }
    }
}

fn group_view(group: &TargetGroup) -> GroupView {
    let nodes = group.attachment.iter().flat_map(|attachment| &attachment.nodes);
    GroupView {
        name: group.spec.name.clone(),
        settled: is_settled(group),
        nodes: nodes
            .map(|view| {
                let mut routes: Vec<SocketAddr> = view.routes().map(|route| route.target).collect();
                routes.sort_unstable();
                NodeRoutes { zone: view.zone.clone(), address: view.address, routes }
            })
            .collect(),
    }
}

fn is_settled(group: &TargetGroup) -> bool {
    group.targets().all(|target| {
        // If a decision has not reached the API yet, some nodes have not received the decision either.
        let agreed = |health| {
            target.verdict == Some(health)
                && target
                    .seen
                    .iter()
                    .all(|seen| seen.registration == Some(target.registration) && seen.health == Some(health))
        };
        match target.state {
            State::Unused(_) | State::Draining => target.seen.iter().all(|seen| seen.registration.is_none()),
            State::Registering | State::Checking => false,
            State::Healthy => agreed(true),
            State::Unhealthy(_) | State::UnhealthyDraining(_) => agreed(false),
        }
    })
}
