//! Tests of the style check: each pattern of each rule finds its planted sentence, and suppressions need a reason.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use headgate_harness::root;
use serde_json::Value;

/// The folder of the style check.
fn style() -> PathBuf {
    root().join("tools/style")
}

/// A folder that is removed when it is dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("headgate-style-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn check(arguments: &[&str]) -> Output {
    Command::new(style().join("check")).args(arguments).output().unwrap()
}

/// The findings of vale with this configuration: for each rule, the lines with findings.
fn found(config: &Path, page: &Path) -> BTreeMap<String, BTreeSet<usize>> {
    let program = check(&["--program"]);
    assert!(program.status.success(), "{program:?}");
    let vale = String::from_utf8(program.stdout).unwrap();
    let arguments = ["--no-exit", "--output", "JSON", "--config", config.to_str().unwrap()];
    let output = Command::new(vale.trim()).args(arguments).arg(page).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let findings: Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut found: BTreeMap<String, BTreeSet<usize>> = BTreeMap::new();
    for finding in findings.as_object().unwrap().values().flat_map(|list| list.as_array().unwrap()) {
        let line = usize::try_from(finding["Line"].as_u64().unwrap()).unwrap();
        found.entry(finding["Check"].as_str().unwrap().to_owned()).or_default().insert(line);
    }
    found
}

/// A rule in its file: the part that all patterns share, and the lines of its patterns, if any.
fn split(rule: &str) -> (String, Vec<String>) {
    let Some(at) = rule.find("tokens:\n").or_else(|| rule.find("swap:\n")) else {
        return (rule.to_owned(), vec![String::new()]);
    };
    let (shared, patterns) = rule.split_at(at + rule[at..].find('\n').unwrap() + 1);
    (shared.to_owned(), patterns.lines().map(|line| format!("{line}\n")).collect())
}

/// The lines of planted.md with a sentence, and the rule for each.
fn planted(page: &str) -> BTreeMap<usize, String> {
    let mut rule = None;
    let mut planted = BTreeMap::new();
    for (number, line) in (1..).zip(page.lines()) {
        if let Some(name) = line.strip_prefix("## ") {
            rule = Some(name.to_owned());
        } else if let Some(rule) = rule.as_ref().filter(|_| line.contains(' ') && line != "| column |") {
            planted.insert(number, rule.clone());
        }
    }
    planted
}

#[test]
fn each_pattern_of_each_rule_is_found_in_a_planted_sentence() {
    let folder = Folder::new("planted");
    let text = fs::read_to_string(style().join("planted.md")).unwrap();
    let planted = planted(&text);
    let page = folder.write("planted.md", &text);
    // Each pattern becomes a separate rule, so a pattern that finds nothing is detected.
    let mut patterns = BTreeMap::new();
    for entry in fs::read_dir(style().join("styles/Plain")).unwrap() {
        let path = entry.unwrap().path();
        let rule = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let (shared, lines) = split(&fs::read_to_string(&path).unwrap());
        for (number, line) in lines.iter().enumerate() {
            let name = format!("{rule}{number}");
            folder.write(&format!("styles/One/{name}.yml"), &format!("{shared}{line}"));
            patterns.insert(format!("One.{name}"), (rule.clone(), line.clone()));
        }
    }
    assert!(patterns.len() > 50, "there are {} patterns only", patterns.len());
    let config = "StylesPath = styles\nMinAlertLevel = error\n\n[*]\nBasedOnStyles = One\n";
    let found = found(&folder.write("vale.ini", config), &page);
    let mut of_rules: BTreeMap<&str, BTreeSet<usize>> = BTreeMap::new();
    for (name, (rule, pattern)) in &patterns {
        let lines = found.get(name).cloned().unwrap_or_default();
        let own: BTreeSet<usize> = lines.into_iter().filter(|line| planted.get(line) == Some(rule)).collect();
        assert!(!own.is_empty(), "{rule}: planted.md has no sentence that this pattern finds: {pattern}");
        of_rules.entry(rule).or_default().extend(own);
    }
    for (line, rule) in &planted {
        let found = of_rules.get(rule.as_str()).is_some_and(|lines| lines.contains(line));
        assert!(found, "planted.md:{line}: {rule} does not find this sentence");
    }
}

#[test]
fn a_text_with_a_banned_pattern_fails_and_a_suppression_needs_a_reason() {
    let folder = Folder::new("reason");
    let text = |reason: &str| {
        format!(
            "# Title\n\n{reason}<!-- vale Plain.Verbs = NO -->\nThe pod goes.\n<!-- vale Plain.Verbs = YES -->\n"
        )
    };
    let bad = folder.write("bad.md", "# Title\n\nThe pod goes.\n");
    let without = folder.write("without.md", &text(""));
    let with = folder.write("with.md", &text("<!-- Reason: the output of a program is quoted. -->\n"));
    let says = |path: &Path| {
        let output = check(&[path.to_str().unwrap()]);
        (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (passed, said) = says(&bad);
    assert!(!passed && said.contains("bad.md:3:9:Plain.Verbs"), "{said}");
    let (passed, said) = says(&without);
    assert!(!passed && said.contains("without.md:3: a rule is switched off without a reason"), "{said}");
    let (passed, said) = says(&with);
    assert!(passed, "{said}");
}

#[test]
fn a_path_that_does_not_exist_fails() {
    let output = check(&["docs/no-such-folder"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("docs/no-such-folder does not exist"), "{said}");
}
