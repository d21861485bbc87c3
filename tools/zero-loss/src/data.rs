//! The results for people: every row in `docs/reference/zero-loss.csv`, and their sums in
//! `docs/reference/zero-loss.md`.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::Path,
};

use headgate_harness::figures::table;
use serde_json::Value;

use crate::{
    report::{Report, Row},
    scenario::{Group, Scenario},
};

/// The file with the rows.
pub const DATA: &str = "docs/reference/zero-loss.csv";
/// The page with the sums between [`BEGIN`] and [`END`].
pub const PAGE: &str = "docs/reference/zero-loss.md";
const BEGIN: &str = "<!-- sums of zero-loss.csv, written by make zero-loss -->\n";
const END: &str = "<!-- end -->\n";

/// The columns: fields of [`Row`].
const COLUMNS: &str = "scenario,ingress,profile,cross_zone,hold,hold_seconds,time_scale,nodes,promised,client,\
     offered,retried,lost,control_offered,control_lost,margin_used_ms,holds_too_short,control_holds_too_short,\
     lost_for_ms,loss_bound_ms,fewest_healthy,drain_seconds,drain_because,departures,exposed,commit";

/// The columns that identify a cell.
const CELL: [usize; 6] = [0, 1, 2, 3, 4, 7];

/// Every row as CSV. No value contains a comma.
///
/// # Panics
/// Never: a row is plain data.
pub fn csv(report: &Report) -> String {
    let line = |row: &Row| {
        let row = serde_json::to_value(row).expect("plain data");
        COLUMNS.split(',').map(|column| cell(&row[column])).collect::<Vec<_>>().join(",") + "\n"
    };
    format!("{COLUMNS}\n") + &report.rows.iter().map(line).collect::<String>()
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Object(counts) => {
            counts.iter().map(|(word, count)| format!("{word}: {count}")).collect::<Vec<_>>().join("; ")
        }
        other => other.to_string(),
    }
}

/// A line of the file by column.
struct Line<'a>(BTreeMap<&'a str, &'a str>);

impl Line<'_> {
    fn number(&self, column: &str) -> u64 {
        self.0[column].parse().unwrap_or_default()
    }

    fn is_promised(&self) -> bool {
        self.0["promised"] == "true"
    }

    /// The columns that identify its cell.
    fn cell(&self) -> [&str; 6] {
        ["scenario", "ingress", "profile", "cross_zone", "hold", "nodes"].map(|column| self.0[column])
    }
}

fn sum(lines: &[&Line], column: &str) -> u64 {
    lines.iter().map(|line| line.number(column)).sum()
}

fn cells<'a>(lines: &'a [&Line]) -> BTreeSet<[&'a str; 6]> {
    lines.iter().map(|line| line.cell()).collect()
}

/// The sums from the text of the file: guaranteed cells by group, others by scenario.
#[allow(clippy::cast_precision_loss)] // some seconds
fn sums(csv: &str) -> String {
    let mut lines = csv.lines().map(|line| line.split(','));
    let columns: Vec<&str> = lines.next().into_iter().flatten().collect();
    let lines: Vec<Line> = lines.map(|line| Line(columns.iter().copied().zip(line).collect())).collect();
    let promised: Vec<&Line> = lines.iter().filter(|line| line.is_promised()).collect();
    let row = |what: &str, lines: &[&Line]| {
        let cells = cells(lines);
        let real = cells.iter().filter(|cell| cell[5] == "real").count();
        let [offered, lost, control_offered, control_lost] =
            ["offered", "lost", "control_offered", "control_lost"].map(|of| sum(lines, of).to_string());
        let (what, cells, real) = (what.to_owned(), cells.len().to_string(), real.to_string());
        [what, cells, real, offered, lost, control_offered, control_lost]
    };
    let of_group = |group: Group| {
        let is_of = |line: &&&Line| Scenario::named(line.0["scenario"]).is_some_and(|is| is.group() == group);
        let lines: Vec<&Line> = promised.iter().filter(is_of).copied().collect();
        (!lines.is_empty()).then(|| row(group.name(), &lines))
    };
    let mut groups: Vec<_> = Group::ALL.into_iter().filter_map(of_group).collect();
    groups.push(row("**all**", &promised));
    let head =
        ["guaranteed", "cells", "on real kubelets", "requests", "lost", "control: requests", "control: lost"];
    let guaranteed = table(&head, &groups);

    let not_promised = |scenario: &Scenario| {
        let is_its = |line: &&Line| !line.is_promised() && line.0["scenario"] == scenario.name();
        let lines: Vec<&Line> = lines.iter().filter(is_its).collect();
        let longest = lines.iter().map(|line| line.number("lost_for_ms")).max()?;
        let (cells, [offered, lost]) = (cells(&lines).len(), ["offered", "lost"].map(|of| sum(&lines, of)));
        let longest = format!("{:.1} s", longest as f64 / 1000.0);
        Some([scenario.name().to_owned(), cells.to_string(), offered.to_string(), lost.to_string(), longest])
    };
    let rows: Vec<_> = Scenario::ALL.iter().filter_map(not_promised).collect();
    let others = table(&["not guaranteed", "cells", "requests", "lost", "lost for at most"], &rows);
    format!("{guaranteed}\n{others}")
}

fn with_sums(page: &str, csv: &str) -> Option<String> {
    let (before, rest) = page.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}{}{END}{after}", sums(csv)))
}

/// Replaces the rows of the same cells, and the sums.
///
/// # Errors
/// A file cannot be read or written, or the page has no place for the sums.
pub fn record(root: &Path, report: &Report) -> io::Result<()> {
    write(root, &joined(&fs::read_to_string(root.join(DATA))?, &csv(report)))
}

/// The rows of both texts. If both have a cell, the rows of the second.
fn joined(before: &str, new: &str) -> String {
    let cell = |line: &str| {
        line.split(',')
            .enumerate()
            .filter(|(at, _)| CELL.contains(at))
            .map(|(_, word)| word.to_owned())
            .collect::<Vec<_>>()
    };
    let has: BTreeSet<Vec<String>> = new.lines().map(cell).collect();
    let kept = before.lines().skip(1).filter(|line| !has.contains(&cell(line)));
    new.lines().take(1).chain(kept).chain(new.lines().skip(1)).flat_map(|line| [line, "\n"]).collect()
}

/// Writes the file, and the sums.
fn write(root: &Path, csv: &str) -> io::Result<()> {
    fs::write(root.join(DATA), csv)?;
    let page = with_sums(&fs::read_to_string(root.join(PAGE))?, csv);
    fs::write(root.join(PAGE), page.ok_or_else(|| io::Error::other(format!("{PAGE} has no line {BEGIN}")))?)
}

/// The conclusion for a single termination from all terminations in guaranteed rows.
#[allow(clippy::cast_precision_loss)] // some millions
pub fn how_sure(report: &Report) -> String {
    let promised = || report.rows.iter().filter(|row| row.promised);
    let sum = |count: fn(&Row) -> u64| promised().map(count).sum::<u64>();
    let cells: BTreeMap<String, u64> = promised().map(|row| (row.cell(), row.departures)).collect();
    let departures = cells.values().sum::<u64>();
    let (exposed, lost, offered, behind) =
        (sum(|row| row.exposed), sum(|row| row.lost), sum(|row| row.offered), sum(|row| row.behind));
    let text = format!(
        "{departures} pods terminated under traffic. {exposed} of {offered} requests started within twice the load \
         balancer's delay after that, {behind} started late; {lost} were lost."
    );
    if lost > 0 || departures == 0 || exposed == 0 {
        return text;
    }
    // The rule of three: if none of N failed, the failure rate is below 3/N with a confidence of 95 %.
    let of_departures = 3_000.0 / departures.max(3) as f64;
    let of_requests = 3_000_000.0 / exposed.max(3) as f64;
    format!(
        "{text} With a confidence of 95 %, fewer than {of_departures:.2} of 1,000 terminations lose a request, and \
         fewer than {of_requests:.1} of a million such requests are lost."
    )
}

#[cfg(test)]
mod tests {
    use headgate_harness::root;

    use super::*;
    use crate::{cell::Cell, report::tests::rows};

    #[test]
    fn the_page_has_the_sums_of_the_data() {
        let csv = fs::read_to_string(root().join(DATA)).unwrap();
        assert_eq!(csv.lines().next(), Some(COLUMNS));
        let page = || fs::read_to_string(root().join(PAGE)).unwrap();
        let expected = with_sums(&page(), &csv).unwrap();
        if std::env::var_os("HEADGATE_WRITE_DOCS").is_some() {
            fs::write(root().join(PAGE), &expected).unwrap();
        }
        assert!(page() == expected, "run this test with HEADGATE_WRITE_DOCS=1");
    }

    #[test]
    fn every_line_has_every_column_and_no_figure_is_left_out() {
        let cell = Cell::chosen("drain,typical-nlb,plain,covering,cross-zone-on").unwrap()[0];
        let mut report = Report { rows: rows(cell, [0, 3], [5, 0]) };
        report.rows[1].drain_because = BTreeMap::from([("A".into(), 2), ("B".into(), 1)]);
        report.rows[1].control_lost = None;
        let csv = csv(&report);
        assert!(csv.lines().all(|line| line.split(',').count() == COLUMNS.split(',').count()), "{csv}");
        assert!(csv.contains(",kept,100,1,3,100,,250,0,6,0,14000,6,,A: 2; B: 1,6,50,abc1234\n"), "{csv}");
        assert!(
            sums(&csv).contains(
                "|     1 |                1 |      200 |    3 |               200 |             5 |"
            ),
            "{}",
            sums(&csv)
        );
        report.rows.iter_mut().for_each(|row| (row.promised, row.lost_for_ms) = (false, 2_500));
        let sums = sums(&super::csv(&report));
        assert!(sums.contains("|     1 |      200 |    3 |            2.5 s |"), "{sums}");
    }

    #[test]
    fn a_cell_that_is_played_again_takes_the_place_of_its_rows() {
        let of = |words: &str| csv(&Report { rows: rows(Cell::chosen(words).unwrap()[0], [0, 3], [5, 0]) });
        let (one, other) = (of("drain,typical-nlb,plain,covering"), of("scale-down,typical-nlb"));
        let both = joined(&one, &other);
        assert_eq!(both.lines().count(), one.lines().count() + other.lines().count() - 1);
        assert_eq!(joined(&both, &other), both);
        assert_eq!(joined(&one, &one), one);
    }

    #[test]
    fn how_sure_it_is_follows_from_the_departures_of_the_promised_rows() {
        let cell = Cell::chosen("rolling-update,typical-nlb,plain,cross-zone-on,covering").unwrap()[0];
        let mut report = Report { rows: rows(cell, [0, 0], [5, 5]) };
        let said = how_sure(&report);
        assert!(said.contains("6 pods terminated") && said.contains("500.00 of 1,000"), "{said}");
        report.rows[0].lost = 1;
        assert!(!how_sure(&report).contains("confidence"), "something was lost");
        report.rows.iter_mut().for_each(|row| row.promised = false);
        assert!(how_sure(&report).contains("0 pods terminated"));
    }
}
