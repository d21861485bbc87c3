//! Checks whether the admission policies exist and have bindings.

use headgate_core::Reason;

use crate::doctor::{
    facts::{Fence, Policy, Reserved},
    finding::Finding,
};

const KIND: &str = "ValidatingAdmissionPolicy";

pub fn examine(policies: &Reserved<Vec<Policy>>) -> Vec<Finding> {
    match policies {
        Err(why) => vec![Finding::unseen("the admission policies", why)],
        Ok(policies) => policies.iter().filter_map(policy).collect(),
    }
}

fn policy(policy: &Policy) -> Option<Finding> {
    let about = format!("{KIND} {}", policy.name);
    let file = format!("config/admission/{}.yaml", policy.fence.name());
    let without = without(policy.fence);
    if !policy.is_there {
        let said = format!(
            "it does not exist, so {without}. Apply that of {file} under the name of the Lease, or set \
             admissionPolicies.enabled in the chart (Kubernetes 1.30)"
        );
        return Some(Finding::warning(Reason::NotInstalled, about, said));
    }
    let said =
        || format!("no {KIND}Binding with the action Deny names it, so {without}. Apply the one of {file}");
    (!policy.denies).then(|| Finding::warning(Reason::NotInstalled, about, said()))
}

/// Describes what an attacker can do without the policy.
fn without(fence: Fence) -> &'static str {
    match fence {
        Fence::OwnWrites => {
            "a stolen token of Headgate's ServiceAccount can change every mutable field of a pod, including its image"
        }
        Fence::OwnWritesOnNodes => {
            "a stolen token of Headgate's ServiceAccount can patch nodes, including taints and labels"
        }
        Fence::Marks => {
            "anyone who can patch pods can change Headgate's annotations, so that evictions are allowed too early or too late"
        }
    }
}
