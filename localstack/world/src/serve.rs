//! Runs a supervisor, from the flags on the command line to the exit code.
//!
//! The module sets up the environment of [`supervisor::serve`]: the runtime, the session, the signals, the pipe from
//! the parent, and the log. A supervisor stops on SIGINT, SIGTERM and SIGHUP. With `--parent-pipe`, the supervisor also
//! stops when its standard input is closed.

use std::{
    fs::File,
    io::{self, Write},
    os::fd::AsFd,
    path::PathBuf,
    process::ExitCode,
};

use clap::Args;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    net::unix::pipe,
    runtime::Runtime,
    signal::unix::{SignalKind, signal},
};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

use crate::{
    cache::Cache,
    console,
    error::WorldError,
    facts::Facts,
    options::Options,
    plan, report, supervisor,
    world::{Announcement, DETACH},
};

#[derive(Args)]
pub(crate) struct ServeArguments {
    #[command(flatten)]
    options: Options,

    /// Stop the world when standard input ends
    #[arg(long)]
    parent_pipe: bool,

    /// Leave the session of the parent
    #[arg(long)]
    new_session: bool,
}

/// Creates a runtime on the calling thread, which must be the main thread. Children are tied to the thread that starts
/// them, and the main thread runs until the process exits.
pub(crate) fn runtime() -> Result<Runtime, WorldError> {
    let built = tokio::runtime::Builder::new_current_thread().enable_all().build();
    built.map_err(WorldError::at("the asynchronous runtime"))
}

/// Runs a supervisor for another process, and reports the result on standard output.
pub(crate) fn serve(arguments: ServeArguments) -> ExitCode {
    let outcome = session(arguments.new_session).and_then(|()| {
        run(arguments.options, arguments.parent_pipe, |facts| {
            announce(&Announcement::Ready(facts.folder.clone()));
            if arguments.new_session {
                leave_the_terminal(facts);
            }
        })
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            announce(&Announcement::Failed(error.to_string()));
            ExitCode::FAILURE
        }
    }
}

/// Runs a supervisor for a user at a terminal.
pub(crate) fn foreground(options: Options) -> ExitCode {
    let told = |facts: &Facts| {
        print!("{}", report::up(facts, &console::program()));
        println!("Ctrl-C takes everything down.");
    };
    match run(options, false, told) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => console::complain(&error),
    }
}

fn run(options: Options, parent_pipe: bool, ready: impl FnOnce(&Facts)) -> Result<(), WorldError> {
    let cache = Cache::from_environment()?;
    log_to(plan::logs(&cache.world(&options.name)).join("world.log"));
    let report = |sentence: &str| eprintln!("{sentence}");
    runtime()?.block_on(async {
        let stop = CancellationToken::new();
        watch_signals(&stop)?;
        if parent_pipe {
            watch_parent(&stop)?;
        }
        supervisor::serve(&cache, options, stop, &report, ready).await
    })
}

fn session(new: bool) -> Result<(), WorldError> {
    if new {
        let failed = |error: rustix::io::Errno| WorldError::at("a new session")(error.into());
        rustix::process::setsid().map_err(failed)?;
    }
    Ok(())
}

/// Redirects standard error to the log, because the terminal may close from now on.
fn leave_the_terminal(facts: &Facts) {
    let log = File::options().create(true).append(true).open(facts.logs.join("world.log"));
    if let Err(error) = log.and_then(|log| Ok(rustix::stdio::dup2_stderr(log)?)) {
        tracing::warn!(%error, "standard error still is where it was");
    }
}

fn announce(announcement: &Announcement) {
    let mut output = io::stdout().lock();
    let line = serde_json::to_string(announcement).unwrap_or_default();
    // The supervisor also runs if no process reads the output.
    let _ = writeln!(output, "{line}").and_then(|()| output.flush());
}

fn watch_signals(stop: &CancellationToken) -> Result<(), WorldError> {
    for kind in [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()] {
        let mut signals = signal(kind).map_err(WorldError::at("the signals of this process"))?;
        let stop = stop.clone();
        tokio::spawn(async move {
            signals.recv().await;
            stop.cancel();
        });
    }
    Ok(())
}

/// Cancels `stop` when the pipe on standard input is closed. If a line requested to continue without the pipe, `stop`
/// is not cancelled.
fn watch_parent(stop: &CancellationToken) -> Result<(), WorldError> {
    let input = io::stdin().as_fd().try_clone_to_owned().and_then(pipe::Receiver::from_owned_fd);
    let input = input.map_err(WorldError::at("the pipe on standard input"))?;
    let stop = stop.clone();
    tokio::spawn(async move {
        let mut lines = BufReader::new(input).lines();
        match lines.next_line().await {
            Ok(Some(line)) if line == DETACH => {}
            _ => stop.cancel(),
        }
    });
    Ok(())
}

/// Writes log lines into the cluster's folder, which does not exist yet. The log has few lines, so each line opens the
/// file.
fn log_to(path: PathBuf) {
    let writer = move || -> Box<dyn Write> {
        match File::options().create(true).append(true).open(&path) {
            Ok(file) => Box::new(file),
            Err(_) => Box::new(io::sink()),
        }
    };
    // Failed probes of components that do not serve yet are normal.
    let filter = EnvFilter::new("info,kube_client=off,tower=off");
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(writer)
        .with_ansi(false)
        .with_target(false);
    // The call fails only if the process already has a subscriber, which is no problem.
    let _ = subscriber.try_init();
}
