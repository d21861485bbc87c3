//! The program `headgate`: its command line and the commands for people.
//!
//! ```text
//!  headgate run, daemonsets, certificates ─► the crate `headgate`, with its flags
//!  headgate status, diff, explain, ui ─► reach: the leader, by its Lease, forwarded by the API server ─► /debug/*
//!  headgate doctor, migrate ─► the same, and the cluster and AWS with the caller's rights
//!  headgate drain, uninstall ─► the cluster with the caller's rights
//! ```

mod arguments;
mod diff;
#[cfg(test)]
mod docs;
mod doctor;
mod drain;
mod explain;
mod journal;
mod migrate;
#[cfg(test)]
mod properties;
mod screen;
mod status;
mod ui;
mod uninstall;

use std::{
    ffi::OsStr,
    io::{Write, stdout},
    path::Path,
    process::ExitCode,
};

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use clap_complete::Shell;
use headgate::{
    api,
    flags::{Certificates, Daemonsets, Run},
    kube::words::plain_chain,
};
use headgate_core::model::excerpt::shown;

use self::arguments::{
    diff::Diff,
    doctor::Doctor,
    drain::Drain,
    explain::Explain,
    migrate::{self as migrating, Migrate},
    status::Status,
    ui::Ui,
    uninstall::Uninstall,
};
use crate::screen::screen;

/// Puts pods into AWS target groups the moment they have an IP, and takes them out before they end.
#[derive(Debug, Parser)]
#[command(name = "headgate", version, max_term_width = 110)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the controller until SIGTERM.
    Run(Box<Run>),
    /// Run the controller of IngressDaemonSets until SIGTERM: it makes, rolls and ends their pods. It is a program beside
    /// `run`, with rights of its own.
    Daemonsets(Box<Daemonsets>),
    /// Keep the webhook's certificate, its secret path and its configurations until SIGTERM. It is a program beside `run`, with
    /// rights of its own: one Secret and two webhook configurations.
    Certificates(Box<Certificates>),
    /// Evict a pod, or the pods of a node, and say of each what it waits for. Pods of DaemonSets are left alone.
    Drain(Drain),
    /// Print the CustomResourceDefinitions, for `kubectl apply -f -`.
    Crd,
    /// Print what a shell needs to complete the arguments, e.g. for `source <(headgate completion bash)`.
    Completion {
        /// The shell.
        shell: Shell,
    },
    /// Say of a pod why it is a target, or why not: what binds it, what AWS was told and says, its readiness gate and its
    /// hold, what is done next and what that waits for, and what became of it. The same of the pods of a Service, a
    /// TargetBinding, an IngressDaemonSet or a node. Exit code 1 if there is no such object, and nothing is remembered of it.
    Explain(Explain),
    /// Say what is wrong, the worst first, and how every target group stands, by zone: wanted, healthy, draining, when it was
    /// last read, and what waits.
    Status(Status),
    /// Open the page in a browser: target groups by zone, the life of each target, what is wrong and why, and the journal, live.
    /// It is reached as `headgate status` is, and stays until Ctrl-C.
    Ui(Ui),
    /// Say target by target what is otherwise in the target groups than it should be, and why. Exit code 0: nothing is; 1:
    /// something is, or a target group was not read yet; 2: it cannot be said.
    Diff(Diff),
    /// Look for what is missing or dangerous in the cluster, the webhook, the pods, AWS and the Services, and say what to
    /// do. Changes nothing. Exit code 1 if anything is an error.
    Doctor(Doctor),
    /// Leave the cluster: open the readiness gates that wait, take away Headgate's finalizers, and say what stays. Targets
    /// stay, unless --remove-targets says otherwise. Scale `headgate run` down to 0 first, or name its Deployment with --stop.
    /// May be done again.
    Uninstall(Uninstall),
    /// Move over from another controller without a gap, or back.
    #[command(subcommand)]
    Migrate(Migrate),
}

/// The command line; where kubectl calls the program as a plugin, by a link `kubectl-headgate`, usage says so.
fn called_as(program: Option<&OsStr>) -> clap::Command {
    let name = program.and_then(|path| Path::new(path).file_name());
    if name == Some(OsStr::new("kubectl-headgate")) {
        Cli::command().bin_name("kubectl headgate")
    } else {
        Cli::command()
    }
}

/// Parses the command line and does what it says. Exit codes: 0 done, 1 failed, 2 wrong usage.
pub fn main() -> ExitCode {
    let command = match Cli::from_arg_matches(&called_as(std::env::args_os().next().as_deref()).get_matches())
    {
        Ok(cli) => cli.command,
        Err(error) => error.exit(),
    };
    let done = match command {
        Command::Run(arguments) => run(*arguments),
        Command::Daemonsets(arguments) => daemonsets(*arguments),
        Command::Certificates(arguments) => certificates(*arguments),
        Command::Drain(arguments) => drain(arguments),
        Command::Crd => crd(),
        Command::Completion { shell } => {
            clap_complete::generate(shell, &mut Cli::command(), "headgate", &mut stdout());
            Ok(())
        }
        Command::Explain(arguments) => explain(arguments),
        Command::Status(arguments) => status(arguments),
        Command::Ui(arguments) => ui(arguments),
        Command::Uninstall(arguments) => uninstall(arguments),
        Command::Diff(arguments) => match diff(arguments) {
            Ok(true) => return ExitCode::FAILURE,
            Ok(false) => Ok(()),
            Err(error) => {
                eprintln!("headgate: {}", shown(&plain_chain(&error)));
                return ExitCode::from(2);
            }
        },
        Command::Migrate(Migrate::Lbc(arguments)) => match migrate(*arguments) {
            Ok(true) => return ExitCode::FAILURE,
            done => done.map(|_| ()),
        },
        Command::Doctor(arguments) => match doctor(arguments) {
            Ok(true) => return ExitCode::FAILURE,
            done => done.map(|_| ()),
        },
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("headgate: {}", shown(&plain_chain(&error)));
            ExitCode::FAILURE
        }
    }
}

fn crd() -> anyhow::Result<()> {
    stdout().write_all(api::definitions()?.as_bytes())?;
    Ok(())
}

/// kube and the AWS client share one TLS provider; with none installed rustls would have to guess.
fn install_tls() -> anyhow::Result<()> {
    rustls::crypto::aws_lc_rs::default_provider()
        .install_default()
        .map_err(|_| anyhow::anyhow!("a TLS provider was installed already; this is a bug"))
}

fn explain(arguments: Explain) -> anyhow::Result<()> {
    install_tls()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(explain::command::explain(arguments.options(), &mut screen()))
}

fn status(arguments: Status) -> anyhow::Result<()> {
    install_tls()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(status::command::status(arguments.options(), &mut screen()))
}

fn ui(arguments: Ui) -> anyhow::Result<()> {
    install_tls()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(ui::ui(arguments.options(), &mut screen()))
}

fn diff(arguments: Diff) -> anyhow::Result<bool> {
    install_tls()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(diff::command::diff(arguments.options(), &mut screen()))
}

fn doctor(arguments: Doctor) -> anyhow::Result<bool> {
    install_tls()?;
    let (options, json) = arguments.options();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(doctor::command::doctor(options, json, &mut screen()))
}

fn drain(arguments: Drain) -> anyhow::Result<()> {
    install_tls()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(drain::drain(arguments.options(), &mut screen()))
}

fn migrate(arguments: migrating::Lbc) -> anyhow::Result<bool> {
    install_tls()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(Box::pin(migrate::command::migrate(arguments.options(), &mut screen())))
}

fn uninstall(arguments: Uninstall) -> anyhow::Result<()> {
    install_tls()?;
    let options = arguments.options()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(uninstall::uninstall(options, &mut screen()))
}

fn run(arguments: Run) -> anyhow::Result<()> {
    let options = arguments.options()?;
    install_tls()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().thread_name("headgate").build()?;
    runtime.block_on(headgate::app::run::run(options))
}

fn daemonsets(arguments: Daemonsets) -> anyhow::Result<()> {
    let options = arguments.options()?;
    install_tls()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().thread_name("headgate").build()?;
    runtime.block_on(headgate::daemonsets::run::run(options))
}

fn certificates(arguments: Certificates) -> anyhow::Result<()> {
    install_tls()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(headgate::certificates::run(arguments.options()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_a_plugin_of_kubectl_it_says_how_it_is_called() {
        for (program, usage) in
            [("/usr/bin/kubectl-headgate", "kubectl headgate status"), ("headgate", "headgate status")]
        {
            let said =
                called_as(Some(OsStr::new(program))).try_get_matches_from([program, "status", "--help"]);
            let said = said.unwrap_err().to_string();
            assert!(said.contains(&format!("Usage: {usage} ")), "{said}");
        }
    }

    #[test]
    fn every_shell_can_complete_every_command() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "headgate", &mut script);
            let script = String::from_utf8(script).unwrap();
            for command in Cli::command().get_subcommands() {
                assert!(script.contains(command.get_name()), "{shell}: {}", command.get_name());
            }
        }
    }
}
