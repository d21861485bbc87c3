//! What the target groups are told of what binds to them, and what follows.

use crate::{
    engine::{Effect, Engine},
    eviction,
    gate::Touched,
    groups::Group,
    model::{Moment, TargetGroupArn},
};

impl Engine {
    /// Looks again what is allowed in this group.
    pub(super) fn govern(&mut self, arn: &TargetGroupArn, now: Moment) {
        let Some(group) = self.groups.get_mut(arn) else { return };
        let bound = self.index.bindings().of_group(arn);
        let changed = group.govern(bound, &self.settings.bounds, self.settings.read_only);
        if changed.exclusive {
            self.groups.orphans().touch();
        }
        self.gates.touch(Touched::Group(arn), now);
        if changed.paused {
            self.evictions.touch(eviction::Touched::All, now);
            self.touch(arn);
        }
    }

    /// Whether this group is ours alone, and nothing beside it can turn out otherwise.
    pub(super) fn is_exclusive(&self, arn: &TargetGroupArn) -> bool {
        let mut bound = self.index.bindings().of_group(arn);
        self.groups.get(arn).is_some_and(Group::is_exclusive)
            && !bound.any(|binding| self.services.origins().doubtful(&binding.key.origin.key().namespace))
    }

    /// Removals of foreign targets that have not gone out are called off where something has become doubtful.
    pub(super) fn spare_foreign_targets(&mut self, arns: &[TargetGroupArn]) {
        for arn in arns {
            let doubtful = !self.is_exclusive(arn);
            if let Some(group) = self.groups.get_mut(arn).filter(|_| doubtful) {
                group.registrations.spare_foreign_targets();
            }
        }
    }

    /// A read has shown what is in this group: if it is ours alone, foreign targets go.
    pub(super) fn expel_foreign_targets(&mut self, arn: &TargetGroupArn, now: Moment) {
        if !self.is_exclusive(arn) {
            return;
        }
        let Some(group) = self.groups.get_mut(arn) else { return };
        for target in group.foreign_targets() {
            group.registrations.expel(target, now);
            self.account.removal_caused(arn, now);
        }
    }

    /// Says what would be done in groups that are paused, each change once.
    pub(super) fn say_plans(&mut self) {
        let mut changed = Vec::new();
        self.groups.each_awake(|arn, group| {
            let plans = group.note_plans();
            if plans.removals {
                changed.push(arn.clone());
            }
            for plan in &plans.new {
                self.out.put(Effect::Planned(group.registrations.call_for(arn, plan)));
            }
            if plans.changed {
                self.reports.touch_group(arn);
            }
        });
        for arn in changed {
            self.say_about(&arn);
        }
    }
}
