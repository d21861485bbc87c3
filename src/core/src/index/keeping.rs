//! Pods that have not been ready for too long and would be removed for that, and stay while their zone needs them.
//!
//! The index says who they are and since when; whether their zones need them, it is told: [`Index::let_go`].

use std::time::Duration;

use crate::{
    binding::{Binding, BindingKey},
    index::{Cause, Changes, Index, PodEntry, verdict::verdict},
    model::{
        object::ObjectKey, policy::WhenNotReady, readiness::Standing, reason::Reason, target::Target,
        time::Moment,
    },
};

/// A pod that would be removed because it is not ready any more.
#[derive(Clone, Copy, Debug)]
pub struct Kept {
    since: Moment,
    /// That it stays has been decided.
    stays: bool,
}

/// Zones are looked at again after so long.
const AGAIN: Duration = Duration::from_secs(1);

/// Whether a binding lets pods go that are not ready any more.
pub const fn lets_go(binding: &Binding) -> bool {
    matches!(binding.policy.when_not_ready, WhenNotReady::Deregister)
}

impl PodEntry {
    /// What [`verdict`] says of it while it is alive, but that it stays where it is until it was let go.
    pub(super) fn verdict_but_for_keeping(
        &self,
        had: Option<Target>,
        binding: &Binding,
    ) -> Result<Target, Reason> {
        let standing = if had.is_some() && !self.let_go { Standing::NotYet } else { self.standing };
        match verdict(&self.facts, self.standing, had, binding) {
            Err(Reason::NotReady) => verdict(&self.facts, standing, had, binding),
            says => says,
        }
    }
}

impl Index {
    /// Notes whether a pod is kept, after anything about it or its bindings has changed.
    pub(super) fn note_keeping(&mut self, pod: &ObjectKey, seen: Moment, changes: &mut Changes) {
        let is_kept = self.pods.get(pod).is_some_and(|entry| {
            let mut claims = entry.claims.iter().filter_map(|(key, _)| self.binding(key));
            entry.standing == Standing::Lost && claims.any(lets_go)
        });
        if is_kept == self.kept.contains_key(pod) {
            return;
        }
        if is_kept {
            self.kept.insert(pod.clone(), Kept { since: seen, stays: false });
            self.newly_kept.push(pod.clone());
        } else {
            self.kept.remove(pod);
            self.touch_claimed(pod, changes);
        }
    }

    fn touch_claimed(&self, pod: &ObjectKey, changes: &mut Changes) {
        let claims = self.pods.get(pod).into_iter().flat_map(|entry| &entry.claims);
        changes.bindings.extend(claims.map(|(key, _)| key.clone()));
    }

    /// It is decided that a pod stays for now.
    pub fn keep(&mut self, pod: &ObjectKey) -> Changes {
        let mut changes = Changes::default();
        if let Some(kept) = self.kept.get_mut(pod).filter(|kept| !kept.stays) {
            kept.stays = true;
            self.touch_claimed(pod, &mut changes);
        }
        changes
    }

    /// When the zones of kept pods are looked at again.
    pub fn next_keeping(&self) -> Option<Moment> {
        self.kept.first_key_value().map(|_| self.keeping_due)
    }

    /// The pods that would be removed because they are not ready and whose zones are looked at now, each with whether it
    /// is one of them since this was asked for last.
    pub fn take_kept(&mut self, now: Moment) -> Vec<(ObjectKey, bool)> {
        let new = std::mem::take(&mut self.newly_kept);
        if self.keeping_due > now {
            return new.into_iter().map(|pod| (pod, true)).collect();
        }
        self.keeping_due = now + AGAIN;
        self.kept.keys().map(|pod| (pod.clone(), new.contains(pod))).collect()
    }

    /// Since when this pod would be removed because it is not ready.
    pub fn kept_since(&self, pod: &ObjectKey) -> Option<Moment> {
        Some(self.kept.get(pod)?.since)
    }

    /// How many pods that `binding` would let go stay for their zones.
    pub fn kept_by(&self, binding: &BindingKey) -> usize {
        if !self.binding(binding).is_some_and(lets_go) {
            return 0;
        }
        let claims = |pod: &ObjectKey| {
            self.pods.get(pod).is_some_and(|entry| entry.claims.iter().any(|(key, _)| key == binding))
        };
        self.kept.iter().filter(|(pod, kept)| kept.stays && claims(pod)).count()
    }

    /// A pod that was kept goes.
    pub fn let_go(&mut self, pod: &ObjectKey, seen: Moment) -> Changes {
        let mut changes = Changes::default();
        if let Some(entry) = self.pods.get_mut(pod) {
            entry.let_go = true;
            self.claim_all(pod, Cause { reason: Reason::NotReady, seen }, &mut changes);
        }
        changes
    }
}
