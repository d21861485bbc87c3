//! The entries of one target group, by target. Each change of an entry derives again what the target waits for and
//! which pods it belongs to.

use std::collections::{BTreeMap, BTreeSet};

pub use super::queue::{Action, Queue, Tally};
use super::{
    entry::Entry,
    refusals::{Refused, Waiting},
};
use crate::{
    ledger::PodMark,
    model::{Moment, Target},
    multimap::Multimap,
};

/// The values derived from one entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Derived {
    /// What the target waits for, and since when.
    queue: Option<(Queue, Moment)>,
    /// When another wait of the target ends because time passes.
    until: Option<Moment>,
    /// Whether the deregistration is held, or may be.
    spare: bool,
    tally: Tally,
    pods: [Option<PodMark>; 2],
}

impl Derived {
    fn of(entry: &Entry) -> Self {
        Self {
            queue: entry.queue().map(|queue| (queue, entry.since)),
            until: entry.waits_until(),
            spare: entry.is_spare(),
            tally: entry.tally(),
            pods: entry.pods(),
        }
    }
}

/// See the module docs.
#[derive(Clone, Debug, Default)]
pub struct Entries {
    all: BTreeMap<Target, (Entry, Derived)>,
    queues: BTreeMap<Queue, BTreeSet<(Moment, Target)>>,
    untils: BTreeSet<(Moment, Target)>,
    spare: BTreeSet<Target>,
    tally: Tally,
    of_pods: Multimap<PodMark, Target>,
    /// The pods whose targets have changed since the last call of [`Self::take_pods_changed`].
    pods_changed: BTreeSet<PodMark>,
}

impl Entries {
    pub fn get(&self, target: &Target) -> Option<&Entry> {
        self.all.get(target).map(|(entry, _)| entry)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&Target, &Entry)> {
        self.all.iter().map(|(target, (entry, _))| (target, entry))
    }

    /// The targets whose entries satisfy `holds`.
    pub fn which<'a>(&'a self, holds: impl Fn(&Entry) -> bool + 'a) -> impl Iterator<Item = &'a Target> {
        self.iter().filter(move |(_, entry)| holds(entry)).map(|(target, _)| target)
    }

    pub fn values(&self) -> impl Iterator<Item = &Entry> {
        self.all.values().map(|(entry, _)| entry)
    }

    /// All entries, for changes that affect no derived value, such as the evidence of their health.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&Target, &mut Entry)> {
        self.all.iter_mut().map(|(target, (entry, _))| (target, entry))
    }

    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The targets in this queue, the longest waiting first, each with the start of its wait.
    pub fn waiting(&self, queue: Queue) -> impl DoubleEndedIterator<Item = &(Moment, Target)> {
        self.queues.get(&queue).into_iter().flatten()
    }

    /// The number of targets in this queue.
    pub fn count(&self, queue: Queue) -> usize {
        self.queues.get(&queue).map_or(0, BTreeSet::len)
    }

    /// The parts of rejected calls that are being searched, in order.
    pub fn parts(&self, action: Action) -> impl DoubleEndedIterator<Item = &BTreeSet<(Moment, Target)>> {
        let parts = action.queue(Refused::Among(0))..=action.queue(Refused::Among(u32::MAX));
        self.queues.range(parts).map(|(_, waiting)| waiting)
    }

    /// All targets that wait for this call, including rejected ones.
    pub fn all_waiting(&self, action: Action) -> impl Iterator<Item = &(Moment, Target)> {
        self.queues.range(action.queue(Refused::No)..=action.queue(Refused::Waits)).flat_map(|(_, all)| all)
    }

    /// How many targets wait for this call, by what AWS has rejected.
    pub fn tried(&self, action: Action) -> Waiting {
        Waiting {
            first: self.count(action.queue(Refused::No)),
            searched: self.parts(action).map(BTreeSet::len).sum(),
            again: self.count(action.queue(Refused::Waits)),
        }
    }

    /// The target whose wait ends next because time passes, and when that is.
    pub fn next_until(&self) -> Option<(Moment, Target)> {
        self.untils.first().copied()
    }

    /// The targets whose deregistration is held, or may be.
    pub fn spare(&self) -> impl Iterator<Item = &Target> {
        self.spare.iter()
    }

    /// How many targets are wanted, registered, and serving.
    pub const fn tally(&self) -> Tally {
        self.tally
    }

    /// The targets that belong, or belonged, to a pod.
    pub fn of_pod(&self, mark: PodMark) -> impl Iterator<Item = (&Target, &Entry)> {
        let targets = self.of_pods.of(&mark);
        targets.filter_map(|target| Some((target, self.get(target)?)))
    }

    /// Whether a target belongs, or belonged, to this pod.
    pub fn knows_pod(&self, mark: PodMark) -> bool {
        self.of_pods.has(&mark)
    }

    /// The pods whose targets have changed since the last call.
    pub fn take_pods_changed(&mut self) -> BTreeSet<PodMark> {
        std::mem::take(&mut self.pods_changed)
    }

    /// Changes the entry of `target`, if there is one.
    pub fn change(&mut self, target: Target, change: impl FnOnce(&mut Entry)) {
        let Some((entry, before)) = self.all.get_mut(&target) else { return };
        change(entry);
        let after = Derived::of(entry);
        let before = std::mem::replace(before, after);
        self.derive(target, before, after);
    }

    /// Adds an entry. Nothing is derived from it before its first change.
    pub fn insert(&mut self, target: Target, entry: Entry) {
        self.all.insert(target, (entry, Derived::default()));
    }

    pub fn remove(&mut self, target: &Target) -> Option<Entry> {
        let (entry, derived) = self.all.remove(target)?;
        self.derive(*target, derived, Derived::default());
        Some(entry)
    }

    fn derive(&mut self, target: Target, before: Derived, after: Derived) {
        if before == after {
            return;
        }
        if let Some((queue, since)) = before.queue
            && let Some(waiting) = self.queues.get_mut(&queue)
        {
            waiting.remove(&(since, target));
            // Rejected calls keep getting new parts, so empty queues are removed.
            if waiting.is_empty() {
                self.queues.remove(&queue);
            }
        }
        if let Some((queue, since)) = after.queue {
            self.queues.entry(queue).or_default().insert((since, target));
        }
        if let Some(until) = before.until {
            self.untils.remove(&(until, target));
        }
        self.untils.extend(after.until.map(|until| (until, target)));
        if after.spare {
            self.spare.insert(target);
        } else {
            self.spare.remove(&target);
        }
        self.tally.take(before.tally);
        self.tally.add(after.tally);
        self.derive_pods(target, before.pods, after.pods);
    }

    fn derive_pods(&mut self, target: Target, before: [Option<PodMark>; 2], after: [Option<PodMark>; 2]) {
        if before == after {
            return;
        }
        for mark in before.into_iter().flatten() {
            self.of_pods.take(&mark, &target);
        }
        for mark in after.into_iter().flatten() {
            self.of_pods.put(&mark, &target);
        }
        self.pods_changed.extend(before.into_iter().chain(after).flatten());
    }
}
