//! Reports failing watches together instead of one by one.
//!
//! If the API server is unavailable, every watch fails at once and retries every few seconds. Headgate logs the
//! beginning of a failure, repeats the line with a count at growing intervals, and logs the end. A failure ends when
//! all affected watches work again.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
};

use headgate_core::{Moment, Scope};
use kube::{core::Status, runtime::watcher};
use tracing::{info, warn};

use crate::{
    kube::words::innermost,
    runtime::{
        outage::{Outage, Spelled, Told, What},
        troubles::Troubles,
    },
};

/// The failures of all watches. Clones share the failures.
#[derive(Clone, Debug, Default)]
pub struct WatchFailures {
    all: Arc<Mutex<BTreeMap<Cause, Failing>>>,
    troubles: Troubles,
}

/// The kind of a failure. Failures of one kind are reported together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// Headgate has no permission to list or watch the kind.
    Forbidden(&'static str),
    /// The kind is not installed in the API server.
    UnknownKind(&'static str),
    /// The API server returns another error.
    Refused(u16),
    /// The API server is unreachable, or does not answer.
    Unreachable,
}

#[derive(Debug, Default)]
struct Failing {
    outage: Outage,
    watches: BTreeSet<(&'static str, Scope)>,
}

/// Whether the error only means that the watch must list all objects again.
pub fn is_too_old(error: &watcher::Error) -> bool {
    status(error).is_some_and(|status| status.code == 410)
}

impl WatchFailures {
    /// Creates an empty set of failures. `troubles` receives the failures that prevent this replica from leading.
    pub fn new(troubles: Troubles) -> Self {
        Self { all: Arc::default(), troubles }
    }

    /// Records that a watch has failed.
    pub fn failed(&self, kind: &'static str, scope: &Scope, error: &watcher::Error, now: Moment) {
        let (cause, said) = judge(kind, error);
        // A missing permission or a missing CRD affects every replica, so only other failures count.
        if matches!(cause, Cause::Unreachable | Cause::Refused(_)) {
            self.troubles.failed(headgate_core::Cause::WatchesFail, &format!("{kind} of {scope}"), now);
        }
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        // A watch has one failure at a time.
        let watch = (kind, scope.clone());
        for (other, failing) in &mut *all {
            if *other != cause && failing.watches.remove(&watch) && failing.watches.is_empty() {
                over(failing.outage.worked(now));
            }
        }
        // Other parts of the error text may change with each failure, so only the kind of the failure counts.
        let failing = all.entry(cause).or_default();
        failing.watches.insert(watch);
        let watches = failing.watches.len();
        let Some(Told { what, lasted, failures }) = failing.outage.failed("", now) else { return };
        match what {
            What::Begins | What::Changed => {
                warn!(kind, %scope, "watch interrupted, retrying every few seconds: {said}");
            }
            _ => warn!(
                kind, %scope, watches, failures,
                "watch interrupted for {} now, retrying every few seconds: {said}", Spelled(lasted)
            ),
        }
    }

    /// Records that a watch has worked since the time `works`.
    pub fn works(&self, kind: &'static str, scope: &Scope, works: Moment, now: Moment) {
        self.troubles.worked(headgate_core::Cause::WatchesFail, &format!("{kind} of {scope}"));
        let watch = (kind, scope.clone());
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        for failing in all.values_mut() {
            if failing.watches.remove(&watch) && failing.watches.is_empty() {
                over(failing.outage.has_worked_since(works, now));
            }
        }
    }
}

/// The error text if a permission or the kind is missing.
pub fn refusal(kind: &'static str, error: &watcher::Error) -> Option<String> {
    match judge(kind, error) {
        (Cause::Forbidden(_) | Cause::UnknownKind(_), said) => Some(said),
        (Cause::Refused(_) | Cause::Unreachable, _) => None,
    }
}

fn over(told: Option<Told>) {
    if let Some(Told { lasted, failures, .. }) = told {
        info!(failures, "the watches work again, after {}", Spelled(lasted));
    }
}

/// The kind of the failure, and a text that states what to do. The text does not change between retries.
pub fn judge(kind: &'static str, error: &watcher::Error) -> (Cause, String) {
    match status(error) {
        Some(status) if status.code == 403 => (
            Cause::Forbidden(kind),
            format!(
                "{}. Create a Role or ClusterRole with the verbs list and watch on {kind}, see config/rbac",
                status.message
            ),
        ),
        Some(status) if status.code == 404 => (
            Cause::UnknownKind(kind),
            format!(
                "the API server does not know the kind. Install the CustomResourceDefinitions that `headgate \
                 crd` prints, which include {kind}"
            ),
        ),
        Some(status) => (
            Cause::Refused(status.code),
            format!("the API server returns {}: {}", status.code, status.message),
        ),
        None => (
            Cause::Unreachable,
            format!(
                "the API server is unreachable or does not answer ({}); targets remain unchanged",
                innermost(error)
            ),
        ),
    }
}

fn status(error: &watcher::Error) -> Option<&Status> {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchFailed(kube::Error::Api(status))
        | watcher::Error::WatchError(status) => Some(status),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use headgate_core::{Reason, leadership::ability::Trouble};
    use serde_json::json;

    use super::*;

    fn answered(code: u16, message: &str) -> watcher::Error {
        let status = json!({"status": "Failure", "code": code, "message": message});
        watcher::Error::InitialListFailed(kube::Error::Api(serde_json::from_value(status).unwrap()))
    }

    #[test]
    fn what_was_expected_is_said_for_each_cause() {
        let said = |error: &watcher::Error| judge("targetbindings", error).1;
        assert!(said(&answered(403, "no")).contains("verbs list and watch on targetbindings"));
        assert!(said(&answered(404, "404 page not found")).contains("`headgate crd`"));
        assert!(said(&answered(500, "etcd is away")).contains("returns 500: etcd is away"));
        let cut = kube::Error::Service("connection refused".into());
        assert!(said(&watcher::Error::InitialListFailed(cut)).contains("is unreachable"));
        let refused = |code| refusal("targetgroupgrants", &answered(code, "no")).is_some();
        assert!(refused(403) && refused(404) && !refused(500) && !refused(429) && !refused(410));
        assert!(is_too_old(&answered(410, "too old")) && !is_too_old(&answered(403, "no")));
    }

    #[test]
    fn a_watch_that_fails_again_and_again_keeps_a_leader_from_leading_but_no_refusal_does() {
        let at = |second| Moment::after_start(std::time::Duration::from_secs(second));
        let troubles = Troubles::default();
        let failures = WatchFailures::new(troubles.clone());
        let (a, b) = (Scope::Namespace("a".into()), Scope::Namespace("b".into()));
        for second in [0, 2, 5, 10] {
            failures.failed("pods", &a, &answered(403, "no"), at(second));
            failures.failed("targetbindings", &a, &answered(404, "404 page not found"), at(second));
        }
        assert_eq!(troubles.present(at(10)), None);
        (0..=10).for_each(|second| failures.failed("pods", &b, &answered(503, "oh"), at(second)));
        assert_eq!(troubles.present(at(10)).map(Trouble::reason), Some(Reason::WatchesFail));
        failures.works("pods", &a, at(10), at(10));
        assert!(troubles.present(at(10)).is_some(), "that is another watch");
        failures.works("pods", &b, at(10), at(10));
        assert_eq!(troubles.present(at(10)), None);
    }

    #[test]
    fn a_watch_has_one_trouble_at_a_time_and_none_is_over_while_another_watch_has_it() {
        let failures = WatchFailures::default();
        let troubles = |failures: &WatchFailures| {
            let all = failures.all.lock().unwrap();
            all.values().filter(|failing| failing.outage.since().is_some()).count()
        };
        let (a, b) = (Scope::Namespace("a".into()), Scope::Namespace("b".into()));
        failures.failed("pods", &a, &answered(403, "no"), Moment::START);
        failures.failed("pods", &b, &answered(403, "no"), Moment::START);
        assert_eq!(troubles(&failures), 1);
        failures.works("pods", &a, Moment::START, Moment::START);
        assert_eq!(troubles(&failures), 1);
        failures.failed("pods", &b, &answered(500, "oh"), Moment::START);
        assert_eq!(troubles(&failures), 1, "the other is over");
        failures.works("pods", &b, Moment::START, Moment::START);
        assert_eq!(troubles(&failures), 0);
    }
}
