//! What a watch of Kubernetes objects says.

use std::{fmt, sync::Arc};

/// Which objects a watch sees.
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

/// What a watch says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change<T> {
    /// The object is there, and looks like this.
    Applied(T),
    /// The object is gone; this is how it last looked.
    Deleted(T),
    /// All there is within the scope: what is missing is gone. The list is a consistent read, never older than
    /// what was said before.
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
