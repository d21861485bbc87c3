//! What was counted: `target/zero-loss/report.json`, which is saved after each cell.

use std::{collections::BTreeMap, fmt::Write, io, path::Path, time::Duration};

use serde::{Deserialize, Serialize};

use super::cell::Cell;

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
    /// How long the scenario took, in seconds.
    pub seconds: f64,
    /// Why requests were lost, as the client saw it.
    pub lost_because: BTreeMap<String, u64>,
    /// The same of the control.
    pub control_lost_because: BTreeMap<String, u64>,
}

impl Row {
    fn is_of(&self, cell: Cell) -> bool {
        self.scenario == cell.scenario.name()
            && self.profile == cell.profile.name()
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

    /// What is not as it should be: a promise that was broken, or a control that lost nothing, so that the cell could
    /// not have failed.
    pub fn complaints(&self) -> Vec<String> {
        let broken = self.rows.iter().filter(|row| row.promised && row.lost > 0).map(|row| {
            let Row { scenario, profile, client, nodes, lost, lost_because, .. } = row;
            format!("{scenario}, {profile}, {nodes} nodes, {client}: lost {lost}: {lost_because:?}")
        });
        let mut controls: BTreeMap<(&str, &str, &str), u64> = BTreeMap::new();
        for row in &self.rows {
            *controls.entry((&row.scenario, &row.profile, &row.nodes)).or_default() += row.control_lost;
        }
        let harmless =
            controls.into_iter().filter(|(_, lost)| *lost == 0).map(|((scenario, profile, nodes), _)| {
                format!(
                    "{scenario}, {profile}, {nodes} nodes: the control lost nothing, so this shows nothing"
                )
            });
        broken.chain(harmless).collect()
    }

    /// The table, as Markdown.
    pub fn table(&self) -> String {
        let mut text = String::from(
            "| scenario | load balancer | client | nodes | promised | offered | retried | **lost** | control: offered | \
             control: lost | margin used |\n|---|---|---|---|---|---:|---:|---:|---:|---:|---:|\n",
        );
        for row in &self.rows {
            let Row { scenario, profile, client, nodes, offered, retried, lost, .. } = row;
            let Row { control_offered, control_lost, margin_used_ms, .. } = row;
            let promised = if row.promised { "yes" } else { "no" };
            let used = Duration::from_millis(*margin_used_ms).as_secs_f64();
            let _ = writeln!(
                text,
                "| {scenario} | {profile} | {client} | {nodes} | {promised} | {offered} | {retried} | **{lost}** | \
                 {control_offered} | {control_lost} | {used:.1} s |"
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
            promised: true,
            offered: 100,
            retried: 1,
            lost,
            control_lost,
            control_offered: 100,
            behind: 0,
            time_scale: 0.05,
            hold_seconds: 14,
            margin_used_ms: 250,
            seconds: 30.0,
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
        let complaints = report.complaints();
        assert!(complaints[0].contains("lost 1") && complaints[1].contains("control lost nothing"));
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
        assert!(shown.table().contains("| new | simulated | yes | 100 | 1 | **0** | 100 | 5 | 0.2 s |"));
        assert!(report.has(cells()[0]) && !report.has(cells()[2]));
    }
}
