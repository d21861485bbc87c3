//! The metrics of Headgate's cache, watches and notices.

use headgate_core::Reason;

use super::{
    Metrics,
    labels::{DirectionLabel, KindLabel, OutcomeLabel, ReasonLabel},
    page::{Counters, Number, Page, flag},
};

#[derive(Debug)]
pub(super) struct Cluster {
    watch_failures: Counters<KindLabel>,
    notices: Counters<ReasonLabel>,
    events: Counters<OutcomeLabel>,
    pods: Number,
    synced: Number,
    clock_steps: Counters<DirectionLabel>,
}

impl Cluster {
    pub(super) fn register(page: &mut Page) -> Self {
        Self {
            watch_failures: page
                .counters("watch_failures", "Interrupted or rejected watches of the Kubernetes API by kind"),
            notices: page.counters("notices", "Notices (log line and Event) by reason"),
            events: page.counters(
                "events",
                "Kubernetes Events by outcome: written, failed, dropped (the queue was full)",
            ),
            pods: page.gauge("pods", "Pods in the cache"),
            clock_steps: page.counters(
                "clock_steps",
                "Steps of the node's wall clock by 5 s or more, or suspensions of the machine, by \
                 direction: forwards, back",
            ),
            synced: page.gauge(
                "synced",
                "1 after the initial sync of all watches and TargetLedgers; Headgate sends nothing to AWS before \
                 this sync",
            ),
        }
    }

    fn event(&self, outcome: &'static str) {
        self.events.get_or_create(&OutcomeLabel { outcome }).inc();
    }
}

impl Metrics {
    /// Counts an interrupted or rejected watch.
    pub fn watch_failed(&self, kind: &'static str) {
        self.cluster.watch_failures.get_or_create(&KindLabel { kind }).inc();
    }

    /// Counts a notice to a user.
    pub fn noticed(&self, reason: Reason) {
        self.cluster.notices.get_or_create(&ReasonLabel::of(reason)).inc();
    }

    /// Counts an Event that was written or that could not be written.
    pub fn event_written(&self, written: bool) {
        self.cluster.event(if written { "written" } else { "failed" });
    }

    /// Counts an Event that was dropped because the queue was full.
    pub fn event_dropped(&self) {
        self.cluster.event("dropped");
    }

    /// Counts a step of the wall clock, by direction.
    pub fn clock_stepped(&self, direction: &'static str) {
        self.cluster.clock_steps.get_or_create(&DirectionLabel { direction }).inc();
    }

    /// Sets the number of known pods, and whether the initial sync is complete.
    #[allow(clippy::cast_precision_loss)] // pods are far fewer than 2^52
    pub fn known(&self, pods: usize, synced: bool) {
        self.cluster.pods.set(pods as f64);
        self.cluster.synced.set(flag(synced));
    }
}
