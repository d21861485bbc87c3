//! The result of a run: all records and their statistics.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::Duration;

use serde::Serialize;
use serde_json::json;

use crate::client::Client;
use crate::ledger::{Counts, Ledger};
use crate::plan::{ClientKind, Mode, Plan};
use crate::record::{Outcome, Record};

mod table;

/// The result of a run. `counts.offered` equals `counts.ok + counts.retried + counts.lost`, and the number of records.
/// `Display` formats the report as a table.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// The counts of the whole run.
    pub counts: Counts,
    /// The counts per phase, in the order of the first use.
    pub phases: Vec<PhaseReport>,
    /// The counts per client, in the order of the plan.
    pub clients: Vec<ClientReport>,
    /// All records, sorted by intended start.
    pub records: Vec<Record>,
    /// See [`Plan::tolerance`].
    pub tolerance: Duration,
}

/// The counts of one phase.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PhaseReport {
    /// The label of the phase.
    pub label: String,
    /// The counts of requests whose intended start is in the phase.
    #[serde(flatten)]
    pub counts: Counts,
}

/// The counts of one client.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClientReport {
    /// How the client used DNS answers.
    pub kind: ClientKind,
    /// How the client used connections.
    pub mode: Mode,
    /// The counts of the client's requests.
    #[serde(flatten)]
    pub counts: Counts,
    /// The number of DNS lookups.
    pub dns_queries: u64,
    /// The number of lookups that returned no address. After a lookup without an address, the client keeps using the
    /// last addresses.
    pub dns_failures: u64,
}

/// Statistics of the durations of requests with correct answers, in microseconds. A duration begins at the intended
/// start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Latency {
    /// The median.
    pub p50_us: u64,
    /// The 90th percentile.
    pub p90_us: u64,
    /// The 99th percentile.
    pub p99_us: u64,
    /// The maximum.
    pub max_us: u64,
}

/// A report without its records.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// The counts of the whole run.
    #[serde(flatten)]
    pub counts: Counts,
    /// The durations of requests that were not lost.
    pub latency: Latency,
    /// The number of lost requests per reason.
    pub lost_because: BTreeMap<String, u64>,
    /// The number of correct answers per pod.
    pub pods: BTreeMap<String, u64>,
    /// See [`Report::phases`].
    pub phases: Vec<PhaseReport>,
    /// See [`Report::clients`].
    pub clients: Vec<ClientReport>,
}

impl Report {
    pub(crate) fn new(plan: &Plan, ledger: Ledger, labels: Vec<String>, clients: &[Client]) -> Self {
        let Ledger { total, phases, clients: counts, mut records } = ledger;
        records.sort_by_key(|record| record.intended_us);
        let phases = labels.into_iter().enumerate().map(|(index, label)| PhaseReport {
            label,
            counts: phases.get(index).copied().unwrap_or_default(),
        });
        let clients =
            plan.clients.iter().zip(counts).zip(clients).map(|((planned, counts), client)| ClientReport {
                kind: planned.kind,
                mode: planned.mode,
                counts,
                dns_queries: client.resolver().queries(),
                dns_failures: client.resolver().failures(),
            });
        Self {
            counts: total,
            phases: phases.collect(),
            clients: clients.collect(),
            records,
            tolerance: plan.tolerance,
        }
    }

    /// Returns the records of lost requests.
    pub fn lost(&self) -> impl Iterator<Item = &Record> {
        self.records.iter().filter(|record| record.outcome == Outcome::Lost)
    }

    /// Returns the counts of a phase. `None`: no phase has this label.
    pub fn phase(&self, label: &str) -> Option<&Counts> {
        self.phases.iter().find(|phase| phase.label == label).map(|phase| &phase.counts)
    }

    /// Returns all statistics.
    pub fn summary(&self) -> Summary {
        let mut lost_because = BTreeMap::new();
        let mut pods = BTreeMap::new();
        for record in &self.records {
            match (record.outcome, &record.failure, &record.pod) {
                (Outcome::Lost, Some(failure), _) => {
                    *lost_because.entry(failure.to_string()).or_default() += 1;
                }
                (Outcome::Ok | Outcome::Retried, _, Some(pod)) => {
                    *pods.entry(pod.to_string()).or_default() += 1;
                }
                _ => {}
            }
        }
        Summary {
            counts: self.counts,
            latency: self.latency(),
            lost_because,
            pods,
            phases: self.phases.clone(),
            clients: self.clients.clone(),
        }
    }

    /// Returns statistics of the durations of requests with correct answers. All values are zero if there were no
    /// correct answers.
    pub fn latency(&self) -> Latency {
        let right = self.records.iter().filter(|record| record.outcome != Outcome::Lost);
        let mut durations: Vec<Duration> = right.map(|record| record.duration).collect();
        durations.sort_unstable();
        let percentile = |percent: usize| {
            // The nearest-rank percentile.
            let rank = (durations.len() * percent).div_ceil(100).saturating_sub(1);
            durations.get(rank).map_or(0, |duration| duration_us(*duration))
        };
        Latency {
            p50_us: percentile(50),
            p90_us: percentile(90),
            p99_us: percentile(99),
            max_us: percentile(100),
        }
    }

    /// Writes each record as one line of JSON, sorted by intended start.
    pub fn write_records(&self, mut to: impl Write) -> io::Result<()> {
        for record in &self.records {
            let phase = self.phases.get(record.phase).map(|phase| phase.label.as_str());
            let kind = self.clients.get(record.client).map(|client| client.kind);
            let line = json!({
                "client": record.client,
                "kind": kind,
                "mode": record.mode,
                "phase": phase,
                "intended_us": record.intended_us,
                "late_us": duration_us(record.late),
                "duration_us": duration_us(record.duration),
                "node": record.node,
                "local_port": record.local_port,
                "pod": record.pod.as_deref(),
                "outcome": record.outcome,
                "detail": record.failure.as_ref().map(ToString::to_string),
            });
            writeln!(to, "{line}")?;
        }
        to.flush()
    }
}

fn duration_us(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
