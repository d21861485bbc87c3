//! The news of the watches of grants and namespaces.

use std::{collections::BTreeMap, sync::Arc};

use headgate_core::{Change, model::notice::About};
use k8s_openapi::api::core::v1::Namespace;
use kube::core::PartialObjectMeta;
use serde_json::Value;

/// The news of a watch.
#[derive(Debug)]
pub enum Seen<T> {
    /// It has seen this.
    Changed(Change<T>),
    /// The API server refuses it, and will until somebody does something: why, and what was expected.
    Refused(String),
    /// It failed in another way.
    Failed,
}

/// The news of one of the watches.
#[derive(Debug)]
pub enum News {
    /// Of TargetGroupGrants.
    Grants(Seen<Entry>),
    /// Of namespaces.
    Namespaces(Seen<Labelled>),
}

/// A grant as it stands there.
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
    /// Of this namespace; `None` for one without a name, which the API server never sends.
    pub fn of(namespace: PartialObjectMeta<Namespace>) -> Option<Self> {
        let name = namespace.metadata.name?.into();
        Some(Self { name, labels: namespace.metadata.labels.unwrap_or_default() })
    }
}
