//! What the ledgers left behind and nothing wants, as far as pods and their addresses matter for it; and the ledgers that
//! cannot be read.
//!
//! * **Owns**: whether what was left behind is to be judged again; of which pods and addresses that depends; the ledgers
//!   that could not be read, until their target groups are known or they can be.
//! * **Assumes**: whoever takes something in that may matter besides says so ([`Orphans::touch`]). The targets themselves
//!   are the target groups' own.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use crate::{
    ledger::{StoredLedger, object_name},
    model::{Change, ObjectKey, PodFacts, TargetGroupArn},
};

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Orphans {
    /// The ledgers that cannot be read, by the part of their names that says which target group they are of.
    unreadable: BTreeMap<Box<str>, StoredLedger>,
    /// Whether something has changed that matters.
    touched: bool,
    /// The living pods of targets that are left alone for now, or may come to be.
    doubted: BTreeSet<ObjectKey>,
    /// The addresses of targets whose removals were not sent: whoever has one, or gets it, may call the removal off.
    contestable: BTreeSet<IpAddr>,
}

impl Orphans {
    /// Something has changed that matters for them.
    pub const fn touch(&mut self) {
        self.touched = true;
    }

    /// The watch of pods says this.
    pub fn saw(&mut self, change: &Change<PodFacts>) {
        self.touched |= match change {
            Change::Applied(pod) | Change::Deleted(pod) => {
                self.doubted.contains(&pod.key) || pod.ips.iter().any(|ip| self.contestable.contains(ip))
            }
            Change::Relisted(..) => true,
        };
    }

    /// All are judged again, if anything has changed that matters.
    pub fn begin_review(&mut self) -> bool {
        let begins = std::mem::take(&mut self.touched);
        if begins {
            self.doubted.clear();
            self.contestable.clear();
        }
        begins
    }

    /// What becomes of this pod matters.
    pub fn doubts(&mut self, pod: ObjectKey) {
        self.doubted.insert(pod);
    }

    /// Who has this address matters.
    pub fn contests(&mut self, ip: IpAddr) {
        self.contestable.insert(ip);
    }

    /// A ledger cannot be read.
    pub fn unreadable(&mut self, stored: &StoredLedger) {
        self.unreadable.insert(stored.stem().into(), stored.clone());
    }

    /// That of this target group can be read now, or is gone.
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
