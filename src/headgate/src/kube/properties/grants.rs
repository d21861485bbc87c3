//! Property tests with randomly changed grants.

use headgate_core::{Change, Scope};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::listed;
use crate::{
    kube::grants::{known::Known, written::SlimGrant},
    properties::{LONGEST_MESSAGE, changed, holds},
};

fn grant(name: &str) -> Value {
    json!({
        "apiVersion": "headgate.dev/v1alpha1", "kind": "TargetGroupGrant",
        "metadata": {"name": name, "uid": format!("u-{name}"), "resourceVersion": "7"},
        "spec": {
            "targetGroups": ["web-*", "arn:*"],
            "namespaces": {
                "names": ["shop", "pay"],
                "selector": {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "c", "operator": "Exists"}]},
            },
            "allow": ["Exclusive"],
        },
    })
}

/// The number of errors in the grants, if all messages have the required form.
fn said(known: &Known) -> Result<usize, TestCaseError> {
    let said: Vec<String> = known.problems().into_values().flatten().collect();
    for problem in &said {
        prop_assert!(problem.ends_with('.') && problem.len() <= LONGEST_MESSAGE, "{problem}");
    }
    Ok(said.len())
}

#[test]
fn whatever_stands_in_one_grant_the_others_of_its_list_are_read_and_what_is_wrong_is_said_in_few_words() {
    holds(changed(grant("odd"), "/spec"), |odd| {
        let all: Vec<SlimGrant> = listed(&[grant("a"), odd, grant("z")]).map_err(TestCaseError::fail)?;
        let entries: Vec<_> = all.into_iter().filter_map(SlimGrant::into_entry).collect();
        let mut known = Known::default();
        known.take_grants(Change::Relisted(Scope::Cluster, entries));
        known.take_namespaces(Change::Relisted(Scope::Cluster, vec![]));
        let facts = known.facts();
        prop_assert_eq!(facts.len(), 3);
        for whole in [&facts[0], &facts[2]] {
            prop_assert!(whole.exclusive && whole.groups.len() == 2 && whole.namespaces.len() == 2);
        }
        prop_assert!(said(&known)? <= 9);
        Ok(())
    });
}
