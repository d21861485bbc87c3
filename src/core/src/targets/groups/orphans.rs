//! Leftover targets: a ledger names them, and nothing wants them. This module tracks the pods and addresses that decide
//! about them, and the ledgers that cannot be read.
//!
//! * **Owns**: whether leftover targets must be judged again; the pods and addresses on which that depends; the
//!   unreadable ledgers, until they become readable or are deleted.
//! * **Assumes**: the caller reports each other input that may matter ([`Orphans::touch`]). The target groups own the
//!   targets themselves.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use crate::{
    ledger::{StoredLedger, object_name},
    model::{Change, ObjectKey, PodFacts, TargetGroupArn},
};

/// See the module docs.
#[derive(Clone, Debug, Default)]
pub struct Orphans {
    /// The unreadable ledgers, by the part of their names that identifies the target group.
    unreadable: BTreeMap<Box<str>, StoredLedger>,
    /// Whether something relevant has changed since the last review.
    touched: bool,
    /// The living pods of leftover targets that remain registered for now, or may.
    doubted: BTreeSet<ObjectKey>,
    /// The addresses of leftover targets whose deregistration was not sent. A pod that has or gets one may cancel the
    /// deregistration.
    contestable: BTreeSet<IpAddr>,
}

impl Orphans {
    /// Records that something relevant has changed.
    pub const fn touch(&mut self) {
        self.touched = true;
    }

    /// Takes in a change of pods from the watch.
    pub fn saw(&mut self, change: &Change<PodFacts>) {
        self.touched |= match change {
            Change::Applied(pod) | Change::Deleted(pod) => {
                self.doubted.contains(&pod.key) || pod.ips.iter().any(|ip| self.contestable.contains(ip))
            }
            Change::Relisted(..) => true,
        };
    }

    /// Starts a review of all leftover targets if something relevant has changed. Returns whether it did.
    pub fn begin_review(&mut self) -> bool {
        let begins = std::mem::take(&mut self.touched);
        if begins {
            self.doubted.clear();
            self.contestable.clear();
        }
        begins
    }

    /// Records that the review depends on this pod.
    pub fn doubts(&mut self, pod: ObjectKey) {
        self.doubted.insert(pod);
    }

    /// Records that the review depends on which pod has this address.
    pub fn contests(&mut self, ip: IpAddr) {
        self.contestable.insert(ip);
    }

    /// Records an unreadable ledger.
    pub fn unreadable(&mut self, stored: &StoredLedger) {
        self.unreadable.insert(stored.stem().into(), stored.clone());
    }

    /// Records that the ledger of this target group is readable now, or was deleted.
    pub fn readable(&mut self, group: &TargetGroupArn) {
        self.unreadable.remove(&*object_name(group));
    }

    /// The ledger of this target group, if it cannot be read.
    pub fn unreadable_of(&self, group: &TargetGroupArn) -> Option<&StoredLedger> {
        self.unreadable.get(&*object_name(group))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        ledger::LedgerVersion,
        testing::{arn, ip, pod},
    };

    #[test]
    fn they_are_judged_again_when_a_pod_or_an_address_that_matters_changes() {
        let mut orphans = Orphans::default();
        let change = |name: &str, last: u8| Change::Applied(pod(name, "1").at(last).build());
        orphans.saw(&change("a", 1));
        assert!(!orphans.begin_review(), "nobody asked for that pod");
        orphans.doubts(change_key("a"));
        orphans.contests(ip(7));
        orphans.saw(&change("b", 2));
        assert!(!orphans.begin_review());
        orphans.saw(&change("a", 1));
        assert!(orphans.begin_review() && !orphans.begin_review());
        orphans.saw(&change("a", 1));
        assert!(!orphans.begin_review(), "who matters is found out anew");
        orphans.contests(ip(7));
        orphans.saw(&change("b", 7));
        assert!(orphans.begin_review());
    }

    #[test]
    fn a_ledger_that_cannot_be_read_is_kept_until_it_can_be() {
        let stored = |name: &str| StoredLedger {
            name: format!("{}.headgate", object_name(&arn(name))).into(),
            version: LedgerVersion::new("1"),
            content: Err("torn".into()),
        };
        let mut orphans = Orphans::default();
        orphans.unreadable(&stored("blue"));
        orphans.unreadable(&stored("green"));
        assert_eq!(orphans.unreadable_of(&arn("blue")), Some(&stored("blue")));
        orphans.readable(&arn("blue"));
        assert_eq!(orphans.unreadable_of(&arn("blue")), None);
        assert_eq!(orphans.unreadable_of(&arn("green")), Some(&stored("green")));
    }

    fn change_key(name: &str) -> ObjectKey {
        pod(name, "1").build().key
    }
}
