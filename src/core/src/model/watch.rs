//! Changes that a watch of Kubernetes objects reports.

use std::{fmt, sync::Arc};

/// The objects that a watch covers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// All namespaces.
    Cluster,
    /// One namespace.
    Namespace(Arc<str>),
}

impl Scope {
    /// Whether objects of `namespace` are within this scope.
    pub fn covers(&self, namespace: &str) -> bool {
        match self {
            Self::Cluster => true,
            Self::Namespace(own) => &**own == namespace,
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cluster => f.write_str("all namespaces"),
            Self::Namespace(name) => write!(f, "namespace {name}"),
        }
    }
}

/// A change that a watch reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change<T> {
    /// The object exists, with this content.
    Applied(T),
    /// The object was deleted and had this last state.
    Deleted(T),
    /// All objects within the scope. An object that is missing from the list was deleted. The list is consistent, and
    /// never older than earlier changes.
    Relisted(Scope, Vec<T>),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_is_said_in_words() {
        let said = [Scope::Cluster, Scope::Namespace("shop".into())].map(|scope| scope.to_string());
        assert_eq!(said, ["all namespaces", "namespace shop"]);
    }
}
