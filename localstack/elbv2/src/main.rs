//! `elbv2`: a local stand-in for AWS Elastic Load Balancing v2, as a process.

use std::io::{IsTerminal, Write};
use std::net::SocketAddr;

use anyhow::{Context, anyhow};
use clap::{Parser, ValueEnum};
use ipnet::IpNet;
use localstack_elbv2::{Profile, Settings, Subnet, Vpc, serve};
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

/// A local stand-in for AWS Elastic Load Balancing v2, with propagation delays, draining and real traffic.
#[derive(Debug, Parser)]
#[command(name = "elbv2", version)]
struct Options {
    /// Socket of the AWS Query API; port 0 takes any free one
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDRESS")]
    api: SocketAddr,
    /// Socket of the control API
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDRESS")]
    control: SocketAddr,
    /// UDP socket of the DNS server
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDRESS")]
    dns: SocketAddr,
    /// Real seconds per AWS second
    #[arg(long, default_value_t = 0.05)]
    time_scale: f64,
    /// Named set of behavior to start with [default: published and measured delays, no limits]
    #[arg(long, value_enum)]
    profile: Option<Profile>,
    /// Region in ARNs and names
    #[arg(long, default_value = "us-east-1")]
    region: String,
    /// Account in ARNs
    #[arg(long, default_value = "123456789012")]
    account: String,
    /// The VPC [default: vpc-0a1b2c3d4e5f60718=127.101.0.0/16]
    #[arg(long, value_name = "ID=CIDR")]
    vpc: Option<Vpc>,
    /// A subnet; give one per zone [default: three of /19 from the start of 127.101.0.0/16]
    #[arg(long, value_name = "ID=ZONE=CIDR")]
    subnet: Vec<Subnet>,
    /// Range of the load balancers' nodes, on loopback [default: 127.101.224.0/19]
    #[arg(long, value_name = "CIDR")]
    node_addresses: Option<IpNet>,
    /// This process is in a network namespace without a route out: nodes need not be on loopback, and the stand-in
    /// contacts every address in the VPC
    #[arg(long)]
    own_network: bool,
    /// Seed of all delays and identifiers
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Trace entries kept in memory
    #[arg(long, default_value_t = 500_000, value_name = "ENTRIES")]
    trace_capacity: usize,
    /// Form of the log on standard error
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    log_format: LogFormat,
    /// Print one line of JSON with the addresses on standard output when all sockets are open
    #[arg(long)]
    print_ready: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum LogFormat {
    Text,
    Json,
}

impl Options {
    fn settings(self) -> Settings {
        let default = Settings::default();
        Settings {
            api: self.api,
            control: self.control,
            dns: self.dns,
            time_scale: self.time_scale,
            profile: self.profile,
            region: self.region,
            account: self.account,
            vpc: self.vpc.unwrap_or(default.vpc),
            subnets: if self.subnet.is_empty() { default.subnets } else { self.subnet },
            node_addresses: self.node_addresses.unwrap_or(default.node_addresses),
            own_network: self.own_network,
            seed: self.seed,
            trace_capacity: self.trace_capacity,
        }
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let colours = std::io::stderr().is_terminal();
    let log =
        tracing_subscriber::fmt().with_env_filter(filter).with_ansi(colours).with_writer(std::io::stderr);
    match options.log_format {
        LogFormat::Text => log.init(),
        LogFormat::Json => log.json().init(),
    }
    let print_ready = options.print_ready;
    let mut terminate = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot wait for SIGINT")?;

    let running = serve(options.settings()).await?;
    let at = running.addresses();
    tracing::info!(api = %at.api, control = %at.control, dns = %at.dns, "ready");
    if print_ready {
        let line = serde_json::json!({"ready": true, "api": at.api, "control": at.control, "dns": at.dns});
        let mut out = std::io::stdout();
        writeln!(out, "{line}").and_then(|()| out.flush()).context("cannot print the ready line")?;
    }
    let failed = tokio::select! {
        _ = terminate.recv() => None,
        _ = interrupt.recv() => None,
        name = running.failed() => Some(name),
    };
    running.shutdown().await;
    failed.map_or(Ok(()), |name| Err(anyhow!("the task '{name}' ended early; its last words are in the log")))
}
