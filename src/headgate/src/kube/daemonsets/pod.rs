//! A watched pod of an IngressDaemonSet.

use headgate_daemonset::model::{OWNED_BY, REVISION, SetPod};
use k8s_openapi::{api::core::v1::Pod, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use serde::Deserialize;
use serde_json::Value;

use super::{owner, time};
use crate::kube::slim::{identity, without_annotations};

/// A watched pod.
#[derive(Clone, Debug, Deserialize, kube::Resource)]
#[resource(inherit = Pod)]
pub struct SlimSetPod {
    #[serde(default, deserialize_with = "without_annotations")]
    metadata: ObjectMeta,
    #[serde(default)]
    spec: Option<Spec>,
    #[serde(default)]
    status: Option<Status>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    node_name: Option<String>,
    affinity: Value,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Status {
    phase: Option<String>,
    conditions: Option<Vec<Option<Condition>>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Condition {
    #[serde(rename = "type")]
    kind: Option<String>,
    status: Option<String>,
    last_transition_time: Option<String>,
}

/// The node for which a pod was created.
fn made_for(affinity: &Value) -> Option<&str> {
    let required = &affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    let fields = required["nodeSelectorTerms"][0]["matchFields"].as_array()?;
    fields.iter().find(|field| field["key"] == "metadata.name")?["values"][0].as_str()
}

impl SlimSetPod {
    /// Converts the pod to the core's facts.
    pub fn into_facts(mut self) -> Option<SetPod> {
        let (key, uid) = identity(&mut self.metadata)?;
        let Spec { node_name, affinity } = self.spec.unwrap_or_default();
        let node_name = node_name.filter(|name| !name.is_empty());
        let scheduled = node_name.is_some();
        let node = node_name.as_deref().or_else(|| made_for(&affinity)).unwrap_or_default().into();
        let Status { phase, conditions } = self.status.unwrap_or_default();
        let created = self.metadata.creation_timestamp.map(|at| time(at.0)).unwrap_or_default();
        let ready = conditions.into_iter().flatten().flatten().find(|condition| {
            condition.kind.as_deref() == Some("Ready") && condition.status.as_deref() == Some("True")
        });
        let since = |condition: Condition| condition.last_transition_time?.parse().ok().map(time);
        let labels = self.metadata.labels.unwrap_or_default();
        Some(SetPod {
            key,
            uid,
            version: self.metadata.resource_version.unwrap_or_default().into(),
            controller: owner(self.metadata.owner_references.as_ref()),
            set: labels.get(OWNED_BY).map(|name| name.as_str().into()),
            revision: labels.get(REVISION).map(String::as_str).unwrap_or_default().into(),
            node,
            scheduled,
            created,
            terminating: self.metadata.deletion_timestamp.is_some(),
            finished: matches!(phase.as_deref(), Some("Succeeded" | "Failed")),
            ready: ready.map(|condition| since(condition).unwrap_or(created)),
        })
    }
}

#[cfg(test)]
mod tests {
    use headgate_core::model::object::{ObjectKey, Uid};
    use serde_json::json;

    use super::*;
    use crate::kube::daemonsets::template;

    fn read(pod: Value) -> SetPod {
        serde_json::from_value::<SlimSetPod>(pod).unwrap().into_facts().unwrap()
    }

    fn made() -> Value {
        let set = ObjectKey::new("ingress", "edge");
        let mut pod = template::pod(&set, &Uid::new("s-1"), &json!({"spec": {}}), "abc", "edge-n1-0", "n1");
        pod["metadata"]["uid"] = "u-1".into();
        pod["metadata"]["creationTimestamp"] = "2027-01-15T08:00:00Z".into();
        pod
    }

    #[test]
    fn what_was_made_is_read_before_the_scheduler_has_seen_it() {
        let pod = read(made());
        let owner = pod.controller.unwrap();
        assert_eq!((&*owner.name, owner.uid.as_str(), pod.set.as_deref()), ("edge", "s-1", Some("edge")));
        assert_eq!((&*pod.revision, &*pod.node, pod.scheduled), ("abc", "n1", false));
        assert!(!pod.terminating && !pod.finished && pod.ready.is_none());
    }

    #[test]
    fn a_pod_is_ready_since_its_condition_says_so() {
        let with = |status: Value| {
            let mut pod = made();
            pod["spec"]["nodeName"] = "n2".into();
            pod["status"] = status;
            read(pod)
        };
        let condition = |status: &str| json!({"conditions": [null, {"type": "Ready", "status": status, "lastTransitionTime": "2027-01-15T08:00:30Z"}]});
        let ready = with(condition("True"));
        assert_eq!(ready.ready.unwrap().since(ready.created).as_secs(), 30);
        assert_eq!((&*ready.node, ready.scheduled), ("n2", true));
        assert_eq!(with(condition("False")).ready, None);
        assert!(with(json!({"phase": "Failed"})).finished && !with(json!({"phase": "Running"})).finished);
    }

    #[test]
    fn a_pod_that_something_else_controls_is_of_no_set() {
        let mut pod = made();
        pod["metadata"]["ownerReferences"][0]["kind"] = "ReplicaSet".into();
        assert_eq!(&*read(pod.clone()).controller.unwrap().name, "");
        pod["metadata"]["ownerReferences"] = json!(null);
        assert_eq!(read(pod).controller, None);
    }
}
