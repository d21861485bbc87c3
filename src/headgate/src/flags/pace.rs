//! The flags for rates and timeouts of `headgate run`.

use std::time::Duration;

use clap::Args;
use headgate_core::{
    Settings,
    model::{
        eviction,
        hold::Bounds,
        rates::{Limit, Limits},
        time::Window,
    },
};
use jiff::SignedDuration;

/// The flags for rates and timeouts. The defaults are the same as in the engine's settings.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "AWS and timing")]
pub struct Pace {
    /// Maximum RegisterTargets and DeregisterTargets calls per second; bursts are 5 times as large. Lower the rate if
    /// other programs of the account make such calls.
    #[arg(long, env = "HEADGATE_AWS_CHANGE_RATE", default_value_t = limits().changes.per_second, value_parser = rate, value_name = "PER_SECOND")]
    aws_change_rate: f64,
    /// Maximum Describe calls per second; bursts are 4 times as large. Reads of target groups use at most half of this
    /// rate.
    #[arg(long, env = "HEADGATE_AWS_READ_RATE", default_value_t = limits().reads.per_second, value_parser = rate, value_name = "PER_SECOND")]
    aws_read_rate: f64,
    /// Interval between reads of an unchanged target group. Headgate uses a longer interval if there are more than 750
    /// target groups.
    #[arg(long, env = "HEADGATE_READ_INTERVAL", default_value = "60s", value_parser = at_least_a_second, value_name = "DURATION", hide = true)]
    read_interval: Duration,
    /// How long a pod must be unready before Headgate deregisters it, for Services with `headgate.dev/when-not-ready:
    /// deregister`.
    #[arg(long, env = "HEADGATE_NOT_READY_FOR", default_value = "10s", value_parser = duration, value_name = "DURATION", hide = true)]
    not_ready_for: Duration,
    /// How long the targets of a deleted Service remain registered, in case the Service is created again.
    #[arg(long, env = "HEADGATE_SERVICE_GRACE", default_value = "60s", value_parser = duration, value_name = "DURATION", hide = true)]
    service_grace: Duration,
    /// If a change replaces all targets: how long to keep old targets after the last new target became healthy. 0s:
    /// deregister old targets immediately.
    #[arg(long, env = "HEADGATE_REPLACEMENT_GRACE", default_value = "5m", value_parser = duration, value_name = "DURATION")]
    replacement_grace: Duration,
    /// Open a new pod's gate (HealthUnread) if the health of the registered pod was unreadable for this long, 1m to 1h.
    /// 0s: never.
    #[arg(long, env = "HEADGATE_GATE_PATIENCE", default_value = "0s", value_parser = gate_patience, value_name = "DURATION")]
    gate_patience: Duration,
    /// Report a target (NeverHealthy) that has not become healthy this long after its registration.
    #[arg(long, env = "HEADGATE_NEVER_HEALTHY_AFTER", default_value = "5m", value_parser = duration, value_name = "DURATION", hide = true)]
    never_healthy_after: Duration,
    /// Propagation delay of an ALB: how long the ALB keeps sending requests after DeregisterTargets. Headgate reports
    /// HoldTooShort for a pod that stops sooner.
    #[arg(long, env = "HEADGATE_ALB_PROPAGATION_BOUND", default_value = "20s", value_parser = duration, value_name = "DURATION")]
    alb_propagation_bound: Duration,
    /// Propagation delay of an NLB: how long the NLB keeps sending requests after DeregisterTargets. Headgate reports
    /// HoldTooShort for a pod that stops sooner.
    #[arg(long, env = "HEADGATE_NLB_PROPAGATION_BOUND", default_value = "2m", value_parser = duration, value_name = "DURATION")]
    nlb_propagation_bound: Duration,
    /// Maximum wait of an eviction for AWS, PodDisruptionBudgets or the zone guard. The maximum wait for a leader's
    /// decision is three times as long.
    #[arg(long, env = "HEADGATE_EVICTION_PATIENCE", default_value = "60s", value_parser = at_least_a_second, value_name = "DURATION")]
    eviction_patience: Duration,
    /// Register a pod again if no client has requested the pod's eviction for this long, unless its node is cordoned or
    /// will be removed.
    #[arg(long, env = "HEADGATE_EVICTION_GIVEN_UP_AFTER", default_value = "60s", value_parser = at_least_a_second, value_name = "DURATION", hide = true)]
    eviction_given_up_after: Duration,
    /// Quiet time before registrations of a busy target group share a call; total wait: at most 5 times this. The first
    /// registration is immediate.
    #[arg(long, env = "HEADGATE_ADD_WINDOW", default_value = "50ms", value_parser = duration, value_name = "DURATION", hide = true)]
    add_window: Duration,
    /// Write nothing to AWS. Report the intended changes in logs, Events and metrics instead.
    #[arg(long, env = "HEADGATE_READ_ONLY")]
    read_only: bool,
}

fn limits() -> Limits {
    Limits::default()
}

/// A limit with this rate, and with a burst in the same proportion as in AWS's limit.
fn scaled(aws: Limit, per_second: f64) -> Limit {
    Limit { per_second, burst: (per_second * aws.burst / aws.per_second).max(1.0) }
}

impl Pace {
    /// Converts the flags to the engine's settings.
    pub fn settings(&self) -> Settings {
        Settings {
            limits: Limits {
                changes: scaled(limits().changes, self.aws_change_rate),
                reads: scaled(limits().reads, self.aws_read_rate),
            },
            read_interval: self.read_interval,
            not_ready_for: self.not_ready_for,
            service_grace: self.service_grace,
            replacement_grace: self.replacement_grace,
            gate_patience: Some(self.gate_patience).filter(|patience| !patience.is_zero()),
            never_healthy_after: self.never_healthy_after,
            bounds: Bounds { application: self.alb_propagation_bound, network: self.nlb_propagation_bound },
            leaving: eviction::Limits {
                patience: self.eviction_patience,
                given_up_after: self.eviction_given_up_after,
            },
            add_window: Window { idle: self.add_window, most: self.add_window.saturating_mul(5) },
            read_only: self.read_only,
            ..Settings::default()
        }
    }
}

fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok().filter(|rate| (0.01..=10_000.0).contains(rate));
    rate.ok_or_else(|| "set calls per second: a number from 0.01 to 10000, e.g. 4 or 0.5".to_owned())
}

/// Parses a duration such as `90s` or `5m`.
///
/// # Errors
/// The error states what to write instead.
pub fn duration(text: &str) -> Result<Duration, String> {
    let read = text.parse::<SignedDuration>().ok().and_then(|read| Duration::try_from(read).ok());
    read.ok_or_else(|| "set a duration with its unit, e.g. 250ms, 10s or 1m30s".to_owned())
}

fn at_least_a_second(text: &str) -> Result<Duration, String> {
    let read = duration(text)?;
    if read < Duration::from_secs(1) {
        return Err("set a duration of at least 1s".to_owned());
    }
    Ok(read)
}

/// A `DescribeTargetHealth` request takes up to 8 s, and the next attempt begins at most 10 s later. Therefore, at
/// least three requests have failed after this time.
const SHORTEST_GATE_PATIENCE: Duration = Duration::from_mins(1);
const LONGEST_GATE_PATIENCE: Duration = Duration::from_hours(1);

fn gate_patience(text: &str) -> Result<Duration, String> {
    let read = duration(text)?;
    if read.is_zero() || (SHORTEST_GATE_PATIENCE..=LONGEST_GATE_PATIENCE).contains(&read) {
        return Ok(read);
    }
    Err("set a duration from 1m to 1h, so that a few slow reads open no readiness gate; or 0s: readiness \
         gates wait until health can be read"
        .to_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Command {
        #[command(flatten)]
        pace: Pace,
    }

    fn parse(arguments: &[&str]) -> Result<Settings, String> {
        let all = ["headgate"].iter().chain(arguments);
        Command::try_parse_from(all).map(|command| command.pace.settings()).map_err(|error| error.to_string())
    }

    #[test]
    fn the_defaults_are_the_engines_own() {
        assert_eq!(parse(&[]).unwrap(), Settings::default());
    }

    #[test]
    fn each_flag_reaches_the_engine() {
        let settings = parse(&[
            "--aws-change-rate=2.5",
            "--aws-read-rate=10",
            "--read-interval=2m",
            "--not-ready-for=500ms",
            "--service-grace=5m",
            "--replacement-grace=90s",
            "--gate-patience=5m",
            "--never-healthy-after=7m",
            "--alb-propagation-bound=1s",
            "--nlb-propagation-bound=6s",
            "--add-window=100ms",
            "--read-only",
        ]);
        let settings = settings.unwrap();
        assert_eq!(settings.limits.changes, Limit { per_second: 2.5, burst: 12.5 });
        assert_eq!(settings.limits.reads, Limit { per_second: 10.0, burst: 40.0 });
        assert_eq!(settings.read_interval, Duration::from_secs(120));
        assert_eq!(settings.not_ready_for, Duration::from_millis(500));
        assert_eq!(settings.service_grace, Duration::from_secs(300));
        assert_eq!(settings.replacement_grace, Duration::from_secs(90));
        assert_eq!(settings.gate_patience, Some(Duration::from_secs(300)));
        assert_eq!(settings.never_healthy_after, Duration::from_secs(420));
        let bounds = Bounds { application: Duration::from_secs(1), network: Duration::from_secs(6) };
        assert_eq!(settings.bounds, bounds);
        assert_eq!(settings.add_window.most, Duration::from_millis(500));
        assert!(settings.read_only);
    }

    #[test]
    fn a_low_rate_still_allows_one_call() {
        let settings = parse(&["--aws-change-rate=0.01"]).unwrap();
        assert_eq!(settings.limits.changes, Limit { per_second: 0.01, burst: 1.0 });
    }

    #[test]
    fn a_value_that_cannot_be_is_refused_with_what_was_expected() {
        for (argument, said) in [
            ("--aws-change-rate=0", "set calls per second"),
            ("--aws-change-rate=NaN", "set calls per second"),
            ("--read-interval=60", "set a duration with its unit"),
            ("--read-interval=-1s", "set a duration with its unit"),
            ("--read-interval=10ms", "at least 1s"),
            ("--gate-patience=59s", "from 1m"),
            ("--gate-patience=61m", "to 1h"),
            ("--gate-patience=5", "set a duration with its unit"),
        ] {
            let error = parse(&[argument]).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn the_gate_patience_is_from_a_minute_to_an_hour_or_none() {
        for (argument, patience) in [("0s", None), ("1m", Some(60)), ("1h", Some(3600))] {
            let settings = parse(&["--gate-patience", argument]).unwrap();
            assert_eq!(settings.gate_patience, patience.map(Duration::from_secs), "{argument}");
        }
    }
}
