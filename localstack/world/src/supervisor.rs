//! The process that owns a local cluster from its first file to its last file.
//!
//! The supervisor takes the lock and creates the folder, Kubernetes programs, keys, components and control socket, in
//! this order. A stop reverses the order. If the start fails, all started components are stopped, and only the logs are
//! kept. If the supervisor is killed, the kernel kills its children and releases its lock and slot. The next command
//! then removes the folder.
//!
//! The supervisor runs only on the main thread, because the kernel ties children to the thread that started them (see
//! [`crate::reexec`]).

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use ipnet::Ipv4Net;
use localstack_nodes::{cgroup, network::Addresses, requirements};
use tokio::{net::UnixListener, sync::Mutex};
use tokio_util::sync::CancellationToken;

use crate::{
    board::Board,
    cache::{Cache, FileLock, WorldName},
    component::Component,
    containerd,
    control::{self, Request, Response},
    error::WorldError,
    facts::Facts,
    fleet::{Ending, Fleet},
    images,
    kubeconfig::kubeconfig,
    kubernetes::Kubernetes,
    network::{Base, network},
    options::{Nodes, Options},
    pki::{self, Identity, MASTERS, Pki},
    plan::{self, Plan},
    ports,
    probe::Probe,
    process::Process,
    slot::Slot,
};

/// The users of the kubeconfig files. The control plane has the user names of RBAC's default roles. The simulated
/// kubelets act for all nodes, which a real kubelet is not allowed to do.
const USERS: [(Option<Component>, Identity<'static>); 4] = [
    (None, Identity { user: "headgate-world-admin", group: Some(MASTERS) }),
    (Some(Component::ControllerManager), Identity { user: "system:kube-controller-manager", group: None }),
    (Some(Component::Scheduler), Identity { user: "system:kube-scheduler", group: None }),
    (Some(Component::Kubelet), Identity { user: "headgate-world-kubelets", group: Some(MASTERS) }),
];

/// Runs a local cluster until `stop` is cancelled, from the first file to the last file.
///
/// `report` receives messages about long steps of the start. `ready` is called once, after all components are up. An
/// error means that the start failed, and that only the logs remain.
pub async fn serve(
    cache: &Cache,
    options: Options,
    stop: CancellationToken,
    report: &dyn Fn(&str),
    ready: impl FnOnce(&Facts),
) -> Result<(), WorldError> {
    let lock = lock(cache, &options.name).await?;
    remove_remains(cache, &options.name, &lock)?;
    let folder = cache.world(&options.name);
    let outcome = serve_in(cache, &folder, options.clone(), &stop, report, ready).await;
    let outcome = match outcome {
        Err(error) if !matches!(error, WorldError::Interrupted) => {
            Err(keep_logs(&folder, &cache.failed_logs(&options.name), error))
        }
        other => other,
    };
    remove_folder(&folder)?;
    outcome
}

/// Takes the lock of the cluster. Commands hold the lock only briefly to check the cluster, so a few attempts are
/// enough.
async fn lock(cache: &Cache, name: &WorldName) -> Result<FileLock, WorldError> {
    for _ in 0..50 {
        if let Some(lock) = cache.lock_world(name)? {
            return Ok(lock);
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Err(WorldError::AlreadyUp(name.clone()))
}

async fn serve_in(
    cache: &Cache,
    folder: &Path,
    options: Options,
    stop: &CancellationToken,
    report: &dyn Fn(&str),
    ready: impl FnOnce(&Facts),
) -> Result<(), WorldError> {
    if options.nodes == Nodes::Real {
        // The programs are built first, because downloads are not possible in a network namespace.
        tokio::select! {
            built = build(cache, &options, report) => drop(built?),
            () = stop.cancelled() => return Err(WorldError::Interrupted),
        }
    }
    let (base, slot) = place(&options)?;
    let plan = make_plan(folder, options, base)?;
    for part in [plan.bin(), plan.pki(), plan.logs()] {
        fs::create_dir_all(&part).map_err(WorldError::at(part))?;
    }
    let board = Arc::new(Board::new(Facts::of(&plan, Process::current())));
    let listener = control::listen(folder).map_err(WorldError::at(folder))?;
    let admin = write_pki(&plan)?;
    let probe = Probe::new(&admin).await?;
    let fleet = Arc::new(Mutex::new(Fleet::new(plan.clone(), Arc::clone(&board), probe.clone())));
    let office = Office { board: Arc::clone(&board), fleet: Arc::clone(&fleet), stop: stop.clone() };
    let listening = tokio::spawn(office.listen(listener));

    let started = tokio::select! {
        started = start(cache, &plan, &fleet, report) => started,
        component = board.failure() => Err(failed_early(&plan, component)),
        () = stop.cancelled() => Err(WorldError::Interrupted),
    };
    if started.is_ok() {
        // With KUBEBUILDER_ASSETS, the version may differ from the version of the own build.
        let version = probe.version().await.unwrap_or_else(|_| plan.options.minor().version().to_owned());
        board.ready(version);
        tracing::info!(world = %plan.options.name, "everything is up");
        ready(&board.facts());
        tokio::select! {
            () = stop.cancelled() => {}
            ended = listening => tracing::error!(?ended, "the control socket is gone: taking the world down"),
        }
    }
    tracing::info!("taking the world down");
    // The token `stop` also cancels running work on the fleet.
    stop.cancel();
    fleet.lock().await.stop_all().await;
    remove_cgroups(&plan.cgroup)?;
    drop(slot);
    started
}

/// Returns the addresses of the cluster. With simulated nodes, takes a slot of the loopback range. With real nodes,
/// creates a network namespace, and moves this process and all later children into the namespace.
fn place(options: &Options) -> Result<(Base, Option<Slot>), WorldError> {
    if options.nodes == Nodes::Simulated {
        let slot = Slot::take()?;
        return Ok((Base::Slot(slot.number()), Some(slot)));
    }
    requirements::check()?;
    let network = network(Base::Own, options.zones, options.nodes_per_zone);
    localstack_nodes::network::create(&Addresses {
        servers: Ipv4Net::new_assert(network.servers, network.balancers.prefix_len()),
        nodes: network.nodes().map(|(_, _, ip)| ip).collect(),
        balancers: network.balancers,
    })?;
    Ok((Base::Own, None))
}

/// Removes the cgroups of real nodes after the processes of the nodes have exited.
fn remove_cgroups(prefix: &str) -> Result<(), WorldError> {
    cgroup::remove_all(&format!("{prefix}-")).map_err(WorldError::at("/sys/fs/cgroup"))
}

async fn start(
    cache: &Cache,
    plan: &Plan,
    fleet: &Mutex<Fleet>,
    report: &dyn Fn(&str),
) -> Result<(), WorldError> {
    let nodes = plan.options.nodes;
    let built = build(cache, &plan.options, report).await?;
    built.kubernetes.link_into(&plan.bin(), nodes).map_err(WorldError::at(plan.bin()))?;
    let images = match built.on_nodes {
        Some(OnNodes { containerd, images }) => {
            containerd::link_into(&containerd, &plan.bin()).map_err(WorldError::at(plan.bin()))?;
            images
        }
        None => Vec::new(),
    };
    let mut fleet = fleet.lock().await;
    fleet.set_images(images);
    fleet.start_all().await
}

/// The programs of a local cluster.
struct Programs {
    kubernetes: Kubernetes,
    /// The additional programs for real nodes.
    on_nodes: Option<OnNodes>,
}

struct OnNodes {
    /// The folder that contains containerd's programs.
    containerd: PathBuf,
    /// The names of the images, and the paths of their programs.
    images: Vec<(String, PathBuf)>,
}

/// Finds all programs. Builds the programs first if necessary.
async fn build(cache: &Cache, options: &Options, report: &dyn Fn(&str)) -> Result<Programs, WorldError> {
    let kubernetes = Kubernetes::find(cache, options.nodes, options.minor(), report).await?;
    let on_nodes = match options.nodes {
        Nodes::Simulated => None,
        Nodes::Real => Some(OnNodes {
            containerd: containerd::find(&cache.tools(), report).await?,
            images: images::find(&cache.images(), report).await?,
        }),
    };
    Ok(Programs { kubernetes, on_nodes })
}

fn make_plan(folder: &Path, options: Options, base: Base) -> Result<Plan, WorldError> {
    let network = network(base, options.zones, options.nodes_per_zone);
    let ports = ports::choose(network.servers)
        .map_err(|source| WorldError::NoAddress { address: network.servers, source })?;
    let myself = std::env::current_exe().map_err(WorldError::at("/proc/self/exe"))?;
    let programs = myself.parent().map(Path::to_path_buf).unwrap_or_default();
    // The name is unique on this machine, even if another cache contains a local cluster with the same name.
    let Process { pid, born } = Process::current();
    let cgroup = format!("headgate-{pid}-{born}");
    let slot = match base {
        Base::Slot(number) => number,
        Base::Own => 0,
    };
    let folder = folder.to_path_buf();
    Ok(Plan { options, slot, network, ports, folder, programs, cgroup, images: Vec::new() })
}

/// Writes keys, certificates and kubeconfig files. Returns the administrator's kubeconfig.
fn write_pki(plan: &Plan) -> Result<String, WorldError> {
    let authority = Pki::generate()?;
    authority.write(&plan.pki(), plan.network.servers)?;
    let write = |name: &str, user: &str, group: Option<&'static str>| {
        let user = authority.client(Identity { user, group })?;
        let world = plan.options.name.as_str();
        let text = kubeconfig(world, plan.ports.api_server, &authority.authority(), &user);
        pki::write_private(&plan.pki().join(format!("{name}.kubeconfig")), &text)
    };
    if plan.options.nodes == Nodes::Real {
        for (_, node, _) in plan.network.nodes() {
            write(node, &format!("system:node:{node}"), Some("system:nodes"))?;
        }
        write("kube-proxy", "system:kube-proxy", None)?;
    }
    let mut admin = String::new();
    for (component, identity) in USERS {
        let user = authority.client(identity)?;
        let text =
            kubeconfig(plan.options.name.as_str(), plan.ports.api_server, &authority.authority(), &user);
        let path = component.map_or_else(|| plan.kubeconfig(), |name| plan.component_kubeconfig(name));
        pki::write_private(&path, &text)?;
        if component.is_none() {
            admin = text;
        }
    }
    Ok(admin)
}

fn failed_early(plan: &Plan, component: Component) -> WorldError {
    let log = plan.log(component);
    WorldError::DidNotStart {
        component,
        reason: "its process ended".to_owned(),
        tail: crate::tail::tail(&log),
        log,
    }
}

/// Answers requests on the control socket.
#[derive(Clone)]
struct Office {
    board: Arc<Board>,
    fleet: Arc<Mutex<Fleet>>,
    stop: CancellationToken,
}

impl Office {
    async fn listen(self, listener: UnixListener) -> io::Error {
        loop {
            match listener.accept().await {
                Ok((mut stream, _)) => {
                    let office = self.clone();
                    tokio::spawn(async move {
                        if let Err(error) = office.answer(&mut stream).await {
                            tracing::warn!(%error, "a request on the control socket was not answered");
                        }
                    });
                }
                Err(error) => return error,
            }
        }
    }

    async fn answer(&self, stream: &mut tokio::net::UnixStream) -> io::Result<()> {
        let request = control::receive(stream).await?;
        tracing::info!(?request, "asked");
        let response = match request {
            Request::Status => Response::Status(Box::new(self.board.facts())),
            Request::Down => {
                control::respond(stream, &Response::Done).await?;
                self.stop.cancel();
                // The connection closes when this process exits, which signals the stop to the client.
                return std::future::pending().await;
            }
            Request::Stop { component } => {
                self.work(async |fleet| fleet.stop(component, Ending::Orderly).await).await
            }
            Request::Kill { component } => {
                self.work(async |fleet| fleet.stop(component, Ending::Kill).await).await
            }
            Request::Start { component } => self.work(async |fleet| fleet.start(component).await).await,
            Request::Restart { component } => {
                self.work(async |fleet| {
                    fleet.stop(component, Ending::Orderly).await?;
                    fleet.start(component).await
                })
                .await
            }
        };
        control::respond(stream, &response).await
    }

    /// Executes one request on the fleet. Requests run one at a time, until they complete or the cluster stops.
    async fn work(&self, work: impl AsyncFnOnce(&mut Fleet) -> Result<(), WorldError>) -> Response {
        if !self.board.facts().ready {
            return Response::Refused("the world is still starting".to_owned());
        }
        let done = async {
            let mut fleet = self.fleet.lock().await;
            work(&mut fleet).await
        };
        tokio::select! {
            () = self.stop.cancelled() => Response::Refused("the world is being taken down".to_owned()),
            outcome = done => match outcome {
                Ok(()) => Response::Done,
                Err(error) => Response::Refused(error.to_string()),
            },
        }
    }
}

/// Removes the files of a killed supervisor of this cluster. The held lock proves that the supervisor has exited.
pub(crate) fn remove_remains(cache: &Cache, name: &WorldName, _lock: &FileLock) -> Result<bool, WorldError> {
    let folder = cache.world(name);
    if !folder.exists() {
        return Ok(false);
    }
    // The kernel has killed the supervisor's children, but the children may take a moment to exit.
    if let Ok(facts) = Facts::read(&folder) {
        for process in facts.components.iter().filter_map(|component| component.process) {
            let deadline = std::time::Instant::now() + Duration::from_secs(5);
            process.kill();
            while process.is_alive() && std::time::Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }
    if let Ok(facts) = Facts::read(&folder) {
        remove_cgroups(&facts.cgroup)?;
    }
    remove_folder(&folder)?;
    Ok(true)
}

fn remove_folder(folder: &Path) -> Result<(), WorldError> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(WorldError::at(folder)(error)),
        _ => Ok(()),
    }
}

/// Moves the logs of a failed start to a folder that outlives the cluster, and adds the path to the error.
fn keep_logs(folder: &Path, kept: &Path, error: WorldError) -> WorldError {
    let logs = plan::logs(folder);
    let moved = || {
        if let Some(parent) = kept.parent() {
            fs::create_dir_all(parent)?;
        }
        remove_folder(kept).map_err(io::Error::other)?;
        fs::rename(&logs, kept)
    };
    if moved().is_err() {
        return error;
    }
    match error {
        WorldError::DidNotStart { component, reason, log, tail } => {
            let log = log.file_name().map_or_else(PathBuf::new, |name| kept.join(name));
            WorldError::DidNotStart { component, reason, log, tail }
        }
        other => other,
    }
}
