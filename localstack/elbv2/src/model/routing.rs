//! The routing tables: the targets that each node sends new connections to. Each change of a target updates the tables.
//!
//! A node sends to the healthy targets in its pool. The pool contains the targets of the node's zone, or of all zones
//! with cross-zone load balancing. With too few healthy targets, the node fails open and sends to all targets of the
//! pool. By default, one healthy target is enough, but an attribute can require more. Each node has two lists per
//! group, so a change takes the same time in small and large groups.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use super::least::Least;
use super::target::TargetKey;
use super::{Action, BalancerId, GroupId, ListenerId, Model, Node, RequestFacts, attributes};
use crate::trace::Event;

/// A target that a node sends to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Route {
    pub target: SocketAddr,
    /// The number of the registration. A kept-alive connection must not outlive the registration.
    pub registration: u64,
}

/// The decision about a new connection.
#[derive(Debug, Clone)]
pub struct Choice {
    /// The name of the load balancer.
    pub load_balancer: String,
    /// The name of the target group. `None`: the listener was deleted.
    pub target_group: Option<String>,
    pub group: Option<GroupId>,
    /// The target. `None`: the node has no target.
    pub route: Option<Route>,
    /// The load balancer's own answer: a fixed response or a redirect.
    pub answer: Option<Action>,
    /// Whether the target sees the IP address of the client.
    pub preserve_client_ip: bool,
    /// The idle time after which a Network Load Balancer drops a flow, in real time.
    pub idle: Duration,
}

/// The use of a target group by a load balancer.
#[derive(Debug)]
pub struct Attachment {
    pub balancer: BalancerId,
    pub nodes: Vec<NodeView>,
    cross_zone: bool,
}

/// The routing table of one node for one target group.
#[derive(Debug)]
pub struct NodeView {
    pub address: IpAddr,
    pub zone: String,
    healthy: Pool,
    rest: Pool,
    least: Least,
    turn: usize,
}

/// Routes with an index. Adding, removing and choosing a route take constant time.
#[derive(Debug, Default)]
struct Pool {
    routes: Vec<Route>,
    places: HashMap<SocketAddr, usize>,
}

impl Pool {
    fn insert(&mut self, route: Route) {
        if let Some(place) = self.places.get(&route.target) {
            if let Some(old) = self.routes.get_mut(*place) {
                *old = route;
            }
            return;
        }
        self.places.insert(route.target, self.routes.len());
        self.routes.push(route);
    }

    fn remove(&mut self, target: SocketAddr) -> bool {
        let Some(place) = self.places.remove(&target) else { return false };
        self.routes.swap_remove(place);
        if let Some(moved) = self.routes.get(place) {
            self.places.insert(moved.target, place);
        }
        true
    }

    fn holds(&self, route: Route) -> bool {
        self.places.get(&route.target).and_then(|place| self.routes.get(*place)) == Some(&route)
    }

    fn has(&self, target: SocketAddr) -> bool {
        self.places.contains_key(&target)
    }
}

impl Attachment {
    pub fn new(balancer: BalancerId, nodes: &[Node]) -> Self {
        let view = |node: &Node| NodeView {
            address: node.address,
            zone: node.zone.clone(),
            healthy: Pool::default(),
            rest: Pool::default(),
            least: Least::default(),
            turn: 0,
        };
        Self { balancer, nodes: nodes.iter().map(view).collect(), cross_zone: false }
    }
}

impl NodeView {
    /// Returns the targets that the node sends to.
    pub fn routes(&self) -> impl Iterator<Item = &Route> {
        let rest: &[Route] = if self.fails_open() { &self.rest.routes } else { &[] };
        self.healthy.routes.iter().chain(rest)
    }

    fn count(&self) -> usize {
        self.healthy.routes.len() + if self.fails_open() { self.rest.routes.len() } else { 0 }
    }

    fn at(&self, place: usize) -> Option<Route> {
        let healthy = self.healthy.routes.len();
        self.healthy.routes.get(place).or_else(|| self.rest.routes.get(place.checked_sub(healthy)?)).copied()
    }

    /// Returns whether the pool has too few healthy targets, so that the node sends to all targets of the pool.
    pub fn fails_open(&self) -> bool {
        !self.least.routing.is_met(self.healthy.routes.len(), self.rest.routes.len())
    }

    /// Returns whether the pool has enough healthy targets for the zone to remain in DNS.
    pub fn is_sound(&self) -> bool {
        self.least.dns.is_met(self.healthy.routes.len(), self.rest.routes.len())
    }

    fn sends_to(&self, target: SocketAddr) -> bool {
        self.healthy.has(target) || self.fails_open() && self.rest.has(target)
    }

    /// Puts a target into the list for its health (`Some(healthy)`), or removes the target (`None`). Returns all
    /// targets for which the node starts or stops sending.
    fn place(&mut self, route: Route, place: Option<bool>) -> Vec<(SocketAddr, bool)> {
        let target = route.target;
        let (was_routed, failed_open) = (self.sends_to(target), self.fails_open());
        match place {
            Some(true) => {
                self.rest.remove(target);
                self.healthy.insert(route);
            }
            Some(false) => {
                self.healthy.remove(target);
                self.rest.insert(route);
            }
            None => {
                self.rest.remove(target);
                self.healthy.remove(target);
            }
        }
        let mut changes = self.rest_changes(failed_open);
        changes.retain(|(other, _)| *other != target);
        let is_routed = self.sends_to(target);
        if was_routed != is_routed {
            changes.push((target, is_routed));
        }
        changes
    }

    /// Returns the routing changes of unhealthy targets when the node starts or stops failing open.
    fn rest_changes(&self, failed_open: bool) -> Vec<(SocketAddr, bool)> {
        if failed_open == self.fails_open() {
            return Vec::new();
        }
        self.rest.routes.iter().map(|route| (route.target, !failed_open)).collect()
    }
}

impl Model {
    /// Moves one target to the correct list of one node after a change.
    pub(super) fn reroute(&mut self, id: GroupId, key: TargetKey, node: usize) {
        let Some(group) = self.groups.get(&id) else { return };
        let shifted = group.targets.get(&key).is_some_and(|target| self.is_shifted(group, &target.zone));
        let Some(group) = self.groups.get_mut(&id) else { return };
        let Some(attachment) = group.attachment.as_mut() else { return };
        let cross_zone = attachment.cross_zone;
        let Some(view) = attachment.nodes.get_mut(node) else { return };
        let target = group.targets.get(&key);
        let seen = target.and_then(|target| target.seen.get(node));
        let registration = seen.and_then(|seen| seen.registration);
        let in_pool = cross_zone || target.is_some_and(|target| target.zone.covers(&view.zone));
        let in_pool = in_pool && !shifted;
        let place = registration.filter(|_| in_pool).map(|_| seen.is_some_and(|s| s.health == Some(true)));
        let route = Route { target: key.into(), registration: registration.unwrap_or_default() };
        let changes = view.place(route, place);
        self.note_routes(id, node, changes);
    }

    fn note_routes(&mut self, id: GroupId, node: usize, changes: Vec<(SocketAddr, bool)>) {
        if changes.is_empty() {
            return;
        }
        let Some(group) = self.groups.get(&id) else { return };
        let Some(attachment) = &group.attachment else { return };
        let Some(view) = attachment.nodes.get(node) else { return };
        let Some(balancer) = self.balancers.get(&attachment.balancer) else { return };
        self.events.extend(changes.into_iter().map(|(target, routing)| Event::Route {
            load_balancer: balancer.spec.name.clone(),
            target_group: group.spec.name.clone(),
            node: view.address,
            zone: view.zone.clone(),
            target,
            routing,
        }));
    }

    /// Clears all routing tables of a group.
    pub(super) fn clear_views(&mut self, id: GroupId) {
        let Some(attachment) = self.groups.get_mut(&id).and_then(|group| group.attachment.as_mut()) else {
            return;
        };
        let mut all = Vec::new();
        for (node, view) in attachment.nodes.iter_mut().enumerate() {
            let changes = view.routes().map(|route| (route.target, false)).collect();
            (view.healthy, view.rest) = (Pool::default(), Pool::default());
            all.push((node, changes));
        }
        for (node, changes) in all {
            self.note_routes(id, node, changes);
        }
    }

    /// Updates the thresholds for the minimum number of healthy targets.
    pub(super) fn refresh_least(&mut self, id: GroupId) {
        let Some(group) = self.groups.get_mut(&id) else { return };
        let least = Least::of(&group.attributes);
        let Some(attachment) = group.attachment.as_mut() else { return };
        let mut all = Vec::new();
        for (node, view) in attachment.nodes.iter_mut().enumerate() {
            let failed_open = view.fails_open();
            view.least = least;
            all.push((node, view.rest_changes(failed_open)));
        }
        for (node, changes) in all {
            self.note_routes(id, node, changes);
        }
    }

    /// Updates whether nodes send to all zones, and all affected routes.
    pub(super) fn refresh_cross_zone(&mut self, id: GroupId) {
        let Some(group) = self.groups.get(&id) else { return };
        let cross_zone = self.cross_zone(group);
        let Some(attachment) = self.groups.get_mut(&id).and_then(|group| group.attachment.as_mut()) else {
            return;
        };
        if attachment.cross_zone == cross_zone {
            return;
        }
        attachment.cross_zone = cross_zone;
        self.reroute_all(id);
    }

    /// Moves all targets of a group to the correct lists of all nodes.
    pub(super) fn reroute_all(&mut self, id: GroupId) {
        let Some(group) = self.groups.get(&id) else { return };
        let keys: Vec<TargetKey> = group.targets.keys().copied().collect();
        let nodes = group.attachment.as_ref().map_or(0, |attachment| attachment.nodes.len());
        for key in keys {
            for node in 0..nodes {
                self.reroute(id, key, node);
            }
        }
    }

    /// Chooses a target for a new connection or request at a node. `flow` is a hash: the same hash gives the same
    /// target. Without a hash, targets are chosen round robin. `request` contains the properties that rules use.
    pub fn choose(
        &mut self,
        listener: ListenerId,
        node: usize,
        flow: Option<u64>,
        request: Option<RequestFacts>,
    ) -> Option<Choice> {
        let found = self.listeners.get(&listener)?;
        let rule = request.and_then(|request| found.rules.iter().find(|rule| rule.takes(request)));
        let action = rule.map_or(&found.action, |rule| &rule.action);
        let forwards = action.forwards().to_vec();
        let answer = forwards.is_empty().then(|| action.clone());
        let idle = found.attributes.get(attributes::TCP_IDLE_TIMEOUT).and_then(|value| value.parse().ok());
        let idle = self.behaviour.time_out(idle.unwrap_or(350.0));
        let load_balancer = self.balancers.get(&found.balancer)?.spec.name.clone();
        let total: u64 = forwards.iter().map(|forward| u64::from(forward.weight)).sum();
        let share = match flow {
            // The choice of the group and the choice of the target use different bits.
            Some(flow) => flow.rotate_left(32),
            None if forwards.len() == 1 => 0,
            None => self.draw_for_traffic(),
        };
        let mut rest = share.checked_rem(total).unwrap_or_default();
        let chosen = forwards.iter().find(|forward| {
            let mine = rest < u64::from(forward.weight);
            if !mine {
                rest -= u64::from(forward.weight);
            }
            mine
        });
        let chosen = chosen.filter(|_| total > 0).map(|forward| forward.group);
        let group = chosen.and_then(|id| self.groups.get_mut(&id));
        let target_group = group.as_ref().map(|group| group.spec.name.clone());
        let preserve_client_ip =
            group.as_ref().is_some_and(|group| group.is_on(attributes::PRESERVE_CLIENT_IP));
        let view = group.and_then(|group| group.attachment.as_mut()?.nodes.get_mut(node));
        let route = view.and_then(|view| {
            view.turn = view.turn.wrapping_add(1);
            let count = view.count();
            let place = match flow {
                Some(flow) => flow.checked_rem(u64::try_from(count).ok()?)?.try_into().ok()?,
                None => view.turn.checked_rem(count)?,
            };
            view.at(place)
        });
        Some(Choice { load_balancer, target_group, group: chosen, route, answer, preserve_client_ip, idle })
    }

    /// Returns whether a node still sends to a route. The caller must check the route before it reuses a kept-alive
    /// connection.
    pub fn still_routes(&self, listener: ListenerId, node: usize, route: Route) -> bool {
        let Some(listener) = self.listeners.get(&listener) else { return false };
        listener.forwards().any(|forward| {
            self.groups
                .get(&forward.group)
                .and_then(|group| group.attachment.as_ref()?.nodes.get(node))
                .is_some_and(|view| view.holds(route))
        })
    }
}

impl NodeView {
    fn holds(&self, route: Route) -> bool {
        self.healthy.holds(route) || self.fails_open() && self.rest.holds(route)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view() -> NodeView {
        let node =
            Node { zone: "a".into(), subnet: "subnet-a".into(), address: "127.1.0.1".parse().unwrap() };
        Attachment::new(BalancerId(1), &[node]).nodes.remove(0)
    }

    fn route(port: u16) -> Route {
        Route { target: SocketAddr::from(([127, 0, 0, 1], port)), registration: 1 }
    }

    fn ports(view: &NodeView) -> Vec<u16> {
        let mut ports: Vec<u16> = view.routes().map(|route| route.target.port()).collect();
        ports.sort_unstable();
        ports
    }

    #[test]
    fn without_a_healthy_target_all_are_routed_to() {
        let mut view = view();
        view.place(route(1), Some(false));
        view.place(route(2), Some(false));
        assert_eq!(ports(&view), [1, 2]);
    }

    #[test]
    fn the_first_healthy_target_ends_fail_open_and_the_last_one_brings_it_back() {
        let mut view = view();
        view.place(route(1), Some(false));
        view.place(route(2), Some(false));
        assert_eq!(view.place(route(1), Some(true)), [(route(2).target, false)]);
        assert_eq!(ports(&view), [1]);
        assert_eq!(view.place(route(1), None), [(route(2).target, true), (route(1).target, false)]);
        assert_eq!(ports(&view), [2]);
    }

    #[test]
    fn a_change_of_health_that_changes_no_route_is_no_change() {
        let mut view = view();
        view.place(route(1), Some(true));
        assert_eq!(view.place(route(2), Some(false)), []);
        assert_eq!(view.place(route(2), None), []);
    }

    #[test]
    fn a_new_registration_of_a_target_replaces_the_route() {
        let mut view = view();
        view.place(route(1), Some(true));
        let renewed = Route { registration: 2, ..route(1) };
        view.place(renewed, Some(true));
        assert!(view.holds(renewed));
        assert!(!view.holds(route(1)));
    }
}
