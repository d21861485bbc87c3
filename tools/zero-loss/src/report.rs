//! The counts: `target/zero-loss/report.json`, which is saved after each cell.

use std::{collections::BTreeMap, fs::File, io, path::Path};

use serde::{Deserialize, Serialize};

use crate::{
    cell::{Cell, Hold, cross_zone, ingress},
    scenario::Scenario,
    stage::REPLICAS,
};

/// The results of the requests of one client in a cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The scenario.
    pub scenario: String,
    /// The ingress. `plain`: pods for this table only.
    pub ingress: String,
    /// The stand-in's profile.
    pub profile: String,
    /// Whether nodes of the load balancer sent to targets of all zones.
    pub cross_zone: bool,
    /// How the clients used connections.
    pub client: String,
    /// `real` or `simulated`.
    pub nodes: String,
    /// What kept pods alive: a hold `covering` the propagation delay, or `auto`; or only the `eviction-gate`.
    pub hold: String,
    /// Whether no lost request is guaranteed.
    pub promised: bool,
    /// The number of requests.
    pub offered: u64,
    /// Those whose kept connection had ended, and which succeeded on a new one.
    pub retried: u64,
    /// Those that were lost.
    pub lost: u64,
    /// The lost requests of the control, if there was one.
    pub control_lost: Option<u64>,
    /// The requests of the control.
    pub control_offered: Option<u64>,
    /// The requests that the generator started late.
    pub behind: u64,
    /// Real seconds per AWS second.
    pub time_scale: f64,
    /// The length of the hold, in seconds.
    pub hold_seconds: u32,
    /// The longest time from a pod's deletion until AWS accepted its DeregisterTargets, in milliseconds.
    pub margin_used_ms: u64,
    /// Pods that stopped before the load balancer had stopped sending to them, as counted by Headgate.
    pub holds_too_short: u64,
    /// The same count in the control.
    pub control_holds_too_short: Option<u64>,
    /// The duration of the scenario, in seconds.
    pub seconds: f64,
    /// The time from the first request that any client lost to the last one, in milliseconds.
    pub lost_for_ms: u64,
    /// The longest time in which requests may be lost without a guarantee: the propagation delay and the hold's
    /// reserve, in milliseconds.
    pub loss_bound_ms: u64,
    /// The duration of the drain, in seconds, if there was one.
    pub drain_seconds: Option<f64>,
    /// The number of pods by the reason in the answer to their eviction.
    pub drain_because: BTreeMap<String, u64>,
    /// The smallest number of healthy targets during the scenario.
    #[serde(default)]
    pub fewest_healthy: Option<u64>,
    /// The number of terminated pods.
    pub departures: u64,
    /// The requests that were started within twice the load balancer's lag after one of them terminated.
    pub exposed: u64,
    /// The commit of the run.
    pub commit: String,
    /// Why requests were lost, as the client saw it.
    pub lost_because: BTreeMap<String, u64>,
    /// The same for the control.
    pub control_lost_because: BTreeMap<String, u64>,
}

impl Row {
    fn is_of(&self, cell: Cell) -> bool {
        self.scenario == cell.scenario.name()
            && self.ingress == ingress(cell.ingress)
            && self.profile == cell.profile.name()
            && self.cross_zone == cell.cross_zone
            && self.hold == cell.hold.name()
            && self.nodes == cell.nodes.to_string()
    }

    /// Whether the hold is known to be shorter than the propagation delay.
    pub fn is_too_short(&self) -> bool {
        self.hold == Hold::Auto.name() && !self.promised
    }

    /// The scenario.
    pub fn scenario(&self) -> Option<Scenario> {
        Scenario::named(&self.scenario)
    }

    /// The cell as text.
    pub fn cell(&self) -> String {
        let Self { scenario, ingress, profile, hold, nodes, .. } = self;
        format!(
            "{scenario}, {ingress}, {profile}, {}, hold {hold}, {nodes} nodes",
            cross_zone(self.cross_zone)
        )
    }
}

/// All rows so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Report {
    /// The rows in the order of the runs.
    pub rows: Vec<Row>,
}

impl Report {
    /// Reads the saved report. Empty if there is none.
    ///
    /// # Errors
    /// The file is not a report.
    pub fn read(path: &Path) -> io::Result<Self> {
        match std::fs::read(path) {
            Ok(text) => Ok(serde_json::from_slice(&text)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error),
        }
    }

    /// Saves the report atomically.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn save(&self, path: &Path) -> io::Result<()> {
        let unfinished = path.with_extension("json.new");
        std::fs::write(&unfinished, serde_json::to_string_pretty(self)? + "\n")?;
        std::fs::rename(&unfinished, path)
    }

    /// Whether the cell was played.
    pub fn has(&self, cell: Cell) -> bool {
        self.rows.iter().any(|row| row.is_of(cell))
    }

    /// Adds the rows of a cell, and replaces older ones.
    pub fn take(&mut self, cell: Cell, rows: Vec<Row>) {
        self.rows.retain(|row| !row.is_of(cell));
        self.rows.extend(rows);
    }

    /// Adds the rows of a cell to the saved report. Other processes may do the same.
    ///
    /// # Errors
    /// The files cannot be read or written.
    pub fn add(path: &Path, cell: Cell, rows: Vec<Row>) -> io::Result<()> {
        let lock = File::create(path.with_extension("json.lock"))?;
        lock.lock()?;
        let mut report = Self::read(path)?;
        report.take(cell, rows);
        report.save(path)
    }

    /// The rows of these cells, in this order.
    #[must_use]
    pub fn of(&self, cells: &[Cell]) -> Self {
        let rows = cells.iter().flat_map(|cell| self.rows.iter().filter(|row| row.is_of(*cell)));
        Self { rows: rows.cloned().collect() }
    }

    /// The problems: [`broken`](Self::broken) guarantees; a control without losses, so that the cell could not have
    /// failed; and a hold that is known to be too short and caused no loss.
    pub fn complaints(&self) -> Vec<String> {
        let mut complaints = self.broken();
        for (cell, rows) in self.cells() {
            let mut complain = |is_wrong: bool, what: &str| {
                if is_wrong {
                    complaints.push(format!("{cell}: {what}"));
                }
            };
            let lost: u64 = rows.iter().map(|row| row.lost).sum();
            let control_lost: Option<u64> = rows.iter().map(|row| row.control_lost).sum();
            complain(control_lost == Some(0), "the control lost nothing, so this shows nothing");
            if rows[0].is_too_short() {
                complain(lost == 0, "the hold is too short, and nothing was lost");
            }
        }
        complaints
    }

    fn cells(&self) -> BTreeMap<String, Vec<&Row>> {
        let mut cells: BTreeMap<String, Vec<&Row>> = BTreeMap::new();
        for row in &self.rows {
            cells.entry(row.cell()).or_default().push(row);
        }
        cells
    }

    /// The errors on any machine: a broken guarantee; requests that were lost for longer than allowed without a
    /// guarantee; and wrong counts of Headgate about holds that were too short.
    pub fn broken(&self) -> Vec<String> {
        let mut complaints = Vec::new();
        for (cell, rows) in self.cells() {
            let mut complain = |is_wrong: bool, what: String| {
                if is_wrong {
                    complaints.push(format!("{cell}: {what}"));
                }
            };
            for row in rows.iter().filter(|row| row.promised) {
                let Row { client, lost, lost_because, .. } = row;
                complain(*lost > 0, format!("{client}: lost {lost}: {lost_because:?}"));
            }
            let &&Row { promised, holds_too_short: short, lost_for_ms, loss_bound_ms, .. } = &rows[0];
            let fewest =
                rows[0].scenario().filter(|is| is.keeps_its_healthy_targets()).and(rows[0].fewest_healthy);
            complain(
                promised && fewest.is_some_and(|fewest| fewest < u64::from(REPLICAS)),
                format!("only {fewest:?} targets of {REPLICAS} were healthy at some moment"),
            );
            complain(promised && short > 0, format!("{short} pods were held too short, says Headgate"));
            complain(
                lost_for_ms > loss_bound_ms,
                format!("requests were lost for {lost_for_ms} ms, longer than {loss_bound_ms} ms"),
            );
            if rows[0].is_too_short() {
                complain(short == 0, "the hold is too short, and Headgate does not say so".into());
            }
        }
        complaints
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn rows(cell: Cell, lost: [u64; 2], control_lost: [u64; 2]) -> Vec<Row> {
        let row = |(client, lost, control_lost): (&str, u64, u64)| Row {
            scenario: cell.scenario.name().into(),
            ingress: ingress(cell.ingress).into(),
            profile: cell.profile.name().into(),
            cross_zone: cell.cross_zone,
            client: client.into(),
            nodes: cell.nodes.to_string(),
            hold: cell.hold.name().into(),
            promised: cell.is_promised(),
            offered: 100,
            retried: 1,
            lost,
            control_lost: Some(control_lost),
            control_offered: Some(100),
            behind: 0,
            time_scale: 0.05,
            hold_seconds: 14,
            margin_used_ms: 250,
            holds_too_short: 0,
            control_holds_too_short: Some(6),
            seconds: 30.0,
            lost_for_ms: 0,
            loss_bound_ms: 14_000,
            drain_seconds: None,
            drain_because: BTreeMap::new(),
            fewest_healthy: Some(6),
            departures: 6,
            exposed: 50,
            commit: "abc1234".into(),
            lost_because: BTreeMap::new(),
            control_lost_because: BTreeMap::new(),
        };
        [("new", lost[0], control_lost[0]), ("kept", lost[1], control_lost[1])].map(row).into()
    }

    fn cells() -> Vec<Cell> {
        Cell::table()
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
        assert_eq!(report.broken().len(), 1, "what a control loses depends on the machine");
    }

    #[test]
    fn pods_held_too_short_are_complained_about_where_they_should_not_be_and_missed_where_they_should() {
        let mut report = Report::default();
        let mut short = rows(cells()[0], [0, 0], [5, 5]);
        short[0].holds_too_short = 2;
        report.take(cells()[0], short);
        let complaints = report.complaints().join("; ");
        assert!(complaints.contains("2 pods were held too short"), "{complaints}");

        let auto = Cell::chosen("auto,slow-nlb").unwrap()[0];
        let mut report = Report::default();
        report.take(auto, rows(auto, [0, 0], [5, 5]));
        let complaints = report.complaints().join("; ");
        assert!(complaints.contains("nothing was lost") && complaints.contains("does not say so"));
        let mut late = rows(auto, [9, 0], [5, 5]);
        (late[0].holds_too_short, late[0].lost_for_ms) = (4, 14_001);
        report.take(auto, late);
        assert_eq!(report.complaints().len(), 1, "for longer than can be");
        let mut right = rows(auto, [9, 0], [5, 5]);
        right[0].holds_too_short = 4;
        report.take(auto, right);
        assert!(report.complaints().is_empty(), "it was promised to nobody");
    }

    #[test]
    fn fewer_healthy_targets_than_before_a_swap_are_complained_about() {
        let swap = Cell::chosen("blue-green-binding,typical-nlb").unwrap()[0];
        let roll = Cell::chosen("rolling-update,typical-nlb,plain,covering,cross-zone-on").unwrap()[0];
        for (cell, complaints) in [(swap, 1), (roll, 0)] {
            let mut report = Report { rows: rows(cell, [0, 0], [5, 5]) };
            assert_eq!(report.broken(), [""; 0]);
            report.rows.iter_mut().for_each(|row| row.fewest_healthy = Some(5));
            assert_eq!(report.broken().len(), complaints, "{:?}", report.broken());
        }
    }

    #[test]
    fn what_was_saved_is_read_back_and_given_in_the_order_of_the_table() {
        let folder = std::env::temp_dir().join(format!("zero-loss-report-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("report.json");
        assert_eq!(Report::read(&path).unwrap(), Report::default());
        let mut report = Report::default();
        report.take(cells()[1], rows(cells()[1], [0, 0], [5, 0]));
        report.save(&path).unwrap();
        report.take(cells()[0], rows(cells()[0], [0, 0], [5, 0]));
        Report::add(&path, cells()[0], rows(cells()[0], [0, 0], [5, 0])).unwrap();
        assert_eq!(Report::read(&path).unwrap(), report);
        std::fs::remove_dir_all(folder).unwrap();
        let shown = report.of(&cells());
        assert_eq!(shown.rows[0].profile, cells()[0].profile.name());
        assert!(report.has(cells()[0]) && !report.has(cells()[2]));
    }
}
