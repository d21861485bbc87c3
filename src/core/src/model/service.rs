//! The properties of a Service that Headgate uses.

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
    /// A number, which is the same for every pod.
    Number(u16),
    /// A port name, which each pod maps to a number.
    Name(Box<str>),
}

/// One entry of `spec.ports`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServicePort {
    /// `name`, which is empty if the Service has one port without a name.
    pub name: Box<str>,
    /// `port`, 1–65535.
    pub port: u16,
    /// `targetPort`. The API server sets an absent `targetPort` to the value of `port`.
    pub target_port: TargetPort,
    /// `protocol`.
    pub protocol: Protocol,
}

impl fmt::Display for ServicePort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.name.is_empty() { write!(f, "{}", self.port) } else { f.write_str(&self.name) }
    }
}

/// A reference to a port of a Service, as users write it for a target group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PortRef {
    /// The reference has no name and no number, and means the only port of the Service.
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

/// The last known state of a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceFacts {
    /// The namespace and name.
    pub key: ObjectKey,
    /// The UID of the Service.
    pub uid: Uid,
    /// The value of `headgate.dev/target-groups`, if the annotation exists.
    pub target_groups: Option<Box<str>>,
    /// The Service's other annotations, which control the registration of its pods.
    pub policy: Texts,
    /// `spec.selector`.
    pub selector: Labels,
    /// Whether `spec.type` is `ExternalName`. An `ExternalName` Service selects no pods, even with a selector.
    pub is_external: bool,
    /// `spec.ports`.
    pub ports: Vec<ServicePort>,
    /// The parts that exceed a limit and were not read.
    pub beyond: Box<[Excess]>,
}
