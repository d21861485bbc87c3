//! Checks which namespaces may bind which target groups. Without a grant, the first namespace keeps the target group.

use std::collections::{BTreeMap, BTreeSet};

use headgate_core::{
    Reason,
    model::{grant::GroupPattern, target_group::TargetGroupArn},
};

use crate::doctor::{
    facts::{Facts, Grant, Granted},
    finding::Finding,
};

/// The reason for a bound target group that no grant names.
const UNGRANTED: Reason = Reason::NoGrant;

pub fn examine(facts: &Facts) -> Vec<Finding> {
    let Ok(shown) = &facts.shown else { return Vec::new() };
    let Some(granted) = &shown.grants else { return Vec::new() };
    let mut found = unread(granted);
    let Some(all) = &granted.all else { return found };
    let none = BTreeMap::new();
    let holders = facts.holders.as_ref().unwrap_or_else(|why| {
        found.push(Finding::unchecked("TargetLedgers", why));
        &none
    });
    // The namespaces that bind each target group.
    let mut bound: BTreeMap<TargetGroupArn, BTreeSet<&str>> = BTreeMap::new();
    for binding in &shown.bindings {
        if let Ok(group) = TargetGroupArn::parse(&binding.target_group) {
            bound.entry(group).or_default().insert(&binding.namespace);
        }
    }
    let patterns_of: Vec<Vec<GroupPattern>> = all.iter().map(patterns).collect();
    for (group, namespaces) in &bound {
        let naming = all.iter().zip(&patterns_of).filter(|(_, patterns)| are(patterns, group));
        let naming: Vec<&Grant> = naming.map(|(grant, _)| grant).collect();
        let held = holders.get(group).map(|all| all.iter().map(String::as_str).collect());
        let held: &BTreeSet<&str> = held.as_ref().unwrap_or(namespaces);
        found.push(match &naming[..] {
            [] if granted.required => forbidden(group, namespaces),
            [] => ungranted(group, held),
            naming => by_grants(group, naming),
        });
    }
    // If the command checks only one namespace, it does not know which grants are unused.
    let unused =
        all.iter().zip(&patterns_of).filter(|(_, patterns)| !bound.keys().any(|group| are(patterns, group)));
    for (grant, _) in unused.filter(|_| !facts.narrowed) {
        let said = "no binding uses a target group that it names. Create a Service or TargetBinding that \
                    does, or correct the names";
        found.push(Finding::info(Reason::InvalidGrant, format!("grant {}", grant.name), said));
    }
    found
}

fn patterns(grant: &Grant) -> Vec<GroupPattern> {
    grant.target_groups.iter().filter_map(|text| GroupPattern::parse(text).ok()).collect()
}

fn are(patterns: &[GroupPattern], group: &TargetGroupArn) -> bool {
    patterns.iter().any(|pattern| pattern.matches(group))
}

/// Returns the findings about grants that are invalid or cannot be read.
fn unread(granted: &Granted) -> Vec<Finding> {
    let mut found: Vec<Finding> = granted
        .problems
        .iter()
        .map(|one| Finding::error(Reason::InvalidGrant, &one.object, &one.said))
        .collect();
    found.extend(granted.unread.iter().map(|why| {
        if granted.required {
            let said = format!(
                "{why}; until then Headgate registers and deregisters nothing \
                                (--grants=required)"
            );
            Finding::error(Reason::RightMissing, "grants", said)
        } else {
            Finding::warning(
                Reason::RightMissing,
                "grants",
                format!("{why}; until then grants have no effect (--grants=optional)"),
            )
        }
    }));
    found
}

fn by_grants(group: &TargetGroupArn, naming: &[&Grant]) -> Finding {
    let grants: Vec<&str> = naming.iter().map(|grant| &*grant.name).collect();
    let of = |exclusive: bool| -> Vec<&str> {
        let some = naming.iter().filter(|grant| grant.exclusive || !exclusive);
        let all: BTreeSet<&str> =
            some.flat_map(|grant| grant.namespaces.iter().map(String::as_str)).collect();
        all.into_iter().collect()
    };
    let (all, exclusive) = (of(false), of(true));
    let exclusive = match &exclusive[..] {
        [] => String::new(),
        some => format!(", and foreign targets may be deregistered for {}", list(some)),
    };
    let said = format!(
        "the grants {} name it: these namespaces may bind it: {}{exclusive}",
        grants.join(", "),
        list(&all)
    );
    Finding::info(Reason::AsExpected, about(group), said)
}

/// Returns the finding for a target group that no grant names although grants are required.
fn forbidden(group: &TargetGroupArn, bound: &BTreeSet<&str>) -> Finding {
    let spaces: Vec<&str> = bound.iter().copied().collect();
    let said = format!(
        "no grant names it, and with --grants=required Headgate registers no new targets in it for {}. \
         Create this grant, if they may bind it:\n{}",
        list(&spaces),
        needed(group, &spaces)
    );
    Finding::error(UNGRANTED, about(group), said)
}

fn ungranted(group: &TargetGroupArn, held: &BTreeSet<&str>) -> Finding {
    let spaces: Vec<&str> = held.iter().copied().collect();
    let are = list(&spaces);
    match spaces.len() {
        0 => {
            let said = "no grant names it, and no namespace has a target in it: the first namespace that binds it \
                 holds it";
            Finding::info(UNGRANTED, about(group), said)
        }
        1 => {
            let said = format!(
                "no grant names it: {are} holds it, as the first to have a target there, and no other \
                 namespace may bind it until one hour after its last binding is removed"
            );
            Finding::info(UNGRANTED, about(group), said)
        }
        _ => {
            let said = format!(
                "{are} have targets in it, and no grant names it: these remain, and no other namespace may \
                 bind it. Create this grant, if all of them may bind it:\n{}",
                needed(group, &spaces)
            );
            Finding::warning(Reason::NoGrant, about(group), said)
        }
    }
}

fn about(group: &TargetGroupArn) -> String {
    format!("target group {}", group.name())
}

fn list(namespaces: &[&str]) -> String {
    match namespaces {
        [] => "no namespace".to_owned(),
        [one] => format!("namespace {one}"),
        all => format!("the namespaces {}", all.join(", ")),
    }
}

/// Returns the missing grant as YAML.
fn needed(group: &TargetGroupArn, namespaces: &[&str]) -> String {
    let (name, namespaces) = (group.name(), namespaces.join(", "));
    let low = name.to_ascii_lowercase();
    format!(
        "  apiVersion: headgate.dev/v1alpha1\n  kind: TargetGroupGrant\n  metadata:\n    name: {low}\n  spec:\n    \
         targetGroups: [\"{name}\"]\n    namespaces: {{names: [{namespaces}]}}"
    )
}
