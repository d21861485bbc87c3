//! The flags of `headgate certificates`.

use std::time::Duration;

use clap::Args;

use super::{duration, lease_name, log::Log, namespace};
use crate::{
    certificates::{Options, secret_name},
    kube::{client::own_namespace, installation::LEASE},
};

// If an argument occurs several times, for example because of a chart's `extraArgs`, the last value applies.
/// The flags of `headgate certificates`.
#[derive(Debug, Args)]
#[command(args_override_self = true)]
pub struct Certificates {
    /// Namespace of the Secret. Default: the namespace of the pod's ServiceAccount, or `headgate` outside of a pod.
    #[arg(long, env = "HEADGATE_OWN_NAMESPACE", value_name = "NAMESPACE", value_parser = namespace)]
    own_namespace: Option<String>,
    /// Name of the Lease of `headgate run`. In the defaults below, LEASE stands for this name.
    #[arg(long, env = "HEADGATE_LEASE_NAME", default_value = LEASE, value_parser = lease_name, value_name = "NAME")]
    lease_name: String,
    /// Names and addresses in the certificate, comma-separated. Default: LEASE-webhook.NAMESPACE.svc.
    #[arg(long, env = "HEADGATE_WEBHOOK_NAMES", value_delimiter = ',', value_name = "NAMES")]
    webhook_names: Vec<String>,
    /// Secret with the certificate and the path. The Secret must exist and can be empty. Default: LEASE-webhook-tls.
    #[arg(long, env = "HEADGATE_WEBHOOK_SECRET", value_parser = lease_name, value_name = "NAME")]
    webhook_secret: Option<String>,
    /// Name of the MutatingWebhookConfiguration and the ValidatingWebhookConfiguration. Headgate changes only its own
    /// entries in both configurations. Default: LEASE.
    #[arg(long, env = "HEADGATE_WEBHOOK_CONFIGURATION", value_parser = lease_name, value_name = "NAME")]
    webhook_configuration: Option<String>,
    /// Lifetime of a certificate; Headgate renews it after two thirds. Use less than 1h only in tests: certificates
    /// then overlap for under 10 minutes.
    #[arg(long, env = "HEADGATE_WEBHOOK_CERT_LIFETIME", default_value = "2160h", value_parser = lifetime, value_name = "DURATION")]
    webhook_cert_lifetime: Duration,
    #[command(flatten)]
    log: Log,
}

impl Certificates {
    /// Starts logging, and converts the flags to options.
    #[must_use]
    pub fn options(self) -> Options {
        self.log.start();
        self.named()
    }

    fn named(self) -> Options {
        let (lease, namespace) = (self.lease_name, self.own_namespace.unwrap_or_else(own_namespace));
        let names = Some(self.webhook_names).filter(|names| !names.is_empty());
        Options {
            names: names.unwrap_or_else(|| vec![format!("{lease}-webhook.{namespace}.svc")]),
            secret: self.webhook_secret.unwrap_or_else(|| secret_name(&lease)),
            configuration: self.webhook_configuration.unwrap_or(lease),
            lifetime: self.webhook_cert_lifetime,
            namespace,
        }
    }
}

fn lifetime(text: &str) -> Result<Duration, String> {
    let read = duration(text)?;
    let years = Duration::from_secs(10 * 365 * 24 * 3600);
    if (Duration::from_secs(10)..=years).contains(&read) {
        Ok(read)
    } else {
        Err("set a duration from 10s to 87600h (ten years)".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Command {
        #[command(flatten)]
        certificates: Certificates,
    }

    fn parse(arguments: &[&str]) -> Result<Options, String> {
        let all = ["certificates"].iter().chain(arguments);
        let command = Command::try_parse_from(all).map_err(|error| error.to_string())?;
        Ok(command.certificates.named())
    }

    #[test]
    fn what_is_not_named_is_named_after_the_lease() {
        let made = parse(&["--lease-name=team-b", "--own-namespace=ops"]).unwrap();
        assert_eq!(made.names, ["team-b-webhook.ops.svc"]);
        assert_eq!((&*made.secret, &*made.configuration), ("team-b-webhook-tls", "team-b"));
        assert_eq!(made.lifetime, Duration::from_secs(90 * 24 * 3600));
        let given =
            parse(&["--webhook-secret=x", "--webhook-configuration=y", "--webhook-names=a.b,::1"]).unwrap();
        assert_eq!((&*given.secret, &*given.configuration, given.names.len()), ("x", "y", 2));
    }

    #[test]
    fn a_life_that_makes_no_sense_is_refused() {
        for life in ["5s", "87601h", "90d"] {
            assert!(parse(&[&format!("--webhook-cert-lifetime={life}")]).unwrap_err().contains("duration"));
        }
    }
}
