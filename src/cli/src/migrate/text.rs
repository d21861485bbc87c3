//! Formats the plan as text and as JSON.

use std::fmt::Write;

use serde::Serialize;

use super::{
    diff::{Row, Then, diff},
    facts::{Binding, Facts},
    steps::{Action, Step},
};

const HEAD: [&str; 5] = ["TARGET", "POD", "AWS SAYS", "THEN", "REASON"];

/// The JSON output. The names of its fields are stable.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    bindings: Vec<ReportedBinding>,
    steps: Vec<ReportedStep>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ReportedBinding {
    namespace: String,
    name: String,
    service: String,
    port: String,
    target_group: Option<String>,
    targets: Option<Vec<Row>>,
    notes: Vec<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ReportedStep {
    action: Action,
    about: Option<String>,
    state: &'static str,
    says: String,
    why: Option<String>,
}

/// Creates the JSON report.
pub fn report(facts: &Facts, steps: &[Step]) -> Report {
    let shown = facts.headgate.shown.as_ref().ok();
    let bindings = facts.bindings.iter().map(|binding| ReportedBinding {
        namespace: binding.key.namespace.to_string(),
        name: binding.key.name.to_string(),
        service: binding.spec.service_ref.name.clone(),
        port: binding.spec.service_ref.port(),
        target_group: binding.spec.target_group().map(str::to_owned),
        targets: diff(binding, shown),
        notes: notes(binding),
    });
    let steps = steps.iter().map(|step| ReportedStep {
        action: step.action,
        about: step.binding.map(|at| facts.bindings[at].key.to_string()),
        state: step.state.word(),
        says: step.says.clone(),
        why: step.state.why().map(str::to_owned),
    });
    Report { bindings: bindings.collect(), steps: steps.collect() }
}

/// Returns notes about a binding for the user.
fn notes(binding: &Binding) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(Err(why)) = &binding.group {
        notes.push(format!(
            "cannot query AWS with your credentials ({why}), so the targets are those that Headgate reports"
        ));
    }
    if binding.spec.multi_cluster {
        notes.push(format!(
            "it is a multi-cluster binding: ConfigMap aws-lbc-targets-{} remains. You can delete it \
             afterwards",
            binding.key.name
        ));
    }
    let gate = super::lbc::gate_of(&binding.key.name);
    let gated = binding.selected().filter(|pod| pod.gates.contains_key(&gate)).count();
    if gated > 0 {
        notes.push(format!(
            "{gated} pods have LBC's readiness gate {gate}; it remains True on them until they are replaced. \
             New pods get Headgate's gate if their namespace asks for it"
        ));
    }
    notes
}

/// Formats the bindings and their targets as text.
pub fn bindings(facts: &Facts) -> String {
    let shown = facts.headgate.shown.as_ref().ok();
    let mut text = String::new();
    for binding in &facts.bindings {
        let (port, service) = (binding.spec.service_ref.port(), &binding.spec.service_ref.name);
        let is = if binding.tgb.is_some() { "" } else { " (gone)" };
        // A write to a String cannot fail.
        let _ = writeln!(
            text,
            "TargetGroupBinding {}{is}: Service {service} port {port}, target group {}",
            binding.key,
            binding.group_name()
        );
        match diff(binding, shown) {
            None => text += "  the targets in AWS are unknown: neither AWS nor Headgate reports them\n",
            Some(rows) if rows.is_empty() => text += "  there is no target, and no pod should be one\n",
            Some(rows) => table(&rows, &mut text),
        }
        for note in notes(binding) {
            let _ = writeln!(text, "  note: {note}");
        }
        text.push('\n');
    }
    text
}

fn table(rows: &[Row], text: &mut String) {
    let none = || "-".to_owned();
    let mut cells = vec![HEAD.map(str::to_owned)];
    cells.extend(rows.iter().map(|row| {
        let of = |cell: &Option<String>| cell.clone().unwrap_or_else(none);
        [of(&row.target), of(&row.pod), of(&row.aws), format!("{:?}", row.then), row.reason.clone()]
    }));
    let width = |column: usize| cells.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let widths: [usize; 5] = std::array::from_fn(width);
    for row in &cells {
        let line: Vec<String> =
            row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        let _ = writeln!(text, "  {}", line.join("  ").trim_end());
    }
    for then in [Then::Adopted, Then::Registered, Then::LeftAlone] {
        if let Some(row) = rows.iter().find(|row| row.then == then) {
            let _ = writeln!(text, "  {then:?}: {}", row.says);
        }
    }
}

/// Formats a step as one line with its number.
pub fn line(at: usize, step: &Step) -> String {
    let why = step.state.why().map(|why| format!(": {why}")).unwrap_or_default();
    format!("{:<8} {at:>2}. {}{why}\n", step.state.word(), step.says)
}

/// Formats all steps as text.
pub fn steps(steps: &[Step]) -> String {
    (1..).zip(steps).map(|(at, step)| line(at, step)).collect()
}
