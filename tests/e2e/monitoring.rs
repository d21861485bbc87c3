//! The alert rules and the dashboard in `deploy/monitoring`.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use headgate_core::model::reason::Reason;
use headgate_harness::{
    helm::block,
    monitoring::{each, folder, names, queries, rules},
    pages::fragments,
    prometheus::promtool,
    root,
};
use serde_json::json;

/// Labels that Prometheus adds to every series, and labels of alerts.
const GIVEN: [&str; 3] = ["job", "namespace", "pod"];

/// Default metrics that no alert and no panel uses.
const UNSEEN: [&str; 4] = [
    "headgate_lease_conflict",
    "process_max_fds",
    "process_start_time_seconds",
    "process_virtual_memory_bytes",
];

/// The metrics in docs/reference/metrics.md, which another test compares with the program: the labels of the default
/// metrics by name, and the names of the others.
fn metrics() -> (BTreeMap<String, BTreeSet<String>>, BTreeSet<String>) {
    let page = fs::read_to_string(root().join("docs/reference/metrics.md")).unwrap();
    // Those of `headgate daemonsets` are not included.
    let (page, _) = page.split_once("\n## `headgate daemonsets`\n").expect("its section");
    let rows = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once("` | "))
        .filter(|(_, rest)| ["counter", "gauge", "histogram"].iter().any(|kind| rest.starts_with(kind)));
    let (mut by_default, mut others) = (BTreeMap::new(), BTreeSet::new());
    for (name, rest) in rows {
        let (name, labels) = name.split_once('{').unwrap_or((name, ""));
        if rest.contains(" | debug | ") {
            others.insert(name.to_owned());
            continue;
        }
        let labels = labels.trim_end_matches('}').split(',').filter(|label| !label.is_empty());
        by_default.insert(name.to_owned(), labels.map(str::to_owned).collect::<BTreeSet<_>>());
    }
    (by_default, others)
}

/// The labels that select a metric, from the text after its name.
fn selected_by(after: &str) -> impl Iterator<Item = &str> {
    let selector =
        after.strip_prefix('{').and_then(|rest| rest.split_once('}')).map_or("", |(inside, _)| inside);
    // No value contains a comma.
    let labels = selector.split(',').filter(|label| !label.trim().is_empty());
    labels.map(|label| label.split(['=', '!']).next().unwrap_or_default().trim())
}

#[test]
fn alerts_and_dashboard_name_metrics_and_labels_that_the_program_serves_by_default() {
    let (metrics, others) = metrics();
    assert!(metrics.len() > 30 && others.len() > 10, "{metrics:?} {others:?}");
    let rules = rules();
    let of_rules = each(&rules).into_iter().map(|rule| {
        let [alert, expression] = ["alert", "expr"].map(|field| rule[field].as_str().unwrap().to_owned());
        (alert, expression)
    });
    let mut seen = BTreeSet::new();
    for (whose, expression) in of_rules.chain(queries()) {
        for (name, after) in names(&expression) {
            let plain =
                ["_bucket", "_sum", "_count"].iter().find_map(|part| name.strip_suffix(part)).unwrap_or(name);
            let known = metrics.get(plain);
            let known = known.unwrap_or_else(|| {
                panic!("{whose}: {name} is not served by default (docs/reference/metrics.md)")
            });
            for label in selected_by(after) {
                assert!(
                    known.contains(label) || GIVEN.contains(&label),
                    "{whose}: {name} has no label {label}"
                );
            }
            seen.insert(plain.to_owned());
        }
    }
    let unseen: Vec<&String> =
        metrics.keys().filter(|name| !seen.contains(*name) && !UNSEEN.contains(&&***name)).collect();
    assert!(
        unseen.is_empty(),
        "neither an alert nor the dashboard shows {unseen:?}; expected it in one of them, or in the list of this test"
    );
}

#[test]
fn the_pages_for_operators_name_no_metric_of_the_level_debug() {
    let (_, others) = metrics();
    for page in fs::read_dir(root().join("docs/operate")).unwrap() {
        let path = page.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        for name in &others {
            assert!(!text.contains(&format!("`{name}")), "{}: {name}", path.display());
        }
    }
}

#[test]
fn each_alert_names_its_reason_and_leads_to_a_section_and_is_explained() {
    let known: BTreeSet<&str> = Reason::ALL.iter().map(|reason| reason.as_str()).collect();
    let read = |page: &str| fs::read_to_string(root().join("docs").join(page)).unwrap();
    let (words, page) = (read("reference/reasons.md"), read("operate/alerts.md"));
    let rules = rules();
    for rule in each(&rules) {
        let alert = rule["alert"].as_str().unwrap();
        let expression = rule["expr"].as_str().unwrap();
        // The rule sets a reason, or the series have one.
        let own = rule["labels"]["reason"].as_str().map(|reason| vec![reason]);
        let reasons = own.unwrap_or_else(|| {
            let listed = expression.split_once("reason=~\"").map(|(_, rest)| rest.split('"').next().unwrap());
            listed.map(|listed| listed.split('|').collect()).unwrap_or_default()
        });
        let of_series = expression.contains("headgate_unresolved_bindings");
        assert!(!reasons.is_empty() || of_series, "{alert} says no reason");
        for reason in reasons {
            assert!(known.contains(reason), "{alert}: {reason} is no word of Headgate's");
            let section = words.split_once(&format!("### `{reason}`\n"));
            let (_, section) =
                section.unwrap_or_else(|| panic!("{alert}: reasons.md has no section {reason}"));
            let section = section.split("\n##").next().unwrap();
            // The symptom, a command that changes or finds something, and the output after the fix.
            let block = section.split("```console\n").nth(1).and_then(|rest| rest.split("```").next());
            let block = block.unwrap_or_else(|| panic!("{alert}: reasons.md shows no commands for {reason}"));
            let lines: Vec<&str> = block.lines().collect();
            let commands = lines.iter().filter(|line| line.starts_with("$ ")).count();
            let begins = lines[0].starts_with("$ ") && lines.len() >= 4;
            assert!(
                commands >= 2 && begins && !lines.last().unwrap().starts_with("$ "),
                "{reason}: reasons.md shows commands, and output before and after the fix, not {block}"
            );
        }
        assert!(["critical", "warning"].contains(&rule["labels"]["severity"].as_str().unwrap()), "{alert}");
        for annotation in ["summary", "description"] {
            assert!(rule["annotations"][annotation].is_string(), "{alert} has no {annotation}");
        }
        let link = rule["annotations"]["runbook"].as_str().unwrap();
        let link = link.strip_prefix("docs/").unwrap();
        let (runbook, section) = link.split_once('#').unwrap();
        assert!(
            fragments(&read(runbook)).contains(section),
            "{alert}: docs/{runbook} has no section {section}"
        );
        assert!(page.contains(&format!("| `{alert}` |")), "docs/operate/alerts.md has no line for {alert}");
    }
}

/// Run by `.ci/run` and not by `make test`.
mod more {
    use super::*;

    #[test]
    fn each_alert_has_a_case_in_which_it_fires_and_one_in_which_it_does_not() {
        block(async {
            promtool(&folder(), &["check", "rules", "rules.yaml"]).await.unwrap();
            promtool(&folder(), &["test", "rules", "rules.test.yaml"]).await.unwrap();
            // The test detects rules that never fire or fire too early.
            let changed = root().join("target/monitoring");
            fs::create_dir_all(&changed).unwrap();
            fs::copy(folder().join("rules.test.yaml"), changed.join("rules.test.yaml")).unwrap();
            let rules = rules();
            let alerts = each(&rules).len();
            for at in 0..alerts {
                let alert = each(&rules)[at]["alert"].clone();
                for eager in [false, true] {
                    let mut other = rules.clone();
                    let rule = &mut other["groups"][0]["rules"][at];
                    match (eager, rule["for"].is_string()) {
                        (false, _) => rule["expr"] = json!("vector(0) > 1"),
                        (true, true) => rule["for"] = json!("0s"),
                        (true, false) => {
                            let expression = rule["expr"].as_str().unwrap();
                            assert!(expression.ends_with("> 0"), "{alert}: {expression}");
                            rule["expr"] = json!(expression.replace("> 0", ">= 0"));
                        }
                    }
                    fs::write(changed.join("rules.yaml"), other.to_string()).unwrap();
                    let noticed = promtool(&changed, &["test", "rules", "rules.test.yaml"]).await;
                    assert!(
                        noticed.is_err(),
                        "no case of rules.test.yaml notices that {alert} fires {}",
                        if eager { "at once" } else { "never" }
                    );
                }
            }
        });
    }
}
