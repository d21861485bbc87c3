//! `docs/rules.md` names tests and planted bugs that exist.

use std::{collections::BTreeSet, fs, path::Path};

use headgate_harness::root;

/// The text of every file of ours in a folder.
fn sources(folder: &Path, text: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, text);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            text.push_str(&fs::read_to_string(path).unwrap());
        }
    }
}

#[test]
fn every_rule_names_tests_and_planted_bugs_that_exist() {
    let root = root();
    let mut text = String::new();
    sources(&root.join("src/core/src"), &mut text);
    sources(&root.join("src/headgate/src"), &mut text);
    sources(&root.join("tests/e2e"), &mut text);
    sources(&root.join("tests/simulation"), &mut text);
    let planted = fs::read_to_string(root.join("tests/simulation/planted/bugs.rs")).unwrap();
    let rules = fs::read_to_string(root.join("docs/rules.md")).unwrap();
    let mut named = BTreeSet::new();
    for row in rules.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| rule")) {
        let columns: Vec<&str> = row.split('|').map(str::trim).collect();
        let [_, rule, tests, bugs, _] = columns[..] else { panic!("expected three columns: {row}") };
        let words = |column: &str| -> Vec<String> {
            column.split('`').skip(1).step_by(2).map(str::to_owned).collect()
        };
        for test in words(tests) {
            let there = text.contains(&format!("fn {test}(")) || text.contains(&format!("fn {test} "));
            assert!(there, "there is no test {test}, which {rule:?} names");
            named.insert(test);
        }
        for bug in words(bugs) {
            assert!(
                planted.contains(&format!("name: \"{bug}\"")),
                "there is no planted bug {bug}, which {rule:?} names"
            );
            named.insert(bug);
        }
        assert!(tests.contains('`') || bugs.contains('`'), "nothing fails without {rule:?}");
    }
    assert!(named.len() > 50, "expected the tables of docs/rules.md, found {}", named.len());
}
