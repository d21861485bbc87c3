//! The table of values in the README of the chart, compared with the comments of `values.yaml`. `make docs` writes it.

use std::{fmt::Write, fs};

use headgate_harness::helm::chart;

const BEGIN: &str = "<!-- generated from values.yaml: make docs -->\n";
const END: &str = "<!-- end -->\n";

/// A value, or a group of them.
#[derive(Debug)]
struct Row {
    /// Its name with the names of its groups.
    path: Vec<String>,
    /// The default as written. A group has none.
    default: Option<String>,
    said: String,
}

/// The rows of a values file, which must contain only keys with comments above them.
fn rows(text: &str) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut within: Vec<(usize, String)> = Vec::new();
    let mut said: Vec<&str> = Vec::new();
    for line in text.lines() {
        let plain = line.trim_start();
        let indent = line.len() - plain.len();
        if plain.is_empty() {
            said.clear();
        } else if let Some(comment) = plain.strip_prefix('#') {
            said.push(comment.trim());
        } else {
            let (key, default) = plain.split_once(':').unwrap_or_else(|| panic!("{line:?}: expected a key"));
            within.retain(|(column, _)| *column < indent);
            within.push((indent, key.to_owned()));
            let path = within.iter().map(|(_, key)| key.clone()).collect();
            let default = Some(default.trim().to_owned()).filter(|default| !default.is_empty());
            rows.push(Row { path, default, said: std::mem::take(&mut said).join(" ") });
        }
    }
    rows
}

fn table(rows: &[Row]) -> String {
    let mut table = String::from("\n| value | default | what |\n|---|---|---|\n");
    for Row { path, default, said } in rows.iter().filter(|row| row.default.is_some() || !row.said.is_empty())
    {
        let default = default.as_ref().map_or(String::new(), |default| format!("`{default}`"));
        // Text in backticks is code already. Elsewhere these characters must not count as Markdown.
        let said = said.replace('|', "\\|").replace('<', "&lt;");
        writeln!(table, "| `{}` | {default} | {said} |", path.join(".")).unwrap();
    }
    table.push('\n');
    table
}

#[test]
fn the_readme_of_the_chart_lists_every_value_as_values_yaml_explains_it() {
    let rows = rows(&fs::read_to_string(chart().join("values.yaml")).unwrap());
    for row in rows.iter().filter(|row| row.default.is_some()) {
        let of_group = |other: &Row| row.path.starts_with(&other.path) && !other.said.is_empty();
        assert!(
            rows.iter().any(of_group),
            "values.yaml does not explain {}: expected a comment above it",
            row.path.join(".")
        );
    }
    let path = chart().join("README.md");
    let page = fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).expect("the README says where the table begins");
    let (written, after) = rest.split_once(END).expect("the README says where the table ends");
    let wanted = table(&rows);
    if std::env::var_os("HEADGATE_WRITE_DOCS").is_some() {
        fs::write(&path, [before, BEGIN, &wanted, END, after].concat()).unwrap();
        return;
    }
    assert!(
        written == wanted,
        "deploy/helm/headgate/README.md does not list the values as values.yaml has them: run `make docs` and commit what it \
         writes. Expected:\n{wanted}"
    );
}

#[test]
fn a_value_is_named_with_its_groups_and_explained_by_what_is_above_it() {
    let found =
        rows("# The file.\n\n# A group\n# of two.\na:\n  # First.\n  b: 1\n  c:\n    d: \"x\"\n\ne: {}\n");
    let found: Vec<_> = found
        .iter()
        .map(|row| (row.path.join("."), row.default.as_deref().unwrap_or("-"), &*row.said))
        .collect();
    let wanted = [
        ("a", "-", "A group of two."),
        ("a.b", "1", "First."),
        ("a.c", "-", ""),
        ("a.c.d", "\"x\"", ""),
        ("e", "{}", ""),
    ];
    assert_eq!(found, wanted.map(|(path, default, said)| (path.to_owned(), default, said)));
}
