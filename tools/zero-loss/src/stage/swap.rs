//! One set of pods takes the place of another as a whole, as Argo Rollouts does it for `blueGreen`: both are there, the
//! selector of the Service, or of the TargetBinding, moves, and the first is scaled down a while after.

use std::time::Duration;

use headgate_core::model::policy::HOLD;
use headgate_harness::{bindings, recorder::APP, wait};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Service};
use serde_json::json;

use super::{
    Place, REPLICAS, Stage,
    workload::{FIRST, SLOT, deployment, is_true},
};

/// The set that comes.
const SECOND: &str = "green";

impl Stage {
    /// Makes a second set, and waits until it is ready; moves the Service or TargetBinding to it; scales the first down after this time.
    pub async fn swap(&self, delay: Duration) {
        self.select(FIRST).await;
        let name = format!("{APP}-{SECOND}");
        let mut second = deployment(self.care, self.facts.nodes);
        second["metadata"]["name"] = name.as_str().into();
        second["spec"]["selector"]["matchLabels"][SLOT] = SECOND.into();
        second["spec"]["template"]["metadata"]["labels"][SLOT] = SECOND.into();
        if let Some(hold) = self.care.hold() {
            // Nothing binds them yet that would say so.
            second["spec"]["template"]["metadata"]["annotations"] = json!({HOLD: format!("{hold}s")});
        }
        self.cluster.create::<Deployment>(second).await;
        let wanted = 2 * usize::try_from(REPLICAS).expect("a few");
        // Nothing binds the new ones yet, so their gates open only when that is certain.
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
