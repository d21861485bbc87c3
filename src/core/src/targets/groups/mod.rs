//! The target groups: of each its registrations, its reads and its troubles; and which of them have something to do.
//!
//! ```text
//!  bindings ─► want ─► registrations ─► what is due: removals, registrations, the ledger
//!                            ▲
//!  reads ─► observation ─────┘   what each read shows; when the next one is due
//! ```
//!
//! **Owns** all that is known about each target group: what AWS was told ([`registration`](crate::targets::registration)), what the
//! last read showed, the backoffs, what is allowed in it, and what was said about it; and on which pods and addresses it
//! depends what becomes of the orphans that the ledgers left behind (`orphans.rs`).
//!
//! **Guarantees.** A group in which nothing is due sleeps until something is: each input costs what the groups cost that
//! it concerns, and not what all of them would. Whoever changes a group wakes it ([`Groups::get_mut`]).
//!
//! **Assumptions.** [`Groups::pass`] and [`Groups::sleep`] are called at the beginning and the end of each step in which
//! anything may be sent. Which calls are sent is for the lanes to say, see [`account`](crate::lanes::account).

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
    model::{
        Call, GroupRef, Moment, Target, TargetGroupArn, Uid,
        changes::Ownership,
        grant::{Held, Holders},
        target_group::GroupSettings,
    },
    multimap::Multimap,
};

/// Some of the groups.
#[derive(Clone, Copy, Debug)]
pub enum Which<'a> {
    /// Those with targets whose removal is held, or may come to be, and some others.
    Spare,
    /// Those that have to do with a pod, or had.
    OfPod(&'a Uid),
}

/// What is to be said of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// This would be called if it were not paused.
    Planned(Call),
    /// Its picture is another one.
    Shown(TargetGroupArn),
    /// Other things are wrong with it.
    Said(TargetGroupArn),
    /// A namespace does not hold it any more.
    Ceased(TargetGroupArn),
}

/// See the module. To be read it is a map.
#[derive(Clone, Debug)]
pub struct Groups {
    settings: GroupSettings,
    all: BTreeMap<TargetGroupArn, Group>,
    awake: BTreeSet<TargetGroupArn>,
    /// When those that sleep wake up by themselves.
    alarms: Agenda<Moment, TargetGroupArn>,
    /// Those that sleep and have targets whose removal is held, or may come to be.
    spare: BTreeSet<TargetGroupArn>,
    /// Those to which nothing was bound when they were looked at last.
    loose: BTreeSet<TargetGroupArn>,
    /// Those that sleep and have to do with each pod, or had.
    of_pods: Multimap<PodMark, TargetGroupArn>,
    orphans: Orphans,
    /// The number of the term, and when it began, while this replica leads.
    term: (u64, Moment),
}

/// Notes which pods a group has to do with now.
fn note_pods(of_pods: &mut Multimap<PodMark, TargetGroupArn>, arn: &TargetGroupArn, group: &mut Group) {
    for mark in group.registrations.take_pods_changed() {
        if group.registrations.knows_pod(mark) {
            of_pods.put(&mark, arn);
        } else {
            of_pods.take(&mark, arn);
        }
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
            term: (0, Moment::START),
        }
    }

    /// A term begins now, of this number.
    pub fn begins(&mut self, term: u64, now: Moment) {
        self.term = (term, now);
        for group in self.all.values_mut() {
            group.registrations.begins(term, now);
        }
    }

    /// Those of a replica that leads no more: what AWS was told is not known to it, nor what AWS showed. These targets are
    /// wanted, and who went is remembered.
    pub fn after_term(before: &Self, wanted: impl Iterator<Item = Ownership>, now: Moment) -> Self {
        let mut after = Self::new(before.settings);
        for (arn, group) in &before.all {
            after.make(arn).registrations.have_departed(group.registrations.departed(now));
        }
        for ownership in wanted {
            let arn = ownership.through.last.group.clone();
            after.make(&arn).registrations.want(ownership, false);
        }
        after
    }

    /// What the ledgers left behind.
    pub const fn orphans(&mut self) -> &mut Orphans {
        &mut self.orphans
    }

    /// A group to be changed: it wakes up.
    pub fn get_mut(&mut self, arn: &TargetGroupArn) -> Option<&mut Group> {
        let group = self.all.get_mut(arn)?;
        if self.awake.insert(arn.clone()) {
            self.alarms.put(arn, None);
        }
        Some(group)
    }

    /// The same of one that comes to be, if there is none.
    pub fn make(&mut self, arn: &TargetGroupArn) -> &mut Group {
        if self.get_mut(arn).is_none() {
            self.awake.insert(arn.clone());
            self.loose.insert(arn.clone());
        }
        let seed = self.settings.seed.wrapping_add(fnv_1a(arn.as_str()));
        let group = || {
            let mut group = Group::new(&self.settings, seed);
            group.registrations.begins(self.term.0, self.term.1);
            group
        };
        self.all.entry(arn.clone()).or_insert_with(group)
    }

    /// Time has passed: those in which something is due wake up. Gives the groups in which removals that were held are
    /// due now.
    pub fn pass(&mut self, now: Moment) -> Vec<TargetGroupArn> {
        while let Some(arn) = self.alarms.take(now) {
            self.awake.insert(arn);
        }
        let all = &mut self.all;
        let let_go = self.awake.iter().filter(|arn| all.get_mut(arn).is_some_and(|group| group.pass(now)));
        let_go.cloned().collect()
    }

    /// Those in which nothing is due fall asleep. Gives what is to be said of those that were awake.
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

    /// Some of them.
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

    /// What is due, now or later.
    pub const fn calls(&self, now: Moment) -> Calls<'_> {
        Calls { groups: self, now }
    }

    /// Drops the groups that are bound to nothing, have nothing left to do and no ledger (which is no concern of a
    /// standby); returns them. Looks at those of which something was `touched`, and at those that were bound to nothing
    /// before.
    pub fn drop_unused<'a>(
        &mut self,
        touched: impl Iterator<Item = &'a TargetGroupArn>,
        is_bound: impl Fn(&TargetGroupArn) -> bool,
        standby: bool,
        now: Moment,
    ) -> Vec<TargetGroupArn> {
        self.loose.extend(touched.cloned());
        self.loose.retain(|arn| !is_bound(arn));
        let mut unused = Vec::new();
        for arn in &self.loose {
            let Some(group) = self.all.get_mut(arn) else { continue };
            if !standby && group.registrations.has_ledger() {
                continue;
            }
            group.registrations.forget_departed(now);
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
