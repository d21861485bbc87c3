//! What was counted: `target/zero-loss/report.json`, which is saved after each cell.

use std::{collections::BTreeMap, fmt::Write, io, path::Path, time::Duration};

use serde::{Deserialize, Serialize};

use super::cell::{Cell, Hold};

/// What became of the requests of one kind of client in a cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// What happened.
    pub scenario: String,
    /// The stand-in's profile.
    pub profile: String,
    /// What the clients did with connections.
    pub client: String,
    /// `real` or `simulated`.
    pub nodes: String,
    /// For how long pods were held: `covering` what the load balancer needs, or `auto`.
    pub hold: String,
    /// Whether it is promised that nothing is lost.
    pub promised: bool,
    /// Requests.
    pub offered: u64,
    /// Of these, those whose kept connection had ended, and which were right on a new one.
    pub retried: u64,
    /// Of these, those that were lost.
    pub lost: u64,
    /// What the control lost.
    pub control_lost: u64,
    /// What the control was offered.
    pub control_offered: u64,
    /// Requests that the generator itself started late.
    pub behind: u64,
    /// Real seconds per AWS second.
    pub time_scale: f64,
    /// For how long pods were held, in seconds.
    pub hold_seconds: u32,
    /// The longest time from a pod's deletion until AWS had taken its Deregister, in milliseconds.
    pub margin_used_ms: u64,
    /// Pods that ended before the load balancer had stopped sending to them, as Headgate has counted.
    pub holds_too_short: u64,
    /// The same in the control.
    pub control_holds_too_short: u64,
    /// How long the scenario took, in seconds.
    pub seconds: f64,
    /// The commit at which it was played.
    pub commit: String,
    /// Why requests were lost, as the client saw it.
    pub lost_because: BTreeMap<String, u64>,
    /// The same of the control.
    pub control_lost_because: BTreeMap<String, u64>,
}

impl Row {
    fn is_of(&self, cell: Cell) -> bool {
        self.scenario == cell.scenario.name()
            && self.profile == cell.profile.name()
            && self.hold == cell.hold.name()
            && self.nodes == cell.nodes.to_string()
    }
}

/// All rows so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Report {
    /// In the order in which they were played.
    pub rows: Vec<Row>,
}

impl Report {
    /// Reads what was saved; empty if nothing was.
    ///
    /// # Errors
    /// If there is something that is no report.
    pub fn read(path: &Path) -> io::Result<Self> {
        match std::fs::read(path) {
            Ok(text) => Ok(serde_json::from_slice(&text)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error),
        }
    }

    /// Saves it, whole or not at all.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn save(&self, path: &Path) -> io::Result<()> {
        let unfinished = path.with_extension("json.new");
        std::fs::write(&unfinished, serde_json::to_string_pretty(self)? + "\n")?;
        std::fs::rename(&unfinished, path)
    }

    /// Whether the cell was played.
    pub fn has(&self, cell: Cell) -> bool {
        self.rows.iter().any(|row| row.is_of(cell))
    }

    /// Takes the rows of a cell in, in the place of older ones.
    pub fn take(&mut self, cell: Cell, rows: Vec<Row>) {
        self.rows.retain(|row| !row.is_of(cell));
        self.rows.extend(rows);
    }

    /// The rows of these cells, in this order.
    #[must_use]
    pub fn of(&self, cells: &[Cell]) -> Self {
        let rows = cells.iter().flat_map(|cell| self.rows.iter().filter(|row| row.is_of(*cell)));
        Self { rows: rows.cloned().collect() }
    }

    /// What is not as it should be: a promise that was broken; a control that lost nothing, so that the cell could not
    /// have failed; a hold that is known to be too short, and did no harm; and pods that Headgate counts as held too
    /// short where they were not, or does not where they were.
    pub fn complaints(&self) -> Vec<String> {
        let mut cells: BTreeMap<String, Vec<&Row>> = BTreeMap::new();
        for row in &self.rows {
            let Row { scenario, profile, hold, nodes, .. } = row;
            cells.entry(format!("{scenario}, {profile}, hold {hold}, {nodes} nodes")).or_default().push(row);
        }
        let mut complaints = Vec::new();
        for (cell, rows) in cells {
            let mut complain = |is_wrong: bool, what: String| {
                if is_wrong {
                    complaints.push(format!("{cell}: {what}"));
                }
            };
            for row in rows.iter().filter(|row| row.promised) {
                let Row { client, lost, lost_because, .. } = row;
                complain(*lost > 0, format!("{client}: lost {lost}: {lost_because:?}"));
            }
            let (promised, short) = (rows[0].promised, rows[0].holds_too_short);
            complain(promised && short > 0, format!("{short} pods were held too short, says Headgate"));
            let [lost, control_lost] = [|row: &Row| row.lost, |row: &Row| row.control_lost]
                .map(|count| rows.iter().map(|row| count(row)).sum::<u64>());
            complain(control_lost == 0, "the control lost nothing, so this shows nothing".into());
            if rows[0].hold == Hold::Auto.name() {
                complain(lost == 0, "the hold is too short, and nothing was lost".into());
                complain(short == 0, "the hold is too short, and Headgate does not say so".into());
            }
        }
        complaints
    }

    /// The table, as Markdown.
    pub fn table(&self) -> String {
        let mut text = String::from(
            "| scenario | load balancer | hold | client | nodes | promised | offered | retried | **lost** | control: offered | \
             control: lost | margin used | held too short | control: held too short |\n\
             |---|---|---|---|---|---|---:|---:|---:|---:|---:|---:|---:|---:|\n",
        );
        for row in &self.rows {
            let Row { scenario, profile, client, nodes, offered, retried, lost, .. } = row;
            let Row { control_offered, control_lost, margin_used_ms, hold_seconds, .. } = row;
            let Row { holds_too_short, control_holds_too_short, .. } = row;
            let hold = match &*row.hold {
                "auto" => format!("`auto`: {hold_seconds} s"),
                _ => format!("{hold_seconds} s"),
            };
            let promised = if row.promised { "yes" } else { "no" };
            let used = Duration::from_millis(*margin_used_ms).as_secs_f64();
            let _ = writeln!(
                text,
                "| {scenario} | {profile} | {hold} | {client} | {nodes} | {promised} | {offered} | {retried} | **{lost}** | \
                 {control_offered} | {control_lost} | {used:.1} s | {holds_too_short} | \
                 {control_holds_too_short} |"
            );
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use localstack_world::Nodes;

    use super::*;

    fn rows(cell: Cell, lost: [u64; 2], control_lost: [u64; 2]) -> Vec<Row> {
        let row = |(client, lost, control_lost): (&str, u64, u64)| Row {
            scenario: cell.scenario.name().into(),
            profile: cell.profile.name().into(),
            client: client.into(),
            nodes: cell.nodes.to_string(),
            hold: cell.hold.name().into(),
            promised: cell.is_promised(),
            offered: 100,
            retried: 1,
            lost,
            control_lost,
            control_offered: 100,
            behind: 0,
            time_scale: 0.05,
            hold_seconds: 14,
            margin_used_ms: 250,
            holds_too_short: 0,
            control_holds_too_short: 6,
            seconds: 30.0,
            commit: "abc1234".into(),
            lost_because: BTreeMap::new(),
            control_lost_because: BTreeMap::new(),
        };
        [("new", lost[0], control_lost[0]), ("kept", lost[1], control_lost[1])].map(row).into()
    }

    fn cells() -> Vec<Cell> {
        Cell::all(Nodes::Simulated)
    }

    #[test]
    fn a_promise_that_was_broken_and_a_control_that_lost_nothing_are_complained_about() {
        let mut report = Report::default();
        report.take(cells()[0], rows(cells()[0], [0, 0], [0, 7]));
        assert!(report.complaints().is_empty());
        report.take(cells()[0], rows(cells()[0], [0, 1], [0, 7]));
        assert_eq!(report.complaints().len(), 1, "the older rows of the cell are gone");
        report.take(cells()[1], rows(cells()[1], [0, 0], [0, 0]));
        let complaints = report.complaints().join("; ");
        assert!(complaints.contains("lost 1") && complaints.contains("the control lost nothing"));
    }

    #[test]
    fn pods_held_too_short_are_complained_about_where_they_should_not_be_and_missed_where_they_should() {
        let mut report = Report::default();
        let mut short = rows(cells()[0], [0, 0], [5, 5]);
        short[0].holds_too_short = 2;
        report.take(cells()[0], short);
        let complaints = report.complaints().join("; ");
        assert!(complaints.contains("2 pods were held too short"), "{complaints}");

        let auto = *cells().last().unwrap();
        let mut report = Report::default();
        report.take(auto, rows(auto, [0, 0], [5, 5]));
        let complaints = report.complaints().join("; ");
        assert!(complaints.contains("nothing was lost") && complaints.contains("does not say so"));
        let mut right = rows(auto, [9, 0], [5, 5]);
        right[0].holds_too_short = 4;
        report.take(auto, right);
        assert!(report.complaints().is_empty(), "it was promised to nobody");
    }

    #[test]
    fn what_was_saved_is_read_back_and_shown_in_the_order_of_the_table() {
        let folder = std::env::temp_dir().join(format!("zero-loss-report-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("report.json");
        assert_eq!(Report::read(&path).unwrap(), Report::default());
        let mut report = Report::default();
        report.take(cells()[1], rows(cells()[1], [0, 0], [5, 0]));
        report.take(cells()[0], rows(cells()[0], [0, 0], [5, 0]));
        report.save(&path).unwrap();
        assert_eq!(Report::read(&path).unwrap(), report);
        std::fs::remove_dir_all(folder).unwrap();
        let shown = report.of(&cells());
        assert_eq!(shown.rows[0].profile, cells()[0].profile.name());
        assert!(
            shown.table().contains("| new | simulated | yes | 100 | 1 | **0** | 100 | 5 | 0.2 s | 0 | 6 |")
        );
        assert!(report.has(cells()[0]) && !report.has(cells()[2]));
    }
}
