//! The messages of the watches of grants and namespaces.

use std::{collections::BTreeMap, sync::Arc};

use headgate_core::{Change, model::notice::About};
use k8s_openapi::api::core::v1::Namespace;
use kube::core::PartialObjectMeta;
use serde_json::Value;

/// A message from a watch.
#[derive(Debug)]
pub enum Seen<T> {
    /// An object has changed, or all objects were listed.
    Changed(Change<T>),
    /// The API server rejects the watch. The text states the reason and what to do.
    Refused(String),
    /// The watch failed for another reason.
    Failed,
}

/// A message from one of the watches.
#[derive(Debug)]
pub enum News {
    /// A message about TargetGroupGrants.
    Grants(Seen<Entry>),
    /// A message about namespaces.
    Namespaces(Seen<Labelled>),
}

/// A grant as stored in Kubernetes.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The grant's name.
    pub name: Arc<str>,
    /// The identity of the grant.
    pub about: About,
    /// The grant's spec.
    pub spec: Value,
}

/// A namespace and its labels.
#[derive(Clone, Debug)]
pub struct Labelled {
    /// The namespace's name.
    pub name: Arc<str>,
    /// The namespace's labels.
    pub labels: BTreeMap<String, String>,
}

impl Labelled {
    /// Reads a namespace. Returns `None` for a namespace without a name, which the API server never sends.
    pub fn of(namespace: PartialObjectMeta<Namespace>) -> Option<Self> {
        let name = namespace.metadata.name?.into();
        Some(Self { name, labels: namespace.metadata.labels.unwrap_or_default() })
    }
}
