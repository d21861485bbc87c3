//! The owners of target groups. If the owners of a group or a grant change, Headgate decides again about the affected
//! objects.

use std::collections::BTreeSet;

use crate::{
    engine::Engine,
    model::{BindingKey, GroupRef, Moment, Origin, TargetGroupArn, grant::Holders},
};

impl Engine {
    /// Makes the namespace of this binding an owner of the group, because a pod should be a target through this
    /// binding. Returns whether the namespace was not an owner before.
    pub(super) fn holds(&mut self, binding: &BindingKey) -> bool {
        let (arn, namespace) = (&binding.group, &binding.origin.key().namespace);
        let Some(group) = self.groups.get(arn) else { return false };
        let holders = group.registrations().holders();
        let is_new = match holders {
            Holders::Unknown => false,
            // If a binding came into force before the grants were known, its namespace is not an owner.
            Holders::These(all) => {
                !all.contains(namespace) && self.known.services.origins().may_bind(namespace, arn, holders)
            }
        };
        if is_new && let Some(group) = self.groups.get_mut(arn) {
            group.registrations_mut().admit_holder(namespace);
        }
        is_new
    }

    /// Updates the owners of these groups after Headgate has received ledgers, grants or lists.
    pub(super) fn review_holders(&mut self, arns: &[TargetGroupArn], now: Moment) {
        let mut changed = BTreeSet::new();
        for arn in arns {
            let targets_of = |key: &BindingKey| self.known.index.bindings().targets_of(key).next().is_some();
            let wanting =
                self.known.index.bindings().of_group(arn).filter(|binding| binding.withheld.is_none());
            let wanting: Vec<BindingKey> =
                wanting.map(|binding| binding.key.clone()).filter(targets_of).collect();
            for key in wanting {
                if self.holds(&key) || self.is_refused(&key) {
                    changed.insert(arn.clone());
                }
            }
        }
        for arn in changed {
            self.settle_naming(&arn, now);
        }
    }

    /// Whether a binding in force is not allowed, according to newer data.
    fn is_refused(&self, binding: &BindingKey) -> bool {
        let (arn, namespace) = (&binding.group, &binding.origin.key().namespace);
        let holders = self.groups.get(arn).map(|group| group.registrations().holders());
        holders.is_some_and(|holders| !self.known.services.origins().may_bind(namespace, arn, holders))
    }

    /// Decides again about all objects that refer to this group.
    pub(super) fn settle_naming(&mut self, arn: &TargetGroupArn, now: Moment) {
        let by = |reference| self.known.services.origins().naming(&reference);
        let origins: BTreeSet<Origin> =
            by(GroupRef::Arn(arn.clone())).into_iter().chain(by(GroupRef::Name(arn.name().into()))).collect();
        for origin in origins {
            self.settle(&origin, now, now);
        }
    }
}
