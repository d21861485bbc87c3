//! Which replica leads: the algorithm of client-go's leader election, as a state machine without a clock or a network.
//!
//! One Lease object names the holder. The holder renews it every retry period, and the others read it at the same rate.
//! They take it when it was released, or when it has not *changed* for its duration. Each replica measures that with
//! its own monotonic clock, from the moment when it saw the last change.
//!
//! Times in the Lease come from other nodes' clocks, and replicas only compare them. Each write names the version that
//! it replaces, so if two replicas take the Lease at once, one fails.
//!
//! The machine owns what it has seen of the Lease, and until when this replica may act ([`Lease::term`]). It sends
//! one request at a time. It assumes nothing about a request without an answer: it reads again. If no renewal
//! succeeds, the term ends [`Timing::renew_deadline`] after the last successful renewal was *sent*. That is before
//! any other replica can take over, and only a renewal extends it.
//!
//! No replica waits for a holder that has provably terminated (`proof`): such a holder renews and begins nothing any
//! more. The requests that it had sent may still arrive at the API server and at AWS. The new leader looks at the
//! ledgers again when none of them can ([`Term`](super::Term)). People who may write the status of Headgate's own pods
//! can forge that proof. Two replicas then lead until the living holder reads the Lease.
//!
//! A holder that cannot lead releases the Lease and is in backoff (`rest`, [`Ability`](super::ability::Ability)). It
//! takes the Lease again when the backoff is over, or when no other replica has taken it for the duration of the
//! Lease.
//!
//! Unlike client-go, the machine also waits when somebody deletes the Lease, because the holder may still act. It
//! cannot know about a Lease that was created and deleted while no replica read it. Do not delete the Lease.

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

/// How long a Lease lasts, and how often replicas access it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    duration: Duration,
    renew_deadline: Duration,
    retry_period: Duration,
}

/// Why a timing is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TimingError {
    /// The Lease stores whole seconds.
    #[error("the lease duration is {0:?}; set whole seconds, at least 1s")]
    NotWholeSeconds(Duration),
    /// The holder would still act while others may take over.
    #[error("the renew deadline is {deadline:?}; set less than the lease duration, {duration:?}")]
    DeadlineTooLong {
        /// The deadline.
        deadline: Duration,
        /// The duration.
        duration: Duration,
    },
    /// One lost request would end the term.
    #[error(
        "the retry period is {retry:?}; set at most half of the renew deadline, {deadline:?}, so that one lost \
         request does not end the leadership, and at least 10ms"
    )]
    RetryTooLong {
        /// The period.
        retry: Duration,
        /// The deadline.
        deadline: Duration,
    },
}

impl Default for Timing {
    /// The defaults of client-go: 15 s, 10 s, 2 s.
    fn default() -> Self {
        Self {
            duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }
}

impl Timing {
    /// Makes a timing, if it is valid.
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

    /// A Lease that has not changed for this long is free.
    pub const fn duration(&self) -> Duration {
        self.duration
    }

    /// The holder stops this long after it sent the last renewal that succeeded.
    pub const fn renew_deadline(&self) -> Duration {
        self.renew_deadline
    }

    /// How often the holder renews and the others look.
    pub const fn retry_period(&self) -> Duration {
        self.retry_period
    }

    /// The timeout of one request. Several must fit into the renew deadline.
    pub fn request_timeout(&self) -> Duration {
        self.renew_deadline / 4
    }
}

/// A request about the Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Read the Lease, consistently.
    Read,
    /// Create the Lease.
    Create(Claim),
    /// Replace this version of the Lease, and no other.
    Replace {
        /// The version that must be the current one.
        version: Box<str>,
        /// What to write.
        claim: Claim,
    },
}

/// How a request failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The Lease has changed since then, does not exist, or exists already. Nothing was written.
    Conflict,
    /// Anything else; a write may or may not have been applied.
    Other(Box<str>),
}

/// What was last seen of the Lease.
#[derive(Clone, Debug)]
struct Seen {
    stored: Stored,
    /// When this record was first seen, or the deletion of the Lease.
    since: Moment,
    /// Whether the Lease existed at the last look.
    there: bool,
    /// Whether the Lease never existed. Then no replica holds it, as far as this one can know.
    never: bool,
}

/// The state machine. See the module.
#[derive(Clone, Debug)]
pub struct Lease {
    me: Arc<str>,
    timing: Timing,
    seen: Option<Seen>,
    /// Whether `seen` is the result of the last request, as far as is known.
    fresh: bool,
    in_flight: Option<(Request, Moment)>,
    /// When the next request is due.
    next: Moment,
    conflicts: u32,
    /// Whether a watch has shown the Lease while a request was in flight.
    look_again: bool,
    term: Option<LeaseTerm>,
    terms: Terms,
    /// The replicas that have provably terminated, the latest one last.
    dead: Vec<Box<str>>,
    rests: Rests,
    stay: Stay,
}

/// The number of terminated replicas that are remembered. One of them may have written the Lease before it terminated,
/// and this replica may see that write later.
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
    /// A candidate with the name `me`, which no other replica has or ever had.
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

    /// The term of this replica, if it leads at `now`: until when it leads if nothing is renewed.
    pub fn term(&self, now: Moment) -> Option<LeaseTerm> {
        self.term.filter(|term| now < term.until)
    }

    /// The holder of the Lease, if it is known.
    pub fn holder(&self) -> Option<&str> {
        let seen = self.seen.as_ref().filter(|seen| seen.there)?;
        seen.stored.record.holder.as_deref()
    }

    /// The pod whose containers could prove that the holder has terminated.
    pub fn pod_of_holder(&self) -> Option<&str> {
        self.holder().and_then(proof::pod_of)
    }

    /// Whether the replica in this pod could not lead, has released the Lease, and is in backoff.
    pub fn rests(&self, pod: &str, now: Moment) -> bool {
        self.rests.has(pod, now)
    }

    /// Whether this replica has released the Lease, or had nothing to release.
    pub fn has_left(&self) -> bool {
        self.stay == Stay::Left
    }

    /// When to call [`request`](Self::request) next. `None` while a request is in flight, or after leaving.
    pub fn due(&self) -> Option<Moment> {
        (self.in_flight.is_none() && self.stay != Stay::Left).then_some(self.next)
    }

    /// The request that is due, if one is. It is in flight from now on.
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
                // Like client-go: the Lease expires in a second, also for programs that do not read the holder.
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

    /// Whether this replica should release the Lease, if it holds it.
    fn gives_back(&self) -> bool {
        matches!(self.stay, Stay::Leaving { .. }) || self.rests.gives_back()
    }

    /// Whether this replica may take the Lease without waiting. A deleted Lease proves nothing: another replica may
    /// have held it between our last read and its deletion.
    fn is_mine(&self, seen: &Seen) -> bool {
        let named = seen.stored.record.holder.as_deref() == Some(&*self.me);
        named && (seen.there || self.term.is_some())
    }

    /// When this replica may take the Lease. The last holder may act until then, even if the object does not exist.
    fn free_at(&self, seen: &Seen) -> Moment {
        let record = &seen.stored.record;
        let is_dead = |holder: &str| self.dead.iter().any(|dead| **dead == *holder);
        let free = if seen.there { record.holder.as_deref().is_none_or(is_dead) } else { seen.never };
        let duration = record.duration.unwrap_or(self.timing.duration);
        let free = if free { Moment::START } else { seen.since + duration };
        let Some(rested) = self.rests.until() else { return free };
        // A leader that could not lead is better than none.
        rested.max(free).min(seen.since.max(free) + self.timing.duration)
    }

    /// The request in flight has ended. A successful result is the present Lease, or `None` if there is no Lease.
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
                    // Another replica was faster. Read at once which one, but never in a tight loop.
                    Failure::Conflict if self.conflicts == 0 => self.next = now,
                    // The request may have been applied. Read, and then renew, while there is time.
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

    /// A watch shows the Lease. `None`: it was deleted.
    pub fn observed(&mut self, stored: Option<Stored>, now: Moment) {
        self.lapse(now);
        // This may be older or newer than what a request in flight returns. The answer decides.
        if self.in_flight.is_some() {
            self.look_again = true;
        } else {
            self.look(stored, now);
            self.hurry(now);
        }
    }

    /// A container of Headgate's own has terminated. Returns whether that proves for the first time that the holder has
    /// terminated. Then its Lease is free.
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
        // The answer to a request in flight is handled first, and takes this into account.
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
    /// this replica holds the Lease, a term with a larger number begins. Otherwise another replica leads.
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
                // The holder may have renewed it a moment before it was deleted.
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

    /// Makes the next request due at once if this replica can take or renew the Lease, or else when it can.
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

    /// Ends an expired term, so that a late answer does not revive it.
    fn lapse(&mut self, now: Moment) {
        if self.term.is_some_and(|term| term.until <= now) {
            self.term = None;
        }
    }
}
