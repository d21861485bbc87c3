//! `headgate daemonsets`: starts all parts and waits until they stop.

use std::{net::SocketAddr, sync::Arc};

use anyhow::Context;
use tokio_util::sync::CancellationToken;
use tracing::info;

use super::{
    admin::{self, Shown},
    owner::{Owner, Statuses},
};
use crate::{
    app::leading::{Candidate, Leading},
    kube::{client, events, installation::Serves, watch::Following, watch_failures::WatchFailures},
    metrics::{Level, Metrics, SetCounts},
    runtime::{
        clock::Clock,
        pulse::Pulse,
        supervise::{Supervisor, stop_on_signals},
        troubles::Troubles,
    },
    serving::listen::listen,
};

/// The options of `headgate daemonsets`.
#[derive(Clone, Debug)]
pub struct Options {
    /// The namespaces that Headgate manages.
    pub serves: Serves,
    /// The annotation keys that sets may set on nodes.
    pub node_annotations: Vec<String>,
    /// The listen address for probes and metrics.
    pub admin_address: SocketAddr,
    /// The level of the served metrics.
    pub metrics: Level,
    /// The URL of the docs, if Events contain links to the docs.
    pub docs_url: Option<Box<str>>,
    /// The options of the leader election.
    pub leading: Leading,
}

/// Runs `headgate daemonsets` until SIGTERM or SIGINT.
///
/// # Errors
/// A part cannot be started, or ends unexpectedly.
pub async fn run(options: Options) -> anyhow::Result<()> {
    let clock = Clock::start();
    let stop = CancellationToken::new();
    stop_on_signals(&stop)?;
    let address = options.admin_address;
    let said = || format!("cannot listen on {address}. Set --admin-address to a free address");
    let listener = listen(address).await.with_context(said)?;
    let client = client::connect().await?;
    let (version, at) = (env!("CARGO_PKG_VERSION"), listener.local_addr()?);
    info!(version, admin = %at, "starting");

    let mut tasks = Supervisor::new(stop.clone());
    let statuses: Arc<Statuses> = Arc::default();
    let counted = statuses.clone();
    let metrics = Arc::new(Metrics::of_daemonsets(clock, options.metrics, move || counts(&counted)));
    let pulse = Arc::new(Pulse::new(clock));
    let troubles = Troubles::default();
    let retired = CancellationToken::new();
    let (notices, written) = events::channel(clock);
    let writing = events::write(client.clone(), written, metrics.clone(), options.docs_url);
    tasks.spawn("events", async move {
        writing.await;
        Ok(())
    });
    let candidate = Candidate {
        client: client.clone(),
        clock,
        metrics: metrics.clone(),
        notices: notices.clone(),
        troubles: troubles.clone(),
    };
    let authority = options.leading.elect(&options.serves, candidate, &retired, &mut tasks).await?;

    let shown = Shown { metrics: metrics.clone(), pulse: pulse.clone(), authority: authority.clone(), clock };
    let serving = admin::serve(listener, shown, stop.clone());
    tasks.spawn("admin", async move {
        serving.await;
        Ok(())
    });
    let following = Following { clock, metrics: metrics.clone(), failures: WatchFailures::new(troubles) };
    let (scopes, node_annotations) = (options.serves.scopes(), options.node_annotations.into());
    let owner =
        Owner { client, following, scopes, node_annotations, authority, notices, statuses, metrics, pulse };
    tasks.spawn_draining("daemonsets", async move {
        // However the task ends, the Lease is released only after the last request.
        let _retired = retired.drop_guard();
        owner.run(stop).await
    });
    tasks.run().await?;
    info!("ended");
    Ok(())
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
