//! The replacement of all targets of a group. New targets are registered first. For each new healthy target, one old
//! target is deregistered.
//!
//! A change of a port, a selector, labels or an annotation may remove every serving target although its pod remains
//! alive. If Headgate deregistered them all immediately, the load balancer would have none until the new targets have
//! passed their first checks. Headgate therefore **holds** the deregistration of a target
//!
//! * if the configuration has changed and not the pod. The target of a pod that terminates or has lost its address is
//!   deregistered immediately;
//! * if the target may serve: the last read that counts has shown it as healthy or initial (it may be healthy by now),
//!   or there was no such read;
//! * if all targets are replaced: the group has wanted targets, and none of them was registered before;
//! * until the number of healthy new targets reaches the number of deregistered old ones, including this one, or until
//!   all new targets are healthy. Only a read that began after the registration shows a new target as healthy.
//!
//! The load balancer thus never has fewer healthy targets than the smaller of the two sets had. New targets that cannot
//! be registered, or never become healthy, replace nothing, so the old targets remain registered. If only some new
//! targets become healthy, the remaining old targets are deregistered after a grace period, which begins with the last
//! new healthy target. The hold also ends when the group no longer exists, has no binding, or has had no wanted target
//! for the grace period. In a full group, Headgate deregisters some old targets to make room for new ones.
//!
//! This state is not stored. A new leader finds the old targets in the ledger and the pods in the cluster. It holds the
//! old targets again, and the grace period restarts. It does not know how many old targets were deregistered before. It
//! assumes that the old set was at least as large as the new one.

use std::time::Duration;

use super::{
    Entry, Registrations,
    entries::{Action, Queue, Tally},
};
use crate::model::{Cause, Moment, Owner, Target};

/// The part of the held targets that a full group deregisters to make room: one in ten.
const ROOM: usize = 10;
/// Headgate makes room again only after this long, because AWS may count draining targets.
const DRAINING: Duration = Duration::from_secs(300);

/// Whether a group holds deregistrations, and since when the grace period runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Hold {
    #[default]
    Not,
    /// No new target is registered yet.
    Waits,
    /// The grace period runs since then: the first new target was registered, or the last one began to serve.
    Counts(Moment),
}

impl Tally {
    /// Whether the grace period may end the hold. New targets that never serve replace nothing.
    fn may_end(self) -> bool {
        self.serving > 0 || self.wanted == 0
    }
}

impl Hold {
    /// Restarts the grace period, if it runs.
    fn anew(self) -> Self {
        if self == Self::Not { Self::Not } else { Self::Waits }
    }

    /// The next state. `more`: whether more new targets serve than before. `bound`: whether the group has a binding.
    fn then(self, tally: Tally, more: bool, bound: bool, grace: Duration, now: Moment) -> Self {
        let follows = match self {
            // New targets are wanted, and none of them was registered before.
            Self::Not => tally.wanted > 0 && tally.registered == 0,
            // Pods of the new set may end and be created.
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

/// See the module docs.
#[derive(Clone, Debug)]
pub struct Replaced {
    grace: Duration,
    hold: Hold,
    /// The largest number of held targets since the hold began. Some may be deregistered by now.
    old: usize,
    /// Whether an earlier leader may have deregistered some.
    inherited: bool,
    /// How many new targets served at the last check.
    served: usize,
    /// Whether the group has a binding.
    bound: bool,
    /// Whether the configuration has changed again.
    anew: bool,
    /// When Headgate last deregistered some to make room.
    made_room: Option<Moment>,
}

impl Replaced {
    pub fn new(grace: Duration) -> Self {
        let (hold, inherited) = (Hold::Not, true);
        Self { grace, hold, old: 0, inherited, served: 0, bound: true, anew: false, made_room: None }
    }

    /// Records that the configuration has changed.
    pub fn changes(&mut self) {
        self.anew = true;
    }

    /// Records whether the group has a binding.
    pub fn set_bound(&mut self, bound: bool) {
        self.bound = bound;
    }

    /// Restarts the grace period, because nothing could be registered until now.
    pub fn grace_anew(&mut self) {
        self.hold = self.hold.anew();
    }
}

impl Registrations {
    /// Decides which deregistrations are held. If the group `is_gone`, none is. Returns whether any is no longer held.
    pub fn hold(&mut self, is_gone: bool, now: Moment) -> bool {
        let (it, tally) = (&mut self.replaced, self.entries.tally());
        let held = self.entries.count(Queue::Held);
        if held == 0 {
            // If a pause begins during the hold, the hold remains until the pause ends.
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
        // A target whose pod ended counts as deregistered.
        let gone = it.old - held;
        self.let_go(tally.serving.saturating_sub(gone)) > 0
    }

    /// Stops holding at most this many deregistrations, the longest waiting first. Returns how many.
    pub(super) fn let_go(&mut self, most: usize) -> usize {
        let held = self.entries.waiting(Queue::Held);
        let targets: Vec<Target> = held.take(most).map(|(_, target)| *target).collect();
        for target in &targets {
            self.change(*target, Entry::let_go);
        }
        targets.len()
    }

    /// AWS accepts no more targets. If no new target is registered, some old ones are deregistered to make room.
    pub(super) fn make_room(&mut self, now: Moment) {
        let drains = self.replaced.made_room.is_some_and(|made| now.since(made) < DRAINING);
        if self.replaced.hold != Hold::Not && self.entries.tally().registered == 0 && !drains {
            self.replaced.made_room = Some(now);
            self.let_go(self.entries.count(Queue::Held).div_ceil(ROOM));
        }
    }

    /// The targets whose deregistration is held.
    pub fn held(&self) -> impl Iterator<Item = &Target> {
        self.entries.waiting(Queue::Held).map(|(_, target)| target)
    }

    /// The targets whose deregistration is held or may be, each with the pod for which it was registered.
    pub fn spare_their_pods(&self) -> impl Iterator<Item = (&Target, &Owner)> {
        let targets = self.entries.spare();
        targets.filter_map(|target| Some((target, self.entries.get(target)?.spared()?)))
    }

    /// When the hold ends at the latest, if that is known.
    pub fn held_until(&self) -> Option<Moment> {
        let tally = self.entries.tally();
        match self.replaced.hold {
            Hold::Counts(since) if tally.may_end() && self.entries.count(Queue::Held) > 0 => {
                Some(since + self.replaced.grace)
            }
            _ => None,
        }
    }

    /// The pod of a held target terminates or has lost its address. The deregistration is due immediately.
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
            // All targets are replaced: none of the wanted ones serves.
            (not, tally(2, 0, 0), true, 10, waits),
            // Some targets remain, or none will follow.
            (not, tally(2, 2, 1), true, 10, not),
            (not, tally(2, 1, 0), true, 10, not),
            (not, tally(0, 0, 0), true, 10, not),
            (not, tally(0, 0, 0), false, 10, not),
            // A target that cannot be registered replaces nothing, however long it takes.
            (waits, tally(2, 0, 0), true, 9_999, waits),
            (waits, tally(2, 0, 0), false, 10, waits),
            (waits, tally(2, 1, 0), true, 10, counts),
            (waits, tally(2, 1, 1), true, 10, counts),
            (waits, tally(2, 2, 2), true, 10, not),
            // The grace period runs and ends. A target that never serves replaces nothing.
            (counts, tally(2, 2, 1), true, 309, counts),
            (counts, tally(2, 0, 0), true, 309, counts),
            (counts, tally(2, 2, 1), true, 310, not),
            (counts, tally(2, 2, 0), true, 9_999, counts),
            (counts, tally(2, 2, 2), true, 11, not),
            // The pods of the new set end and others may follow, or the binding was deleted.
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
