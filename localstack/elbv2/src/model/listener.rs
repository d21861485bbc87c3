//! Listeners: a port of a load balancer, and the target groups that the port forwards to.
//!
//! A load balancer uses a target group from the first listener that forwards to the group until the last such listener
//! is deleted. Nodes learn of the targets only while a load balancer uses the group.

use std::collections::BTreeMap;
use std::time::Duration;

use super::names::{Arn, ArnKind};
use super::{
    Action, BalancerId, Family, Forward, GroupId, Kind, ListenerId, Model, Protocol, Refusal, Rule, Tags,
    attributes,
};

/// A listener.
#[derive(Debug)]
pub struct Listener {
    pub id: ListenerId,
    pub arn: String,
    pub balancer: BalancerId,
    /// The port, from 1 to 65535, which is unique in the load balancer.
    pub port: u16,
    /// The protocol: TCP or HTTP.
    pub protocol: Protocol,
    /// The default action.
    pub action: Action,
    /// The rules in the order of their priorities.
    pub rules: Vec<Rule>,
    pub tags: Tags,
    /// All attributes and their values.
    pub attributes: BTreeMap<String, String>,
}

impl Listener {
    /// Returns whether the listener forwards to a target group.
    pub fn forwards_to(&self, group: GroupId) -> bool {
        self.forwards().any(|forward| forward.group == group)
    }

    /// Returns all target groups that the listener forwards to, by default or by a rule.
    pub fn forwards(&self) -> impl Iterator<Item = &Forward> {
        let by_rule = self.rules.iter().flat_map(|rule| rule.action.forwards());
        self.action.forwards().iter().chain(by_rule)
    }

    /// Returns the ARN of the default action in the list of rules.
    pub fn default_rule_arn(&self) -> String {
        let (_, last) = self.arn.rsplit_once('/').unwrap_or_default();
        format!("{}/{last}", self.arn.replacen(":listener/", ":listener-rule/", 1))
    }
}

impl Model {
    /// Checks whether a listener can be created, so that the caller can open the sockets first.
    pub fn check_listener(
        &self,
        balancer: BalancerId,
        port: u16,
        protocol: Protocol,
        action: &Action,
    ) -> Result<(), Refusal> {
        let kind = self.balancer(balancer)?.spec.kind;
        if protocol.kind() != kind {
            return Err(Refusal::validation(format!(
                "Listener protocol '{}' is not supported for load balancers of type '{}'",
                protocol.as_str(),
                kind.as_str()
            )));
        }
        if !matches!(protocol, Protocol::Tcp | Protocol::Http) {
            return Err(Refusal::UnsupportedProtocol(format!(
                "This stand-in carries TCP and HTTP; a listener cannot speak '{}'",
                protocol.as_str()
            )));
        }
        if self.listeners.values().any(|other| other.balancer == balancer && other.port == port) {
            return Err(Refusal::DuplicateListener(self.balancer(balancer)?.arn.clone()));
        }
        self.check_action(balancer, kind, action)
    }

    /// Rejects an action that a listener of a load balancer cannot have.
    pub(super) fn check_action(
        &self,
        balancer: BalancerId,
        kind: Kind,
        action: &Action,
    ) -> Result<(), Refusal> {
        action.check(kind)?;
        for forward in action.forwards() {
            let group = self.group(forward.group)?;
            let fits = match (kind, group.spec.protocol) {
                (Kind::Network, Some(protocol)) => matches!(protocol, Protocol::Tcp | Protocol::TcpUdp),
                (Kind::Application, Some(protocol)) => protocol == Protocol::Http,
                (_, None) => false,
            };
            if !fits {
                return Err(Refusal::IncompatibleProtocols(format!(
                    "The target group '{}' does not speak a protocol that this listener can forward",
                    group.arn
                )));
            }
            if group.spec.family == Family::Ipv6 && !self.balancer(balancer)?.spec.dualstack {
                return Err(Refusal::InvalidConfiguration(format!(
                    "The target group '{}' has the IP address type 'ipv6', and its load balancer is not 'dualstack'",
                    group.arn
                )));
            }
            let elsewhere =
                |listener: &Listener| listener.balancer != balancer && listener.forwards_to(forward.group);
            if self.listeners.values().any(elsewhere) {
                return Err(Refusal::TargetGroupAssociationLimit(group.arn.clone()));
            }
        }
        Ok(())
    }

    /// Creates a listener.
    pub fn create_listener(
        &mut self,
        balancer: BalancerId,
        port: u16,
        protocol: Protocol,
        action: Action,
        tags: Tags,
        now: Duration,
    ) -> Result<ListenerId, Refusal> {
        self.check_listener(balancer, port, protocol, &action)?;
        let id = ListenerId(self.serial());
        let hex = self.hex(16);
        let arn =
            format!("{}/{hex}", self.balancer(balancer)?.arn.replacen(":loadbalancer/", ":listener/", 1));
        let attributes = attributes::listener_defaults(protocol.kind());
        let listener =
            Listener { id, arn, balancer, port, protocol, action, rules: Vec::new(), tags, attributes };
        self.listeners.insert(id, listener);
        self.reattach(now);
        Ok(id)
    }

    /// Replaces the default action. The new action applies to new connections immediately.
    pub fn change_listener(&mut self, id: ListenerId, action: Action, now: Duration) -> Result<(), Refusal> {
        let listener = self.listener(id)?;
        let kind = listener.protocol.kind();
        self.check_action(listener.balancer, kind, &action)?;
        if let Some(listener) = self.listeners.get_mut(&id) {
            listener.action = action;
        }
        self.reattach(now);
        Ok(())
    }

    /// Deletes a listener.
    pub fn delete_listener(&mut self, id: ListenerId, now: Duration) -> Result<(), Refusal> {
        self.listeners.remove(&id).ok_or(Refusal::ListenerNotFound)?;
        self.reattach(now);
        Ok(())
    }

    /// Returns all listeners in the order of their creation.
    pub fn listeners(&self) -> impl Iterator<Item = &Listener> {
        self.listeners.values()
    }

    /// Returns the listener with this identifier.
    pub fn listener(&self, id: ListenerId) -> Result<&Listener, Refusal> {
        self.listeners.get(&id).ok_or(Refusal::ListenerNotFound)
    }

    /// Returns the listener with this ARN. A malformed ARN is an error.
    pub fn listener_by_arn(&self, arn: &str) -> Result<ListenerId, Refusal> {
        Arn::expect_kind(arn, ArnKind::Listener)?;
        self.listeners.values().find(|l| l.arn == arn).map(|l| l.id).ok_or(Refusal::ListenerNotFound)
    }

    /// Returns the tags of the resource with this ARN.
    pub fn tags_mut(&mut self, arn: &str) -> Result<&mut Tags, Refusal> {
        let parsed = Arn::parse(arn)
            .ok_or_else(|| Refusal::validation(format!("'{arn}' is not a valid resource ARN")))?;
        match parsed.kind {
            ArnKind::LoadBalancer => {
                let id = self.balancer_by_arn(arn)?;
                Ok(&mut self.balancer_mut(id)?.spec.tags)
            }
            ArnKind::TargetGroup => {
                let id = self.group_by_arn(arn)?;
                Ok(&mut self.group_mut(id)?.spec.tags)
            }
            ArnKind::Rule => {
                let (listener, id) = self.rule_by_arn(arn)?;
                self.listeners
                    .get_mut(&listener)
                    .and_then(|listener| listener.rules.iter_mut().find(|rule| rule.id == id))
                    .map(|rule| &mut rule.tags)
                    .ok_or(Refusal::RuleNotFound)
            }
            ArnKind::Listener => {
                let id = self.listener_by_arn(arn)?;
                self.listeners
                    .get_mut(&id)
                    .map(|listener| &mut listener.tags)
                    .ok_or(Refusal::ListenerNotFound)
            }
        }
    }

    /// Attaches and detaches target groups as the listeners require.
    pub(super) fn reattach(&mut self, now: Duration) {
        let wanted: BTreeMap<GroupId, BalancerId> = self
            .listeners
            .values()
            .flat_map(|listener| listener.forwards().map(|forward| (forward.group, listener.balancer)))
            .collect();
        let changes: Vec<(GroupId, Option<BalancerId>)> = self
            .groups
            .values()
            .map(|group| (group.id, group.balancer(), wanted.get(&group.id).copied()))
            .filter(|(_, is, should)| is != should)
            .map(|(id, _, should)| (id, should))
            .collect();
        for (group, balancer) in changes {
            self.detach(group);
            if let Some(balancer) = balancer {
                self.attach(group, balancer, now);
            }
        }
    }
}
