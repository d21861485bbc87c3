//! The targets that wait for a call: which of them the next call contains, and what its result means for rejections.

use super::{
    Entry, Registrations,
    entries::{Action, Queue},
    refusals::{Refusals, Refused, Try},
};
use crate::model::{FailureClass, Moment, RequestId, Target};

impl Registrations {
    /// Cause time of the oldest deregistration that may be sent now.
    pub fn oldest_removal(&self) -> Option<Moment> {
        self.next_try(Action::Deregister).map(|(_, since)| since)
    }

    /// When the next deregistration may be sent, if AWS rejects all that wait.
    pub fn next_removal(&self) -> Option<Moment> {
        let waits = self.entries.tried(Action::Deregister).again > 0;
        self.unremoved.until().filter(|_| waits)
    }

    /// How many deregistrations the next call may contain.
    pub fn next_removals(&self) -> usize {
        match self.next_try(Action::Deregister) {
            Some((Try::First, _)) => self.entries.count(Queue::Deregister(Refused::No)),
            Some(_) => 1,
            None => 0,
        }
    }

    /// Cause time of the oldest registration that may be sent now. Only one `RegisterTargets` is in flight, so that
    /// later registrations share the next call. Excludes those that AWS has rejected or will probably reject.
    pub fn oldest_addition(&self) -> Option<Moment> {
        let (why, since) = self.addition()?;
        (why == Try::First && !self.doubts_first_tries()).then_some(since)
    }

    /// Like [`Self::oldest_addition`], for those that AWS has rejected or will probably reject. The flag is true if it
    /// was rejected.
    pub fn oldest_retry(&self) -> Option<(Moment, bool)> {
        let (why, since) = self.addition()?;
        (why != Try::First || self.doubts_first_tries()).then_some((since, why != Try::First))
    }

    fn addition(&self) -> Option<(Try, Moment)> {
        let may = self.adding.call.is_none() && !self.room.is_full();
        self.next_try(Action::Register).filter(|_| may)
    }

    fn doubts_first_tries(&self) -> bool {
        self.unregistered.doubts_first_tries(self.entries.tried(Action::Register))
    }

    /// Cause time of the newest registration that was not rejected.
    pub fn newest_addition(&self) -> Option<Moment> {
        self.entries.waiting(Queue::Register(Refused::No)).next_back().map(|(since, _)| *since)
    }

    /// When a waiting target, or one that did not fit, may be tried again.
    pub fn next_take_up(&self) -> Option<Moment> {
        let tried = self.entries.tried(Action::Register);
        let room = self.room.next_due().filter(|_| tried.all() > 0);
        let refused = self.unregistered.until().filter(|_| tried.again > 0);
        let until = self.entries.next_until().map(|(until, _)| until);
        until.into_iter().chain(room).chain(refused).chain(self.holders.next_due()).min()
    }

    /// How many registrations did not fit when AWS last reported so. Zero if none waits.
    pub fn unplaced(&self) -> usize {
        let waits = self.entries.tried(Action::Register).all() > 0 || self.adding.call.is_some();
        if waits { self.adding.unplaced } else { 0 }
    }

    /// Why the next call of this action is sent, if there is one, and since when its longest waiting target waits.
    pub(super) fn next_try(&self, action: Action) -> Option<(Try, Moment)> {
        let refusals = match action {
            Action::Register => &self.unregistered,
            Action::Deregister => &self.unremoved,
        };
        let why = refusals.next(self.entries.tried(action))?;
        let since = match why {
            Try::First => self.entries.waiting(action.queue(Refused::No)).next(),
            Try::Part => self.entries.parts(action).flatten().next(),
            Try::Alone => self.entries.parts(action).flatten().min(),
            Try::Again => self.entries.waiting(action.queue(Refused::Waits)).next(),
        };
        since.map(|(since, _)| (why, *since))
    }

    /// The targets of the next call of this action: targets that were never rejected, one part of a rejected call, or a
    /// single target.
    pub(super) fn choose(&mut self, action: Action, id: RequestId, most: usize) -> Vec<Target> {
        let Some((why, _)) = self.next_try(action) else { return Vec::new() };
        self.refusals(action).start(id, why);
        let alone = |waiting: Vec<(Moment, Target)>, refusals: &Refusals| {
            let place = refusals.place(waiting.len(), why);
            waiting.get(place).map(|(_, target)| *target).into_iter().collect()
        };
        let targets = |waiting: &mut dyn Iterator<Item = &(Moment, Target)>| -> Vec<Target> {
            waiting.take(most).map(|(_, target)| *target).collect()
        };
        match why {
            Try::First => targets(&mut self.entries.waiting(action.queue(Refused::No))),
            Try::Part => targets(&mut self.entries.parts(action).next().into_iter().flatten()),
            Try::Alone => {
                let mut searched: Vec<_> = self.entries.parts(action).flatten().copied().collect();
                searched.sort_unstable();
                alone(searched, self.refusals(action))
            }
            Try::Again => {
                let waiting = || self.entries.waiting(action.queue(Refused::Waits)).copied();
                let refusals = |(_, target): &(Moment, Target)| {
                    self.entries.get(target).map_or(0, |entry| entry.refusals)
                };
                let fewest = waiting().map(|it| refusals(&it)).min();
                let waiting = waiting().filter(|it| Some(refusals(it)) == fewest).collect();
                alone(waiting, self.refusals(action))
            }
        }
    }

    /// The rejections of this action.
    pub(super) const fn refusals(&mut self, action: Action) -> &mut Refusals {
        match action {
            Action::Register => &mut self.unregistered,
            Action::Deregister => &mut self.unremoved,
        }
    }

    /// Handles the end of a call. If AWS rejected it, returns the two parts into which its targets are divided.
    pub(super) fn tried(
        &mut self,
        action: Action,
        id: RequestId,
        targets: usize,
        failure: Option<FailureClass>,
        now: Moment,
    ) -> Option<[u32; 2]> {
        let searching = self.entries.tried(action).searched > 0;
        let refusals = self.refusals(action);
        let why = refusals.end(id);
        match failure {
            None => {
                if let Some(part) = refusals.taken(why, now) {
                    self.move_all(action, |refused| refused == Refused::Waits, Refused::Among(part));
                }
                None
            }
            Some(FailureClass::Refused) => {
                let halved = refusals.refused(why, targets, searching, now);
                if halved.alike {
                    let is_searched = |refused| matches!(refused, Refused::Among(_));
                    self.move_all(action, is_searched, Refused::Waits);
                }
                halved.parts
            }
            Some(_) => None,
        }
    }

    /// Moves all targets of this action whose rejection satisfies `from` to `to`.
    fn move_all(&mut self, action: Action, from: impl Fn(Refused) -> bool, to: Refused) {
        let concerns = |entry: &Entry| entry.is_wanted() == (action == Action::Register);
        let which = self.entries.which(|entry| concerns(entry) && from(entry.refused));
        for target in which.copied().collect::<Vec<_>>() {
            self.change(target, |entry| entry.refused = to);
        }
    }
}

/// The half of a call of `of` targets that contains the target at `at`.
pub fn half(parts: [u32; 2], at: usize, of: usize) -> u32 {
    parts[usize::from(at >= of / 2)]
}
