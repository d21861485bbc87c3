//! The report of a run for people.

use std::{fmt::Write, time::Duration};

use headgate_harness::{figures, judge::Explained, recorder::Micros};

use super::{faults::Struck, quiet::Waited};

/// Faults within this distance of a loss are reported with it, in microseconds: longer than pods are held.
const AROUND: Micros = 60_000_000;
/// The number of losses per round that are reported in detail.
const TOLD: usize = 20;

/// A longer wait is reported in detail: longer than a hold and the grace period of a pod.
const SLOW: Duration = Duration::from_secs(60);

/// A lost request.
#[derive(Clone, Debug)]
pub struct Loss {
    /// The load balancer.
    pub workload: &'static str,
    /// The judge's explanation.
    pub lost: Explained,
}

/// The result of a round.
#[derive(Clone, Debug, Default)]
pub struct Row {
    /// Its number, from 1.
    pub number: usize,
    /// Its faults.
    pub struck: Vec<Struck>,
    /// Replaced pods, most of them by rollouts.
    pub replaced: usize,
    /// The number of requests.
    pub offered: u64,
    /// Requests that were sent again on another connection, like every client does.
    pub retried: u64,
    /// Requests that the generator started late.
    pub behind: u64,
    /// The lost requests.
    pub lost: Vec<Loss>,
    /// Living pods that were unhealthy in the load balancer because the machine was too slow.
    pub doubtful: Vec<String>,
    /// The longest time from the deletion of a pod until AWS accepted its deregistration: the used part of the reserve.
    pub removal: Duration,
    /// The time from the end of the last fault until all conditions held.
    pub quiet_after: Duration,
    /// The waits in that time.
    pub waited: Waited,
    /// The violated conditions.
    pub differs: Vec<String>,
}

impl Row {
    /// Whether nothing was lost, and all conditions held.
    pub fn is_good(&self) -> bool {
        self.lost.is_empty() && self.differs.is_empty()
    }

    /// Whether the round needs an explanation.
    pub fn is_remarkable(&self) -> bool {
        !self.complaints().is_empty()
    }

    /// Its cells of the table.
    pub fn cells(&self) -> [String; 9] {
        let faults: Vec<String> = self
            .struck
            .iter()
            .map(|struck| {
                let seconds = struck.lasted.as_secs_f64();
                format!("{} {seconds:.1} s (+{:.1})", struck.fault.name(), struck.recovered_in.as_secs_f64())
            })
            .collect();
        let holds = if self.differs.is_empty() { "as wanted" } else { "**DIFFERS**" };
        [
            self.number.to_string(),
            faults.join(", "),
            self.replaced.to_string(),
            self.offered.to_string(),
            self.retried.to_string(),
            format!("**{}**", self.lost.len()),
            format!("{:.1} s", self.removal.as_secs_f64()),
            format!("{:.0} s{}", self.quiet_after.as_secs_f64(), self.waited_for()),
            holds.to_owned(),
        ]
    }

    /// The waits until all conditions held, in seconds.
    fn waited_for(&self) -> String {
        let each = self.waited.iter().map(|(what, (time, _))| format!("{what} {:.0}", time.as_secs_f64()));
        let each = each.collect::<Vec<_>>().join(", ");
        if each.is_empty() { each } else { format!(" ({each})") }
    }

    /// The violated conditions, long waits, and each loss with its time, place, and the faults around it.
    pub fn complaints(&self) -> String {
        let mut text = String::new();
        for differs in &self.differs {
            let _ = writeln!(text, "round {}: {differs}", self.number);
        }
        for (what, (time, detail)) in self.waited.iter().filter(|(_, (time, _))| *time > SLOW) {
            let _ = writeln!(text, "round {}: slow, {time:.0?} for {what}: {detail}", self.number);
        }
        for Loss { workload, lost } in self.lost.iter().take(TOLD) {
            let unknown = || "none".to_owned();
            let _ = writeln!(
                text,
                "round {}, {workload}: lost at {}, target {}, pod {}: {}; {} ms after the answer to DeregisterTargets; \
                 the client saw: {}; faults around it: {}",
                self.number,
                time_of_day(lost.at_us),
                lost.target.map_or_else(unknown, |target| target.to_string()),
                lost.pod.clone().unwrap_or_else(unknown),
                lost.rule.sentence(),
                lost.after_deregister_ms.map_or_else(unknown, |after| format!("{after:.0}")),
                lost.error,
                self.around(lost.at_us),
            );
        }
        if self.lost.len() > TOLD {
            let _ = writeln!(text, "round {}: and {} more", self.number, self.lost.len() - TOLD);
        }
        if !self.doubtful.is_empty() {
            let _ = writeln!(
                text,
                "round {}: these lived and were unhealthy for the load balancer, so the machine was too slow: {}",
                self.number,
                self.doubtful.join(", "),
            );
        }
        text
    }

    /// The faults around a moment, with their begin and end relative to it.
    fn around(&self, at: Micros) -> String {
        let near = self.struck.iter().filter(|struck| {
            let ended = struck.began + micros(struck.lasted);
            struck.began <= at + AROUND && at <= ended + AROUND
        });
        let told = near.map(|struck| {
            let [began, ended] = [struck.began, struck.began + micros(struck.lasted)].map(|is| from(at, is));
            format!("{} from {began:+.1} s to {ended:+.1} s", struck.fault.name())
        });
        let told: Vec<String> = told.collect();
        if told.is_empty() { "none".to_owned() } else { told.join(", ") }
    }
}

fn micros(time: Duration) -> Micros {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// The seconds from one moment to another.
#[allow(clippy::cast_precision_loss)] // within a run
fn from(at: Micros, to: Micros) -> f64 {
    if to >= at { (to - at) as f64 / 1e6 } else { -((at - to) as f64 / 1e6) }
}

/// The time of day of a moment, in UTC.
fn time_of_day(at: Micros) -> String {
    let (seconds, millis) = (at / 1_000_000 % 86_400, at / 1000 % 1000);
    format!("{:02}:{:02}:{:02}.{millis:03}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

/// The header of the table.
const HEAD: [&str; 9] = [
    "round",
    "faults (and seconds until all had recovered)",
    "pods replaced",
    "requests",
    "retried",
    "**lost**",
    "slowest removal",
    "quiet after",
    "AWS holds",
];

/// The settings of a run.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Its duration.
    pub minutes: u64,
    /// The seed of its faults.
    pub seed: u64,
    /// The reserve of the hold beyond the propagation delay, in seconds.
    pub margin: u32,
}

/// The whole report.
pub fn page(setting: Setting, rows: &[Row]) -> String {
    let Setting { minutes, seed, margin } = setting;
    let cells: Vec<[String; 9]> = rows.iter().map(Row::cells).collect();
    let table = figures::table(&HEAD, &cells);
    let mut text = format!("# Chaos: {minutes} minutes, seed {seed}, margin {margin} s\n\n{table}");
    let sum = |count: fn(&Row) -> u64| rows.iter().map(count).sum::<u64>();
    let count = |of: fn(&Row) -> usize| rows.iter().map(of).sum::<usize>();
    let slowest = rows.iter().map(|row| row.removal).max().unwrap_or_default();
    let _ = writeln!(
        text,
        "\n{} rounds, {} faults, {} pods replaced, {} requests ({} sent again on another connection, {} started late by the \
         generator), **{} lost**; slowest removal {:.1} s of a margin of {margin} s; {} rounds differed.",
        rows.len(),
        count(|row| row.struck.len()),
        count(|row| row.replaced),
        sum(|row| row.offered),
        sum(|row| row.retried),
        sum(|row| row.behind),
        count(|row| row.lost.len()),
        slowest.as_secs_f64(),
        rows.iter().filter(|row| !row.differs.is_empty()).count(),
    );
    let complaints: String = rows.iter().map(Row::complaints).collect();
    if !complaints.is_empty() {
        let _ = write!(text, "\n```text\n{complaints}```\n");
    }
    text
}

/// Whether all guarantees held, and there were requests and faults.
pub fn is_good(rows: &[Row]) -> bool {
    !rows.is_empty() && rows.iter().all(Row::is_good)
}

#[cfg(test)]
mod tests {
    use headgate_harness::judge::Rule;

    use super::*;
    use crate::chaos::plan::Fault;

    fn row() -> Row {
        let second = Duration::from_secs(1);
        let (began, lasted, recovered_in) = (100_000_000, second * 10, second / 2);
        let struck = vec![Struck { fault: Fault::LeaderStopped, began, lasted, recovered_in }];
        Row { number: 1, struck, replaced: 12, offered: 500, removal: second * 3, ..Row::default() }
    }

    fn loss(at_us: Micros) -> Loss {
        let lost = Explained {
            at_us,
            phase: String::new(),
            node: None,
            target: Some("10.0.0.1:8080".parse().unwrap()),
            pod: Some("web-1".into()),
            rule: Rule::AfterDeregister,
            after_deregister_ms: Some(1500.0),
            before_registration_was_known_ms: None,
            error: "reset".into(),
        };
        Loss { workload: "chaos-nlb", lost }
    }

    const SETTING: Setting = Setting { minutes: 1, seed: 7, margin: 30 };

    #[test]
    fn a_run_without_a_loss_and_a_difference_is_good_and_one_without_a_round_is_not() {
        assert!(is_good(&[row()]) && !is_good(&[]));
        let page = page(SETTING, &[row(), row()]);
        assert!(
            row().cells()[..7] == ["1", "leader stopped 10.0 s (+0.5)", "12", "500", "0", "**0**", "3.0 s"],
            "{page}"
        );
        assert!(page.contains("2 rounds, 2 faults, 24 pods replaced, 1000 requests"), "{page}");
        assert!(page.contains("**0 lost**") && !page.contains("```"), "{page}");
    }

    #[test]
    fn a_loss_is_told_with_when_and_where_and_the_faults_around_it() {
        let rows = [Row { lost: vec![loss(112_000_000)], ..row() }];
        assert!(!is_good(&rows));
        let page = page(SETTING, &rows);
        assert!(page.contains("lost at 00:01:52.000, target 10.0.0.1:8080, pod web-1"), "{page}");
        assert!(page.contains("leader stopped from -12.0 s to -2.0 s"), "{page}");
        let late = Row { lost: vec![loss(900_000_000)], ..row() };
        assert!(late.complaints().contains("faults around it: none"), "{}", late.complaints());
    }

    #[test]
    fn what_differs_is_told_and_is_not_good() {
        let rows = [Row { differs: vec!["AWS lacks it".into()], ..row() }];
        let page = page(SETTING, &rows);
        assert!(!is_good(&rows) && page.contains("**DIFFERS**"), "{page}");
        assert!(page.contains("round 1: AWS lacks it") && page.contains("1 rounds differed"), "{page}");
    }
}
