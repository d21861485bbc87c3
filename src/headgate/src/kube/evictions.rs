//! Annotates pods that are being evicted, evicts pods, and checks whether PodDisruptionBudgets allow an eviction.
//!
//! Headgate writes annotations as a merge patch that contains the pod's UID. If a new pod with the same name exists,
//! the API server rejects the patch. The check requests the eviction as a dry run, which changes and reserves nothing.
//! The dry run also contains the UID.

use std::time::Duration;

use headgate_core::{
    Failure,
    model::{
        eviction::{Budget, Check, Checked},
        leaving::Mark,
        object::{Labels, ObjectKey, Uid},
    },
};
use k8s_openapi::api::{core::v1::Pod, policy::v1::PodDisruptionBudget};
use kube::{
    Api, Client,
    api::{ListParams, Patch, PatchParams},
    core::{PartialObjectMeta, Selector, SelectorExt, Status},
};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{failure, marks};
use crate::redact::redacted;

/// The timeout of an eviction, which includes the time for webhooks.
const PATIENCE: Duration = Duration::from_secs(10);
/// Sends requests about evictions to the API server.
#[derive(Clone)]
pub struct Evictions {
    client: Client,
}

impl Evictions {
    /// Creates a sender for the pods of a cluster.
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    /// Writes the annotations of `mark` to a pod.
    pub async fn mark(&self, pod: &ObjectKey, uid: &Uid, mark: Mark) -> Result<(), Failure> {
        let api: Api<PartialObjectMeta<Pod>> = Api::namespaced(self.client.clone(), &pod.namespace);
        let patch = json!({
            "metadata": {"uid": uid.as_str(), "annotations": marks::annotations(uid, mark)},
        });
        let written = api.patch(&pod.name, &PatchParams::default(), &Patch::Merge(&patch)).await;
        written.map(|_| ()).map_err(|error| failure::of(&error))
    }

    /// Checks whether a pod may be evicted.
    pub async fn check(&self, check: &Check) -> Result<Checked, Failure> {
        let refused = self.post(&check.pod, &check.uid, true).await.err();
        let refused = refused.map(|error| refusal(&error)).transpose()?;
        if refused.is_some() && !check.passed_over {
            return Ok(Checked { refused, budgets: Vec::new() });
        }
        let api: Api<PodDisruptionBudget> = Api::namespaced(self.client.clone(), &check.pod.namespace);
        let budgets = api.list(&ListParams::default()).await.map_err(|error| failure::of(&error))?;
        Ok(checked(&budgets.items, refused, check))
    }

    /// Evicts a pod, or requests a dry run. If the eviction must wait, returns the rejecting program's message and when
    /// to retry. A pod that does not exist counts as evicted.
    pub async fn evict(
        &self,
        pod: &ObjectKey,
        uid: &Uid,
        dry_run: bool,
    ) -> kube::Result<Option<(String, Duration)>> {
        let posted = match timeout(PATIENCE, self.post(pod, uid, dry_run)).await {
            Ok(answer) => answer,
            Err(_) => Err(kube::Error::Service(format!("no answer within {PATIENCE:?}").into())),
        };
        match posted {
            Ok(_) => Ok(None),
            Err(kube::Error::Api(status)) if failure::is_gone(&status) => Ok(None),
            Err(kube::Error::Api(status)) if status.code == 429 => {
                let seconds = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
                let retry = Duration::from_secs(u64::from(seconds).max(1));
                Ok(Some((words(&status).to_owned(), retry)))
            }
            // If a webhook with `failurePolicy: Fail` did not answer, the error contains the webhook's URL.
            Err(error) => Err(kube::Error::Service(redacted(&error.to_string()).into())),
        }
    }

    /// Evicts a pod.
    ///
    /// # Errors
    /// The eviction is rejected or times out.
    pub async fn ask(&self, pod: &ObjectKey, uid: &Uid) -> kube::Result<()> {
        self.post(pod, uid, false).await.map(|_| ())
    }

    /// Headgate does not use `Api::evict`, because kube sends the options under an unknown name and thus without the
    /// UID.
    async fn post(&self, pod: &ObjectKey, uid: &Uid, dry_run: bool) -> kube::Result<Value> {
        let (namespace, name) = (&*pod.namespace, &*pod.name);
        let body = json!({
            "apiVersion": "policy/v1", "kind": "Eviction",
            "metadata": {"namespace": namespace, "name": name},
            "deleteOptions": {
                "dryRun": if dry_run { json!(["All"]) } else { Value::Null },
                "preconditions": {"uid": uid.as_str()},
            },
        });
        let query = if dry_run { "?dryRun=All" } else { "" };
        let path = format!("/api/v1/namespaces/{namespace}/pods/{name}/eviction{query}");
        let request = hyper::Request::post(path)
            .header(hyper::header::CONTENT_TYPE, "application/json")
            .body(body.to_string().into_bytes())
            .map_err(|error| kube::Error::Service(error.into()))?;
        self.client.request(request).await
    }
}

/// The message with which a PodDisruptionBudget rejects an eviction.
///
/// # Errors
/// The eviction is rejected for another reason or times out.
fn refusal(error: &kube::Error) -> Result<Box<str>, Failure> {
    if let kube::Error::Api(status) = error {
        let mut causes = status.details.iter().flat_map(|details| &details.causes);
        if status.code == 429 && causes.any(|cause| cause.reason == "DisruptionBudget") {
            return Ok(words(status).into());
        }
    }
    let failure = failure::of(error);
    Err(Failure { message: redacted(&failure.message).into(), ..failure })
}

/// The message of the first cause of a rejection, or the message of the status if there is no cause.
pub fn words(status: &Status) -> &str {
    let mut causes = status.details.iter().flat_map(|details| &details.causes);
    causes.find(|cause| !cause.message.is_empty()).map_or(&*status.message, |cause| &*cause.message)
}

/// Combines all budgets with the result of the dry run. Kubernetes cannot compute some budgets, for example
/// `maxUnavailable` for the pods of a DaemonSet. Budgets that cannot be computed reject every eviction, so they count
/// only for pods that are evicted.
fn checked(budgets: &[PodDisruptionBudget], refused: Option<Box<str>>, check: &Check) -> Checked {
    let about = budgets.iter().filter_map(|budget| Some((budget, told(budget, check)?)));
    let (uncomputed, computed): (Vec<_>, Vec<_>) = about.partition(|(budget, _)| is_uncomputed(budget));
    let is_excused = check.passed_over && !uncomputed.is_empty();
    let counted = if is_excused { computed } else { uncomputed.into_iter().chain(computed).collect() };
    let budgets = counted.into_iter().map(|(_, budget)| budget).collect();
    Checked { refused: refused.filter(|_| !is_excused), budgets }
}

/// Whether Kubernetes cannot compute a budget (condition `DisruptionAllowed` is false with reason `SyncFailed`).
fn is_uncomputed(budget: &PodDisruptionBudget) -> bool {
    let conditions = budget.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().any(|condition| {
        condition.type_ == "DisruptionAllowed"
            && condition.status == "False"
            && condition.reason == "SyncFailed"
    })
}

/// The number of disruptions that a budget allows, if the budget selects the pod.
fn told(budget: &PodDisruptionBudget, check: &Check) -> Option<Budget> {
    let selector: Selector = budget.spec.as_ref()?.selector.clone()?.try_into().ok()?;
    let selects = |labels: &Labels| {
        let labels = labels.pairs().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        selector.matches(&labels)
    };
    selects(&check.labels).then(|| Budget {
        name: budget.metadata.name.clone().unwrap_or_default().into(),
        allowed: budget
            .status
            .as_ref()
            .map_or(0, |status| usize::try_from(status.disruptions_allowed).unwrap_or_default()),
        departing: check.departing.iter().filter(|labels| selects(labels)).count(),
    })
}

#[cfg(test)]
mod tests {
    use headgate_core::FailureClass;

    use super::*;

    fn error(status: Value) -> kube::Error {
        kube::Error::Api(Box::new(serde_json::from_value(status).unwrap()))
    }

    #[test]
    fn a_budget_that_refuses_is_told_from_a_server_that_is_busy_and_a_pod_that_is_gone() {
        let by_budget = error(json!({
            "status": "Failure", "code": 429, "message": "Cannot evict pod",
            "details": {"causes": [{"reason": "DisruptionBudget", "message": "web needs 3 healthy pods"}]},
        }));
        assert_eq!(refusal(&by_budget), Ok("web needs 3 healthy pods".into()));
        let busy = error(json!({"status": "Failure", "code": 429, "message": "too many requests"}));
        assert_eq!(refusal(&busy).unwrap_err().class, FailureClass::Throttled);
        let two =
            error(json!({"status": "Failure", "code": 500, "message": "more than one PodDisruptionBudget"}));
        assert!(refusal(&two).unwrap_err().message.contains("more than one"));
        for gone in [
            json!({"status": "Failure", "code": 404, "message": "pods \"a\" not found"}),
            json!({"status": "Failure", "code": 409, "message": "the UID in the precondition (x) does not match"}),
        ] {
            assert_eq!(refusal(&error(gone)).unwrap_err().class, FailureClass::Gone);
        }
    }

    #[test]
    fn a_budget_is_about_the_pods_that_its_selector_matches_by_pairs_and_by_expressions() {
        let check = Check {
            pod: ObjectKey::new("shop", "a"),
            uid: Uid::new("u-1"),
            labels: Labels::from_iter([("app", "web"), ("tier", "front")]),
            departing: vec![Labels::from_iter([("app", "web")]), Labels::from_iter([("app", "db")])],
            passed_over: false,
        };
        let budget = |selector: Value| -> PodDisruptionBudget {
            serde_json::from_value(json!({
                "metadata": {"name": "web"}, "spec": {"selector": selector},
                "status": {"disruptionsAllowed": 2, "currentHealthy": 3, "desiredHealthy": 1, "expectedPods": 3},
            }))
            .unwrap()
        };
        let is = |departing| Some(Budget { name: "web".into(), allowed: 2, departing });
        assert_eq!(told(&budget(json!({"matchLabels": {"app": "web"}})), &check), is(1));
        let expression =
            json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "db"]}]});
        assert_eq!(told(&budget(expression), &check), is(2));
        assert_eq!(told(&budget(json!({})), &check), is(2), "an empty selector matches all");
        assert_eq!(told(&budget(json!({"matchLabels": {"app": "db"}})), &check), None);
        assert_eq!(told(&budget(Value::Null), &check), None, "none matches nothing");
    }
    #[test]
    fn a_budget_that_cannot_be_computed_holds_up_nobody_whom_nobody_evicts() {
        let check = |passed_over| Check {
            pod: ObjectKey::new("shop", "a"),
            uid: Uid::new("u-1"),
            labels: Labels::from_iter([("app", "web")]),
            departing: vec![],
            passed_over,
        };
        let budget = |name: &str, allowed: u8, reason: &str| -> PodDisruptionBudget {
            let condition = json!({"type": "DisruptionAllowed", "reason": reason, "message": "", "lastTransitionTime": "2026-01-02T03:04:05Z",
                "status": if allowed > 0 { "True" } else { "False" }});
            serde_json::from_value(json!({
                "metadata": {"name": name}, "spec": {"selector": {"matchLabels": {"app": "web"}}},
                "status": {"disruptionsAllowed": allowed, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0,
                    "conditions": [condition]},
            }))
            .unwrap()
        };
        let fails = budget("fails", 0, "SyncFailed");
        let (full, open) = (budget("full", 0, "InsufficientPods"), budget("open", 1, "SufficientPods"));
        let refused = || Some(Box::from("no"));
        let says = |budgets: &[&PodDisruptionBudget], refused, passed_over| {
            let budgets: Vec<PodDisruptionBudget> = budgets.iter().map(|budget| (*budget).clone()).collect();
            let Checked { refused, budgets } = checked(&budgets, refused, &check(passed_over));
            (refused.is_some(), budgets.iter().map(|budget| budget.name.to_string()).collect::<Vec<_>>())
        };
        assert_eq!(says(&[&fails], refused(), true), (false, vec![]));
        assert_eq!(says(&[&fails], refused(), false), (true, vec!["fails".into()]));
        assert_eq!(
            says(&[&fails, &full], refused(), true),
            (false, vec!["full".into()]),
            "which allows none"
        );
        assert_eq!(says(&[&full], refused(), true), (true, vec!["full".into()]));
        assert_eq!(says(&[&open], None, true), (false, vec!["open".into()]));
        assert_eq!(says(&[], refused(), true), (true, vec![]), "somebody else refuses it");
    }
}
