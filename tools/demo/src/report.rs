//! The end of the demo: the table, `target/demo/report.json`, and the verdict.

use std::{collections::BTreeMap, fmt::Write as _};

use headgate_harness::{
    figures::{self, percentile},
    judge::{Explained, Findings, Rule},
};
use serde::Serialize;

use crate::screen::{Counts, grouped};

/// Percentiles in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Percentiles {
    /// The median.
    pub p50: Option<f64>,
    /// The 99th percentile.
    pub p99: Option<f64>,
}

impl Percentiles {
    /// The percentiles of these values, by nearest rank.
    pub fn of(values: &[f64]) -> Self {
        let at = |percent| percentile(values, percent).map(|value| (value * 1000.0).round() / 1000.0);
        Self { p50: at(50), p99: at(99) }
    }
}

/// One run in the report.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    /// The number of requests.
    pub offered: u64,
    /// Complete, correct and in time.
    pub ok: u64,
    /// The same after the one retry of a reused connection that had ended.
    pub retried: u64,
    /// The other requests.
    pub lost: u64,
    /// New connections that reached pods after their DeregisterTargets was answered.
    pub after_deregister: u64,
    /// The number of terminated pods.
    pub pods_replaced: usize,
    /// The longest time from the answer of a DeregisterTargets to a new connection.
    pub largest_lag_ms: f64,
    /// The time from the event with a pod's IP at Headgate to RegisterTargets.
    pub pod_ip_to_register_ms: Percentiles,
    /// The time from the event with a pod's deletion at Headgate to DeregisterTargets.
    pub deletion_to_deregister_ms: Percentiles,
    /// The number of requests that the generator started late.
    pub behind: u64,
    /// The number of lost requests by rule.
    pub lost_by_rule: BTreeMap<Rule, u64>,
    /// Each lost request.
    pub lost_requests: Vec<Explained>,
    /// Live pods that looked unhealthy because the machine was slow. Any makes the run invalid.
    pub unhealthy_alive: Vec<String>,
    /// Entries that the trace dropped. Any makes the run invalid.
    pub trace_dropped: u64,
}

impl Run {
    /// Creates the report of a run.
    pub fn new(
        counts: Counts,
        behind: u64,
        findings: Findings,
        dropped: u64,
        waits: &(Vec<f64>, Vec<f64>),
    ) -> Self {
        let mut lost_by_rule = BTreeMap::new();
        for lost in &findings.lost {
            *lost_by_rule.entry(lost.rule).or_default() += 1;
        }
        #[allow(clippy::cast_precision_loss)] // within a run
        let largest_lag_ms = findings.largest_lag as f64 / 1000.0;
        Self {
            offered: counts.offered,
            ok: counts.ok,
            retried: counts.retried,
            lost: counts.lost,
            after_deregister: findings.after_deregister,
            pods_replaced: findings.pods_replaced,
            largest_lag_ms,
            pod_ip_to_register_ms: Percentiles::of(&waits.0),
            deletion_to_deregister_ms: Percentiles::of(&waits.1),
            behind,
            lost_by_rule,
            lost_requests: findings.lost,
            unhealthy_alive: findings.unhealthy_alive,
            trace_dropped: dropped,
        }
    }
}

/// Both runs.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The run with gate and hold.
    pub careful: Run,
    /// The run without them: the control.
    pub plain: Run,
}

/// The minimum results of a valid demo.
#[derive(Clone, Copy, Debug)]
pub struct Demands {
    /// The minimum number of requests in the careful run.
    pub offered: u64,
    /// The minimum number of replaced pods in the careful run.
    pub pods_replaced: usize,
    /// The scaled maximum lag of a node in milliseconds. Half of it must have been seen.
    pub lag_bound_ms: f64,
    /// The minimum share of lost requests in the plain run.
    pub plain_loss: f64,
}

/// The result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All minimum results were reached.
    Pass,
    /// Contains what was not reached.
    Fail(Vec<String>),
    /// Contains why the run proves nothing.
    Invalid(Vec<String>),
}

impl Verdict {
    /// The exit code: 0, 1 or 3.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Pass => 0,
            Self::Fail(_) => 1,
            Self::Invalid(_) => 3,
        }
    }
}

impl Report {
    /// The verdict.
    pub fn verdict(&self, demands: Demands) -> Verdict {
        let (careful, plain) = (&self.careful, &self.plain);
        let mut invalid = Vec::new();
        for (name, run) in [("careful", careful), ("plain", plain)] {
            if !run.unhealthy_alive.is_empty() {
                let pods = run.unhealthy_alive.join(", ");
                invalid.push(format!(
                    "{name}: live pods were marked unhealthy, this machine was too slow: {pods}"
                ));
            }
            if run.trace_dropped > 0 {
                invalid.push(format!("{name}: the trace lost {} entries", run.trace_dropped));
            }
        }
        if !invalid.is_empty() {
            return Verdict::Invalid(invalid);
        }
        let mut failed = Vec::new();
        let mut demand = |met: bool, said: String| {
            if !met {
                failed.push(said);
            }
        };
        demand(careful.lost == 0, format!("careful lost {} requests; expected none", careful.lost));
        demand(
            careful.offered >= demands.offered,
            format!("careful offered {} requests; expected {} or more", careful.offered, demands.offered),
        );
        demand(
            careful.pods_replaced >= demands.pods_replaced,
            format!(
                "careful replaced {} pods; expected {} or more",
                careful.pods_replaced, demands.pods_replaced
            ),
        );
        demand(
            careful.after_deregister > 0,
            "no connection came after a Deregister; so nothing had to be held, and nothing is shown"
                .to_owned(),
        );
        demand(
            careful.largest_lag_ms >= demands.lag_bound_ms / 2.0,
            format!(
                "the largest lag seen was {:.0} ms; expected at least half of the bound of {:.0} ms",
                careful.largest_lag_ms, demands.lag_bound_ms
            ),
        );
        #[allow(clippy::cast_precision_loss)] // thousands
        let share = plain.lost as f64 / plain.offered.max(1) as f64;
        demand(
            share >= demands.plain_loss,
            format!(
                "plain lost {:.2} %; expected {:.1} % or more, or the control shows nothing",
                share * 100.0,
                demands.plain_loss * 100.0
            ),
        );
        if failed.is_empty() { Verdict::Pass } else { Verdict::Fail(failed) }
    }

    /// The table.
    pub fn table(&self) -> String {
        let (careful, plain) = (&self.careful, &self.plain);
        let mut rows = Vec::new();
        let mut row = |name: &str, cell: &dyn Fn(&Run) -> String| {
            rows.push([name.to_owned(), cell(careful), cell(plain)]);
        };
        row("requests offered", &|run| grouped(run.offered));
        row("ok", &|run| grouped(run.ok));
        row("retried", &|run| grouped(run.retried));
        row("lost", &|run| grouped(run.lost));
        row("pods replaced", &|run| run.pods_replaced.to_string());
        row("delivered to pods after their Deregister", &|run| grouped(run.after_deregister));
        row("largest lag after a Deregister", &|run| format!("{:.0} ms", run.largest_lag_ms));
        let pair = |of: Percentiles| match of {
            Percentiles { p50: Some(p50), p99: Some(p99) } => format!("{p50:.1} / {p99:.1}"),
            _ => "-".to_owned(),
        };
        row("pod IP → Register, ms, p50 / p99", &|run| pair(run.pod_ip_to_register_ms));
        row("deletion → Deregister, ms, p50 / p99", &|run| pair(run.deletion_to_deregister_ms));
        row("requests the generator started late", &|run| grouped(run.behind));
        let mut out = figures::table(&["", "careful", "plain"], &rows);
        for (name, run) in [("careful", careful), ("plain", plain)] {
            for (rule, count) in &run.lost_by_rule {
                let _ = writeln!(out, "\n{name} lost {}: {}", grouped(*count), rule.sentence());
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEMANDS: Demands =
        Demands { offered: 10_000, pods_replaced: 12, lag_bound_ms: 6_000.0, plain_loss: 0.005 };

    fn run(lost: u64) -> Run {
        let counts = Counts { offered: 20_000, ok: 20_000 - lost, retried: 0, lost };
        let findings = Findings {
            after_deregister: 5,
            largest_lag: 5_000_000,
            pods_replaced: 16,
            ..Findings::default()
        };
        Run::new(counts, 0, findings, 0, &(vec![1.0, 2.0], vec![]))
    }

    fn report() -> Report {
        Report { careful: run(0), plain: run(500) }
    }

    #[test]
    fn a_run_that_shows_everything_passes() {
        assert_eq!(report().verdict(DEMANDS), Verdict::Pass);
        assert_eq!(Verdict::Pass.exit_code(), 0);
    }

    #[test]
    fn each_demand_that_is_not_met_fails_by_itself() {
        type Change = fn(&mut Report);
        let changes: [(&str, Change); 6] = [
            ("careful lost 1 requests", |r| r.careful.lost = 1),
            ("careful offered 9999", |r| r.careful.offered = 9_999),
            ("careful replaced 11 pods", |r| r.careful.pods_replaced = 11),
            ("no connection came after a Deregister", |r| r.careful.after_deregister = 0),
            ("the largest lag seen was 2999 ms", |r| r.careful.largest_lag_ms = 2_999.0),
            ("plain lost 0.49 %", |r| r.plain.lost = 98),
        ];
        for (said, change) in changes {
            let mut report = report();
            change(&mut report);
            let Verdict::Fail(failed) = report.verdict(DEMANDS) else { panic!("{said}") };
            assert!(failed.len() == 1 && failed[0].contains(said), "{said}: {failed:?}");
        }
    }

    #[test]
    fn a_slow_machine_or_a_torn_trace_makes_it_invalid_whatever_else_was_seen() {
        let mut slow = report();
        slow.plain.unhealthy_alive = vec!["a at 10.0.0.1:80".into()];
        slow.careful.lost = 7;
        let mut torn = report();
        torn.careful.trace_dropped = 1;
        for report in [slow, torn] {
            let verdict = report.verdict(DEMANDS);
            assert!(matches!(verdict, Verdict::Invalid(_)) && verdict.exit_code() == 3, "{verdict:?}");
        }
    }

    #[test]
    fn the_json_has_the_promised_keys() {
        let json = serde_json::to_value(report()).unwrap();
        for key in ["offered", "ok", "retried", "lost", "after_deregister", "pods_replaced", "largest_lag_ms"]
        {
            assert!(json["careful"][key].is_number() && json["plain"][key].is_number(), "{key}");
        }
        assert_eq!(json["careful"]["pod_ip_to_register_ms"]["p50"], 1.0);
        assert!(json["careful"]["deletion_to_deregister_ms"].get("p99").is_some());
    }
}
