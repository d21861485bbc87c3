//! The metrics of pods that will be evicted, and of nodes that will be removed.

use std::sync::atomic::Ordering;

use headgate_core::{Reason, model::Fate};
use prometheus_client::metrics::{family::Family, histogram::Histogram};

use super::{
    Metrics,
    labels::{EvictionLabels, OutcomeLabel, ReasonLabel, Word},
    page::{Counters, Number, Page, SLOW},
};

#[derive(Debug)]
pub(super) struct Leaving {
    eviction_requests: Counters<EvictionLabels>,
    notes: Counters<OutcomeLabel>,
    notes_waiting: Number,
    pub(super) departure: Histogram,
    nodes: Family<ReasonLabel, Number>,
}

impl Leaving {
    pub(super) fn register(page: &mut Page) -> Self {
        Self {
            eviction_requests: page.counters(
                "eviction_requests",
                "Answered eviction requests by answer (pass, wait) and reason, without dry runs",
            ),
            notes: page.counters(
                "leaving_notes",
                "Annotations of pods with a pending eviction by outcome: ok, full (the queue was full, \
                 retried), Gone, Conflict, Throttled, Unavailable, Denied, Refused",
            ),
            notes_waiting: page.gauge(
                "leaving_notes_waiting",
                "Annotations of pods with a pending eviction that this replica still has to write",
            ),
            departure: page.histogram(
                "departure",
                SLOW,
                "Time from the first eviction request for a pod without a hold to the approval of the eviction",
            ),
            nodes: page.gauges(
                "nodes_leaving",
                "Nodes that are being removed, by reason: NodeDying (also deleted nodes that still have pods), \
                 NodeDisrupted",
            ),
        }
    }
}

impl Metrics {
    /// Counts an eviction request, and whether the eviction was allowed.
    pub fn eviction_asked(&self, passes: bool, reason: Reason) {
        let answer = if passes { "pass" } else { "wait" };
        self.leaving.eviction_requests.get_or_create(&EvictionLabels { answer, reason: Word(reason) }).inc();
    }

    /// Counts the result of annotating a pod with a pending eviction.
    pub fn note_ended(&self, outcome: &'static str) {
        self.leaving.notes.get_or_create(&OutcomeLabel { outcome }).inc();
    }

    /// Sets the number of annotations that are not written yet.
    #[allow(clippy::cast_precision_loss)] // the count is far below 2^52
    pub fn notes_wait(&self, count: usize) {
        self.leaving.notes_waiting.set(count as f64);
    }

    /// Sets the number of nodes that will be removed. Only the leader reports the number, although each replica watches
    /// nodes.
    #[allow(clippy::cast_precision_loss)] // the count is far below 2^52
    pub fn nodes_go(&self, count: impl Fn(Fate) -> usize) {
        if !self.leads.load(Ordering::Relaxed) {
            self.leaving.nodes.clear();
            return;
        }
        let dying = count(Fate::Dying) + count(Fate::Deleted);
        for (reason, nodes) in [(Reason::NodeDisrupted, count(Fate::Disrupted)), (Reason::NodeDying, dying)] {
            self.leaving.nodes.get_or_create(&ReasonLabel::of(reason)).set(nodes as f64);
        }
    }
}
