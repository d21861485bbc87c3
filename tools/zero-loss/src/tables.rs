//! The report as Markdown, for people.

use std::{collections::BTreeMap, fmt::Write, time::Duration};

use crate::{
    cell::Hold,
    report::{Report, Row},
    scenario::Scenario,
    stage::REPLICAS,
};

fn load_balancer(row: &Row) -> String {
    let off = if row.cross_zone { "" } else { ", cross-zone off" };
    format!("{}{off}", row.profile)
}

fn hold(row: &Row) -> String {
    let seconds = row.hold_seconds;
    match &*row.hold {
        hold if hold == Hold::Auto.name() => format!("`auto`: {seconds} s"),
        hold if hold == Hold::EvictionGate.name() => "none: eviction gate".to_owned(),
        _ => format!("{seconds} s"),
    }
}

fn or_none<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "–".to_owned(), |value| value.to_string())
}

/// Every row.
pub fn all(report: &Report) -> String {
    let mut text = String::from(
        "| scenario | ingress | load balancer | hold | client | nodes | promised | offered | retried | **lost** | control: offered | \
         control: lost | margin used | held too short | control: held too short |\n\
         |---|---|---|---|---|---|---|---:|---:|---:|---:|---:|---:|---:|---:|\n",
    );
    for row in &report.rows {
        let Row { scenario, ingress, client, nodes, offered, retried, lost, holds_too_short, .. } = row;
        let promised = if row.promised { "yes" } else { "no" };
        let used = Duration::from_millis(row.margin_used_ms).as_secs_f64();
        let [control_offered, control_lost, control_short] =
            [row.control_offered, row.control_lost, row.control_holds_too_short].map(or_none);
        let _ = writeln!(
            text,
            "| {scenario} | {ingress} | {} | {} | {client} | {nodes} | {promised} | {offered} | {retried} | **{lost}** | \
             {control_offered} | {control_lost} | {used:.1} s | {holds_too_short} | {control_short} |",
            load_balancer(row),
            hold(row),
        );
    }
    text
}

/// The rows of each cell, in the order of the report.
fn cells(report: &Report) -> Vec<Vec<&Row>> {
    let mut cells: Vec<Vec<&Row>> = Vec::new();
    for row in &report.rows {
        match cells.last_mut().filter(|rows| rows[0].cell() == row.cell()) {
            Some(rows) => rows.push(row),
            None => cells.push(vec![row]),
        }
    }
    cells
}

/// The cells that nobody can promise: what they lost, for how long, and why.
pub fn not_promised(report: &Report) -> String {
    let mut text = String::from(
        "| scenario | load balancer | hold | nodes | offered | lost | lost for | at most | why |\n\
         |---|---|---|---|---:|---:|---:|---:|---|\n",
    );
    for rows in cells(report) {
        let row = rows[0];
        if row.promised {
            continue;
        }
        let sum = |count: fn(&Row) -> u64| rows.iter().map(|row| count(row)).sum::<u64>();
        let [lost_for, bound] =
            [row.lost_for_ms, row.loss_bound_ms].map(|ms| Duration::from_millis(ms).as_secs_f64());
        let why = match row.scenario() {
            _ if row.is_too_short() => "the hold is shorter than the load balancer is slow",
            Some(scenario) => scenario.about().why,
            None => "",
        };
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {lost_for:.1} s | {bound:.0} s | {why} |",
            row.scenario,
            load_balancer(row),
            hold(row),
            row.nodes,
            sum(|row| row.offered),
            sum(|row| row.lost),
        );
    }
    text
}

/// The fewest healthy targets while one set of pods took the place of another.
pub fn swaps(report: &Report) -> String {
    let mut text = String::from(
        "| scenario | load balancer | nodes | pods of each set | fewest healthy targets at any moment |\n\
         |---|---|---|---:|---:|\n",
    );
    for rows in cells(report) {
        let row = rows[0];
        if row.scenario().is_some_and(Scenario::keeps_its_healthy_targets) {
            let (what, fewest) = (load_balancer(row), or_none(row.fewest_healthy));
            let _ = writeln!(text, "| {} | {what} | {} | {REPLICAS} | {fewest} |", row.scenario, row.nodes);
        }
    }
    text
}

/// How long drains took, and what evictions were answered.
pub fn drains(report: &Report) -> String {
    let mut text = String::from(
        "| scenario | ingress | load balancer | hold | nodes | the drain took | pods by the answer to their eviction |\n\
         |---|---|---|---|---|---:|---|\n",
    );
    for rows in cells(report) {
        let row = rows[0];
        let Some(seconds) = row.drain_seconds else { continue };
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {seconds} s | {} |",
            row.scenario,
            row.ingress,
            load_balancer(row),
            hold(row),
            row.nodes,
            counted(&row.drain_because),
        );
    }
    text
}

fn counted(words: &BTreeMap<String, u64>) -> String {
    let each = words.iter().map(|(word, pods)| format!("{word}: {pods}"));
    each.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{cell::Cell, report::tests::rows};

    fn report(words: &str, change: impl Fn(&mut Row)) -> Report {
        let cell = Cell::chosen(words).unwrap()[0];
        let mut rows = rows(cell, [0, 3], [5, 0]);
        rows.iter_mut().for_each(change);
        Report { rows }
    }

    #[test]
    fn each_client_has_a_row_and_what_was_not_played_is_not_shown_as_nothing_lost() {
        let shown = all(&report("rolling-update,typical-nlb", |_| {}));
        assert!(
            shown.contains("| new | real | yes | 100 | 1 | **0** | 100 | 5 | 0.2 s | 0 | 6 |"),
            "{shown}"
        );
        let bare = all(&report("drain,slow-nlb,cross-zone-off", |row| row.control_lost = None));
        assert!(bare.contains("| slow-nlb, cross-zone off |") && bare.contains("| 100 | – |"), "{bare}");
    }

    #[test]
    fn what_is_not_promised_shows_all_that_it_lost_once_with_its_bound_and_why() {
        let shown = not_promised(&report("force-delete,typical-nlb", |row| row.lost_for_ms = 2_500));
        assert!(shown.contains("| 200 | 3 | 2.5 s | 14 s | nobody is told"), "{shown}");
        assert_eq!(shown.lines().count(), 3);
        assert_eq!(not_promised(&report("drain", |_| {})).lines().count(), 2);
    }

    #[test]
    fn a_swap_shows_the_fewest_healthy_targets_and_a_roll_does_not() {
        let shown = swaps(&report("blue-green,typical-alb", |row| row.fewest_healthy = Some(7)));
        assert!(shown.contains("| blue-green | typical-alb | real | 6 | 7 |"), "{shown}");
        assert_eq!(swaps(&report("scale-down", |_| {})).lines().count(), 2);
    }

    #[test]
    fn a_drain_shows_its_time_and_what_evictions_waited_for() {
        let shown = drains(&report("drain", |row| {
            row.drain_seconds = Some(21.0);
            row.drain_because = BTreeMap::from([("HoldIsEnough".into(), 2)]);
        }));
        assert!(shown.contains("| 21 s | HoldIsEnough: 2 |"), "{shown}");
        assert_eq!(drains(&report("scale-down", |_| {})).lines().count(), 2);
    }
}
