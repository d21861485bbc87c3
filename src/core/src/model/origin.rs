//! The object that defines a binding.

use std::fmt;

use crate::model::object::ObjectKey;

/// The object that defines a binding.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Origin {
    /// The annotation of a Service.
    Service(ObjectKey),
    /// A TargetBinding that a user wrote.
    TargetBinding(ObjectKey),
}

impl Origin {
    /// The namespace and name of the object.
    pub const fn key(&self) -> &ObjectKey {
        match self {
            Self::Service(key) | Self::TargetBinding(key) => key,
        }
    }

    /// The kind of the object, as Kubernetes writes it.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Service(_) => "Service",
            Self::TargetBinding(_) => "TargetBinding",
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind(), self.key())
    }
}
