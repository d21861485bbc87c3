//! Stores the templates and conditions of sets, which requests need but the core does not.

use std::{collections::BTreeMap, sync::Arc};

use headgate_core::{
    Change,
    model::object::{ObjectKey, Uid, within},
};
use headgate_daemonset::{
    Input,
    model::{
        Revision,
        ask::{Ask, Asked},
    },
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::Value;

use crate::kube::daemonsets::{requests::With, watches::News};

/// The templates and conditions of all watched sets and revisions.
#[derive(Debug, Default)]
pub struct Memory {
    sets: BTreeMap<ObjectKey, (Arc<str>, Vec<Condition>)>,
    revisions: BTreeMap<ObjectKey, Kept>,
}

/// A ControllerRevision.
#[derive(Debug)]
struct Kept {
    controller: Option<Uid>,
    /// The hash of the template.
    revision: Revision,
    template: Arc<str>,
}

impl Memory {
    /// Stores the data of a message, and returns the input for the core.
    pub fn take(&mut self, news: News) -> Input {
        match news {
            News::Sets(change) => Input::Set(split(&mut self.sets, change, |set| {
                (set.facts.key.clone(), (set.template, set.conditions.into_vec()), set.facts)
            })),
            News::Revisions(change) => Input::Revision(split(&mut self.revisions, change, |revision| {
                let kept = Kept {
                    controller: revision.facts.controller.as_ref().map(|owner| owner.uid.clone()),
                    revision: revision.facts.revision.clone(),
                    template: revision.template,
                };
                (revision.facts.key.clone(), kept, revision.facts)
            })),
            News::Pods(change) => Input::Pod(change),
            News::Nodes(change) => Input::Node(change),
            News::Budgets(change) => Input::Budget(change),
        }
    }

    /// The stored data that a request needs.
    pub fn of(&self, asked: &Asked) -> With {
        let set = self.sets.get(&asked.set);
        match &asked.ask {
            Ask::Make { revision, .. } => {
                With { template: self.template(&asked.set, &asked.uid, revision), ..With::default() }
            }
            Ask::KeepRevision { .. } => {
                With { template: set.and_then(|(template, _)| parsed(template)), ..With::default() }
            }
            Ask::Write { .. } => With {
                conditions: set.map(|(_, conditions)| conditions.clone()).unwrap_or_default(),
                ..With::default()
            },
            _ => With::default(),
        }
    }

    /// The template with the hash `revision`, from a ControllerRevision of any name that the set controls.
    fn template(&self, set: &ObjectKey, uid: &Uid, revision: &Revision) -> Option<Arc<Value>> {
        let mut all = within(&self.revisions, &set.namespace);
        let is_it = |kept: &Kept| kept.controller.as_ref() == Some(uid) && kept.revision == *revision;
        let (_, kept) = all.find(|(_, kept)| is_it(kept))?;
        parsed(&kept.template)
    }
}

/// Parses the text of a template.
fn parsed(text: &str) -> Option<Arc<Value>> {
    serde_json::from_str(text).ok().map(Arc::new)
}

/// Stores one part of a change, and returns the other part for the core.
fn split<S, T, U>(
    kept: &mut BTreeMap<ObjectKey, T>,
    change: Change<S>,
    halves: impl Fn(S) -> (ObjectKey, T, U),
) -> Change<U> {
    match change {
        Change::Applied(seen) => {
            let (key, keep, facts) = halves(seen);
            kept.insert(key, keep);
            Change::Applied(facts)
        }
        Change::Deleted(seen) => {
            let (key, _, facts) = halves(seen);
            kept.remove(&key);
            Change::Deleted(facts)
        }
        Change::Relisted(scope, all) => {
            kept.retain(|key, _| !scope.covers(&key.namespace));
            let keep = |seen| {
                let (key, keep, facts) = halves(seen);
                kept.insert(key, keep);
                facts
            };
            let facts = all.into_iter().map(keep).collect();
            Change::Relisted(scope, facts)
        }
    }
}

#[cfg(test)]
mod tests {
    use headgate_core::{RequestId, Scope};
    use serde_json::json;

    use super::*;
    use crate::kube::daemonsets::{
        revision::{self, SlimRevision},
        set::SlimSet,
        template,
    };

    fn set(name: &str, template: &Value) -> crate::kube::daemonsets::set::SeenSet {
        let set = json!({
            "metadata": {"name": name, "namespace": "ingress", "uid": "s-1"}, "spec": {"template": template},
            "status": {"conditions": [{"type": "Available", "status": "True", "reason": "x", "message": "", "lastTransitionTime": "2027-01-15T08:00:00Z"}]},
        });
        serde_json::from_value::<SlimSet>(set).unwrap().seen().unwrap()
    }

    fn edge() -> ObjectKey {
        ObjectKey::new("ingress", "edge")
    }

    /// A ControllerRevision as the set `owner` creates it for a template, but with the name `name`.
    fn revision(
        name: &str,
        owner: &str,
        template: &Value,
    ) -> crate::kube::daemonsets::revision::SeenRevision {
        let mut object =
            revision::made(&edge(), &Uid::new(owner), template, &template::revision(template), 1);
        (object["metadata"]["name"], object["metadata"]["uid"]) = (name.into(), "r-1".into());
        serde_json::from_value::<SlimRevision>(object).unwrap().seen().unwrap()
    }

    fn with(memory: &Memory, ask: Ask) -> With {
        memory.of(&Asked { id: RequestId(1), set: edge(), uid: Uid::new("s-1"), ask })
    }

    fn make(template: &Value) -> Ask {
        let revision = template::revision(template).into();
        Ask::Make { name: "edge-n1-0".into(), node: "n1".into(), revision }
    }

    fn templates() -> [Value; 2] {
        ["old", "new"].map(|name| json!({"spec": {"containers": [{"name": name}]}}))
    }

    #[test]
    fn a_pod_is_made_of_the_revision_that_was_kept_and_a_revision_of_the_set() {
        let [old, new] = templates();
        let mut memory = Memory::default();
        memory.take(News::Sets(Change::Applied(set("edge", &new))));
        memory.take(News::Revisions(Change::Applied(revision("edge-old", "s-1", &old))));
        assert_eq!(with(&memory, make(&old)).template.as_deref(), Some(&old));
        assert_eq!(with(&memory, make(&new)).template, None, "it is not kept yet");
        let keep = Ask::KeepRevision { revision: template::revision(&new).into(), number: 2 };
        assert_eq!(with(&memory, keep.clone()).template.as_deref(), Some(&new));
        memory.take(News::Sets(Change::Relisted(Scope::Cluster, vec![set("other", &new)])));
        assert_eq!(with(&memory, keep).template, None, "the set is gone");
    }

    #[test]
    fn no_pod_is_made_of_a_template_that_only_has_the_name_of_another_one() {
        let [good, evil] = templates();
        let its_name = revision::key(&edge(), &template::revision(&good)).name.to_string();
        let mut memory = Memory::default();
        // Both ControllerRevisions have the correct hash in their label. The malicious ControllerRevision has the name
        // that the correct ControllerRevision should have.
        memory.take(News::Revisions(Change::Applied(revision("copy", "s-1", &good))));
        memory.take(News::Revisions(Change::Applied(revision(&its_name, "s-1", &evil))));
        assert_eq!(with(&memory, make(&good)).template.as_deref(), Some(&good));
    }

    #[test]
    fn no_pod_is_made_of_a_template_that_another_life_of_the_set_controls() {
        let [old, _] = templates();
        let mut memory = Memory::default();
        memory.take(News::Revisions(Change::Applied(revision("edge-old", "s-0", &old))));
        assert_eq!(with(&memory, make(&old)).template, None);
    }
}
