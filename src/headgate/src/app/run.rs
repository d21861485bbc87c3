//! `headgate run`: connects everything and waits for the end.

use std::{net::SocketAddr, sync::Arc, time::SystemTime};

use anyhow::Context;
use headgate_core::{Engine, Scope, Settings, WallTime, lease::Timing};
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
    sync::{mpsc, watch},
};
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::{
    admin::{metrics::Metrics, server},
    app::{
        authority::Authority, clock::Clock, owner, owner::Owner, pulse::Pulse, supervise::Supervisor,
        views::Views,
    },
    aws::{CALL_TIMEOUT, TargetGroups},
    explain,
    kube::{
        bindings::Bindings,
        client, events,
        evictions::Evictions,
        gates::Pods,
        installation::Serves,
        lease,
        ledger::Ledgers,
        watch::{Relists, Watches},
    },
    webhook::{self, ask, evict::Evicting},
};

/// What `headgate run` is told.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which namespaces are served.
    pub serves: Serves,
    /// Where probes and metrics are served.
    pub admin_address: SocketAddr,
    /// Which replica leads.
    pub leading: Leading,
    /// How the engine works; what it works on is filled in here.
    pub settings: Settings,
    /// How the webhook for new pods is served, if it is.
    pub webhook: Option<webhook::Options>,
}

/// How a replica comes to lead.
#[derive(Clone, Debug)]
pub struct Leading {
    /// By holding a Lease; otherwise it always leads.
    pub elect: bool,
    /// Headgate's own namespace; none: that of the ServiceAccount, or of the kubeconfig's context.
    pub namespace: Option<String>,
    /// The name of the Lease, which is the installation's.
    pub lease: String,
    /// How this replica calls itself.
    pub identity: Arc<str>,
    /// How long the Lease lasts.
    pub timing: Timing,
}

/// Runs until SIGTERM or SIGINT.
///
/// # Errors
/// If something cannot be started, or a part of it ends by itself.
pub async fn run(options: Options) -> anyhow::Result<()> {
    let clock = Clock::start();
    let stop = CancellationToken::new();
    stop_on_signals(&stop)?;

    if let Some(webhook) = &options.webhook {
        webhook.check(&options.leading, options.settings.read_only)?;
    }
    let listener = TcpListener::bind(options.admin_address).await.with_context(|| {
        format!("cannot listen on {}; expected a free address in --admin-address", options.admin_address)
    })?;
    let admin = listener.local_addr()?;
    let aws = TargetGroups::connect().await?;
    let client = client::connect().await?;
    info!(version = env!("CARGO_PKG_VERSION"), region = aws.region(), %admin, "starting");

    let scopes: Vec<Scope> = match &options.serves.namespaces[..] {
        [] => vec![Scope::Cluster],
        named => named.iter().map(|name| Scope::Namespace(name.as_str().into())).collect(),
    };
    let engine = Engine::new(Settings {
        region: aws.region().into(),
        scopes: scopes.clone(),
        namespaces_are_selected: options.serves.selector.is_some(),
        late: options.leading.timing.duration() + 2 * CALL_TIMEOUT,
        seed: seed(),
        started: wall_clock(clock),
        ..options.settings
    });
    let views = Arc::new(Views::default());
    let metrics = Arc::new(Metrics::new(views.clone()));
    let pulse = Arc::new(Pulse::new(clock));
    let (inbox_in, inbox) = mpsc::channel(owner::INBOX);
    let (notices, notices_out) = mpsc::channel(events::QUEUE);

    let mut tasks = Supervisor::new(stop.clone());
    let own = options.leading.namespace.unwrap_or_else(|| client.default_namespace().to_owned());
    let installation = options.leading.lease.clone();
    let ledgers = Ledgers::new(client.clone(), &own, &options.leading.lease);
    let pods = Pods::new(client.clone(), clock);
    let evictions = Evictions::new(client.clone());
    let retired = CancellationToken::new();
    let authority = if options.leading.elect {
        let (tell, authority) = Authority::new(clock);
        let lease = lease::Options {
            name: options.leading.lease,
            namespace: own.clone(),
            identity: options.leading.identity,
            timing: options.leading.timing,
            serves: options.serves.to_string(),
        };
        // Its own client: nothing else that is under way holds up a renewal.
        let election = lease::Election::new(client::connect().await?, lease, clock, tell, metrics.clone());
        tasks.spawn_draining("lease", election.run(retired.clone()));
        authority
    } else {
        info!("always leading, without a lease");
        Authority::alone(clock)
    };
    let (certificate, certified) = watch::channel(None);
    let (explain_in, explain) = mpsc::channel(explain::ask::QUEUE);
    let shown = server::Shown {
        certificate: options.webhook.is_some().then_some(certified),
        metrics: metrics.clone(),
        views: views.clone(),
        pulse: pulse.clone(),
        authority: authority.clone(),
        asking: explain::ask::Asking { questions: explain_in },
        clock,
    };
    let serving = server::serve(listener, shown, stop.clone());
    tasks.spawn("admin", async move { serving.await.map_err(|error| error.to_string()) });
    let writing = events::write(client.clone(), notices_out, metrics.clone());
    tasks.spawn("events", async move {
        writing.await;
        Ok(())
    });
    let (questions_in, questions) = mpsc::channel(ask::QUEUE);
    if let Some(webhook) = options.webhook {
        let asking = ask::Asking {
            scopes: scopes.clone(),
            namespaces_are_selected: options.serves.selector.is_some(),
            questions: questions_in,
        };
        let leads = authority.clone();
        let served = webhook::Served {
            client: client.clone(),
            own_namespace: own,
            lease: installation,
            leads: move || leads.reign().is_some(),
            webhook: webhook::server::Webhook {
                asking,
                evicting: Evicting { evictions: evictions.clone(), notices: notices.clone() },
                metrics: metrics.clone(),
                clock,
            },
            certificate,
        };
        served.start(webhook, &mut tasks, &stop).await?;
    }
    let relists = Relists::new(&scopes);
    let watches =
        Watches { client, inbox: inbox_in, clock, metrics: metrics.clone(), relists: relists.clone() };
    let closed = |_| "the engine is gone".to_owned();
    let bindings_in = scopes.clone();
    for scope in scopes {
        let (pods, services) = (watches.clone().pods(scope.clone()), watches.clone().services(scope.clone()));
        tasks.spawn(format!("watch pods {scope:?}"), async move { pods.await.map_err(closed) });
        tasks.spawn(format!("watch services {scope:?}"), async move { services.await.map_err(closed) });
        let bindings = watches.clone().bindings(scope.clone());
        tasks.spawn(format!("watch targetbindings {scope:?}"), async move { bindings.await.map_err(closed) });
    }
    // Named namespaces need Roles only, which say nothing about nodes: then there is no zone guard, and no
    // early signal.
    if bindings_in == [Scope::Cluster] {
        let nodes = watches.clone().nodes();
        tasks.spawn("watch nodes", async move { nodes.await.map_err(closed) });
    }
    if let Some(selector) = options.serves.selector {
        let namespaces = watches.clone().namespaces(selector);
        tasks.spawn("watch namespaces", async move { namespaces.await.map_err(closed) });
    }
    let leads = authority.clone();
    let bindings = Bindings {
        client: watches.client.clone(),
        scopes: bindings_in,
        views: views.clone(),
        pulse: pulse.clone(),
        clock,
        leads: move || leads.reign().is_some(),
    };
    tasks.spawn("targetbindings", bindings.keep());
    drop(watches);
    let owner = Owner {
        engine,
        clock,
        inbox,
        aws,
        ledgers,
        pods,
        evictions,
        authority,
        notices,
        views,
        metrics,
        pulse,
        relists,
        questions,
        explain,
    };
    tasks.spawn_draining("engine", async move {
        // However it ends: the Lease is given back after its last call, and not before.
        let _retired = retired.drop_guard();
        owner.run(stop).await
    });
    tasks.run().await?;
    info!("ended");
    Ok(())
}

fn stop_on_signals(stop: &CancellationToken) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let stop = stop.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => info!("SIGTERM: stopping"),
            _ = interrupt.recv() => info!("SIGINT: stopping"),
        }
        stop.cancel();
    });
    Ok(())
}

/// What the wall clock showed when the process's own clock began.
fn wall_clock(clock: Clock) -> WallTime {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    WallTime::since_1970(now.saturating_sub(clock.now().elapsed()))
}

/// Only for jitter: it need not be secret, just different between replicas.
fn seed() -> u64 {
    let nanos =
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.subsec_nanos());
    u64::from(nanos) ^ (u64::from(std::process::id()) << 32)
}
