//! Checks Headgate's CRDs, leader and permissions.

use headgate_core::Reason;

use crate::doctor::{facts::Facts, finding::Finding};

const ABOUT: &str = "Headgate";

pub fn examine(facts: &Facts) -> Vec<Finding> {
    let mut found = Vec::new();
    match &facts.missing_kinds {
        Err(why) => found.push(Finding::unchecked("the CRDs", why)),
        Ok(missing) => found.extend(missing.iter().map(|kind| {
            let said = "this kind is not installed. Run `headgate crd | kubectl apply -f -`";
            Finding::error(Reason::NotInstalled, kind, said)
        })),
    }
    match &facts.leader {
        Err(why) => found.push(Finding::error(Reason::NoLeader, ABOUT, why)),
        Ok(holder) => {
            found.extend(holder.silent_for.map(|age| {
                let said = format!(
                    "{} holds the Lease and has not renewed it for {} s. Check the pods of `headgate run` \
                     and their logs",
                    holder.identity,
                    age.as_secs()
                );
                Finding::error(Reason::NoLeader, ABOUT, said)
            }));
            found.extend(holder.served_before.as_ref().map(|before| {
                let said = format!(
                    "it managed {before} before, and pods there may wait for their readiness gate, which it \
                     may not open any more. Run `headgate uninstall --only-gates` with the --namespaces that \
                     it no longer manages; its log has the details"
                );
                Finding::warning(Reason::NamespaceNotServed, ABOUT, said)
            }));
        }
    }
    // Without a leader, another finding already reports the cause.
    if let (Err(why), Ok(_)) = (&facts.shown, &facts.leader) {
        found.push(Finding::error(Reason::CheckFailed, "the leader", format!("not checked: {why}")));
    }
    found.extend(facts.missing_namespaces.iter().map(|namespace| {
        let said = "--namespaces names it, and it does not exist. Create it, or correct --namespaces";
        Finding::warning(Reason::NamespaceNotServed, format!("namespace {namespace}"), said)
    }));
    match &facts.missing_rights {
        Err(why) => found.push(Finding::unchecked("the permissions of Headgate", why)),
        Ok(missing) => found.extend(missing.iter().map(|right| {
            let said = format!("it may not {right}. Bind the roles of config/rbac to its ServiceAccount");
            Finding::error(Reason::RightMissing, ABOUT, said)
        })),
    }
    found
}
