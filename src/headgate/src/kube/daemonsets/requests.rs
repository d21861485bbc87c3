//! Sends the core's requests for a set to the API server and returns the results.
//!
//! Each request concerns one object. Deletions and patches contain the object's UID. If a request times out, its result
//! is unknown.

use std::{fmt::Debug, sync::Arc, time::Duration};

use headgate_core::{
    WallTime,
    model::object::{ObjectKey, Uid},
};
use headgate_daemonset::model::ask::{Ask, Asked, Outcome};
use k8s_openapi::{
    NamespaceResourceScope,
    api::{
        apps::v1::ControllerRevision,
        core::v1::{Node, Pod},
        policy::v1::PodDisruptionBudget,
    },
    apimachinery::pkg::apis::meta::v1::Condition,
};
use kube::{
    Api, Client, Resource,
    api::{DeleteParams, Patch, PatchParams, Preconditions},
    core::{PartialObjectMeta, Status},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{budget, revision, set, status, template};
use crate::{
    api::IngressDaemonSet,
    kube::{
        evictions::{Evictions, words},
        failure,
        words::plain,
    },
    redact::redacted,
};

/// The timeout of a request. A new leader waits this long before it reads the objects.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// Additional data for a request.
#[derive(Clone, Debug, Default)]
pub struct With {
    /// The pod template for the request.
    pub template: Option<Arc<Value>>,
    /// The present conditions in the set's status.
    pub conditions: Vec<Condition>,
}

/// Sends requests to the API server.
#[derive(Clone)]
pub struct Requests {
    client: Client,
    evictions: Evictions,
    node_annotations: Arc<[String]>,
}

impl Requests {
    /// Creates a sender for the API server of `client`. Headgate sets only the annotations `node_annotations` on nodes.
    /// Users with permission to write sets do not need permission to write nodes.
    pub fn new(client: Client, node_annotations: Arc<[String]>) -> Self {
        Self { evictions: Evictions::new(client.clone()), client, node_annotations }
    }

    /// Sends a request, and returns the result.
    pub async fn ask(&self, asked: &Asked, with: With, wall: WallTime) -> Outcome {
        let answer = self.answer(asked, with, wall);
        timeout(PATIENCE, answer)
            .await
            .unwrap_or_else(|_| Outcome::Unknown(format!("no answer within {PATIENCE:?}").into()))
    }

    async fn answer(&self, Asked { set, uid, ask, .. }: &Asked, with: With, wall: WallTime) -> Outcome {
        let template =
            || with.template.as_deref().ok_or_else(|| Outcome::Refused("its template is unknown".into()));
        match ask {
            Ask::Make { name, node, revision } => match template() {
                Ok(template) => {
                    self.make::<Pod>(set, &template::pod(set, uid, template, revision, name, node)).await
                }
                Err(outcome) => outcome,
            },
            Ask::KeepRevision { revision, number } => match template() {
                Ok(template) => {
                    let object = revision::made(set, uid, template, revision, *number);
                    self.make::<ControllerRevision>(set, &object).await
                }
                Err(outcome) => outcome,
            },
            Ask::Delete { name, uid, version, .. } => {
                self.delete::<Pod>(set, name, uid, version.as_deref()).await
            }
            Ask::Evict { name, uid, .. } => done(
                self.evictions
                    .ask(&ObjectKey { name: name.clone(), ..set.clone() }, uid)
                    .await
                    .map(|()| None),
            ),
            Ask::Adopt { name, uid: pod } => self.adopt::<Pod>(set, uid, name, pod).await,
            Ask::AdoptRevision { name, uid: own } => {
                self.adopt::<ControllerRevision>(set, uid, name, own).await
            }
            Ask::Release { name, uid: pod } => {
                let owners = json!([{"$patch": "delete", "uid": uid.as_str()}]);
                let patch = json!({"metadata": {"uid": pod.as_str(), "ownerReferences": owners}});
                self.patch::<Pod>(set, name, Patch::Strategic(&patch)).await
            }
            Ask::RenumberRevision { name, uid, number } => {
                let patch = json!({"metadata": {"uid": uid.as_str()}, "revision": number});
                self.patch::<ControllerRevision>(set, name, Patch::Merge(&patch)).await
            }
            Ask::DropRevision { name, uid } => self.delete::<ControllerRevision>(set, name, uid, None).await,
            Ask::KeepBudget { least, uid: None } => {
                self.make::<PodDisruptionBudget>(set, &budget::made(set, uid, *least)).await
            }
            Ask::KeepBudget { least, uid: Some(own) } => {
                let patch = json!({"metadata": {"uid": own.as_str()}, "spec": {"minAvailable": least}});
                self.patch::<PodDisruptionBudget>(set, &budget::name(set), Patch::Merge(&patch)).await
            }
            Ask::AdoptBudget { name, uid: own } => {
                self.adopt::<PodDisruptionBudget>(set, uid, name, own).await
            }
            Ask::DropBudget(own) => {
                self.delete::<PodDisruptionBudget>(set, &budget::name(set), own, None).await
            }
            Ask::Annotate { node, key, value } => {
                if !self.node_annotations.iter().any(|may| **may == **key) {
                    let said = format!(
                        "sets may not annotate nodes with {key}. Name it in --node-annotations, and grant \
                         patch on nodes"
                    );
                    return Outcome::Refused(said.into());
                }
                let nodes: Api<PartialObjectMeta<Node>> = Api::all(self.client.clone());
                let patch = json!({"metadata": {"annotations": {&**key: value.as_deref()}}});
                done(nodes.patch(node, &PatchParams::default(), &Patch::Merge(&patch)).await.map(|_| None))
            }
            Ask::Write { version, status } => {
                let patch = status::patch(version, status, &with.conditions, wall);
                let api: Api<PartialObjectMeta<IngressDaemonSet>> = self.of(set);
                let written =
                    api.patch_status(&set.name, &PatchParams::default(), &Patch::Merge(&patch)).await;
                done(written.map(|_| None))
            }
        }
    }

    fn of<K>(&self, set: &ObjectKey) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.client.clone(), &set.namespace)
    }

    async fn make<K>(&self, set: &ObjectKey, object: &Value) -> Outcome
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        // The object is sent unchanged, so that fields of a newer Kubernetes version are not lost.
        let url = K::url_path(&(), Some(&set.namespace));
        let request = hyper::Request::post(url)
            .header(hyper::header::CONTENT_TYPE, "application/json")
            .body(object.to_string().into_bytes());
        let made = match request {
            Ok(request) => self.client.request::<PartialObjectMeta<Pod>>(request).await,
            Err(error) => Err(kube::Error::Service(error.into())),
        };
        done(made.map(|made| made.metadata.uid.map(Uid::new)))
    }

    async fn patch<K>(&self, set: &ObjectKey, name: &str, patch: Patch<&Value>) -> Outcome
    where
        K: Resource<Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug,
        K::DynamicType: Default,
    {
        let api: Api<PartialObjectMeta<K>> = self.of(set);
        done(api.patch(name, &PatchParams::default(), &patch).await.map(|_| None))
    }

    async fn delete<K>(&self, set: &ObjectKey, name: &str, uid: &Uid, version: Option<&str>) -> Outcome
    where
        K: Resource<Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug,
        K::DynamicType: Default,
    {
        let api: Api<PartialObjectMeta<K>> = self.of(set);
        let only =
            Preconditions { uid: Some(uid.to_string()), resource_version: version.map(ToOwned::to_owned) };
        done(api.delete(name, &DeleteParams::default().preconditions(only)).await.map(|_| None))
    }

    /// Adds an owner reference to an object, unless the set was deleted. A user who deleted a set may want to keep its
    /// pods. The garbage collector deletes objects whose owner does not exist.
    async fn adopt<K>(&self, set: &ObjectKey, uid: &Uid, name: &str, own: &Uid) -> Outcome
    where
        K: Resource<Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug,
        K::DynamicType: Default,
    {
        let sets: Api<IngressDaemonSet> = self.of(set);
        match sets.get_opt(&set.name).await {
            Ok(Some(alive)) if set::is_alive(&alive, uid) => {}
            Ok(_) => return Outcome::Gone,
            Err(error) => return outcome(&error),
        }
        let owners = json!([template::controlled_by(set, uid)]);
        let patch = json!({"metadata": {"uid": own.as_str(), "ownerReferences": owners}});
        self.patch::<K>(set, name, Patch::Strategic(&patch)).await
    }
}

fn done(answer: kube::Result<Option<Uid>>) -> Outcome {
    match answer {
        Ok(uid) => Outcome::Done(uid),
        Err(error) => outcome(&error),
    }
}

/// Converts an error to the outcome of a request.
fn outcome(error: &kube::Error) -> Outcome {
    // Some messages contain the URL of a webhook.
    let kube::Error::Api(status) = error else { return Outcome::Unknown(redacted(&plain(error)).into()) };
    let said = || redacted(words(status)).into();
    match status.code {
        409 if status.reason == "AlreadyExists" => Outcome::Exists,
        _ if failure::is_gone(status) => Outcome::Gone,
        409 => Outcome::Conflict,
        429 => Outcome::NotNow(said()),
        400..=499 => Outcome::Refused(redacted(&refusal(status)).into()),
        _ => Outcome::Unknown(said()),
    }
}

/// The reason why a pod was rejected, with the name of the field. The text omits the pod's name, so that it is
/// identical for all pods.
fn refusal(status: &Status) -> String {
    let cause =
        status.details.iter().flat_map(|details| &details.causes).find(|cause| !cause.message.is_empty());
    match cause {
        Some(cause) if !cause.field.is_empty() => format!("{}: {}", cause.field, cause.message),
        Some(cause) => cause.message.clone(),
        None => {
            let about = [" is invalid: ", " is forbidden: "];
            let said = about.iter().find_map(|about| Some(status.message.split_once(about)?.1));
            said.unwrap_or(&status.message).to_owned()
        }
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    fn meant(code: u16, reason: &str, message: &str) -> Outcome {
        let status = Status { code, reason: reason.into(), message: message.into(), ..Status::default() };
        outcome(&kube::Error::Api(Box::new(status)))
    }

    #[test]
    fn a_refusal_names_the_field_and_no_pod() {
        let of = |status: serde_json::Value| refusal(&serde_json::from_value::<Status>(status).unwrap());
        let invalid = json!({
            "status": "Failure", "code": 422, "reason": "Invalid",
            "message": "Pod \"edge-n1-a\" is invalid: spec.containers[0].image: Required value",
            "details": {"causes": [
                {"reason": "FieldValueRequired", "message": "Required value", "field": "spec.containers[0].image"},
            ]},
        });
        assert_eq!(of(invalid), "spec.containers[0].image: Required value");
        let quota = "pods \"edge-n1-a\" is forbidden: exceeded quota: few, requested: pods=1";
        let quota = json!({"status": "Failure", "code": 403, "reason": "Forbidden", "message": quota});
        assert_eq!(of(quota), "exceeded quota: few, requested: pods=1");
    }

    #[test]
    fn each_answer_has_its_meaning() {
        for (code, reason, message, is) in [
            (409, "AlreadyExists", "pods \"a\" already exists", Outcome::Exists),
            (404, "NotFound", "pods \"a\" not found", Outcome::Gone),
            (
                409,
                "Conflict",
                "Precondition failed: UID in precondition: u-1, UID in object meta: u-2",
                Outcome::Gone,
            ),
            (409, "Conflict", "the object has been modified", Outcome::Conflict),
            (429, "TooManyRequests", "later", Outcome::NotNow("later".into())),
            (403, "Forbidden", "exceeded quota", Outcome::Refused("exceeded quota".into())),
            (
                422,
                "Invalid",
                "spec.containers: Required value",
                Outcome::Refused("spec.containers: Required value".into()),
            ),
            (500, "InternalError", "etcd", Outcome::Unknown("etcd".into())),
            (504, "Timeout", "slow", Outcome::Unknown("slow".into())),
        ] {
            assert_eq!(meant(code, reason, message), is, "{code} {reason}");
        }
        let cut = kube::Error::Service("connection reset".into());
        assert!(matches!(outcome(&cut), Outcome::Unknown(_)));
    }
}
