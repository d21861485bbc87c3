//! What the Services bound to a target group allow: whether anything is written about their targets, and whether what
//! others put there is removed.
//!
//! * **Paused**: nothing is written about the targets of a Service that is paused, nor about any if Headgate only reads.
//!   What would be is said, and done when the pause ends. Whose target is whose is for `registration/binders.rs` to say.
//! * **Exclusive**: if every Service that is bound to it says so, targets that somebody else registered are removed, as
//!   soon as a read has shown them, and so are those of ours that may be another cluster's by now. Not while a Service
//!   beside it is doubtful: it may turn out to want them, or to share the group.

use std::collections::BTreeSet;

use super::{Group, News};
use crate::{
    model::{Binding, BindingKey, Moment, Ownership, Settings, TargetGroupArn},
    targets::registration::{Binders, Planned},
};

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Allowed {
    /// Headgate writes to no group at all.
    read_only: bool,
    exclusive: bool,
    /// Changes that wait for the end of a pause and have been said to.
    planned: BTreeSet<Planned>,
    /// Removals of what was claimed through these wait for it, and that was said.
    removals_wait: BTreeSet<Option<BindingKey>>,
}

impl Allowed {
    pub fn new(read_only: bool) -> Self {
        Self { read_only, ..Self::default() }
    }
}

impl Group {
    /// Whether nothing may be written at all, not even its ledger.
    pub const fn is_read_only(&self) -> bool {
        self.allowed.read_only
    }

    /// Whether all that are bound to it say that it is Headgate's alone.
    pub const fn is_exclusive(&self) -> bool {
        self.allowed.exclusive
    }

    /// These are bound to it; `is_granted`: whether a grant names it. Gives whether it has become Headgate's alone, or is no
    /// more, and whether others of them are paused than before.
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

    /// What would be done if nothing was paused, each change once; and whether removals wait for that.
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
