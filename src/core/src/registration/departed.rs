//! Whose a target was last, and why it went: kept for a while by a replica that does not lead, so that it can remove
//! the target at once when it comes to lead and finds it in the ledger.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use crate::{
    ledger::PodMark,
    model::{Moment, Owner, Reason, Target, changes::Through},
};

/// Longer than any leader can be gone without another one taking over.
const KEPT: Duration = Duration::from_secs(15 * 60);

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Departed {
    last: BTreeMap<Target, Departure>,
    order: VecDeque<(Moment, Target)>,
}

/// A pod that was a target, or should have been, and went.
#[derive(Clone, Debug)]
pub struct Departure {
    pub(super) owner: Owner,
    /// Through which bindings it was one, if that is known.
    pub(super) through: Option<Through>,
    pub(super) reason: Reason,
    pub(super) seen: Moment,
}

impl Departure {
    pub fn mark(&self) -> PodMark {
        PodMark::of(&self.owner.uid)
    }
}

impl Departed {
    pub fn note(&mut self, target: Target, departure: Departure) {
        let seen = departure.seen;
        self.order.push_back((seen, target));
        self.last.insert(target, departure);
        self.forget(seen);
    }

    /// The last pod that was seen to go from `target`.
    pub fn last(&self, target: &Target) -> Option<&Departure> {
        self.last.get(target)
    }

    /// Forgets what went long ago.
    pub fn forget(&mut self, now: Moment) {
        while let Some((seen, target)) = self.order.front().copied()
            && now.since(seen) > KEPT
        {
            self.order.pop_front();
            if self.last.get(&target).is_some_and(|departure| departure.seen == seen) {
                self.last.remove(&target);
            }
        }
    }

    pub fn is_empty(&self) -> bool {
        self.last.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        model::{ObjectKey, Uid},
        testing::target,
    };

    fn at(seconds: u64) -> Moment {
        Moment::after_start(Duration::from_secs(seconds))
    }

    fn departure(uid: &str, seen: Moment) -> Departure {
        let owner = Owner { pod: ObjectKey::new("shop", uid), uid: Uid::new(uid) };
        Departure { owner, through: None, reason: Reason::PodDeleted, seen }
    }

    #[test]
    fn the_last_pod_that_went_is_remembered_for_a_quarter_of_an_hour() {
        let last = |departed: &Departed| departed.last(&target(1, 80)).map(Departure::mark);
        let mut departed = Departed::default();
        assert!(departed.is_empty());
        departed.note(target(1, 80), departure("a", at(0)));
        departed.note(target(1, 80), departure("b", at(10)));
        assert_eq!(last(&departed), Some(PodMark::of(&Uid::new("b"))));
        departed.forget(at(910));
        assert!(!departed.is_empty(), "the one before is not taken for it");
        departed.forget(at(911));
        assert!(departed.is_empty() && last(&departed).is_none());
    }
}
