//! Tables and percentiles for reports.

/// A Markdown table that is also aligned in a terminal. Columns of numbers are right-aligned.
pub fn table<const COLUMNS: usize>(head: &[&str; COLUMNS], rows: &[[String; COLUMNS]]) -> String {
    let is_figure = |cell: &String| {
        cell == "–" || cell.trim_start_matches('*').starts_with(|first: char| first.is_ascii_digit())
    };
    let right: Vec<bool> =
        (0..COLUMNS).map(|at| !rows.is_empty() && rows.iter().all(|row| is_figure(&row[at]))).collect();
    let length = |text: &str| text.chars().count();
    let width =
        |at: usize| rows.iter().map(|row| length(&row[at])).max().unwrap_or(0).max(length(head[at])).max(4);
    let width: Vec<usize> = (0..COLUMNS).map(width).collect();
    let line = |cells: &[&str]| {
        let cell = |at: usize| {
            let space = " ".repeat(width[at] - length(cells[at]));
            if right[at] { format!("{space}{}", cells[at]) } else { format!("{}{space}", cells[at]) }
        };
        format!("| {} |\n", (0..COLUMNS).map(cell).collect::<Vec<_>>().join(" | "))
    };
    let rule = |at: usize| if right[at] { "-".repeat(width[at] - 1) + ":" } else { "-".repeat(width[at]) };
    let rules: Vec<String> = (0..COLUMNS).map(rule).collect();
    let mut text = line(head) + &line(&rules.iter().map(String::as_str).collect::<Vec<_>>());
    for row in rows {
        text += &line(&row.each_ref().map(String::as_str));
    }
    text
}

/// The nearest-rank percentile.
pub fn percentile(values: &[f64], percent: usize) -> Option<f64> {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let rank = (values.len() * percent).div_ceil(100).max(1);
    values.get(rank - 1).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_aligned_to_the_right_however_long_they_are() {
        let rows = [["ä", "1", "5 s"], ["bcdefg", "12345", "–"]].map(|row| row.map(str::to_owned));
        let lines = [
            "| what   |     n | time |",
            "| ------ | ----: | ---: |",
            "| ä      |     1 |  5 s |",
            "| bcdefg | 12345 |    – |\n",
        ];
        assert_eq!(table(&["what", "n", "time"], &rows), lines.join("\n"));
    }

    #[test]
    fn percentiles_are_by_nearest_rank() {
        let values: Vec<f64> = (1..=200).rev().map(f64::from).collect();
        assert_eq!([50, 99].map(|percent| percentile(&values, percent)), [Some(100.0), Some(198.0)]);
        assert_eq!([percentile(&[7.0], 99), percentile(&[], 50)], [Some(7.0), None]);
    }
}
