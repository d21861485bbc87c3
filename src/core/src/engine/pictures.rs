//! Which views have changed, and when they are shown: some time after the calls, never before them.

use std::{collections::BTreeSet, time::Duration};

use crate::{
    binding::BindingKey,
    engine::{Effect, groups::Groups, sayings, telling::troubles},
    index::Index,
    model::{
        hold::{Bounds, HoldWanted},
        reason::Reason,
        target_group::TargetGroupArn,
        time::Moment,
    },
    view::{BindingView, GateView, TargetView},
};

/// A burst of pod events redraws a large binding at most this often.
const PERIOD: Duration = Duration::from_millis(100);

/// What is to be redrawn.
#[derive(Debug, Default)]
pub struct Pictures {
    bindings: BTreeSet<BindingKey>,
    groups: BTreeSet<TargetGroupArn>,
    not_before: Moment,
    /// The calls that AWS throttles.
    pub throttled: Option<&'static str>,
}

impl Pictures {
    pub fn touch_binding(&mut self, binding: BindingKey) {
        self.bindings.insert(binding);
    }

    pub fn touch_group(&mut self, group: &TargetGroupArn) {
        self.groups.insert(group.clone());
    }

    /// When something is to be shown.
    pub fn due(&self) -> Option<Moment> {
        (!self.bindings.is_empty() || !self.groups.is_empty()).then_some(self.not_before)
    }

    /// Shows what has changed, if it is time; drops target groups that nothing is bound to.
    pub fn flush(
        &mut self,
        now: Moment,
        standby: bool,
        bounds: &Bounds,
        index: &Index,
        groups: &mut Groups,
        effects: &mut Vec<Effect>,
    ) {
        if self.due().is_none_or(|due| due > now) {
            return;
        }
        self.not_before = now + PERIOD;
        for key in std::mem::take(&mut self.bindings) {
            let Some(binding) = index.binding(&key) else {
                effects.push(Effect::BindingGone(key));
                continue;
            };
            let hold = HoldWanted::of(binding.policy.hold, binding.balancer, bounds);
            let group = groups.get(&key.group);
            let targets = index.targets_of(&key).map(|(target, pod)| TargetView {
                target: *target,
                pod: pod.clone(),
                registered: group.is_some_and(|group| group.registrations.is_registered(target)),
                state: group.and_then(|group| group.observation.state(target)),
                gate: index.pod(pod).map_or(GateView::None, GateView::of),
            });
            let targets = targets.collect();
            let ending = group.map(|group| group.ending(&key)).unwrap_or_default();
            let mut said = troubles(&key, index, groups);
            said.extend(group.and_then(|group| group.pause(&key.group)));
            said.extend(self.throttled.map(|calls| (Reason::Throttled, sayings::throttled(calls))));
            effects.push(Effect::Binding(BindingView { key, targets, ending, hold, said }));
        }
        let bound = |arn: &TargetGroupArn| index.bindings_of(arn).next().is_some();
        let gone = groups.drop_unused(self.groups.iter(), bound, standby, now);
        effects.extend(gone.into_iter().map(Effect::GroupGone));
        for arn in std::mem::take(&mut self.groups) {
            if let Some(group) = groups.get(&arn) {
                let mut view = group.view(&arn);
                let kept = index.bindings_of(&arn).map(|binding| index.kept_by(&binding.key));
                view.held += kept.sum::<usize>();
                effects.push(Effect::Group(view));
            }
        }
    }
}
