//! `docs/rules.md` names tests and planted bugs that exist, and `docs/claims.md` tests.

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

/// Of every file that has tests of rules and claims.
fn tests() -> String {
    let mut text = String::new();
    for folder in [
        "src/core/src",
        "src/daemonset/src",
        "src/headgate/src",
        "tests/e2e",
        "tests/harness",
        "tests/simulation",
    ] {
        sources(&root().join(folder), &mut text);
    }
    text
}

fn has_test(text: &str, name: &str) -> bool {
    text.contains(&format!("fn {name}(")) || text.contains(&format!("fn {name} "))
}

#[test]
fn every_claim_of_others_names_tests_that_exist_or_says_why_it_does_not_apply() {
    let (text, page) = (tests(), fs::read_to_string(root().join("docs/claims.md")).unwrap());
    let mut claims = Vec::new();
    for row in page.lines().filter(|line| line.starts_with("| S")) {
        let columns: Vec<&str> = row.split(" | ").collect();
        let [claim, _, held] = columns[..] else { panic!("expected three columns: {row}") };
        claims.push(claim.trim_start_matches("| ").to_owned());
        // The names of tests are long; other words in this face are those of Kubernetes.
        let names = held.split('`').skip(1).step_by(2).filter(|word| word.matches('_').count() > 3);
        let names: Vec<&str> = names.collect();
        for name in &names {
            assert!(has_test(&text, name), "{claim}: there is no test {name}");
        }
        let says_why = ["does not apply", "does not need"].iter().any(|why| held.contains(why));
        assert!(!names.is_empty() || says_why, "{claim}: expected a test, or why there is none");
    }
    let all = [("S0", 16), ("S2", 8), ("S3", 6)];
    let all = all.iter().flat_map(|(of, count)| (1..=*count).map(move |at| format!("{of}-{at:02}")));
    assert_eq!(claims, all.collect::<Vec<_>>());
}

#[test]
fn every_rule_names_tests_and_planted_bugs_that_exist() {
    let root = root();
    let text = tests();
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
            assert!(has_test(&text, &test), "there is no test {test}, which {rule:?} names");
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
