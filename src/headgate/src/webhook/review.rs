//! Parses requests and creates answers of the AdmissionReview API `admission.k8s.io/v1`.

use headgate_core::model::excerpt::excerpt;
use k8s_openapi::ByteString;
use serde::Deserialize;
use serde_json::{Value, json};
use thiserror::Error;

const VERSION: &str = "admission.k8s.io/v1";
const KIND: &str = "AdmissionReview";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Review {
    api_version: Option<String>,
    kind: Option<String>,
    request: Option<Request>,
}

/// The request of an AdmissionReview.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    /// The ID of the request, which the answer must contain.
    pub uid: String,
    #[serde(default)]
    resource: Resource,
    sub_resource: Option<String>,
    operation: Option<String>,
    /// The object's name, if it already has one.
    pub name: Option<String>,
    namespace: Option<String>,
    /// Whether the request is a dry run, which stores nothing.
    pub dry_run: Option<bool>,
    /// The object of the request.
    #[serde(default)]
    pub object: Value,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Resource {
    group: String,
    resource: String,
}

/// The reason why a body is not a valid request.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BadReview {
    /// The body is not JSON, or has the wrong structure.
    #[error("the body is not an {KIND} ({0}). Send {VERSION} as JSON")]
    Unreadable(String),
    /// The body has another version or kind.
    #[error("the body is a {kind} of {version}. Send an {KIND} of {VERSION}")]
    Version {
        /// The kind in the body.
        kind: String,
        /// The version in the body.
        version: String,
    },
    /// The body contains no request.
    #[error("the {KIND} has no request with a uid. Send one like an API server does")]
    NoRequest,
}

impl Request {
    /// Parses a request body.
    ///
    /// # Errors
    /// The error states what is wrong with the body.
    pub fn read(body: &[u8]) -> Result<Self, BadReview> {
        let review: Review = serde_json::from_slice(body)
            .map_err(|error| BadReview::Unreadable(shorten(&error.to_string())))?;
        let version = review.api_version.unwrap_or_default();
        let kind = review.kind.unwrap_or_default();
        if version != VERSION || kind != KIND {
            return Err(BadReview::Version { kind: shorten(&kind), version: shorten(&version) });
        }
        review.request.filter(|request| !request.uid.is_empty()).ok_or(BadReview::NoRequest)
    }

    /// Whether the request creates a pod.
    pub fn creates_a_pod(&self) -> bool {
        self.operation.as_deref() == Some("CREATE")
            && self.resource.group.is_empty()
            && self.resource.resource == "pods"
            && self.sub_resource.as_deref().unwrap_or_default().is_empty()
    }

    /// Whether the request evicts a pod.
    pub fn evicts_a_pod(&self) -> bool {
        self.operation.as_deref() == Some("CREATE")
            && self.resource.group.is_empty()
            && self.resource.resource == "pods"
            && self.sub_resource.as_deref() == Some("eviction")
    }

    /// The namespace of the object.
    pub fn namespace(&self) -> &str {
        let own = || self.object["metadata"]["namespace"].as_str();
        self.namespace.as_deref().filter(|name| !name.is_empty()).or_else(own).unwrap_or_default()
    }

    /// Creates an answer that allows the request, with changes to the object and warnings for the client.
    pub fn allow(&self, operations: Vec<Value>, warnings: &[String]) -> Value {
        let mut response = json!({"uid": self.uid, "allowed": true});
        if !operations.is_empty() {
            response["patchType"] = "JSONPatch".into();
            response["patch"] = json!(ByteString(Value::from(operations).to_string().into_bytes()));
        }
        if !warnings.is_empty() {
            response["warnings"] = json!(warnings);
        }
        json!({"apiVersion": VERSION, "kind": KIND, "response": response})
    }

    /// Creates an answer that rejects the request for now, with a reason and the number of seconds until a retry.
    pub fn not_now(&self, message: &str, seconds: u64) -> Value {
        let status = json!({
            "status": "Failure",
            "code": 429,
            "reason": "TooManyRequests",
            "message": message,
            "details": {"retryAfterSeconds": seconds},
        });
        let response = json!({"uid": self.uid, "allowed": false, "status": status});
        json!({"apiVersion": VERSION, "kind": KIND, "response": response})
    }
}

/// Shortens a value for an answer and a log line. An invalid value may be as large as the whole body.
fn shorten(text: &str) -> String {
    excerpt(text).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn review(change: impl Fn(&mut Value)) -> Vec<u8> {
        let mut review = json!({
            "apiVersion": VERSION, "kind": KIND, "unknown": [1],
            "request": {
                "uid": "u-1", "operation": "CREATE", "namespace": "shop", "new": {"in": "Kubernetes 2"},
                "kind": {"group": "", "version": "v1", "kind": "Pod"},
                "resource": {"group": "", "version": "v1", "resource": "pods"},
                "object": {"metadata": {}}, "oldObject": null, "dryRun": false, "options": {},
            },
        });
        change(&mut review);
        review.to_string().into_bytes()
    }

    #[test]
    fn a_review_as_an_api_server_sends_it_is_read_whatever_else_is_in_it() {
        let request = Request::read(&review(|_| {})).unwrap();
        assert!(request.creates_a_pod());
        assert_eq!((request.uid.as_str(), request.namespace()), ("u-1", "shop"));
    }

    #[test]
    fn only_the_creation_of_a_pod_counts() {
        for (path, other) in [
            ("/request/operation", "UPDATE"),
            ("/request/resource/resource", "services"),
            ("/request/resource/group", "apps"),
        ] {
            let request =
                Request::read(&review(|review| *review.pointer_mut(path).unwrap() = other.into())).unwrap();
            assert!(!request.creates_a_pod(), "{path}");
        }
        let eviction = review(|review| review["request"]["subResource"] = "eviction".into());
        let eviction = Request::read(&eviction).unwrap();
        assert!(!eviction.creates_a_pod() && eviction.evicts_a_pod());
        assert!(!Request::read(&review(|_| {})).unwrap().evicts_a_pod());
    }

    #[test]
    fn what_is_no_review_is_refused_with_what_was_expected() {
        for (body, said) in [
            (b"".to_vec(), "is not an AdmissionReview (EOF"),
            (b"\xff\xfe".to_vec(), "is not an AdmissionReview"),
            (b"[]".to_vec(), "is not an AdmissionReview"),
            (b"{}".to_vec(), "Send an AdmissionReview of admission.k8s.io/v1"),
            (review(|review| review["apiVersion"] = "admission.k8s.io/v1beta1".into()), "v1beta1. Send an"),
            (review(|review| review["kind"] = "Pod".into()), "is a Pod of"),
            (review(|review| review["request"] = Value::Null), "has no request"),
            (review(|review| review["request"]["uid"] = "".into()), "has no request with a uid"),
            (review(|review| review["request"]["uid"] = 7.into()), "is not an AdmissionReview"),
        ] {
            let error = Request::read(&body).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn the_answer_names_the_question_and_has_a_patch_only_if_something_changes() {
        let request = Request::read(&review(|_| {})).unwrap();
        assert_eq!(
            request.allow(Vec::new(), &[]),
            json!({"apiVersion": VERSION, "kind": KIND, "response": {"uid": "u-1", "allowed": true}})
        );
        let answer = request.allow(vec![json!({"op": "remove"})], &["careful".into()]);
        assert_eq!(answer["response"]["patchType"], "JSONPatch");
        assert_eq!(answer["response"]["patch"], "W3sib3AiOiJyZW1vdmUifV0=");
        assert_eq!(answer["response"]["warnings"], json!(["careful"]));
        let response = &request.not_now("wait", 3)["response"];
        assert_eq!((&response["allowed"], &response["status"]["code"]), (&json!(false), &json!(429)));
        assert_eq!(response["status"]["details"]["retryAfterSeconds"], 3);
    }
}
