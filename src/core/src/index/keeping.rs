//! Pods that have not been ready for too long and would be removed for that, and stay while their zone needs them.
//!
//! The index says who they are and since when; whether their zones need them, it is told: [`Order`](super::Order).

use std::{collections::BTreeMap, time::Duration};

use super::{Index, pods::PodEntry, verdict::verdict};
use crate::model::{Binding, Cause, Moment, ObjectKey, Standing, Target};

/// A pod that would be removed because it is not ready any more.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kept {
    pub(super) since: Moment,
    /// That it stays has been decided.
    pub(super) stays: bool,
}

/// The pods that would be removed because they are not ready any more.
#[derive(Clone, Debug, Default)]
pub(super) struct Keeping {
    pub(super) all: BTreeMap<ObjectKey, Kept>,
    /// Those that were not among them a moment ago.
    new: Vec<ObjectKey>,
    /// When the zones of all of them are looked at again.
    due: Moment,
}

/// Zones are looked at again after so long.
const AGAIN: Duration = Duration::from_secs(1);

impl PodEntry {
    /// What [`verdict`] says of it while it is alive, but that it stays where it is until it was let go.
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
    /// When the zones of all of them are looked at again.
    pub fn next_due(&self) -> Option<Moment> {
        self.all.first_key_value().map(|_| self.due)
    }

    /// The pods whose zones are looked at now, each with whether it is one of them since this was asked for last.
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
    /// Notes whether a pod is kept, after anything about it or its bindings has changed.
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
