//! The relevant properties of a TargetBinding that a user wrote.

use std::sync::Arc;

use crate::model::{
    object::{Labels, ObjectKey, Uid},
    pod::Protocol,
    policy::Texts,
    service::{PortRef, TargetPort},
};

/// The pods of a TargetBinding, and their port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pods {
    /// The pods of a Service in the same namespace, at the `targetPort` of this Service port.
    OfService(Arc<str>, PortRef),
    /// The pods with these labels, at this port of the pods.
    Selected(Labels, TargetPort, Protocol),
    /// The object does not match its schema. The text is the message for the user.
    Unreadable(Box<str>),
}

/// The last known state of a TargetBinding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BindingFacts {
    /// The namespace and name.
    pub key: ObjectKey,
    /// The UID of the TargetBinding.
    pub uid: Uid,
    /// The original text that names the target group, as an ARN or a name.
    pub group: Box<str>,
    /// The selected pods.
    pub pods: Pods,
    /// How the pods are registered.
    pub policy: Texts,
    /// Whether the TargetBinding is being deleted. A finalizer keeps the object until its targets are deregistered.
    pub ending: bool,
}

impl BindingFacts {
    /// The Service whose pods the TargetBinding uses.
    pub fn service(&self) -> Option<ObjectKey> {
        match &self.pods {
            Pods::OfService(name, _) => Some(ObjectKey::new(self.key.namespace.clone(), name.clone())),
            Pods::Selected(..) | Pods::Unreadable(_) => None,
        }
    }
}
