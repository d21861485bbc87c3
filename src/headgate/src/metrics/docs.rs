//! Compares the list of metrics in `docs/reference/metrics.md` with the declarations. `make docs` writes the list.

use std::{fmt::Write, fs, path::Path, sync::Arc};

use super::{Declared, Level, Metrics};
use crate::runtime::clock::Clock;

const PAGE: &str = "docs/reference/metrics.md";
const BEGIN: &str = "<!-- generated from the code: make docs -->\n";
const END: &str = "<!-- end -->\n";

fn table(metrics: &[Declared]) -> String {
    let mut table = String::from("\n| metric | type | level | what |\n|---|---|---|---|\n");
    for Declared { name, labels, kind, help, level } in metrics {
        assert!(!help.contains(['|', '<', '`', '*', '\n']), "{name}: use plain text, found {help}");
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let level = if *level == Level::Debug { "debug" } else { "" };
        writeln!(table, "| `{name}{labels}` | {} | {level} | {help}. |", kind.as_str()).unwrap();
    }
    table.push('\n');
    table
}

#[test]
fn docs_list_every_metric_as_the_code_declares_it() {
    compare("\n## `headgate run`\n", &Metrics::new(Arc::default(), Clock::start(), Level::Debug));
    compare("\n## `headgate daemonsets`\n", &Metrics::of_daemonsets(Clock::start(), Level::Debug, Vec::new));
}

/// Compares the table below a heading with the metrics of a program, or writes the table.
fn compare(heading: &str, metrics: &Metrics) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(PAGE);
    let page = fs::read_to_string(&path).unwrap();
    let at = page.find(heading).unwrap_or_else(|| panic!("{PAGE} has no heading {heading}"));
    let (above, below) = page.split_at(at);
    let (before, rest) = below.split_once(BEGIN).unwrap_or_else(|| panic!("{heading}: no line {BEGIN}"));
    let (written, after) = rest.split_once(END).unwrap_or_else(|| panic!("{heading}: no line {END}"));
    let wanted = table(metrics.declared());
    if std::env::var_os("HEADGATE_WRITE_DOCS").is_some() {
        fs::write(&path, [above, before, BEGIN, &wanted, END, after].concat()).unwrap();
        return;
    }
    assert!(
        written == wanted,
        "{PAGE} does not list the metrics as the code declares them: run `make docs` and commit what it \
         writes. Expected:\n{wanted}"
    );
}
