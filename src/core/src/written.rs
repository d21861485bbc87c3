//! TargetBindings that somebody has written: what Headgate needs to know of one, and how it is read.
//!
//! A written TargetBinding is read as a Service whose annotation binds one port. So everything that holds for the
//! annotation holds for it: what is in force when it cannot be followed, how the target group is looked up, when its
//! targets go.

use std::sync::Arc;

use crate::{
    annotation::PortRef,
    object::{Labels, ObjectKey, Uid},
    pod::Protocol,
    policy::Texts,
    reason::Reason,
    service::{ServiceFacts, ServicePort, TargetPort},
};

/// Which pods, and at which port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pods {
    /// Those of a Service in the same namespace, at the `targetPort` of this port of it.
    OfService(Arc<str>, PortRef),
    /// Those with these labels, at this port of their own.
    Selected(Labels, TargetPort, Protocol),
    /// Nobody knows: it is not written as the kind is defined. A sentence for the user.
    Unreadable(Box<str>),
}

/// One written TargetBinding as last seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BindingFacts {
    /// Namespace and name.
    pub key: ObjectKey,
    /// This life of that name.
    pub uid: Uid,
    /// The target group as it is written: ARN or name.
    pub group: Box<str>,
    /// Which pods.
    pub pods: Pods,
    /// How its pods are registered.
    pub policy: Texts,
    /// Somebody has deleted it, and its finalizer keeps it until its targets are gone.
    pub ending: bool,
}

impl BindingFacts {
    /// The name of the Service that it takes the pods of.
    pub fn service(&self) -> Option<ObjectKey> {
        match &self.pods {
            Pods::OfService(name, _) => Some(ObjectKey::new(self.key.namespace.clone(), name.clone())),
            Pods::Selected(..) | Pods::Unreadable(_) => None,
        }
    }

    /// The Service that it is read as, given the one that it names, if that is known; and what is wrong with it besides.
    pub fn read(&self, named: Option<&ServiceFacts>) -> (ServiceFacts, Option<(Reason, String)>) {
        let (key, uid) = (self.key.clone(), self.uid.clone());
        let policy = self.policy.clone();
        let read = |target_groups, selector, ports| ServiceFacts {
            key,
            uid,
            target_groups,
            policy,
            selector,
            ports,
        };
        match (&self.pods, named) {
            (Pods::Selected(selector, port, protocol), _) => {
                let (name, number) = match port {
                    TargetPort::Number(number) => (Box::default(), *number),
                    TargetPort::Name(name) => (name.clone(), 0),
                };
                let port = ServicePort { name, port: number, target_port: port.clone(), protocol: *protocol };
                (read(Some(self.group.clone()), selector.clone(), vec![port]), None)
            }
            (Pods::OfService(_, port), Some(service)) => {
                let value = match port {
                    PortRef::Only => self.group.clone(),
                    PortRef::Number(number) => format!("{number}={}", self.group).into(),
                    PortRef::Name(name) => format!("{name}={}", self.group).into(),
                };
                (read(Some(value), service.selector.clone(), service.ports.clone()), None)
            }
            (Pods::Unreadable(why), _) => {
                (read(None, Labels::default(), Vec::new()), Some((Reason::InvalidBinding, why.to_string())))
            }
            (Pods::OfService(name, _), None) => {
                let said = format!(
                    "there is no Service {name} in namespace {}; expected serviceRef.name to be the name of one",
                    self.key.namespace
                );
                (read(None, Labels::default(), Vec::new()), Some((Reason::ServiceNotFound, said)))
            }
        }
    }
}
