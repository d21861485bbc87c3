//! What Headgate sees of the cluster, and what it reports to users.

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
                "1 after the initial sync of all watches and TargetLedgers; \
                                          Headgate sends nothing to AWS before",
            ),
        }
    }

    fn event(&self, outcome: &'static str) {
        self.events.get_or_create(&OutcomeLabel { outcome }).inc();
    }
}

impl Metrics {
    /// A watch was interrupted or refused.
    pub fn watch_failed(&self, kind: &'static str) {
        self.cluster.watch_failures.get_or_create(&KindLabel { kind }).inc();
    }

    /// A user got a report.
    pub fn noticed(&self, reason: Reason) {
        self.cluster.notices.get_or_create(&ReasonLabel::of(reason)).inc();
    }

    /// An Event was written, or could not be.
    pub fn event_written(&self, written: bool) {
        self.cluster.event(if written { "written" } else { "failed" });
    }

    /// An Event found the queue full.
    pub fn event_dropped(&self) {
        self.cluster.event("dropped");
    }

    /// The wall clock was set, in this direction.
    pub fn clock_stepped(&self, direction: &'static str) {
        self.cluster.clock_steps.get_or_create(&DirectionLabel { direction }).inc();
    }

    /// How much is known.
    #[allow(clippy::cast_precision_loss)] // pods are far fewer than 2^52
    pub fn known(&self, pods: usize, synced: bool) {
        self.cluster.pods.set(pods as f64);
        self.cluster.synced.set(flag(synced));
    }
}
