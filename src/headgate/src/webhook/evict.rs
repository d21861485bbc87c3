//! Answers requests for the eviction of a pod. Each request is allowed or rejected with 429, without a long wait.
//!
//! Headgate allows an eviction if it has no information about the pod or cannot record the request. If Headgate is only
//! busy, the answer is 429. No answer waits for a write to a pod ([`super::notes`]). Both kinds of dry run are allowed
//! without any effect, because `kubectl drain --dry-run=server` sets the flag only in the body.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use headgate_core::{
    Cause, Moment, Reason,
    model::{
        eviction::{self, LONGEST_RETRY, Ruling},
        excerpt::brief,
        notice::{About, Notice},
        object::{ObjectKey, Uid},
    },
};
use serde_json::Value;
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::{sleep, timeout},
};
use tracing::{debug, info, warn};

use super::{
    Webhook,
    node_reads::NodeReads,
    notes::{Notes, queue::Asked},
    review::Request,
};
use crate::kube::events;

/// The maximum length of an object's name in Kubernetes.
const LONGEST_NAME: usize = 253;
/// The longest wait of a request for the leader's decision.
const KEPT_WAITING: Duration = Duration::from_millis(1_200);
/// The longest wait for one answer of the engine while a request waits for the leader's decision.
const ENGINE: Duration = Duration::from_millis(500);
/// The time after which a client should retry if the engine was too busy.
const BUSY: Duration = Duration::from_secs(3);
/// The maximum number of requests that may wait for a decision at the same time. Each waiting request is another
/// request in flight at the API server.
const PLACES_TO_WAIT: usize = 8;
/// The interval at which a waiting request checks for a decision.
const ASKED_AGAIN: Duration = Duration::from_millis(50);
/// The maximum number of pods for which Headgate stores that their eviction was logged. Beyond the maximum, a pod may
/// get a second Event.
const TOLD: usize = 10_000;
/// If the propagation delay ends within this time, the decision may come during the wait.
const ALMOST_OVER: Duration = Duration::from_secs(1);

/// The data for answers to eviction requests.
#[derive(Clone)]
pub struct Evicting {
    /// The records that must be written to pods.
    pub notes: Notes,
    /// Reads the nodes of pods without a hold.
    pub nodes: NodeReads,
    /// The queue of Events.
    pub notices: events::Sender,
    /// The permits for requests that wait for the leader's decision.
    waiting: Arc<Semaphore>,
    /// The pods, by UID, whose allowed eviction was already logged. The set prevents repeated log lines and Events when
    /// clients retry.
    told: Arc<Mutex<BTreeSet<(Uid, Cause)>>>,
}

impl Evicting {
    /// Creates the data with all permits free.
    pub fn new(notes: Notes, reads: NodeReads, notices: events::Sender) -> Self {
        let waiting = Arc::new(Semaphore::new(PLACES_TO_WAIT));
        Self { notes, nodes: reads, notices, waiting, told: Arc::default() }
    }

    /// Whether an eviction of the pod for this cause was not logged yet.
    fn is_news(&self, uid: &Uid, cause: Cause) -> bool {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.len() >= TOLD {
            told.clear();
        }
        told.insert((uid.clone(), cause))
    }
}

/// Whether the leader may decide within about a second.
fn is_near((cause, retry): (Cause, Duration)) -> bool {
    match cause {
        Cause::EvictionRecorded | Cause::EvictionWaitsForZone => true,
        Cause::EvictionWaitsForLoadBalancer => retry <= ALMOST_OVER,
        _ => false,
    }
}

pub(super) fn is_dry_run(request: &Request) -> bool {
    let in_the_body = request.object.pointer("/deleteOptions/dryRun").and_then(Value::as_array);
    request.dry_run.unwrap_or_default() || in_the_body.is_some_and(|all| !all.is_empty())
}

/// Reads an eviction request.
pub fn read(request: &Request) -> eviction::Request {
    let options = |path: &str| request.object.pointer(&format!("/deleteOptions/{path}"));
    let uid = options("preconditions/uid").and_then(Value::as_str).map(Uid::new);
    let grace = options("gracePeriodSeconds").and_then(Value::as_i64);
    let grace = grace.map(|seconds| u32::try_from(seconds.max(0)).unwrap_or(u32::MAX));
    eviction::Request { uid, grace, ..eviction::Request::default() }
}

/// The message to a client whose eviction waits.
fn waits(pod: &ObjectKey, cause: Cause) -> String {
    let why = match cause {
        Cause::EvictionWaitsForBudget => "its PodDisruptionBudget allows no eviction for now",
        Cause::EvictionWaitsForDeparture => "its PodDisruptionBudget allows no further disruption now",
        Cause::EvictionWaitsForZone => {
            "without it a zone would have too few healthy targets; it waits for a replacement there"
        }
        Cause::EvictionWaitsForLoadBalancer => {
            "it was deregistered, and its load balancers may keep sending for a while"
        }
        Cause::HeadgateBusy => "Headgate is too busy to decide now",
        _ => "it is deregistered first",
    };
    format!("pod {pod} cannot be evicted yet: {why} ({}); retry", cause.reason())
}

impl Webhook {
    /// Answers an eviction request before `until`, even without information. The permit `place` is released when the
    /// engine has answered. Without a permit, the engine is not queried.
    pub(super) async fn evict(
        &self,
        request: &Request,
        place: Option<SemaphorePermit<'_>>,
        until: Moment,
    ) -> Value {
        let name = request.name.as_deref().or_else(|| request.object["metadata"]["name"].as_str());
        let namespace = request.namespace();
        let is_a_name = |name: &str| (1..=LONGEST_NAME).contains(&name.len());
        let are_names = |name: &&str| is_a_name(name) && is_a_name(namespace);
        let Some(name) = name.filter(|name| are_names(name) && request.evicts_a_pod()) else {
            return request.allow(Vec::new(), &[]);
        };
        let pod = ObjectKey::new(namespace, name);
        if is_dry_run(request) {
            debug!(reason = %Reason::EvictionAllowed, %pod, "eviction dry run allowed");
            return request.allow(Vec::new(), &[]);
        }
        match self.ruled(&pod, read(request), place, until).await {
            Ok(cause) => {
                info!(reason = %cause.reason(), why = cause.detail(), %pod, "eviction allowed");
                self.metrics.eviction_asked(true, cause.reason());
                request.allow(Vec::new(), &[])
            }
            Err((cause, seconds)) => {
                info!(reason = %cause.reason(), why = cause.detail(), %pod, seconds, "an eviction waits");
                self.metrics.eviction_asked(false, cause.reason());
                request.not_now(&waits(&pod, cause), seconds)
            }
        }
    }

    /// `Ok`: the eviction is allowed. `Err`: the reason for the wait, and the number of seconds after which the client
    /// should retry.
    ///
    /// The leader checks a zone within milliseconds, but clients only retry after seconds. Therefore, some requests
    /// wait for the leader's decision for about a second.
    async fn ruled(
        &self,
        pod: &ObjectKey,
        request: eviction::Request,
        place: Option<SemaphorePermit<'_>>,
        until: Moment,
    ) -> Result<Cause, (Cause, u64)> {
        let busy = (Cause::HeadgateBusy, BUSY.as_secs());
        let place = place.ok_or(busy)?;
        let ruling = self.asking.may_evict(pod.clone(), request.clone(), self.left(until)).await;
        drop(place);
        let mut ruling = ruling.ok_or(busy)?;
        if let Ruling::AskNode { node, .. } = &ruling {
            let remains = self.evicting.nodes.remains(node, self.left(until)).await;
            ruling = ruling.with_node(remains.ok_or(busy)?);
        }
        let mut wait = match ruling {
            // The node was already read, so `Ruling::AskNode` is impossible here.
            Ruling::AskNode { .. } => return Err(busy),
            Ruling::Pass(cause) => return Ok(cause),
            Ruling::Regardless(cause, uid) => return Ok(self.passes_regardless(pod, uid, cause)),
            Ruling::Wait { cause, mut retry, uid, mark } => {
                if mark.is_some() {
                    let notes = &self.evicting.notes;
                    if let Asked::Refused(why) = notes.ask(pod, &uid) {
                        return Ok(self.passes_unnoted(pod, uid, &why));
                    }
                    // Earlier retries would use API server capacity that the writes of records need.
                    if notes.are_many() {
                        retry = LONGEST_RETRY;
                    }
                }
                (cause, retry)
            }
        };
        if let Ok(_place) = self.evicting.waiting.try_acquire() {
            let patience = KEPT_WAITING.min(self.left(until));
            let decided = timeout(patience, self.decided(pod, &request, &mut wait)).await;
            if let Ok(Some(cause)) = decided {
                return Ok(cause);
            }
        }
        let (cause, retry) = wait;
        Err((cause, retry.as_secs().max(1)))
    }

    /// Queries the engine repeatedly while the leader may decide soon. `Some`: the eviction is allowed.
    async fn decided(
        &self,
        pod: &ObjectKey,
        request: &eviction::Request,
        wait: &mut (Cause, Duration),
    ) -> Option<Cause> {
        while is_near(*wait) {
            sleep(ASKED_AGAIN).await;
            // The node was already read, although the watch may not show the record yet.
            match self.asking.may_evict(pod.clone(), request.clone(), ENGINE).await?.with_node(false) {
                Ruling::AskNode { .. } => return None,
                Ruling::Pass(cause) => return Some(cause),
                Ruling::Regardless(cause, uid) => return Some(self.passes_regardless(pod, uid, cause)),
                // The record is already queued, or the client's next request queues it.
                Ruling::Wait { cause, retry, .. } => *wait = (cause, retry),
            }
        }
        None
    }

    /// The time from now until `until`.
    fn left(&self, until: Moment) -> Duration {
        until.since(self.clock.now())
    }

    /// Allows the eviction of a pod on which the request cannot be recorded.
    fn passes_unnoted(&self, pod: &ObjectKey, uid: Uid, why: &str) -> Cause {
        let cause = Cause::LeavingNotRecorded;
        let note = format!(
            "The eviction was allowed without deregistration, because Headgate cannot annotate the pod ({}). Requests may be \
             lost. Grant Headgate patch on pods.",
            brief(why)
        );
        self.notify(pod, uid, cause.reason(), &note);
        cause
    }

    fn passes_regardless(&self, pod: &ObjectKey, uid: Uid, cause: Cause) -> Cause {
        if !self.evicting.is_news(&uid, cause) {
            return cause;
        }
        let note = match cause {
            Cause::HoldMissing => {
                "The eviction was allowed although requests may be lost: the pod has no hold, and its node remains. Cordon the \
                 node first, or label the namespace headgate.dev/inject and recreate the pod."
            }
            Cause::GraceCutsHold => {
                "The eviction was allowed with a grace period that is shorter than the hold. Requests may be lost. Drain without \
                 --grace-period."
            }
            _ => {
                "The eviction was allowed, because no leader decided in time. Requests may be lost. Check that a replica leads \
                 (headgate_leader) and may patch pods."
            }
        };
        self.notify(pod, uid, cause.reason(), note);
        cause
    }

    fn notify(&self, pod: &ObjectKey, uid: Uid, reason: Reason, note: &str) {
        self.metrics.noticed(reason);
        let about = About::Pod(pod.clone(), uid);
        if self.evicting.notices.send(Notice { about, reason, note: note.into() }) {
            warn!(%reason, %pod, "{note}");
        } else {
            debug!(%reason, %pod, "{note}");
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
        let meant =
            eviction::Request { uid: Some(Uid::new("u-7")), grace: Some(3), ago: eviction::Ago::default() };
        assert_eq!(read(json!({"gracePeriodSeconds": 3, "preconditions": {"uid": "u-7"}})), meant);
        assert_eq!(read(json!({"gracePeriodSeconds": -1})).grace, Some(0));
        assert_eq!(
            read(json!({"gracePeriodSeconds": "3", "preconditions": []})),
            eviction::Request::default()
        );
    }
}
