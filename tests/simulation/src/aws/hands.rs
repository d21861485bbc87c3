//! What others do to target groups, and to what is in them.

use super::{Aws, There, drain};
use crate::words::GROUPS;
use crate::words::ip;
use headgate_core::model::{Moment, Target, TargetGroupArn};

impl Aws {
    /// Somebody else does something.
    pub fn other_hands(&mut self, rng: &mut fastrand::Rng, now: Moment) -> Option<&'static str> {
        let name = GROUPS[rng.usize(0..GROUPS.len())];
        let group = self.groups.get_mut(name)?;
        group.remember(now);
        if rng.bool() {
            let target = Target::new(ip(rng.u8(100..110)), 8080);
            group.targets.insert(target, There::new(now));
            self.foreign_targets.insert((group.arn.clone(), target));
            return Some("aws: other hands register");
        }
        let at = rng.usize(0..group.targets.len().max(1));
        let target = *group.targets.keys().nth(at)?;
        let key = (group.arn.clone(), target);
        if drain(&mut group.targets, &target, now) {
            self.left_by_others(&key, now);
        }
        self.foreign_targets.remove(&key);
        Some("aws: other hands deregister")
    }

    /// The quota sinks or rises.
    pub fn change_quota(&mut self, rng: &mut fastrand::Rng) {
        self.quota = if self.quota.is_some() { None } else { Some(rng.usize(1..6)) };
    }

    /// No group has place for more than the one with the most targets has, and so many more.
    pub fn fill_up(&mut self, more: usize) {
        self.quota = GROUPS.iter().map(|name| self.count(name) + more).max();
    }

    /// Somebody takes out all that is not foreign, and there is place for so many.
    pub fn empty(&mut self, quota: usize, now: Moment) {
        self.quota = Some(quota);
        for name in GROUPS {
            let ours = self.ours(name);
            let Some(group) = self.groups.get_mut(name) else { continue };
            group.remember(now);
            for target in ours {
                drain(&mut group.targets, &target, now);
                self.left.insert((group.arn.clone(), target), now);
            }
        }
    }

    /// One of the targets that are not foreign.
    pub fn any_of_ours(&self, rng: &mut fastrand::Rng) -> Option<(TargetGroupArn, Target)> {
        let of = |name| {
            self.ours(name).into_iter().filter_map(move |target| Some((self.arn(name)?.clone(), target)))
        };
        let all: Vec<(TargetGroupArn, Target)> = GROUPS.into_iter().flat_map(of).collect();
        all.get(rng.usize(0..all.len().max(1))).cloned()
    }

    /// Somebody takes this one out.
    pub fn take_out(&mut self, key: &(TargetGroupArn, Target), now: Moment) {
        if let Some(group) = self.groups.values_mut().find(|group| group.arn == key.0) {
            group.remember(now);
            if drain(&mut group.targets, &key.1, now) {
                self.left_by_others(key, now);
            }
        }
    }

    /// Somebody else has taken it out. Where a call that was given up had brought it back, nobody could know of either.
    fn left_by_others(&mut self, key: &(TargetGroupArn, Target), now: Moment) {
        if !self.put.get(key).is_some_and(|(_, late)| *late) {
            self.left.insert(key.clone(), now);
        }
    }

    /// A listener comes or goes, or a zone is shifted away or back.
    pub fn change_listeners(&mut self, rng: &mut fastrand::Rng) -> Option<&'static str> {
        let group = self.groups.get_mut(GROUPS[rng.usize(0..GROUPS.len())])?;
        if rng.u8(0..3) == 0 {
            group.narrow = !group.narrow;
            return Some("aws: a zone is served or not any more");
        }
        if rng.u8(0..3) == 0 {
            group.shifted = !group.shifted;
            return Some("aws: zonal shift begins or ends");
        }
        group.unused = !group.unused;
        Some(if group.unused { "aws: group unused" } else { "aws: group used" })
    }

    /// A target group is removed, or made again under its old name with another ARN.
    pub fn remake(&mut self, rng: &mut fastrand::Rng) -> &'static str {
        let name = GROUPS[rng.usize(0..GROUPS.len())];
        if self.groups.remove(name).is_some() {
            return "aws: group removed";
        }
        self.make(name);
        "aws: group made again"
    }

    /// All groups are there again, and there is place in them.
    pub fn mend(&mut self) {
        self.quota = None;
        for name in GROUPS {
            if !self.groups.contains_key(name) {
                self.make(name);
            }
            self.groups.values_mut().for_each(|group| group.narrow = false);
        }
    }
}
