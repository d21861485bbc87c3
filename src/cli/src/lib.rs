//! The program `headgate`: its command line and the client commands.
//!
//! ```text
//!  headgate run, daemonsets, certificates ─► the crate `headgate`, with its flags
//!  headgate status, diff, explain, ui ─► reach: the leader in the Lease, forwarded by the API server ─► /debug/*
//!  headgate doctor, migrate ─► the same, and the cluster and AWS with the caller's permissions
//!  headgate drain, uninstall ─► the cluster with the caller's permissions
//! ```

mod arguments;
mod diff;
#[cfg(test)]
mod docs;
mod doctor;
mod drain;
mod exit;
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

use anyhow::Context;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use clap_complete::Shell;
use headgate::{
    api,
    flags::{Certificates, Daemonsets, Run},
};

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
use crate::{exit::Outcome, screen::screen};

/// Register pods in AWS target groups, and deregister them before they stop.
#[derive(Debug, Parser)]
#[command(name = "headgate", version, max_term_width = 110, after_help = exit::MEANING)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the controller until SIGTERM
    #[command(after_help = "Example:\n  headgate run --namespaces=shop,ingress --webhook-address=[::]:9443")]
    Run(Box<Run>),
    /// Run the controller of IngressDaemonSets until SIGTERM
    ///
    /// The controller creates, rolls out and deletes the pods of IngressDaemonSets. The controller of IngressDaemonSets
    /// is a separate program with its own permissions.
    #[command(after_help = "Example:\n  headgate daemonsets --namespaces=ingress")]
    Daemonsets(Box<Daemonsets>),
    /// Manage the webhook's certificate, path and configurations until SIGTERM
    ///
    /// `headgate certificates` has its own permissions, for one Secret and two webhook configurations.
    #[command(after_help = "Example:\n  headgate certificates --webhook-cert-lifetime=720h")]
    Certificates(Box<Certificates>),
    /// Evict a pod, or the pods of a node, and show what each waits for
    ///
    /// The command does not evict pods of DaemonSets.
    #[command(after_help = "Example:\n  headgate drain node/ip-10-0-1-23 --daemonsets")]
    Drain(Drain),
    /// Print the CustomResourceDefinitions
    #[command(after_help = "Example:\n  headgate crd | kubectl apply -f -")]
    Crd,
    /// Print a script that completes arguments in your shell
    #[command(after_help = "Example:\n  source <(headgate completion bash)")]
    Completion {
        /// Your shell.
        shell: Shell,
    },
    /// Explain why a pod is or is not a target
    ///
    /// The command shows bindings, target health, readiness gate, hold, next step and history. For a Service, a
    /// TargetBinding, an IngressDaemonSet or a node, the command explains each pod. Exit code 1: the object does not
    /// exist and has no history; 2: failure.
    #[command(after_help = "Example:\n  headgate explain --namespace shop web-6d4b75cb6d-hx2x9")]
    Explain(Explain),
    /// Show current problems and target counts per target group and zone
    ///
    /// The most severe problem comes first. Exit code 0: a leader answered; 2: failure.
    #[command(after_help = "Example:\n  headgate status --watch")]
    Status(Status),
    /// Show a live page in your browser until Ctrl-C
    ///
    /// The page shows target groups by zone, the history of each target, problems, and the journal.
    #[command(after_help = "Example:\n  headgate ui --no-browser --port 8082")]
    Ui(Ui),
    /// Compare desired and actual targets in each target group
    ///
    /// Exit code 0: no difference; 1: differences, or a target group was not read yet; 2: failure.
    #[command(after_help = "Example:\n  headgate diff web")]
    Diff(Diff),
    /// Find misconfigurations and risks
    ///
    /// The command checks the cluster, the webhooks, pods, AWS and Services, and changes nothing. Exit code 0: no
    /// errors found; 1: errors found; 2: the command failed.
    #[command(after_help = "Example:\n  headgate doctor --namespace shop")]
    Doctor(Doctor),
    /// Uninstall Headgate from the cluster
    ///
    /// The command opens waiting readiness gates, removes Headgate's finalizers and lists the remaining objects.
    /// Targets remain registered unless you pass --remove-targets. First scale `headgate run` to 0, or pass --stop. You
    /// can repeat the command.
    #[command(after_help = "Example:\n  headgate uninstall --stop=headgate")]
    Uninstall(Uninstall),
    /// Migrate from another controller without a gap, or back
    #[command(subcommand)]
    Migrate(Migrate),
}

/// Returns the command line. If kubectl runs the program as a plugin (`kubectl-headgate`), the usage text shows
/// `kubectl headgate`.
fn called_as(program: Option<&OsStr>) -> clap::Command {
    let name = program.and_then(|path| Path::new(path).file_name());
    let command = grouped(Cli::command());
    if name == Some(OsStr::new("kubectl-headgate")) { command.bin_name("kubectl headgate") } else { command }
}

/// The groups of commands in the help text. clap itself has no groups of commands.
const GROUPS: [(&str, &[&str]); 3] = [
    ("Servers", &["run", "daemonsets", "certificates"]),
    ("Look and act", &["status", "explain", "diff", "doctor", "drain", "ui"]),
    ("Set up and remove", &["migrate", "uninstall", "crd", "completion"]),
];

/// Lists the commands in groups in the help text.
fn grouped(command: clap::Command) -> clap::Command {
    let line = |name: &&str| {
        let inner = command.find_subcommand(name)?;
        let about = inner.get_about().map(ToString::to_string).unwrap_or_default();
        Some(format!("  {name:<13}{about}"))
    };
    let group = |(heading, names): (&str, &[&str])| {
        let lines: Vec<String> = names.iter().filter_map(line).collect();
        format!("{heading}:\n{}", lines.join("\n"))
    };
    let groups = GROUPS.map(group).join("\n\n");
    let template = [
        "{about-with-newline}\n{usage-heading} {usage}\n\n",
        &groups,
        "\n\nOptions:\n{options}\n\n{after-help}",
    ];
    let template = template.concat();
    command.help_template(template)
}

/// Prints the help text of a server command with all flags, including hidden flags.
fn help_all(command: &str) -> anyhow::Result<Outcome> {
    let all = Cli::command();
    let server = all.find_subcommand(command).context("there is no such command")?;
    let name = format!("headgate {command}");
    server.clone().bin_name(name).mut_args(|flag| flag.hide(false)).print_help()?;
    Ok(Outcome::Fine)
}

/// Parses the command line and runs the command. clap exits with code 2 on wrong usage.
pub fn main() -> ExitCode {
    let command = match Cli::from_arg_matches(&called_as(std::env::args_os().next().as_deref()).get_matches())
    {
        Ok(cli) => cli.command,
        Err(error) => error.exit(),
    };
    exit::code(done(command))
}

fn done(command: Command) -> anyhow::Result<Outcome> {
    match command {
        Command::Run(arguments) if arguments.asks_for_help() => return help_all("run"),
        Command::Daemonsets(arguments) if arguments.asks_for_help() => return help_all("daemonsets"),
        Command::Run(arguments) => run(*arguments)?,
        Command::Daemonsets(arguments) => daemonsets(*arguments)?,
        Command::Certificates(arguments) => certificates(*arguments)?,
        Command::Drain(arguments) => drain(arguments)?,
        Command::Crd => crd()?,
        Command::Completion { shell } => {
            clap_complete::generate(shell, &mut Cli::command(), "headgate", &mut stdout());
        }
        Command::Explain(arguments) => explain(arguments)?,
        Command::Status(arguments) => status(arguments)?,
        Command::Ui(arguments) => ui(arguments)?,
        Command::Uninstall(arguments) => uninstall(arguments)?,
        Command::Diff(arguments) => return diff(arguments),
        Command::Migrate(Migrate::Lbc(arguments)) => return migrate(*arguments),
        Command::Doctor(arguments) => return doctor(arguments),
    }
    Ok(Outcome::Fine)
}

fn crd() -> anyhow::Result<()> {
    stdout().write_all(api::definitions()?.as_bytes())?;
    Ok(())
}

/// Installs the TLS provider that kube and the AWS client share. Without an installed provider, rustls chooses one.
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

fn diff(arguments: Diff) -> anyhow::Result<Outcome> {
    install_tls()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(diff::command::diff(arguments.options(), &mut screen()))
}

fn doctor(arguments: Doctor) -> anyhow::Result<Outcome> {
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

fn migrate(arguments: migrating::Lbc) -> anyhow::Result<Outcome> {
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
    fn the_help_lists_every_command_in_one_group() {
        let help = called_as(None).render_help().to_string();
        for command in Cli::command().get_subcommands() {
            let (name, about) = (command.get_name(), command.get_about().unwrap());
            assert_eq!(help.matches(&format!("\n  {name:<13}{about}\n")).count(), 1, "{name}: {help}");
        }
        for part in ["Servers:", "--version", "Exit codes:"] {
            assert!(help.contains(part), "{part} is not in {help}");
        }
    }

    #[test]
    fn the_help_of_a_server_has_about_twenty_flags_and_one_flag_shows_all() {
        for (name, most) in [("run", 22), ("daemonsets", 10)] {
            let mut all = Cli::command();
            all.build();
            let server = all.find_subcommand(name).unwrap();
            let visible = server.get_arguments().filter(|flag| !flag.is_hide_set());
            let visible = visible.filter(|flag| !["help", "version"].contains(&flag.get_id().as_str()));
            let visible: Vec<&str> = visible.filter_map(clap::Arg::get_long).collect();
            assert!(visible.len() <= most && visible.contains(&"help-all"), "{}: {visible:?}", visible.len());
            assert!(server.get_arguments().any(clap::Arg::is_hide_set));
        }
        let asked = Cli::command().try_get_matches_from(["headgate", "run", "--help-all"]).unwrap();
        let Ok(Cli { command: Command::Run(run) }) = Cli::from_arg_matches(&asked) else {
            panic!("{asked:?}")
        };
        assert!(run.asks_for_help());
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
