//! Watches sets with their status, for `headgate status` and the page. Another program (`headgate daemonsets`) writes
//! the status.

use std::sync::Arc;

use headgate_core::{Change, Scope, model::object::ObjectKey};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Client, runtime::watcher};
use serde::Deserialize;
use tokio::sync::mpsc;

use crate::{
    api::{IngressDaemonSet, ingress_daemon_set::IngressDaemonSetStatus},
    kube::{
        grants::seen::Seen,
        slim::{identity, without_annotations},
        watch::{Closed, Following, stream, within},
    },
    runtime::sets::{Sets, ShownSet},
};

/// The maximum number of changes in the queue. If the queue is full, the watch waits.
const QUEUE: usize = 64;

/// The parts of a set that this module reads.
#[derive(Clone, Debug, Deserialize, kube::Resource)]
#[resource(inherit = IngressDaemonSet)]
struct SlimShown {
    #[serde(default, deserialize_with = "without_annotations")]
    metadata: ObjectMeta,
    #[serde(default)]
    status: Option<IngressDaemonSetStatus>,
}

impl SlimShown {
    fn shown(mut self) -> Option<(ObjectKey, ShownSet)> {
        let generation = self.metadata.generation.unwrap_or_default();
        let (key, _) = identity(&mut self.metadata)?;
        Some((key, ShownSet { generation, status: self.status }))
    }
}

/// Publishes the sets of a scope, and does not return.
///
/// # Errors
/// The watch has ended.
pub async fn follow(
    client: Client,
    following: Following,
    scope: Scope,
    sets: Arc<Sets>,
) -> Result<(), Closed> {
    let (into, mut changes) = mpsc::channel(QUEUE);
    let api = within::<SlimShown>(&client, &scope);
    let news = move |page| stream(api.clone(), watcher::Config::default().page_size(page));
    let words = |seen, _| match seen {
        Seen::Changed(change) => Some(change),
        Seen::Refused(_) | Seen::Failed => None,
    };
    let watch = following.tell(("ingressdaemonsets", None), scope, news, SlimShown::shown, into, words);
    let show = async {
        while let Some(change) = changes.recv().await {
            apply(&sets, change);
        }
    };
    tokio::join!(watch, show).0
}

fn apply(sets: &Sets, change: Change<(ObjectKey, ShownSet)>) {
    match change {
        Change::Applied((key, set)) => _ = sets.insert(key, Arc::new(set)),
        Change::Deleted((key, _)) => _ = sets.remove(&key),
        Change::Relisted(scope, all) => {
            sets.retain(|key, _| !scope.covers(&key.namespace) || all.iter().any(|(of, _)| of == key));
            for (key, set) in all {
                sets.insert(key, Arc::new(set));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn set(name: &str, nodes: i64) -> (ObjectKey, ShownSet) {
        let set = json!({
            "metadata": {"name": name, "namespace": "ingress", "uid": "s-1", "generation": 2},
            "spec": {"template": {}}, "status": {"nodes": nodes},
        });
        serde_json::from_value::<SlimShown>(set).unwrap().shown().unwrap()
    }

    #[test]
    fn what_was_listed_last_is_shown_and_what_has_changed_since() {
        let sets = Sets::default();
        let names = |sets: &Sets| {
            let mut names: Vec<_> = sets.iter().map(|entry| entry.key().name.to_string()).collect();
            names.sort();
            names
        };
        apply(&sets, Change::Relisted(Scope::Cluster, vec![set("a", 1), set("b", 1)]));
        apply(&sets, Change::Applied(set("b", 2)));
        let shown = sets.get(&ObjectKey::new("ingress", "b")).unwrap().clone();
        assert_eq!((shown.generation, shown.status.as_ref().unwrap().nodes), (2, 2));
        apply(&sets, Change::Deleted(set("a", 1)));
        assert_eq!(names(&sets), ["b"]);
        apply(&sets, Change::Relisted(Scope::Namespace("shop".into()), vec![]));
        assert_eq!(names(&sets), ["b"], "it is of another namespace");
        apply(&sets, Change::Relisted(Scope::Namespace("ingress".into()), vec![set("c", 1)]));
        assert_eq!(names(&sets), ["c"]);
    }
}
