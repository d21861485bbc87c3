//! The leader election of `headgate run` and `headgate daemonsets`.

use std::{path::PathBuf, sync::Arc};

use headgate_core::leadership::lease::{Timing, pod_of};
use kube::Client;
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::{
    kube::{
        client, events,
        handover::Handover,
        installation::Serves,
        lease,
        proof::{self, Proofs},
        replicas::Replicas,
    },
    metrics::Metrics,
    runtime::{authority::Authority, clock::Clock, supervise::Supervisor, troubles::Troubles},
};

/// The options of the leader election.
#[derive(Clone, Debug)]
pub struct Leading {
    /// Whether replicas elect a leader with a Lease. Without an election, this replica is always the leader.
    pub elect: bool,
    /// Headgate's own namespace. The default is [`client::own_namespace`].
    pub namespace: Option<String>,
    /// The name of the Lease, which identifies the installation.
    pub lease: String,
    /// The name of this replica.
    pub identity: Arc<str>,
    /// The duration of the Lease and the interval of its renewals.
    pub timing: Timing,
    /// The path of the termination log, to which this replica writes its identity for the kubelet.
    pub termination_log: PathBuf,
}

/// The data that a replica needs for the election.
pub struct Candidate {
    /// The client for all requests that do not concern the Lease.
    pub client: Client,
    /// The clock.
    pub clock: Clock,
    /// The metrics.
    pub metrics: Arc<Metrics>,
    /// The queue of Events about a replica that cannot lead.
    pub notices: events::Sender,
    /// The failures that prevent this replica from leading.
    pub troubles: Troubles,
}

impl Leading {
    /// Headgate's own namespace.
    pub fn own_namespace(&self) -> String {
        self.namespace.clone().unwrap_or_else(client::own_namespace)
    }

    /// Starts the election, unless it is disabled. After `retired`, the election ends and releases the Lease.
    ///
    /// # Errors
    /// The Kubernetes client cannot be created.
    pub async fn elect(
        &self,
        serves: &Serves,
        candidate: Candidate,
        retired: &CancellationToken,
        tasks: &mut Supervisor,
    ) -> anyhow::Result<Authority> {
        let Candidate { client: shared, clock, metrics, notices, troubles } = candidate;
        if !self.elect {
            info!("always leading, without a Lease");
            return Ok(Authority::alone(clock));
        }
        let (reports, authority) = Authority::new(clock);
        // A separate client, so that no other request delays a renewal.
        let client = client::connect().await?;
        let own_namespace = self.own_namespace();
        // The proof must be written before another replica can see this replica as the holder of the Lease.
        proof::leave(&self.identity, &self.termination_log);
        let proofs = Proofs::new(shared.clone(), &own_namespace, clock, metrics.clone());
        let replicas = Replicas::new(shared, &own_namespace, pod_of(&self.identity));
        let handover = Handover::new(troubles, replicas, notices, metrics.clone());
        let lease = lease::Options {
            name: self.lease.clone(),
            namespace: own_namespace,
            identity: self.identity.clone(),
            timing: self.timing,
            serves: serves.to_string(),
        };
        let election = lease::Election::new(client, lease, handover, clock, reports, metrics);
        tasks.spawn_draining("lease", election.run(proofs, retired.clone()));
        Ok(authority)
    }
}
