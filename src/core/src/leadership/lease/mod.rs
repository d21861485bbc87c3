//! The leader election algorithm of client-go, as a state machine without a clock and without I/O.
//!
//! One Lease object names the holder. The holder renews the Lease every retry period, and all other replicas read the
//! Lease at the same rate. A replica takes the Lease if the holder has released it, or if the Lease has not *changed*
//! for its duration. Each replica measures the duration with its own monotonic clock, from the moment when the replica
//! saw the last change.
//!
//! The clocks of other nodes set the times in the Lease, so replicas only check whether these times have changed. Each
//! write names the version that it replaces. If two replicas try to take the Lease at the same time, one of the two
//! writes fails.
//!
//! The machine owns the last seen state of the Lease, and the time until which this replica may act ([`Lease::term`]).
//! The machine sends one request at a time. If a request gets no answer, the machine reads the Lease again. If no
//! renewal succeeds, the term ends [`Timing::renew_deadline`] after the last successful renewal was *sent*. The term
//! ends before any other replica can take over, and only a renewal extends the term.
//!
//! A replica need not wait for a holder that has provably terminated (`proof`), because a terminated process sends no
//! further requests. Earlier requests of the terminated holder may still arrive at the API server and at AWS. The new
//! leader reads the ledgers again when these requests can no longer take effect ([`Term`](super::Term)). Anyone who may
//! write the status of Headgate's pods can forge such a proof. Two replicas then act as the leader until the real
//! holder reads the Lease.
//!
//! A holder that cannot lead releases the Lease and is in backoff (`rest`, [`Ability`](super::ability::Ability)). After
//! its backoff, the replica can take the Lease again. If no other replica takes the released Lease within the lease
//! duration, the replica can take the Lease earlier.
//!
//! Unlike client-go, the machine also waits if somebody deletes the Lease, because the holder may still act. The
//! machine cannot detect a Lease that was created and deleted between two reads. Do not delete the Lease.

use std::{sync::Arc, time::Duration};

use thiserror::Error;

use self::rest::Rests;
pub use crate::model::lease::{Claim, EndedContainer, LeaseTerm, Record, Rest, Stored};
use crate::model::{Moment, Reason};

mod proof;
mod rest;

pub use proof::pod_of;
#[cfg(test)]
mod tests;

/// The duration of a Lease, and the intervals of the requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    duration: Duration,
    renew_deadline: Duration,
    retry_period: Duration,
}

/// Why a timing is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TimingError {
    /// The lease duration must consist of whole seconds, because the Lease stores whole seconds.
    #[error("the lease duration is {0:?}; set whole seconds, at least 1s")]
    NotWholeSeconds(Duration),
    /// The renew deadline is too long: the holder would still act when another replica can take over.
    #[error("the renew deadline is {deadline:?}; set less than the lease duration, {duration:?}")]
    DeadlineTooLong {
        /// The renew deadline.
        deadline: Duration,
        /// The lease duration.
        duration: Duration,
    },
    /// The retry period is too long: one lost request would end the term.
    #[error(
        "the retry period is {retry:?}; set at most half of the renew deadline, {deadline:?}, so that one lost \
         request does not end the leadership, and at least 10ms"
    )]
    RetryTooLong {
        /// The retry period.
        retry: Duration,
        /// The renew deadline.
        deadline: Duration,
    },
}

impl Default for Timing {
    /// The defaults of client-go: 15 s, 10 s and 2 s.
    fn default() -> Self {
        Self {
            duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }
}

impl Timing {
    /// Creates a timing if the values are valid.
    pub fn new(
        duration: Duration,
        renew_deadline: Duration,
        retry_period: Duration,
    ) -> Result<Self, TimingError> {
        if duration.is_zero() || duration.subsec_nanos() != 0 {
            return Err(TimingError::NotWholeSeconds(duration));
        }
        if renew_deadline >= duration {
            return Err(TimingError::DeadlineTooLong { deadline: renew_deadline, duration });
        }
        if retry_period * 2 > renew_deadline || retry_period < Duration::from_millis(10) {
            return Err(TimingError::RetryTooLong { retry: retry_period, deadline: renew_deadline });
        }
        Ok(Self { duration, renew_deadline, retry_period })
    }

    /// The time after which another replica may take a Lease that has not changed.
    pub const fn duration(&self) -> Duration {
        self.duration
    }

    /// The time after which the holder stops, measured from the sending of its last successful renewal.
    pub const fn renew_deadline(&self) -> Duration {
        self.renew_deadline
    }

    /// The interval at which the holder renews the Lease and the other replicas read the Lease.
    pub const fn retry_period(&self) -> Duration {
        self.retry_period
    }

    /// The timeout of one request. Several requests must fit into the renew deadline.
    pub fn request_timeout(&self) -> Duration {
        self.renew_deadline / 4
    }
}

/// A request about the Lease to the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Reads the Lease with a consistent read.
    Read,
    /// Creates the Lease.
    Create(Claim),
    /// Replaces one specific version of the Lease.
    Replace {
        /// The version that the write replaces.
        version: Box<str>,
        /// The new content.
        claim: Claim,
    },
}

/// The reason why a request about the Lease failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The Lease has changed, does not exist, or already exists. The write was not applied.
    Conflict,
    /// Another failure. The write may have been applied.
    Other(Box<str>),
}

/// The last seen state of the Lease.
#[derive(Clone, Debug)]
struct Seen {
    stored: Stored,
    /// The time at which this record, or the deletion of the Lease, was first seen.
    since: Moment,
    /// Whether the last read or watch event contained the Lease.
    there: bool,
    /// Whether this replica has never seen a Lease. A Lease that was never seen has no known holder.
    never: bool,
}

/// The state machine. See the module docs.
#[derive(Clone, Debug)]
pub struct Lease {
    me: Arc<str>,
    timing: Timing,
    seen: Option<Seen>,
    /// Whether `seen` is still current, as far as this replica knows.
    fresh: bool,
    in_flight: Option<(Request, Moment)>,
    /// The time at which the next request is due.
    next: Moment,
    conflicts: u32,
    /// Whether a watch reported the Lease while a request was in flight.
    look_again: bool,
    term: Option<LeaseTerm>,
    terms: Terms,
    /// The replicas that have provably terminated, the latest one last.
    dead: Vec<Box<str>>,
    rests: Rests,
    stay: Stay,
}

/// The maximum number of terminated replicas to keep. A terminated replica may have written the Lease before its
/// termination, and this replica may see the write later.
const DEAD: usize = 8;

/// Whether this replica is a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stay {
    Here,
    /// `is_settled`: see [`Record::is_settled`].
    Leaving {
        is_settled: bool,
    },
    Left,
}

/// The terms of this replica.
#[derive(Clone, Copy, Debug, Default)]
struct Terms {
    count: u64,
    /// Whether no call of the holder before can take effect late.
    is_settled: bool,
    /// The Lease must have changed its holder at least this often. Larger than what was read only after somebody has
    /// deleted the Lease.
    least: u32,
}

impl Lease {
    /// Creates a candidate with the name `me`. No other replica may ever have the same name.
    pub fn new(me: impl Into<Arc<str>>, timing: Timing) -> Self {
        Self {
            me: me.into(),
            timing,
            seen: None,
            fresh: false,
            in_flight: None,
            next: Moment::START,
            conflicts: 0,
            look_again: false,
            term: None,
            terms: Terms::default(),
            dead: Vec::new(),
            rests: Rests::default(),
            stay: Stay::Here,
        }
    }

    /// The term of this replica, if the replica is the leader at `now`. The term contains the time at which it ends
    /// without a renewal.
    pub fn term(&self, now: Moment) -> Option<LeaseTerm> {
        self.term.filter(|term| now < term.until)
    }

    /// The holder of the Lease, if the holder is known.
    pub fn holder(&self) -> Option<&str> {
        let seen = self.seen.as_ref().filter(|seen| seen.there)?;
        seen.stored.record.holder.as_deref()
    }

    /// The pod whose containers can prove that the holder has terminated.
    pub fn pod_of_holder(&self) -> Option<&str> {
        self.holder().and_then(proof::pod_of)
    }

    /// Whether the replica in this pod is in backoff because it could not lead and has released the Lease.
    pub fn rests(&self, pod: &str, now: Moment) -> bool {
        self.rests.has(pod, now)
    }

    /// Whether this replica has stopped, and has released the Lease if it was the holder.
    pub fn has_left(&self) -> bool {
        self.stay == Stay::Left
    }

    /// The time at which the caller must call [`request`](Self::request) next. `None`: a request is in flight, or this
    /// replica has released the Lease and stopped.
    pub fn due(&self) -> Option<Moment> {
        (self.in_flight.is_none() && self.stay != Stay::Left).then_some(self.next)
    }

    /// Returns the request that is due, if any. The request is in flight until [`answered`](Self::answered) is called.
    pub fn request(&mut self, now: Moment) -> Option<Request> {
        self.lapse(now);
        if self.due().is_none_or(|due| now < due) {
            return None;
        }
        let request = self.choose(now)?;
        self.in_flight = Some((request.clone(), now));
        Some(request)
    }

    fn choose(&mut self, now: Moment) -> Option<Request> {
        let Some(seen) = self.seen.as_ref().filter(|_| self.fresh) else { return Some(Request::Read) };
        let record = &seen.stored.record;
        let mine = self.is_mine(seen);
        let replace = |claim: Claim| Some(Request::Replace { version: seen.stored.version.clone(), claim });
        if self.gives_back() {
            if seen.there && mine {
                // Write a duration of one second, like client-go does. The Lease then also expires for programs that do
                // not read the holder.
                let duration = Duration::from_secs(1);
                return replace(Claim {
                    holder: None,
                    duration,
                    transitions: record.transitions,
                    is_settled: self.stay == Stay::Leaving { is_settled: true },
                    acquired_now: false,
                    rests: self.rests.written(now),
                });
            }
            if matches!(self.stay, Stay::Leaving { .. }) {
                self.stay = Stay::Left;
                return None;
            }
            self.rests.gave_back();
        }
        if !mine {
            self.terms.is_settled = seen.there && record.holder.is_none() && record.is_settled;
        }
        let claim = Claim {
            holder: Some(self.me.clone()),
            duration: self.timing.duration,
            transitions: record.transitions.saturating_add(u32::from(!mine)).max(self.terms.least),
            is_settled: false,
            acquired_now: !mine,
            rests: self.rests.written(now),
        };
        match (seen.there, mine || now >= self.free_at(seen)) {
            (true, true) => replace(claim),
            (false, true) => Some(Request::Create(claim)),
            (_, false) => Some(Request::Read),
        }
    }

    /// Whether this replica must release the Lease if it is the holder.
    fn gives_back(&self) -> bool {
        matches!(self.stay, Stay::Leaving { .. }) || self.rests.gives_back()
    }

    /// Whether this replica may take the Lease without waiting. The deletion of the Lease is not enough: another
    /// replica may have been the holder between the last read and the deletion.
    fn is_mine(&self, seen: &Seen) -> bool {
        let named = seen.stored.record.holder.as_deref() == Some(&*self.me);
        named && (seen.there || self.term.is_some())
    }

    /// The time at which this replica may take the Lease. Until then, the last holder may act, even if the Lease no
    /// longer exists.
    fn free_at(&self, seen: &Seen) -> Moment {
        let record = &seen.stored.record;
        let is_dead = |holder: &str| self.dead.iter().any(|dead| **dead == *holder);
        let free = if seen.there { record.holder.as_deref().is_none_or(is_dead) } else { seen.never };
        let duration = record.duration.unwrap_or(self.timing.duration);
        let free = if free { Moment::START } else { seen.since + duration };
        let Some(rested) = self.rests.until() else { return free };
        // If no other replica takes the Lease, take the Lease again before the backoff ends. A failing leader is better
        // than no leader.
        rested.max(free).min(seen.since.max(free) + self.timing.duration)
    }

    /// Handles the result of the request in flight. A successful result is the current Lease, or `None` if no Lease
    /// exists.
    pub fn answered(&mut self, result: Result<Option<Stored>, Failure>, now: Moment) {
        let Some((request, sent)) = self.in_flight.take() else { return };
        self.lapse(now);
        self.next = sent + self.timing.retry_period;
        let again = std::mem::take(&mut self.look_again);
        match result {
            Ok(stored) => {
                let wrote = stored.is_some() && request != Request::Read;
                self.look(stored, now);
                if wrote {
                    self.conflicts = 0;
                    if self.holder() == Some(&*self.me) {
                        self.renewed(sent, now);
                    }
                } else {
                    self.fresh = !again;
                    self.hurry(now);
                    if now < self.next {
                        self.conflicts = 0;
                    }
                }
            }
            Err(failure) => {
                self.fresh = false;
                match failure {
                    // Another replica wrote the Lease first. Read the Lease immediately, but never in a tight loop.
                    Failure::Conflict if self.conflicts == 0 => self.next = now,
                    // The request may have been applied. Read the Lease, so that this replica can still renew the Lease
                    // before its term ends.
                    Failure::Other(_) if self.term.is_some() || self.gives_back() => {
                        self.next = now + self.timing.retry_period / 4;
                    }
                    Failure::Conflict | Failure::Other(_) => {}
                }
                self.conflicts += u32::from(failure == Failure::Conflict);
            }
        }
        if again || (self.gives_back() && self.fresh) {
            self.next = now;
        }
    }

    /// Handles the state of the Lease from a watch. `None`: the Lease was deleted.
    pub fn observed(&mut self, stored: Option<Stored>, now: Moment) {
        self.lapse(now);
        // The state from the watch may be older or newer than the answer of the request in flight. The answer takes
        // precedence.
        if self.in_flight.is_some() {
            self.look_again = true;
        } else {
            self.look(stored, now);
            self.hurry(now);
        }
    }

    /// Handles the termination of a container in a Headgate pod. Returns whether the termination is the first proof
    /// that the holder has terminated. The Lease is then free.
    pub fn ended(&mut self, container: &EndedContainer, now: Moment) -> bool {
        self.lapse(now);
        let Some(dead) = proof::of(container).filter(|dead| *dead != &*self.me) else { return false };
        if self.dead.iter().any(|known| **known == *dead) {
            return false;
        }
        if self.dead.len() == DEAD {
            self.dead.remove(0);
        }
        self.dead.push(dead.into());
        // If a request is in flight, the machine first handles its answer and then uses the proof.
        self.hurry(now);
        self.holder() == Some(dead)
    }

    /// Releases the Lease because this replica cannot lead. `pause`: the length of the backoff.
    pub fn steps_down(&mut self, reason: Reason, pause: Duration, now: Moment) {
        self.lapse(now);
        if self.term.take().is_some() {
            let reason = reason.as_str().into();
            let note = Rest { identity: Box::from(&*self.me), since: Box::default(), pause, reason };
            self.rests.begin(note, now + pause);
            self.next = now;
        }
    }

    /// Releases the Lease: this replica no longer leads. The release is complete when [`has_left`](Self::has_left)
    /// returns true. `is_settled`: none of this replica's calls can take effect late.
    pub fn leave(&mut self, is_settled: bool, now: Moment) {
        // A term that has run out may have had a successor.
        let is_settled = is_settled && self.term(now).is_some();
        self.term = None;
        self.stay = Stay::Leaving { is_settled };
        self.next = now;
    }

    /// A leader of this term has written a ledger, although this replica leads with an earlier term. Ends the term. If
    /// this replica holds the Lease, a term with a larger number begins. If not, another replica leads.
    pub fn outdated(&mut self, by: u64, now: Moment) {
        let least = u32::try_from(by).unwrap_or(u32::MAX).saturating_add(1);
        if least > self.terms.least {
            self.terms.least = least;
            self.term = None;
            (self.fresh, self.next) = (false, now);
        }
    }

    /// Takes in the present content.
    fn look(&mut self, stored: Option<Stored>, now: Moment) {
        self.fresh = true;
        self.rests.look(stored.as_ref().map_or(&[][..], |stored| &stored.rests[..]), now);
        match (stored, &mut self.seen) {
            (Some(stored), Some(seen)) if seen.stored.record == stored.record && seen.there => {
                seen.stored.version = stored.version;
            }
            (Some(stored), seen) => *seen = Some(Seen { stored, since: now, there: true, never: false }),
            (None, Some(seen)) if seen.there => {
                seen.there = false;
                // The holder may have renewed the Lease just before the deletion.
                seen.since = now;
                seen.never = false;
            }
            (None, Some(_)) => {}
            (None, seen @ None) => {
                let record = Record {
                    holder: None,
                    duration: None,
                    transitions: 0,
                    is_settled: false,
                    acquired: None,
                    renewed: None,
                };
                let stored = Stored { version: Box::default(), record, rests: Vec::new() };
                *seen = Some(Seen { stored, since: now, there: false, never: true });
            }
        }
        let lost = self.holder().is_some_and(|holder| *holder != *self.me);
        if lost {
            self.term = None;
        }
    }

    /// Makes the next request due when this replica can take, renew or release the Lease. The request may be due
    /// immediately.
    fn hurry(&mut self, now: Moment) {
        let Some(seen) = &self.seen else { return };
        let mine = self.is_mine(seen);
        let act = if mine || self.gives_back() { now } else { self.free_at(seen).max(now) };
        self.next = self.next.min(act);
    }

    fn renewed(&mut self, sent: Moment, now: Moment) {
        if self.gives_back() {
            return;
        }
        let until = sent + self.timing.renew_deadline;
        match &mut self.term {
            Some(term) => term.until = until,
            None if now < until => {
                self.terms.count += 1;
                let transitions = self.seen.as_ref().map_or(0, |seen| seen.stored.record.transitions);
                let Terms { count: number, is_settled, .. } = self.terms;
                self.term = Some(LeaseTerm { number, transitions, is_settled, until });
                // A term after this one follows calls of this replica itself.
                self.terms.is_settled = false;
            }
            None => {}
        }
    }

    /// Ends an expired term, so that a late answer does not extend the term.
    fn lapse(&mut self, now: Moment) {
        if self.term.is_some_and(|term| term.until <= now) {
            self.term = None;
        }
    }
}
