//! Pods that have not been ready for too long, and remain registered while their zone needs their targets.
//!
//! The index stores each pod with the time at which the pod was added. The engine decides whether the zone of a pod
//! needs the target, and returns the decision as an [`Order`](super::Order).

use std::{collections::BTreeMap, time::Duration};

use super::{Index, pods::PodEntry, verdict::verdict};
use crate::model::{Binding, Cause, Moment, ObjectKey, Standing, Target};

/// A pod that Headgate would deregister because the pod is no longer ready.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kept {
    pub(super) since: Moment,
    /// Whether the pod remains registered because its zone needs the target.
    pub(super) stays: bool,
}

/// The pods that Headgate would deregister because the pods are no longer ready.
#[derive(Clone, Debug, Default)]
pub(super) struct Keeping {
    pub(super) all: BTreeMap<ObjectKey, Kept>,
    /// The pods that were added after the last check.
    new: Vec<ObjectKey>,
    /// The time of the next check of the zones of all these pods.
    due: Moment,
}

/// The interval between two checks of the zones.
const AGAIN: Duration = Duration::from_secs(1);

impl PodEntry {
    /// The verdict for a living pod under the assumption that its zone needs the target.
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
    /// The time of the next check of the zones of all these pods.
    pub fn next_due(&self) -> Option<Moment> {
        self.all.first_key_value().map(|_| self.due)
    }

    /// The pods whose zones need a check now. The flag is true for a pod that was added after the last call.
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
    /// Adds or removes this pod after the pod or its bindings changed.
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
