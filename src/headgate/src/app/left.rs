//! Opens readiness gates in namespaces that Headgate no longer manages, because `--namespaces` or
//! `--namespace-selector` changed. Without this task, pods in namespaces that are no longer managed would never become
//! ready.
//!
//! The Lease records the namespaces that earlier holders managed, until this task is complete. The leader opens the
//! gates if it has permission. If the leader has no permission, it logs what to do and retries every ten minutes. The
//! task never closes a gate and changes no target. The engine itself does not open gates in a namespace that it never
//! saw as selected, because another installation may manage the namespace.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client, ResourceExt, api::PostParams};
use tokio::time::sleep;
use tracing::{info, warn};

use super::gates;
use crate::kube::installation::{Left, SERVED_BEFORE, Serves};

/// The interval between checks whether this replica is the leader.
const LOOK: Duration = Duration::from_secs(2);
/// The time before a rejected request is retried.
const AGAIN: Duration = Duration::from_secs(600);

/// Opens the gates in namespaces that Headgate no longer manages.
pub struct Leaver<L> {
    /// The API server.
    pub client: Client,
    /// Headgate's own namespace.
    pub own_namespace: String,
    /// The name of Headgate's Lease.
    pub lease: String,
    /// The managed namespaces.
    pub serves: Serves,
    /// Whether this replica is the leader.
    pub leads: L,
}

impl<L: Fn() -> bool> Leaver<L> {
    /// Runs until the program stops.
    pub async fn run(self) -> Result<(), String> {
        loop {
            while !(self.leads)() {
                sleep(LOOK).await;
            }
            match self.once().await {
                Ok(()) => {
                    while (self.leads)() {
                        sleep(LOOK).await;
                    }
                }
                Err(why) => {
                    warn!("{why}");
                    sleep(AGAIN).await;
                }
            }
        }
    }

    async fn once(&self) -> Result<(), String> {
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), &self.own_namespace);
        let failed = |error: kube::Error| format!("cannot read or write the Lease: {error}");
        let Some(lease) = leases.get_opt(&self.lease).await.map_err(failed)? else { return Ok(()) };
        let Some(before) = lease.annotations().get(SERVED_BEFORE).cloned() else { return Ok(()) };
        for before in before.split("; ") {
            let Some(left) = Serves::read(before).and_then(|before| before.left_by(&self.serves)) else {
                continue;
            };
            // With a namespace selector, Headgate still watches pods in deselected namespaces and deregisters their
            // targets.
            let stay = match self.serves.selector {
                None => format!("; healthy targets of {left} remain until they are unhealthy"),
                Some(_) => String::new(),
            };
            self.open(&left).await.map_err(|error| {
                format!(
                    "this Headgate managed {before} before and manages {} now, and closed readiness gates of \
                     pods in {left} remain closed ({error:#}). Ask somebody who may list pods and patch \
                     pods/status there to run `headgate uninstall --only-gates{}`{stay}",
                    self.serves,
                    left.flag()
                )
            })?;
        }
        // The leader updates the Lease continuously, so a write may conflict.
        loop {
            let Some(mut lease) = leases.get_opt(&self.lease).await.map_err(failed)? else { return Ok(()) };
            if lease.annotations_mut().remove(SERVED_BEFORE).is_none() || !(self.leads)() {
                return Ok(());
            }
            match leases.replace(&self.lease, &PostParams::default(), &lease).await {
                Ok(_) => return Ok(()),
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                Err(error) => return Err(failed(error)),
            }
        }
    }

    async fn open(&self, left: &Left) -> anyhow::Result<()> {
        let mut said = Vec::new();
        let named = left.names(&self.client).await?;
        let but = left.but(&self.client).await?;
        let opened = gates::open(&self.client, named.as_deref(), &but, &mut said).await;
        for line in String::from_utf8_lossy(&said).lines() {
            info!(%left, "no longer managed: {line}");
        }
        opened
    }
}
