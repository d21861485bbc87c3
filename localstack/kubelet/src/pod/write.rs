//! The writes for a pod: the kubelet's status and final deletion, and the CNI's annotation.
//!
//! The module interprets the API server's answers for the pod. The module never retries. The task of the pod retries
//! with a newly built status.

use crate::object::Pod;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Api, Client};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// The maximum number of concurrent writes of all pods. Further writes would only wait in the API server.
pub const CONCURRENCY: usize = 64;
/// The timeout of a write.
const LIMIT: Duration = Duration::from_secs(15);

/// The result of a write.
#[derive(Debug)]
pub enum Outcome {
    /// The status was stored. Contains the new object.
    Written(Box<Pod>),
    /// This write deleted the object.
    Deleted,
    /// The object was already deleted, or another object has its name.
    Gone,
    /// The API server rejected the status. A retry does not help.
    Refused(String),
    /// The write failed. A retry may help.
    Failed(String),
}

/// The writer for the pods of all nodes.
#[derive(Clone)]
pub struct Writer {
    client: Client,
    permits: Arc<Semaphore>,
}

impl Writer {
    /// Creates a writer with this client, which must not have a rate limit.
    pub fn new(client: Client) -> Self {
        Self { client, permits: Arc::new(Semaphore::new(CONCURRENCY)) }
    }

    /// Sends a strategic merge patch to `pods/status`.
    pub async fn patch(self, namespace: String, name: String, patch: Value) -> Outcome {
        let Ok(_permit) = self.permits.acquire().await else {
            return Outcome::Failed("the kubelet is stopping".into());
        };
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &namespace);
        let (params, patch) = (PatchParams::default(), Patch::Strategic(patch));
        match tokio::time::timeout(LIMIT, api.patch_status(&name, &params, &patch)).await {
            Ok(Ok(pod)) => Outcome::Written(Box::new(pod)),
            Ok(Err(error)) => classify(&error, false),
            Err(_) => Outcome::Failed(format!("no answer from the API server within {LIMIT:?}")),
        }
    }

    /// Sets an annotation as the CNI does: with a JSON merge patch of the pod, and the UID as a precondition.
    pub async fn annotate(self, pod: Arc<Pod>, key: &'static str, value: String) -> Outcome {
        let Ok(_permit) = self.permits.acquire().await else {
            return Outcome::Failed("the kubelet is stopping".into());
        };
        let api: Api<Pod> = Api::namespaced(self.client.clone(), pod.namespace());
        let patch = Patch::Merge(json!({"metadata": {"uid": pod.uid(), "annotations": {key: value}}}));
        match tokio::time::timeout(LIMIT, api.patch(pod.name(), &PatchParams::default(), &patch)).await {
            Ok(Ok(pod)) => Outcome::Written(Box::new(pod)),
            Ok(Err(error)) => classify(&error, true),
            Err(_) => Outcome::Failed(format!("no answer from the API server within {LIMIT:?}")),
        }
    }

    /// Deletes the object with the grace period 0 if it still has this UID.
    pub async fn delete(self, namespace: String, name: String, uid: String) -> Outcome {
        let Ok(_permit) = self.permits.acquire().await else {
            return Outcome::Failed("the kubelet is stopping".into());
        };
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &namespace);
        let params = DeleteParams {
            grace_period_seconds: Some(0),
            preconditions: Some(Preconditions { uid: Some(uid), resource_version: None }),
            ..DeleteParams::default()
        };
        match tokio::time::timeout(LIMIT, api.delete(&name, &params)).await {
            Ok(Ok(_)) => Outcome::Deleted,
            Ok(Err(error)) => classify(&error, true),
            Err(_) => Outcome::Failed(format!("no answer from the API server within {LIMIT:?}")),
        }
    }
}

/// Classifies an error of the API server (measured on v1.36.3). A wrong UID in a status patch returns 422 "field is
/// immutable". A missing pod returns 404. A failed UID precondition of DELETE returns 409.
fn classify(error: &kube::Error, deleting: bool) -> Outcome {
    let kube::Error::Api(status) = error else {
        return Outcome::Failed(error.to_string());
    };
    match status.code {
        404 => Outcome::Gone,
        409 if deleting => Outcome::Gone,
        422 if status.message.contains("metadata.uid") => Outcome::Gone,
        400 | 403 | 413 | 422 => Outcome::Refused(status.message.clone()),
        _ => Outcome::Failed(format!("{} {}", status.code, status.message)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(code: u16, message: &str, deleting: bool) -> Outcome {
        let status = serde_json::from_value(serde_json::json!({"code": code, "message": message})).unwrap();
        classify(&kube::Error::Api(Box::new(status)), deleting)
    }

    #[test]
    fn a_missing_pod_and_another_uid_both_mean_that_the_pod_is_gone() {
        assert!(matches!(answer(404, "not found", false), Outcome::Gone));
        let immutable = "Pod \"web\" is invalid: metadata.uid: Invalid value: field is immutable";
        assert!(matches!(answer(422, immutable, false), Outcome::Gone));
        assert!(matches!(answer(409, "the UID in the precondition does not match", true), Outcome::Gone));
    }

    #[test]
    fn conflicts_and_server_errors_are_tried_again_and_invalid_statuses_are_not() {
        assert!(matches!(answer(409, "the object has been modified", false), Outcome::Failed(_)));
        assert!(matches!(answer(503, "starting", true), Outcome::Failed(_)));
        assert!(matches!(answer(422, "status.podIPs[0]: Invalid value", false), Outcome::Refused(_)));
    }
}
