//! The alert rules and the dashboard in `deploy/monitoring`.

use std::{fs, path::PathBuf};

use serde_json::Value;

use crate::root;

/// Their folder.
pub fn folder() -> PathBuf {
    root().join("deploy/monitoring")
}

fn read(file: &str) -> Value {
    serde_saphyr::from_str(&fs::read_to_string(folder().join(file)).unwrap()).unwrap()
}

/// The file of the alert rules.
pub fn rules() -> Value {
    read("rules.yaml")
}

/// Each rule of the file.
pub fn each(rules: &Value) -> Vec<&Value> {
    let groups = rules["groups"].as_array().unwrap().iter();
    groups.flat_map(|group| group["rules"].as_array().unwrap()).collect()
}

/// All queries of the dashboard, each with the title of its panel.
pub fn queries() -> Vec<(String, String)> {
    let dashboard = read("dashboard.json");
    let mut all = Vec::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().into_iter().flatten() {
            all.push([&panel["title"], &target["expr"]].map(|text| text.as_str().unwrap().to_owned()).into());
        }
    }
    all
}

/// The names of metrics in an expression, each with the text after it.
pub fn names(expression: &str) -> Vec<(&str, &str)> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut found = Vec::new();
    let mut rest = expression;
    while let Some(start) = rest.find(is_name) {
        let word = &rest[start..];
        let (word, after) = word.split_at(word.find(|c| !is_name(c)).unwrap_or(word.len()));
        if word.starts_with("headgate_") || word.starts_with("process_") {
            found.push((word, after));
        }
        rest = after;
    }
    found
}
