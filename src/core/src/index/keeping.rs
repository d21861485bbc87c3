//! Pods that have not been ready for too long, and remain registered while their zone needs them.
//!
//! The index knows which pods these are, and since when. The engine decides whether their zones need them, and passes
//! the decision as an [`Order`](super::Order).

use std::{collections::BTreeMap, time::Duration};

use super::{Index, pods::PodEntry, verdict::verdict};
use crate::model::{Binding, Cause, Moment, ObjectKey, Standing, Target};

/// A pod that would be deregistered because it is no longer ready.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kept {
    pub(super) since: Moment,
    /// Whether the pod remains registered for its zone.
    pub(super) stays: bool,
}

/// The pods that would be deregistered because they are no longer ready.
#[derive(Clone, Debug, Default)]
pub(super) struct Keeping {
    pub(super) all: BTreeMap<ObjectKey, Kept>,
    /// The pods that were added since the last check.
    new: Vec<ObjectKey>,
    /// When the zones of all these pods are checked next.
    due: Moment,
}

/// Zones are checked this often.
const AGAIN: Duration = Duration::from_secs(1);

impl PodEntry {
    /// The verdict for a living pod if its zone keeps it registered.
    pub(super) fn verdict_but_for_keeping(
        &self,
        had: Option<Target>,
        binding: &Binding,
    ) -> Result<Target, Cause> {
        let standing = if had.is_some() && !self.let_go { Standing::NotYet } else { self.standing };
        match verdict(&self.facts, self.standing, had, binding) {
            Err(Cause::NotReady) => verdict(&self.facts, standing, had, binding),
            says => says,
        }
    }
}

impl Keeping {
    /// When the zones of all these pods are checked next.
    pub fn next_due(&self) -> Option<Moment> {
        self.all.first_key_value().map(|_| self.due)
    }

    /// The pods whose zones are due for a check. The flag is true for a pod that was added since the last call.
    pub fn take(&mut self, now: Moment) -> Vec<(ObjectKey, bool)> {
        let new = std::mem::take(&mut self.new);
        if self.due > now {
            return new.into_iter().map(|pod| (pod, true)).collect();
        }
        self.due = now + AGAIN;
        self.all.keys().map(|pod| (pod.clone(), new.contains(pod))).collect()
    }
}

impl Index {
    /// Records whether the zone keeps a pod registered, after the pod or its bindings changed.
    pub(super) fn note_keeping(&mut self, pod: &ObjectKey, seen: Moment) {
        let is_kept = self.pods.get(pod).is_some_and(|entry| {
            let mut claims = entry.claims.iter().filter_map(|(key, _)| self.bindings.get(key));
            entry.standing == Standing::Lost && claims.any(Binding::lets_go)
        });
        if is_kept == self.kept.all.contains_key(pod) {
            return;
        }
        if is_kept {
            self.kept.all.insert(pod.clone(), Kept { since: seen, stays: false });
            self.kept.new.push(pod.clone());
        } else {
            self.kept.all.remove(pod);
            self.touch_claimed(pod);
        }
    }

    pub(super) fn touch_claimed(&mut self, pod: &ObjectKey) {
        let claims = self.pods.get(pod).into_iter().flat_map(|entry| &entry.claims);
        self.bindings.changes.bindings.extend(claims.map(|(key, _)| key.clone()));
    }
}
