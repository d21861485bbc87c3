//! Grants of an installation that serves named namespaces, and so may look at nothing of the whole cluster: a list in a
//! ConfigMap in its own namespace. Whoever may write that ConfigMap may grant.

use std::{collections::BTreeMap, sync::Arc};

use headgate_core::model::{excerpt::excerpt, notice::About};
use k8s_openapi::{api::core::v1::ConfigMap, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use serde::Deserialize;
use serde_json::Value;

use super::seen::{Entry, Table};
use crate::kube::slim::{identity, without_annotations};

/// The key of the list.
const KEY: &str = "grants.yaml";

/// What the ConfigMap of the installation with this Lease is called.
pub fn name(lease: &str) -> String {
    format!("{lease}-grants")
}

/// A ConfigMap as it is watched.
#[derive(Clone, Debug, Deserialize, kube::Resource)]
#[resource(inherit = ConfigMap)]
pub struct SlimTable {
    #[serde(deserialize_with = "without_annotations")]
    metadata: ObjectMeta,
    data: Option<BTreeMap<String, Option<String>>>,
}

impl SlimTable {
    /// What is in it; `None` for an object without identity, which the API server never sends.
    pub fn into_table(mut self) -> Option<Table> {
        let (key, uid) = identity(&mut self.metadata)?;
        let about = About::ConfigMap(key, uid);
        let text = self.data.unwrap_or_default().remove(KEY).flatten();
        Some(Table { about, text })
    }
}

/// The grants in a list, and what of it is none.
///
/// # Errors
/// If it is no list at all: what was expected.
pub(super) fn entries(table: &Table) -> Result<(Vec<Entry>, Vec<String>), String> {
    let text = table.text.as_deref().unwrap_or_default();
    let expected = "expected a list, each of it with name, targetGroups and namespaces.names";
    let list = match serde_saphyr::from_str::<Value>(text) {
        Ok(Value::Array(list)) => list,
        Ok(Value::Null) => Vec::new(),
        Ok(_) => return Err(format!("{KEY} is no list; {expected}")),
        Err(_) if text.trim().is_empty() => Vec::new(),
        Err(error) => {
            return Err(format!("{KEY} cannot be read ({}); {expected}", excerpt(&error.to_string())));
        }
    };
    let (mut entries, mut problems) = (BTreeMap::new(), Vec::new());
    for (at, spec) in list.into_iter().enumerate() {
        let Some(name) = spec["name"].as_str().filter(|name| !name.is_empty()).map(Arc::<str>::from) else {
            problems.push(format!(
                "{KEY}: what comes at place {} has no name and counts for nothing; {expected}",
                at + 1
            ));
            continue;
        };
        if entries.contains_key(&name) {
            problems.push(format!(
                "{KEY}: there is a second {} and it counts for nothing; expected a name of its own for each",
                excerpt(&name)
            ));
            continue;
        }
        entries.insert(name.clone(), Entry { name, about: table.about.clone(), spec });
    }
    Ok((entries.into_values().collect(), problems))
}

#[cfg(test)]
mod tests {
    use headgate_core::model::object::{ObjectKey, Uid};

    use super::*;

    fn table(text: Option<&str>) -> Table {
        let about = About::ConfigMap(ObjectKey::new("own", "headgate-grants"), Uid::new("c-1"));
        Table { about, text: text.map(str::to_owned) }
    }

    fn read(text: &str) -> Result<(Vec<String>, Vec<String>), String> {
        entries(&table(Some(text))).map(|(entries, problems)| {
            (entries.iter().map(|entry| format!("{} {}", entry.name, entry.spec)).collect(), problems)
        })
    }

    #[test]
    fn a_list_may_be_yaml_or_json_and_nothing_is_an_empty_one() {
        let yaml = "- name: front\n  targetGroups: [web]\n  namespaces:\n    names: [shop]\n";
        let json = r#"[{"name": "front", "targetGroups": ["web"], "namespaces": {"names": ["shop"]}}]"#;
        let (entries, problems) = read(yaml).unwrap();
        assert_eq!((entries.len(), &problems), (1, &vec![]));
        assert!(entries[0].starts_with("front {"), "{entries:?}");
        assert_eq!(read(json).unwrap().0, entries);
        for nothing in ["", "  \n", "[]", "# none yet\n"] {
            assert_eq!(read(nothing).unwrap(), (vec![], vec![]), "{nothing:?}");
        }
        assert!(super::entries(&table(None)).unwrap().0.is_empty());
    }

    #[test]
    fn what_is_no_list_is_refused_as_a_whole_and_what_has_no_name_alone() {
        for (text, said) in
            [("name: front\n", "is no list"), ("- a: [\n", "cannot be read"), ("7", "is no list")]
        {
            let error = read(text).unwrap_err();
            assert!(error.contains(said) && error.contains("expected a list"), "{error}");
        }
        let (entries, problems) =
            read("- name: a\n- targetGroups: [x]\n- 7\n- name: a\n- name: b\n").unwrap();
        assert_eq!(entries.len(), 2, "{entries:?}");
        assert_eq!(problems.len(), 3, "{problems:?}");
        assert!(problems[0].contains("at place 2") && problems[2].contains("a second a"), "{problems:?}");
    }
}
