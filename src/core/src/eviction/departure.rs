//! A pod that should be evicted, and the leader's next step for the pod.

use std::{collections::BTreeSet, time::Duration};

use super::seen::Seen;
use crate::model::{
    Cause, LeavingFacts, Moment, RequestId, Target, TargetGroupArn, Uid, WallTime,
    eviction::Limits,
    leaving::{Mark, STEP},
};

/// The interval between two checks of a waiting pod, and the delay before a failed request is repeated.
pub(super) const AGAIN: Duration = Duration::from_secs(2);
/// The interval between two checks of the zones of a waiting pod. A check of the zones sends no request.
const ZONE_AGAIN: Duration = Duration::from_secs(1);
/// The minimum time before a pod that was deregistered early without an eviction request is registered again. An
/// eviction also counts as in progress for at least this time after the last request.
const COUNTED: Duration = Duration::from_secs(15 * 60);
/// The time within which the watch shows a write. If the watch does not show the write in time, another program has
/// removed the annotation.
pub(super) const SHOWN_WITHIN: Duration = Duration::from_secs(10);

/// The leader's decision to deregister a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    pub(super) since: Moment,
    pub(super) targets: Vec<(TargetGroupArn, Target)>,
    /// How long the load balancers may keep sending after the deregistration.
    pub(super) bound: Duration,
    /// The time at which AWS had accepted all deregistrations.
    pub(super) taken: Option<Moment>,
}

#[derive(Clone, Debug)]
pub(super) struct Departure {
    pub(super) uid: Uid,
    pub(super) facts: LeavingFacts,
    /// The times at which this replica first saw each annotation.
    pub(super) seen: Seen,
    /// Whether the annotations on the pod are implausible.
    pub(super) disbelieved: bool,
    pub(super) decision: Option<Decision>,
    /// The time at which AWS was first seen to list a deregistered target of the pod again. A newly recorded
    /// deregistration resets the time.
    pub(super) back: Option<Moment>,
    pub(super) busy: Option<(RequestId, Option<Mark>)>,
    /// The annotations that were written but that the watch has not shown yet, each with the time of the write.
    pub(super) unseen: Vec<(Mark, Moment)>,
    /// Why the eviction must wait. The reason is not written to the pod yet.
    pub(super) waits: Option<Cause>,
    /// The earliest time of the next step.
    pub(super) again: Moment,
    /// The time at which the API server began to fail to report the budgets, and its error message.
    pub(super) failing: Option<(Moment, Box<str>)>,
    pub(super) told: BTreeSet<Cause>,
    /// The target groups whose events affect the pod, according to its last check. The pod was, is or may become a
    /// target of each of these groups.
    pub(super) groups: BTreeSet<TargetGroupArn>,
}

/// The other facts that determine the next step for a pod.
#[allow(clippy::struct_excessive_bools)] // Each field is an independent fact.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Whether the zones of the pod allow its eviction, with the reason.
    pub(super) zones: Result<Cause, Cause>,
    /// Whether the pod's hold is long enough, as far as this replica knows. The annotation on the pod does not affect
    /// the value.
    pub(super) has_hold: bool,
    /// Whether the pod is or should be a target of a group that Headgate may write to.
    pub(super) is_target: bool,
    /// How long load balancers may still send to the pod after the deregistrations that AWS has accepted.
    pub(super) lingers: Duration,
    /// Whether AWS may list a target of the pod although the deregistration was recorded.
    pub(super) is_back: bool,
    /// Whether AWS has accepted all deregistrations of the decision.
    pub(super) is_gone: bool,
    /// Whether a binding may still apply to the pod, because Headgate is still looking up the binding's target group.
    pub(super) is_unknown: bool,
    /// Whether the pod's node will be removed or is cordoned.
    pub(super) node_goes: bool,
    /// Whether the pod's node is known to remain. Headgate then undoes early deregistrations.
    pub(super) node_stays: bool,
    pub(super) now: Moment,
    /// The wall-clock time for new annotations.
    pub(super) wall: WallTime,
}

/// The next step for a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Wait until this time. `None`: wait for the next event.
    Wait(Option<Moment>),
    Check,
    Mark(Mark),
}

impl Departure {
    /// Creates the state of a pod that should be evicted. `busy`: a request in flight from an earlier eviction of the
    /// pod.
    pub(super) fn new(
        uid: Uid,
        facts: LeavingFacts,
        now: Moment,
        busy: Option<(RequestId, Option<Mark>)>,
    ) -> Self {
        Self {
            uid,
            facts,
            seen: Seen::first(&facts, now),
            disbelieved: false,
            decision: None,
            back: None,
            busy,
            unseen: Vec::new(),
            waits: None,
            again: Moment::START,
            failing: None,
            told: BTreeSet::new(),
            groups: BTreeSet::new(),
        }
    }

    pub(super) const fn is_out(&self) -> bool {
        self.decision.is_some() || self.facts.is_out()
    }

    /// Whether AWS has accepted the deregistration of the pod.
    pub(super) fn was_taken_out(&self) -> bool {
        let taken = self.decision.as_ref().is_some_and(|decision| decision.taken.is_some());
        taken || self.facts.deregistered.is_some()
    }

    /// Whether the zones of the pod still decide about the eviction: the pod is neither deregistered nor allowed to
    /// terminate.
    pub(super) fn asks_zones(&self) -> bool {
        self.decision.is_none() && self.facts.deregistered.is_none() && self.facts.let_go().is_none()
    }

    /// Whether the leader has not yet decided to deregister the pod.
    pub(super) const fn is_undecided(&self) -> bool {
        !self.facts.ask.held && self.decision.is_none() && self.facts.deregistered.is_none()
    }

    /// Records the annotations that the watch shows.
    pub(super) fn sees(&mut self, written: LeavingFacts, now: Moment, wall: WallTime) {
        let credible = written.credible(wall);
        let was_disbelieved = std::mem::replace(&mut self.disbelieved, credible != Some(written));
        let mut bare = LeavingFacts::asked(wall, wall);
        bare.ask.held = written.ask.held;
        let facts = credible.unwrap_or(bare);
        if self.facts.ask.early && !facts.ask.early {
            // The first eviction request restarts the timeouts.
            let since = |it: &mut Moment| *it = now;
            self.decision.iter_mut().for_each(|decision| since(&mut decision.since));
            self.failing.iter_mut().for_each(|(failing, _)| since(failing));
            self.back.iter_mut().for_each(since);
        }
        self.unseen.retain(|(mark, at)| !written.shows(*mark) && now.since(*at) < SHOWN_WITHIN);
        // An older state of the pod must not undo writes that the watch has not shown yet.
        let facts = self.unseen.iter().fold(facts, |facts, (mark, _)| facts.with(*mark).unwrap_or(facts));
        let is_another = self.facts.ask.begun != facts.ask.begun;
        // The deregistration in the earlier eviction already covers the target.
        self.back.take_if(|_| is_another);
        let known = self.facts.deregistered.filter(|_| !is_another);
        if known.zip(facts.deregistered).is_some_and(|((known, _), (shown, _))| shown < known) {
            // A timed-out write took effect late and replaced a newer annotation. The leader must write the newer
            // annotation again.
            self.back.get_or_insert(now);
        }
        self.facts = facts;
        if was_disbelieved && !self.disbelieved {
            // The times of the substitute for implausible annotations do not apply to the new annotations.
            self.seen = Seen::first(&facts, now);
        }
        self.seen.follow(&facts, now);
    }

    pub(super) fn next(&self, case: &Case, limits: &Limits) -> Next {
        if self.busy.is_some() {
            return Next::Wait(None);
        }
        if self.again > case.now {
            return Next::Wait(Some(self.again));
        }
        if self.disbelieved {
            return Next::Mark(Mark::Disbelieved);
        }
        if self.facts.ask.early && case.node_stays {
            return Next::Mark(Mark::Stays);
        }
        // No client repeats the request for a pod that is deregistered early.
        let given_up_after =
            if self.is_asked() { limits.given_up_after } else { limits.given_up_after.max(COUNTED) };
        let given_up = self.seen.asked().ends(given_up_after);
        if case.now >= given_up && !case.node_goes {
            return Next::Mark(Mark::Undone);
        }
        // Check again later, because the node may remain after all.
        let undo = if case.now >= given_up { case.now + limits.refresh() } else { given_up };
        // The clock of the replica that wrote the earlier annotation may be ahead.
        let noted = self.facts.deregistered.map_or(self.facts.ask.begun, |(at, _)| at);
        let wall = case.wall.max(noted);
        let go = |reason| Next::Mark(Mark::MayGo { at: wall, reason });
        if self.facts.let_go().is_some() {
            return Next::Wait(Some(undo));
        }
        if let (Some((_, bound)), Some(since)) = (self.facts.deregistered, self.back) {
            let late = since + limits.patience;
            return match case.is_back {
                // Use a later time, because an identical annotation would not restart the wait.
                false => {
                    Next::Mark(Mark::Deregistered { at: wall.max(noted + Duration::from_secs(1)), bound })
                }
                true if case.now >= late && self.is_asked() => go(Cause::DeregistrationTooSlow),
                true => Next::Wait(Some(late.max(case.now + AGAIN))),
            };
        }
        if let Some(over) = self.seen.over(&self.facts) {
            // Also wait for deregistrations that an earlier leader repeated without an annotation on the pod.
            let over = over.max(case.now + case.lingers);
            return if case.now >= over {
                go(Cause::EvictionAllowed)
            } else {
                Next::Wait(Some(undo.min(over)))
            };
        }
        if let Some(decision) = &self.decision {
            if let Some(taken) = decision.taken {
                // Calculate the time from the current wall clock, which may have been adjusted since.
                let at = (case.wall - case.now.since(taken)).max(self.facts.ask.begun);
                return Next::Mark(Mark::Deregistered { at, bound: decision.bound });
            }
            let late = decision.since + limits.patience;
            return if case.now >= late && self.is_asked() {
                go(Cause::DeregistrationTooSlow)
            } else {
                Next::Wait(Some(late.max(case.now + AGAIN)))
            };
        }
        if !case.is_target {
            return go(Cause::NotATarget);
        }
        if case.is_unknown && self.seen.waited(case.now) < limits.patience {
            return Next::Wait(Some(case.now + ZONE_AGAIN));
        }
        let waits = |cause| match self.facts.waits {
            Some((_, said)) if said == cause && !self.is_old(case.now, limits) => {
                Next::Wait(Some(case.now + ZONE_AGAIN))
            }
            _ => Next::Mark(self.still_waits(wall, cause)),
        };
        match case.zones {
            Err(why) => return waits(why),
            Ok(why) if self.facts.ask.held => return go(why),
            Ok(_) => {}
        }
        if case.has_hold {
            // The replica that answers the next request records the hold.
            return Next::Wait(Some(undo));
        }
        let fails_since = self.failing.as_ref().filter(|_| self.is_asked()).map(|(since, _)| *since);
        if fails_since.is_some_and(|since| case.now.since(since) >= limits.patience) {
            return go(Cause::EvictionUncheckable);
        }
        if let Some(cause) = self.waits {
            return Next::Mark(self.still_waits(wall, cause));
        }
        Next::Check
    }

    /// The annotation which states that the eviction waits. The time in the annotation is later than in the previous
    /// annotation, so that replicas detect the write.
    fn still_waits(&self, wall: WallTime, reason: Cause) -> Mark {
        let after = self.facts.waits.map_or(wall, |(at, _)| at + STEP);
        Mark::Waits { at: wall.max(after), reason }
    }

    /// Whether the leader must refresh the annotation which states that the eviction waits.
    pub(super) fn is_old(&self, now: Moment, limits: &Limits) -> bool {
        self.seen.waits().is_none_or(|waits| waits.ago(now) >= limits.refresh())
    }

    /// Whether a client has requested the eviction. The timeouts do not apply to early deregistrations.
    pub(super) const fn is_asked(&self) -> bool {
        !self.facts.ask.early
    }

    /// Records a successful write that started at `begun`, even if the watch does not show the write yet.
    pub(super) fn written(&mut self, mark: Mark, begun: Moment, now: Moment) {
        (self.busy, self.waits) = (None, None);
        let is_out = matches!(mark, Mark::Deregistered { .. });
        // A deregistration that was recorded before AWS listed the target again does not cover the target.
        self.back.take_if(|back| is_out && begun >= *back);
        let taken = self.decision.as_ref().filter(|_| self.facts.deregistered.is_none());
        let taken = taken.and_then(|decision| decision.taken).unwrap_or(begun);
        // The removal of all annotations takes effect when the watch shows the removal.
        self.facts = self.facts.with(mark).unwrap_or(self.facts);
        self.seen.follow(&self.facts, now);
        if is_out {
            self.seen.was_deregistered(taken);
        }
        if matches!(mark, Mark::Waits { .. } | Mark::Deregistered { .. } | Mark::MayGo { .. }) {
            self.unseen.push((mark, now));
        }
        let asks_again = matches!(
            mark,
            Mark::Waits { reason, .. } if reason.is_of_budgets()
        );
        if asks_again || matches!(mark, Mark::Undone | Mark::Stays | Mark::Disbelieved) {
            self.again = now + AGAIN;
        }
    }

    /// Whether the eviction of the pod counts as in progress. An abandoned eviction no longer counts.
    pub(super) fn departs(&self, limits: &Limits, now: Moment) -> bool {
        let is_let_go =
            matches!(self.busy, Some((_, Some(Mark::MayGo { .. })))) || self.facts.let_go().is_some();
        (self.is_out() || is_let_go)
            && (self.facts.ask.early || self.seen.asked().ago(now) < limits.given_up_after.max(COUNTED))
    }
}
