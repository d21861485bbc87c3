//! The watched grants and namespaces, and the namespaces that each grant covers at present.
//!
//! A changed namespace is compared with all selectors. A changed grant is compared with all namespaces.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use headgate_core::{
    Change,
    model::{grant::GrantFacts, notice::About},
};
use kube::core::{Selector, SelectorExt};

use super::{
    seen::{Entry, Labelled},
    written::{Written, read},
};

/// The maximum number of reported errors per object.
const SAID: usize = 8;

type Labels = BTreeMap<String, String>;

/// The watched grants and namespaces.
#[derive(Debug, Default)]
pub struct Known {
    grants: BTreeMap<Arc<str>, Grant>,
    /// The labels of all namespaces. `None`: namespaces were never listed.
    namespaces: Option<BTreeMap<Arc<str>, Labels>>,
}

#[derive(Debug)]
struct Grant {
    about: About,
    written: Written,
    /// The namespaces that the grant's selector matches.
    selected: BTreeSet<Arc<str>>,
    problems: Vec<String>,
}

impl Known {
    /// Applies a change to the known TargetGroupGrants.
    pub fn take_grants(&mut self, change: Change<Entry>) {
        match change {
            Change::Applied(entry) => self.put(entry),
            Change::Deleted(entry) => {
                self.grants.remove(&entry.name);
            }
            Change::Relisted(_, all) => {
                let names: BTreeSet<&Arc<str>> = all.iter().map(|entry| &entry.name).collect();
                self.grants.retain(|name, _| names.contains(name));
                for entry in all {
                    self.put(entry);
                }
            }
        }
    }

    /// Applies a change to the known namespaces.
    pub fn take_namespaces(&mut self, change: Change<Labelled>) {
        match change {
            Change::Applied(Labelled { name, labels }) => {
                for grant in self.grants.values_mut() {
                    if grant.written.selector.as_ref().is_some_and(|selector| selector.matches(&labels)) {
                        grant.selected.insert(name.clone());
                    } else {
                        grant.selected.remove(&name);
                    }
                }
                self.namespaces.get_or_insert_default().insert(name, labels);
            }
            Change::Deleted(Labelled { name, .. }) => {
                self.grants.values_mut().for_each(|grant| {
                    grant.selected.remove(&name);
                });
                self.namespaces.get_or_insert_default().remove(&name);
            }
            Change::Relisted(_, all) => {
                let all = self.namespaces.insert(all.into_iter().map(|one| (one.name, one.labels)).collect());
                for grant in self.grants.values_mut() {
                    grant.selected = selected(grant.written.selector.as_ref(), all);
                }
            }
        }
    }

    fn put(&mut self, entry: Entry) {
        // An object with the same name but another UID is not an earlier version.
        let before = self.grants.get(&entry.name).filter(|grant| grant.about == entry.about);
        let (written, problems) = read(&entry.spec, before.map(|grant| &grant.written));
        let namespaces = self.namespaces.as_ref();
        let selected = namespaces.map(|all| selected(written.selector.as_ref(), all)).unwrap_or_default();
        self.grants.insert(entry.name, Grant { about: entry.about, written, selected, problems });
    }

    /// Whether a grant selects namespaces by label, but namespaces were never listed.
    pub fn lacks_namespaces(&self) -> bool {
        self.namespaces.is_none() && self.grants.values().any(|grant| grant.written.selector.is_some())
    }

    /// Returns all grants, except grants whose namespaces are unknown. A grant with a partial list would exclude the
    /// missing namespaces.
    pub fn facts(&self) -> Vec<GrantFacts> {
        let is_known = |grant: &Grant| self.namespaces.is_some() || grant.written.selector.is_none();
        let known = self.grants.iter().filter(|(_, grant)| is_known(grant));
        known
            .map(|(name, Grant { written, selected, .. })| GrantFacts {
                name: name.clone(),
                groups: written.groups.clone(),
                namespaces: written.names.union(selected).cloned().collect(),
                exclusive: written.exclusive,
            })
            .collect()
    }

    /// The errors in each grant.
    pub fn problems(&self) -> BTreeMap<About, Vec<String>> {
        let mut all: BTreeMap<About, Vec<String>> = BTreeMap::new();
        for grant in self.grants.values() {
            all.entry(grant.about.clone()).or_default().extend(grant.problems.iter().cloned());
        }
        for problems in all.values_mut().filter(|problems| problems.len() > SAID) {
            let more = problems.len() - SAID;
            problems.truncate(SAID);
            problems.push(format!(
                "{more} more parts are invalid. Compare with `kubectl explain targetgroupgrant`."
            ));
        }
        all
    }
}

fn selected(selector: Option<&Selector>, all: &BTreeMap<Arc<str>, Labels>) -> BTreeSet<Arc<str>> {
    let Some(selector) = selector else { return BTreeSet::new() };
    all.iter().filter(|(_, labels)| selector.matches(labels)).map(|(name, _)| name.clone()).collect()
}

#[cfg(test)]
mod tests {
    use headgate_core::{Scope, model::object::Uid};
    use serde_json::{Value, json};

    use super::*;

    fn entry(name: &str, spec: &Value) -> Entry {
        Entry { name: name.into(), about: About::Grant(name.into(), Uid::new("1")), spec: spec.clone() }
    }

    fn team(name: &str, team: Option<&str>) -> Labelled {
        let labels = team.map(|team| ("team".to_owned(), team.to_owned()));
        Labelled { name: name.into(), labels: labels.into_iter().collect() }
    }

    fn by_team(names: &[&str]) -> Value {
        let selector = json!({"matchLabels": {"team": "a"}});
        json!({"targetGroups": ["web"], "namespaces": {"names": names, "selector": selector}})
    }

    fn listed<T>(all: Vec<T>) -> Change<T> {
        Change::Relisted(Scope::Cluster, all)
    }

    /// Formats each grant with its namespaces.
    fn facts(known: &Known) -> Vec<String> {
        let facts = known.facts();
        let namespaces = |grant: &GrantFacts| grant.namespaces.iter().cloned().collect::<Vec<_>>().join(",");
        facts.iter().map(|grant| format!("{}: {}", grant.name, namespaces(grant))).collect()
    }

    #[test]
    fn a_selector_follows_the_labels_of_namespaces() {
        let mut known = Known::default();
        known.take_grants(listed(vec![entry("front", &by_team(&["own"]))]));
        known.take_namespaces(listed(vec![team("x", Some("a")), team("y", None), team("z", Some("b"))]));
        assert_eq!(facts(&known), ["front: own,x"]);
        known.take_namespaces(Change::Applied(team("y", Some("a"))));
        known.take_namespaces(Change::Applied(team("x", Some("b"))));
        assert_eq!(facts(&known), ["front: own,y"]);
        known.take_namespaces(Change::Deleted(team("y", Some("a"))));
        assert_eq!(facts(&known), ["front: own"]);
        known.take_grants(Change::Applied(entry(
            "all",
            &json!({
                "targetGroups": ["api"], "namespaces": {"selector": {}},
            }),
        )));
        assert_eq!(facts(&known), ["all: x,z", "front: own"]);
        known.take_namespaces(listed(vec![team("n", Some("a"))]));
        assert_eq!(facts(&known), ["all: n", "front: n,own"]);
        known.take_grants(Change::Deleted(entry("all", &Value::Null)));
        assert_eq!(facts(&known), ["front: n,own"]);
        known.take_grants(listed(vec![]));
        assert_eq!(facts(&known), [""; 0]);
    }

    #[test]
    fn a_grant_whose_namespaces_were_never_listed_is_no_half_of_one() {
        let mut known = Known::default();
        let named = json!({"targetGroups": ["api"], "namespaces": {"names": ["b"]}});
        known.take_grants(listed(vec![entry("front", &by_team(&["own"])), entry("named", &named)]));
        assert!(known.lacks_namespaces());
        assert_eq!(facts(&known), ["named: b"]);
        known.take_namespaces(listed(vec![]));
        assert!(!known.lacks_namespaces());
        assert_eq!(facts(&known), ["front: own", "named: b"]);
    }

    #[test]
    fn what_becomes_unreadable_keeps_what_was_valid_unless_it_is_another_object() {
        let mut known = Known::default();
        let good = json!({"targetGroups": ["web"], "namespaces": {"names": ["a"]}});
        known.take_grants(listed(vec![entry("front", &good)]));
        known.take_grants(Change::Applied(entry("front", &Value::Null)));
        assert_eq!(facts(&known), ["front: a"]);
        assert_eq!(known.problems().values().map(Vec::len).collect::<Vec<_>>(), [2]);
        let about = About::Grant("front".into(), Uid::new("2"));
        known.take_grants(listed(vec![Entry { about, ..entry("front", &Value::Null) }]));
        assert_eq!(facts(&known), ["front: "]);
    }
}
