//! The task of one node: registration, Lease and status.
//!
//! The heartbeat prevents the node lifecycle controller from marking the node as unreachable. The heartbeat renews the
//! Lease in `kube-node-lease` every 10 s. The duration of the Lease is 40 s. The heartbeat posts the status after each
//! change, and at least every 5 minutes. All values are the kubelet's defaults, in real seconds.
//!
//! The heartbeat never deletes or taints a node. Like a kubelet, the heartbeat never recreates a deleted Node. The
//! heartbeat retries failures with the next beat, or sooner while the node is not registered. The heartbeat follows the
//! switch of the node. While the node is lost, the heartbeat sends nothing. The heartbeat reports each change
//! immediately, and switches the node off at the end of the shutdown time.

use crate::clock::Moment;
use crate::node::object::{Health, Node};
use crate::node::state::{Power, Switch};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, Time};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

/// The interval between two renewals of the Lease, and between two checks of the Node.
const BEAT: Duration = Duration::from_secs(10);
/// The duration of the Lease in seconds (`nodeLeaseDurationSeconds`).
const LEASE_SECONDS: i32 = 40;
/// The maximum interval between two status updates (`nodeStatusReportFrequency`).
const REPORT: Duration = Duration::from_mins(5);
/// The pause between two attempts to register the node.
const REGISTER_RETRY: Duration = Duration::from_millis(500);
const LIMIT: Duration = Duration::from_secs(8);

/// The heartbeat of one node.
pub struct Heartbeat {
    node: Node,
    nodes: Api<core::Node>,
    leases: Api<Lease>,
    switch: Switch,
    /// The last reported health.
    said: Health,
    /// The time since which the conditions report this health.
    since: Time,
    reported: Option<Instant>,
}

impl Heartbeat {
    /// Creates a heartbeat that has not started yet.
    pub fn new(node: Node, switch: Switch, client: Client) -> Self {
        let nodes = Api::all(client.clone());
        let leases = Api::namespaced(client, "kube-node-lease");
        let since = Moment::now().timestamp();
        Self { node, nodes, leases, switch, said: Health::Good, since, reported: None }
    }

    /// Registers the node, notifies `registered`, and sends heartbeats until `shutdown`.
    pub async fn run(mut self, registered: oneshot::Sender<()>, shutdown: CancellationToken) {
        let mut registered = Some(registered);
        while registered.is_some() {
            match self.register().await {
                Ok(()) => {
                    if let Some(registered) = registered.take() {
                        let _ = registered.send(());
                    }
                }
                Err(error) => {
                    tracing::warn!(node = self.node.name, %error, "the node is not registered yet");
                    tokio::select! {
                        () = shutdown.cancelled() => return,
                        () = tokio::time::sleep(REGISTER_RETRY) => {}
                    }
                }
            }
        }
        let mut state = self.switch.follow();
        let mut beats = tokio::time::interval(BEAT);
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let power = state.borrow_and_update().power;
            tokio::select! {
                () = shutdown.cancelled() => return,
                _ = beats.tick(), if power != Power::Off => {}
                Ok(()) = state.changed() => {}
                () = end_of(power) => {
                    tracing::info!(node = self.node.name, "the node has shut down");
                    // The call fails only if the node is already lost.
                    let _ = self.switch.lose();
                }
            }
            let now = *state.borrow();
            if now.power == Power::Off {
                continue;
            }
            let health = match now.power {
                Power::ShuttingDown { .. } => Health::ShuttingDown,
                _ if now.pressure => Health::ShortOfMemory,
                _ => Health::Good,
            };
            if let Err(error) = self.beat(health).await {
                tracing::warn!(node = self.node.name, %error, "a heartbeat failed");
            }
        }
    }

    async fn register(&mut self) -> Result<(), BeatError> {
        let object = serde_json::from_value(self.node.object())?;
        match limited(self.nodes.create(&PostParams::default(), &object)).await {
            Ok(_) => {}
            Err(BeatError::Api(kube::Error::Api(status))) if status.code == 409 => {
                let labels = json!({"metadata": {"labels": self.node.labels()}});
                let patch = Patch::Merge(labels);
                let known =
                    limited(self.nodes.patch(&self.node.name, &PatchParams::default(), &patch)).await?;
                self.since = ready_since(&known).unwrap_or_else(|| Moment::now().timestamp());
            }
            Err(error) => return Err(error),
        }
        self.report().await?;
        self.renew().await
    }

    async fn beat(&mut self, health: Health) -> Result<(), BeatError> {
        let renewed = self.renew().await;
        let node = match limited(self.nodes.get(&self.node.name)).await {
            Err(BeatError::Api(kube::Error::Api(status))) if status.code == 404 => return renewed,
            node => node?,
        };
        let ready_since = ready_since(&node);
        if health != self.said {
            (self.said, self.since) = (health, Moment::now().timestamp());
            self.reported = None;
            self.report().await?;
        } else if (health != Health::ShuttingDown && ready_since.is_none())
            || self.reported.is_none_or(|reported| reported.elapsed() >= REPORT)
        {
            self.since = ready_since.unwrap_or_else(|| Moment::now().timestamp());
            self.report().await?;
        }
        renewed
    }

    async fn report(&mut self) -> Result<(), BeatError> {
        let now = Moment::now();
        let patch = Patch::Strategic(self.node.status(self.said, &self.since, now));
        limited(self.nodes.patch_status(&self.node.name, &PatchParams::default(), &patch)).await?;
        self.reported = Some(now.instant);
        Ok(())
    }

    async fn renew(&self) -> Result<(), BeatError> {
        let lease = lease(&self.node.name, Moment::now());
        let patch = Patch::Merge(&lease);
        match limited(self.leases.patch(&self.node.name, &PatchParams::default(), &patch)).await {
            Err(BeatError::Api(kube::Error::Api(status))) if status.code == 404 => {
                let created = serde_json::from_value(lease)?;
                limited(self.leases.create(&PostParams::default(), &created)).await.map(|_| ())
            }
            renewed => renewed.map(|_| ()),
        }
    }
}

/// Returns when the shutdown of a node completes.
async fn end_of(power: Power) {
    match power {
        Power::ShuttingDown { off_at, .. } => tokio::time::sleep_until(off_at).await,
        Power::On | Power::Off => std::future::pending().await,
    }
}

/// The reason why a heartbeat failed.
#[derive(Debug, thiserror::Error)]
enum BeatError {
    #[error("the API server answered: {0}")]
    Api(#[from] kube::Error),
    #[error("the API server gave no answer within {LIMIT:?}")]
    TimedOut,
    #[error("the object cannot be built: {0}")]
    Invalid(#[from] serde_json::Error),
}

async fn limited<T>(call: impl Future<Output = kube::Result<T>>) -> Result<T, BeatError> {
    Ok(tokio::time::timeout(LIMIT, call).await.map_err(|_| BeatError::TimedOut)??)
}

fn lease(node: &str, now: Moment) -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": node, "namespace": "kube-node-lease"},
        "spec": {"holderIdentity": node, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": MicroTime(now.wall)},
    })
}

/// Returns the time at which the node became ready. `None`: the node is not ready.
fn ready_since(node: &core::Node) -> Option<Time> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    let ready =
        conditions.iter().find(|condition| condition.type_ == "Ready" && condition.status == "True")?;
    Some(ready.last_transition_time.clone().unwrap_or_else(|| Moment::now().timestamp()))
}
