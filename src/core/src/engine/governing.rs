//! What the Services bound to a target group allow: whether anything is written to it at all, and whether what others
//! put there is removed.
//!
//! * **Paused**: while any Service that is bound to the group is paused, or Headgate only reads, nothing is written to
//!   it. What would be is said, and done when the pause ends.
//! * **Exclusive**: if every Service that is bound to it says so, targets that somebody else registered are removed, as
//!   soon as a read has shown them, and so are those of ours that may be another cluster's by now. Not while a Service
//!   beside it is doubtful: it may turn out to want them, or to share the group.

use std::collections::BTreeSet;

use crate::{
    engine::{Effect, Engine},
    eviction,
    gate::Touched,
    model::{
        hold::AskedHold,
        policy::{Ownership, Policy},
        target_group::TargetGroupArn,
        time::Moment,
    },
    planted::{Bug, planted},
};

impl Engine {
    /// Looks again what is allowed in this group.
    pub(super) fn govern(&mut self, arn: &TargetGroupArn, now: Moment) {
        let mut bound = self.index.bindings_of(arn).peekable();
        let is_bound = bound.peek().is_some();
        let mut exclusive = is_bound;
        let mut paused_by = None;
        let mut needs = None;
        for binding in bound {
            let Policy { hold, .. } = binding.policy;
            let longest = hold.bound(binding.balancer, &self.settings.bounds);
            needs = needs.max(Some((longest, binding.balancer, hold)));
            if binding.policy.paused && paused_by.is_none() {
                paused_by = Some(binding.key.origin.clone());
            }
            exclusive &=
                binding.policy.ownership == Ownership::Exclusive || planted(Bug::SharedIsTakenForExclusive);
        }
        let read_only = self.settings.read_only;
        let Some(group) = self.groups.get_mut(arn) else { return };
        if group.governed.exclusive != exclusive {
            self.orphans.touch();
        }
        let changed = group.governed.paused_by != paused_by;
        let paused = read_only || paused_by.is_some();
        if group.governed.paused && !paused {
            group.registrations.hold_anew();
        }
        group.registrations.set_bound(is_bound);
        (group.governed.paused, group.governed.exclusive) = (paused, exclusive);
        group.governed.paused_by = paused_by.filter(|_| !read_only);
        if let Some((_, balancer, hold)) = needs {
            group.governed.asked = AskedHold { balancer, hold };
        }
        self.gates.touch(Touched::Group(arn), now);
        if !exclusive {
            group.registrations.spare_strangers();
        }
        if changed {
            self.evictions.touch(eviction::Touched::All, now);
            self.touch(arn);
        }
    }

    /// Whether this group is ours alone, and nothing beside it can turn out otherwise.
    pub(super) fn is_exclusive(&self, arn: &TargetGroupArn) -> bool {
        let mut bound = self.index.bindings_of(arn);
        self.groups.get(arn).is_some_and(|group| group.governed.exclusive)
            && !bound.any(|binding| self.services.doubtful(&binding.key.origin.key().namespace))
    }

    /// Strangers' removals that have not gone out are called off where something has become doubtful.
    pub(super) fn spare_strangers(&mut self, arns: &[TargetGroupArn]) {
        for arn in arns {
            let doubtful = !self.is_exclusive(arn);
            if let Some(group) = self.groups.get_mut(arn).filter(|_| doubtful) {
                group.registrations.spare_strangers();
            }
        }
    }

    /// A read has shown what is in this group: if it is ours alone, strangers go.
    pub(super) fn expel_strangers(&mut self, arn: &TargetGroupArn, now: Moment) {
        if !self.is_exclusive(arn) {
            return;
        }
        let Some(group) = self.groups.get_mut(arn) else { return };
        for target in group.strangers() {
            group.registrations.expel(target, now);
            self.account.removal_caused(arn, now);
        }
    }

    /// Says what would be done in groups that are paused, each change once.
    pub(super) fn say_plans(&mut self, effects: &mut Vec<Effect>) {
        let mut changed = Vec::new();
        self.groups.each_awake(|arn, group| {
            if !group.governed.paused && !group.governed.held {
                return;
            }
            let paused = group.governed.paused;
            let held = paused && group.registrations.removals() > 0;
            if held != group.governed.held {
                group.governed.held = held;
                changed.push(arn.clone());
            }
            let planned = if paused { group.registrations.planned() } else { BTreeSet::new() };
            for plan in planned.difference(&group.governed.planned) {
                effects.push(Effect::Planned(group.registrations.call_for(arn, plan)));
            }
            if planned != group.governed.planned {
                group.governed.planned = planned;
                self.reports.touch_group(arn);
            }
        });
        for arn in changed {
            self.say_about(&arn, effects);
        }
    }
}
