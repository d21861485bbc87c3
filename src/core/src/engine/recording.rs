//! Records Headgate's own changes as [`Effect::Happened`](crate::Effect::Happened). The code that handles the answers
//! of AWS records the changes that AWS reports.

use std::sync::Arc;

use crate::{
    engine::{Effect, Engine},
    model::{
        Cause, Owner, PodFacts, Target, TargetGroupArn, Transition,
        changes::Ownership,
        transition::{PodStep, TargetStep},
    },
    view::GateView,
};

impl Engine {
    /// Records that the owner of a target will change: the target gains, loses or changes its owner.
    pub(super) fn record_ownership(&mut self, ownership: &Ownership) {
        let Ownership { through, target, owner, cause, .. } = ownership;
        let arn = &through.last.group;
        let Some(group) = self.groups.get(arn) else { return };
        let registrations = group.registrations();
        let before = registrations.whose(target).filter(|_| registrations.wants(target));
        if before == owner.as_ref() {
            return;
        }
        let step = |of: &Owner, step| Transition::Target(arn.clone(), *target, of.clone(), step);
        let why_gone = if owner.is_some() { Cause::IpChanged } else { *cause };
        let gone = before.map(|before| step(before, TargetStep::Unwanted(why_gone)));
        let new = owner.as_ref().map(|owner| step(owner, TargetStep::Wanted(*cause)));
        for step in gone.into_iter().chain(new) {
            self.out.put(Effect::Happened(step));
        }
    }

    /// Records that a held deregistration is due.
    pub(super) fn record_held(&mut self, arn: &TargetGroupArn, target: &Target, cause: Cause) {
        let owner = self.groups.get(arn).and_then(|group| group.registrations().whose(target));
        let step = TargetStep::Unwanted(cause);
        if let Some(owner) = owner {
            self.out.put(Effect::Happened(Transition::Target(arn.clone(), *target, owner.clone(), step)));
        }
    }

    /// Records that pods have terminated, and that other pods were deleted.
    pub(super) fn record_ends(&mut self, ended: Vec<Owner>, gone: Vec<Owner>) {
        let ended = ended.into_iter().map(|pod| Transition::Pod(pod, PodStep::Ended));
        let gone = gone.into_iter().map(|pod| Transition::Pod(pod, PodStep::Gone));
        for step in ended.chain(gone) {
            self.out.put(Effect::Happened(step));
        }
    }

    /// Records the new state of a pod's gate.
    pub(super) fn record_gate(&mut self, pod: &PodFacts) {
        let owner = Owner { pod: pod.key.clone(), uid: pod.uid.clone() };
        self.out.put(Effect::Happened(Transition::Pod(owner, PodStep::Gate(GateView::of(pod)))));
    }

    /// Records the fate of these nodes after a possible change of their removal signals.
    pub(super) fn record_nodes(&mut self, nodes: &[Arc<str>]) {
        for node in nodes {
            let goes = self.known.nodes.signal(node).map(|(signal, _)| signal.fate.cause());
            self.out.put(Effect::Happened(Transition::Node(node.clone(), goes)));
        }
    }
}
