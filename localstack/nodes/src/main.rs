//! The `nodes` command, which runs real nodes in the network namespace of this process.

use std::{
    collections::BTreeMap,
    io::Write,
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    process::ExitCode,
    sync::Arc,
};

use anyhow::{Context, bail};
use clap::{Args, Parser, Subcommand};
use ipnet::Ipv4Net;
use localstack_nodes::{
    ImageOption, Layout, NodeOption, ZoneOption,
    control::{self, Controls},
    image,
    machine::{self, MachineArguments},
    node::Node,
    proxy, requirements,
};
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
    sync::Mutex,
};
use tracing_subscriber::EnvFilter;

/// Real Kubernetes nodes on one machine: kubelet, containerd and runc in namespaces.
#[derive(Debug, Parser)]
#[command(name = "nodes", version)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Start nodes in the network namespace of this process, and run until SIGTERM
    Run(RunArguments),
    /// Pack a static binary as a container image, for `ctr images import`
    Pack(PackArguments),
    /// Run as the first process of a node's namespaces
    #[command(hide = true)]
    Machine(MachineArguments),
}

#[derive(Debug, Args)]
struct RunArguments {
    /// The folder of all nodes' disks; not below /run or /var, because every node has its own
    #[arg(long)]
    folder: PathBuf,
    /// The folder of all logs
    #[arg(long)]
    logs: PathBuf,
    /// The folder of `kubelet`, `kube-proxy`, `containerd`, `ctr` and `containerd-shim-runc-v2`
    #[arg(long)]
    programs: PathBuf,
    /// The folder of NODE.kubeconfig and kube-proxy.kubeconfig
    #[arg(long)]
    credentials: PathBuf,
    /// The prefix of all cgroup names
    #[arg(long)]
    cgroup: String,
    /// The address of kube-proxy
    #[arg(long)]
    servers: Ipv4Addr,
    /// All addresses of the VPC
    #[arg(long)]
    vpc: Ipv4Net,
    /// A zone and the addresses of its pods; may be given several times
    #[arg(long = "zone", value_name = "ZONE=CIDR", required = true)]
    zones: Vec<ZoneOption>,
    /// A node, its zone and the address of its kubelet; may be given several times
    #[arg(long = "node", value_name = "NAME=ZONE=IP", required = true)]
    nodes: Vec<NodeOption>,
    /// An image for every node, and its static binary; may be given several times
    #[arg(long = "image", value_name = "IMAGE=FILE")]
    images: Vec<ImageOption>,
    /// The address of the control API
    #[arg(long, value_name = "ADDRESS")]
    control: SocketAddr,
}

#[derive(Debug, Args)]
struct PackArguments {
    /// The image and the binary
    #[arg(value_name = "IMAGE=FILE")]
    image: ImageOption,
    /// Another file in the image; may be given several times
    #[arg(long = "file", value_name = "PATH=FILE", value_parser = file)]
    files: Vec<(String, PathBuf)>,
    /// The tar file to write
    into: PathBuf,
}

fn file(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((path, file)) if path.starts_with('/') => Ok((path.to_owned(), file.into())),
        _ => {
            Err("expected the path in the image and a file here, as /etc/ssl/certs/ca-certificates.crt=FILE"
                .to_owned())
        }
    }
}

fn main() -> ExitCode {
    let outcome = match CommandLine::parse().command {
        Command::Machine(arguments) => machine::run(&arguments).map_err(Into::into),
        Command::Pack(arguments) => {
            let ImageOption { name, binary } = &arguments.image;
            image::pack(name, binary, &arguments.files.into_iter().collect(), None, &arguments.into)
                .map_err(Into::into)
        }
        Command::Run(arguments) => {
            // The runtime uses only the main thread, because machines are tied to the thread that starts them.
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.map_err(Into::into).and_then(|runtime| runtime.block_on(run(arguments)))
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: RunArguments) -> anyhow::Result<()> {
    tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info")))
        .with_ansi(false)
        .with_writer(std::io::stderr)
        .init();
    let mut terminate = signal(SignalKind::terminate()).context("SIGTERM cannot be handled")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("SIGINT cannot be handled")?;
    requirements::check()?;
    let control = arguments.control;
    let layout = layout(arguments)?;
    let listener = TcpListener::bind(control).await.with_context(|| format!("cannot listen on {control}"))?;
    let images = layout.folder.join("images");
    std::fs::create_dir_all(&images).with_context(|| format!("cannot use {}", images.display()))?;
    let packed = pack_all(&layout, &images)?;
    let mut nodes = Vec::new();
    for option in &layout.nodes {
        let node = Node::prepare(&layout, option, &packed);
        nodes.push(Mutex::new(node.with_context(|| format!("cannot configure {}", option.name))?));
    }
    let controls = Arc::new(Controls { nodes, images });
    let mut proxy = proxy::start(&layout).context("cannot start kube-proxy")?;

    let outcome = tokio::select! {
        _ = terminate.recv() => Ok(()),
        _ = interrupt.recv() => Ok(()),
        ended = proxy.wait() => Err(anyhow::anyhow!("kube-proxy ended ({ended:?}): see its log")),
        outcome = serve(listener, Arc::clone(&controls)) => outcome,
    };
    let off = controls.nodes.iter().map(async |node| node.lock().await.off().await);
    for ended in futures::future::join_all(off).await {
        ended?;
    }
    outcome
}

/// Switches on every node, prints the ready line, and serves the control API until the process exits.
async fn serve(listener: TcpListener, controls: Arc<Controls>) -> anyhow::Result<()> {
    let on = controls.nodes.iter().map(async |node| {
        let mut node = node.lock().await;
        node.on().await?;
        tracing::info!(node = node.name(), zone = node.zone(), "on");
        Ok::<_, anyhow::Error>(())
    });
    for outcome in futures::future::join_all(on).await {
        outcome?;
    }
    let control = listener.local_addr().context("the control API has no address")?;
    let line = serde_json::json!({"ready": true, "control": control});
    // The nodes also run if no process reads the output.
    let _ = writeln!(std::io::stdout(), "{line}");
    axum::serve(listener, control::routes(controls)).await.context("the control API ended")
}

fn layout(arguments: RunArguments) -> anyhow::Result<Layout> {
    let RunArguments {
        folder, logs, programs, credentials, cgroup, servers, vpc, zones, nodes, images, ..
    } = arguments;
    for path in [&folder, &programs, &credentials] {
        if path.starts_with("/run") || path.starts_with("/var") {
            bail!(
                "{} cannot be used: every node has a /run and /var of its own; set HEADGATE_CACHE to a folder \
                 elsewhere",
                path.display()
            );
        }
    }
    if let Some(node) = nodes.iter().find(|node| !zones.iter().any(|zone| zone.name == node.zone)) {
        bail!("{} is in {}, which is no --zone", node.name, node.zone);
    }
    Ok(Layout { folder, logs, programs, credentials, cgroup, servers, vpc, zones, nodes, images })
}

fn pack_all(layout: &Layout, folder: &std::path::Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut packed = Vec::new();
    for (number, option) in layout.images.iter().enumerate() {
        let into = folder.join(format!("{number}.tar"));
        image::pack(&option.name, &option.binary, &BTreeMap::new(), None, &into)?;
        packed.push(into);
    }
    Ok(packed)
}
