//! `headgate run`: connects everything and waits for the end.

use std::{net::SocketAddr, sync::Arc, time::SystemTime};

use anyhow::Context;
use headgate_core::{Engine, Scope, Settings, WallTime, leadership::lease::Timing, requests::CALL_PATIENCE};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::{mpsc, watch},
};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::{
    admin::{debug, server},
    app::{
        carrier::Carrier,
        left::Leaver,
        owner::{self, Owner},
        reports::Reports,
    },
    aws::{TargetGroups, reach::Reach},
    explain,
    kube::{
        bindings::Bindings,
        client, events,
        evictions::Evictions,
        gates::Pods,
        installation::{self, Serves},
        lease,
        ledger::Ledgers,
        watch::{Relists, Watches},
        watch_failures::WatchFailures,
    },
    metrics::Metrics,
    runtime::{authority::Authority, clock::Clock, pulse::Pulse, supervise::Supervisor, views::Views},
    serving::listen::listen,
    webhook::{self, ask, evict::Evicting},
};

/// What `headgate run` is told.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which namespaces are served.
    pub serves: Serves,
    /// Where probes and metrics are served.
    pub admin_address: SocketAddr,
    /// Where people's questions are answered.
    pub debug_address: SocketAddr,
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
    /// Headgate's own namespace; none: [`client::own_namespace`].
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
        let leading = &options.leading;
        let lease = leading.elect.then(|| leading.timing.duration());
        webhook.check(lease, options.settings.read_only)?;
    }
    let listening = async |address: SocketAddr, flag: &str| {
        let said = || format!("cannot listen on {address}; expected a free address in {flag}");
        listen(address).await.with_context(said)
    };
    let admin_listener = listening(options.admin_address, "--admin-address").await?;
    let debug_listener = listening(options.debug_address, "--debug-address").await?;
    let (admin, debug_at) = (admin_listener.local_addr()?, debug_listener.local_addr()?);
    if !debug_at.ip().is_loopback() {
        warn!(debug = %debug_at, "whoever reaches --debug-address may ask what Headgate knows; expected an address of loopback");
    }
    let aws = TargetGroups::connect().await?;
    let client = client::connect().await?;
    let version = env!("CARGO_PKG_VERSION");
    info!(version, region = aws.region(), aws = aws.endpoint(), %admin, debug = %debug_at, "starting");

    let scopes: Vec<Scope> = match &options.serves.namespaces[..] {
        [] => vec![Scope::Cluster],
        named => named.iter().map(|name| Scope::Namespace(name.as_str().into())).collect(),
    };
    let writes = !options.settings.read_only;
    let engine = Engine::new(Settings {
        region: aws.region().into(),
        scopes: scopes.clone(),
        namespaces_are_selected: options.serves.selector.is_some(),
        late: options.leading.timing.duration() + 2 * CALL_PATIENCE,
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
    let (asked, named) = (client.clone(), options.serves.namespaces.clone());
    tasks.spawn("namespaces", async move {
        for namespace in installation::missing(&asked, named.iter().map(String::as_str)).await {
            warn!(
                namespace,
                "there is no namespace {namespace}; expected namespaces that exist in --namespaces; it is served once \
                 it is made"
            );
        }
        std::future::pending().await
    });
    let own = options.leading.namespace.unwrap_or_else(client::own_namespace);
    let lease = options.leading.lease.clone();
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
    if options.leading.elect && writes {
        let leads = authority.clone();
        let leaver = Leaver {
            client: client.clone(),
            own_namespace: own.clone(),
            lease: lease.clone(),
            serves: options.serves.clone(),
            leads: move || leads.reign().is_some(),
        };
        tasks.spawn("namespaces left", leaver.run());
    }
    let (certificate, certified) = watch::channel(None);
    let (out_of_reach, aws_trouble) = watch::channel(None);
    let (explain_in, explain) = mpsc::channel(explain::ask::QUEUE);
    let shown = server::Shown {
        certificate: options.webhook.is_some().then_some(certified),
        aws: aws_trouble,
        metrics: metrics.clone(),
        views: views.clone(),
        pulse: pulse.clone(),
        authority: authority.clone(),
        asking: explain::ask::Asking { questions: explain_in },
        clock,
    };
    let debugging = debug::serve(debug_listener, shown.clone(), stop.clone());
    tasks.spawn("debug", async move {
        debugging.await;
        Ok(())
    });
    let serving = server::serve(admin_listener, shown, stop.clone());
    tasks.spawn("admin", async move {
        serving.await;
        Ok(())
    });
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
        let (publisher, paths) = webhook::path::Paths::new();
        let served = webhook::Served {
            client: client.clone(),
            own_namespace: own,
            lease,
            leads: move || leads.reign().is_some(),
            webhook: webhook::Webhook {
                asking,
                evicting: Evicting::new(evictions.clone(), notices.clone()),
                metrics: metrics.clone(),
                clock,
                paths,
            },
            certificate,
            paths: publisher,
        };
        served.start(webhook, &mut tasks, &stop).await?;
    }
    let relists = Relists::new(&scopes);
    let watches = Watches {
        client,
        inbox: inbox_in,
        clock,
        metrics: metrics.clone(),
        failures: WatchFailures::default(),
        relists: relists.clone(),
    };
    let closed = |_| "the engine is gone".to_owned();
    let bindings_in = scopes.clone();
    for scope in scopes {
        let (pods, services) = (watches.clone().pods(scope.clone()), watches.clone().services(scope.clone()));
        tasks.spawn(format!("watch pods of {scope}"), async move { pods.await.map_err(closed) });
        tasks.spawn(format!("watch services of {scope}"), async move { services.await.map_err(closed) });
        let bindings = watches.clone().bindings(scope.clone());
        tasks
            .spawn(format!("watch targetbindings of {scope}"), async move { bindings.await.map_err(closed) });
    }
    // Named namespaces need Roles only, which say nothing about nodes: then there is no zone guard, and no
    // early signal.
    if bindings_in == [Scope::Cluster] {
        let nodes = watches.clone().nodes();
        tasks.spawn("watch nodes", async move { nodes.await.map_err(closed) });
    }
    let namespaces_are_selected = options.serves.selector.is_some();
    if let Some(selector) = options.serves.selector {
        let namespaces = watches.clone().namespaces(selector);
        tasks.spawn("watch namespaces", async move { namespaces.await.map_err(closed) });
    }
    let leads = authority.clone();
    let bindings = Bindings {
        client: watches.client.clone(),
        scopes: bindings_in,
        namespaces_are_selected,
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
        reports: Reports {
            clock,
            metrics: metrics.clone(),
            reach: Reach::new(aws.endpoint()),
            out_of_reach,
            ledgers: None,
            authority: authority.clone(),
            notices,
            views: views.clone(),
        },
        carrier: Arc::new(Carrier { clock, authority: authority.clone(), aws, ledgers, pods, evictions }),
        authority,
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
