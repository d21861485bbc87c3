//! The metadata that Headgate keeps in memory: identity, labels, age, deletion, controller, and some annotations.

use std::collections::BTreeMap;

use headgate_core::model::object::{ObjectKey, Uid};
use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time},
    jiff::Timestamp,
};
use serde::{Deserialize, Deserializer, de::IgnoredAny};

use super::{annotations::Annotations, known, null_is_default};

/// The kept metadata of an object. The omitted `managedFields` alone are often larger than all other fields of an
/// object.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default, bound = "A: Default + Deserialize<'de>")]
struct Meta<A> {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    generation: Option<i64>,
    labels: Option<BTreeMap<String, Option<String>>>,
    creation_timestamp: Option<String>,
    /// Only the presence of the timestamp matters.
    deletion_timestamp: Option<IgnoredAny>,
    owner_references: Option<Vec<Option<Owner>>>,
    annotations: Option<A>,
}

/// An owner reference. Only the reference to the controller is kept.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Owner {
    api_version: Option<String>,
    kind: Option<String>,
    name: Option<String>,
    uid: Option<String>,
    controller: Option<bool>,
}

fn controller(owners: Vec<Option<Owner>>) -> Option<Vec<OwnerReference>> {
    let mut owners = owners.into_iter().flatten();
    let Owner { api_version, kind, name, uid, controller } =
        owners.find(|owner| owner.controller == Some(true))?;
    let text = Option::unwrap_or_default;
    Some(vec![OwnerReference {
        api_version: text(api_version),
        kind: text(kind),
        name: text(name),
        uid: text(uid),
        controller,
        ..OwnerReference::default()
    }])
}

impl<A: Annotations> From<Meta<A>> for ObjectMeta {
    fn from(meta: Meta<A>) -> Self {
        Self {
            name: meta.name,
            namespace: meta.namespace,
            uid: meta.uid,
            resource_version: meta.resource_version,
            generation: meta.generation,
            labels: meta.labels.map(known),
            creation_timestamp: meta.creation_timestamp.and_then(|text| text.parse().ok()).map(Time),
            deletion_timestamp: meta.deletion_timestamp.map(|IgnoredAny| Time(Timestamp::UNIX_EPOCH)),
            owner_references: meta.owner_references.and_then(controller),
            annotations: meta.annotations.and_then(Annotations::kept),
            ..Self::default()
        }
    }
}

/// Reads metadata without annotations.
pub fn without_annotations<'de, D: Deserializer<'de>>(from: D) -> Result<ObjectMeta, D::Error> {
    null_is_default::<_, Meta<IgnoredAny>>(from).map(Into::into)
}

/// Reads metadata with the annotations that `A` selects.
pub fn with_annotations<'de, A, D>(from: D) -> Result<ObjectMeta, D::Error>
where
    A: Annotations + Default + Deserialize<'de>,
    D: Deserializer<'de>,
{
    null_is_default::<_, Meta<A>>(from).map(Into::into)
}

/// Takes the namespace, name and UID out of the metadata.
pub fn identity(meta: &mut ObjectMeta) -> Option<(ObjectKey, Uid)> {
    let key = ObjectKey::new(meta.namespace.take()?, meta.name.take()?);
    Some((key, Uid::new(meta.uid.take()?)))
}
