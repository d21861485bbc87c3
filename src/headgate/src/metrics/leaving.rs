//! Pods that are to be evicted, and nodes that are about to go.

use headgate_core::{Reason, model::Fate};
use prometheus_client::metrics::{family::Family, histogram::Histogram};

use super::{
    Metrics,
    labels::{EvictionLabels, ReasonLabel, Word},
    page::{Counters, Number, Page, SLOW},
};

#[derive(Debug)]
pub(super) struct Leaving {
    eviction_requests: Counters<EvictionLabels>,
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
            departure: page.histogram(
                "departure",
                SLOW,
                "From the first request for the eviction of a pod that has no hold to its being let through",
            ),
            nodes: page.gauges(
                "nodes_leaving",
                "Nodes that are about to go, by reason: NodeDying, NodeDeleted (while pods of it are left), \
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

    /// So many nodes are about to go.
    #[allow(clippy::cast_precision_loss)] // far from it
    pub fn nodes_go(&self, count: impl Fn(Fate) -> usize) {
        for fate in [Fate::Disrupted, Fate::Dying, Fate::Deleted] {
            self.leaving.nodes.get_or_create(&ReasonLabel::of(fate.reason())).set(count(fate) as f64);
        }
    }
}
