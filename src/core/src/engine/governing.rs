//! What the target groups learn of their bindings, and what follows.

use crate::{
    engine::{Effect, Engine},
    eviction,
    gate::Touched,
    model::{Moment, TargetGroupArn},
    targets::groups::{Group, News},
};

impl Engine {
    /// Looks again what is allowed in this group.
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

    /// Whether this group is ours alone, and no other binding can change that. A deleted Service keeps its own
    /// targets for a while, and no longer decides about foreign ones.
    pub(super) fn is_exclusive(&self, arn: &TargetGroupArn) -> bool {
        let origins = self.known.services.origins();
        let mut bound = self.known.index.bindings().of_group(arn).map(|binding| &binding.key.origin);
        self.groups.get(arn).is_some_and(Group::is_exclusive)
            && bound
                .all(|origin| !origins.doubtful(&origin.key().namespace) && origins.end_of(origin).is_none())
    }

    /// Removals of foreign targets that were not sent are cancelled if something has become doubtful.
    pub(super) fn spare_foreign_targets(&mut self, arns: &[TargetGroupArn]) {
        for arn in arns {
            let doubtful = !self.is_exclusive(arn);
            if let Some(group) = self.groups.get_mut(arn).filter(|_| doubtful) {
                group.registrations_mut().spare_foreign_targets();
            }
        }
    }

    /// A read has shown the content of this group: if it is ours alone, foreign targets are removed.
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

    /// Lets the groups sleep in which nothing is due, and reports news of the others. These are what would be done in
    /// paused groups, where removals are held, and where registrations do not fit.
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
