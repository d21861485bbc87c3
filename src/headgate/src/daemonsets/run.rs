//! `headgate daemonsets`: connects everything and waits for the end.

use std::{net::SocketAddr, sync::Arc};

use anyhow::Context;
use headgate_core::{Scope, leadership::lease::pod_of, model::notice::Notice};
use kube::Client;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::info;

use super::{
    admin::{self, Shown},
    owner::{Owner, Statuses},
};
use crate::{
    app::run::{Leading, stop_on_signals},
    kube::{
        client, events,
        handover::Handover,
        installation::Serves,
        lease,
        proof::{self, Proofs},
        replicas::Replicas,
        watch::Following,
        watch_failures::WatchFailures,
    },
    metrics::{Metrics, SetCounts},
    runtime::{authority::Authority, clock::Clock, pulse::Pulse, supervise::Supervisor, troubles::Troubles},
    serving::listen::listen,
};

/// What `headgate daemonsets` is told.
#[derive(Clone, Debug)]
pub struct Options {
    /// In these namespaces alone; none: in all.
    pub namespaces: Vec<String>,
    /// What nodes may be annotated with.
    pub node_annotations: Vec<String>,
    /// Where probes and metrics are served.
    pub admin_address: SocketAddr,
    /// Which replica leads.
    pub leading: Leading,
}

impl Options {
    fn scopes(&self) -> Vec<Scope> {
        match &self.namespaces[..] {
            [] => vec![Scope::Cluster],
            named => named.iter().map(|name| Scope::Namespace(name.as_str().into())).collect(),
        }
    }

    fn lease(&self, own_namespace: &str) -> lease::Options {
        let serves = Serves { namespaces: self.namespaces.clone(), selector: None };
        lease::Options {
            name: self.leading.lease.clone(),
            namespace: own_namespace.to_owned(),
            identity: self.leading.identity.clone(),
            timing: self.leading.timing,
            serves: serves.to_string(),
        }
    }
}

/// Runs until SIGTERM or SIGINT.
///
/// # Errors
/// If something cannot be started, or a part of it ends by itself.
pub async fn run(options: Options) -> anyhow::Result<()> {
    let clock = Clock::start();
    let stop = CancellationToken::new();
    stop_on_signals(&stop)?;
    let address = options.admin_address;
    let said = || format!("cannot listen on {address}; expected a free address in --admin-address");
    let listener = listen(address).await.with_context(said)?;
    let client = client::connect().await?;
    let (version, at) = (env!("CARGO_PKG_VERSION"), listener.local_addr()?);
    info!(version, admin = %at, "starting");

    let mut tasks = Supervisor::new(stop.clone());
    let statuses: Arc<Statuses> = Arc::default();
    let counted = statuses.clone();
    let metrics = Arc::new(Metrics::of_daemonsets(clock, move || counts(&counted)));
    let pulse = Arc::new(Pulse::new(clock));
    let troubles = Troubles::default();
    let retired = CancellationToken::new();
    let with = With { client: client.clone(), clock, metrics: metrics.clone(), troubles: troubles.clone() };
    let (notices, written) = mpsc::channel(events::QUEUE);
    let writing = events::write(client.clone(), written, metrics.clone());
    tasks.spawn("events", async move {
        writing.await;
        Ok(())
    });
    let authority = elect(&options, with, notices.clone(), &retired, &mut tasks).await?;

    let shown = Shown { metrics: metrics.clone(), pulse: pulse.clone(), authority: authority.clone(), clock };
    let serving = admin::serve(listener, shown, stop.clone());
    tasks.spawn("admin", async move {
        serving.await;
        Ok(())
    });
    let following = Following { clock, metrics: metrics.clone(), failures: WatchFailures::new(troubles) };
    let (scopes, node_annotations) = (options.scopes(), options.node_annotations.into());
    let owner =
        Owner { client, following, scopes, node_annotations, authority, notices, statuses, metrics, pulse };
    tasks.spawn_draining("daemonsets", async move {
        // However it ends: the Lease is given back after its last request, and not before.
        let _retired = retired.drop_guard();
        owner.run(stop).await
    });
    tasks.run().await?;
    info!("ended");
    Ok(())
}

/// What the election has besides its options.
struct With {
    client: Client,
    clock: Clock,
    metrics: Arc<Metrics>,
    troubles: Troubles,
}

/// Starts the election, if there is one. It ends after `retired`, and then gives the Lease back.
async fn elect(
    options: &Options,
    With { client: shared, clock, metrics, troubles }: With,
    notices: mpsc::Sender<Notice>,
    retired: &CancellationToken,
    tasks: &mut Supervisor,
) -> anyhow::Result<Authority> {
    if !options.leading.elect {
        info!("always leading, without a lease");
        return Ok(Authority::alone(clock));
    }
    let own_namespace = options.leading.namespace.clone().unwrap_or_else(client::own_namespace);
    let (tell, authority) = Authority::new(clock);
    let lease = options.lease(&own_namespace);
    // Before anybody can see this replica hold the Lease.
    proof::leave(&lease.identity, &options.leading.termination_log);
    let proofs = Proofs::new(shared.clone(), &own_namespace, clock, metrics.clone());
    let replicas = Replicas::new(shared, &own_namespace, pod_of(&lease.identity));
    let handover = Handover::new(troubles, replicas, notices, metrics.clone());
    // Its own client: nothing else that is under way holds up a renewal.
    let election = lease::Election::new(client::connect().await?, lease, handover, clock, tell, metrics);
    tasks.spawn_draining("lease", election.run(proofs, retired.clone()));
    Ok(authority)
}

fn counts(statuses: &Statuses) -> Vec<SetCounts> {
    let mut all: Vec<SetCounts> = statuses
        .iter()
        .map(|entry| {
            let (set, status) = entry.pair();
            let turns = status.remembered.turns.len();
            SetCounts {
                set: set.clone(),
                nodes: [
                    ("wanted", status.nodes),
                    ("updated", status.updated_nodes),
                    ("degraded", status.degraded.len()),
                    ("in_turn", turns),
                    ("late", status.late.len()),
                ],
                pods: [
                    ("wanted", status.wanted),
                    ("live", status.pods),
                    ("updated", status.updated),
                    ("ready", status.ready),
                    ("available", status.available),
                ],
                roll: status.roll.as_str(),
            }
        })
        .collect();
    all.sort_by(|one, other| one.set.cmp(&other.set));
    all
}
