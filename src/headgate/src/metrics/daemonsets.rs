//! The metrics of IngressDaemonSets, which only `headgate daemonsets` serves.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use headgate_core::model::object::ObjectKey;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{MetricType, gauge::ConstGauge},
};

use super::{
    Metrics,
    labels::{RequestLabels, VerbLabel},
    page::{Counters, Histograms, Page},
};

/// The prefix of the names of the IngressDaemonSet metrics.
pub(super) const PREFIX: &str = "headgate_daemonsets";

#[derive(Debug)]
pub(super) struct Daemonsets {
    requests: Counters<RequestLabels>,
    duration: Histograms<VerbLabel>,
}

impl Daemonsets {
    pub(super) fn register(page: &mut Page) -> Self {
        Self {
            requests: page.counters(
                "requests",
                "Requests for IngressDaemonSets by verb (make, delete, evict, write_status and others) and \
                 outcome: ok, Exists, Gone, Conflict, Refused, NotNow, Unknown",
            ),
            duration: page.histograms("request_duration", "Duration of requests for IngressDaemonSets"),
        }
    }
}

impl Metrics {
    /// Counts a completed request for a set.
    pub fn set_asked(&self, verb: &'static str, outcome: &'static str, took: Duration) {
        self.daemonsets.requests.get_or_create(&RequestLabels { verb, outcome }).inc();
        self.daemonsets.duration.get_or_create(&VerbLabel { verb }).observe(took.as_secs_f64());
    }
}

/// The number of nodes or pods in each state.
type States = [(&'static str, usize); 5];

/// The numbers of nodes and pods of a set.
#[derive(Clone, Debug)]
pub struct SetCounts {
    /// The name of the set.
    pub set: ObjectKey,
    /// The number of the set's nodes by state.
    pub nodes: States,
    /// The number of the set's pods by state.
    pub pods: States,
    /// The state of the set's rollout.
    pub roll: &'static str,
}

const SET: [&str; 2] = ["namespace", "ingressdaemonset"];
const OF: [&str; 3] = [SET[0], SET[1], "state"];
const ROLL: [&str; 3] = [SET[0], SET[1], "reason"];
const NODES: (&str, &str) =
    ("nodes", "Nodes of an IngressDaemonSet by state: wanted, updated, degraded, in_turn, late");
const PODS: (&str, &str) =
    ("set_pods", "Pods of an IngressDaemonSet by state: wanted, live, updated, ready, available");
const ROLLS: (&str, &str) =
    ("roll", "1, with the reason of the condition Progressing of an IngressDaemonSet");

/// Declares the metrics that are computed at each scrape, and computes them while this replica is the leader.
pub(super) fn counted(
    mut page: Page,
    leads: Arc<AtomicBool>,
    sets: impl Fn() -> Vec<SetCounts> + Send + Sync + 'static,
) -> Page {
    page.declare(NODES.0, &OF, MetricType::Gauge, NODES.1);
    page.declare(PODS.0, &OF, MetricType::Gauge, PODS.1);
    page.declare(ROLLS.0, &ROLL, MetricType::Gauge, ROLLS.1);
    page.collect(Counted { leads, sets: Box::new(sets) });
    page
}

struct Counted {
    leads: Arc<AtomicBool>,
    sets: Box<dyn Fn() -> Vec<SetCounts> + Send + Sync>,
}

impl fmt::Debug for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counted").finish_non_exhaustive()
    }
}

impl Collector for Counted {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        if !self.leads.load(Ordering::Relaxed) {
            return Ok(());
        }
        let sets = (self.sets)();
        states(NODES, sets.iter().map(|set| (&set.set, &set.nodes)), &mut encoder)?;
        states(PODS, sets.iter().map(|set| (&set.set, &set.pods)), &mut encoder)?;
        let (name, help) = ROLLS;
        let mut family = encoder.encode_descriptor(name, &format!("{help}."), None, MetricType::Gauge)?;
        for set in &sets {
            let labels = [(ROLL[0], &*set.set.namespace), (ROLL[1], &*set.set.name), (ROLL[2], set.roll)];
            ConstGauge::new(1_i64).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

fn states<'a>(
    (name, help): (&str, &str),
    sets: impl Iterator<Item = (&'a ObjectKey, &'a States)>,
    encoder: &mut DescriptorEncoder<'_>,
) -> Result<(), fmt::Error> {
    let mut family = encoder.encode_descriptor(name, &format!("{help}."), None, MetricType::Gauge)?;
    for (set, states) in sets {
        for (state, count) in states {
            let labels = [(OF[0], &*set.namespace), (OF[1], &*set.name), (OF[2], *state)];
            let count = i64::try_from(*count).unwrap_or(i64::MAX);
            ConstGauge::new(count).encode(family.encode_family(&labels)?)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        metrics::{Format, Level},
        runtime::clock::Clock,
    };

    #[test]
    fn the_page_of_sets_has_names_of_its_own_and_counts_while_this_replica_leads() {
        let metrics = Metrics::of_daemonsets(Clock::start(), Level::Default, || {
            vec![SetCounts {
                set: ObjectKey::new("ingress", "edge"),
                nodes: [("wanted", 3), ("updated", 1), ("degraded", 0), ("in_turn", 1), ("late", 0)],
                pods: [("wanted", 6), ("live", 7), ("updated", 3), ("ready", 6), ("available", 6)],
                roll: "NodesInTurn",
            }]
        });
        metrics.set_asked("make", "ok", Duration::from_millis(3));
        metrics.lease_failed("get");
        let page = metrics.page(Format::Prometheus).unwrap();
        assert!(
            page.contains("headgate_daemonsets_requests_total{verb=\"make\",outcome=\"ok\"} 1"),
            "{page}"
        );
        assert!(page.contains("headgate_daemonsets_lease_failures_total{verb=\"get\"} 1"), "{page}");
        assert!(!page.contains("state=\"wanted\"") && !page.contains("headgate_target"), "{page}");
        metrics.leads(true);
        let page = metrics.page(Format::Prometheus).unwrap();
        for line in [
            "headgate_daemonsets_nodes{namespace=\"ingress\",ingressdaemonset=\"edge\",state=\"updated\"} 1",
            "headgate_daemonsets_set_pods{namespace=\"ingress\",ingressdaemonset=\"edge\",state=\"live\"} 7",
            "headgate_daemonsets_roll{namespace=\"ingress\",ingressdaemonset=\"edge\",reason=\"NodesInTurn\"} 1",
            "headgate_daemonsets_leader 1",
        ] {
            assert!(page.contains(line), "{line} in {page}");
        }
    }
}
