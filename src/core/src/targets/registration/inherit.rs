//! Takeover: the claims of the term before whose pods this leader does not know, and how it judges them. See
//! `removal.rs`.

use std::sync::Arc;

use super::{
    Orphan, Registrations,
    entry::{Entry, Goes, TakeOut, Wish},
};
use crate::{
    ledger::PodMark,
    model::{Cause, HealthState, Moment, ObjectKey, Owner, Target},
    targets::claims::State,
};

/// Which pod of this cluster has an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holder {
    /// No pod, or only a pod that has ended and may have lost the address since.
    Nobody,
    /// A pod of this cluster, and no Service can turn out to want the target for it.
    Pod,
    /// A living pod, and a doubtful Service may turn out to want the target for it.
    Doubtful(ObjectKey),
}

/// What a read that counts has shown of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sight {
    /// The target is missing or draining.
    Missing,
    /// The target is there.
    There(HealthState),
}

/// The namespace of a binding object, as the ledger names it: `Service shop/web`.
fn namespace(binding: &str) -> Option<Arc<str>> {
    Some(binding.split_once(' ')?.1.split_once('/')?.0.into())
}

impl Entry {
    /// Whether the target was judged stale, and its deregistration was never sent.
    fn is_stale_and_unsent(&self) -> bool {
        let is_judged = !self.is_wanted() && self.orphan().is_none() && self.told().is_some();
        is_judged && self.cause == Cause::StaleTarget && self.attempts == 0
    }
}

impl Registrations {
    /// Adds an entry for each claim whose target nothing wants. Before this term has written the ledger, an earlier
    /// leader registered all its targets.
    pub(super) fn note_inherited(&mut self, now: Moment) {
        let all: Vec<(Target, PodMark)> =
            self.claims.states().filter_map(|(target, state)| Some((*target, state.pod()?))).collect();
        for (target, mark) in all {
            self.note_family(target.ip);
            if self.knows(&target) {
                let is_earlier = !self.claims.ledger().is_ready();
                self.change(target, |entry| {
                    if is_earlier {
                        entry.inherits(now);
                    }
                });
            } else {
                let mut entry = Entry::inherited(mark, now);
                if let Some(namespace) = self.claims.binding(&target).and_then(|binding| namespace(binding)) {
                    entry.last.pod.namespace = namespace;
                }
                self.insert(target, entry);
            }
        }
        self.change_all();
    }

    /// The leftover targets: the ledger named them, nothing wants them, and Headgate has not made its final decision.
    pub fn orphans(&self) -> impl Iterator<Item = (&Target, &Orphan)> {
        self.entries.iter().filter_map(|(target, entry)| Some((target, entry.orphan()?)))
    }

    /// The targets that were judged stale and whose deregistration was never sent. A doubt cancels the deregistration.
    pub fn stale_and_unsent(&self) -> impl Iterator<Item = &Target> {
        self.entries.which(Entry::is_stale_and_unsent)
    }

    /// When this leader learned from the ledger about this leftover target.
    pub fn orphan_since(&self, target: &Target) -> Option<Moment> {
        self.entries.get(target).filter(|entry| entry.orphan().is_some()).map(|entry| entry.since)
    }

    /// Whether a target from the ledger waits for a read.
    pub fn waits_for_read(&self) -> bool {
        self.entries.values().any(|entry| {
            entry.orphan() == Some(&Orphan::Unjudged)
                || (entry.is_wanted()
                    && matches!(entry.state, Some(State::Unsettled { until, call: None, .. }) if until <= self.now))
        })
    }

    /// A Service may still turn out to want `target` for this living pod. Cancels the deregistration, if it was never
    /// sent.
    pub fn call_off(&mut self, target: &Target, pod: &ObjectKey) {
        self.change(*target, |entry| {
            if entry.is_stale_and_unsent() {
                entry.wish = Wish::Gone(Goes::Orphan(Orphan::Doubted(pod.clone())));
                entry.through = None;
            }
        });
    }

    /// The pod that the ledger names for this leftover target.
    pub fn claimed_for(&self, target: &Target) -> Option<PodMark> {
        self.entries.get(target).filter(|entry| entry.orphan().is_some())?.claimed()
    }

    /// This replica has seen that the pod of a leftover target ended or lost the address. The target is deregistered
    /// immediately.
    pub fn pod_is_gone(&mut self, target: &Target, owner: Owner, cause: Cause, now: Moment) {
        self.now = now;
        self.change(*target, |entry| {
            entry.last = owner;
            (entry.cause, entry.since, entry.attempts) = (cause, now, 0);
            entry.pod_ends();
            entry.wish = Wish::Gone(Goes::Now);
        });
    }

    /// Decides about a leftover target. `holder`: which pod has its address. `living`: the only living pod that has the
    /// address, if there is one, and why Headgate deregisters that pod while it is alive, if it does. `sight`: what the
    /// last read that counts has shown. `exclusive`: whether the group belongs to Headgate alone.
    pub fn judge(
        &mut self,
        target: &Target,
        holder: &Holder,
        living: Option<(Owner, Option<Cause>)>,
        sight: Option<Sight>,
        exclusive: bool,
        now: Moment,
    ) {
        self.now = now;
        let (living, leaves) = living.map_or((None, None), |(pod, leaves)| (Some(pod), leaves));
        self.change(*target, |entry| {
            if entry.orphan().is_none() {
                return;
            }
            let its = living.as_ref().filter(|pod| entry.claimed() == Some(PodMark::of(&pod.uid)));
            let mut goes = |cause: Cause| {
                let replaced = its.filter(|_| cause.spares_the_pod()).cloned();
                (entry.cause, entry.since, entry.attempts) = (cause, now, 0);
                entry.pod_ends();
                if let Some(owner) = its {
                    entry.last = owner.clone();
                    entry.lives_on = true;
                    entry.take_out = if cause.spares_the_pod() { TakeOut::No } else { TakeOut::Due };
                }
                entry.wish = Wish::Gone(replaced.map_or(Goes::Now, Goes::Replaced));
            };
            if let Some(cause) = leaves {
                return goes(cause);
            }
            let waits = |entry: &mut Entry, orphan| entry.wish = Wish::Gone(Goes::Orphan(orphan));
            match (holder, sight) {
                (Holder::Doubtful(pod), _) => waits(entry, Orphan::Doubted(pod.clone())),
                // It is too early to decide: the target may have been registered a moment ago.
                (Holder::Nobody, None | Some(Sight::There(HealthState::Initial))) => {
                    waits(entry, Orphan::Unjudged);
                }
                (Holder::Nobody, Some(Sight::There(HealthState::Healthy | HealthState::ZonalShift)))
                    if !exclusive =>
                {
                    waits(entry, Orphan::Suspect);
                }
                (Holder::Pod, _) | (Holder::Nobody, Some(_)) => goes(Cause::StaleTarget),
            }
        });
    }
}
