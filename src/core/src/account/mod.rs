//! An account of AWS in a region, with the role that is used there: what is known of its target groups by name, and how
//! many calls it may be sent.
//!
//! ```text
//!  directory   which target group does this name mean?
//!  waiting     for how long have calls waited for a token, or their turn?
//! ```
//!
//! * **Owns**: the directory of names; the lanes and buckets that calls go through ([`rate_limit`](crate::rate_limit));
//!   since when calls wait.
//! * **Guarantees**: equal names mean the same target group only within one account and region; what AWS throttles in one
//!   slows down no other.
//! * **Assumes**: each call that goes is answered, or given up, and its ticket comes back.
//! * **Caveat**: one account and region is served so far. A target group of another one is refused, with a sentence.

mod directory;
mod waiting;

use std::{collections::BTreeSet, time::Duration};

use self::{directory::Directory, waiting::Waiting};
use crate::{
    binding::Resolution,
    model::{Failure, GroupRef, Moment, TargetGroupArn, TargetGroupFacts},
    rate_limit::{Due, Lanes, Limits, Ticket},
};

/// A call that goes now: what it has taken, and for how long it had to wait.
pub type Turn = (Ticket, Duration);

/// See the module.
#[derive(Debug)]
pub struct Account {
    directory: Directory,
    lanes: Lanes,
    removals: Waiting,
    additions: Waiting,
    reads: Waiting,
}

/// What names mean.
impl Account {
    /// Nothing is known yet, and all buckets are full. `seed` is for jitter.
    pub fn new(region: &str, limits: Limits, seed: u64) -> Self {
        Self {
            directory: Directory::new(region, seed),
            lanes: Lanes::new(limits),
            removals: Waiting::default(),
            additions: Waiting::default(),
            reads: Waiting::default(),
        }
    }

    /// What is known of the target group that is meant.
    pub fn resolve(&self, reference: &GroupRef) -> Resolution {
        self.directory.resolve(reference)
    }

    /// These are used, and no others.
    pub fn keep(&mut self, used: &BTreeSet<GroupRef>) {
        self.directory.keep(used);
    }

    /// A look-up has ended. Says whether anything is known now that was not before.
    pub fn looked_up(
        &mut self,
        reference: &GroupRef,
        result: Result<TargetGroupFacts, Failure>,
        now: Moment,
    ) -> bool {
        self.directory.answered(reference, result, now)
    }

    /// AWS says that this target group does not exist (any more).
    pub fn gone(&mut self, group: &TargetGroupArn) {
        self.directory.gone(group);
    }
}

/// Which call may go.
impl Account {
    /// A target of this group has to go from now on.
    pub fn removal_caused(&mut self, group: &TargetGroupArn, now: Moment) {
        self.lanes.removal_caused(group, now);
    }

    /// Of the groups with removals that are due, the one whose call goes now.
    pub fn removal<'a>(
        &mut self,
        due: impl Iterator<Item = Due<'a>>,
        now: Moment,
    ) -> Option<(TargetGroupArn, Turn)> {
        let (group, ticket) = self.lanes.removal(due, now)?;
        Some((group.clone(), (ticket, self.removals.goes(group, now))))
    }

    /// Whether a registration in this group may go now, which is due while no removal is.
    pub fn addition(&mut self, group: &TargetGroupArn, now: Moment) -> Option<Turn> {
        let ticket = self.lanes.addition(now)?;
        Some((ticket, self.additions.goes(group, now)))
    }

    /// Whether this group, which is due to be read, may be now.
    pub fn read(&mut self, group: &TargetGroupArn, now: Moment) -> Option<Turn> {
        let ticket = self.lanes.read(now)?;
        Some((ticket, self.reads.goes(group, now)))
    }

    /// A target group that is to be looked up now, and may be.
    pub fn look_up(&mut self, now: Moment) -> Option<(GroupRef, Ticket)> {
        let reference = self.directory.due(now)?;
        let ticket = self.lanes.look_up(now)?;
        self.directory.start(&reference);
        Some((reference, ticket))
    }

    /// These groups have removals that are due and have to wait; and no others.
    pub fn removals_wait(&mut self, groups: impl Iterator<Item = TargetGroupArn>, now: Moment) {
        self.removals.stay(groups, now);
    }

    /// The same of registrations.
    pub fn additions_wait(&mut self, groups: impl Iterator<Item = TargetGroupArn>, now: Moment) {
        self.additions.stay(groups, now);
    }

    /// The same of reads.
    pub fn reads_wait(&mut self, groups: impl Iterator<Item = TargetGroupArn>, now: Moment) {
        self.reads.stay(groups, now);
    }

    /// A call has been answered, or given up.
    pub fn answered(&mut self, ticket: Ticket, throttled: bool, now: Moment) {
        self.lanes.answered(ticket, throttled, now);
    }
}

/// When something may happen.
impl Account {
    /// When one of these groups may have its removals sent.
    pub fn next_removal<'a>(&mut self, due: impl Iterator<Item = Due<'a>>, now: Moment) -> Option<Moment> {
        self.lanes.next_removal(due, now)
    }

    /// When a registration may go, if no removal is due.
    pub fn next_addition(&mut self, now: Moment) -> Moment {
        self.lanes.next_addition(now)
    }

    /// When the next target group may be read.
    pub fn next_read(&mut self, now: Moment) -> Moment {
        self.lanes.next_read(now)
    }

    /// When a look-up is due and may go, or what is throttled has changed.
    pub fn next_due(&mut self, now: Moment) -> Option<Moment> {
        let look_up = self.directory.next_due().map(|due| due.max(self.lanes.next_look_up(now)));
        look_up.into_iter().chain(self.lanes.next_recovery()).min()
    }

    /// How often each of so many target groups can be read, if all are read alike.
    pub fn read_period(&self, groups: usize) -> Duration {
        self.lanes.read_period(groups)
    }

    /// The calls that AWS throttles, until they are as fast as before.
    pub fn throttled(&mut self, now: Moment) -> Option<&'static str> {
        self.lanes.throttled(now)
    }
}
