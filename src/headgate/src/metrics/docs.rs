//! The list of all metrics in `docs/reference/metrics.md`, compared with what the code declares. `make docs` writes it.

use std::{fmt::Write, fs, path::Path, sync::Arc};

use super::{Declared, Metrics};
use crate::runtime::clock::Clock;

const BEGIN: &str = "<!-- generated from the code: make docs -->\n";
const END: &str = "<!-- end -->\n";

fn table(metrics: &[Declared]) -> String {
    let mut table = String::from("\n| metric | type | what |\n|---|---|---|\n");
    for Declared { name, labels, kind, help } in metrics {
        assert!(!help.contains(['|', '<', '`', '*', '\n']), "{name}: expected plain text, found {help}");
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        writeln!(table, "| `{name}{labels}` | {} | {help}. |", kind.as_str()).unwrap();
    }
    table.push('\n');
    table
}

#[test]
fn docs_list_every_metric_as_the_code_declares_it() {
    lists("docs/reference/metrics.md", &Metrics::new(Arc::default(), Clock::start()));
    lists("docs/guides/per-node-ingress.md", &Metrics::of_daemonsets(Clock::start(), Vec::new));
}

fn lists(file: &str, metrics: &Metrics) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file);
    let page = fs::read_to_string(&path).unwrap();
    let (before, rest) =
        page.split_once(BEGIN).unwrap_or_else(|| panic!("{file} says where the list begins"));
    let (written, after) = rest.split_once(END).unwrap_or_else(|| panic!("{file} says where the list ends"));
    let wanted = table(metrics.declared());
    if std::env::var_os("HEADGATE_WRITE_DOCS").is_some() {
        fs::write(&path, [before, BEGIN, &wanted, END, after].concat()).unwrap();
        return;
    }
    assert!(
        written == wanted,
        "{file} does not list the metrics as the code declares them: run `make docs` and commit what it \
         writes. Expected:\n{wanted}"
    );
}
