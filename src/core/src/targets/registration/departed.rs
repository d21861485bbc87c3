//! The earlier pods of each target, and why they lost it. A standby keeps this for a while. If it becomes the leader
//! and finds such a target in the ledger, it can deregister the target immediately.
//!
//! It keeps more than the last pod. If the leader had not yet registered the last pod, the ledger names an earlier one.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use crate::{
    ledger::PodMark,
    model::{Cause, Moment, Origin, Owner, Target, changes::Through},
};

/// Longer than the longest time without a leader.
const KEPT: Duration = Duration::from_secs(15 * 60);

/// See the module docs.
#[derive(Clone, Debug, Default)]
pub struct Departed {
    /// The pods that lost each target, each once, the last one at the end.
    all: BTreeMap<Target, Vec<Departure>>,
    order: VecDeque<(Moment, Target)>,
}

/// A pod that had, or should have had, a target and lost it.
#[derive(Clone, Debug)]
pub struct Departure {
    pub(super) owner: Owner,
    /// The bindings through which the pod had the target, if they are known.
    pub(super) through: Option<Through>,
    pub(super) cause: Cause,
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
        let here = self.all.entry(target).or_default();
        here.retain(|other| other.owner.uid != departure.owner.uid);
        here.push(departure);
        self.forget(seen);
    }

    /// The last pod that lost `target`.
    pub fn last(&self, target: &Target) -> Option<&Departure> {
        self.all.get(target)?.last()
    }

    /// The pod with this UID hash, if it lost `target`.
    pub fn of(&self, target: &Target, mark: PodMark) -> Option<&Departure> {
        self.all.get(target)?.iter().find(|departure| departure.mark() == mark)
    }

    /// Whether one of the pods that lost `target` had it through a binding of this object.
    pub fn had(&self, target: &Target, origin: &Origin) -> bool {
        let mut here = self.all.get(target).into_iter().flatten();
        here.any(|departure| departure.through.as_ref().is_some_and(|through| through.is_of(origin)))
    }

    /// Forgets losses that are older than `KEPT`.
    pub fn forget(&mut self, now: Moment) {
        while let Some((seen, target)) = self.order.front().copied()
            && now.since(seen) > KEPT
        {
            self.order.pop_front();
            if let Some(here) = self.all.get_mut(&target) {
                here.retain(|departure| departure.seen != seen);
                if here.is_empty() {
                    self.all.remove(&target);
                }
            }
        }
    }

    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        model::{BindingKey, ObjectKey, Uid},
        testing::{arn, target},
    };

    fn at(seconds: u64) -> Moment {
        Moment::after_start(Duration::from_secs(seconds))
    }

    fn departure(uid: &str, seen: Moment) -> Departure {
        let owner = Owner { pod: ObjectKey::new("shop", uid), uid: Uid::new(uid) };
        Departure { owner, through: None, cause: Cause::PodDeleted, seen }
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

    #[test]
    fn those_before_it_are_remembered_as_long_each_as_it_went_last() {
        let here = target(1, 80);
        let knows = |departed: &Departed, uid| departed.of(&here, PodMark::of(&Uid::new(uid))).is_some();
        let mut departed = Departed::default();
        for (uid, seen) in [("a", 0), ("b", 10), ("a", 20)] {
            departed.note(here, departure(uid, at(seen)));
        }
        assert_eq!(departed.last(&here).map(Departure::mark), Some(PodMark::of(&Uid::new("a"))));
        departed.forget(at(910));
        assert!(knows(&departed, "a") && knows(&departed, "b"));
        departed.forget(at(911));
        assert!(knows(&departed, "a") && !knows(&departed, "b"));
        departed.forget(at(921));
        assert!(departed.is_empty() && !knows(&departed, "a"));
    }

    #[test]
    fn it_is_known_of_each_through_whose_bindings_it_had_the_target() {
        let origin = |name: &str| Origin::TargetBinding(ObjectKey::new("shop", name));
        let key = |name| BindingKey { origin: origin(name), port: "http".into(), group: arn("blue") };
        let through = |last, other| Some(Through { last: key(last), others: vec![key(other)] });
        let mut departed = Departed::default();
        for (uid, through) in [("a", through("first", "both")), ("b", None), ("c", through("last", "both"))] {
            departed.note(target(1, 80), Departure { through, ..departure(uid, at(0)) });
        }
        for (name, had) in [("first", true), ("both", true), ("last", true), ("other", false)] {
            assert_eq!(departed.had(&target(1, 80), &origin(name)), had, "{name}");
            assert!(!departed.had(&target(2, 80), &origin(name)), "another target");
        }
    }
}
