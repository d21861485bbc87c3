//! What the core does not need to know of sets and revisions, and requests are made of: templates and conditions.

use std::{collections::BTreeMap, sync::Arc};

use headgate_core::{Change, model::object::ObjectKey};
use headgate_daemonset::{
    Input,
    model::ask::{Ask, Asked},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::Value;

use crate::kube::daemonsets::{requests::With, revision, watches::News};

/// See the module.
#[derive(Debug, Default)]
pub struct Memory {
    sets: BTreeMap<ObjectKey, (Arc<Value>, Vec<Condition>)>,
    revisions: BTreeMap<ObjectKey, Arc<Value>>,
}

impl Memory {
    /// Remembers it, and gives what the core needs to know.
    pub fn take(&mut self, news: News) -> Input {
        match news {
            News::Sets(change) => Input::Set(split(&mut self.sets, change, |set| {
                (set.facts.key.clone(), (set.template, set.conditions.into_vec()), set.facts)
            })),
            News::Revisions(change) => Input::Revision(split(&mut self.revisions, change, |revision| {
                (revision.facts.key.clone(), revision.template, revision.facts)
            })),
            News::Pods(change) => Input::Pod(change),
            News::Nodes(change) => Input::Node(change),
            News::Budgets(change) => Input::Budget(change),
        }
    }

    /// What a request is made of.
    pub fn of(&self, asked: &Asked) -> With {
        let set = self.sets.get(&asked.set);
        match &asked.ask {
            Ask::Make { revision, .. } => {
                let kept = revision::key(&asked.set, revision);
                With { template: self.revisions.get(&kept).cloned(), ..With::default() }
            }
            Ask::KeepRevision { .. } => {
                With { template: set.map(|(template, _)| template.clone()), ..With::default() }
            }
            Ask::Write { .. } => With {
                conditions: set.map(|(_, conditions)| conditions.clone()).unwrap_or_default(),
                ..With::default()
            },
            _ => With::default(),
        }
    }
}

/// Keeps one half of what has changed, and gives the other.
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
    use headgate_core::{RequestId, Scope, model::object::Uid};
    use serde_json::json;

    use super::*;
    use crate::kube::daemonsets::{revision::SlimRevision, set::SlimSet, template};

    fn set(name: &str, template: &Value) -> crate::kube::daemonsets::set::SeenSet {
        let set = json!({
            "metadata": {"name": name, "namespace": "ingress", "uid": "s-1"}, "spec": {"template": template},
            "status": {"conditions": [{"type": "Available", "status": "True", "reason": "x", "message": "", "lastTransitionTime": "2027-01-15T08:00:00Z"}]},
        });
        serde_json::from_value::<SlimSet>(set).unwrap().seen().unwrap()
    }

    #[test]
    fn a_pod_is_made_of_the_revision_that_was_kept_and_a_revision_of_the_set() {
        let key = ObjectKey::new("ingress", "edge");
        let [old, new] = ["old", "new"].map(|name| json!({"spec": {"containers": [{"name": name}]}}));
        let mut memory = Memory::default();
        memory.take(News::Sets(Change::Applied(set("edge", &new))));
        let mut object = revision::made(&key, &Uid::new("s-1"), &old, &template::revision(&old), 1);
        object["metadata"]["uid"] = "r-1".into();
        let kept = serde_json::from_value::<SlimRevision>(object).unwrap().seen().unwrap();
        memory.take(News::Revisions(Change::Applied(kept)));
        let with = |memory: &Memory, ask| {
            memory.of(&Asked { id: RequestId(1), set: key.clone(), uid: Uid::new("s-1"), ask })
        };
        let make = |template: &Value| Ask::Make {
            name: "edge-n1-0".into(),
            node: "n1".into(),
            revision: template::revision(template).into(),
        };
        assert_eq!(with(&memory, make(&old)).template.as_deref(), Some(&old));
        assert_eq!(with(&memory, make(&new)).template, None, "it is not kept yet");
        let keep = Ask::KeepRevision { revision: template::revision(&new).into(), number: 2 };
        assert_eq!(with(&memory, keep.clone()).template.as_deref(), Some(&new));
        memory.take(News::Sets(Change::Relisted(Scope::Cluster, vec![set("other", &new)])));
        assert_eq!(with(&memory, keep).template, None, "the set is gone");
    }
}
