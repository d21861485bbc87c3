//! The reads of one target group, and the effect of a read on the state of a target.
//!
//! A read shows the targets of a moment that lies at most [`Delays::stale`] before its beginning. It counts for a target
//! only if it cannot show the time before the last change.

use std::{collections::BTreeMap, time::Duration};

use super::state::{Draining, Past, State, Way};
use crate::{
    ledger::PodMark,
    model::{HealthState, Moment, Target, claims::Delays},
};

/// What the reads of a target group have shown.
#[derive(Clone, Debug)]
pub struct Reads {
    stale: Duration,
    /// The result of the last read.
    last: Option<BTreeMap<Target, HealthState>>,
    /// Whether the last read has failed.
    has_failed: bool,
    /// When the first read of this term began, and when the last one did.
    first: Option<Moment>,
    began: Option<Moment>,
    /// The targets without a claim, and when the last read began that showed each. Kept while reads may be stale.
    others: BTreeMap<Target, Moment>,
}

impl Reads {
    pub(super) const fn new(delays: Delays) -> Self {
        Self {
            stale: delays.stale,
            last: None,
            has_failed: false,
            first: None,
            began: None,
            others: BTreeMap::new(),
        }
    }

    /// The health of the target in the last read, even if that read does not count for its pod.
    pub fn health(&self, target: &Target) -> Option<HealthState> {
        self.last.as_ref()?.get(target).copied()
    }

    /// Whether the last read shows that AWS does not have the target.
    pub(super) fn is_missing(&self, target: &Target) -> bool {
        self.last.is_some() && !is_there(self.health(target))
    }

    /// When the last successful read began.
    pub const fn began(&self) -> Option<Moment> {
        self.began
    }

    /// Whether the last read has failed.
    pub const fn is_unreadable(&self) -> bool {
        self.has_failed
    }

    /// Records a failed read.
    pub const fn fail(&mut self) {
        self.has_failed = true;
    }

    /// What AWS had at a target for which there is no state.
    pub(super) fn past(&self, target: &Target, now: Moment) -> Past {
        let is_over = |began: &Moment| now > *began + self.stale;
        let (Some(first), Some(last)) = (&self.first, &self.last) else { return Past::Kept };
        if last.contains_key(target) {
            Past::Kept
        } else if is_over(first) && self.others.get(target).is_none_or(is_over) {
            Past::Nothing
        } else {
            Past::Left
        }
    }

    /// When the first read of this term began, and the last read that showed this target while it had no state.
    pub fn times(&self, target: &Target) -> (Option<Moment>, Option<Moment>) {
        (self.first, self.others.get(target).copied())
    }

    /// Records a read that began at `began`. `has_state`: whether a target has a state.
    pub(super) fn note(
        &mut self,
        began: Moment,
        shown: BTreeMap<Target, HealthState>,
        has_state: impl Fn(&Target) -> bool,
    ) {
        self.has_failed = false;
        self.first.get_or_insert(began);
        self.began = Some(began);
        self.others.retain(|_, last| began <= *last + self.stale);
        let others = shown.keys().filter(|target| !has_state(target));
        self.others.extend(others.map(|target| (*target, began)));
        self.last = Some(shown);
    }
}

/// Whether AWS has a target of this health.
fn is_there(health: Option<HealthState>) -> bool {
    health.is_some_and(|health| health != HealthState::Draining)
}

/// What a read shows of one target. `bound` of the delays is that of the target.
pub(super) struct Read {
    pub(super) began: Moment,
    pub(super) now: Moment,
    pub(super) health: Option<HealthState>,
    pub(super) delays: Delays,
}

/// The state after a read (`None`: the target is absent), and whether somebody else has registered the target again.
pub(super) struct After {
    pub(super) state: Option<State>,
    pub(super) is_foreign: bool,
}

impl Read {
    fn counts_for(&self, changed: Moment) -> bool {
        self.began > changed + self.delays.stale
    }

    /// The effect of the read on a target in this state. `wanted`: the pod that should have the target.
    pub(super) fn changes(&self, state: &State, wanted: Option<PodMark>) -> After {
        let after = |state| After { state: Some(state), is_foreign: false };
        match *state {
            State::Absent { since } => {
                After { state: Some(*state).filter(|_| self.began <= since), is_foreign: false }
            }
            State::Registered { .. } => after(self.of_registered(state)),
            State::Draining(draining) => self.of_draining(draining),
            State::Unsettled { .. } => after(self.of_unsettled(state, wanted)),
            _ => after(*state),
        }
    }

    fn gone(&self, pod: PodMark) -> State {
        State::Draining(Draining::since(pod, self.now))
    }

    fn of_registered(&self, state: &State) -> State {
        let State::Registered { pod, since, past, late, .. } = *state else { return *state };
        let is_healthy = self.health == Some(HealthState::Healthy);
        let counts_after = if past == Past::Nothing { Duration::ZERO } else { self.delays.stale };
        if self.counts_for(since) && !is_there(self.health) {
            late.map_or(self.gone(pod), |late| State::registering(pod, late, Past::Kept))
        } else if self.began > since + counts_after {
            let settles = past == Past::Kept && !is_healthy;
            let is_proven = past != Past::Kept || self.counts_for(since + self.delays.notice);
            State::Registered {
                pod,
                // A later read may show an earlier time, so `since` restarts now.
                since: if settles { self.now } else { since },
                health: self.health.filter(|_| !is_healthy || is_proven),
                past: if settles || (past == Past::Kept && is_proven) { Past::Left } else { past },
                late,
            }
        } else {
            *state
        }
    }

    fn of_draining(&self, mut draining: Draining) -> After {
        let is_late = |accepted| self.began >= accepted + self.delays.bound && self.counts_for(accepted);
        let is_late = draining.accepted.is_some_and(is_late);
        let is_there = is_there(self.health);
        if draining.by_absence
            && is_there
            && draining.accepted.is_some_and(|accepted| self.counts_for(accepted))
        {
            return After { state: Some(State::unsettled(draining.pod, self.now)), is_foreign: false };
        }
        let is_foreign = is_late && is_there && !draining.looked;
        draining.looked |= is_late;
        After { state: Some(State::Draining(draining)), is_foreign }
    }

    fn of_unsettled(&self, state: &State, wanted: Option<PodMark>) -> State {
        let State::Unsettled { pod, until, from, call: None, early, gave_up, adds } = *state else {
            return *state;
        };
        let is_there = is_there(self.health);
        if self.now < until {
            // The early deregistration had no effect or was undone, so it may be sent again.
            let is_undone = matches!(early, Some((Way::Out, sent)) if is_there && self.counts_for(sent));
            let early = early.filter(|_| !is_undone);
            return State::Unsettled { pod, until, from, call: None, early, gave_up, adds };
        }
        if !self.counts_for(from) {
            *state
        } else if !is_there {
            self.gone(pod)
        } else if wanted == Some(pod) {
            let is_healthy = self.health == Some(HealthState::Healthy);
            let (since, past) = if is_healthy { (from, Past::Kept) } else { (self.now, Past::Left) };
            State::Registered { pod, since, health: None, past, late: None }
        } else {
            *state
        }
    }
}
