//! Passes bindings to the target groups, and handles the consequences.

use crate::{
    engine::{Effect, Engine},
    eviction,
    gate::Touched,
    model::{Moment, TargetGroupArn},
    targets::groups::{Group, News},
};

impl Engine {
    /// Updates which actions Headgate may take in this group.
    pub(super) fn govern(&mut self, arn: &TargetGroupArn, now: Moment) {
        let Some(group) = self.groups.get_mut(arn) else { return };
        let bound: Vec<_> = self.known.index.bindings().of_group(arn).collect();
        let is_granted = self.known.services.origins().grants_name(arn);
        let (exclusive, paused) = group.govern(&bound, is_granted, &self.settings, now);
        if exclusive {
            self.groups.orphans().touch();
        }
        self.touch_gates(Touched::Group(arn), now);
        if paused {
            self.touch_evictions(eviction::Touched::All, now);
            self.touch(arn);
        }
    }

    /// Whether only Headgate may use this group, and no unresolved binding can end its exclusive use. A deleted Service
    /// keeps its own targets for a while, but no longer decides about foreign targets.
    pub(super) fn is_exclusive(&self, arn: &TargetGroupArn) -> bool {
        let origins = self.known.services.origins();
        let mut bound = self.known.index.bindings().of_group(arn).map(|binding| &binding.key.origin);
        self.groups.get(arn).is_some_and(Group::is_exclusive)
            && bound
                .all(|origin| !origins.doubtful(&origin.key().namespace) && origins.end_of(origin).is_none())
    }

    /// Cancels unsent deregistrations of foreign targets in groups that may no longer be exclusive.
    pub(super) fn spare_foreign_targets(&mut self, arns: &[TargetGroupArn]) {
        for arn in arns {
            let doubtful = !self.is_exclusive(arn);
            if let Some(group) = self.groups.get_mut(arn).filter(|_| doubtful) {
                group.registrations_mut().spare_foreign_targets();
            }
        }
    }

    /// Deregisters the foreign targets of an exclusive group after AWS has listed the targets of the group.
    pub(super) fn expel_foreign_targets(&mut self, arn: &TargetGroupArn, now: Moment) {
        if !self.is_exclusive(arn) {
            return;
        }
        let Some(group) = self.groups.get_mut(arn) else { return };
        for target in group.foreign_targets().collect::<Vec<_>>() {
            group.registrations_mut().expel(target, now);
            self.accounts.removal_caused(arn, now);
        }
    }

    /// Lets idle groups sleep, and reports changes of all other groups: planned calls of paused groups, held
    /// deregistrations, and registrations that exceed a quota.
    pub(super) fn let_groups_sleep(&mut self, now: Moment) {
        for news in self.groups.sleep(now) {
            match news {
                News::Planned(call) => self.out.put(Effect::Planned(call)),
                News::Shown(arn) => self.reports.touch_group(&arn),
                News::Said(arn) => self.say_about(&arn),
                News::Ceased(arn) => self.settle_naming(&arn, now),
            }
        }
    }
}
