//! How a TargetBinding that somebody has written is read: as a Service whose annotation binds one port.
//!
//! So everything that holds for the annotation holds for it: what is in force when it cannot be followed, how the target
//! group is looked up, when its targets go.

use crate::model::{
    BindingFacts, Labels, Reason, ServiceFacts, ServicePort, TargetPort, service::PortRef,
    target_binding::Pods,
};

/// The Service that it is read as, given the one that it names, if that is known; and what is wrong with it besides.
pub fn read(
    binding: &BindingFacts,
    named: Option<&ServiceFacts>,
) -> (ServiceFacts, Option<(Reason, String)>) {
    let (key, uid) = (binding.key.clone(), binding.uid.clone());
    let policy = binding.policy.clone();
    let read =
        |target_groups, selector, ports| ServiceFacts { key, uid, target_groups, policy, selector, ports };
    match (&binding.pods, named) {
        (Pods::Selected(selector, port, protocol), _) => {
            let (name, number) = match port {
                TargetPort::Number(number) => (Box::default(), *number),
                TargetPort::Name(name) => (name.clone(), 0),
            };
            let port = ServicePort { name, port: number, target_port: port.clone(), protocol: *protocol };
            (read(Some(binding.group.clone()), selector.clone(), vec![port]), None)
        }
        (Pods::OfService(_, port), Some(service)) => {
            let value = match port {
                PortRef::Only => binding.group.clone(),
                PortRef::Number(number) => format!("{number}={}", binding.group).into(),
                PortRef::Name(name) => format!("{name}={}", binding.group).into(),
            };
            (read(Some(value), service.selector.clone(), service.ports.clone()), None)
        }
        (Pods::Unreadable(why), _) => {
            (read(None, Labels::default(), Vec::new()), Some((Reason::InvalidBinding, why.to_string())))
        }
        (Pods::OfService(name, _), None) => {
            let said = format!(
                "there is no Service {name} in namespace {}; expected serviceRef.name to be the name of one",
                binding.key.namespace
            );
            (read(None, Labels::default(), Vec::new()), Some((Reason::ServiceNotFound, said)))
        }
    }
}
