//! The targets of one target group during one term of a leader, by claims.
//!
//! One question decides almost everything: may a load balancer still send to this address for this pod? A *claim* answers it. It
//! stands in the ledger of the group from before the first RegisterTargets until the load balancer has stopped sending.
//!
//! * **I1**: AWS may send to a target for a pod ⇒ the ledger has that claim.
//! * **I2**: a call of ours may still take effect on a target ⇒ the ledger has a claim on that target.
//!
//! So nothing from an earlier term can affect a target that the ledger does not name.
//!
//! ```text
//!  want ─────► Targets ─────► due: calls, ledger requests, when to look again
//!  answers ──►    │
//!  reads ────►    ├── state.rs   the state of one target, and what it waits for
//!                 └── ledger.rs  what this term has written, one write at a time
//! ```
//!
//! * **Owns** the state of each target that is claimed, and what the ledger should say.
//! * **Assumes** that a call takes effect within [`Delays::late`] of the moment it is sent or given up, and that a read is no
//!   older than [`Delays::stale`] when it begins. A process that is paused between its check of authority and its call breaks the
//!   first. Then a late target counts as foreign: it is reported, and nobody removes it.
//! * **Never** sends two calls for one target at a time, except that a removal gives up a call that registers it.

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

/// Whose the targets are that somebody else has registered, and that are to go.
pub fn nobody() -> PodMark {
    PodMark::of(&Uid::new(""))
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Targets {
    delays: Delays,
    ledger: LedgerWriter,
    wanted: BTreeMap<Target, Wanted>,
    states: BTreeMap<Target, State>,
    /// The object that binds, or bound, the pod of each.
    bindings: BTreeMap<Target, Arc<str>>,
    /// How long load balancers go on sending to each, where that is not the same for all.
    bounds: BTreeMap<Target, Duration>,
    /// What somebody else has registered, and is to be removed.
    expelled: BTreeSet<Target>,
    /// The namespaces that hold the group.
    holders: BTreeSet<Arc<str>>,
    /// What the last read has shown.
    shown: Option<BTreeMap<Target, HealthState>>,
    /// Whether the last read has failed.
    is_unreadable: bool,
    /// When the first read of this term began.
    first_read: Option<Moment>,
    /// What nobody here claims, and when the last read began that has shown it, for as long as reads may be late.
    others: BTreeMap<Target, Moment>,
}

impl Targets {
    /// Those that the ledger of the group names; `found` is nothing if there is no ledger. A call of the term before may take
    /// effect until `settled`. Gives nothing if a later term has written the ledger.
    pub fn take_over(
        delays: Delays,
        term: u64,
        found: Option<(LedgerVersion, Content)>,
        settled: Moment,
    ) -> Option<Self> {
        let mut targets = Self::new(delays);
        targets.begin(term, found, settled).then_some(targets)
    }

    /// Those of a replica that does not lead: it knows what is wanted.
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

    /// A term begins, which has found this: see [`Self::take_over`]. Gives whether it goes on.
    pub fn begin(&mut self, term: u64, found: Option<(LedgerVersion, Content)>, settled: Moment) -> bool {
        let (version, content) = found.map_or((None, Content::default()), |(at, is)| (Some(at), is));
        self.ledger = LedgerWriter::new(term, version);
        (self.states, self.expelled) = (BTreeMap::new(), BTreeSet::new());
        self.holders = content.holders;
        self.inherit(content.claims, settled);
        content.term <= term
    }

    /// Which pod should have this target.
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

    /// How long load balancers go on sending to this target.
    pub fn set_bound(&mut self, target: Target, bound: Duration) {
        self.bounds.insert(target, bound);
    }

    /// Nothing is known of this target any more.
    pub fn forget(&mut self, target: &Target) {
        self.bounds.remove(target);
        self.bindings.remove(target);
    }

    fn bound(&self, target: &Target) -> Duration {
        self.bounds.get(target).copied().unwrap_or(self.delays.bound)
    }

    /// Somebody else has registered this target, and it is to go: nobody here claims it, so that a call about it cannot come late.
    pub fn expel(&mut self, target: Target) {
        if self.states.get(&target).is_none_or(|state| state.pod().is_none()) && self.expelled.insert(target)
        {
            self.states.insert(target, State::Claiming { pod: nobody(), before: None, past: Past::Kept });
        }
    }

    /// It stays, if its removal was not sent.
    pub fn spare(&mut self, target: &Target) {
        self.expelled.remove(target);
    }

    /// The namespaces that hold the group, to be written down.
    pub const fn holders_mut(&mut self) -> &mut BTreeSet<Arc<str>> {
        &mut self.holders
    }

    /// AWS says that the group does not exist: no load balancer sends to what nobody wants. It may have been wrong.
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

    /// What the last read that counts has shown of this target, registered for this pod: of its own health.
    pub fn health(&self, target: &Target, pod: PodMark) -> Option<HealthState> {
        match self.states.get(target) {
            Some(State::Registered { pod: of, health, .. }) if *of == pod => *health,
            _ => None,
        }
    }

    /// What the last read has shown of it, whenever it began.
    pub fn shown(&self, target: &Target) -> Option<HealthState> {
        self.shown.as_ref()?.get(target).copied()
    }

    /// Takes in what the ledger names: a call about it may take effect until `settled`.
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

    /// The state of a target; `None`: it is absent, and was seen so.
    pub fn state(&self, target: &Target) -> Option<&State> {
        self.states.get(target)
    }

    /// All that are not absent, and those that a read has yet to show absent.
    pub fn states(&self) -> impl Iterator<Item = (&Target, &State)> {
        self.states.iter()
    }

    /// The ledger as this term writes it.
    pub const fn ledger(&self) -> &LedgerWriter {
        &self.ledger
    }

    /// Whether nothing that this term or the one before has sent can still take effect: then a successor may act at once.
    pub fn is_settled(&self) -> bool {
        self.ledger.is_ready() && self.ledger.is_idle() && self.states.values().all(State::is_settled)
    }

    /// What is due now. `may_go` says whether a target may be taken from the pod that has it and should not have it any more.
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

    /// What is to be asked of the ledger.
    pub fn ledger_request(&self, now: Moment) -> Option<Request> {
        self.ledger.next(self.desired(now), self.holders.clone())
    }

    /// When time alone changes a target.
    pub fn waits_until(&self, target: &Target) -> Option<Moment> {
        self.states.get(target)?.waits_until(self.bound(target))
    }

    /// What changes by itself for a target, and which call is due then. `may_go`: whether it may be taken from the pod that has it
    /// and should not have it any more.
    pub fn plan(&mut self, target: &Target, now: Moment, may_go: bool) -> Option<Way> {
        if !self.ledger.is_ready() {
            return None;
        }
        self.turn(*target, now, &|_, _| may_go);
        self.way(target, now, &|_, _| may_go)
    }

    /// What changes by itself, without a call.
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
            // Nothing was sent: it is again what it was before.
            Some(State::Claiming { pod, before, past }) => match to_add {
                None if self.expelled.contains(&target) => None,
                None => Some(State::Draining(before.unwrap_or(Draining::nothing(*pod)))),
                Some(wanted) if wanted.pod != *pod => Some(claiming(wanted, *before, *past)),
                Some(_) => None,
            },
            // A removal does not wait for the answer to a registration.
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
            // A stranger's, of which nobody knows whether it was removed: a read shows it.
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

    /// Which call is due for a target.
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
                // One that is there needs no call.
                let is_missing = |shown: &BTreeMap<Target, HealthState>| {
                    shown.get(target).is_none_or(|health| *health == HealthState::Draining)
                };
                let is_early = now < *until && early.is_none() && self.shown.as_ref().is_some_and(is_missing);
                (is_early && may_add && self.ledger.has(target, *pod)).then_some(Way::In)
            }
            _ => None,
        }
    }

    /// What the ledger should say.
    fn desired(&self, now: Moment) -> Claims {
        let claim = |(target, state): (&Target, &State)| {
            let is_over = matches!(state, State::Draining(draining) if self.is_quiet(target, draining, now));
            let pod = state.pod().filter(|_| !is_over)?;
            Some((*target, Claim { pod, binding: self.bindings.get(target).cloned() }))
        };
        self.states.iter().filter_map(claim).collect()
    }

    /// From when on a read says something new about a target in this state, if one does that somebody waits for.
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

    /// Whether no load balancer sends there any more. A read only detects that a call came later than anybody thought, so a group
    /// that cannot be read holds nothing up.
    fn is_quiet(&self, target: &Target, draining: &Draining, now: Moment) -> bool {
        let Some(accepted) = draining.accepted else { return true };
        accepted + self.bound(target) <= now && (draining.looked || self.is_unreadable)
    }

    /// What AWS had at a target of which nothing is known.
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

    /// When the first read of this term began, and the last one that has shown this target while nothing was known of it.
    pub fn looked_at(&self, target: &Target) -> (Option<Moment>, Option<Moment>) {
        (self.first_read, self.others.get(target).copied())
    }

    /// A call leaves with these targets.
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

    /// A call with these targets has ended.
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
                // It has ended, and comes late no more. A removal that was sent before it ended does not count.
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

    /// A read of the whole group that began then has shown these. Gives those that somebody else has put where ours were.
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
                        // A later read may show an earlier time, so what counts begins anew.
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
                // What was sent early has had no effect, or was undone: once more.
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

    /// A read of the group has failed.
    pub fn unread(&mut self) {
        self.is_unreadable = true;
    }

    /// A request to the ledger leaves.
    pub fn ledger_sent(&mut self, id: RequestId, request: Request) {
        self.ledger.sent(id, request);
    }

    /// The ledger is deleted, because nothing uses the group any more.
    pub fn ledger_drops(&mut self, id: RequestId) {
        self.ledger.drops(id);
    }

    /// A read of the ledger has ended, and what it has found comes by itself: [`Self::found`].
    pub fn load_ended(&mut self, id: RequestId) {
        self.ledger.load_ended(id);
    }

    /// The ledger was written, or was not.
    pub fn written(&mut self, id: RequestId, result: Result<LedgerVersion, Outcome>) {
        self.ledger.written(id, result);
    }

    /// A watch has shown this version of the ledger; `None`: it was deleted.
    pub fn seen(&mut self, version: Option<&LedgerVersion>) {
        self.ledger.seen(version);
    }

    /// The ledger was read. Gives whether this term goes on: a later one may have begun.
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

    /// The ledger was read with all others, or by a request of its own.
    pub fn found(&mut self, found: Option<(LedgerVersion, Content)>, settled: Moment, now: Moment) -> bool {
        let loaded = self.ledger.found(found);
        self.take_in(loaded, settled, now)
    }

    fn take_in(&mut self, loaded: Loaded, settled: Moment, now: Moment) -> bool {
        match loaded {
            Loaded::Nothing => {}
            Loaded::LaterTerm => return false,
            // Nothing was sent yet: what is read replaces what was read before.
            Loaded::First(claims) => {
                (self.states, self.expelled) = (BTreeMap::new(), BTreeSet::new());
                self.inherit(claims, settled);
            }
            // Memory counts. What it does not know, nobody may forget.
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
