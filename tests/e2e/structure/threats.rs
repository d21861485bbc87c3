//! The threat model in SECURITY.md names its tests, and they exist.

use std::{fs, path::Path};

use headgate_harness::root;

/// The text of all Rust files in a folder.
fn sources(folder: &Path, text: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, text);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            text.push_str(&fs::read_to_string(&path).unwrap());
        }
    }
}

#[test]
fn each_row_of_the_threat_model_names_tests_that_exist() {
    let page = fs::read_to_string(root().join("SECURITY.md")).unwrap();
    let (_, section) = page.split_once("\n## Threat model\n").expect("SECURITY.md has a threat model");
    let section = section.split("\n## ").next().unwrap();
    let rows: Vec<&str> = section.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
    assert!(rows.len() >= 10, "{rows:#?}");
    let mut text = String::new();
    for folder in ["src", "tests"] {
        sources(&root().join(folder), &mut text);
    }
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split('|').collect();
        let tests: Vec<&str> = cells.last().unwrap().split('`').skip(1).step_by(2).collect();
        assert!(cells.len() == 4 && !tests.is_empty(), "no tests: {row}");
        for test in tests {
            assert!(text.contains(&format!("fn {test}(")), "there is no test {test}");
        }
    }
}
