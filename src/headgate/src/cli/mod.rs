//! The command line.

mod daemonsets;
mod diff;
mod doctor;
mod drain;
mod explain;
mod grants;
mod leading;
mod log;
mod migrate;
mod pace;
#[cfg(test)]
mod properties;
mod signals;
mod status;
mod ui;
mod webhook;
mod which;

use std::{
    ffi::OsStr,
    io::{Write, stdout},
    net::SocketAddr,
    path::Path,
    process::ExitCode,
};

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use clap_complete::Shell;
use headgate_core::Settings;

use self::{
    daemonsets::Daemonsets, diff::Diff, doctor::Doctor, drain::Drain, explain::Explain, grants::Grants,
    leading::Leading, log::Log, migrate::Migrate, pace::Pace, signals::Signals, status::Status, ui::Ui,
    webhook::Webhook, which::Which,
};
use crate::{
    api,
    app::{self, run, uninstall},
    explain::command,
    journal::keeper,
    kube::{
        installation::{LEASE, Serves},
        words::plain_chain,
    },
};

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
    /// Leave the cluster: open the readiness gates that wait, take away Headgate's finalizers and the webhook's
    /// certificate, and say what stays. Targets stay, unless --remove-targets says otherwise. Scale `headgate run` down
    /// to 0 first, or name its Deployment with --stop. May be done again.
    Uninstall(Uninstall),
    /// Move over from another controller without a gap, or back.
    #[command(subcommand)]
    Migrate(Migrate),
}

#[derive(Debug, Args)]
struct Uninstall {
    /// Take Headgate's own targets out of their target groups, and forget them. Without it they stay, and so do the
    /// TargetLedgers that name them.
    #[arg(long)]
    remove_targets: bool,
    /// Only open the readiness gates that wait, in these namespaces: those that a Headgate which goes on no longer serves.
    #[arg(long, conflicts_with_all = ["remove_targets", "stop", "force"])]
    only_gates: bool,
    /// Also while a Headgate holds the Lease, and if it served other namespaces.
    #[arg(long)]
    force: bool,
    /// Scale this Deployment in Headgate's own namespace down to 0 first, and wait until its pods are gone.
    #[arg(long, value_name = "DEPLOYMENT")]
    stop: Option<String>,
    /// As `headgate run` has it.
    #[arg(long, env = "HEADGATE_NAMESPACES", value_delimiter = ',', value_parser = namespace, conflicts_with = "namespace_selector")]
    namespaces: Vec<String>,
    /// As `headgate run` has it.
    #[arg(long, env = "HEADGATE_NAMESPACE_SELECTOR", value_name = "SELECTOR")]
    namespace_selector: Option<String>,
    /// As `headgate run` has it.
    #[arg(long, env = "HEADGATE_OWN_NAMESPACE", value_name = "NAMESPACE", value_parser = namespace)]
    own_namespace: Option<String>,
    /// As `headgate run` has it.
    #[arg(long, env = "HEADGATE_LEASE_NAME", default_value = LEASE, value_parser = lease_name, value_name = "NAME")]
    lease_name: String,
    /// As `headgate run` has it: removed if Headgate has made it. Default: LEASE-webhook-tls.
    #[arg(long, env = "HEADGATE_WEBHOOK_SECRET", value_parser = lease_name, value_name = "NAME")]
    webhook_secret: Option<String>,
    /// As `headgate run` has it: its entries are taken out, so that nobody is asked any more. Default: LEASE.
    #[arg(long, env = "HEADGATE_WEBHOOK_CONFIGURATION", value_parser = lease_name, value_name = "NAME")]
    webhook_configuration: Option<String>,
    #[command(flatten)]
    which: Which,
}

// Where arguments are put together from several places, as a chart's `extraArgs` are, the last one counts.
#[derive(Debug, Args)]
#[command(args_override_self = true)]
struct Run {
    /// Only these namespaces, comma-separated. Needs Roles in them, and a ClusterRole that only reads grants. Default: all namespaces.
    #[arg(long, env = "HEADGATE_NAMESPACES", value_delimiter = ',', value_parser = namespace, conflicts_with = "namespace_selector")]
    namespaces: Vec<String>,
    /// Only namespaces whose labels match this selector, e.g. `headgate.dev/serve=true`.
    #[arg(long, env = "HEADGATE_NAMESPACE_SELECTOR", value_name = "SELECTOR")]
    namespace_selector: Option<String>,
    #[command(flatten)]
    grants: Grants,
    /// Where /livez, /readyz and /metrics are served. `[::]` is every address, IPv4 too.
    #[arg(long, env = "HEADGATE_ADMIN_ADDRESS", default_value = "[::]:8080", value_name = "IP:PORT")]
    admin_address: SocketAddr,
    /// Where /debug/bindings, /debug/diff, /debug/explain, /debug/journal, /debug/leader and /debug/status are served: on
    /// loopback, which `headgate explain`, `headgate status` and `kubectl port-forward` reach and other pods do not.
    #[arg(long, env = "HEADGATE_DEBUG_ADDRESS", default_value = "127.0.0.1:8081", value_name = "IP:PORT")]
    debug_address: SocketAddr,
    /// Show IngressDaemonSets in `headgate status` and on the page. Needs the right to list and watch them.
    #[arg(long, env = "HEADGATE_SHOW_DAEMONSETS")]
    show_daemonsets: bool,
    /// How many entries the journal keeps, of what has become of targets, pods and nodes: some 0.5 KiB each. 0: none.
    #[arg(long, env = "HEADGATE_JOURNAL_ENTRIES", default_value_t = keeper::MOST, value_name = "NUMBER")]
    journal_entries: usize,
    #[command(flatten)]
    leading: Leading,
    #[command(flatten)]
    pace: Pace,
    #[command(flatten)]
    signals: Signals,
    #[command(flatten)]
    webhook: Webhook,
    #[command(flatten)]
    log: Log,
}

/// The rule of Kubernetes for the names of namespaces (RFC 1123 label).
fn namespace(text: &str) -> Result<String, String> {
    let good = (1..=63).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        && !text.starts_with('-')
        && !text.ends_with('-');
    if good {
        Ok(text.to_owned())
    } else {
        Err("expected the name of a namespace: 1 to 63 lower-case letters, digits and hyphens".to_owned())
    }
}

/// The rule of Kubernetes for the names of most objects (RFC 1123 subdomain).
fn is_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(|label| namespace(label).is_ok())
}

/// That of a Lease, with room for what the names of ledgers begin with.
fn lease_name(text: &str) -> Result<String, String> {
    let good = text.len() <= 190 && is_subdomain(text);
    if good {
        Ok(text.to_owned())
    } else {
        Err("expected the name of a Lease: at most 190 lower-case letters, digits, hyphens and dots"
            .to_owned())
    }
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
                eprintln!("headgate: {}", plain_chain(&error));
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
            eprintln!("headgate: {}", plain_chain(&error));
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
    runtime.block_on(command::explain(arguments.options(), &mut stdout()))
}

fn status(arguments: Status) -> anyhow::Result<()> {
    install_tls()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(crate::status::command::status(arguments.options(), &mut stdout()))
}

fn ui(arguments: Ui) -> anyhow::Result<()> {
    install_tls()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(crate::ui::ui(arguments.options(), &mut stdout()))
}

fn diff(arguments: Diff) -> anyhow::Result<bool> {
    install_tls()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(crate::diff::command::diff(arguments.options(), &mut stdout()))
}

fn doctor(arguments: Doctor) -> anyhow::Result<bool> {
    install_tls()?;
    let (options, json) = arguments.options();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(crate::doctor::command::doctor(options, json, &mut stdout()))
}

fn drain(arguments: Drain) -> anyhow::Result<()> {
    install_tls()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(app::drain::drain(arguments.options(), &mut stdout()))
}

fn migrate(arguments: migrate::Lbc) -> anyhow::Result<bool> {
    install_tls()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(Box::pin(crate::migrate::command::migrate(arguments.options(), &mut stdout())))
}

fn uninstall(arguments: Uninstall) -> anyhow::Result<()> {
    install_tls()?;
    let unnamed = arguments.namespaces.is_empty() && arguments.namespace_selector.is_none();
    anyhow::ensure!(
        !(arguments.only_gates && unnamed),
        "--only-gates: expected --namespaces or --namespace-selector as well, because a Headgate may serve the others"
    );
    let options = uninstall::Options {
        which: arguments.which.cluster(),
        serves: Serves { namespaces: arguments.namespaces, selector: arguments.namespace_selector },
        own_namespace: arguments.own_namespace,
        lease: arguments.lease_name,
        webhook_secret: arguments.webhook_secret,
        webhook_configuration: arguments.webhook_configuration,
        only_gates: arguments.only_gates,
        remove_targets: arguments.remove_targets,
        force: arguments.force,
        stop: arguments.stop,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(uninstall::uninstall(options, &mut stdout()))
}

fn run(arguments: Run) -> anyhow::Result<()> {
    arguments.log.start();
    install_tls()?;
    let options = run::Options {
        serves: Serves { namespaces: arguments.namespaces, selector: arguments.namespace_selector },
        admin_address: arguments.admin_address,
        debug_address: arguments.debug_address,
        show_daemonsets: arguments.show_daemonsets,
        journal_entries: arguments.journal_entries,
        leading: arguments.leading.options()?,
        settings: Settings {
            signals: arguments.signals.signs(),
            grants: arguments.grants.granting(),
            ..arguments.pace.settings()
        },
        webhook: arguments.webhook.options(),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().thread_name("headgate").build()?;
    runtime.block_on(run::run(options))
}

fn daemonsets(arguments: Daemonsets) -> anyhow::Result<()> {
    let options = arguments.options()?;
    install_tls()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().thread_name("headgate").build()?;
    runtime.block_on(crate::daemonsets::run::run(options))
}

#[cfg(test)]
mod tests {
    use headgate_core::model::settings::Granting;

    use super::*;

    fn parse(arguments: &[&str]) -> Result<Run, String> {
        let all = ["headgate", "run"].iter().chain(arguments);
        match Cli::try_parse_from(all) {
            Ok(Cli { command: Command::Run(run) }) => Ok(*run),
            Ok(_) => Err("not run".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn namespaces_are_a_comma_separated_list_of_names() {
        assert_eq!(parse(&["--namespaces", "a,b-1"]).unwrap().namespaces, ["a", "b-1"]);
        for bad in ["A", "a_b", "", "-a", "a,,b"] {
            let said = parse(&[&format!("--namespaces={bad}")]).unwrap_err();
            assert!(
                said.contains("expected the name of a namespace") || said.contains("value is required"),
                "{said}"
            );
        }
    }

    #[test]
    fn of_a_flag_that_is_given_again_the_last_one_counts() {
        let twice = ["--webhook-address=[::]:9443", "--admin-address=[::]:1"];
        let again = ["--webhook-address=0.0.0.0:9443", "--admin-address=127.0.0.1:2"];
        let run = parse(&[twice, again].concat()).unwrap();
        assert_eq!(run.admin_address, "127.0.0.1:2".parse().unwrap());
        assert_eq!(run.webhook.options().unwrap().address, "0.0.0.0:9443".parse().unwrap());
    }

    #[test]
    fn every_address_is_listened_on_and_loopback_only_for_debugging() {
        let run = parse(&[]).unwrap();
        assert_eq!(run.admin_address, "[::]:8080".parse().unwrap());
        assert!(run.debug_address.ip().is_loopback());
    }

    #[test]
    fn grants_are_optional_unless_they_are_said_to_be_required() {
        assert_eq!(parse(&[]).unwrap().grants.granting(), Granting::Optional);
        assert_eq!(parse(&["--grants=optional"]).unwrap().grants.granting(), Granting::Optional);
        assert_eq!(parse(&["--grants=required"]).unwrap().grants.granting(), Granting::Required);
        let said = parse(&["--grants=yes"]).unwrap_err();
        assert!(said.contains("optional, required"), "{said}");
    }

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

    #[test]
    fn named_and_selected_namespaces_exclude_each_other() {
        let said = parse(&["--namespaces=a", "--namespace-selector=x=y"]).unwrap_err();
        assert!(said.contains("cannot be used with"), "{said}");
    }
}
