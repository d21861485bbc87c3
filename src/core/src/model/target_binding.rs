//! What Headgate needs to know of a TargetBinding that somebody has written.

use std::sync::Arc;

use crate::model::{
    object::{Labels, ObjectKey, Uid},
    pod::Protocol,
    policy::Texts,
    service::{PortRef, TargetPort},
};

/// Which pods, and at which port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pods {
    /// Those of a Service in the same namespace, at the `targetPort` of this port of it.
    OfService(Arc<str>, PortRef),
    /// Those with these labels, at this port of their own.
    Selected(Labels, TargetPort, Protocol),
    /// Unknown: it does not follow the schema of the kind. A sentence for the user.
    Unreadable(Box<str>),
}

/// One written TargetBinding as last seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BindingFacts {
    /// Namespace and name.
    pub key: ObjectKey,
    /// This life of that name.
    pub uid: Uid,
    /// The target group in its original text: ARN or name.
    pub group: Box<str>,
    /// Which pods.
    pub pods: Pods,
    /// How its pods are registered.
    pub policy: Texts,
    /// Somebody has deleted it, and its finalizer keeps it until its targets are deregistered.
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
}
