//! The target groups: the registrations, reads and problems of each, and which groups have something due.
//!
//! ```text
//!  bindings ─► want ─► registrations ─► what is due: removals, registrations, the ledger
//!                            ▲
//!  reads ─► observation ─────┘   the result of each read; when the next read is due
//! ```
//!
//! **Owns** all that is known about each target group: what Headgate sent to AWS
//! ([`registration`](crate::targets::registration)), the result of the last read, the backoffs, what the bindings
//! allow, and what was reported. It also owns the pods and addresses that decide about leftover targets, which only a
//! ledger names.
//!
//! **Guarantees.** A group in which nothing is due sleeps. An input therefore costs only the work of the groups that it
//! concerns. Every change of a group wakes it ([`Groups::get_mut`]).
//!
//! **Assumptions.** [`Groups::pass`] and [`Groups::sleep`] are called at the beginning and the end of each step that
//! may send something. [`crate::lanes::account`] decides which calls are sent.

mod allowed;
mod calls;
mod group;
mod observation;
mod orphans;
mod pace;
mod troubles;

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Deref,
};

pub use self::{calls::Calls, group::Group, observation::Observation};

use self::orphans::Orphans;
use crate::{
    agenda::Agenda,
    ledger::{PodMark, fnv_1a},
    model::claims::Began,
    model::{
        Call, GroupRef, Moment, Target, TargetGroupArn, Uid,
        changes::Ownership,
        grant::{Held, Holders},
        target_group::GroupSettings,
    },
    multimap::Multimap,
};

/// A selection of groups.
#[derive(Clone, Copy, Debug)]
pub enum Which<'a> {
    /// The groups with targets whose deregistration is held or may be held, and all groups that are awake.
    Spare,
    /// The groups that have, or had, a target of this pod.
    OfPod(&'a Uid),
}

/// News about a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// Headgate would send this call if the binding were not paused.
    Planned(Call),
    /// The planned calls of the group have changed.
    Shown(TargetGroupArn),
    /// The problems of the group have changed.
    Said(TargetGroupArn),
    /// A namespace has ceased to hold the group.
    Ceased(TargetGroupArn),
}

/// See the module docs. Dereferences to a map for reading.
#[derive(Clone, Debug)]
pub struct Groups {
    settings: GroupSettings,
    all: BTreeMap<TargetGroupArn, Group>,
    awake: BTreeSet<TargetGroupArn>,
    /// When each sleeping group wakes up because time has passed.
    alarms: Agenda<Moment, TargetGroupArn>,
    /// The sleeping groups with targets whose deregistration is held or may be held.
    spare: BTreeSet<TargetGroupArn>,
    /// The groups that had no binding at the last check.
    loose: BTreeSet<TargetGroupArn>,
    /// The sleeping groups that have, or had, a target of each pod.
    of_pods: Multimap<PodMark, TargetGroupArn>,
    orphans: Orphans,
    /// The number and the start of the current term, while this replica leads.
    term: Began,
}

/// Updates which pods a group knows.
fn note_pods(of_pods: &mut Multimap<PodMark, TargetGroupArn>, arn: &TargetGroupArn, group: &mut Group) {
    for mark in group.registrations.take_pods_changed() {
        if group.registrations.knows_pod(mark) {
            of_pods.put(&mark, arn);
        } else {
            of_pods.take(&mark, arn);
        }
    }
}

/// Starts a term.
pub fn begin_term(groups: &mut Groups, began: Began) {
    groups.term = began;
    for group in groups.all.values_mut() {
        group.registrations.begins(began);
    }
}

impl Groups {
    pub fn new(settings: GroupSettings) -> Self {
        Self {
            settings,
            all: BTreeMap::new(),
            awake: BTreeSet::new(),
            alarms: Agenda::default(),
            spare: BTreeSet::new(),
            loose: BTreeSet::new(),
            of_pods: Multimap::default(),
            orphans: Orphans::default(),
            term: Began { term: 0, at: Moment::START, is_settled: false },
        }
    }

    /// The groups of a replica that no longer leads. It keeps the wanted targets, and drops what
    /// Headgate sent to AWS and what AWS showed.
    pub fn after_term(before: &Self, wanted: impl Iterator<Item = Ownership>) -> Self {
        let mut after = Self::new(before.settings);
        for arn in before.all.keys() {
            after.make(arn);
        }
        for ownership in wanted {
            let arn = ownership.through.last.group.clone();
            after.make(&arn).registrations.want(ownership, false);
        }
        after
    }

    /// The leftover targets of all groups.
    pub const fn orphans(&mut self) -> &mut Orphans {
        &mut self.orphans
    }

    /// Returns a group to change, and wakes it.
    pub fn get_mut(&mut self, arn: &TargetGroupArn) -> Option<&mut Group> {
        let group = self.all.get_mut(arn)?;
        if self.awake.insert(arn.clone()) {
            self.alarms.put(arn, None);
        }
        Some(group)
    }

    /// Like [`Self::get_mut`], but creates the group if it is missing.
    pub fn make(&mut self, arn: &TargetGroupArn) -> &mut Group {
        if self.get_mut(arn).is_none() {
            self.awake.insert(arn.clone());
            self.loose.insert(arn.clone());
        }
        let seed = self.settings.seed.wrapping_add(fnv_1a(arn.as_str()));
        let group = || {
            let mut group = Group::new(&self.settings, seed);
            group.registrations.begins(self.term);
            group
        };
        self.all.entry(arn.clone()).or_insert_with(group)
    }

    /// Advances the time and wakes the groups in which something is due. Returns the groups in which held
    /// deregistrations are due now.
    pub fn pass(&mut self, now: Moment) -> Vec<TargetGroupArn> {
        while let Some(arn) = self.alarms.take(now) {
            self.awake.insert(arn);
        }
        let all = &mut self.all;
        let let_go = self.awake.iter().filter(|arn| all.get_mut(arn).is_some_and(|group| group.pass(now)));
        let_go.cloned().collect()
    }

    /// Lets the groups sleep in which nothing is due. Returns the news about the groups that were awake.
    pub fn sleep(&mut self, now: Moment) -> Vec<News> {
        let mut news = Vec::new();
        for arn in std::mem::take(&mut self.awake) {
            let Some(group) = self.all.get_mut(&arn) else { continue };
            note_pods(&mut self.of_pods, &arn, group);
            group.note_plans(&arn, &mut news);
            group.note_waiting(&arn, now, &mut news);
            news.extend(group.registrations.take_ceased().then(|| News::Ceased(arn.clone())));
            match group.next_due(now) {
                Some(due) if due <= now => _ = self.awake.insert(arn),
                due => {
                    if group.registrations.spare_their_pods().next().is_some() {
                        self.spare.insert(arn.clone());
                    } else {
                        self.spare.remove(&arn);
                    }
                    self.alarms.put(&arn, due);
                }
            }
        }
        news
    }

    /// The selected groups.
    pub fn these(&self, which: Which<'_>) -> impl Iterator<Item = (&TargetGroupArn, &Group)> {
        let arns: Box<dyn Iterator<Item = &TargetGroupArn>> = match which {
            Which::Spare => Box::new(self.awake.union(&self.spare)),
            Which::OfPod(uid) => Box::new(self.with_pod(PodMark::of(uid)).into_iter()),
        };
        arns.filter_map(|arn| Some((arn, self.all.get(arn)?)))
    }

    fn with_pod(&self, mark: PodMark) -> BTreeSet<&TargetGroupArn> {
        let asleep = self.of_pods.of(&mark).filter(|arn| !self.awake.contains(*arn));
        let knows = |arn: &&TargetGroupArn| {
            self.all.get(*arn).is_some_and(|group| group.registrations.knows_pod(mark))
        };
        asleep.chain(self.awake.iter().filter(knows)).collect()
    }

    /// The calls that are due now or later.
    pub const fn calls(&self, now: Moment) -> Calls<'_> {
        Calls { groups: self, now }
    }

    /// Drops and returns the groups that have no binding, no ledger, and nothing left to do. A standby ignores the
    /// ledger. Checks only the groups in `touched` and those that had no binding at the last check.
    pub fn drop_unused<'a>(
        &mut self,
        touched: impl Iterator<Item = &'a TargetGroupArn>,
        is_bound: impl Fn(&TargetGroupArn) -> bool,
        standby: bool,
    ) -> Vec<TargetGroupArn> {
        self.loose.extend(touched.cloned());
        self.loose.retain(|arn| !is_bound(arn));
        let mut unused = Vec::new();
        for arn in &self.loose {
            let Some(group) = self.all.get_mut(arn) else { continue };
            if !standby && group.registrations.has_ledger() {
                continue;
            }
            if group.registrations.is_empty() {
                unused.push(arn.clone());
            }
        }
        for arn in &unused {
            if let Some(mut group) = self.all.remove(arn) {
                note_pods(&mut self.of_pods, arn, &mut group);
            }
            self.alarms.put(arn, None);
            self.awake.remove(arn);
            self.spare.remove(arn);
        }
        self.loose.retain(|arn| self.all.contains_key(arn));
        unused
    }
}

impl Held for Groups {
    fn holders(&self, group: &TargetGroupArn) -> Holders<'_> {
        self.all.get(group).map_or(Holders::Unknown, |group| group.registrations.holders())
    }

    fn knows(&self, reference: &GroupRef) -> bool {
        match reference {
            GroupRef::Arn(arn) => self.all.contains_key(arn),
            GroupRef::Name(name) => self.all.keys().any(|arn| arn.name() == &**name),
        }
    }

    fn told(&self, group: &TargetGroupArn) -> BTreeSet<Target> {
        self.all.get(group).map(|group| group.registrations.told()).unwrap_or_default()
    }
}

impl Deref for Groups {
    type Target = BTreeMap<TargetGroupArn, Group>;

    fn deref(&self) -> &BTreeMap<TargetGroupArn, Group> {
        &self.all
    }
}

#[cfg(test)]
mod tests;
