//! Pods that are to be evicted, and nodes that are about to go.

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
                "Answers to requests for the eviction of pods, by answer (pass, wait) and reason; dry runs do not \
                 count",
            ),
            notes: page.counters(
                "leaving_notes",
                "Notes on pods that their eviction is asked for (EvictionWaits) by outcome: ok, full (there was no \
                 room, it is asked for again), Gone, Conflict, Throttled, Unavailable, Denied, Refused",
            ),
            notes_waiting: page.gauge(
                "leaving_notes_waiting",
                "Such notes that are still to be written by this replica",
            ),
            departure: page.histogram(
                "departure",
                SLOW,
                "From the first request for the eviction of a pod that has no hold to its being let through",
            ),
            nodes: page.gauges(
                "nodes_leaving",
                "Nodes that are about to go, by reason: NodeDying (or gone, while pods of it are left), \
                 NodeDisrupted",
            ),
        }
    }
}

impl Metrics {
    /// The eviction of a pod was asked for, and let through or not.
    pub fn eviction_asked(&self, passes: bool, reason: Reason) {
        let answer = if passes { "pass" } else { "wait" };
        self.leaving.eviction_requests.get_or_create(&EvictionLabels { answer, reason: Word(reason) }).inc();
    }

    /// That the eviction of a pod is asked for was noted on it, or could not be.
    pub fn note_ended(&self, outcome: &'static str) {
        self.leaving.notes.get_or_create(&OutcomeLabel { outcome }).inc();
    }

    /// So many such notes are still to be written.
    #[allow(clippy::cast_precision_loss)] // far from it
    pub fn notes_wait(&self, count: usize) {
        self.leaving.notes_waiting.set(count as f64);
    }

    /// So many nodes are about to go; each replica sees them, and the leader alone says so.
    #[allow(clippy::cast_precision_loss)] // far from it
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
