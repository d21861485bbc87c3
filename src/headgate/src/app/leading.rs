//! How a replica becomes the leader, of `headgate run` and of `headgate daemonsets`.

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

/// What is reported about it.
#[derive(Clone, Debug)]
pub struct Leading {
    /// By holding a Lease; if there is none, this replica always leads.
    pub elect: bool,
    /// Headgate's own namespace; none: [`client::own_namespace`].
    pub namespace: Option<String>,
    /// The name of the Lease, which is the installation's.
    pub lease: String,
    /// How this replica calls itself.
    pub identity: Arc<str>,
    /// How long the Lease lasts.
    pub timing: Timing,
    /// The file that has this replica's identity, for the kubelet.
    pub termination_log: PathBuf,
}

/// What a replica has when it stands for election.
pub struct Candidate {
    /// For every request except those for the Lease.
    pub client: Client,
    /// Its time.
    pub clock: Clock,
    /// What it counts.
    pub metrics: Arc<Metrics>,
    /// Receives the reports that this replica cannot lead.
    pub notices: events::Sender,
    /// What keeps it from leading.
    pub troubles: Troubles,
}

impl Leading {
    /// Headgate's own namespace.
    pub fn own_namespace(&self) -> String {
        self.namespace.clone().unwrap_or_else(client::own_namespace)
    }

    /// Starts the election, if there is one. It ends after `retired`, and then gives the Lease back.
    ///
    /// # Errors
    /// If it has no client.
    pub async fn elect(
        &self,
        serves: &Serves,
        candidate: Candidate,
        retired: &CancellationToken,
        tasks: &mut Supervisor,
    ) -> anyhow::Result<Authority> {
        let Candidate { client: shared, clock, metrics, notices, troubles } = candidate;
        if !self.elect {
            info!("always leading, without a lease");
            return Ok(Authority::alone(clock));
        }
        let (tell, authority) = Authority::new(clock);
        // Its own client: no other request delays a renewal.
        let client = client::connect().await?;
        let own_namespace = self.own_namespace();
        // Before anybody can see this replica hold the Lease.
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
        let election = lease::Election::new(client, lease, handover, clock, tell, metrics);
        tasks.spawn_draining("lease", election.run(proofs, retired.clone()));
        Ok(authority)
    }
}
