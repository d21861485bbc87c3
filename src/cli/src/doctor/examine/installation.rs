//! Headgate itself: its CRDs, its leader and its permissions.

use headgate_core::Reason;

use crate::doctor::{facts::Facts, finding::Finding};

const ABOUT: &str = "Headgate";

pub fn examine(facts: &Facts) -> Vec<Finding> {
    let mut found = Vec::new();
    match &facts.missing_kinds {
        Err(why) => found.push(Finding::unchecked("the CRDs", why)),
        Ok(missing) => found.extend(missing.iter().map(|kind| {
            let said = "this kind is not installed; expected `headgate crd | kubectl apply -f -`";
            Finding::error(Reason::NotInstalled, kind, said)
        })),
    }
    match &facts.leader {
        Err(why) => found.push(Finding::error(Reason::NoLeader, ABOUT, why)),
        Ok(holder) => {
            found.extend(holder.silent_for.map(|age| {
                let said = format!(
                    "{} holds the Lease and has not renewed it for {} s; expected a `headgate run` that is alive; look at \
                     its pods and their log",
                    holder.identity,
                    age.as_secs()
                );
                Finding::error(Reason::NoLeader, ABOUT, said)
            }));
            found.extend(holder.served_before.as_ref().map(|before| {
                let said = format!(
                    "it served {before} before, and pods there may wait for their readiness gate, which it may not open \
                     any more; expected `headgate uninstall --only-gates` with the --namespaces that it has left; see its log"
                );
                Finding::warning(Reason::NamespaceNotServed, ABOUT, said)
            }));
        }
    }
    // Without a leader, there is no answer in any case.
    if let (Err(why), Ok(_)) = (&facts.shown, &facts.leader) {
        found.push(Finding::error(Reason::CheckFailed, "the leader", format!("not checked: {why}")));
    }
    found.extend(facts.missing_namespaces.iter().map(|namespace| {
        let said = "Headgate is told to serve it, and it does not exist; expected namespaces that exist in --namespaces";
        Finding::warning(Reason::NamespaceNotServed, format!("namespace {namespace}"), said)
    }));
    match &facts.missing_rights {
        Err(why) => found.push(Finding::unchecked("the rights of Headgate", why)),
        Ok(missing) => found.extend(missing.iter().map(|right| {
            let said =
                format!("it may not {right}; expected the roles of config/rbac, bound to its ServiceAccount");
            Finding::error(Reason::RightMissing, ABOUT, said)
        })),
    }
    found
}
