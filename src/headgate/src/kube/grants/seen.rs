//! The news of the watches of grants and namespaces.

use std::{collections::BTreeMap, sync::Arc};

use headgate_core::{Change, model::notice::About};
use k8s_openapi::api::core::v1::Namespace;
use kube::core::PartialObjectMeta;
use serde_json::Value;

/// News of a watch.
#[derive(Debug)]
pub enum Seen<T> {
    /// A change.
    Changed(Change<T>),
    /// The API server rejects the watch permanently. Contains why, and what to do.
    Refused(String),
    /// It failed in another way.
    Failed,
}

/// News of one of the watches.
#[derive(Debug)]
pub enum News {
    /// News of TargetGroupGrants.
    Grants(Seen<Entry>),
    /// News of namespaces.
    Namespaces(Seen<Labelled>),
}

/// A stored grant.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its name.
    pub name: Arc<str>,
    /// The object.
    pub about: About,
    /// Its content.
    pub spec: Value,
}

/// A namespace and its labels.
#[derive(Clone, Debug)]
pub struct Labelled {
    /// Its name.
    pub name: Arc<str>,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
}

impl Labelled {
    /// Reads a namespace. `None`: it has no name, which the API server never sends.
    pub fn of(namespace: PartialObjectMeta<Namespace>) -> Option<Self> {
        let name = namespace.metadata.name?.into();
        Some(Self { name, labels: namespace.metadata.labels.unwrap_or_default() })
    }
}
