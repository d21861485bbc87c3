//! The metrics of calls to AWS.

use std::time::Duration;

use super::{
    Metrics,
    labels::{ActionLabel, CallLabels, CauseLabel},
    page::{Counters, Histograms, Number, Page, flag},
};

#[derive(Debug)]
pub(super) struct Calls {
    ended: Counters<CallLabels>,
    duration: Histograms<ActionLabel>,
    throttle_wait: Histograms<ActionLabel>,
    reachable: Number,
    unreachable: Counters<CauseLabel>,
}

impl Calls {
    pub(super) fn register(page: &mut Page) -> Self {
        let calls = Self {
            ended: page.counters(
                "aws_calls",
                "Calls to AWS by action and outcome: ok, Throttled, Unavailable, AccessDenied, TargetGroupNotFound, \
                 TargetRefused",
            ),
            duration: page.histograms("aws_call_duration", "Duration of calls to AWS"),
            throttle_wait: page.histograms(
                "aws_throttle_wait",
                "Time that a call to AWS waited for AWS's rate limits, or to share a call in a burst of \
                 deregistrations",
            ),
            reachable: page.gauge(
                "aws_reachable",
                "1 if AWS is reachable, 0 if no call succeeds (no connection, or no valid credentials)",
            ),
            unreachable: page.counters(
                "aws_unreachable",
                "Calls that did not reach AWS by cause: ConnectionRefused, NameNotResolved, TlsFailed, \
                 ConnectTimeout, Timeout, NoConnection, NoCredentials, CredentialsFailed, or AWS's error \
                 code for invalid credentials",
            ),
        };
        calls.reachable.set(flag(true));
        calls
    }
}

impl Metrics {
    /// Counts a call that has ended.
    pub fn called(&self, action: &'static str, outcome: &'static str, took: Duration) {
        self.calls.ended.get_or_create(&CallLabels { action, outcome }).inc();
        self.calls.duration.get_or_create(&ActionLabel { action }).observe(took.as_secs_f64());
    }

    /// Records how long a call waited for the rate limit.
    pub fn waited(&self, action: &'static str, wait: Duration) {
        self.calls.throttle_wait.get_or_create(&ActionLabel { action }).observe(wait.as_secs_f64());
    }

    /// Sets whether AWS is reachable.
    pub fn aws_reachable(&self, reachable: bool) {
        self.calls.reachable.set(flag(reachable));
    }

    /// Counts a call that could not reach AWS.
    pub fn aws_out_of_reach(&self, cause: &str) {
        self.calls.unreachable.get_or_create(&CauseLabel { cause: cause.to_owned() }).inc();
    }
}
