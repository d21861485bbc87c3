//! Formats the report as text.

use std::fmt::{self, Display, Formatter};

use super::Report;
use crate::ledger::Counts;

/// The maximum number of reasons in the text. The records contain all reasons.
const REASONS: usize = 10;

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let summary = self.summary();
        writeln!(
            f,
            "{:<24} {:>9} {:>9} {:>9} {:>9} {:>9}",
            "", "offered", "ok", "retried", "lost", "behind"
        )?;
        line(f, "all", &self.counts)?;
        if self.phases.len() > 1 {
            for phase in &self.phases {
                line(f, &format!("phase {}", phase.label), &phase.counts)?;
            }
        }
        if self.clients.len() > 1 {
            let mut kinds: Vec<(String, Counts)> = Vec::new();
            for client in &self.clients {
                let label = format!("{} {}", word(&client.kind), word(&client.mode));
                match kinds.iter_mut().find(|(known, _)| *known == label) {
                    Some((_, sum)) => add(sum, &client.counts),
                    None => kinds.push((label, client.counts)),
                }
            }
            for (label, counts) in &kinds {
                line(f, label, counts)?;
            }
        }
        let latency = summary.latency;
        writeln!(
            f,
            "latency from the intended start: p50 {}, p90 {}, p99 {}, max {}",
            milliseconds(latency.p50_us),
            milliseconds(latency.p90_us),
            milliseconds(latency.p99_us),
            milliseconds(latency.max_us)
        )?;
        writeln!(f, "pods that answered: {}", summary.pods.len())?;
        let (queries, failures) = self.clients.iter().fold((0, 0), |(queries, failures), client| {
            (queries + client.dns_queries, failures + client.dns_failures)
        });
        writeln!(f, "look-ups: {queries}, without an address: {failures}")?;
        if self.counts.behind > 0 {
            writeln!(
                f,
                "the generator did not keep up: {} requests started more than {} ms late",
                self.counts.behind,
                self.tolerance.as_millis()
            )?;
        }
        let mut reasons: Vec<_> = summary.lost_because.into_iter().collect();
        reasons.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        for (reason, count) in reasons.iter().take(REASONS) {
            writeln!(f, "lost {count}: {reason}")?;
        }
        let rest: u64 = reasons.iter().skip(REASONS).map(|(_, count)| count).sum();
        if rest > 0 {
            writeln!(f, "lost {rest}: other reasons")?;
        }
        Ok(())
    }
}

fn line(f: &mut Formatter<'_>, label: &str, counts: &Counts) -> fmt::Result {
    let Counts { offered, ok, retried, lost, behind } = counts;
    writeln!(f, "{label:<24} {offered:>9} {ok:>9} {retried:>9} {lost:>9} {behind:>9}")
}

fn add(sum: &mut Counts, more: &Counts) {
    sum.offered += more.offered;
    sum.ok += more.ok;
    sum.retried += more.retried;
    sum.lost += more.lost;
    sum.behind += more.behind;
}

/// Returns the name of a value in the records.
fn word(of: &impl serde::Serialize) -> String {
    serde_json::to_value(of).ok().and_then(|word| word.as_str().map(ToOwned::to_owned)).unwrap_or_default()
}

fn milliseconds(microseconds: u64) -> String {
    format!("{}.{} ms", microseconds / 1000, microseconds % 1000 / 100)
}
