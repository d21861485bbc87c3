//! Questions about pods that do not exist yet.

use crate::{
    engine::Engine,
    model::{
        Labels, NamedPort, TargetPort,
        injection::{Known, Match},
    },
};

impl Engine {
    /// What would bind a new pod of `namespace` with these labels and named ports. Changes nothing.
    pub fn would_bind(&self, namespace: &str, labels: &Labels, ports: &[NamedPort]) -> Known {
        if !self.settings.scopes.iter().any(|scope| scope.covers(namespace)) {
            return Known::NotServed;
        }
        if !self.term.is_synced() {
            return Known::Unknown { served: !self.settings.namespaces_are_selected };
        }
        if !self.services.is_selected(namespace) {
            return Known::NotServed;
        }
        let bound = self.index.bindings().selecting(namespace, labels).map(|binding| Match {
            group: binding.key.group.name().into(),
            port: match &binding.port.target_port {
                TargetPort::Number(number) => Some(*number),
                TargetPort::Name(name) => NamedPort::find(ports, name, binding.port.protocol),
            },
            balancer: binding.balancer,
            hold: binding.policy.hold.seconds(binding.balancer),
        });
        Known::Bound(bound.collect())
    }
}
