//! The flags of the servers, and parsers that other commands also use.

mod certificates;
mod daemonsets;
mod grants;
mod leading;
mod log;
mod pace;
mod signals;
mod webhook;

use std::net::SocketAddr;

use clap::Args;
use headgate_core::Settings;

pub use self::{certificates::Certificates, daemonsets::Daemonsets, pace::duration};
use self::{grants::Grants, leading::Leading, log::Log, pace::Pace, signals::Signals, webhook::Webhook};
use crate::{app::run::Options, journal::keeper, kube::installation::Serves, metrics::Level};

// If an argument occurs several times, for example because of a chart's `extraArgs`, the last value applies.
/// The flags of `headgate run`.
#[derive(Debug, Args)]
#[command(args_override_self = true)]
pub struct Run {
    /// Namespaces to manage, comma-separated. Requires a Role in each namespace, and a ClusterRole that reads grants.
    /// Default: all namespaces.
    #[arg(long, env = "HEADGATE_NAMESPACES", value_delimiter = ',', value_parser = namespace, conflicts_with = "namespace_selector")]
    namespaces: Vec<String>,
    /// Manage only namespaces whose labels match this selector, for example `headgate.dev/serve=true`. Requires
    /// Headgate's ClusterRole.
    #[arg(long, env = "HEADGATE_NAMESPACE_SELECTOR", value_name = "SELECTOR")]
    namespace_selector: Option<String>,
    #[command(flatten)]
    grants: Grants,
    /// Address for /livez, /readyz and /metrics. `[::]` means every address, including IPv4.
    #[arg(long, env = "HEADGATE_ADMIN_ADDRESS", default_value = "[::]:8080", value_name = "IP:PORT")]
    admin_address: SocketAddr,
    /// Address of the debug pages, for `headgate ui` and other commands. Use a loopback address: only
    /// `kubectl port-forward` can reach a loopback address.
    #[arg(
        long,
        env = "HEADGATE_DEBUG_ADDRESS",
        default_value = "127.0.0.1:8081",
        value_name = "IP:PORT",
        hide = true
    )]
    debug_address: SocketAddr,
    /// Show IngressDaemonSets in `headgate status` and `headgate ui`. Requires permission to list and watch
    /// IngressDaemonSets.
    #[arg(long, env = "HEADGATE_SHOW_DAEMONSETS", hide = true)]
    show_daemonsets: bool,
    /// Maximum number of journal entries; each takes about 0.5 KiB. An entry records a change of a target, pod or node.
    /// 0: no journal.
    #[arg(long, env = "HEADGATE_JOURNAL_ENTRIES", default_value_t = keeper::MOST, value_name = "NUMBER", hide = true)]
    journal_entries: usize,
    /// Metrics to serve. `debug` adds metrics for developers.
    #[arg(
        long,
        env = "HEADGATE_METRICS",
        value_enum,
        default_value = "default",
        value_name = "LEVEL",
        hide = true
    )]
    metrics: Level,
    /// Address of the docs, such as `https://docs.example/headgate`, for a link at the end of each Event. Default: no
    /// links.
    #[arg(long, env = "HEADGATE_DOCS_URL", value_parser = docs_url, value_name = "URL")]
    docs_url: Option<Box<str>>,
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
    #[command(flatten)]
    help: All,
}

/// The flag that prints the help with all flags.
#[derive(Clone, Copy, Debug, Args)]
pub struct All {
    /// Print help with all flags, including flags for special cases.
    #[arg(long = "help-all")]
    all: bool,
}

impl Run {
    /// Whether the user only requests the help with all flags.
    #[must_use]
    pub const fn asks_for_help(&self) -> bool {
        self.help.all
    }

    /// Starts logging, and converts the flags to options.
    ///
    /// # Errors
    /// The durations of the Lease contradict each other.
    pub fn options(self) -> anyhow::Result<Options> {
        self.log.start();
        Ok(Options {
            serves: Serves { namespaces: self.namespaces, selector: self.namespace_selector },
            admin_address: self.admin_address,
            metrics: self.metrics,
            docs_url: self.docs_url.filter(|url| !url.is_empty()),
            debug_address: self.debug_address,
            show_daemonsets: self.show_daemonsets,
            journal_entries: self.journal_entries,
            leading: self.leading.options()?,
            settings: Settings {
                signals: self.signals.signs(),
                grants: self.grants.granting(),
                ..self.pace.settings()
            },
            webhook: self.webhook.options(),
        })
    }
}

/// Checks a URL, and removes the slash at the end. An empty URL disables links.
fn docs_url(text: &str) -> Result<Box<str>, String> {
    let is_url = text.starts_with("https://") || text.starts_with("http://");
    let is_shown = text.chars().all(|c| c.is_ascii_graphic()) && text.len() <= 500;
    if text.is_empty() || (is_url && is_shown) {
        Ok(text.trim_end_matches('/').into())
    } else {
        Err("set a URL that begins with https:// or http://".to_owned())
    }
}

/// Checks the name of a namespace with Kubernetes' rule (RFC 1123 label).
pub fn namespace(text: &str) -> Result<String, String> {
    let good = (1..=63).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        && !text.starts_with('-')
        && !text.ends_with('-');
    if good {
        Ok(text.to_owned())
    } else {
        Err("set the name of a namespace: 1 to 63 lower-case letters, digits and hyphens".to_owned())
    }
}

/// Checks a name with Kubernetes' rule for most objects (RFC 1123 subdomain).
pub fn is_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(|label| namespace(label).is_ok())
}

/// Checks the name of a Lease. The limit leaves room for the prefix of TargetLedger names.
pub fn lease_name(text: &str) -> Result<String, String> {
    let good = text.len() <= 190 && is_subdomain(text);
    if good {
        Ok(text.to_owned())
    } else {
        Err("set the name of a Lease: at most 190 lower-case letters, digits, hyphens and dots".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use headgate_core::model::settings::Granting;

    use super::*;

    #[derive(Debug, Parser)]
    struct Command {
        #[command(flatten)]
        run: Run,
    }

    fn parse(arguments: &[&str]) -> Result<Run, String> {
        let all = ["run"].iter().chain(arguments);
        Command::try_parse_from(all).map(|command| command.run).map_err(|error| error.to_string())
    }

    #[test]
    fn namespaces_are_a_comma_separated_list_of_names() {
        assert_eq!(parse(&["--namespaces", "a,b-1"]).unwrap().namespaces, ["a", "b-1"]);
        for bad in ["A", "a_b", "", "-a", "a,,b"] {
            let said = parse(&[&format!("--namespaces={bad}")]).unwrap_err();
            assert!(
                said.contains("set the name of a namespace") || said.contains("value is required"),
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
    fn events_have_links_only_to_the_docs_that_are_named() {
        assert_eq!(parse(&[]).unwrap().docs_url, None);
        let run = parse(&["--docs-url=https://docs.example/headgate/"]).unwrap();
        assert_eq!(run.docs_url.as_deref(), Some("https://docs.example/headgate"));
        for bad in ["docs.example", "javascript:x", "https://a b", "https://\u{1b}"] {
            assert!(parse(&["--docs-url", bad]).unwrap_err().contains("set a URL"), "{bad:?}");
        }
    }

    #[test]
    fn named_and_selected_namespaces_exclude_each_other() {
        let said = parse(&["--namespaces=a", "--namespace-selector=x=y"]).unwrap_err();
        assert!(said.contains("cannot be used with"), "{said}");
    }
}
