//! Creates and starts the parts of the program. `run` determines the order in which the parts start.

use std::{net::SocketAddr, sync::Arc};

use anyhow::Context;
use headgate_core::{Input, Scope, Settings, leadership::lease::pod_of, model::settings::Granting};
use kube::Client;
use tokio::{
    net::TcpListener,
    sync::{mpsc, watch},
};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{carrier::Carrier, leading::Candidate, left::Leaver, options::Options, reports::Reports};
use crate::{
    admin::{
        debug,
        server::{self, Shown},
        standbys::Standbys,
    },
    aws::{
        TargetGroups,
        reach::{Reach, Trouble},
    },
    explain,
    journal::keeper::Kept,
    kube::{
        bindings::Bindings,
        daemonsets::shown,
        events,
        evictions::Evictions,
        gates::Pods,
        grants::keeper::{self, Keeper},
        installation::{self, Serves},
        ledger::Ledgers,
        nodes::Nodes,
        replicas::Replicas,
        watch::{Following, Relists, Watches},
        watch_failures::WatchFailures,
    },
    metrics::Metrics,
    runtime::{
        authority::Authority, clock::Clock, pulse::Pulse, supervise::Supervisor, troubles::Troubles,
        views::Views,
    },
    serving::{listen::listen, tls},
    status::problems,
    webhook::{self, ask, evict::Evicting, files::Published, node_reads::NodeReads},
};

/// The addresses of probes, metrics and debug endpoints.
pub(super) struct Listeners {
    admin: TcpListener,
    debug: TcpListener,
}

impl Listeners {
    /// Opens both listeners.
    ///
    /// # Errors
    /// An address is not available.
    pub(super) async fn open(options: &Options) -> anyhow::Result<Self> {
        let listening = async |address: SocketAddr, flag: &str| {
            let said = || format!("cannot listen on {address}. Set {flag} to a free address");
            listen(address).await.with_context(said)
        };
        let admin = listening(options.admin_address, "--admin-address").await?;
        let debug = listening(options.debug_address, "--debug-address").await?;
        let at = debug.local_addr()?;
        if !at.ip().is_loopback() {
            warn!(debug = %at, "anyone who reaches --debug-address can query Headgate. Set a loopback address");
        }
        Ok(Self { admin, debug })
    }

    /// Logs that the program starts, with its settings.
    pub(super) fn log_start(&self, aws: &TargetGroups) -> anyhow::Result<()> {
        let version = env!("CARGO_PKG_VERSION");
        let (admin, debug_at) = (self.admin.local_addr()?, self.debug.local_addr()?);
        info!(version, region = aws.region(), aws = aws.endpoint(), %admin, debug = %debug_at, "starting");
        Ok(())
    }

    /// Serves both listeners until `stop`.
    pub(super) fn serve(self, shown: &Shown, stop: &CancellationToken, tasks: &mut Supervisor) {
        let debugging = debug::serve(self.debug, shown.clone(), stop.clone());
        tasks.spawn("debug", async move {
            debugging.await;
            Ok(())
        });
        let serving = server::serve(self.admin, shown.clone(), stop.clone());
        tasks.spawn("admin", async move {
            serving.await;
            Ok(())
        });
    }
}

/// Logs each configured namespace that does not exist.
pub(super) async fn name_missing(client: Client, named: Vec<String>) -> Result<(), String> {
    for namespace in installation::missing(&client, named.iter().map(String::as_str)).await {
        warn!(
            namespace,
            "there is no namespace {namespace}. Correct --namespaces, or create it; Headgate then manages it"
        );
    }
    std::future::pending().await
}

/// The data that the parts share.
pub(super) struct Shared {
    pub(super) client: Client,
    clock: Clock,
    serves: Serves,
    pub(super) scopes: Vec<Scope>,
    own_namespace: String,
    lease: String,
    pub(super) authority: Authority,
    pub(super) views: Arc<Views>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) pulse: Arc<Pulse>,
    grants: watch::Sender<keeper::Shown>,
    grants_are_required: bool,
    troubles: Troubles,
    standbys: Standbys,
}

impl Shared {
    /// Creates the shared data, and starts the leader election.
    ///
    /// # Errors
    /// The Kubernetes client of the election cannot be created.
    pub(super) async fn new(
        options: &Options,
        client: Client,
        notices: &events::Sender,
        clock: Clock,
        retired: &CancellationToken,
        tasks: &mut Supervisor,
    ) -> anyhow::Result<Self> {
        let namespaces_are_selected = options.serves.selector.is_some();
        let views = Arc::new(Views { namespaces_are_selected, ..Views::default() });
        let metrics = Arc::new(Metrics::new(views.clone(), clock, options.metrics));
        let pulse = Arc::new(Pulse::new(clock));
        let own_namespace = options.leading.own_namespace();
        let troubles = Troubles::default();
        let candidate = Candidate {
            client: client.clone(),
            clock,
            metrics: metrics.clone(),
            notices: notices.clone(),
            troubles: troubles.clone(),
        };
        let authority = options.leading.elect(&options.serves, candidate, retired, tasks).await?;
        let standbys = if options.leading.elect {
            let identity = &options.leading.identity;
            let pod = pod_of(identity);
            let replicas = Replicas::new(client.clone(), &own_namespace, pod);
            Standbys::beside(replicas, pod.unwrap_or(identity))
        } else {
            Standbys::none()
        };
        Ok(Self {
            client,
            clock,
            serves: options.serves.clone(),
            scopes: options.serves.scopes(),
            own_namespace,
            lease: options.leading.lease.clone(),
            authority,
            views,
            metrics,
            pulse,
            grants: watch::Sender::default(),
            grants_are_required: options.settings.grants == Granting::Required,
            troubles,
            standbys,
        })
    }

    /// Whether this replica is the leader.
    fn leads(&self) -> impl Fn() -> bool + Clone + Send + Sync + use<> {
        let authority = self.authority.clone();
        move || authority.term().is_some()
    }

    /// Starts the task that opens readiness gates in namespaces that Headgate no longer manages.
    pub(super) fn leave_namespaces(&self, tasks: &mut Supervisor) {
        let leaver = Leaver {
            client: self.client.clone(),
            own_namespace: self.own_namespace.clone(),
            lease: self.lease.clone(),
            serves: self.serves.clone(),
            leads: self.leads(),
        };
        tasks.spawn("namespaces left", leaver.run());
    }

    /// Connects the metrics to the problems that `headgate status` shows.
    pub(super) fn tell_metrics_what_is_wrong(&self, aws: watch::Receiver<Option<Trouble>>) {
        let (views, authority, clock) = (self.views.clone(), self.authority.clone(), self.clock);
        self.metrics.asks_what_is_wrong(move || {
            let (aws, unable) = (aws.borrow().clone(), authority.unable());
            problems::words(&problems::Known { views: &views, aws, unable }, clock.now())
        });
    }

    /// The data for the admin and the debug server.
    pub(super) fn shown(
        &self,
        certificate: Option<watch::Receiver<tls::Served>>,
        aws: watch::Receiver<Option<Trouble>>,
        questions: mpsc::Sender<explain::ask::Question>,
        journal: Kept,
    ) -> Shown {
        Shown {
            journal,
            standbys: self.standbys.clone(),
            certificate,
            aws,
            grants: self.grants.subscribe(),
            metrics: self.metrics.clone(),
            views: self.views.clone(),
            pulse: self.pulse.clone(),
            authority: self.authority.clone(),
            asking: explain::ask::Asking { questions },
            clock: self.clock,
        }
    }

    /// Starts the task that writes Events.
    pub(super) fn write_events(
        &self,
        notices: events::Receiver,
        docs: Option<Box<str>>,
        tasks: &mut Supervisor,
    ) {
        let writing = events::write(self.client.clone(), notices, self.metrics.clone(), docs);
        tasks.spawn("events", async move {
            writing.await;
            Ok(())
        });
    }

    /// Creates the reader of nodes, if this replica has permission to read them.
    pub(super) fn node_reads(&self, settings: &Settings) -> NodeReads {
        if self.sees_nodes() {
            NodeReads::new(Nodes::new(self.client.clone()), settings.signals.clone(), self.clock)
        } else {
            NodeReads::blind()
        }
    }

    /// If `--namespaces` is set, Headgate has no permission to read nodes. The zone guard and the early signals are
    /// then disabled.
    fn sees_nodes(&self) -> bool {
        self.scopes == [Scope::Cluster]
    }

    /// The data for the webhooks.
    pub(super) fn webhook(
        &self,
        evicting: Evicting,
        evictions: Evictions,
        questions: mpsc::Sender<ask::Question>,
        published: Published,
        giving: webhook::giving::Options,
    ) -> webhook::Served {
        let asking = ask::Asking {
            scopes: self.scopes.clone(),
            namespaces_are_selected: self.serves.selector.is_some(),
            questions,
            pulse: self.pulse.clone(),
        };
        webhook::Served {
            client: self.client.clone(),
            webhook: webhook::Webhook {
                asking,
                evicting,
                metrics: self.metrics.clone(),
                clock: self.clock,
                path: published.path.subscribe(),
                giving: webhook::giving::Giving::new(giving),
                namespaces: webhook::namespaces::Namespaces::new(self.client.clone(), self.clock),
            },
            evictions,
            published,
        }
    }

    /// Starts the watches, which send to `inbox`, and the tasks for TargetBindings and grants.
    pub(super) fn watch(
        &self,
        inbox: mpsc::Sender<Input>,
        notices: events::Sender,
        relists: &Relists,
        tasks: &mut Supervisor,
    ) {
        let watches = Watches {
            client: self.client.clone(),
            inbox,
            following: Following {
                clock: self.clock,
                metrics: self.metrics.clone(),
                failures: WatchFailures::new(self.troubles.clone()),
            },
            relists: relists.clone(),
        };
        let closed = |_| "the engine has ended".to_owned();
        for scope in &self.scopes {
            let pods = watches.clone().pods(scope.clone());
            let services = watches.clone().services(scope.clone());
            tasks.spawn(format!("watch pods of {scope}"), async move { pods.await.map_err(closed) });
            tasks.spawn(format!("watch services of {scope}"), async move { services.await.map_err(closed) });
            let bindings = watches.clone().bindings(scope.clone());
            let name = format!("watch targetbindings of {scope}");
            tasks.spawn(name, async move { bindings.await.map_err(closed) });
        }
        if self.sees_nodes() {
            let nodes = watches.clone().nodes();
            tasks.spawn("watch nodes", async move { nodes.await.map_err(closed) });
        }
        if let Some(selector) = &self.serves.selector {
            let namespaces = watches.clone().namespaces(selector.clone());
            tasks.spawn("watch namespaces", async move { namespaces.await.map_err(closed) });
        }
        self.keep_bindings(tasks);
        self.keep_grants(&watches, notices, tasks);
        // From this point on, only the tasks can send inputs to the engine.
        drop(watches);
    }

    /// Watches IngressDaemonSets, only for `headgate status` and the page. A failure of the watch of IngressDaemonSets
    /// does not prevent the replica from leading.
    pub(super) fn show_sets(&self, tasks: &mut Supervisor) {
        let following = Following {
            clock: self.clock,
            metrics: self.metrics.clone(),
            failures: WatchFailures::new(Troubles::default()),
        };
        for scope in &self.scopes {
            let name = format!("watch ingressdaemonsets of {scope}");
            let sets = self.views.sets.clone();
            let watch = shown::follow(self.client.clone(), following.clone(), scope.clone(), sets);
            tasks.spawn(name, async move { watch.await.map_err(|_| "nobody shows them".to_owned()) });
        }
    }

    fn keep_grants(&self, watches: &Watches, notices: events::Sender, tasks: &mut Supervisor) {
        let (into, news) = mpsc::channel(keeper::QUEUE);
        let closed = |_| "the task that manages grants has ended".to_owned();
        let (grants, labels) = (watches.clone().grants(into.clone()), watches.clone().labels(into));
        tasks.spawn("watch targetgroupgrants", async move { grants.await.map_err(closed) });
        tasks.spawn("watch labels of namespaces", async move { labels.await.map_err(closed) });
        let keeper = Keeper {
            news,
            inbox: watches.inbox.clone(),
            notices,
            shown: self.grants.clone(),
            required: self.grants_are_required,
            authority: self.authority.clone(),
            clock: self.clock,
            metrics: self.metrics.clone(),
        };
        tasks.spawn("grants", keeper.run());
    }

    fn keep_bindings(&self, tasks: &mut Supervisor) {
        let bindings = Bindings {
            client: self.client.clone(),
            scopes: self.scopes.clone(),
            namespaces_are_selected: self.serves.selector.is_some(),
            views: self.views.clone(),
            pulse: self.pulse.clone(),
            clock: self.clock,
            leads: self.leads(),
        };
        tasks.spawn("targetbindings", bindings.keep());
    }

    /// Creates the reports about requests.
    pub(super) fn reports(
        &self,
        aws: &TargetGroups,
        out_of_reach: watch::Sender<Option<Trouble>>,
        notices: events::Sender,
    ) -> Reports {
        Reports {
            clock: self.clock,
            metrics: self.metrics.clone(),
            reach: Reach::new(aws.endpoint()),
            out_of_reach,
            ledgers: None,
            authority: self.authority.clone(),
            notices,
            views: self.views.clone(),
            troubles: self.troubles.clone(),
        }
    }

    /// Creates the carrier that sends requests.
    pub(super) fn carrier(&self, aws: TargetGroups, evictions: Evictions) -> Carrier {
        Carrier {
            clock: self.clock,
            authority: self.authority.clone(),
            aws,
            ledgers: Ledgers::new(self.client.clone(), &self.own_namespace, &self.lease),
            pods: Pods::new(self.client.clone(), self.clock),
            evictions,
            nodes: Nodes::new(self.client.clone()),
        }
    }
}
