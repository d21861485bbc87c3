//! A read-only view of the objects that define bindings.

use std::collections::BTreeSet;

use super::{Known, Services, about};
use crate::model::{
    GroupRef, Hold, Labels, Moment, ObjectKey, Origin, Problem, ServiceFacts, TargetGroupArn, Unknown,
    gate::Doubt, grant::Holders, notice::About, object::within,
};

/// A read-only view of the objects that define bindings.
#[derive(Clone, Copy, Debug)]
pub struct Origins<'a>(pub(super) &'a Services);

impl<'a> Origins<'a> {
    fn of(self, namespace: &str) -> impl Iterator<Item = (&'a Origin, &'a Known)> {
        self.0.known_in(namespace)
    }

    /// All objects that define bindings, including objects with only invalid bindings.
    pub fn all(self) -> impl Iterator<Item = &'a Origin> {
        self.0.known.keys()
    }

    /// Returns the object in the form for reports to users.
    pub fn about(self, origin: &Origin) -> Option<About> {
        self.0.known.get(origin).map(|known| about(origin, &known.facts.uid))
    }

    /// The problems of an object's spec or annotation.
    pub fn problems(self, origin: &Origin) -> impl Iterator<Item = &'a Problem> {
        self.0.known.get(origin).into_iter().flat_map(|known| &known.settled.problems)
    }

    /// When the bindings of a deleted Service expire.
    pub fn end_of(self, origin: &Origin) -> Option<Moment> {
        self.0.known.get(origin)?.ends
    }

    /// The objects that name this target group.
    pub fn naming(self, reference: &GroupRef) -> BTreeSet<Origin> {
        self.0.naming.of(reference).cloned().collect()
    }

    /// Whether a namespace may bind this target group. `holders` are the namespaces that own the group.
    pub fn may_bind(self, namespace: &str, group: &TargetGroupArn, holders: Holders<'_>) -> bool {
        self.0.granting.allows(namespace, group, holders)
    }

    /// Whether a grant names this target group.
    pub fn grants_name(self, group: &TargetGroupArn) -> bool {
        self.0.granting.names(group)
    }

    /// The next time at which [`Services::pass`] must run.
    pub fn next_due(self) -> Option<Moment> {
        let gone = self.0.gone.values().map(|(_, until)| *until);
        let deleted = self.0.deleted.iter().filter_map(|origin| self.0.known.get(origin)?.ends);
        let rest = self.0.doubts.next_due().into_iter().chain(self.0.granting.next_due());
        deleted.chain(gone).chain(rest).min()
    }

    /// When Headgate accepts the unconfirmed removal of this object or its namespace, if any.
    pub fn doubted_until(self, origin: &Origin) -> Option<Moment> {
        self.0.doubts.until(origin)
    }

    /// Whether an object of this namespace has a binding that is invalid or not resolved yet.
    pub fn doubtful(self, namespace: &str) -> bool {
        self.of(namespace).any(|(_, known)| known.settled.doubtful)
    }

    /// Why pods with these labels might be bound later, or cannot be bound although an object selects them.
    pub fn doubt(self, namespace: &str, labels: &Labels) -> Option<Doubt> {
        if !self.0.is_selected(namespace) {
            return None;
        }
        let is_open = |known: &Known| known.settled.doubtful || known.settled.refused;
        let mut here =
            self.of(namespace).filter(|(_, known)| is_open(known) && known.facts.selector.selects(labels));
        here.find_map(|(origin, known)| match known {
            known if known.settled.unknown == Some(Unknown::Pending) => Some(Doubt::Pending(origin.clone())),
            Known { facts: ServiceFacts { target_groups: None, .. }, besides: None, .. } => None,
            known if known.settled.refused => Some(Doubt::Refused(origin.clone())),
            // Bindings without an error, and previous valid bindings, are active.
            known if known.settled.bindings.is_empty() => Some(Doubt::Unreadable(origin.clone())),
            _ => None,
        })
    }

    /// The hold of an object that selects pods with these labels while a look-up of its target group is pending. On a
    /// standby, a look-up that only the leader repeats also counts as pending.
    pub fn pending(self, namespace: &str, labels: &Labels, leads: bool) -> Option<Hold> {
        let is_open = |known: &Known| match known.settled.unknown {
            Some(Unknown::Pending) => true,
            Some(Unknown::NotFound) => !leads,
            None => false,
        };
        let mut here = self.of(namespace);
        let known = here.find(|(_, known)| is_open(known) && known.facts.selector.selects(labels));
        known.map(|(_, known)| known.settled.policy.hold)
    }

    /// The Services that select pods with these labels but define no bindings.
    pub fn selecting_without_binding(
        self,
        namespace: &str,
        labels: &Labels,
    ) -> impl Iterator<Item = &'a ObjectKey> {
        let here = within(&self.0.all, namespace);
        let binds = |facts: &ServiceFacts| facts.target_groups.is_some();
        let plain = here.filter(move |(_, facts)| !binds(facts) && facts.selector.selects(labels));
        plain.map(|(key, _)| key)
    }
}
