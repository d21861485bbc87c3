//! What the Services bound to a target group allow: whether anything is written to it at all, and whether what others
//! put there is removed.
//!
//! * **Paused**: while any Service that is bound to the group is paused, or Headgate only reads, nothing is written to
//!   it. What would be is said, and done when the pause ends.
//! * **Exclusive**: if every Service that is bound to it says so, targets that somebody else registered are removed, as
//!   soon as a read has shown them, and so are those of ours that may be another cluster's by now. Not while a Service
//!   beside it is doubtful: it may turn out to want them, or to share the group.

use std::collections::BTreeSet;

use super::{Group, News};
use crate::{
    model::{AskedHold, Binding, Moment, Origin, Ownership, Settings, TargetGroupArn},
    registration::Planned,
};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Allowed {
    paused: bool,
    /// Who has paused it, if not Headgate altogether.
    paused_by: Option<Origin>,
    exclusive: bool,
    /// The longest hold that anything bound to it asks for, or asked for last.
    asked: AskedHold,
    /// Changes that wait for the end of the pause and have been said to.
    planned: BTreeSet<Planned>,
    /// Removals wait for it, and that was said.
    removals_wait: bool,
}

impl Allowed {
    pub fn new(read_only: bool) -> Self {
        Self { paused: read_only, ..Self::default() }
    }
}

impl Group {
    /// Whether nothing may be written to it.
    pub const fn is_paused(&self) -> bool {
        self.allowed.paused
    }

    /// Who has paused it, if not Headgate altogether.
    pub const fn paused_by(&self) -> Option<&Origin> {
        self.allowed.paused_by.as_ref()
    }

    /// Whether all that are bound to it say that it is Headgate's alone.
    pub const fn is_exclusive(&self) -> bool {
        self.allowed.exclusive
    }

    /// The longest hold that anything bound to it asks for, or asked for last.
    pub const fn asked_hold(&self) -> AskedHold {
        self.allowed.asked
    }

    /// Whether removals wait for the end of a pause, and that was said.
    pub const fn removals_wait(&self) -> bool {
        self.allowed.removals_wait
    }

    /// These are bound to it; `is_granted`: whether a grant names it. Gives whether it has become Headgate's alone, or is no
    /// more, and whether another one has paused it, or none.
    pub fn govern<'a>(
        &mut self,
        bound: impl Iterator<Item = &'a Binding>,
        is_granted: bool,
        Settings { bounds, read_only, .. }: &Settings,
        now: Moment,
    ) -> (bool, bool) {
        let mut bound = bound.peekable();
        let is_bound = bound.peek().is_some();
        let mut namespaces = BTreeSet::new();
        let (mut exclusive, mut paused_by, mut asked) = (is_bound, None, None);
        for binding in bound {
            namespaces.insert(binding.key.origin.key().namespace.clone());
            let (policy, balancer) = (&binding.policy, binding.balancer);
            asked = asked.max(Some((policy.hold.bound(balancer, bounds), balancer, policy.hold)));
            if policy.paused && paused_by.is_none() {
                paused_by = Some(binding.key.origin.clone());
            }
            exclusive &= binding.withheld.is_some() || policy.ownership == Ownership::Exclusive;
        }
        let changed = (self.allowed.exclusive != exclusive, self.allowed.paused_by != paused_by);
        let paused = *read_only || paused_by.is_some();
        if self.allowed.paused && !paused {
            self.registrations.hold_anew();
        }
        self.registrations.set_bound(is_bound);
        self.registrations.bound_by(&namespaces, is_granted, now);
        (self.allowed.paused, self.allowed.exclusive) = (paused, exclusive);
        self.allowed.paused_by = paused_by.filter(|_| !*read_only);
        if let Some((_, balancer, hold)) = asked {
            self.allowed.asked = AskedHold { balancer, hold };
        }
        if !exclusive {
            self.registrations.spare_foreign_targets();
        }
        changed
    }

    /// What would be done if it were not paused, each change once; and whether removals wait for that.
    pub(super) fn note_plans(&mut self, arn: &TargetGroupArn, news: &mut Vec<News>) {
        let paused = self.is_paused();
        if !paused && !self.allowed.removals_wait {
            return;
        }
        let wait = paused && self.registrations.removals() > 0;
        let planned = if paused { self.registrations.planned() } else { BTreeSet::new() };
        let new = planned.difference(&self.allowed.planned);
        news.extend(new.map(|plan| News::Planned(self.registrations.call_for(arn, plan))));
        news.extend((planned != self.allowed.planned).then(|| News::Shown(arn.clone())));
        news.extend((wait != self.allowed.removals_wait).then(|| News::Said(arn.clone())));
        (self.allowed.removals_wait, self.allowed.planned) = (wait, planned);
    }
}
