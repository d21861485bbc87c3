//! Lists the other ready replicas when a leader considers a handover.
//!
//! The other replicas have the same labels as this replica's pod, except labels that distinguish ReplicaSets or pods. A
//! replica is ready if its readiness probe succeeds, so Headgate stores no further state. A replica outside of a pod,
//! or in a pod without labels, finds no other replicas.

use std::time::Duration;

use headgate_core::model::object::{ObjectKey, Uid};
use k8s_openapi::{api::core::v1::Pod, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{Api, Client, api::ListParams};
use serde::Deserialize;
use tokio::time::timeout;

use super::{slim::without_annotations, words::plain};

/// Labels that differ between replicas of one installation.
const OWN: [&str; 4] = [
    "pod-template-hash",
    "controller-revision-hash",
    "statefulset.kubernetes.io/pod-name",
    "apps.kubernetes.io/pod-index",
];

/// The labels and the readiness of a pod.
#[derive(Clone, Debug, Deserialize, kube::Resource)]
#[resource(inherit = Pod)]
struct Replica {
    #[serde(default, deserialize_with = "without_annotations")]
    metadata: ObjectMeta,
    status: Option<Status>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Status {
    conditions: Option<Vec<Option<Condition>>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Condition {
    #[serde(rename = "type")]
    kind: Option<String>,
    status: Option<String>,
}

impl Replica {
    fn is_ready(&self) -> bool {
        let conditions = self.status.iter().flat_map(|status| status.conditions.iter().flatten().flatten());
        let is = |condition: &Condition| {
            condition.kind.as_deref() == Some("Ready") && condition.status.as_deref() == Some("True")
        };
        self.metadata.deletion_timestamp.is_none() && conditions.into_iter().any(is)
    }

    /// The label selector that matches the other replicas. `None`: the pod has no labels that distinguish replicas from
    /// other pods.
    fn selector(&self) -> Option<String> {
        let labels = self.metadata.labels.iter().flatten().filter(|(key, _)| !OWN.contains(&key.as_str()));
        let labels: Vec<String> = labels.map(|(key, value)| format!("{key}={value}")).collect();
        (!labels.is_empty()).then(|| labels.join(","))
    }
}

/// The replicas of this installation.
pub struct Replicas {
    pods: Api<Replica>,
    namespace: String,
    /// The name of this replica's pod, if the program runs in a pod.
    pod: Option<Box<str>>,
    uid: Option<Uid>,
}

impl Replicas {
    /// Creates the list of all replicas except the replica in the pod `pod`.
    pub fn new(client: Client, own_namespace: &str, pod: Option<&str>) -> Self {
        let pods = Api::namespaced(client, own_namespace);
        Self { pods, namespace: own_namespace.to_owned(), pod: pod.map(Box::from), uid: None }
    }

    /// The pod of this replica, if the replicas were already listed.
    pub fn own(&self) -> Option<(ObjectKey, Uid)> {
        let key = ObjectKey::new(self.namespace.as_str(), self.pod.as_deref()?);
        Some((key, self.uid.clone()?))
    }

    /// Returns the pod names of the other ready replicas.
    ///
    /// # Errors
    /// The API server does not answer in time.
    pub async fn others(&mut self, by: Duration) -> Result<Vec<Box<str>>, String> {
        let asked = timeout(by, self.ask()).await;
        asked.map_err(|_| format!("no answer within {by:?}"))?.map_err(|error| plain(&error))
    }

    async fn ask(&mut self) -> kube::Result<Vec<Box<str>>> {
        let Some(pod) = self.pod.clone() else { return Ok(Vec::new()) };
        let named = ListParams::default().fields(&format!("metadata.name={pod}"));
        let Some(own) = self.pods.list(&named).await?.items.pop() else { return Ok(Vec::new()) };
        let selector = own.selector();
        self.uid = own.metadata.uid.map(Uid::new);
        let Some(selector) = selector else { return Ok(Vec::new()) };
        let alike = self.pods.list(&ListParams::default().labels(&selector)).await?.items;
        let ready = alike.into_iter().filter(Replica::is_ready).filter_map(|other| other.metadata.name);
        Ok(ready.filter(|name| **name != *pod).map(String::into_boxed_str).collect())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn replica(metadata: &Value, conditions: &Value) -> Replica {
        serde_json::from_value(json!({"metadata": metadata, "status": {"conditions": conditions}})).unwrap()
    }

    #[test]
    fn a_replica_is_ready_if_its_pod_is_and_stays() {
        let ready =
            json!([null, {"type": "ContainersReady", "status": "True"}, {"type": "Ready", "status": "True"}]);
        assert!(replica(&json!({"name": "a"}), &ready).is_ready());
        let goes = json!({"name": "a", "deletionTimestamp": "2026-01-02T03:04:05Z"});
        assert!(!replica(&goes, &ready).is_ready());
        for conditions in [json!(null), json!([{"type": "Ready", "status": "False"}]), json!([{}])] {
            assert!(!replica(&json!({"name": "a"}), &conditions).is_ready(), "{conditions}");
        }
    }

    #[test]
    fn others_have_its_labels_but_for_those_of_its_replica_set() {
        let labels = json!({"app": "headgate", "pod-template-hash": "5d9", "tier": "x"});
        let own = replica(&json!({"name": "a", "labels": labels}), &json!(null));
        assert_eq!(own.selector().as_deref(), Some("app=headgate,tier=x"));
        let alone = replica(&json!({"name": "a", "labels": {"pod-template-hash": "5d9"}}), &json!(null));
        assert_eq!(alone.selector(), None, "all pods of the namespace would be taken for replicas");
    }
}
