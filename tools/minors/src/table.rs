//! The table of docs/kubernetes-versions.md, from the files of results. Pure.

use std::fmt::Write;

use crate::results::Seen;

/// The line before the table.
pub const BEGIN: &str = "<!-- generated from docs/kubernetes-versions: make docs -->\n";
/// The line after it.
pub const END: &str = "<!-- end -->\n";

/// The table, and below it what was left out and what failed.
pub fn table(seen: &[Seen]) -> String {
    if seen.is_empty() {
        return String::from("\nNo minor was run as a whole yet.\n\n");
    }
    let mut text = String::from(
        "\n| Kubernetes | version that was run | Headgate | passed | failed | left out |\n|---|---|---|--:|--:|--:|\n",
    );
    for Seen { minor, version, headgate, passed, failed, left_out, .. } in seen {
        let (failed, left_out) =
            (failed.len(), left_out.iter().map(|left_out| left_out.tests).sum::<usize>());
        // Writing to a string cannot fail.
        let _ = writeln!(text, "| {minor} | {version} | {headgate} | {passed} | {failed} | {left_out} |");
    }
    if let Some(last) = seen.last() {
        text.push_str("\nLeft out:\n\n");
        for left_out in &last.left_out {
            let _ = writeln!(text, "- {} tests: {}.", left_out.tests, left_out.why);
        }
    }
    list(&mut text, "Failed", seen, |seen| &seen.failed);
    list(&mut text, "Passed only when run again, alone", seen, |seen| &seen.at_second_try);
    text.push('\n');
    text
}

fn list(text: &mut String, what: &str, seen: &[Seen], tests: impl Fn(&Seen) -> &[String]) {
    let named = seen.iter().flat_map(|seen| tests(seen).iter().map(move |test| (seen.minor, test)));
    for (position, (minor, test)) in named.enumerate() {
        if position == 0 {
            let _ = writeln!(text, "\n{what}:\n");
        }
        let _ = writeln!(text, "- `{test}`, on {minor}");
    }
}

#[cfg(test)]
mod tests {
    use localstack_world::Minor;

    use super::*;
    use crate::results::LeftOut;

    #[test]
    fn without_a_result_there_is_no_table() {
        assert_eq!(table(&[]), "\nNo minor was run as a whole yet.\n\n");
    }

    #[test]
    fn the_table_has_a_row_for_each_minor_and_names_what_failed() {
        let good = Seen {
            minor: Minor::V34,
            version: "v1.34.9".into(),
            headgate: "6864c1d".into(),
            passed: 12,
            at_second_try: vec!["gating::slow".into()],
            failed: Vec::new(),
            left_out: vec![LeftOut { tests: 3, why: "they need a browser".into() }],
        };
        let bad = Seen {
            minor: Minor::V36,
            failed: vec!["leaving::now".into()],
            at_second_try: Vec::new(),
            ..good.clone()
        };
        assert!(good.is_good() && !bad.is_good());
        let table = table(&[good, bad]);
        for expected in [
            "| 1.34 | v1.34.9 | 6864c1d | 12 | 0 | 3 |\n| 1.36 | v1.34.9 | 6864c1d | 12 | 1 | 3 |\n",
            "- 3 tests: they need a browser.\n",
            "Failed:\n\n- `leaving::now`, on 1.36\n",
            "Passed only when run again, alone:\n\n- `gating::slow`, on 1.34\n",
        ] {
            assert!(table.contains(expected), "{table}");
        }
    }
}
