//! A set that is replaced as a whole: the new targets first, one of the old for each of the new that is healthy.
//!
//! A change of a port, a selector, labels or an annotation may take away every target that serves, though its pods
//! live on. Removing them at once would leave the load balancer with none until the new ones have passed their first
//! checks. So the removal of a target is **held**
//!
//! * if what is written has changed, and not its pod: one that goes, or has lost its address, is removed at once;
//! * if it may serve: a read that counts has shown it healthy, or initial, which it need not be any more, or there was
//!   none;
//! * if the whole set is replaced: something is wanted in the group, and nothing of it was there before;
//! * until as many of the new are healthy as have gone of the old, this one among them, each in a read that began after its
//!   registration; or all of the new are.
//!
//! So the load balancer never has fewer healthy targets than the smaller of both sets had. What cannot be registered replaces
//! nothing, nor does what never becomes healthy: then the old ones stay. If only some of the new become healthy, the rest of
//! the old goes after a grace, which begins with the last of those. It also ends when AWS has no such group any more, or
//! nothing is bound to it, or nothing is wanted there for as long as the grace. A group that is full makes room instead: some
//! of the old go, so that some of the new fit.
//!
//! Nothing of this is written down. A new leader finds the old targets in the ledger and the pods in the cluster, and
//! holds anew; the grace begins anew, too. It does not know how many have gone before, and takes the old set to have been as
//! large as the new one, if it was not larger.

use std::time::Duration;

use super::{
    Entry, Registrations,
    entries::{Action, Queue, Tally},
};
use crate::model::{Cause, Moment, Owner, Target};

/// A full group lets go this part of what it holds, to make room: a tenth.
const ROOM: usize = 10;
/// And then no more for so long: what drains may count, as far as AWS is concerned.
const DRAINING: Duration = Duration::from_secs(300);

/// Whether anything is held in a group, and since when that may not go on for ever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Hold {
    #[default]
    Not,
    /// Nothing of the new is registered yet.
    Waits,
    /// The grace has begun then: when the first of the new was registered, or the last of them began to serve.
    Counts(Moment),
}

impl Tally {
    /// Whether a grace counts: what never serves replaces nothing.
    fn may_end(self) -> bool {
        self.serving > 0 || self.wanted == 0
    }
}

impl Hold {
    /// The grace, if it has begun, begins anew.
    fn anew(self) -> Self {
        if self == Self::Not { Self::Not } else { Self::Waits }
    }

    /// How it goes on: `more` is whether more of the new serve than before, `bound` whether anything is bound to the group.
    fn then(self, tally: Tally, more: bool, bound: bool, grace: Duration, now: Moment) -> Self {
        let follows = match self {
            // Something is to come, and nothing that is wanted was there before.
            Self::Not => tally.wanted > 0 && tally.registered == 0,
            // Pods of the new set may go and come.
            Self::Waits | Self::Counts(_) => tally.wanted > 0 || bound,
        };
        let next = match self {
            Self::Counts(since) if !more => Self::Counts(since),
            Self::Counts(_) => Self::Counts(now),
            Self::Waits if tally.registered > 0 || tally.wanted == 0 => Self::Counts(now),
            Self::Not | Self::Waits => Self::Waits,
        };
        let over = matches!(next, Self::Counts(since) if now.since(since) >= grace);
        let over = over && tally.may_end();
        let all_serve = tally.wanted > 0 && tally.serving >= tally.wanted;
        if follows && !all_serve && !over && !grace.is_zero() { next } else { Self::Not }
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Replaced {
    grace: Duration,
    hold: Hold,
    /// How many were held at most since that began: some may have gone.
    old: usize,
    /// Some may have gone in the term of a leader before.
    inherited: bool,
    /// How many of the new served last.
    served: usize,
    /// Whether anything is bound to the group.
    bound: bool,
    /// What is written has changed once more.
    anew: bool,
    /// When some were let go to make room.
    made_room: Option<Moment>,
}

impl Replaced {
    pub fn new(grace: Duration) -> Self {
        let (hold, inherited) = (Hold::Not, true);
        Self { grace, hold, old: 0, inherited, served: 0, bound: true, anew: false, made_room: None }
    }

    /// What is written has changed (again).
    pub fn changes(&mut self) {
        self.anew = true;
    }

    /// Whether anything is bound to the group.
    pub fn set_bound(&mut self, bound: bool) {
        self.bound = bound;
    }

    /// The grace begins anew: nothing could be registered until now.
    pub fn grace_anew(&mut self) {
        self.hold = self.hold.anew();
    }
}

impl Registrations {
    /// Decides what is held, unless the group `is_gone`; gives whether anything has been let go.
    pub fn hold(&mut self, is_gone: bool, now: Moment) -> bool {
        let (it, tally) = (&mut self.replaced, self.entries.tally());
        let held = self.entries.count(Queue::Held);
        if held == 0 {
            // What is held when a pause begins waits for the end of that.
            if self.entries.count(Queue::Paused(Action::Deregister)) == 0 {
                (it.hold, it.old, it.inherited, it.served) = (Hold::Not, 0, false, 0);
            }
            return false;
        }
        if std::mem::take(&mut it.anew) && tally.registered == 0 {
            it.hold = it.hold.anew();
            it.old = 0;
        }
        let more = tally.serving > it.served;
        it.served = tally.serving;
        it.hold = it.hold.then(tally, more, it.bound, it.grace, now);
        if it.hold == Hold::Not || is_gone {
            (it.hold, it.old) = (Hold::Not, 0);
            return self.let_go(usize::MAX) > 0;
        }
        it.old = it.old.max(held).max(if it.inherited { tally.wanted } else { 0 });
        // Those whose pods went have made room for as many.
        let gone = it.old - held;
        self.let_go(tally.serving.saturating_sub(gone)) > 0
    }

    /// Lets so many go, those that have waited longest first.
    pub(super) fn let_go(&mut self, most: usize) -> usize {
        let held = self.entries.waiting(Queue::Held);
        let targets: Vec<Target> = held.take(most).map(|(_, target)| *target).collect();
        for target in &targets {
            self.change(*target, Entry::let_go);
        }
        targets.len()
    }

    /// AWS takes no more targets: if none of the new is there, some of the old make room.
    pub(super) fn make_room(&mut self, now: Moment) {
        let drains = self.replaced.made_room.is_some_and(|made| now.since(made) < DRAINING);
        if self.replaced.hold != Hold::Not && self.entries.tally().registered == 0 && !drains {
            self.replaced.made_room = Some(now);
            self.let_go(self.entries.count(Queue::Held).div_ceil(ROOM));
        }
    }

    /// The targets whose removal is held.
    pub fn held(&self) -> impl Iterator<Item = &Target> {
        self.entries.waiting(Queue::Held).map(|(_, target)| target)
    }

    /// The targets whose removal is held or may come to be, each with the pod it was registered for.
    pub fn spare_their_pods(&self) -> impl Iterator<Item = (&Target, &Owner)> {
        let targets = self.entries.spare();
        targets.filter_map(|target| Some((target, self.entries.get(target)?.spared()?)))
    }

    /// Until when they are held at most, if that is known.
    pub fn held_until(&self) -> Option<Moment> {
        let tally = self.entries.tally();
        match self.replaced.hold {
            Hold::Counts(since) if tally.may_end() && self.entries.count(Queue::Held) > 0 => {
                Some(since + self.replaced.grace)
            }
            _ => None,
        }
    }

    /// The pod of a target that is held, or may come to be, goes or has lost its address: the removal is due at once.
    pub fn pod_went(&mut self, target: &Target, cause: Cause, seen: Moment) {
        self.change(*target, |entry| {
            if entry.spared().is_some() {
                entry.pod_ends();
                (entry.cause, entry.since) = (cause, seen);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_secs(300);

    fn at(seconds: u64) -> Moment {
        Moment::after_start(Duration::from_secs(seconds))
    }

    fn tally(wanted: usize, registered: usize, serving: usize) -> Tally {
        Tally { wanted, registered, serving }
    }

    #[test]
    fn a_hold_begins_and_ends_with_what_is_wanted_registered_and_serves() {
        let (not, waits, counts) = (Hold::Not, Hold::Waits, Hold::Counts(at(10)));
        let one_more = |before: Hold, tally, now| before.then(tally, true, true, GRACE, at(now));
        for (before, tally, bound, now, after) in [
            // Whole replacement: nothing of what is wanted serves.
            (not, tally(2, 0, 0), true, 10, waits),
            // A part stays, or nothing is to follow.
            (not, tally(2, 2, 1), true, 10, not),
            (not, tally(2, 1, 0), true, 10, not),
            (not, tally(0, 0, 0), true, 10, not),
            (not, tally(0, 0, 0), false, 10, not),
            // What cannot be registered replaces nothing, however long that takes.
            (waits, tally(2, 0, 0), true, 9_999, waits),
            (waits, tally(2, 0, 0), false, 10, waits),
            (waits, tally(2, 1, 0), true, 10, counts),
            (waits, tally(2, 1, 1), true, 10, counts),
            (waits, tally(2, 2, 2), true, 10, not),
            // The grace goes on, and ends; but what never serves replaces nothing.
            (counts, tally(2, 2, 1), true, 309, counts),
            (counts, tally(2, 0, 0), true, 309, counts),
            (counts, tally(2, 2, 1), true, 310, not),
            (counts, tally(2, 2, 0), true, 9_999, counts),
            (counts, tally(2, 2, 2), true, 11, not),
            // The pods of the new set go, and others may come; or what bound them was taken away.
            (waits, tally(0, 0, 0), true, 10, counts),
            (counts, tally(0, 0, 0), true, 309, counts),
            (counts, tally(0, 0, 0), true, 310, not),
            (waits, tally(0, 0, 0), false, 10, not),
            (counts, tally(0, 0, 0), false, 11, not),
        ] {
            assert_eq!(
                before.then(tally, false, bound, GRACE, at(now)),
                after,
                "{before:?} {tally:?} {bound} {now}"
            );
        }
        assert_eq!(one_more(counts, tally(3, 3, 2), 200), Hold::Counts(at(200)), "it begins anew");
        assert_eq!(not.then(tally(1, 0, 0), false, true, Duration::ZERO, at(10)), not, "switched off");
    }

    #[test]
    fn only_removals_that_leave_the_pod_alive_may_be_held() {
        let spared: Vec<&str> =
            Cause::ALL.iter().filter(|cause| cause.spares_the_pod()).map(|cause| cause.as_str()).collect();
        assert_eq!(
            spared,
            [
                "NotSelected",
                "PortChanged",
                "BindingRemoved",
                "NamespaceNotSelected",
                "StaleTarget",
                "LimitExceeded",
                "NotGranted"
            ]
        );
    }
}
