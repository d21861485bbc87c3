//! The table and `target/bench/report.json`.

use std::{io, path::Path};

use headgate_harness::figures::{self, percentile};
use serde::Serialize;

/// One value of Headgate, next to the floor's.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// What was measured.
    pub measure: String,
    /// The unit of both values.
    pub unit: &'static str,
    /// Headgate's value.
    pub headgate: Option<f64>,
    /// The floor's value. If no program can be compared, the best possible value.
    pub floor: Option<f64>,
    /// Headgate's value divided by the floor's, if both exist and the floor's is not 0.
    pub ratio: Option<f64>,
    /// The number of values in the medians.
    pub runs: usize,
}

impl Row {
    /// A row with the medians of these values.
    pub fn of(measure: impl Into<String>, unit: &'static str, headgate: &[f64], floor: &[f64]) -> Self {
        let (ours, floors) = (percentile(headgate, 50), percentile(floor, 50));
        let ratio = ours.zip(floors).filter(|(_, floor)| *floor > 0.0).map(|(ours, floor)| ours / floor);
        let runs = headgate.len().max(floor.len());
        let shown = |value: Option<f64>| value.map(round);
        Self {
            measure: measure.into(),
            unit,
            headgate: shown(ours),
            floor: shown(floors),
            ratio: shown(ratio),
            runs,
        }
    }
}

fn round(value: f64) -> f64 {
    let grain = if value.abs() < 10.0 { 1000.0 } else { 10.0 };
    (value * grain).round() / grain
}

/// The rows as a table.
pub fn table(rows: &[Row]) -> String {
    let show = |value: Option<f64>| value.map_or("–".to_owned(), |value| value.to_string());
    let cells = |row: &Row| {
        let [headgate, floor, ratio] = [row.headgate, row.floor, row.ratio].map(show);
        [row.measure.clone(), row.unit.to_owned(), headgate, floor, ratio, row.runs.to_string()]
    };
    let rows: Vec<_> = rows.iter().map(cells).collect();
    figures::table(&["measure", "unit", "headgate", "floor", "ratio", "runs"], &rows)
}

/// Writes the rows as JSON.
///
/// # Errors
/// The file cannot be written.
pub fn write(rows: &[Row], path: &Path) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(path, serde_json::to_vec_pretty(rows)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_the_medians_and_their_ratio() {
        let row = Row::of("x", "ms", &[30.0, 10.0, 20.0], &[5.0, 4.0, 6.0]);
        assert_eq!((row.headgate, row.floor, row.ratio, row.runs), (Some(20.0), Some(5.0), Some(4.0), 3));
        assert!(table(&[row]).contains(" |       20 |     5 |     4 |    3 |"));
    }

    #[test]
    fn without_a_floor_there_is_no_ratio() {
        let row = Row::of("x", "ms", &[1.0], &[]);
        assert_eq!((row.floor, row.ratio), (None, None));
        assert_eq!(Row::of("x", "calls", &[1.0], &[0.0]).ratio, None);
        assert!(table(&[row]).contains(" |        1 |     – |     – |    1 |"));
    }
}
