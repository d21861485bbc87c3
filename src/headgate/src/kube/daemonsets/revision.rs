//! A watched ControllerRevision of an IngressDaemonSet.

use std::sync::Arc;

use headgate_core::model::{
    limits,
    object::{ObjectKey, Uid},
};
use headgate_daemonset::model::{OWNED_BY, REVISION, RevisionFacts};
use k8s_openapi::{api::apps::v1::ControllerRevision, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use serde::Deserialize;
use serde_json::{Value, json};
use tracing::debug;

use super::{
    owner,
    template::{self, controlled_by},
};
use crate::kube::slim::{identity, without_annotations};

/// A watched ControllerRevision.
#[derive(Clone, Debug, Deserialize, kube::Resource)]
#[resource(inherit = ControllerRevision)]
pub struct SlimRevision {
    #[serde(default, deserialize_with = "without_annotations")]
    metadata: ObjectMeta,
    #[serde(default)]
    data: Value,
    #[serde(default)]
    revision: Option<i64>,
}

/// A revision in the form that the controller uses.
#[derive(Clone, Debug)]
pub struct SeenRevision {
    /// The core's facts about the revision.
    pub facts: RevisionFacts,
    /// The template as text, which uses less memory than parsed JSON.
    pub template: Arc<str>,
}

impl SlimRevision {
    /// Converts the ControllerRevision for the controller. Returns `None` for an invalid ControllerRevision.
    pub fn seen(mut self) -> Option<SeenRevision> {
        let (key, uid) = identity(&mut self.metadata)?;
        let labels = self.metadata.labels.unwrap_or_default();
        let revision = labels.get(REVISION).map(String::as_str).unwrap_or_default();
        // Users with permission to write ControllerRevisions may set any label and any name. Therefore, Headgate checks
        // that the label is the hash of the content.
        let template = template::text(&self.data);
        if let Some(excess) = limits::TEMPLATE.excess(template.len()) {
            debug!(%key, %excess, "ignoring a ControllerRevision");
            return None;
        }
        if template::revision_of(&template) != revision {
            debug!(%key, "ignoring a ControllerRevision: its label is not the hash of its template");
            return None;
        }
        let facts = RevisionFacts {
            key,
            uid,
            controller: owner(self.metadata.owner_references.as_ref()),
            set: labels.get(OWNED_BY).map(|name| name.as_str().into()),
            revision: revision.into(),
            number: self.revision.unwrap_or_default(),
        };
        Some(SeenRevision { facts, template: template.into() })
    }
}

/// The key of the ControllerRevision that stores a revision of a set.
pub fn key(set: &ObjectKey, revision: &str) -> ObjectKey {
    ObjectKey::new(set.namespace.clone(), format!("{}-{revision}", set.name))
}

/// The ControllerRevision that Headgate creates for a template.
pub fn made(set: &ObjectKey, uid: &Uid, template: &Value, revision: &str, number: i64) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "ControllerRevision",
        "metadata": {
            "name": &*key(set, revision).name, "namespace": &*set.namespace,
            "labels": {OWNED_BY: &*set.name, REVISION: revision},
            "ownerReferences": [controlled_by(set, uid)],
        },
        "data": template,
        "revision": number,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_read_again() {
        let set = ObjectKey::new("ingress", "edge");
        let template = json!({"spec": {"containers": [{"name": "a"}]}});
        let hash = template::revision(&template);
        let mut object = made(&set, &Uid::new("s-1"), &template, &hash, 4);
        object["metadata"]["uid"] = "r-1".into();
        let read = |object: &Value| serde_json::from_value::<SlimRevision>(object.clone()).unwrap().seen();
        let seen = read(&object).unwrap();
        assert_eq!(
            (&seen.facts.key, &*seen.facts.revision, seen.facts.number),
            (&key(&set, &hash), &*hash, 4)
        );
        assert_eq!((seen.facts.set.as_deref(), &*seen.template), (Some("edge"), &*template.to_string()));
        assert_eq!(seen.facts.controller.unwrap().uid.as_str(), "s-1");
        let mut large = object.clone();
        large["data"]["spec"]["containers"][0]["name"] = "x".repeat(limits::TEMPLATE.most).into();
        large["metadata"]["labels"][REVISION] = template::revision(&large["data"]).into();
        assert!(read(&large).is_none(), "it is too large");
        object["data"]["spec"]["containers"][0]["name"] = "b".into();
        assert!(read(&object).is_none(), "it is not what its label says");
    }
}
