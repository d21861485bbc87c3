//! Requests for the eviction of a pod: each is answered at once, let through or with 429.
//!
//! What cannot be known, noted or answered in time is let through. A dry run is let through untouched, of both kinds:
//! `kubectl drain --dry-run=server` says so in the body only.

use headgate_core::{
    Reason,
    leaving::{self, MarkFailure, Ruling},
    notice::{About, Notice},
    object::{ObjectKey, Uid},
};
use serde_json::Value;
use tokio::sync::mpsc;
use tracing::{debug, info, warn};

use super::{review::Request, server::Webhook};
use crate::kube::evictions::{AT_ONCE, Evictions};

/// What evictions need.
#[derive(Clone)]
pub struct Evicting {
    /// Writes on pods.
    pub evictions: Evictions,
    /// Events to be written.
    pub notices: mpsc::Sender<Notice>,
}

fn is_dry_run(request: &Request) -> bool {
    let in_the_body = request.object.pointer("/deleteOptions/dryRun").and_then(Value::as_array);
    request.dry_run.unwrap_or_default() || in_the_body.is_some_and(|all| !all.is_empty())
}

fn read(request: &Request) -> leaving::Request {
    let options = |path: &str| request.object.pointer(&format!("/deleteOptions/{path}"));
    let uid = options("preconditions/uid").and_then(Value::as_str).map(Uid::new);
    let grace = options("gracePeriodSeconds").and_then(Value::as_i64);
    let grace = grace.map(|seconds| u32::try_from(seconds.max(0)).unwrap_or(u32::MAX));
    leaving::Request { uid, grace }
}

/// What whoever asks is told.
fn waits(pod: &ObjectKey, reason: Reason) -> String {
    let why = match reason {
        Reason::EvictionWaitsForBudget => "its PodDisruptionBudget allows no eviction for now",
        Reason::EvictionWaitsForDeparture => {
            "as many pods of its PodDisruptionBudget as it allows are leaving"
        }
        Reason::EvictionWaitsForZone => {
            "without it a zone would have too few healthy targets; a replacement there is waited for"
        }
        Reason::EvictionWaitsForLoadBalancer => {
            "it was deregistered, and its load balancers may go on sending for a while"
        }
        _ => "it is deregistered first",
    };
    format!("pod {pod} may not be evicted yet: {why} ({reason}); ask again")
}

impl Webhook {
    /// Answers a request for the eviction of a pod.
    pub async fn evict(&self, request: &Request) -> Value {
        let name = request.name.as_deref().or_else(|| request.object["metadata"]["name"].as_str());
        let Some(name) = name.filter(|name| !name.is_empty() && request.evicts_a_pod()) else {
            return request.allow(Vec::new(), &[]);
        };
        let pod = ObjectKey::new(request.namespace(), name);
        if is_dry_run(request) {
            debug!(reason = %Reason::DryRun, %pod, "an eviction is let through");
            return request.allow(Vec::new(), &[]);
        }
        match self.ruled(&pod, read(request)).await {
            Ok(reason) => {
                info!(%reason, %pod, "an eviction is let through");
                self.metrics.eviction_asked(true, reason);
                request.allow(Vec::new(), &[])
            }
            Err((reason, seconds)) => {
                info!(%reason, %pod, seconds, "an eviction waits");
                self.metrics.eviction_asked(false, reason);
                request.not_now(&waits(&pod, reason), seconds)
            }
        }
    }

    /// `Ok`: let through; otherwise why not, and after how many seconds it is worth asking again.
    async fn ruled(&self, pod: &ObjectKey, request: leaving::Request) -> Result<Reason, (Reason, u64)> {
        let (reason, retry, uid, mark) = match self.asking.may_evict(pod.clone(), request).await {
            Ruling::Pass(reason) => return Ok(reason),
            Ruling::Unheard(uid) => {
                let note = "the eviction of this pod is let through, because no leader has said a word about it for too \
                            long: requests may be lost; expected a Headgate that leads (headgate_leader), and may patch \
                            pods";
                self.notify(pod, uid, Reason::NobodyDecides, note.into());
                return Ok(Reason::NobodyDecides);
            }
            Ruling::Wait { reason, retry, uid, mark } => (reason, retry, uid, mark),
        };
        if let Some(mark) = mark {
            match self.evicting.evictions.mark_within(AT_ONCE, pod, &uid, mark).await {
                Ok(()) => {}
                Err(MarkFailure::Gone) => return Ok(Reason::PodDeleted),
                Err(MarkFailure::Denied(why) | MarkFailure::Unavailable(why)) => {
                    let reason = Reason::LeavingNotRecorded;
                    let note = format!(
                        "the eviction of this pod is let through without having been deregistered before, because that \
                         could not be noted on it ({why}): requests may be lost; expected a Role or ClusterRole with the \
                         verb patch on pods"
                    );
                    self.notify(pod, uid, reason, note);
                    return Ok(reason);
                }
            }
        }
        Err((reason, retry.as_secs().max(1)))
    }

    fn notify(&self, pod: &ObjectKey, uid: Uid, reason: Reason, note: String) {
        warn!(%reason, %pod, "{note}");
        self.metrics.noticed(reason);
        let about = About::Pod(pod.clone(), uid);
        if self.evicting.notices.try_send(Notice { about, reason, note }).is_err() {
            self.metrics.event_dropped();
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn request(dry_run: &Value, options: &Value) -> Request {
        let review = json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "request": {
                "uid": "u-1", "operation": "CREATE", "namespace": "shop", "name": "web", "dryRun": dry_run,
                "resource": {"group": "", "version": "v1", "resource": "pods"}, "subResource": "eviction",
                "object": {"metadata": {"name": "web"}, "deleteOptions": options},
            },
        });
        Request::read(review.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn a_dry_run_is_one_of_the_request_or_of_the_body() {
        for (dry_run, options, is) in [
            (json!(true), json!(null), true),
            (json!(false), json!({"dryRun": ["All"]}), true),
            (json!(false), json!({"dryRun": []}), false),
            (json!(null), json!({}), false),
            (json!(null), json!("odd"), false),
        ] {
            assert_eq!(is_dry_run(&request(&dry_run, &options)), is, "{options}");
        }
    }

    #[test]
    fn the_grace_period_and_the_uid_are_those_of_the_delete_options() {
        let read = |options: Value| read(&request(&json!(false), &options));
        let meant = leaving::Request { uid: Some(Uid::new("u-7")), grace: Some(3) };
        assert_eq!(read(json!({"gracePeriodSeconds": 3, "preconditions": {"uid": "u-7"}})), meant);
        assert_eq!(read(json!({"gracePeriodSeconds": -1})).grace, Some(0));
        assert_eq!(
            read(json!({"gracePeriodSeconds": "3", "preconditions": []})),
            leaving::Request::default()
        );
    }
}
