//! How Kubernetes objects are named here.

use std::{fmt, sync::Arc};

/// Namespace and name of an object. Two objects that follow each other under one name differ by their [`Uid`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// The namespace.
    pub namespace: Arc<str>,
    /// The name within the namespace.
    pub name: Arc<str>,
}

impl ObjectKey {
    /// The key of `namespace`/`name`.
    pub fn new(namespace: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// `metadata.uid`: one life of an object. Everything Headgate remembers of a pod hangs on it, never on the name
/// or the IP.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uid(Arc<str>);

impl Uid {
    /// The UID as the API server writes it.
    pub fn new(uid: impl Into<Arc<str>>) -> Self {
        Self(uid.into())
    }

    /// The UID as the API server writes it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Labels or a selector: sorted pairs, each key once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Labels(Vec<(Box<str>, Box<str>)>);

impl Labels {
    /// Whether there is no label.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The value of `key`.
    pub fn get(&self, key: &str) -> Option<&str> {
        let at = self.0.binary_search_by(|(k, _)| k.as_ref().cmp(key)).ok()?;
        self.0.get(at).map(|(_, value)| value.as_ref())
    }

    /// Whether every pair of `self`, read as the selector of a Service, is among `labels`.
    ///
    /// An empty selector selects nothing: Kubernetes manages no endpoints for a Service without one.
    pub fn selects(&self, labels: &Self) -> bool {
        !self.is_empty() && self.0.iter().all(|(key, value)| labels.get(key) == Some(value))
    }
}

impl<K: Into<Box<str>>, V: Into<Box<str>>> FromIterator<(K, V)> for Labels {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        let mut pairs: Vec<(Box<str>, Box<str>)> =
            pairs.into_iter().map(|(key, value)| (key.into(), value.into())).collect();
        pairs.sort();
        pairs.dedup_by(|a, b| a.0 == b.0);
        Self(pairs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selector_selects_pods_that_carry_all_its_pairs() {
        let labels = Labels::from_iter([("app", "web"), ("zone", "a")]);
        assert!(Labels::from_iter([("app", "web")]).selects(&labels));
        assert!(Labels::from_iter([("zone", "a"), ("app", "web")]).selects(&labels));
        assert!(!Labels::from_iter([("app", "api")]).selects(&labels));
        assert!(!Labels::from_iter([("app", "web"), ("tier", "front")]).selects(&labels));
    }

    #[test]
    fn an_empty_selector_selects_nothing() {
        assert!(!Labels::default().selects(&Labels::from_iter([("app", "web")])));
    }
}
