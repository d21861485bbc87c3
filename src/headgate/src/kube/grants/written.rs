//! Reads each part of a grant separately, so that an invalid part does not affect other parts.

use std::{collections::BTreeSet, sync::Arc};

use headgate_core::model::{excerpt::brief, grant::GroupPattern, notice::About, object::Uid};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use kube::core::Selector;
use serde::Deserialize;
use serde_json::Value;

use super::seen::Entry;
use crate::{api::TargetGroupGrant, kube::slim::without_annotations};

/// The maximum number of target groups. The CRD's schema has the same limit.
const GROUPS: usize = 200;
const NAMES: usize = 1000;
const ALLOWED: usize = 10;

/// A watched TargetGroupGrant.
#[derive(Clone, Debug, Deserialize, kube::Resource)]
#[resource(inherit = TargetGroupGrant)]
pub struct SlimGrant {
    #[serde(deserialize_with = "without_annotations")]
    metadata: ObjectMeta,
    #[serde(default)]
    spec: Value,
}

impl SlimGrant {
    /// Converts the object to an entry. Returns `None` for an object without a name or UID, which the API server never
    /// sends.
    pub fn into_entry(self) -> Option<Entry> {
        let name: Arc<str> = self.metadata.name?.into();
        let about = About::Grant(name.clone(), Uid::new(self.metadata.uid?));
        Some(Entry { name, about, spec: self.spec })
    }
}

/// The valid parts of a grant.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Written {
    /// The target groups in the grant.
    pub(super) groups: Vec<GroupPattern>,
    /// The namespaces that the grant names.
    pub(super) names: BTreeSet<Arc<str>>,
    /// The label selector of further namespaces.
    pub(super) selector: Option<Selector>,
    /// Whether `allow` contains `Exclusive`.
    pub(super) exclusive: bool,
}

/// Reads a grant's spec. If a part is invalid, the part's earlier value in `before` remains in effect in addition to
/// its valid entries. The second result contains the errors, and states what to write instead.
pub(super) fn read(spec: &Value, before: Option<&Written>) -> (Written, Vec<String>) {
    let nothing = Written::default();
    let mut reader = Reader { before: before.unwrap_or(&nothing), problems: Vec::new() };
    reader.unknown("", spec, &["targetGroups", "namespaces", "allow"]);
    reader.unknown("namespaces.", &spec["namespaces"], &["names", "selector"]);
    let groups = reader.groups(&spec["targetGroups"]);
    let (names, selector) = reader.namespaces(&spec["namespaces"]);
    let exclusive = reader.allow(&spec["allow"]);
    (Written { groups, names, selector, exclusive }, reader.problems)
}

struct Reader<'a> {
    before: &'a Written,
    problems: Vec<String>,
}

impl Reader<'_> {
    fn unknown(&mut self, path: &str, value: &Value, known: &[&str]) {
        for (key, _) in value.as_object().into_iter().flatten() {
            if !known.contains(&&**key) {
                let known = known.join(", ");
                self.problems.push(format!("Unknown field {path}{} is ignored. Use {known}.", brief(key)));
            }
        }
    }

    /// Reads at most `most` strings from a list. Values that are not strings are reported as errors. The second result
    /// states whether the list is valid.
    fn texts<'v>(&mut self, path: &str, list: &'v Value, most: usize) -> (Vec<&'v str>, bool) {
        let items: &'v [Value] = match list {
            Value::Null => &[],
            Value::Array(items) => &items[..],
            other => {
                self.problems.push(format!(
                    "{path}: {} is no list. Write a list of strings.",
                    brief(&other.to_string())
                ));
                return (Vec::new(), false);
            }
        };
        let texts: Vec<&str> = items.iter().filter_map(Value::as_str).take(most).collect();
        let all = texts.len() == items.len();
        if items.len() > most {
            self.problems.push(format!(
                "{path}: {} entries. Write at most {most}; later ones are ignored.",
                items.len()
            ));
        } else if !all {
            self.problems.push(format!("{path}: an entry is no string. Write a list of strings."));
        }
        (texts, all)
    }

    fn groups(&mut self, list: &Value) -> Vec<GroupPattern> {
        let (texts, mut all) = self.texts("targetGroups", list, GROUPS);
        let mut groups = Vec::new();
        for text in texts {
            match GroupPattern::parse(text) {
                Ok(pattern) => groups.push(pattern),
                Err(error) => {
                    all = false;
                    self.problems.push(format!("targetGroups: {error}"));
                }
            }
        }
        if groups.is_empty() && all {
            all = false;
            self.problems
                .push("targetGroups is empty. Add names or ARNs of target groups, such as web-*.".into());
        }
        if !all {
            let before = self.before.groups.iter().filter(|pattern| !groups.contains(pattern)).cloned();
            groups = before.collect::<Vec<_>>().into_iter().chain(groups).collect();
        }
        groups
    }

    fn namespaces(&mut self, said: &Value) -> (BTreeSet<Arc<str>>, Option<Selector>) {
        let (texts, mut all) = self.texts("namespaces.names", &said["names"], NAMES);
        let mut names = BTreeSet::new();
        for text in texts {
            if is_namespace(text) {
                names.insert(Arc::from(text));
            } else {
                all = false;
                self.problems.push(format!(
                    "namespaces.names: \"{}\" is no namespace name. Write 1 to 63 lower-case letters, digits and hyphens.",
                    brief(text)
                ));
            }
        }
        let selector = self.selector(&said["selector"]);
        let says_nothing = names.is_empty() && all && said["selector"].is_null();
        if says_nothing {
            self.problems.push("namespaces is empty. Set namespaces.names or namespaces.selector.".into());
        }
        if !all || says_nothing {
            names.extend(self.before.names.iter().cloned());
        }
        (names, if says_nothing { self.before.selector.clone() } else { selector })
    }

    fn selector(&mut self, said: &Value) -> Option<Selector> {
        if said.is_null() {
            return None;
        }
        let read = serde_json::from_value::<LabelSelector>(said.clone()).map_err(|error| error.to_string());
        let read = read.and_then(|selector| Selector::try_from(selector).map_err(|error| error.to_string()));
        match read {
            Ok(selector) => Some(selector),
            Err(error) => {
                self.problems.push(format!(
                    "namespaces.selector is invalid ({}). Set matchLabels, or matchExpressions with In, NotIn, Exists or \
                     DoesNotExist.",
                    brief(&error)
                ));
                self.before.selector.clone()
            }
        }
    }

    fn allow(&mut self, list: &Value) -> bool {
        let (texts, mut all) = self.texts("allow", list, ALLOWED);
        let mut exclusive = false;
        for text in texts {
            if text == "Exclusive" {
                exclusive = true;
            } else {
                all = false;
                self.problems.push(format!(
                    "allow: unknown value \"{}\". Write Exclusive, or remove it.",
                    brief(text)
                ));
            }
        }
        exclusive || (!all && self.before.exclusive)
    }
}

/// Whether the text is a valid namespace name (RFC 1123 label).
fn is_namespace(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=63).contains(&text.len())
        && text.bytes().all(inner)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

#[cfg(test)]
mod tests {
    use kube::core::SelectorExt;
    use serde_json::json;

    use super::*;

    fn patterns(written: &Written) -> Vec<&str> {
        written.groups.iter().map(GroupPattern::as_str).collect()
    }

    fn names(written: &Written) -> Vec<&str> {
        written.names.iter().map(|name| &**name).collect()
    }

    fn good() -> Value {
        json!({
            "targetGroups": ["web-*"],
            "namespaces": {"names": ["shop"], "selector": {"matchLabels": {"team": "a"}}},
            "allow": ["Exclusive"],
        })
    }

    #[test]
    fn what_is_written_as_it_should_be_is_read_without_a_word() {
        let (written, problems) = read(&good(), None);
        assert_eq!(problems, [""; 0]);
        assert_eq!(
            (patterns(&written), names(&written), written.exclusive),
            (vec!["web-*"], vec!["shop"], true)
        );
        let labels = [("team".to_owned(), "a".to_owned())].into();
        assert!(written.selector.unwrap().matches(&labels));
        let nulls = json!({
            "targetGroups": ["a"], "namespaces": {"names": ["b"], "selector": null}, "allow": null,
        });
        let (written, problems) = read(&nulls, None);
        assert_eq!((problems, written.exclusive, written.selector), (vec![], false, None));
    }

    #[test]
    fn of_a_part_that_cannot_be_read_the_rest_counts_and_what_was_valid_before() {
        let (before, _) = read(&good(), None);
        let spec = json!({
            "targetGroups": ["api", "a b", 7],
            "namespaces": {"names": ["pay", "No"], "selector": {"matchExpressions": [{"key": "x", "operator": "Like"}]}},
            "allow": ["All"],
        });
        let (written, problems) = read(&spec, Some(&before));
        assert_eq!(patterns(&written), ["web-*", "api"]);
        assert_eq!(names(&written), ["pay", "shop"]);
        assert_eq!((&written.selector, written.exclusive), (&before.selector, true));
        for said in [
            "targetGroups: an entry is no string",
            "\"a b\" matches no target group",
            "\"No\" is no namespace name",
            "namespaces.selector is invalid",
            "allow: unknown value \"All\". Write Exclusive, or remove it.",
        ] {
            assert!(problems.iter().any(|problem| problem.contains(said)), "{said}: {problems:?}");
        }
        let (alone, _) = read(&spec, None);
        assert_eq!((patterns(&alone), names(&alone), alone.exclusive), (vec!["api"], vec!["pay"], false));
        assert_eq!(alone.selector, None);
    }

    #[test]
    fn what_says_nothing_keeps_what_was_said_before() {
        let (before, _) = read(&good(), None);
        for (spec, count) in
            [(json!(null), 2), (json!("x"), 2), (json!({}), 2), (json!({"targetGroups": []}), 2)]
        {
            let (written, problems) = read(&spec, Some(&before));
            assert_eq!(problems.len(), count, "{spec}: {problems:?}");
            let without_allow = Written { exclusive: false, ..before.clone() };
            assert_eq!(written, without_allow, "{spec}");
            assert!(problems.iter().all(|problem| problem.ends_with('.')), "{problems:?}");
        }
        let (named, problems) =
            read(&json!({"targetGroups": ["web-*"], "namespaces": {"names": ["pay"]}}), Some(&before));
        assert_eq!(
            (problems, names(&named), &named.selector),
            (vec![], vec!["pay"], &None),
            "another word counts"
        );
    }

    #[test]
    fn what_nobody_knows_is_said_and_counts_for_nothing() {
        let spec = json!({"targetGroups": ["a"], "namespaces": {"names": ["b"], "name": "c"}, "allows": ["Exclusive"]});
        let (written, problems) = read(&spec, None);
        assert!(!written.exclusive);
        assert_eq!(problems.len(), 2, "{problems:?}");
        assert!(problems[0].contains("Unknown field allows is ignored"), "{problems:?}");
        assert!(problems[1].contains("Unknown field namespaces.name is ignored"), "{problems:?}");
    }
}
