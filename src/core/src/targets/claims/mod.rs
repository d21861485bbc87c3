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
//!  reads ────►    ├── state.rs   the state of one target, and what it waits for
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
mod state;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

pub use self::{
    ledger::{LedgerWriter, Loaded},
    state::{Draining, Past, State, Way},
};
pub use crate::model::claims::{
    Claim, Claims, Content, Delays, Due, Outcome, Packed, Request, Unreadable, Wanted,
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
    /// The namespaces that hold the group.
    holders: BTreeSet<Arc<str>>,
    /// The result of the last read.
    shown: Option<BTreeMap<Target, HealthState>>,
    /// Whether the last read has failed.
    is_unreadable: bool,
    /// When the first read of this term began.
    first_read: Option<Moment>,
    /// The targets without a claim, and when the last read began that showed each. Kept while reads may be stale.
    others: BTreeMap<Target, Moment>,
}

impl Targets {
    /// Takes over the targets that the ledger of the group names. `found`: the ledger, if there is one. A call of the
    /// term before may take effect until `settled`. Returns `None` if a later term has written the ledger.
    pub fn take_over(
        delays: Delays,
        term: u64,
        found: Option<(LedgerVersion, Content)>,
        settled: Moment,
    ) -> Option<Self> {
        let mut targets = Self::new(delays);
        targets.begin(term, found, settled).then_some(targets)
    }

    /// The targets on a replica that does not lead. Such a replica tracks only which targets are wanted.
    pub const fn new(delays: Delays) -> Self {
        Self {
            delays,
            ledger: LedgerWriter::new(0, None),
            wanted: BTreeMap::new(),
            states: BTreeMap::new(),
            bindings: BTreeMap::new(),
            bounds: BTreeMap::new(),
            expelled: BTreeSet::new(),
            holders: BTreeSet::new(),
            shown: None,
            is_unreadable: false,
            first_read: None,
            others: BTreeMap::new(),
        }
    }

    /// Begins a term with this ledger, like [`Self::take_over`]. Returns whether the term continues.
    pub fn begin(&mut self, term: u64, found: Option<(LedgerVersion, Content)>, settled: Moment) -> bool {
        let (version, content) = found.map_or((None, Content::default()), |(at, is)| (Some(at), is));
        self.ledger = LedgerWriter::new(term, version);
        (self.states, self.expelled) = (BTreeMap::new(), BTreeSet::new());
        self.holders = content.holders;
        self.inherit(content.claims, settled);
        content.term <= term
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

    /// Sets the propagation delay of this target.
    pub fn set_bound(&mut self, target: Target, bound: Duration) {
        self.bounds.insert(target, bound);
    }

    /// Forgets the delay and the binding of this target.
    pub fn forget(&mut self, target: &Target) {
        self.bounds.remove(target);
        self.bindings.remove(target);
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

    /// The namespaces that hold the group, for the next write of the ledger.
    pub const fn holders_mut(&mut self) -> &mut BTreeSet<Arc<str>> {
        &mut self.holders
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

    /// The health of the target in the last read, even if that read does not count for its pod.
    pub fn shown(&self, target: &Target) -> Option<HealthState> {
        self.shown.as_ref()?.get(target).copied()
    }

    /// Takes over the claims of the ledger. Calls about them may take effect until `settled`.
    fn inherit(&mut self, claims: Claims, settled: Moment) {
        for (target, Claim { pod, binding }) in claims {
            self.states.insert(target, State::unsettled(pod, settled));
            self.bindings.extend(binding.map(|binding| (target, binding)));
        }
    }

    /// Whether the target is registered for this pod and was healthy in a read that counts.
    pub fn is_healthy(&self, target: &Target, pod: PodMark) -> bool {
        matches!(
            self.states.get(target),
            Some(State::Registered { pod: of, health: Some(HealthState::Healthy), .. }) if *of == pod
        )
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

    /// Whether no call of this term or the one before can still take effect. A successor may then act immediately.
    pub fn is_settled(&self) -> bool {
        self.ledger.is_ready() && self.ledger.is_idle() && self.states.values().all(State::is_settled)
    }

    /// The next steps. `may_go` tells whether a target may be taken from its pod, which should no longer have it.
    pub fn due(&mut self, now: Moment, may_go: impl Fn(&Target, PodMark) -> bool) -> Due {
        let mut due = Due::default();
        if self.ledger.is_ready() {
            let all: BTreeSet<Target> = self.states.keys().chain(self.wanted.keys()).copied().collect();
            for target in all {
                self.turn(target, now, &may_go);
                match self.way(&target, now, &may_go) {
                    Some(Way::Out) => due.remove.push(target),
                    Some(Way::In) => due.add.push(target),
                    None => {}
                }
            }
        }
        due.ledger = self.ledger_request(now);
        let waits = |target: &Target| self.waits_until(target).filter(|until| *until > now);
        due.again = self.states.keys().filter_map(waits).min();
        due
    }

    /// The request that the ledger needs, if any.
    pub fn ledger_request(&self, now: Moment) -> Option<Request> {
        self.ledger.next(self.desired(now), self.holders.clone())
    }

    /// When the state of a target changes because time passes.
    pub fn waits_until(&self, target: &Target) -> Option<Moment> {
        self.states.get(target)?.waits_until(self.bound(target))
    }

    /// Updates the state of a target and returns the call that is due. `may_go`: whether the target may be taken from
    /// its pod, which should no longer have it.
    pub fn plan(&mut self, target: &Target, now: Moment, may_go: bool) -> Option<Way> {
        if !self.ledger.is_ready() {
            return None;
        }
        self.turn(*target, now, &|_, _| may_go);
        self.way(target, now, &|_, _| may_go)
    }

    /// Applies the changes of a target's state that need no call.
    fn turn(&mut self, target: Target, now: Moment, may_go: &impl Fn(&Target, PodMark) -> bool) {
        let wanted = self.wanted.get(&target);
        let to_add = wanted.filter(|wanted| wanted.may_add);
        let is_for = |pod: &PodMark| wanted.is_some_and(|wanted| wanted.pod == *pod);
        let claiming = |wanted: &Wanted, before, past| State::Claiming { pod: wanted.pod, before, past };
        let next = match self.states.get(&target) {
            None | Some(State::Absent { .. }) => {
                let past = self.past(&target, now);
                to_add.map(|wanted| claiming(wanted, None, past))
            }
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
            ) if !is_for(pod) && may_go(&target, *pod) => Some(state.give_up(now, self.delays.late)),
            Some(State::Registered { pod, since, health, past, late: Some(late) }) if *late <= now => {
                let (pod, since, health, past) = (*pod, *since, *health, *past);
                Some(State::Registered { pod, since, health, past, late: None })
            }
            Some(State::Registered { pod, late: Some(late), .. })
                if !is_for(pod) && may_go(&target, *pod) =>
            {
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
    fn way(&self, target: &Target, now: Moment, may_go: &impl Fn(&Target, PodMark) -> bool) -> Option<Way> {
        let wanted = self.wanted.get(target);
        let is_for = |pod: &PodMark| wanted.is_some_and(|wanted| wanted.pod == *pod);
        match self.states.get(target)? {
            State::Claiming { pod, .. } if self.expelled.contains(target) => {
                (self.ledger.has(target, *pod) && may_go(target, *pod)).then_some(Way::Out)
            }
            State::Claiming { pod, .. } => self.ledger.has(target, *pod).then_some(Way::In),
            State::Unsettled { pod, .. } if *pod == nobody() && wanted.is_none() => None,
            State::Registered { pod, .. } if !is_for(pod) => may_go(target, *pod).then_some(Way::Out),
            State::Unsettled { pod, call: None, adds: Some(_), .. } if is_for(pod) => {
                let may_add = wanted.is_some_and(|wanted| wanted.may_add);
                (may_add && self.ledger.has(target, *pod)).then_some(Way::In)
            }
            State::Unsettled { pod, until, call: None, early, .. } => {
                if !is_for(pod) {
                    let waits = now < *until && matches!(early, Some((Way::Out, _)));
                    return (!waits && may_go(target, *pod)).then_some(Way::Out);
                }
                let may_add = wanted.is_some_and(|wanted| wanted.may_add);
                // A target that AWS has needs no call.
                let is_missing = |shown: &BTreeMap<Target, HealthState>| {
                    shown.get(target).is_none_or(|health| *health == HealthState::Draining)
                };
                let is_early = now < *until && early.is_none() && self.shown.as_ref().is_some_and(is_missing);
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
        accepted + self.bound(target) <= now && (draining.looked || self.is_unreadable)
    }

    /// What AWS had at a target for which there is no state.
    pub fn past(&self, target: &Target, now: Moment) -> Past {
        let is_over = |began: &Moment| now > *began + self.delays.stale;
        match (&self.first_read, self.others.get(target)) {
            _ if self.states.contains_key(target) => Past::Kept,
            (None, _) => Past::Kept,
            (Some(_), _) if self.shown.as_ref().is_none_or(|shown| shown.contains_key(target)) => Past::Kept,
            (Some(first), other) if is_over(first) && other.is_none_or(is_over) => Past::Nothing,
            (Some(_), _) => Past::Left,
        }
    }

    /// When the first read of this term began, and the last read that showed this target while it had no state.
    pub fn looked_at(&self, target: &Target) -> (Option<Moment>, Option<Moment>) {
        (self.first_read, self.others.get(target).copied())
    }

    /// Headgate sends a call with these targets.
    pub fn sent(&mut self, id: RequestId, way: Way, targets: &[Target], now: Moment) {
        for target in targets {
            let Some(state) = self.states.get_mut(target) else { continue };
            *state = match (&*state, way) {
                (State::Claiming { pod, before, past }, Way::In) => {
                    State::Registering { pod: *pod, call: id, before: *before, past: *past }
                }
                (State::Unsettled { pod, until, from, gave_up, adds, .. }, way)
                    if now < *until || (adds.is_some() && way == Way::In) =>
                {
                    State::Unsettled {
                        pod: *pod,
                        until: *until,
                        from: *from,
                        call: Some((id, way)),
                        early: Some((way, now)),
                        gave_up: *gave_up,
                        adds: adds.filter(|_| way == Way::In),
                    }
                }
                (
                    State::Claiming { pod, .. }
                    | State::Registered { pod, .. }
                    | State::Unsettled { pod, .. },
                    Way::Out,
                ) => State::Deregistering { pod: *pod, call: id },
                _ => continue,
            };
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
            *state = match *state {
                State::Registering { pod, call, before, past } if call == id => match outcome {
                    Outcome::Done => State::Registered { pod, since: now, health: None, past, late: None },
                    Outcome::Refused | Outcome::Gone => State::Claiming { pod, before, past },
                    Outcome::Unknown => State::registering(pod, late, past),
                },
                State::Deregistering { pod, call } if call == id => match outcome {
                    Outcome::Done | Outcome::Gone if pod == nobody() => {
                        State::Draining(Draining::nothing(pod))
                    }
                    Outcome::Gone => State::Draining(Draining::without_group(pod, now)),
                    Outcome::Done => State::Draining(Draining::since(pod, now)),
                    Outcome::Refused => State::unsettled(pod, now),
                    Outcome::Unknown => State::unsettled(pod, late),
                },
                State::Unsettled { pod, until, call: Some((call, Way::In)), adds: Some(past), .. }
                    if call == id =>
                {
                    match outcome {
                        Outcome::Done => {
                            let late = Some(until).filter(|until| *until > now);
                            State::Registered { pod, since: now, health: None, past, late }
                        }
                        Outcome::Refused | Outcome::Gone => State::registering(pod, until, past),
                        Outcome::Unknown => State::registering(pod, late, past),
                    }
                }
                State::Unsettled { pod, until, from, call: Some((call, _)), early, gave_up, .. }
                    if call == id =>
                {
                    let (until, from, early, gave_up) = match outcome {
                        Outcome::Done | Outcome::Gone => (until, from.max(now), early, gave_up),
                        Outcome::Refused => (until, from, None, gave_up),
                        Outcome::Unknown => (late.max(until), late.max(from), None, None),
                    };
                    State::Unsettled { pod, until, from, call: None, early, gave_up, adds: None }
                }
                // The call has ended and cannot take effect late. A deregistration that was sent before does not count.
                State::Unsettled { pod, until, from, call, gave_up: Some((gave_up, before)), .. }
                    if gave_up == id =>
                {
                    let is_known = outcome != Outcome::Unknown;
                    let (until, from) =
                        if is_known { (before.max(now), before.max(now)) } else { (until, from) };
                    State::Unsettled { pod, until, from, call, early: None, gave_up: None, adds: None }
                }
                _ => continue,
            };
        }
    }

    /// Handles a read of the whole group that began at `began`. Returns the deregistered targets that somebody else has
    /// registered again.
    pub fn read(&mut self, began: Moment, shown: BTreeMap<Target, HealthState>, now: Moment) -> Vec<Target> {
        let Delays { stale, bound, notice, .. } = self.delays;
        let bounds = &self.bounds;
        let counts_after = |past| if past == Past::Nothing { Duration::ZERO } else { stale };
        let mut foreign = Vec::new();
        self.is_unreadable = false;
        let wanted = &self.wanted;
        self.states.retain(|target, state| {
            let health = shown.get(target).copied();
            let is_there = health.is_some_and(|health| health != HealthState::Draining);
            let is_healthy = health == Some(HealthState::Healthy);
            let gone = |pod: PodMark| State::Draining(Draining::since(pod, now));
            match *state {
                State::Absent { since } => return began <= since,
                State::Registered { pod, since, late, .. } if began > since + stale && !is_there => {
                    *state = late.map_or(gone(pod), |late| State::registering(pod, late, Past::Kept));
                }
                State::Registered { pod, since, past, late, .. } if began > since + counts_after(past) => {
                    let settles = past == Past::Kept && !is_healthy;
                    let is_proven = past != Past::Kept || began > since + stale + notice;
                    *state = State::Registered {
                        pod,
                        // A later read may show an earlier time, so `since` restarts now.
                        since: if settles { now } else { since },
                        health: health.filter(|_| !is_healthy || is_proven),
                        past: if settles || is_proven { Past::Left } else { past },
                        late,
                    };
                }
                State::Draining(ref mut draining) => {
                    let bound = bounds.get(target).copied().unwrap_or(bound);
                    let is_late = |accepted| began >= accepted + bound && began > accepted + stale;
                    let is_late = draining.accepted.is_some_and(is_late);
                    let counts = |accepted| began > accepted + stale;
                    if draining.by_absence && is_there && draining.accepted.is_some_and(counts) {
                        *state = State::unsettled(draining.pod, now);
                        return true;
                    }
                    if is_late && is_there && !draining.looked {
                        foreign.push(*target);
                    }
                    draining.looked |= is_late;
                }
                // The early deregistration had no effect or was undone, so it may be sent again.
                State::Unsettled { until, call: None, early: Some((Way::Out, sent)), .. }
                    if now < until && is_there && began > sent + stale =>
                {
                    if let State::Unsettled { early, .. } = state {
                        *early = None;
                    }
                }
                State::Unsettled { pod, until, from, call: None, .. }
                    if now >= until && began > from + stale =>
                {
                    let is_for = wanted.get(target).is_some_and(|wanted| wanted.pod == pod);
                    if is_for && is_there {
                        let (since, past) = if is_healthy { (from, Past::Kept) } else { (now, Past::Left) };
                        *state = State::Registered { pod, since, health: None, past, late: None };
                    } else if !is_there {
                        *state = gone(pod);
                    }
                }
                _ => {}
            }
            true
        });
        self.first_read.get_or_insert(began);
        self.others.retain(|_, last| began <= *last + stale);
        let others = shown.keys().filter(|target| !self.states.contains_key(target));
        self.others.extend(others.map(|target| (*target, began)));
        self.shown = Some(shown);
        foreign
    }

    /// Whether the last read has failed.
    pub const fn is_unreadable(&self) -> bool {
        self.is_unreadable
    }

    /// Handles a failed read of the group.
    pub fn unread(&mut self) {
        self.is_unreadable = true;
    }

    /// Headgate sends a request to the ledger.
    pub fn ledger_sent(&mut self, id: RequestId, request: Request) {
        self.ledger.sent(id, request);
    }

    /// Headgate deletes the ledger, because nothing uses the group any more.
    pub fn ledger_drops(&mut self, id: RequestId) {
        self.ledger.drops(id);
    }

    /// A read of the ledger has ended. [`Self::found`] gets its result separately.
    pub fn load_ended(&mut self, id: RequestId) {
        self.ledger.load_ended(id);
    }

    /// Handles the end of a write of the ledger.
    pub fn written(&mut self, id: RequestId, result: Result<LedgerVersion, Outcome>) {
        self.ledger.written(id, result);
    }

    /// A watch has shown this version of the ledger. `None`: the ledger was deleted.
    pub fn seen(&mut self, version: Option<&LedgerVersion>) {
        self.ledger.seen(version);
    }

    /// Handles the end of a read of the ledger. Returns whether this term continues, because a later term may have
    /// begun.
    pub fn loaded(
        &mut self,
        id: RequestId,
        result: Result<Option<(LedgerVersion, Content)>, Outcome>,
        settled: Moment,
        now: Moment,
    ) -> bool {
        let loaded = self.ledger.loaded(id, result);
        self.take_in(loaded, settled, now)
    }

    /// Like [`Self::loaded`], for a ledger that was read with all others or by a separate request.
    pub fn found(&mut self, found: Option<(LedgerVersion, Content)>, settled: Moment, now: Moment) -> bool {
        let loaded = self.ledger.found(found);
        self.take_in(loaded, settled, now)
    }

    fn take_in(&mut self, loaded: Loaded, settled: Moment, now: Moment) -> bool {
        match loaded {
            Loaded::Nothing => {}
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
