//! Writes the condition of readiness gates into the status of pods.
//!
//! A strategic merge patch: it leaves the conditions of others alone. It carries the pod's UID, so that a pod which has
//! got the name since is refused (422) and never written to.

use std::{
    future::Future,
    time::{Duration, SystemTime},
};

use headgate_core::{
    gate::{GateFailure, GateWrite},
    model::readiness::OWN_GATE,
};
use k8s_openapi::{api::core::v1::Pod, jiff::Timestamp};
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
    core::PartialObjectMeta,
};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::{kube::words::plain, runtime::clock::Clock};

/// A write is given up after this time.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);

/// Where the pods are.
#[derive(Clone)]
pub struct Pods {
    client: Client,
    clock: Clock,
}

impl Pods {
    /// The pods of this cluster.
    pub fn new(client: Client, clock: Clock) -> Self {
        Self { client, clock }
    }

    /// Writes a condition.
    pub async fn write(&self, write: &GateWrite) -> Result<(), GateFailure> {
        // Only whether it succeeds counts, not what the pod looks like then.
        let api: Api<PartialObjectMeta<Pod>> = Api::namespaced(self.client.clone(), &write.pod.namespace);
        let patch = Patch::Strategic(patch(write, SystemTime::now(), self.clock.since(write.since)));
        let params = PatchParams::default();
        give_up(api.patch_subresource("status", &write.pod.name, &params, &patch)).await
    }
}

async fn give_up<T>(request: impl Future<Output = kube::Result<T>>) -> Result<(), GateFailure> {
    match timeout(WRITE_TIMEOUT, request).await {
        Ok(answer) => answer.map(|_| ()).map_err(|error| classify(&error)),
        Err(_) => Err(GateFailure::Unavailable(format!("no answer within {WRITE_TIMEOUT:?}").into())),
    }
}

/// How a refusal is to be taken. A pod of another UID is answered with 422 "field is immutable".
fn classify(error: &kube::Error) -> GateFailure {
    match error {
        kube::Error::Api(status) if status.code == 404 => GateFailure::Gone,
        kube::Error::Api(status) if status.code == 422 && status.message.contains("metadata.uid") => {
            GateFailure::Gone
        }
        // An admission policy may refuse it in many ways; none of them passes soon. That too many others have written to
        // the pod just now (409) or ask for too much (429) does.
        kube::Error::Api(status)
            if (400..500).contains(&status.code) && ![409, 429].contains(&status.code) =>
        {
            GateFailure::Denied(status.message.clone().into())
        }
        error => GateFailure::Unavailable(plain(error).into()),
    }
}

fn patch(write: &GateWrite, now: SystemTime, held: Duration) -> Value {
    let condition = &write.condition;
    let second = |at: SystemTime| {
        let at = Timestamp::try_from(at).unwrap_or_default();
        Timestamp::from_second(at.as_second()).unwrap_or_default().to_string()
    };
    let message = if condition.open {
        condition.message.clone()
    } else {
        format!("{} (since {})", condition.message, second(now.checked_sub(held).unwrap_or(now)))
    };
    let mut written = json!({
        "type": OWN_GATE,
        "status": if condition.open { "True" } else { "False" },
        "reason": condition.reason.as_str(),
        "message": message,
        "lastProbeTime": second(now),
    });
    if condition.turns {
        written["lastTransitionTime"] = json!(second(now));
    }
    json!({ "metadata": { "uid": write.uid.as_str() }, "status": { "conditions": [written] } })
}

#[cfg(test)]
mod tests {
    use headgate_core::{
        CallId, Moment, Reason,
        gate::Condition,
        model::object::{ObjectKey, Uid},
    };
    use kube::core::Status;

    use super::*;

    fn write(open: bool, turns: bool) -> GateWrite {
        GateWrite {
            id: CallId(1),
            pod: ObjectKey::new("shop", "a"),
            uid: Uid::new("u-1"),
            condition: Condition { open, turns, reason: Reason::TargetInitial, message: "why".into() },
            since: Moment::START,
        }
    }

    #[test]
    fn a_patch_carries_the_uid_and_one_condition_and_says_since_when_a_gate_is_closed() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_millis(1_800_000_060_400);
        let closed = patch(&write(false, false), now, Duration::from_secs(60));
        assert_eq!(
            closed,
            json!({"metadata": {"uid": "u-1"}, "status": {"conditions": [{
                "type": "headgate.dev/target-health", "status": "False", "reason": "TargetInitial",
                "message": "why (since 2027-01-15T08:00:00Z)", "lastProbeTime": "2027-01-15T08:01:00Z",
            }]}})
        );
        let open = &patch(&write(true, true), now, Duration::ZERO)["status"]["conditions"][0];
        assert_eq!((&open["status"], &open["message"]), (&json!("True"), &json!("why")));
        assert_eq!(open["lastTransitionTime"], "2027-01-15T08:01:00Z");
    }

    #[test]
    fn a_refusal_says_whether_the_pod_is_gone_or_we_may_not_or_it_may_pass() {
        let told = |code, message: &str| {
            let status = Status { code, message: message.into(), ..Status::default() };
            classify(&kube::Error::Api(Box::new(status)))
        };
        assert_eq!(told(404, "pods \"a\" not found"), GateFailure::Gone);
        assert_eq!(
            told(422, "Pod \"a\" is invalid: metadata.uid: Invalid value: \"u-1\": field is immutable"),
            GateFailure::Gone
        );
        assert!(
            matches!(told(403, "pods \"a\" is forbidden"), GateFailure::Denied(why) if why.contains("forbidden"))
        );
        assert!(matches!(told(422, "status.conditions: invalid"), GateFailure::Denied(_)));
        for code in [409, 429, 500, 503] {
            assert!(matches!(told(code, "later"), GateFailure::Unavailable(_)), "{code}");
        }
    }
}
