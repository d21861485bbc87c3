//! The command line.

mod doctor;
mod drain;
mod explain;
mod leading;
mod pace;
mod signals;
mod webhook;

use std::{
    io::{IsTerminal, Write, stderr, stdout},
    net::SocketAddr,
    process::ExitCode,
};

use clap::{Args, Parser, Subcommand, ValueEnum};
use headgate_core::Settings;
use tracing_subscriber::{EnvFilter, fmt};

use self::{
    doctor::Doctor, drain::Drain, explain::Explain, leading::Leading, pace::Pace, signals::Signals,
    webhook::Webhook,
};
use crate::{
    api,
    app::{self, run, uninstall},
    explain::command,
    kube::installation::{LEASE, Serves},
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
    /// Evict a pod, or the pods of a node, and say of each what it waits for. Pods of DaemonSets are left alone.
    Drain(Drain),
    /// Print the CustomResourceDefinitions, for `kubectl apply -f -`.
    Crd,
    /// Say of a pod why it is a target, or why not: what binds it, what AWS was told and says, its readiness gate and its
    /// hold, what is done next and what that waits for.
    Explain(Explain),
    /// Look for what is missing or dangerous in the cluster, the webhook, the pods, AWS and the Services, and say what to
    /// do. Changes nothing. Exit code 1 if anything is an error.
    Doctor(Doctor),
    /// Remove everything that is Headgate's own: its targets, its memory, its finalizers, the webhook's certificate.
    /// Scale `headgate run` down to 0
    /// first, or name its Deployment with --stop. May be done again.
    Uninstall(Uninstall),
}

#[derive(Debug, Args)]
struct Uninstall {
    /// Leave the targets in their target groups: for moving to another controller without a gap.
    #[arg(long)]
    keep_targets: bool,
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
}

#[derive(Debug, Args)]
struct Run {
    /// Only these namespaces, comma-separated. Needs Roles in them and no ClusterRole. Default: all namespaces.
    #[arg(long, env = "HEADGATE_NAMESPACES", value_delimiter = ',', value_parser = namespace, conflicts_with = "namespace_selector")]
    namespaces: Vec<String>,
    /// Only namespaces whose labels match this selector, e.g. `headgate.dev/serve=true`.
    #[arg(long, env = "HEADGATE_NAMESPACE_SELECTOR", value_name = "SELECTOR")]
    namespace_selector: Option<String>,
    /// Where /livez, /readyz, /metrics, /debug/bindings, /debug/explain and /debug/leader are served.
    #[arg(long, env = "HEADGATE_ADMIN_ADDRESS", default_value = "0.0.0.0:8080", value_name = "IP:PORT")]
    admin_address: SocketAddr,
    #[command(flatten)]
    leading: Leading,
    #[command(flatten)]
    pace: Pace,
    #[command(flatten)]
    signals: Signals,
    #[command(flatten)]
    webhook: Webhook,
    /// How log lines look. Default: text on a terminal, json otherwise.
    #[arg(long, env = "HEADGATE_LOG_FORMAT", value_enum)]
    log_format: Option<LogFormat>,
    /// Which log lines: error, warn, info, debug or trace, or per module as in `info,headgate=debug`.
    #[arg(long, env = "HEADGATE_LOG", default_value = "info", value_name = "FILTER")]
    log: String,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum LogFormat {
    Text,
    Json,
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

/// That of a pod, perhaps as `pod/NAME`.
fn pod_name(text: &str) -> Result<String, String> {
    let name = text.strip_prefix("pod/").or_else(|| text.strip_prefix("pods/")).unwrap_or(text);
    if is_subdomain(name) {
        Ok(name.to_owned())
    } else {
        Err("expected the name of a pod: lower-case letters, digits, hyphens and dots".to_owned())
    }
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

/// Parses the command line and does what it says. Exit codes: 0 done, 1 failed, 2 wrong usage.
pub fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Run(arguments) => run(*arguments),
        Command::Drain(arguments) => drain(arguments),
        Command::Crd => crd(),
        Command::Explain(arguments) => explain(arguments),
        Command::Uninstall(arguments) => uninstall(arguments),
        Command::Doctor(arguments) => match doctor(arguments) {
            Ok(true) => return ExitCode::FAILURE,
            done => done.map(|_| ()),
        },
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("headgate: {error:#}");
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

fn uninstall(arguments: Uninstall) -> anyhow::Result<()> {
    install_tls()?;
    let options = uninstall::Options {
        serves: Serves { namespaces: arguments.namespaces, selector: arguments.namespace_selector },
        own_namespace: arguments.own_namespace,
        lease: arguments.lease_name,
        webhook_secret: arguments.webhook_secret,
        keep_targets: arguments.keep_targets,
        force: arguments.force,
        stop: arguments.stop,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(uninstall::uninstall(options, &mut stdout()))
}

fn run(arguments: Run) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(&arguments.log).map_err(|error| {
        anyhow::anyhow!(
            "--log \"{}\" cannot be read ({error}); expected e.g. info or info,headgate=debug",
            arguments.log
        )
    })?;
    let text = match arguments.log_format {
        Some(format) => matches!(format, LogFormat::Text),
        None => stderr().is_terminal(),
    };
    // Without the name of the module, which would be a second field called `target`.
    let lines = fmt().with_writer(stderr).with_env_filter(filter).with_target(false);
    if text {
        lines.with_ansi(stderr().is_terminal()).init();
    } else {
        lines.json().flatten_event(true).init();
    }
    install_tls()?;
    let options = run::Options {
        serves: Serves { namespaces: arguments.namespaces, selector: arguments.namespace_selector },
        admin_address: arguments.admin_address,
        leading: arguments.leading.options()?,
        settings: Settings { signals: arguments.signals.signs(), ..arguments.pace.settings() },
        webhook: arguments.webhook.options(),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().thread_name("headgate").build()?;
    runtime.block_on(run::run(options))
}

#[cfg(test)]
mod tests {
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
    fn named_and_selected_namespaces_exclude_each_other() {
        let said = parse(&["--namespaces=a", "--namespace-selector=x=y"]).unwrap_err();
        assert!(said.contains("cannot be used with"), "{said}");
    }
}
