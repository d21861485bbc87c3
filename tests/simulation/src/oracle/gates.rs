//! What the gate of a pod must wait for.

use super::{Oracle, pods::Told};
use crate::oracle::bound::Bound;
use headgate_core::model::{BindingKey, Moment, ObjectKey, Target, Uid};

/// A binding that selects a pod.
#[derive(Debug)]
pub struct Selecting<'a> {
    pub key: &'a BindingKey,
    /// The target that the pod is there, if it is one.
    pub target: Option<Target>,
    /// Whether it counts while no listener uses the group.
    pub waits_when_unused: bool,
}

impl Oracle {
    /// The living pod of this name and UID, as the engine was told of it.
    pub fn pod(&self, key: &ObjectKey, uid: &Uid) -> Option<&Told> {
        let lives = |pod: &&Told| !pod.facts.terminating && !pod.facts.finished;
        self.pods.all.get(key).filter(|pod| pod.facts.uid == *uid).filter(lives)
    }

    /// All pods whose gate is open for an address that they have no more, and since when that has been known.
    pub fn wrongly_open(&self) -> impl Iterator<Item = (&Told, Moment)> {
        let living = self.pods.all.values().filter(|pod| !pod.facts.terminating && !pod.facts.finished);
        living.filter_map(|pod| Some((pod, pod.wrongly_open?)))
    }

    /// The bindings that select a pod.
    pub fn selecting<'a>(&'a self, pod: &'a Told) -> impl Iterator<Item = Selecting<'a>> {
        let selecting = self.objects.bound.values().filter(|bound| bound.selects(&pod.facts.labels));
        selecting.flat_map(move |bound| {
            bound.keys().map(move |key| {
                let claim = self.claims.get(&(key.clone(), pod.facts.key.clone()));
                Selecting {
                    key,
                    target: claim.filter(|(_, uid)| *uid == pod.facts.uid).map(|(target, _)| *target),
                    waits_when_unused: bound.waits_when_unused(),
                }
            })
        })
    }

    /// Whether something selects a pod that cannot be followed, or not yet, and never could be.
    pub fn keeps_closed(&self, pod: &Told) -> bool {
        let mut bound = self.objects.bound.values();
        bound.any(|bound| bound.is_in_doubt() && bound.binds_nothing() && bound.asks_for(&pod.facts.labels))
    }

    /// Whether a pod is not bound to what it should be.
    pub fn misses(&self, pod: &Told) -> bool {
        let expected = pod.facts.gate.as_deref().and_then(|gate| gate.expected.as_deref());
        let mut entries = expected.unwrap_or_default().split(',').filter(|entry| !entry.is_empty());
        let is_bound = |entry: &str| {
            let named = |target: Target, key: &BindingKey| {
                entry.split_once(':') == Some((key.group.name(), &*target.port.to_string()))
            };
            self.selecting(pod).any(|bound| bound.target.is_some_and(|target| named(target, bound.key)))
        };
        self.selecting(pod).next().is_none() || entries.any(|entry| !is_bound(entry))
    }

    /// Since when everything that could bind a pod is as it is, and the pod is known.
    pub fn settled(&self, pod: &Told) -> Option<Moment> {
        Some(self.synced?.max(self.bindings_changed).max(pod.first))
    }

    /// The bindings in force, after a change of any.
    pub(super) fn note_bindings(&mut self, now: Moment) {
        let bound = self.objects.bound.values();
        let keys: Vec<BindingKey> = bound.flat_map(Bound::keys).cloned().collect();
        if self.in_force != keys {
            (self.in_force, self.bindings_changed) = (keys, now);
        }
    }
}
