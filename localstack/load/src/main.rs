//! `load`: sends and counts requests. The exit code shows whether a request was lost.

use std::fs::File;
use std::io::{BufWriter, IsTerminal, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::{ArgGroup, Parser, ValueEnum};
use localstack_load::{Answer, Client, ClientKind, Counts, Mode, Plan, Report, Run, Target};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{MissedTickBehavior, interval};

/// Sends requests at a constant rate, independently of the answers, and records every request.
///
/// Exits with 0 if no request was lost, 1 if one was, 2 if the command line is invalid, 3 if the run or its report
/// failed.
#[derive(Debug, Parser)]
#[command(name = "load", version)]
#[command(group(ArgGroup::new("target").required(true).args(["name", "address"])))]
struct Options {
    /// DNS name of the load balancer
    #[arg(long, requires = "dns")]
    name: Option<String>,
    /// DNS server, queried over UDP
    #[arg(long, value_name = "IP:PORT", conflicts_with = "address")]
    dns: Option<SocketAddr>,
    /// One address instead of a name
    #[arg(long, value_name = "IP", conflicts_with = "pinned")]
    address: Option<IpAddr>,
    /// Port of the listener
    #[arg(long)]
    port: u16,
    /// Requests per second, in total over all clients
    #[arg(long, default_value_t = 100.0)]
    rate: f64,
    /// Time in seconds during which requests start
    #[arg(long, default_value_t = 10.0, value_name = "SECONDS")]
    duration: f64,
    /// A connection per request, or as few connections as possible
    #[arg(long, value_enum, default_value_t = Connections::New)]
    mode: Connections,
    /// Number of clients, which send in turn
    #[arg(long, default_value_t = 1)]
    clients: usize,
    /// Number of clients that never repeat their first DNS lookup
    #[arg(long, default_value_t = 0)]
    pinned: usize,
    /// Timeout of a request, in milliseconds
    #[arg(long, default_value_t = 2000, value_name = "MILLISECONDS")]
    timeout_ms: u64,
    /// Delay of a request's start from which it counts as behind, in milliseconds
    #[arg(long, default_value_t = 50, value_name = "MILLISECONDS")]
    tolerance_ms: u64,
    /// Path of the requests, with an optional query; the request's number is appended to the path
    #[arg(long, default_value = "/load")]
    path: String,
    /// Accept any body, not only a simulated pod's answer to the same request
    #[arg(long)]
    any_body: bool,
    /// Write every request to this file, one JSON object per line
    #[arg(long, value_name = "FILE")]
    records: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Connections {
    New,
    KeepAlive,
}

impl Options {
    fn plan(&self) -> anyhow::Result<Plan> {
        let target = match (&self.name, self.dns, self.address) {
            (Some(name), Some(dns), _) => Target::Name { name: name.clone(), dns },
            (_, _, Some(address)) => Target::Address(address),
            _ => bail!("give --name and --dns, or --address"),
        };
        if self.pinned > self.clients {
            bail!("{} clients cannot be pinned, there are only {}", self.pinned, self.clients);
        }
        let duration = Duration::try_from_secs_f64(self.duration)
            .with_context(|| format!("--duration {} is not a number of seconds", self.duration))?;
        let mode = match self.mode {
            Connections::New => Mode::New,
            Connections::KeepAlive => Mode::KeepAlive,
        };
        let client = |index| {
            let kind = if index < self.pinned { ClientKind::Pinned } else { ClientKind::Following };
            Client { kind, mode }
        };
        Ok(Plan {
            duration: Some(duration),
            timeout: Duration::from_millis(self.timeout_ms),
            tolerance: Duration::from_millis(self.tolerance_ms),
            path: self.path.clone(),
            answer: if self.any_body { Answer::Any } else { Answer::Pod },
            clients: (0..self.clients).map(client).collect(),
            ..Plan::new(target, self.port, self.rate)
        })
    }
}

/// The exit code for an invalid command line.
const USAGE: u8 = 2;
/// The exit code if the run failed or its result could not be written.
const FAILED: u8 = 3;

#[tokio::main]
async fn main() -> ExitCode {
    let options = Options::parse();
    let (run, records) = match start(&options) {
        Ok(started) => started,
        Err(error) => return fail(&error, USAGE),
    };
    match finish(run, records, options.json).await {
        Ok(report) if report.counts.lost == 0 => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => fail(&error, FAILED),
    }
}

fn fail(error: &anyhow::Error, code: u8) -> ExitCode {
    // A failed write is ignored, because the exit code shows the result too.
    let _ = writeln!(std::io::stderr(), "error: {error:#}");
    ExitCode::from(code)
}

fn start(options: &Options) -> anyhow::Result<(Run, Option<File>)> {
    let plan = options.plan()?;
    // The file is created before the run, so that the results of the run are not lost.
    let create =
        |path: &PathBuf| File::create(path).with_context(|| format!("cannot write {}", path.display()));
    let records = options.records.as_ref().map(create).transpose()?;
    Ok((Run::start(plan)?, records))
}

async fn finish(run: Run, records: Option<File>, as_json: bool) -> anyhow::Result<Report> {
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot wait for SIGINT")?;
    let mut terminate = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
    tokio::select! {
        () = run.finished() => {}
        () = show_progress(&run) => {}
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    // The records of a run with a duration always have enough room.
    let report = run.stop().await?;
    if let Some(file) = records {
        report.write_records(BufWriter::new(file)).context("cannot write the records")?;
    }
    let text = if as_json {
        serde_json::to_string(&report.summary()).context("cannot express the result")? + "\n"
    } else {
        report.to_string()
    };
    let mut out = std::io::stdout();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).context("cannot print the result")?;
    Ok(report)
}

/// Prints one line per second if the output is a terminal. Never returns.
async fn show_progress(run: &Run) {
    if !std::io::stderr().is_terminal() {
        return std::future::pending().await;
    }
    let mut ticks = interval(Duration::from_secs(1));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    ticks.tick().await;
    for second in 1_u64.. {
        ticks.tick().await;
        let counts = run.counts();
        let Counts { offered, ok, retried, lost, behind } = counts;
        let in_flight = counts.in_flight();
        // A closed terminal does not stop the run.
        let _ = writeln!(
            std::io::stderr(),
            "{second:>4} s  offered {offered}  ok {ok}  retried {retried}  lost {lost}  in flight {in_flight}  \
             behind {behind}"
        );
    }
}
