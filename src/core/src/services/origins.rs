//! The objects that bind, as they were read. Read-only.

use std::collections::BTreeSet;

use super::{Known, Services, about};
use crate::model::{
    GroupRef, Hold, Labels, Moment, ObjectKey, Origin, Problem, ServiceFacts, TargetGroupArn, Unknown,
    gate::Doubt, grant::Holders, notice::About, object::within,
};

/// See the module docs.
#[derive(Clone, Copy, Debug)]
pub struct Origins<'a>(pub(super) &'a Services);

impl<'a> Origins<'a> {
    fn of(self, namespace: &str) -> impl Iterator<Item = (&'a Origin, &'a Known)> {
        self.0.known_in(namespace)
    }

    /// All objects that bind something, or try to.
    pub fn all(self) -> impl Iterator<Item = &'a Origin> {
        self.0.known.keys()
    }

    /// The object, for reports to users.
    pub fn about(self, origin: &Origin) -> Option<About> {
        self.0.known.get(origin).map(|known| about(origin, &known.facts.uid))
    }

    /// The problems of an object's spec or annotation.
    pub fn problems(self, origin: &Origin) -> impl Iterator<Item = &'a Problem> {
        self.0.known.get(origin).into_iter().flat_map(|known| &known.settled.problems)
    }

    /// When the bindings of a deleted Service end.
    pub fn end_of(self, origin: &Origin) -> Option<Moment> {
        self.0.known.get(origin)?.ends
    }

    /// The objects that name this target group.
    pub fn naming(self, reference: &GroupRef) -> BTreeSet<Origin> {
        self.0.naming.of(reference).cloned().collect()
    }

    /// Whether a namespace may bind this target group. `holders`: the namespaces that hold it.
    pub fn may_bind(self, namespace: &str, group: &TargetGroupArn, holders: Holders<'_>) -> bool {
        self.0.granting.allows(namespace, group, holders)
    }

    /// Whether a grant names this target group.
    pub fn grants_name(self, group: &TargetGroupArn) -> bool {
        self.0.granting.names(group)
    }

    /// When [`Services::pass`] next has something to do.
    pub fn next_due(self) -> Option<Moment> {
        let gone = self.0.gone.values().map(|(_, until)| *until);
        let deleted = self.0.deleted.iter().filter_map(|origin| self.0.known.get(origin)?.ends);
        let rest = self.0.doubts.next_due().into_iter().chain(self.0.granting.next_due());
        deleted.chain(gone).chain(rest).min()
    }

    /// If most objects are reported as deleted and this object or its namespace is one of them, when Headgate will
    /// believe that.
    pub fn doubted_until(self, origin: &Origin) -> Option<Moment> {
        self.0.doubts.until(origin)
    }

    /// Whether an object of this namespace asks for something that cannot be done, or not yet.
    pub fn doubtful(self, namespace: &str) -> bool {
        self.of(namespace).any(|(_, known)| known.settled.doubtful)
    }

    /// Why pods with these labels may be bound later, or should be bound and cannot be.
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
            // The bindings that were valid before, or that have no error, are in force.
            known if known.settled.bindings.is_empty() => Some(Doubt::Unreadable(origin.clone())),
            _ => None,
        })
    }

    /// The hold of an object that selects pods with these labels and whose target group is still being looked up.
    /// Includes look-ups that only the replica that `leads` repeats.
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

    /// The Services that select pods with these labels and bind nothing.
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
