//! Replaces one set of pods by another as a whole, like Argo Rollouts with `blueGreen`: both sets exist, the selector
//! of the Service or TargetBinding moves, and the first set is scaled down later.

use std::time::Duration;

use headgate_core::model::policy::HOLD;
use headgate_harness::{bindings, recorder::APP, wait};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Service};
use serde_json::json;

use super::{
    Place, REPLICAS, Stage,
    workload::{FIRST, SLOT, deployment, is_true},
};

/// The name of the new set.
const SECOND: &str = "green";

impl Stage {
    /// Creates a second set, and waits until it is ready. Moves the Service or TargetBinding to it, and scales the
    /// first set down after this time.
    pub async fn swap(&self, delay: Duration) {
        self.select(FIRST).await;
        let name = format!("{APP}-{SECOND}");
        let mut second = deployment(self.care, self.facts.nodes);
        second["metadata"]["name"] = name.as_str().into();
        second["spec"]["selector"]["matchLabels"][SLOT] = SECOND.into();
        second["spec"]["template"]["metadata"]["labels"][SLOT] = SECOND.into();
        if let Some(hold) = self.care.hold() {
            // They have no binding yet that would set it.
            second["spec"]["template"]["metadata"]["annotations"] = json!({HOLD: format!("{hold}s")});
        }
        self.cluster.create::<Deployment>(second).await;
        let wanted = 2 * usize::try_from(REPLICAS).expect("a few");
        // The new pods have no binding yet, so their gates open only when that is certain.
        wait::within(self.patience, "both sets are ready", || async {
            let ready = self.list().await.iter().filter(|pod| is_true(pod, "Ready")).count();
            if ready == wanted { Ok(()) } else { Err(format!("{ready} of {wanted}")) }
        })
        .await;
        self.select(SECOND).await;
        tokio::time::sleep(delay).await;
        self.scale(0).await;
    }

    async fn select(&self, slot: &str) {
        match self.place {
            Place::ByBinding => {
                let pods = json!({"spec": {"podSelector": {"matchLabels": {SLOT: slot}}}});
                bindings::change(&self.cluster, APP, &pods).await;
            }
            _ => self.cluster.patch::<Service>(APP, &json!({"spec": {"selector": {SLOT: slot}}})).await,
        }
    }
}
