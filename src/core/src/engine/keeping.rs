//! The zone guard for unready pods of Services that request the deregistration of unready pods.
//!
//! A load balancer may still send to an unready pod, and the pod may be the last pod of its zone. The pod then remains
//! registered until another pod of the zone is healthy, for at most
//! [`Limits::patience`](crate::model::eviction::Limits). Every replica measures the timeout itself, so a new leader
//! keeps a pod registered until its own timeout has passed.

use std::collections::BTreeSet;

use crate::{
    engine::Engine,
    index::Order,
    model::{Binding, Cause, Moment, ObjectKey, Origin},
    report::sayings,
};

impl Engine {
    /// Deregisters pods that are no longer ready, as soon as their zones allow the deregistration.
    pub(super) fn mind_kept(&mut self, now: Moment) {
        let mut about = BTreeSet::new();
        for (pod, is_new) in self.known.index.take_kept(now) {
            let Some(since) = self.known.index.pods().kept_since(&pod) else { continue };
            let (evictions, _, around) = self.evictions(now);
            let may_leave = evictions.may_leave(&pod, Binding::lets_go, now.since(since), &around);
            let Ok(cause) = may_leave else {
                let changes = self.known.index.order(&pod, Order::Stay, now);
                if !changes.bindings.is_empty() {
                    about.extend(self.origins_of(&pod));
                }
                self.absorb(changes, now);
                continue;
            };
            if !is_new {
                about.extend(self.origins_of(&pod));
            }
            if cause != Cause::ZoneAllows && self.acts() && !self.settings.read_only {
                self.tell_pod(&pod, cause.reason(), sayings::goes_not_ready(cause, now.since(since)));
            }
            let changes = self.known.index.order(&pod, Order::LetGo, now);
            self.absorb(changes, now);
        }
        for origin in about {
            self.say(&origin);
        }
    }

    fn origins_of(&self, pod: &ObjectKey) -> Vec<Origin> {
        let bound = self.known.index.pods().bound(pod).into_iter().filter(|(binding, _)| binding.lets_go());
        bound.map(|(binding, _)| binding.key.origin.clone()).collect()
    }
}
