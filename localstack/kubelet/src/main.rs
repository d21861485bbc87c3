//! The `kubelet` command: parses options, sets up the log and signals, and prints the ready line.

use anyhow::Context;
use clap::{Parser, ValueEnum};
use localstack_kubelet::node::object::KUBELET_VERSION;
use localstack_kubelet::{NodeOption, Options, Ready, ZoneOption};
use std::io::{IsTerminal, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

/// A simulated kubelet: nodes, Leases, pods and their status on a real Kubernetes control plane. Each pod is an HTTP
/// server on a loopback address.
#[derive(Debug, Parser)]
#[command(name = "kubelet", version)]
struct Arguments {
    /// The kubeconfig of an administrator
    #[arg(long, value_name = "FILE")]
    kubeconfig: PathBuf,
    /// A node and its zone; may be given several times
    #[arg(long = "node", value_name = "NAME=ZONE", required = true)]
    nodes: Vec<NodeOption>,
    /// A zone and the addresses of its pods; may be given several times
    #[arg(long = "zone", value_name = "ZONE=CIDR", required = true)]
    zones: Vec<ZoneOption>,
    /// Factor for how long a returned pod address is not reused (30 s at 1)
    #[arg(long, default_value_t = 1.0)]
    time_scale: f64,
    /// Address of the control API; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    control: SocketAddr,
    /// How many pods the scheduler may put on each node
    #[arg(long, default_value_t = 110)]
    max_pods: u32,
    /// The version that the nodes report
    #[arg(long, value_name = "VERSION", default_value = KUBELET_VERSION)]
    kubelet_version: String,
    /// The form of the log on standard error
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    log_format: LogFormat,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum LogFormat {
    Text,
    Json,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    log(arguments.log_format);
    // The provider must be installed before the first TLS connection. An error means that a provider was already
    // installed.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    raise_file_limit();

    let shutdown = CancellationToken::new();
    let (ready, is_ready) = oneshot::channel();
    let options = Options {
        kubeconfig: arguments.kubeconfig,
        nodes: arguments.nodes,
        zones: arguments.zones,
        time_scale: arguments.time_scale,
        control: arguments.control,
        max_pods: arguments.max_pods,
        kubelet_version: arguments.kubelet_version,
        ready: Some(ready),
    };
    let mut terminate = signal(SignalKind::terminate()).context("SIGTERM cannot be handled")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("SIGINT cannot be handled")?;
    let stop = shutdown.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        stop.cancel();
    });
    tokio::spawn(async move {
        if let Ok(Ready { control }) = is_ready.await {
            let line = serde_json::json!({"ready": true, "control": control});
            // The kubelet also runs if no process reads the output.
            let _ = writeln!(std::io::stdout(), "{line}");
        }
    });
    localstack_kubelet::run(options, shutdown).await?;
    Ok(())
}

fn log(format: LogFormat) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let colour = std::io::stderr().is_terminal();
    let builder =
        tracing_subscriber::fmt().with_env_filter(filter).with_ansi(colour).with_writer(std::io::stderr);
    match format {
        LogFormat::Text => builder.init(),
        LogFormat::Json => builder.json().init(),
    }
}

/// Raises the limit of open files to the system's maximum, because each pod has a socket per port and per connection.
fn raise_file_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }) {
        tracing::warn!(%error, "the limit of open files stays as it is");
    }
}
