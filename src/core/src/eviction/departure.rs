//! One pod that is asked to leave, and what the leader does about it next.

use std::{collections::BTreeSet, time::Duration};

use super::seen::Seen;
use crate::model::{
    Cause, LeavingFacts, Moment, RequestId, Target, TargetGroupArn, Uid, WallTime,
    eviction::Limits,
    leaving::{Mark, STEP},
};

/// A pod that has to wait is looked at again, and what has failed is tried again, after so long.
pub(super) const AGAIN: Duration = Duration::from_secs(2);
/// And so are its zones, which cost no request.
const ZONE_AGAIN: Duration = Duration::from_secs(1);
/// For so long a pod that nobody asks for any more counts as on its way out, if its node goes: then it is not put back.
const COUNTED: Duration = Duration::from_secs(15 * 60);
/// The watch shows what was written sooner than this. What it has not shown by then somebody has taken away.
pub(super) const SHOWN_WITHIN: Duration = Duration::from_secs(10);

/// A pod that the leader takes out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    pub(super) since: Moment,
    pub(super) targets: Vec<(TargetGroupArn, Target)>,
    /// For how long the load balancers may go on sending after that.
    pub(super) bound: Duration,
    /// When AWS had taken the removal of all.
    pub(super) taken: Option<Moment>,
}

#[derive(Clone, Debug)]
pub(super) struct Departure {
    pub(super) uid: Uid,
    pub(super) facts: LeavingFacts,
    /// Since when each of them is seen.
    pub(super) seen: Seen,
    /// Whether it cannot be true what is written on it.
    pub(super) disbelieved: bool,
    pub(super) decision: Option<Decision>,
    /// Since when AWS was seen to have a target of it again, until that is written.
    pub(super) back: Option<Moment>,
    pub(super) busy: Option<(RequestId, Option<Mark>)>,
    /// What was written and when, that the watch has not shown yet.
    pub(super) unseen: Vec<(Mark, Moment)>,
    /// Why it has to wait, to be written.
    pub(super) waits: Option<Cause>,
    /// Not before.
    pub(super) again: Moment,
    /// Since when the API server does not say what the budgets allow, and in which words.
    pub(super) failing: Option<(Moment, Box<str>)>,
    pub(super) told: BTreeSet<Cause>,
    /// The target groups out of which it was taken, or is to be: all that it could be in if it became ready, and those that
    /// still have it, or may, for what bound it before. As it was when it was looked at last.
    pub(super) groups: BTreeSet<TargetGroupArn>,
}

/// What else counts for the next step of a pod.
#[allow(clippy::struct_excessive_bools)] // each is an independent fact
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Whether its zones allow that it leaves, or why not.
    pub(super) zones: Result<Cause, Cause>,
    /// Whether it keeps itself alive for long enough, as far as is known here, whatever is noted of it.
    pub(super) has_hold: bool,
    /// Whether it is a target of a group that may be written to, or should be.
    pub(super) is_target: bool,
    /// For how long load balancers may still send to it for what AWS was last seen to have taken.
    pub(super) lingers: Duration,
    /// Whether AWS may have a target of the pod, although its removal was written down.
    pub(super) is_back: bool,
    /// Whether AWS has taken the removal of all that was decided.
    pub(super) is_gone: bool,
    /// Whether something may yet turn out to bind it: a target group is still looked up.
    pub(super) is_unknown: bool,
    /// Whether its node goes, or takes no pods: nobody has thought better of it.
    pub(super) node_goes: bool,
    /// Whether its node is known to stay: what was done early is undone.
    pub(super) node_stays: bool,
    pub(super) now: Moment,
    /// For what is written down.
    pub(super) wall: WallTime,
}

/// What is to be done about a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing before then.
    Wait(Option<Moment>),
    Check,
    Mark(Mark),
}

impl Departure {
    /// Asked to leave. A request may be under way since it was seen to leave before.
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

    /// Whether AWS has taken its removal.
    pub(super) fn was_taken_out(&self) -> bool {
        let taken = self.decision.as_ref().is_some_and(|decision| decision.taken.is_some());
        taken || self.facts.deregistered.is_some()
    }

    /// Whether nothing was done yet so that it may leave: neither was it taken out nor let go.
    pub(super) fn asks_zones(&self) -> bool {
        self.decision.is_none() && self.facts.deregistered.is_none() && self.facts.let_go().is_none()
    }

    /// Whether it is still to be decided that it is taken out.
    pub(super) const fn is_undecided(&self) -> bool {
        !self.facts.ask.held && self.decision.is_none() && self.facts.deregistered.is_none()
    }

    /// The watch shows this.
    pub(super) fn sees(&mut self, written: LeavingFacts, now: Moment, wall: WallTime) {
        let credible = written.credible(wall);
        let was_disbelieved = std::mem::replace(&mut self.disbelieved, credible != Some(written));
        let mut bare = LeavingFacts::asked(wall, wall);
        bare.ask.held = written.ask.held;
        let facts = credible.unwrap_or(bare);
        if self.facts.ask.early && !facts.ask.early {
            // Whoever asks now waits from now on.
            let since = |it: &mut Moment| *it = now;
            self.decision.iter_mut().for_each(|decision| since(&mut decision.since));
            self.failing.iter_mut().for_each(|(failing, _)| since(failing));
            self.back.iter_mut().for_each(since);
        }
        self.unseen.retain(|(mark, at)| !written.shows(*mark) && now.since(*at) < SHOWN_WITHIN);
        // An older state of the pod takes nothing of that back.
        let facts = self.unseen.iter().fold(facts, |facts, (mark, _)| facts.with(*mark).unwrap_or(facts));
        let is_another = self.facts.ask.begun != facts.ask.begun;
        // What AWS had of it again before that was removed, or will be, for that.
        self.back.take_if(|_| is_another);
        let known = self.facts.deregistered.filter(|_| !is_another);
        if known.zip(facts.deregistered).is_some_and(|((known, _), (shown, _))| shown < known) {
            // A write that was given up has landed after all, and says less than is known: it is written once more.
            self.back.get_or_insert(now);
        }
        self.facts = facts;
        if was_disbelieved && !self.disbelieved {
            // What stood in for it says nothing of what is written now.
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
        // For one that leaves early nobody asks again and again.
        let given_up_after =
            if self.is_asked() { limits.given_up_after } else { limits.given_up_after.max(COUNTED) };
        let given_up = self.seen.asked().ends(given_up_after);
        if case.now >= given_up && !case.node_goes {
            return Next::Mark(Mark::Undone);
        }
        // A node that goes may come back.
        let undo = if case.now >= given_up { case.now + limits.refresh() } else { given_up };
        // Whoever noted that it is to leave, or was taken out, may have a clock that is ahead.
        let noted = self.facts.deregistered.map_or(self.facts.ask.begun, |(at, _)| at);
        let wall = case.wall.max(noted);
        let go = |reason| Next::Mark(Mark::MayGo { at: wall, reason });
        if self.facts.let_go().is_some() {
            return Next::Wait(Some(undo));
        }
        if let (Some((_, bound)), Some(since)) = (self.facts.deregistered, self.back) {
            let late = since + limits.patience;
            return match case.is_back {
                // The same word once more would not count from now.
                false => {
                    Next::Mark(Mark::Deregistered { at: wall.max(noted + Duration::from_secs(1)), bound })
                }
                true if case.now >= late && self.is_asked() => go(Cause::DeregistrationTooSlow),
                true => Next::Wait(Some(late.max(case.now + AGAIN))),
            };
        }
        if let Some(over) = self.seen.over(&self.facts) {
            // A removal that was sent again by a leader before counts, too, though nobody has written that on the pod.
            let over = over.max(case.now + case.lingers);
            return if case.now >= over {
                go(Cause::EvictionAllowed)
            } else {
                Next::Wait(Some(undo.min(over)))
            };
        }
        if let Some(decision) = &self.decision {
            if let Some(taken) = decision.taken {
                // By the clock as it is now: it may have been set since.
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
            // Whoever is asked next notes that.
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

    /// That it waits: another word than the one before, or nobody would see it anew.
    fn still_waits(&self, wall: WallTime, reason: Cause) -> Mark {
        let after = self.facts.waits.map_or(wall, |(at, _)| at + STEP);
        Mark::Waits { at: wall.max(after), reason }
    }

    /// Whether it is to be noted again that it waits.
    pub(super) fn is_old(&self, now: Moment, limits: &Limits) -> bool {
        self.seen.waits().is_none_or(|waits| waits.ago(now) >= limits.refresh())
    }

    /// Whether somebody waits for it. Nothing that is done early is done badly for being late.
    pub(super) const fn is_asked(&self) -> bool {
        !self.facts.ask.early
    }

    /// This is written on the pod, though the watch may not say so yet; it was decided at `begun`.
    pub(super) fn written(&mut self, mark: Mark, begun: Moment, now: Moment) {
        (self.busy, self.waits) = (None, None);
        let is_out = matches!(mark, Mark::Deregistered { .. });
        // What was on its way when AWS had it again says nothing about that.
        self.back.take_if(|back| is_out && begun >= *back);
        let taken = self.decision.as_ref().filter(|_| self.facts.deregistered.is_none());
        let taken = taken.and_then(|decision| decision.taken).unwrap_or(begun);
        // That it is undone is known when the watch says so as well.
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

    /// Whether it counts as on its way out: not if it has been given up.
    pub(super) fn departs(&self, limits: &Limits, now: Moment) -> bool {
        let is_let_go =
            matches!(self.busy, Some((_, Some(Mark::MayGo { .. })))) || self.facts.let_go().is_some();
        (self.is_out() || is_let_go)
            && (self.facts.ask.early || self.seen.asked().ago(now) < limits.given_up_after.max(COUNTED))
    }
}
