//! The flags of the leader election.

use std::{hash::BuildHasher, path::PathBuf, time::Duration};

use clap::{ArgAction, Args};
use headgate_core::leadership::lease::{Timing, TimingError};

use super::{lease_name, namespace};
use crate::{app::leading::Leading as Options, flags::duration, kube::installation::LEASE};

/// The flags of the leader election. The defaults of the durations are the same as in client-go.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Leader election")]
pub struct Leading {
    /// Elect a leader with a Lease. Set `false` only if at most one replica runs at any time.
    #[arg(long, env = "HEADGATE_LEADER_ELECT", default_value_t = true, action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true", value_name = "BOOL", hide = true)]
    leader_elect: bool,
    /// Namespace of the Lease, the TargetLedgers and the webhook's Secret. Default: the namespace of the pod's
    /// ServiceAccount, or `headgate` outside of a pod.
    #[arg(long, env = "HEADGATE_OWN_NAMESPACE", value_name = "NAMESPACE", value_parser = namespace)]
    own_namespace: Option<String>,
    /// Name of the Lease; the names of the TargetLedgers are derived from it. Installations that share a namespace must
    /// use different names.
    #[arg(long, env = "HEADGATE_LEASE_NAME", default_value = LEASE, value_parser = lease_name, value_name = "NAME")]
    lease_name: String,
    /// A standby takes over if the Lease has not changed for this long. The value must be in whole seconds.
    #[arg(long, env = "HEADGATE_LEASE_DURATION", default_value = "15s", value_parser = duration, value_name = "DURATION", hide = true)]
    lease_duration: Duration,
    /// A leader stops if it cannot renew the Lease for this long. Must be less than --lease-duration.
    #[arg(long, env = "HEADGATE_LEASE_RENEW_DEADLINE", default_value = "10s", value_parser = duration, value_name = "DURATION", hide = true)]
    lease_renew_deadline: Duration,
    /// Interval at which the leader renews the Lease and standbys check it. Must be at most half of
    /// --lease-renew-deadline.
    #[arg(long, env = "HEADGATE_LEASE_RETRY_PERIOD", default_value = "2s", value_parser = duration, value_name = "DURATION", hide = true)]
    lease_retry_period: Duration,
    /// The terminationMessagePath of the container. The replica writes its identity to this file, so that a standby can
    /// take over after the container has terminated.
    #[arg(
        long,
        env = "HEADGATE_TERMINATION_LOG",
        default_value = "/dev/termination-log",
        value_name = "FILE",
        hide = true
    )]
    termination_log: PathBuf,
}

impl Leading {
    /// Converts the flags to options.
    ///
    /// # Errors
    /// The durations contradict each other.
    pub fn options(self) -> Result<Options, TimingError> {
        let timing = Timing::new(self.lease_duration, self.lease_renew_deadline, self.lease_retry_period)?;
        Ok(Options {
            elect: self.leader_elect,
            namespace: self.own_namespace,
            lease: self.lease_name,
            identity: identity().into(),
            timing,
            termination_log: self.termination_log,
        })
    }
}

/// A name that no other replica has ever had. A restarted replica has a new name.
fn identity() -> String {
    let name = ["POD_NAME", "HOSTNAME"].iter().find_map(|name| std::env::var(name).ok());
    // Rust creates each RandomState with random keys.
    let random = std::hash::RandomState::new().hash_one(std::process::id());
    format!("{}_{random:016x}", name.as_deref().unwrap_or("headgate"))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Command {
        #[command(flatten)]
        leading: Leading,
    }

    fn parse(arguments: &[&str]) -> Result<Options, String> {
        let all = ["headgate"].iter().chain(arguments);
        let command = Command::try_parse_from(all).map_err(|error| error.to_string())?;
        command.leading.options().map_err(|error| error.to_string())
    }

    #[test]
    fn the_defaults_are_those_of_client_go() {
        let options = parse(&[]).unwrap();
        assert!(options.elect && options.namespace.is_none());
        assert_eq!((&*options.lease, options.timing), ("headgate", Timing::default()));
        assert_eq!(options.termination_log, PathBuf::from("/dev/termination-log"));
    }

    #[test]
    fn a_lone_replica_may_do_without() {
        assert!(!parse(&["--leader-elect=false"]).unwrap().elect);
        assert!(parse(&["--leader-elect"]).unwrap().elect);
    }

    #[test]
    fn a_lease_that_cannot_work_is_refused_with_what_was_expected() {
        for (arguments, said) in [
            (&["--lease-duration=2500ms"][..], "set whole seconds"),
            (&["--lease-duration=10s"], "set less than the lease duration, 10s"),
            (&["--lease-retry-period=6s"], "set at most half of the renew deadline, 10s"),
            (&["--lease-duration=15"], "set a duration with its unit"),
            (&["--own-namespace=A"], "set the name of a namespace"),
            (&["--lease-name=a_b"], "set the name of a Lease"),
            (&["--lease-name=a..b"], "set the name of a Lease"),
        ] {
            let error = parse(arguments).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn no_two_replicas_call_themselves_the_same() {
        assert_ne!(identity(), identity());
    }
}
