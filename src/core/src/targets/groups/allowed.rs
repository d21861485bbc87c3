//! What the Services bound to a target group allow: whether Headgate changes their targets, and whether it removes
//! foreign targets.
//!
//! * **Paused**: Headgate does not change the targets of a paused Service. With `read_only` it changes no targets. It
//!   reports the calls that it would send, and sends them when the pause ends. `registration/binders.rs` decides which
//!   target belongs to which Service.
//! * **Exclusive**: if every bound Service declares the group exclusive, Headgate removes foreign targets as soon as a
//!   read has shown them. It also removes its own targets that another cluster may have by now. It does neither while a
//!   doubtful Service might want the targets or share the group.

use std::collections::BTreeSet;

use super::{Group, News};
use crate::{
    model::{Binding, BindingKey, Moment, Ownership, Settings, TargetGroupArn},
    targets::registration::{Binders, Planned},
};

/// See the module docs.
#[derive(Clone, Debug, Default)]
pub(super) struct Allowed {
    /// Headgate writes to no target group.
    read_only: bool,
    exclusive: bool,
    /// The changes that wait for the end of a pause and were reported.
    planned: BTreeSet<Planned>,
    /// The bindings whose deregistrations wait for the end of the pause, as last reported.
    removals_wait: BTreeSet<Option<BindingKey>>,
}

impl Allowed {
    pub fn new(read_only: bool) -> Self {
        Self { read_only, ..Self::default() }
    }
}

impl Group {
    /// Whether Headgate may write nothing about the group, not even its ledger.
    pub const fn is_read_only(&self) -> bool {
        self.allowed.read_only
    }

    /// Whether all bindings of the group declare it exclusive.
    pub const fn is_exclusive(&self) -> bool {
        self.allowed.exclusive
    }

    /// Sets the bindings of the group. `is_granted`: whether a grant names it. Returns whether the group became
    /// exclusive or ceased to be, and whether the set of paused bindings changed.
    pub fn govern(
        &mut self,
        bound: &[&Binding],
        is_granted: bool,
        Settings { bounds, read_only, .. }: &Settings,
        now: Moment,
    ) -> (bool, bool) {
        let is_for_it = |binding: &&Binding| {
            binding.withheld.is_some() || binding.policy.ownership == Ownership::Exclusive
        };
        let exclusive = !bound.is_empty() && bound.iter().all(is_for_it);
        let changed = self.allowed.exclusive != exclusive;
        self.allowed.exclusive = exclusive;
        let paused = self.registrations.bound_by(Binders::new(bound, bounds, *read_only), is_granted, now);
        if !exclusive {
            self.registrations.spare_foreign_targets();
        }
        (changed, paused)
    }

    /// Reports each change that waits for the end of a pause once, and whether deregistrations wait for it.
    pub(super) fn note_plans(&mut self, arn: &TargetGroupArn, news: &mut Vec<News>) {
        let waiting = self.registrations.waiting_removals();
        let wait = waiting.map(|through| through.map(|through| through.last.clone())).collect();
        let planned = self.registrations.planned();
        let new = planned.difference(&self.allowed.planned);
        news.extend(new.map(|plan| News::Planned(self.registrations.call_for(arn, plan))));
        news.extend((planned != self.allowed.planned).then(|| News::Shown(arn.clone())));
        news.extend((wait != self.allowed.removals_wait).then(|| News::Said(arn.clone())));
        (self.allowed.removals_wait, self.allowed.planned) = (wait, planned);
    }
}
