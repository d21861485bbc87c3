//! What Headgate needs to know of a Service.

use std::fmt;

use crate::model::{
    limits::Excess,
    object::{Labels, ObjectKey, Uid},
    pod::Protocol,
    policy::Texts,
};

/// `spec.ports[].targetPort`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TargetPort {
    /// A number: the same for every pod.
    Number(u16),
    /// A name: each pod's own port of that name.
    Name(Box<str>),
}

/// One entry of `spec.ports`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServicePort {
    /// `name`; empty if the Service has one port without a name.
    pub name: Box<str>,
    /// `port`, 1–65535.
    pub port: u16,
    /// `targetPort`; the API server fills it with `port` when it was left out.
    pub target_port: TargetPort,
    /// `protocol`.
    pub protocol: Protocol,
}

impl fmt::Display for ServicePort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.name.is_empty() { write!(f, "{}", self.port) } else { f.write_str(&self.name) }
    }
}

/// One of the ports of a Service, as it is named next to a target group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PortRef {
    /// Nothing was written: the only port the Service has.
    Only,
    /// `spec.ports[].port`.
    Number(u16),
    /// `spec.ports[].name`.
    Name(Box<str>),
}

impl fmt::Display for PortRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Only => f.write_str("the only port"),
            Self::Number(number) => write!(f, "{number}"),
            Self::Name(name) => f.write_str(name),
        }
    }
}

/// One Service as last seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceFacts {
    /// Namespace and name.
    pub key: ObjectKey,
    /// This life of that name.
    pub uid: Uid,
    /// The value of `headgate.dev/target-groups`, if the annotation exists.
    pub target_groups: Option<Box<str>>,
    /// The other annotations about the registration of its pods.
    pub policy: Texts,
    /// `spec.selector`.
    pub selector: Labels,
    /// `spec.type` is `ExternalName`: it is the name of something else, and selects no pods, even with a selector.
    pub is_external: bool,
    /// `spec.ports`.
    pub ports: Vec<ServicePort>,
    /// The part of it that exceeds a limit, and was not read.
    pub beyond: Box<[Excess]>,
}
