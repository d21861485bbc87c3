//! The annotations that the webhook and the leader write on a pod about its eviction.
//!
//! A write that timed out may take effect later, and records of an earlier eviction may still exist. Each annotation
//! therefore contains a time, and Headgate ignores records that are older than the eviction. Because a clock may be set
//! back, an eviction begins after all left-over records ([`Annotations::left_over`]).

use std::time::Duration;

use crate::model::{cause::Cause, time::WallTime};

/// The annotation for a pod that should be evicted: the UID, and the times of the first and last request.
pub const LEAVING: &str = "headgate.dev/leaving";
/// The annotation for a waiting eviction: the UID, the time of the decision, and the reason.
pub const WAITS: &str = "headgate.dev/leaving-waits";
/// The annotation for an accepted deregistration: the UID, the time, and how long the load balancer may keep sending
/// requests.
pub const DEREGISTERED_AT: &str = "headgate.dev/deregistered-at";
/// The annotation for an allowed eviction: the UID, the time, and the reason.
pub const MAY_GO: &str = "headgate.dev/may-go";

/// The longest wait that Headgate accepts from a record. Any client with write access to pods could have written the
/// record.
pub const CREDIBLE: Duration = Duration::from_secs(3600);
/// How far the time of a record may be ahead of the local clock. Headgate never waits until a recorded time
/// ([`Written`](crate::model::Written)), so this limit can be larger than usual clock errors. Headgate therefore does
/// not repeatedly remove the records of a replica with a wrong clock.
pub const AHEAD: Duration = Duration::from_secs(24 * 3600);

/// The smallest difference between the times of two successive records.
pub const STEP: Duration = Duration::from_millis(1);

/// The annotations of this module.
pub const ALL: [&str; 4] = [LEAVING, WAITS, DEREGISTERED_AT, MAY_GO];

/// The record of a pod that should be evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Whether the hold is long enough. If the hold is long enough, Headgate checks only the zones and does not
    /// deregister the pod before its eviction.
    pub held: bool,
    /// Whether the record exists only because the node will be removed, without an eviction request.
    pub early: bool,
    /// Since when the pod should be evicted, with or without an eviction request.
    pub begun: WallTime,
    /// The time of the first request.
    pub since: WallTime,
    /// The time of the last request, accurate to `Limits::refresh`.
    pub asked: WallTime,
}

impl Asked {
    /// Creates the record of the first request.
    pub const fn first(now: WallTime) -> Self {
        Self { held: false, early: false, begun: now, since: now, asked: now }
    }

    /// Creates a record without an eviction request.
    pub const fn early(now: WallTime) -> Self {
        Self { early: true, ..Self::first(now) }
    }

    /// Moves the times of the record past the records of an earlier eviction, if the earlier times are plausible
    /// ([`AHEAD`]).
    #[must_use]
    pub fn after(mut self, left_over: Option<WallTime>, wall: WallTime) -> Self {
        if let Some(at) = left_over.filter(|at| *at <= wall + AHEAD) {
            self.begun = self.begun.max(at + STEP);
            self.since = self.since.max(self.begun);
            self.asked = self.asked.max(self.since);
        }
        self
    }
}

/// The valid annotations on a pod, which contain the pod's UID.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Annotations {
    /// The annotation [`LEAVING`].
    pub asked: Option<Asked>,
    /// The annotation [`WAITS`]: the time of the decision, and the reason.
    pub waits: Option<(WallTime, Cause)>,
    /// The annotation [`DEREGISTERED_AT`]: the time, and how long the load balancer may keep sending requests.
    pub deregistered: Option<(WallTime, Duration)>,
    /// The annotation [`MAY_GO`]: the time, and the reason.
    pub may_go: Option<(WallTime, Cause)>,
}

impl Annotations {
    /// Combines the annotations, or returns `None` if the pod should not be evicted.
    pub fn facts(&self) -> Option<LeavingFacts> {
        let ask = self.asked?;
        let waits = self.waits.filter(|(at, _)| *at >= ask.begun);
        let deregistered = self.deregistered.filter(|(at, _)| *at >= ask.begun);
        let out = deregistered.map_or(ask.begun, |(at, _)| at);
        let may_go = self.may_go.filter(|(at, _)| *at >= out).map(|(_, reason)| reason);
        Some(LeavingFacts { ask, waits, deregistered, may_go })
    }

    /// The time of the last record on a pod that should not be evicted. A record remains if its write takes effect
    /// after Headgate has undone the eviction.
    pub fn left_over(&self) -> Option<WallTime> {
        let Self { asked: None, waits, deregistered, may_go } = self else { return None };
        let explained = [waits, may_go].into_iter().flatten().map(|(at, _)| *at);
        explained.chain(deregistered.map(|(at, _)| at)).max()
    }

    /// Applies a record to the annotations.
    pub const fn write(&mut self, mark: Mark) {
        match mark {
            Mark::Asked(asked) => self.asked = Some(asked),
            Mark::Waits { at, reason } => self.waits = Some((at, reason)),
            Mark::Deregistered { at, bound } => self.deregistered = Some((at, bound)),
            Mark::MayGo { at, reason } => self.may_go = Some((at, reason)),
            Mark::Undone | Mark::Stays | Mark::Disbelieved => {
                *self = Self { asked: None, waits: None, deregistered: None, may_go: None };
            }
        }
    }
}

/// The records about a pod's eviction that contain the pod's UID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeavingFacts {
    /// The request. Records with a time before `begun` belong to an earlier eviction.
    pub ask: Asked,
    /// The time of the leader's last decision, and why the eviction waits.
    pub waits: Option<(WallTime, Cause)>,
    /// When AWS accepted the deregistration, and how long the load balancer may keep sending requests.
    pub deregistered: Option<(WallTime, Duration)>,
    /// Why the eviction is allowed.
    pub may_go: Option<Cause>,
}

impl LeavingFacts {
    /// A request without further records.
    pub const fn asked(since: WallTime, asked: WallTime) -> Self {
        let ask = Asked { asked, ..Asked::first(since) };
        Self { ask, waits: None, deregistered: None, may_go: None }
    }

    /// Returns the record of a repeated request. The record always has another time than the earlier record, even if
    /// the local clock was set back.
    pub fn again(&self, now: WallTime) -> Asked {
        Asked { asked: now.max(self.ask.asked + STEP), ..self.ask }
    }

    /// Returns the plausible records. Headgate ignores times far in the future and implausibly long propagation delays.
    #[must_use]
    pub fn credible(mut self, wall: WallTime) -> Option<Self> {
        let credible = |at: WallTime| at <= wall + AHEAD;
        if ![self.ask.begun, self.ask.since, self.ask.asked].into_iter().all(credible) {
            return None;
        }
        if self.deregistered.is_some_and(|(at, bound)| !credible(at) || bound > CREDIBLE) {
            (self.deregistered, self.may_go) = (None, None);
        }
        self.waits = self.waits.filter(|(at, _)| credible(*at));
        Some(self)
    }

    /// When AWS accepted the deregistration of all targets, if the record is plausible.
    pub fn out_at(&self, wall: WallTime) -> Option<WallTime> {
        Some(self.credible(wall)?.deregistered?.0)
    }

    /// Whether the pod is deregistered from its target groups and remains deregistered.
    pub const fn is_out(&self) -> bool {
        self.deregistered.is_some() || (self.may_go.is_some() && !self.was_let_go_by_zone())
    }

    /// Why the eviction is allowed, or `None` if it is not allowed. If the zones allow the eviction, the permission
    /// applies only while the hold is long enough for the request.
    pub const fn let_go(&self) -> Option<Cause> {
        if self.was_let_go_by_zone() && !self.ask.held { None } else { self.may_go }
    }

    const fn was_let_go_by_zone(&self) -> bool {
        matches!(self.may_go, Some(cause) if cause.is_of_zones())
    }

    /// Whether the pod already has this record.
    pub fn shows(&self, mark: Mark) -> bool {
        match mark {
            Mark::Deregistered { at, .. } => self.deregistered.is_some_and(|(written, _)| written >= at),
            Mark::MayGo { .. } => self.may_go.is_some(),
            Mark::Waits { at, .. } => self.waits.is_some_and(|(written, _)| written >= at),
            Mark::Asked(_) | Mark::Undone | Mark::Stays | Mark::Disbelieved => false,
        }
    }

    /// Returns the records with one more record, or `None` if the record removes all records.
    #[must_use]
    pub fn with(mut self, mark: Mark) -> Option<Self> {
        match mark {
            Mark::Asked(ask) => self.ask = ask,
            Mark::Waits { at, reason } => self.waits = Some((at, reason)),
            // An earlier permission does not apply to a new deregistration.
            Mark::Deregistered { at, bound } => (self.deregistered, self.may_go) = (Some((at, bound)), None),
            Mark::MayGo { reason, .. } => self.may_go = Some(reason),
            Mark::Undone | Mark::Stays | Mark::Disbelieved => return None,
        }
        Some(self)
    }
}

/// A record to write on a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// A record for [`LEAVING`].
    Asked(Asked),
    /// A record for [`WAITS`].
    Waits {
        /// The time of the decision.
        at: WallTime,
        /// Why the eviction waits.
        reason: Cause,
    },
    /// A record for [`DEREGISTERED_AT`].
    Deregistered {
        /// When AWS accepted the deregistration.
        at: WallTime,
        /// How long the load balancer may keep sending requests.
        bound: Duration,
    },
    /// A record for [`MAY_GO`].
    MayGo {
        /// The time of the permission.
        at: WallTime,
        /// Why the eviction is allowed.
        reason: Cause,
    },
    /// Removes all records, because the eviction is no longer requested.
    Undone,
    /// Removes all records, because the node remains.
    Stays,
    /// Removes all records, because the records are implausible.
    Disbelieved,
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUND: Duration = Duration::from_secs(120);

    fn at(seconds: u64) -> WallTime {
        WallTime::since_1970(Duration::from_secs(seconds))
    }

    fn written(marks: &[Mark]) -> Option<LeavingFacts> {
        let mut annotations = Annotations::default();
        for mark in marks {
            annotations.write(*mark);
        }
        annotations.facts()
    }

    #[test]
    fn what_is_older_than_the_leaving_or_than_the_last_removal_is_about_another_one() {
        let asked = |from| Mark::Asked(Asked::first(at(from)));
        let out = |when| Mark::Deregistered { at: at(when), bound: BOUND };
        let free = |when| Mark::MayGo { at: at(when), reason: Cause::EvictionAllowed };
        let facts = |marks: &[Mark]| written(marks).unwrap();
        assert_eq!(written(&[out(1), free(2)]), None, "nobody has asked");
        let all = facts(&[asked(1), out(1), free(121)]);
        assert_eq!((all.deregistered, all.let_go()), (Some((at(1), BOUND)), Some(Cause::EvictionAllowed)));
        assert_eq!(facts(&[out(1), free(121), asked(122)]), LeavingFacts::asked(at(122), at(122)));
        let again = facts(&[asked(1), out(1), free(121), out(122)]);
        assert_eq!((again.deregistered, again.let_go()), (Some((at(122), BOUND)), None));
        let late = facts(&[asked(1), Mark::Undone, asked(50), out(49)]);
        assert_eq!(late, LeavingFacts::asked(at(50), at(50)));
    }

    #[test]
    fn a_leaving_begins_after_what_is_left_over_of_an_earlier_one() {
        let waits = Mark::Waits { at: at(90), reason: Cause::EvictionWaitsForZone };
        let out = Mark::Deregistered { at: at(101), bound: BOUND };
        let free = Mark::MayGo { at: at(221), reason: Cause::EvictionAllowed };
        for (late, latest) in [(&[waits][..], 90), (&[waits, out], 101), (&[free, waits, out], 221)] {
            let mut annotations = Annotations::default();
            for mark in [&[Mark::Asked(Asked::first(at(80))), Mark::Undone], late].concat() {
                annotations.write(mark);
            }
            assert_eq!((annotations.facts(), annotations.left_over()), (None, Some(at(latest))));
            // The local clock is before, at or after the latest record.
            for wall in [at(50), at(latest), at(1000)] {
                let asked = Asked::first(wall).after(annotations.left_over(), wall);
                assert_eq!(asked, Asked::first(wall.max(at(latest) + STEP)));
                let mut annotations = annotations;
                annotations.write(Mark::Asked(asked));
                assert_eq!(annotations.facts(), Some(LeavingFacts::asked(asked.since, asked.since)));
                assert_eq!(annotations.left_over(), None, "somebody asks");
            }
        }
        let far = at(50) + AHEAD + STEP;
        assert_eq!(
            Asked::first(at(50)).after(Some(far), at(50)),
            Asked::first(at(50)),
            "that cannot be true"
        );
    }

    #[test]
    fn what_cannot_be_true_is_not_believed() {
        let now = at(1_800_000_000);
        let asked = LeavingFacts::asked(now, now);
        let day = now + AHEAD;
        let late = day + Duration::from_millis(1);
        assert_eq!(LeavingFacts::asked(day, day).credible(now), Some(LeavingFacts::asked(day, day)));
        for ask in [
            Asked { begun: late, ..asked.ask },
            Asked { since: late, ..asked.ask },
            Asked { asked: late, ..asked.ask },
        ] {
            let facts = LeavingFacts { ask, ..asked };
            assert_eq!(facts.credible(now), None, "{facts:?}");
        }
        let out = |at, bound| LeavingFacts {
            deregistered: Some((at, bound)),
            may_go: Some(Cause::EvictionAllowed),
            ..asked
        };
        assert_eq!(out(now, CREDIBLE).credible(now), Some(out(now, CREDIBLE)));
        assert_eq!(out(now, CREDIBLE + Duration::from_secs(1)).credible(now), Some(asked));
        assert_eq!(out(late, BOUND).credible(now), Some(asked));
        let waits = LeavingFacts { waits: Some((late, Cause::EvictionWaitsForZone)), ..asked };
        assert_eq!(waits.credible(now), Some(asked));
    }

    #[test]
    fn what_was_done_before_anybody_asked_counts_for_whoever_asks() {
        let early = Asked::early(at(1));
        let out = Mark::Deregistered { at: at(2), bound: BOUND };
        let asked = Asked { begun: early.begun, ..Asked::first(at(60)) };
        let facts = written(&[Mark::Asked(early), out, Mark::Asked(asked)]).unwrap();
        assert_eq!(
            (facts.ask.early, facts.ask.since, facts.deregistered),
            (false, at(60), Some((at(2), BOUND)))
        );
    }

    #[test]
    fn a_mark_shows_when_it_or_a_later_one_of_its_kind_is_written() {
        let asked = Mark::Asked(Asked::first(at(1)));
        let out = |when| Mark::Deregistered { at: at(when), bound: BOUND };
        let waits = |when| Mark::Waits { at: at(when), reason: Cause::EvictionWaitsForZone };
        let free = Mark::MayGo { at: at(9), reason: Cause::EvictionAllowed };
        let facts = written(&[asked, out(5), waits(6)]).unwrap();
        for (mark, is_shown) in [
            (out(4), true),
            (out(5), true),
            (out(6), false),
            (waits(5), true),
            (waits(6), true),
            (waits(7), false),
            (free, false),
            (asked, false),
            (Mark::Undone, false),
        ] {
            assert_eq!(facts.shows(mark), is_shown, "{mark:?}");
        }
        assert!(written(&[asked, out(5), free]).unwrap().shows(free));
    }
}
