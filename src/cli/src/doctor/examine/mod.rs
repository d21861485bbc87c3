//! Derives findings from the facts. The functions are pure.

mod grants;
mod groups;
mod installation;
mod pods;
mod policies;
mod sets;
mod surroundings;
#[cfg(test)]
mod tests;
mod webhook;
mod workloads;

use super::{facts::Facts, finding::Finding};

/// Returns all findings, most severe first.
pub fn examine(facts: &Facts) -> Vec<Finding> {
    let mut found = installation::examine(facts);
    found.extend(policies::examine(&facts.policies));
    found.extend(webhook::examine(&facts.webhook));
    found.extend(pods::examine(facts));
    found.extend(workloads::examine(facts));
    found.extend(surroundings::examine(facts));
    found.extend(sets::examine(facts));
    found.extend(groups::examine(facts));
    found.extend(grants::examine(facts));
    found.sort();
    found.dedup();
    found
}
