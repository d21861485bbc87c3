//! Questions about pods that do not exist yet.

use std::time::Duration;

use crate::{
    engine::Engine,
    model::{
        Labels, Moment, NamedPort, TargetPort,
        injection::{Known, Match},
        object::Uid,
    },
};

/// For this time the bindings of a namespace must not have changed, and pods of a workload must have been there
/// unbound. Only then does it count that none binds them: objects that are applied together come one after the other.
const SETTLED: Duration = Duration::from_secs(30);

impl Engine {
    /// What would bind a new pod of `namespace` with these labels and named ports. Changes nothing.
    pub fn would_bind(&self, namespace: &str, labels: &Labels, ports: &[NamedPort], now: Moment) -> Known {
        if !self.settings.scopes.iter().any(|scope| scope.covers(namespace)) {
            return Known::NotServed;
        }
        if !self.term.is_synced() {
            return Known::Unknown { served: !self.settings.namespaces_are_selected };
        }
        if !self.known.services.is_selected(namespace) {
            return Known::NotServed;
        }
        let bound = self.known.index.bindings().selecting(namespace, labels).map(|binding| Match {
            group: binding.key.group.name().into(),
            port: match &binding.port.target_port {
                TargetPort::Number(number) => Some(*number),
                TargetPort::Name(name) => NamedPort::find(ports, name, binding.port.protocol),
            },
            about: self.known.services.origins().about(&binding.key.origin),
            balancer: binding.balancer,
            hold: binding.policy.hold.seconds(binding.balancer),
        });
        let bound: Vec<Match> = bound.collect();
        if bound.is_empty() && self.is_excluded(namespace, labels, now) {
            return Known::Excluded;
        }
        Known::Bound(bound)
    }

    /// Whether a new pod of this owner should get no hold, because pods with one were not created.
    pub fn creations_fail(&mut self, owner: &Uid, now: Moment) -> bool {
        self.term.is_synced() && self.known.creations.ask(owner, now)
    }

    /// Whether the bindings of a namespace exclude pods with these labels, which none of them selects.
    fn is_excluded(&self, namespace: &str, labels: &Labels, now: Moment) -> bool {
        let is_old = |since: Option<Moment>| since.is_some_and(|since| now.since(since) >= SETTLED);
        is_old(self.known.index.bindings().changed_at(namespace))
            && is_old(self.known.index.pods().unbound_since(namespace, labels))
            && self.known.services.origins().doubt(namespace, labels).is_none()
    }
}
