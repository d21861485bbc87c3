//! The target groups: of each its registrations, its reads and its troubles; and which of them have something to do.
//!
//! ```text
//!  bindings ─► want ─► registrations ─► what is due: removals, registrations, the ledger
//!                            ▲
//!  reads ─► observation ─────┘   what each read shows; when the next one is due
//! ```
//!
//! **Owns** all that is known about each target group: what AWS was told ([`registration`](crate::registration)), what the
//! last read showed, the backoffs, what is allowed in it, and what was said about it.
//!
//! **Guarantees.** A group in which nothing is due sleeps until something is: each input costs what the groups cost that
//! it concerns, and not what all of them would. Whoever changes a group wakes it ([`Groups::get_mut`]).
//!
//! **Assumptions.** [`Groups::pass`] and [`Groups::sleep`] are called at the beginning and the end of each step in which
//! anything may be sent. Which calls are sent is for the lanes to say, see [`account`](crate::account).

mod group;
mod observation;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::Duration,
};

pub use self::group::Group;

use crate::{
    ledger::PodMark,
    model::{
        object::Uid,
        target_group::TargetGroupArn,
        time::{Moment, WallTime},
    },
    planted::{Bug, planted},
    rate_limit::{Due, Window},
};

/// What holds for all groups.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// For how long a call that was given up, or that another replica has sent, may still be applied.
    pub late: Duration,
    /// For how long the targets of living pods are held at most that are replaced as a whole.
    pub replacement_grace: Duration,
    /// The time at [`Moment::START`].
    pub started: WallTime,
    /// How long registrations of one group wait for more that could travel with them.
    pub add_window: Window,
    /// Nothing is written to AWS.
    pub read_only: bool,
    /// For the jitter of backoffs.
    pub seed: u64,
}

/// See the module.
#[derive(Debug)]
pub struct Groups {
    settings: Settings,
    all: BTreeMap<TargetGroupArn, Group>,
    created: u64,
    awake: BTreeSet<TargetGroupArn>,
    /// When those that sleep wake up by themselves.
    alarms: BTreeSet<(Moment, TargetGroupArn)>,
    /// Those that sleep and have targets whose removal is held, or may come to be.
    spare: BTreeSet<TargetGroupArn>,
    /// Those to which nothing was bound when they were looked at last.
    loose: BTreeSet<TargetGroupArn>,
    /// Those that sleep and have to do with each pod, or had.
    of_pods: HashMap<PodMark, BTreeSet<TargetGroupArn>>,
}

/// Notes which pods a group has to do with now.
fn note_pods(
    of_pods: &mut HashMap<PodMark, BTreeSet<TargetGroupArn>>,
    arn: &TargetGroupArn,
    group: &mut Group,
) {
    for mark in group.registrations.take_pods_changed() {
        if group.registrations.knows_pod(mark) {
            of_pods.entry(mark).or_default().insert(arn.clone());
        } else if let Some(arns) = of_pods.get_mut(&mark) {
            arns.remove(arn);
            if arns.is_empty() {
                of_pods.remove(&mark);
            }
        }
    }
}

impl Groups {
    /// None.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            all: BTreeMap::new(),
            created: 0,
            awake: BTreeSet::new(),
            alarms: BTreeSet::new(),
            spare: BTreeSet::new(),
            loose: BTreeSet::new(),
            of_pods: HashMap::new(),
        }
    }

    pub fn get(&self, arn: &TargetGroupArn) -> Option<&Group> {
        self.all.get(arn)
    }

    /// A group to be changed: it wakes up.
    pub fn get_mut(&mut self, arn: &TargetGroupArn) -> Option<&mut Group> {
        let group = self.all.get_mut(arn)?;
        if self.awake.insert(arn.clone())
            && let Some(alarm) = group.alarm.take()
        {
            self.alarms.remove(&(alarm, arn.clone()));
        }
        Some(group)
    }

    pub fn get_or_create(&mut self, arn: &TargetGroupArn) -> &mut Group {
        if self.get_mut(arn).is_none() {
            self.awake.insert(arn.clone());
            self.loose.insert(arn.clone());
        }
        self.all.entry(arn.clone()).or_insert_with(|| {
            self.created += 1;
            let Settings { read_only, seed, .. } = self.settings;
            let seed = seed.wrapping_add(self.created);
            let mut group = Group::new(&self.settings, seed);
            group.governed.paused = read_only;
            group
        })
    }

    /// Time has passed: those in which something is due wake up. Gives the groups in which removals that were held are
    /// due now.
    pub fn pass(&mut self, now: Moment) -> Vec<TargetGroupArn> {
        while let Some((due, arn)) = self.alarms.first().cloned()
            && due <= now
        {
            self.get_mut(&arn);
        }
        let mut let_go = Vec::new();
        self.each_awake(|arn, group| {
            group.registrations.pass(now);
            if !group.is_paused() && group.registrations.hold(now) {
                let_go.push(arn.clone());
            }
        });
        let_go
    }

    /// Those in which nothing is due fall asleep.
    pub fn sleep(&mut self, now: Moment) {
        for arn in std::mem::take(&mut self.awake) {
            let Some(group) = self.all.get_mut(&arn) else { continue };
            note_pods(&mut self.of_pods, &arn, group);
            match group.next_due(now) {
                Some(due) if due <= now => _ = self.awake.insert(arn),
                due => {
                    if group.registrations.spare_their_pods().next().is_some() {
                        self.spare.insert(arn.clone());
                    } else {
                        self.spare.remove(&arn);
                    }
                    group.alarm = due;
                    self.alarms.extend(due.map(|due| (due, arn)));
                }
            }
        }
    }

    /// Those with targets whose removal is held, or may come to be, and some others.
    pub fn with_spare(&self) -> impl Iterator<Item = (&TargetGroupArn, &Group)> {
        self.awake.union(&self.spare).filter_map(|arn| Some((arn, self.all.get(arn)?)))
    }

    /// Those that have to do with a pod, or had.
    pub fn with_pod(&self, uid: &Uid) -> impl Iterator<Item = (&TargetGroupArn, &Group)> {
        let mark = PodMark::of(uid);
        let asleep = self.of_pods.get(&mark).into_iter().flatten().filter(|arn| !self.awake.contains(*arn));
        let awake = self
            .awake
            .iter()
            .filter(move |arn| self.all.get(*arn).is_some_and(|group| group.registrations.knows_pod(mark)));
        let arns: BTreeSet<&TargetGroupArn> = asleep.chain(awake).collect();
        arns.into_iter().filter_map(|arn| Some((arn, self.all.get(arn)?)))
    }

    /// When the first one wakes up.
    pub fn next_alarm(&self) -> Option<Moment> {
        self.alarms.first().map(|(due, _)| *due)
    }

    /// A group that sleeps although something is due in it.
    #[cfg(test)]
    pub fn overslept(&self, now: Moment) -> Option<&TargetGroupArn> {
        let late =
            |group: &Group| group.next_due(now).is_some_and(|due| group.alarm.is_none_or(|at| due < at));
        let mut asleep = self.all.iter().filter(|(arn, _)| !self.awake.contains(*arn));
        asleep.find(|(_, group)| late(group)).map(|(arn, _)| arn)
    }

    /// What the ledgers should say is not put off any more.
    pub fn hurry(&mut self) {
        for (_, group) in self.iter_mut() {
            group.registrations.hurry_ledger();
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// The groups whose read is due, the one that has waited longest first.
    pub fn reads(&self, now: Moment) -> Vec<TargetGroupArn> {
        let due = self.awake().filter_map(|(arn, group)| group.next_read().map(|due| (due, arn)));
        let mut due: Vec<_> = due.filter(|(due, _)| *due <= now).collect();
        due.sort();
        due.into_iter().map(|(_, arn)| arn.clone()).collect()
    }

    /// All of them, to be changed: all wake up.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&TargetGroupArn, &mut Group)> {
        self.alarms.clear();
        self.awake.extend(self.all.keys().cloned());
        self.all.values_mut().for_each(|group| group.alarm = None);
        self.all.iter_mut()
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (&TargetGroupArn, &Group)> {
        self.all.iter()
    }

    /// Those in which something may be due.
    pub fn awake(&self) -> impl Iterator<Item = (&TargetGroupArn, &Group)> {
        self.awake.iter().filter_map(|arn| Some((arn, self.all.get(arn)?)))
    }

    /// Does something with each of those.
    pub fn each_awake(&mut self, mut act: impl FnMut(&TargetGroupArn, &mut Group)) {
        for arn in &self.awake {
            if let Some(group) = self.all.get_mut(arn) {
                act(arn, group);
            }
        }
    }

    /// The groups with removals that are due.
    pub fn removals(&self, now: Moment) -> impl Iterator<Item = Due<'_>> {
        let stopped =
            planted(Bug::OneBackoffForAll) && self.all.values().any(|group| !group.removals.is_over(now));
        let groups = self.awake().filter(move |_| !stopped);
        groups.filter_map(move |(arn, group)| {
            let targets = group.registrations.removals();
            group.removal(now).map(|since| Due { group: arn, since, targets })
        })
    }

    /// The groups with registrations that are due, each with when the longest waiting one was caused.
    pub fn additions(&self, now: Moment) -> impl Iterator<Item = (Moment, &TargetGroupArn)> {
        self.awake().filter_map(move |(arn, group)| group.addition(now).map(|since| (since, arn)))
    }

    /// The group whose due registration has waited longest.
    pub fn next_addition(&self, now: Moment) -> Option<TargetGroupArn> {
        self.additions(now).min_by_key(|(since, _)| *since).map(|(_, arn)| arn.clone())
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
                if let Some(alarm) = group.alarm {
                    self.alarms.remove(&(alarm, arn.clone()));
                }
            }
            self.awake.remove(arn);
            self.spare.remove(arn);
        }
        self.loose.retain(|arn| self.all.contains_key(arn));
        unused
    }
}
