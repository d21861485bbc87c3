//! Answers for the webhook about pods that do not exist yet.

use std::time::Duration;

use crate::{
    engine::Engine,
    model::{
        Labels, Moment, NamedPort, TargetPort,
        injection::{Known, Match},
        object::Uid,
    },
};

/// The time without changes after which Headgate treats new pods as excluded. In this time, the bindings of the
/// namespace have not changed, and the workload had pods without a binding. Users often apply related objects one after
/// another, so a shorter time is not reliable.
const SETTLED: Duration = Duration::from_secs(30);

impl Engine {
    /// Returns the bindings that would select a new pod of `namespace` with these labels and named ports. The method
    /// changes no state.
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

    /// Whether a new pod of this owner should get no hold, because earlier pods with a hold were not created.
    pub fn creations_fail(&mut self, owner: &Uid, now: Moment) -> bool {
        self.term.is_synced() && self.known.creations.ask(owner, now)
    }

    /// Whether a namespace excludes pods with these labels. The caller must have checked that no binding selects such
    /// pods.
    fn is_excluded(&self, namespace: &str, labels: &Labels, now: Moment) -> bool {
        let is_old = |since: Option<Moment>| since.is_some_and(|since| now.since(since) >= SETTLED);
        is_old(self.known.index.bindings().changed_at(namespace))
            && is_old(self.known.index.pods().unbound_since(namespace, labels))
            && self.known.services.origins().doubt(namespace, labels).is_none()
    }
}
