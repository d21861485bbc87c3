//! The metrics of pods: how soon they are registered, ready and deregistered, and whether they stop too early.

use std::time::Duration;

use headgate_core::{Span, model::target_group::TargetGroupArn};
use prometheus_client::metrics::histogram::Histogram;

use super::{
    Metrics,
    labels::{GroupLabel, OutcomeLabel},
    page::{Counters, FAST, Number, Page, SLOW},
};

/// The metrics of the time until Headgate calls AWS after a change.
#[derive(Debug)]
pub(super) struct Changes {
    ip_to_register: Histogram,
    deletion_to_deregister: Histogram,
}

impl Changes {
    pub(super) fn register(page: &mut Page) -> Self {
        Self {
            ip_to_register: page.histogram(
                "pod_ip_to_register",
                FAST,
                "Time from the event with a pod's IP to the first RegisterTargets call for the pod",
            ),
            deletion_to_deregister: page.histogram(
                "deletion_to_deregister",
                FAST,
                "Time from the event for a terminating or deleted pod to the first DeregisterTargets call for the pod",
            ),
        }
    }
}

/// The metrics of the time until registered pods are ready, and of pods that stop too early.
#[derive(Debug)]
pub(super) struct Readiness {
    register_to_healthy: Histogram,
    healthy_to_gate: Histogram,
    gate_writes: Counters<OutcomeLabel>,
    holds_too_short: Counters<GroupLabel>,
    contested: Number,
}

impl Readiness {
    pub(super) fn register(page: &mut Page) -> Self {
        Self {
            register_to_healthy: page.histogram(
                "register_to_healthy",
                SLOW,
                "Time from the response to RegisterTargets to the first DescribeTargetHealth response with the \
                 target healthy",
            ),
            healthy_to_gate: page.histogram(
                "healthy_to_gate",
                FAST,
                "Time from the DescribeTargetHealth response with all targets of a pod healthy to the open readiness \
                 gate",
            ),
            gate_writes: page.counters(
                "gate_writes",
                "Writes of readiness gates by outcome: ok, Gone, Conflict, Throttled, Unavailable, Denied, \
                 Refused",
            ),
            holds_too_short: page.counters(
                "holds_too_short",
                "Pods that stopped before their load balancers stopped sending requests (HoldTooShort)",
            ),
            contested: page.gauge(
                "contested_pods",
                "Pods whose status contains the address of a pod on another node (AddressContested)",
            ),
        }
    }
}

impl Metrics {
    /// Records the first registration of a pod, sent `wait` after Headgate saw the pod's IP.
    pub fn registering(&self, wait: Duration) {
        self.changes.ip_to_register.observe(wait.as_secs_f64());
    }

    /// Records the first deregistration of a terminating or deleted pod, sent `wait` after Headgate saw the deletion.
    pub fn deregistering(&self, wait: Duration) {
        self.changes.deletion_to_deregister.observe(wait.as_secs_f64());
    }

    /// Records the duration of a span.
    pub fn took(&self, span: Span, took: Duration) {
        let histogram = match span {
            Span::RegisterToHealthy => &self.readiness.register_to_healthy,
            Span::HealthyToGate => &self.readiness.healthy_to_gate,
            Span::Departure => &self.leaving.departure,
        };
        histogram.observe(took.as_secs_f64());
    }

    /// Counts a write to a readiness gate, by outcome.
    pub fn gate_written(&self, outcome: &'static str) {
        self.readiness.gate_writes.get_or_create(&OutcomeLabel { outcome }).inc();
    }

    /// Creates the counters of a target group with the value zero, so that the first event is an increase.
    pub fn serves(&self, group: &TargetGroupArn) {
        let _ = self.readiness.holds_too_short.get_or_create(&GroupLabel::of(group));
    }

    /// Removes the counters of a target group.
    pub fn serves_no_more(&self, group: &TargetGroupArn) {
        self.readiness.holds_too_short.remove(&GroupLabel::of(group));
    }

    /// Sets the number of pods whose status contains an address of a pod on another node.
    #[allow(clippy::cast_precision_loss)] // pods are far fewer than 2^52
    pub fn contested(&self, pods: usize) {
        self.readiness.contested.set(pods as f64);
    }

    /// Counts a pod of the target group that stopped too early.
    pub fn hold_too_short(&self, group: &TargetGroupArn) {
        self.readiness.holds_too_short.get_or_create(&GroupLabel::of(group)).inc();
    }
}
