//! The counts as a table.

use std::fmt::Write;

use headgate_harness::figures;

use crate::watching::Counts;

/// One step and its counts.
#[derive(Clone, Debug)]
pub struct Row {
    /// The step.
    pub step: String,
    /// Its duration with the pause after it, in seconds.
    pub seconds: u64,
    /// The counts.
    pub counts: Counts,
}

/// Whether no pod was missed and no target lost, and every step has counts. `removed`: targets that were deregistered.
pub fn is_good(rows: &[Row], removed: &[String]) -> bool {
    let is_good = |row: &Row| {
        let Counts { created, missed, looks, lost } = &row.counts;
        *created > 0 && missed.is_empty() && *looks > 0 && lost.is_empty()
    };
    removed.is_empty() && rows.iter().all(is_good)
}

/// The table.
pub fn table(rows: &[Row], removed: &[String]) -> String {
    let mut all = Row { step: "all".to_owned(), seconds: 0, counts: Counts::default() };
    for Row { seconds, counts, .. } in rows {
        all.seconds += seconds;
        all.counts.created += counts.created;
        all.counts.missed.extend(counts.missed.iter().cloned());
        all.counts.lost.extend(counts.lost.iter().cloned());
    }
    let cells = |row: &Row| {
        let Counts { created, missed, lost, .. } = &row.counts;
        let counts = [row.seconds, *created, missed.len() as u64, lost.len() as u64];
        let [seconds, created, missed, lost] = counts.map(|count| count.to_string());
        [row.step.clone(), seconds, created, missed, lost]
    };
    let cells: Vec<_> = rows.iter().chain([&all]).map(cells).collect();
    let mut text = figures::table(&["step", "s", "pods", "missed", "targets lost"], &cells);
    for (what, which) in [("missed", &all.counts.missed), ("removed by a call", &removed.to_vec())] {
        if !which.is_empty() {
            let _ = writeln!(text, "{what}: {}", which.join(", "));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(created: u64, missed: &[&str], looks: u64, lost: &[&str]) -> Row {
        let missed = missed.iter().map(ToString::to_string).collect();
        let lost = lost.iter().map(ToString::to_string).collect();
        Row { step: "roll".into(), seconds: 90, counts: Counts { created, missed, looks, lost } }
    }

    #[test]
    fn it_is_good_only_if_pods_were_created_and_none_missed_and_no_target_was_lost() {
        let good = row(10, &[], 10, &[]);
        assert!(is_good(&[good.clone(), good.clone()], &[]));
        for bad in [row(0, &[], 9, &[]), row(9, &["a"], 9, &[]), row(9, &[], 0, &[]), row(9, &[], 9, &["b"])]
        {
            assert!(!is_good(&[good.clone(), bad], &[]));
        }
        assert!(!is_good(&[good], &["10.0.0.1:80".into()]));
    }

    #[test]
    fn the_table_sums_up_and_names_what_was_missed() {
        let text =
            table(&[row(10, &["new-3"], 9, &[]), row(5, &[], 9, &["10.0.0.1:80"])], &["10.0.0.1:80".into()]);
        let all = text.lines().find(|line| line.starts_with("| all")).unwrap();
        let cells: Vec<&str> = all.split('|').map(str::trim).filter(|cell| !cell.is_empty()).collect();
        assert_eq!(cells, ["all", "180", "15", "1", "1"]);
        assert!(text.contains("missed: new-3\nremoved by a call: 10.0.0.1:80"), "{text}");
    }
}
