//! What tells one installation of Headgate from another: the name of its Lease, and what it serves.
//!
//! Several may have one namespace for their own. Each has a Lease of another name, and its own TargetLedgers, which are
//! named after it. Replicas of one Lease must serve the same: only one of them works at a time, and it takes what the
//! others did for its own. What the holder serves stands in the Lease, so that one that serves something else is noticed.

use std::fmt;

use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client, ResourceExt, api::ListParams};

/// The name of the Lease, unless another is given.
pub const LEASE: &str = "headgate";
/// The annotation of the Lease that says what its holder serves.
pub const SERVES: &str = "headgate.dev/serves";

/// Which namespaces are served.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Serves {
    /// Only these; none: all.
    pub namespaces: Vec<String>,
    /// Only those with these labels.
    pub selector: Option<String>,
}

impl fmt::Display for Serves {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut names = self.namespaces.clone();
        names.sort();
        names.dedup();
        match (&*names, &self.selector) {
            ([], None) => f.write_str("all namespaces"),
            ([], Some(selector)) => write!(f, "namespaces with the labels {selector}"),
            (names, _) => write!(f, "the namespaces {}", names.join(", ")),
        }
    }
}

impl Serves {
    /// The names of the namespaces; `None`: all.
    ///
    /// # Errors
    /// If they have to be listed, and cannot be.
    pub async fn names(&self, client: &Client) -> kube::Result<Option<Vec<String>>> {
        let Some(selector) = &self.selector else {
            return Ok((!self.namespaces.is_empty()).then(|| self.namespaces.clone()));
        };
        let all: Api<Namespace> = Api::all(client.clone());
        let listed = all.list_metadata(&ListParams::default().labels(selector)).await?;
        Ok(Some(listed.iter().map(ResourceExt::name_any).collect()))
    }
}

/// What the TargetLedgers of the installation with this Lease end in, after the name that says which target group; none
/// for the Lease that is nobody's choice.
pub fn ledger_suffix(lease: &str) -> Option<String> {
    (lease != LEASE).then(|| format!(".{lease}"))
}

/// Whether the TargetLedger of this name is one of the installation whose ledgers end so. The name of a target group has
/// no dot in it.
pub fn is_own_ledger(name: &str, suffix: Option<&str>) -> bool {
    match (name.find('.'), suffix) {
        (None, None) => true,
        (Some(at), Some(suffix)) => &name[at..] == suffix,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn serves(namespaces: &[&str], selector: Option<&str>) -> String {
        let namespaces = namespaces.iter().map(ToString::to_string).collect();
        Serves { namespaces, selector: selector.map(str::to_owned) }.to_string()
    }

    #[test]
    fn what_is_served_reads_the_same_in_whatever_order_it_was_given() {
        assert_eq!(serves(&[], None), "all namespaces");
        assert_eq!(serves(&["b", "a", "b"], None), "the namespaces a, b");
        assert_eq!(serves(&[], Some("x=y")), "namespaces with the labels x=y");
    }

    #[test]
    fn each_installation_knows_its_own_ledgers() {
        assert_eq!(ledger_suffix("headgate"), None);
        let suffix = ledger_suffix("team.b");
        assert_eq!(suffix.as_deref(), Some(".team.b"));
        for (name, default, team) in [
            ("web-6d0ecf831eec9f09", true, false),
            ("web-6d0ecf831eec9f09.team.b", false, true),
            ("web-6d0ecf831eec9f09.b", false, false),
            ("web-6d0ecf831eec9f09.", false, false),
        ] {
            assert_eq!(is_own_ledger(name, None), default, "{name}");
            assert_eq!(is_own_ledger(name, suffix.as_deref()), team, "{name}");
        }
    }
}
