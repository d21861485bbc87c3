//! Writes the readiness gate's condition to the status of pods.
//!
//! A strategic merge patch does not change other conditions. The patch contains the pod's UID, so the API server
//! rejects the patch (422) if a new pod has the same name.

use std::time::{Duration, SystemTime};

use headgate_core::{
    Failure,
    model::{gate::GateWrite, readiness::OWN_GATE},
};
use k8s_openapi::{api::core::v1::Pod, jiff::Timestamp};
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
    core::PartialObjectMeta,
};
use serde_json::{Value, json};

use crate::{kube::failure, runtime::clock::Clock};

/// Writes conditions to the pods of a cluster.
#[derive(Clone)]
pub struct Pods {
    client: Client,
    clock: Clock,
}

impl Pods {
    /// Creates a writer for the pods of a cluster.
    pub fn new(client: Client, clock: Clock) -> Self {
        Self { client, clock }
    }

    /// Writes the readiness gate's condition to a pod.
    pub async fn write(&self, write: &GateWrite) -> Result<(), Failure> {
        // Only the success of the request matters, so the returned pod is not parsed.
        let api: Api<PartialObjectMeta<Pod>> = Api::namespaced(self.client.clone(), &write.pod.namespace);
        let patch = Patch::Strategic(patch(write, SystemTime::now(), self.clock.since(write.since)));
        let params = PatchParams::default();
        let written = api.patch_subresource("status", &write.pod.name, &params, &patch).await;
        written.map(|_| ()).map_err(|error| failure::of(&error))
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
        "reason": condition.reason.reason().as_str(),
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
    use super::*;
    use headgate_core::{
        Cause, Moment,
        model::{
            gate::Condition,
            object::{ObjectKey, Uid},
        },
    };

    fn write(open: bool, turns: bool) -> GateWrite {
        GateWrite {
            pod: ObjectKey::new("shop", "a"),
            uid: Uid::new("u-1"),
            condition: Condition { open, turns, reason: Cause::TargetInitial, message: "why".into() },
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
                "type": "headgate.dev/target-health", "status": "False", "reason": "TargetPending",
                "message": "why (since 2027-01-15T08:00:00Z)", "lastProbeTime": "2027-01-15T08:01:00Z",
            }]}})
        );
        let open = &patch(&write(true, true), now, Duration::ZERO)["status"]["conditions"][0];
        assert_eq!((&open["status"], &open["message"]), (&json!("True"), &json!("why")));
        assert_eq!(open["lastTransitionTime"], "2027-01-15T08:01:00Z");
    }
}
