//! Everything the engine keeps about one target group.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use crate::{
    backoff::Backoff,
    health::HealthState,
    lanes::Due,
    observe::Observation,
    planted::{Bug, planted},
    reason::Reason,
    registration::Registrations,
    target::Target,
    target_group::TargetGroupArn,
    time::Moment,
    view::GroupView,
};

/// While something is under way, the group is read this often.
const READ_SOON: Duration = Duration::from_secs(2);
/// After a Register or Deregister has ended.
const READ_AFTER_CHANGE: Duration = Duration::from_secs(1);
/// While a removed target is still remembered.
const READ_FOR_TOMBSTONES: Duration = Duration::from_secs(20);

/// One target group: its registrations, its reads and its troubles, each with a backoff of its own.
#[derive(Debug)]
pub struct Group {
    pub registrations: Registrations,
    pub observation: Observation,
    pub removals: Backoff,
    pub additions: Backoff,
    pub reads: Backoff,
    /// What AWS refuses, by action and, if it is about one, target: said on the Services bound to the group.
    pub refusals: BTreeMap<(&'static str, Option<Target>), (Reason, String)>,
}

impl Group {
    pub fn new(seed: u64) -> Self {
        let backoff =
            |first, cap| Backoff::new(Duration::from_millis(first), Duration::from_millis(cap), seed);
        Self {
            registrations: Registrations::default(),
            observation: Observation::default(),
            removals: backoff(100, 2_000),
            additions: backoff(250, 10_000),
            reads: backoff(500, 10_000),
            refusals: BTreeMap::new(),
        }
    }

    /// When a removal that is due was caused, if it may be tried now.
    pub fn removal(&self, now: Moment) -> Option<Moment> {
        self.registrations.oldest_removal().filter(|_| self.removals.is_over(now))
    }

    /// When a registration that is due was caused, if it may be tried now.
    pub fn addition(&self, now: Moment) -> Option<Moment> {
        self.registrations.oldest_addition().filter(|_| self.additions.is_over(now))
    }

    /// When the next read is due; `None` while one is in flight.
    pub fn next_read(&self) -> Option<Moment> {
        self.observation.due().map(|due| due.max(self.reads.until()))
    }

    /// When a removal that waits for its backoff may be tried.
    pub fn next_removal(&self) -> Option<Moment> {
        self.registrations.oldest_removal().map(|_| self.removals.until())
    }

    /// When a registration that waits for its backoff, or was set aside, may be tried.
    pub fn next_addition(&self) -> Option<Moment> {
        let addition = self.registrations.oldest_addition().map(|_| self.additions.until());
        addition.into_iter().chain(self.registrations.next_take_up()).min()
    }

    /// A Register or Deregister has ended: look soon.
    pub fn changed(&mut self, now: Moment) {
        self.observation.again_in(now, READ_AFTER_CHANGE);
    }

    /// A read has ended; the next is due after `rarely` if nothing is under way.
    pub fn observed(&mut self, states: Vec<(Target, HealthState)>, rarely: Duration, now: Moment) {
        self.observation.read(states.into_iter().collect());
        self.reads.succeeded();
        if let Some(began) = self.observation.last_read() {
            self.registrations.observed(self.observation.states(), began, now);
        }
        let settled = |target: &Target| matches!(self.observation.state(target), Some(HealthState::Healthy));
        let wait = if !self.registrations.wanted().all(settled) {
            READ_SOON
        } else if self.registrations.has_tombstones() {
            READ_FOR_TOMBSTONES.min(rarely)
        } else {
            rarely
        };
        self.observation.again_in(now, wait);
    }

    /// The picture of it.
    pub fn view(&self, group: &TargetGroupArn) -> GroupView {
        let mut states = BTreeMap::new();
        let mut foreign = 0;
        for (target, state) in self.observation.states() {
            *states.entry(*state).or_insert(0) += 1;
            foreign += usize::from(*state != HealthState::Draining && !self.registrations.knows(target));
        }
        GroupView { group: group.clone(), states, foreign, last_read: self.observation.last_read() }
    }
}

/// The groups, and which of them have something to do.
#[derive(Debug, Default)]
pub struct Groups {
    groups: BTreeMap<TargetGroupArn, Group>,
    created: u64,
}

impl Groups {
    pub fn get(&self, arn: &TargetGroupArn) -> Option<&Group> {
        self.groups.get(arn)
    }

    pub fn get_mut(&mut self, arn: &TargetGroupArn) -> Option<&mut Group> {
        self.groups.get_mut(arn)
    }

    pub fn get_or_create(&mut self, arn: &TargetGroupArn, seed: u64) -> &mut Group {
        self.groups.entry(arn.clone()).or_insert_with(|| {
            self.created += 1;
            Group::new(seed.wrapping_add(self.created))
        })
    }

    /// Takes up again what was set aside until now.
    pub fn take_up(&mut self, now: Moment) {
        for group in self.groups.values_mut() {
            group.registrations.take_up(now);
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.groups.len()
    }

    /// The groups whose read is due, the one that has waited longest first.
    pub fn reads(&self, now: Moment) -> Vec<TargetGroupArn> {
        let due = self.groups.iter().filter_map(|(arn, group)| group.next_read().map(|due| (due, arn)));
        let mut due: Vec<_> = due.filter(|(due, _)| *due <= now).collect();
        due.sort();
        due.into_iter().map(|(_, arn)| arn.clone()).collect()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&TargetGroupArn, &Group)> {
        self.groups.iter()
    }

    /// The groups with removals that are due.
    pub fn removals(&self, now: Moment) -> impl Iterator<Item = Due<'_>> {
        let stopped =
            planted(Bug::OneBackoffForAll) && self.groups.values().any(|group| !group.removals.is_over(now));
        let groups = self.groups.iter().filter(move |_| !stopped);
        groups.filter_map(move |(arn, group)| {
            let targets = group.registrations.removals();
            group.removal(now).map(|since| Due { group: arn, since, targets })
        })
    }

    /// The group whose due registration has waited longest.
    pub fn next_addition(&self, now: Moment) -> Option<TargetGroupArn> {
        let due = self.groups.iter().filter_map(|(arn, group)| group.addition(now).map(|since| (since, arn)));
        due.min_by_key(|(since, _)| *since).map(|(_, arn)| arn.clone())
    }

    /// Drops the groups that are bound to nothing and have nothing left to do; returns them.
    pub fn drop_unused(&mut self, bound: &BTreeSet<TargetGroupArn>) -> Vec<TargetGroupArn> {
        let unused: Vec<TargetGroupArn> = self
            .groups
            .iter()
            .filter(|(arn, group)| group.registrations.is_empty() && !bound.contains(*arn))
            .map(|(arn, _)| arn.clone())
            .collect();
        for arn in &unused {
            self.groups.remove(arn);
        }
        unused
    }
}
