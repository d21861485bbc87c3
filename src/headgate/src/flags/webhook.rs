//! The flags of the webhooks of `headgate run`.

use std::{net::SocketAddr, path::PathBuf};

use clap::Args;
use headgate_core::inject;

use crate::{
    flags::duration,
    webhook::{Options, giving},
};

/// The flags of the webhooks.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Webhook")]
pub struct Webhook {
    /// Address of the webhooks for new pods and evictions, for example `[::]:9443`. Default: no webhook.
    #[arg(long = "webhook-address", env = "HEADGATE_WEBHOOK_ADDRESS", value_name = "IP:PORT")]
    address: Option<SocketAddr>,
    /// Folder with the mounted Secret of `headgate certificates` (tls.crt, tls.key and path). Headgate reloads changed
    /// files. Without the file `path`, the webhooks are at /headgate.
    #[arg(
        long = "webhook-cert-dir",
        env = "HEADGATE_WEBHOOK_CERT_DIR",
        default_value = "/etc/headgate/webhook",
        value_name = "FOLDER",
        hide = true
    )]
    cert_dir: PathBuf,
    /// Grace period for liveness and startup probes that restart a held container, 1s to 1h. The grace period in the
    /// probe itself has priority.
    #[arg(long, env = "HEADGATE_PROBE_GRACE", default_value = "5s", value_parser = probe_grace, value_name = "DURATION", hide = true)]
    probe_grace: u32,
    /// Longest terminationGracePeriodSeconds that Headgate sets for a hold, 1s to 24h. The annotation
    /// `headgate.dev/max-grace` has priority. Default: no limit.
    #[arg(long, env = "HEADGATE_MAX_GRACE", value_parser = max_grace, value_name = "DURATION")]
    max_grace: Option<u32>,
    /// Image with headgate-hold, which wraps preStop hooks in containers without a shell (`headgate.dev/own-prestop:
    /// wrap`). Default: none.
    #[arg(
        long,
        env = "HEADGATE_HOLD_IMAGE",
        default_value = "",
        hide_default_value = true,
        value_parser = image,
        value_name = "IMAGE"
    )]
    hold_image: String,
}

impl Webhook {
    /// Converts the flags to options.
    pub fn options(self) -> Option<Options> {
        let image = Some(self.hold_image).filter(|image| !image.is_empty()).map(Into::into);
        let giving = giving::Options { probe_grace: self.probe_grace, max_grace: self.max_grace, image };
        Some(Options { address: self.address?, folder: self.cert_dir, giving })
    }
}

/// Checks the name of an image, which may be empty. The API server checks the remaining rules.
fn image(text: &str) -> Result<String, String> {
    if text.chars().any(|c| c.is_whitespace() || c.is_control()) || text.len() > 512 {
        return Err("set the name of an image, such as registry.example/headgate:0.1.0".to_owned());
    }
    Ok(text.to_owned())
}

fn max_grace(text: &str) -> Result<u32, String> {
    inject::max_grace(text).ok_or_else(|| format!("set {}", inject::MAX_GRACE_EXPECTED))
}

fn probe_grace(text: &str) -> Result<u32, String> {
    let read = duration(text)?;
    let seconds = u32::try_from(read.as_secs()).unwrap_or(u32::MAX);
    if (1..=3600).contains(&seconds) && read.subsec_nanos() == 0 {
        Ok(seconds)
    } else {
        Err("set a duration from 1s to 1h in whole seconds".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Command {
        #[command(flatten)]
        webhook: Webhook,
    }

    fn parse(arguments: &[&str]) -> Result<Option<Options>, String> {
        let all = ["headgate"].iter().chain(arguments);
        Command::try_parse_from(all)
            .map(|command| command.webhook.options())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn without_an_address_it_is_not_served() {
        assert!(parse(&["--webhook-cert-dir=/tls"]).unwrap().is_none());
    }

    #[test]
    fn the_certificate_comes_from_where_the_chart_mounts_it_or_from_another_folder() {
        let here = "--webhook-address=127.0.0.1:9443";
        assert_eq!(*parse(&[here]).unwrap().unwrap().folder, *"/etc/headgate/webhook");
        assert_eq!(*parse(&[here, "--webhook-cert-dir=/tls"]).unwrap().unwrap().folder, *"/tls");
    }

    #[test]
    fn a_probe_leaves_five_seconds_unless_it_is_said_otherwise() {
        let here = "--webhook-address=127.0.0.1:9443";
        for (arguments, seconds) in [(&[here][..], 5), (&[here, "--probe-grace=1m"], 60)] {
            assert_eq!(parse(arguments).unwrap().unwrap().giving.probe_grace, seconds);
        }
    }

    #[test]
    fn grace_periods_have_no_limit_unless_it_is_said() {
        let here = "--webhook-address=127.0.0.1:9443";
        for (arguments, limit) in [(&[here][..], None), (&[here, "--max-grace=2m"], Some(120))] {
            assert_eq!(parse(arguments).unwrap().unwrap().giving.max_grace, limit);
        }
    }

    #[test]
    fn what_cannot_be_is_refused_with_what_was_expected() {
        for (arguments, said) in [
            (&["--webhook-address=9443"][..], "invalid socket address"),
            (&["--hold-image=a b"], "set the name of an image"),
            (&["--probe-grace=0s"], "set a duration from 1s to 1h"),
            (&["--probe-grace=1500ms"], "set a duration"),
            (&["--probe-grace=2h"], "set a duration from 1s to 1h"),
            (&["--max-grace=0s"], "set a duration from 1s to 24h"),
            (&["--max-grace=25h"], "set a duration from 1s to 24h"),
        ] {
            let error = parse(arguments).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
    }
}
