//! The targets of one target group during one term of a leader, tracked by claims.
//!
//! One question decides almost everything: may a load balancer still send to this address for this pod? A *claim*
//! answers it. The ledger of the group contains the claim from before the first RegisterTargets until the load balancer
//! has stopped sending.
//!
//! * **I1**: if AWS may send to a target for a pod, the ledger has that claim.
//! * **I2**: if a call of Headgate may still take effect on a target, the ledger has a claim on that target.
//!
//! Therefore nothing from an earlier term can affect a target that the ledger does not name.
//!
//! ```text
//!  want ─────► Targets ─────► due: calls, ledger requests, when to check again
//!  answers ──►    │
//!  reads ────►    ├── state.rs   the state of one target, and the effect of a call on it
//!                 ├── reads.rs   what reads have shown, and the effect of a read on a target
//!                 └── ledger.rs  what this term has written, one write at a time
//! ```
//!
//! * **Owns** the state of each target that has a claim, and the desired content of the ledger.
//! * **Assumes** that a call takes effect within [`Delays::late`] after Headgate sends it or gives it up, and that the
//!   data of a read is at most [`Delays::stale`] old when the read begins. A process that is paused between the check
//!   that it leads and its call breaks the first assumption. The late target then counts as foreign: Headgate reports
//!   it and does not remove it.
//! * **Never** sends two calls for one target at a time, with one exception: a deregistration does not wait for a
//!   registration in flight.

mod ledger;
mod reads;
mod state;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

pub use self::{
    ledger::LedgerWriter,
    reads::Reads,
    state::{Draining, Past, State, Way},
};
use self::{ledger::Loaded, reads::Read};
pub use crate::model::claims::{
    Claim, Claims, Content, Delays, Outcome, Packed, Request, Unreadable, Wanted,
};
use crate::{
    ledger::{LedgerVersion, PodMark},
    model::{HealthState, Moment, RequestId, Target, Uid},
};

/// A placeholder pod for the claims on foreign targets that Headgate will deregister.
pub fn nobody() -> PodMark {
    PodMark::of(&Uid::new(""))
}

/// See the module docs.
#[derive(Clone, Debug)]
pub struct Targets {
    delays: Delays,
    ledger: LedgerWriter,
    wanted: BTreeMap<Target, Wanted>,
    states: BTreeMap<Target, State>,
    /// The object that binds, or bound, the pod of each target.
    bindings: BTreeMap<Target, Arc<str>>,
    /// The propagation delay of each target that does not have the default.
    bounds: BTreeMap<Target, Duration>,
    /// The foreign targets that will be deregistered.
    expelled: BTreeSet<Target>,
    reads: Reads,
}

impl Targets {
    /// The targets on a replica that does not lead. Such a replica tracks only which targets are wanted.
    pub const fn new(delays: Delays) -> Self {
        Self {
            delays,
            ledger: LedgerWriter::new(0),
            wanted: BTreeMap::new(),
            states: BTreeMap::new(),
            bindings: BTreeMap::new(),
            bounds: BTreeMap::new(),
            expelled: BTreeSet::new(),
            reads: Reads::new(delays),
        }
    }

    /// Begins a term with this number. [`Self::found`] gets the ledger of the group next.
    pub fn begin(&mut self, term: u64) {
        self.ledger = LedgerWriter::new(term);
        (self.states, self.expelled) = (BTreeMap::new(), BTreeSet::new());
    }

    /// Sets which pod should have this target.
    pub fn want(&mut self, target: Target, wanted: Option<Wanted>) {
        match wanted {
            Some(wanted) => {
                if self.states.get(&target).and_then(State::pod) == Some(wanted.pod) {
                    self.bindings.insert(target, wanted.binding.clone());
                }
                self.wanted.insert(target, wanted);
            }
            None => _ = self.wanted.remove(&target),
        }
    }

    /// Sets the propagation delay of this target. `None`: the default.
    pub fn set_bound(&mut self, target: Target, bound: Option<Duration>) {
        match bound {
            Some(bound) => _ = self.bounds.insert(target, bound),
            None => _ = self.bounds.remove(&target),
        }
    }

    fn bound(&self, target: &Target) -> Duration {
        self.bounds.get(target).copied().unwrap_or(self.delays.bound)
    }

    /// Marks a foreign target for deregistration. It gets a claim for [`nobody`], so that the ledger covers a late call
    /// about it.
    pub fn expel(&mut self, target: Target) {
        if self.states.get(&target).is_none_or(|state| state.pod().is_none()) && self.expelled.insert(target)
        {
            self.states.insert(target, State::Claiming { pod: nobody(), before: None, past: Past::Kept });
        }
    }

    /// Keeps a foreign target registered, if its deregistration was not sent.
    pub fn spare(&mut self, target: &Target) {
        self.expelled.remove(target);
    }

    /// AWS reports that the group does not exist. Load balancers then send to none of the unwanted targets. The report
    /// may be wrong.
    pub fn group_is_gone(&mut self, now: Moment) {
        self.states.retain(|_, state| !matches!(state, State::Absent { .. }));
        let wanted = &self.wanted;
        for (_, state) in self.states.iter_mut().filter(|(target, _)| !wanted.contains_key(target)) {
            match *state {
                State::Unsettled { until, .. } if until > now => {}
                State::Registered { pod, .. } | State::Unsettled { pod, call: None, .. } => {
                    *state = State::Draining(Draining::without_group(pod, now));
                }
                _ => {}
            }
        }
    }

    /// The object that binds, or bound, the pod of a claim.
    pub fn binding(&self, target: &Target) -> Option<&Arc<str>> {
        self.bindings.get(target)
    }

    /// The health of this target for this pod in the last read that counts.
    pub fn health(&self, target: &Target, pod: PodMark) -> Option<HealthState> {
        match self.states.get(target) {
            Some(State::Registered { pod: of, health, .. }) if *of == pod => *health,
            _ => None,
        }
    }

    /// Takes over the claims of the ledger. Calls about them may take effect until `settled`.
    fn inherit(&mut self, claims: Claims, settled: Moment) {
        for (target, Claim { pod, binding }) in claims {
            self.states.insert(target, State::unsettled(pod, settled));
            self.bindings.extend(binding.map(|binding| (target, binding)));
        }
    }

    /// The state of a target. `None`: it is absent, and a read has confirmed that.
    pub fn state(&self, target: &Target) -> Option<&State> {
        self.states.get(target)
    }

    /// All targets that are not absent, and absent targets that a read has not yet confirmed.
    pub fn states(&self) -> impl Iterator<Item = (&Target, &State)> {
        self.states.iter()
    }

    /// The ledger that this term writes.
    pub const fn ledger(&self) -> &LedgerWriter {
        &self.ledger
    }

    /// The ledger, to report what happened to it.
    pub const fn ledger_mut(&mut self) -> &mut LedgerWriter {
        &mut self.ledger
    }

    /// What reads of the group have shown.
    pub const fn reads(&self) -> &Reads {
        &self.reads
    }

    /// What reads of the group have shown, to report a failed read.
    pub const fn reads_mut(&mut self) -> &mut Reads {
        &mut self.reads
    }

    /// Whether no call of this term or the one before can still take effect. A successor may then act immediately.
    pub fn is_settled(&self) -> bool {
        self.ledger.is_ready() && self.ledger.is_idle() && self.states.values().all(State::is_settled)
    }

    /// The request that the ledger needs, if any.
    pub fn ledger_request(&self, now: Moment) -> Option<Request> {
        self.ledger.next(self.desired(now))
    }

    /// When the state of a target changes because time passes.
    pub fn waits_until(&self, target: &Target) -> Option<Moment> {
        self.states.get(target)?.waits_until(self.bound(target))
    }

    /// Updates the state of a target and returns the call that is due. `may_go`: whether the target may be taken from
    /// its pod, which should no longer have it.
    pub fn plan(&mut self, target: &Target, now: Moment, may_go: bool) -> Option<Way> {
        if self.ledger.has_begun() {
            self.turn(*target, now, may_go);
        }
        self.ledger.is_ready().then(|| self.way(target, may_go, now)).flatten()
    }

    /// Applies the changes of a target's state that need no call.
    fn turn(&mut self, target: Target, now: Moment, may_go: bool) {
        let wanted = self.wanted.get(&target);
        let to_add = wanted.filter(|wanted| wanted.may_add);
        let is_for = |pod: &PodMark| wanted.is_some_and(|wanted| wanted.pod == *pod);
        let claiming = |wanted: &Wanted, before, past| State::Claiming { pod: wanted.pod, before, past };
        let next = match self.states.get(&target) {
            None => {
                let past = self.reads.past(&target, now);
                to_add.map(|wanted| claiming(wanted, None, past))
            }
            Some(State::Absent { .. }) => to_add.map(|wanted| claiming(wanted, None, Past::Kept)),
            // Headgate has sent nothing, so the target returns to its previous state.
            Some(State::Claiming { pod, before, past }) => match to_add {
                None if self.expelled.contains(&target) => None,
                None => Some(State::Draining(before.unwrap_or(Draining::nothing(*pod)))),
                Some(wanted) if wanted.pod != *pod => Some(claiming(wanted, *before, *past)),
                Some(_) => None,
            },
            // A deregistration does not wait for the answer to a registration.
            Some(
                state @ (State::Registering { pod, .. }
                | State::Unsettled { pod, call: Some((_, Way::In)), .. }),
            ) if !is_for(pod) && may_go => Some(state.give_up(now, self.delays.late)),
            Some(State::Registered { pod, since, health, past, late: Some(late) }) if *late <= now => {
                let (pod, since, health, past) = (*pod, *since, *health, *past);
                Some(State::Registered { pod, since, health, past, late: None })
            }
            Some(State::Registered { pod, late: Some(late), .. }) if !is_for(pod) && may_go => {
                Some(State::unsettled(*pod, *late))
            }
            // A foreign target whose deregistration has an unknown result. A read will show the result.
            Some(State::Unsettled { pod, until, call: None, .. })
                if *pod == nobody() && wanted.is_none() && now >= *until =>
            {
                Some(State::Draining(Draining::nothing(*pod)))
            }
            Some(State::Draining(draining)) => match to_add {
                Some(wanted) => Some(claiming(wanted, Some(*draining), Past::Kept)),
                None if self.is_quiet(&target, draining, now) && self.ledger.is_free(&target) => {
                    Some(State::Absent { since: now })
                }
                None => None,
            },
            Some(_) => None,
        };
        let Some(next) = next else { return };
        match (&next, wanted) {
            (State::Claiming { .. }, Some(wanted)) => {
                self.bindings.insert(target, wanted.binding.clone());
            }
            (State::Absent { .. }, _) => _ = self.bindings.remove(&target),
            _ => {}
        }
        self.states.insert(target, next);
    }

    /// The call that is due for a target.
    fn way(&self, target: &Target, may_go: bool, now: Moment) -> Option<Way> {
        let wanted = self.wanted.get(target);
        let is_for = |pod: &PodMark| wanted.is_some_and(|wanted| wanted.pod == *pod);
        match self.states.get(target)? {
            State::Claiming { pod, .. } if self.expelled.contains(target) => {
                (self.ledger.has(target, *pod) && may_go).then_some(Way::Out)
            }
            State::Claiming { pod, .. } => self.ledger.has(target, *pod).then_some(Way::In),
            State::Unsettled { pod, .. } if *pod == nobody() && wanted.is_none() => None,
            State::Registered { pod, .. } if !is_for(pod) => may_go.then_some(Way::Out),
            State::Unsettled { pod, call: None, adds: Some(_), .. } if is_for(pod) => {
                let may_add = wanted.is_some_and(|wanted| wanted.may_add);
                (may_add && self.ledger.has(target, *pod)).then_some(Way::In)
            }
            State::Unsettled { pod, until, call: None, early, .. } => {
                if !is_for(pod) {
                    let waits = now < *until && matches!(early, Some((Way::Out, _)));
                    return (!waits && may_go).then_some(Way::Out);
                }
                let may_add = wanted.is_some_and(|wanted| wanted.may_add);
                // A target that AWS has needs no call.
                let is_early = now < *until && early.is_none() && self.reads.is_missing(target);
                (is_early && may_add && self.ledger.has(target, *pod)).then_some(Way::In)
            }
            _ => None,
        }
    }

    /// The desired claims in the ledger.
    fn desired(&self, now: Moment) -> Claims {
        let claim = |(target, state): (&Target, &State)| {
            let is_over = matches!(state, State::Draining(draining) if self.is_quiet(target, draining, now));
            let pod = state.pod().filter(|_| !is_over)?;
            Some((*target, Claim { pod, binding: self.bindings.get(target).cloned() }))
        };
        self.states.iter().filter_map(claim).collect()
    }

    /// The earliest start of a read that shows something new about a target in this state. `None`: nobody waits for
    /// one.
    pub fn counts_from(&self, state: &State) -> Option<Moment> {
        let Delays { stale, bound, .. } = self.delays;
        match state {
            State::Absent { since } => Some(*since),
            State::Draining(Draining { accepted: Some(accepted), looked: false, .. }) => {
                Some(*accepted + bound.max(stale))
            }
            State::Unsettled { until, from, call: None, .. } => Some((*until).max(*from + stale)),
            _ => None,
        }
    }

    /// Whether no load balancer sends to the target any more. The read only detects calls that took effect unexpectedly
    /// late, so a group that cannot be read does not delay this.
    fn is_quiet(&self, target: &Target, draining: &Draining, now: Moment) -> bool {
        let Some(accepted) = draining.accepted else { return true };
        accepted + self.bound(target) <= now && (draining.looked || self.reads.is_unreadable())
    }

    /// Headgate sends a call with these targets.
    pub fn sent(&mut self, id: RequestId, way: Way, targets: &[Target], now: Moment) {
        for target in targets {
            if let Some(state) = self.states.get_mut(target) {
                *state = state.sent(id, way, now);
            }
        }
    }

    /// Handles the end of a call with these targets.
    pub fn answered(&mut self, id: RequestId, targets: &[Target], outcome: Outcome, now: Moment) {
        let late = now + self.delays.late;
        for target in targets {
            let Some(state) = self.states.get_mut(target) else { continue };
            if matches!(*state, State::Deregistering { call, .. } if call == id) {
                self.expelled.remove(target);
            }
            *state = state.answered(id, outcome, now, late);
        }
    }

    /// Handles a read of the whole group that began at `began`. Returns the deregistered targets that somebody else has
    /// registered again.
    pub fn read(&mut self, began: Moment, shown: BTreeMap<Target, HealthState>, now: Moment) -> Vec<Target> {
        let mut foreign = Vec::new();
        let Self { delays, wanted, bounds, .. } = self;
        self.states.retain(|target, state| {
            let bound = bounds.get(target).copied().unwrap_or(delays.bound);
            let read =
                Read { began, now, health: shown.get(target).copied(), delays: Delays { bound, ..*delays } };
            let after = read.changes(state, wanted.get(target).map(|wanted| wanted.pod));
            if after.is_foreign {
                foreign.push(*target);
            }
            after.state.map(|after| *state = after).is_some()
        });
        self.reads.note(began, shown, |target| self.states.contains_key(target));
        foreign
    }

    /// Takes in the ledger, from a separate request or from a list of all ledgers. A call of the term before may take
    /// effect until `settled`. Returns false if a later term has written the ledger: this term sends nothing for the
    /// group any more.
    pub fn found(&mut self, found: Option<(LedgerVersion, Content)>, settled: Moment, now: Moment) -> bool {
        match self.ledger.found(found) {
            Loaded::LaterTerm => return false,
            // Headgate has sent nothing yet, so this read replaces the one before.
            Loaded::First(claims) => {
                (self.states, self.expelled) = (BTreeMap::new(), BTreeSet::new());
                self.inherit(claims, settled);
            }
            // The states in memory take precedence. Claims that they lack are taken over, because they must not get
            // lost.
            Loaded::Again(mut claims) => {
                let is_known =
                    |target: &Target| self.states.get(target).is_some_and(|state| state.pod().is_some());
                claims.retain(|target, _| !is_known(target));
                self.inherit(claims, now + self.delays.late);
            }
        }
        true
    }
}
