//! The output for readers: views of bindings and target groups, and texts about problems.
//!
//! **Owns** the set of views that have changed since Headgate last published them, and the reports to the owners of
//! Services and TargetBindings.
//!
//! **Flow.** A change of a binding or a target group invalidates its view. At the end of each step, but at most ten
//! times per second, Headgate rebuilds the invalid views from the current state.
//!
//! **Guarantees.** A step emits its calls before its views. During a burst of events, a view may be 100 ms old, because
//! Headgate rebuilds views at most ten times per second. If a target group has neither bindings nor targets, Headgate
//! drops the group when it rebuilds the view.
//!
//! **Assumptions.** Every change invalidates the affected view.

pub mod action;
pub mod journal;
pub mod sayings;
pub mod troubles;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use self::troubles::{pause, troubles};
use crate::{
    index::Index,
    lanes::account::Throttled,
    model::{
        BindingKey, Bounds, HoldWanted, Moment, Notices, ObjectKey, Origin, Reason, TargetGroupArn, ZoneName,
    },
    nodes::LastSeen,
    targets::groups::Groups,
    view::{BindingView, GateView, Picture, TargetView},
};

/// The minimum interval between two rebuilds of views, for bursts of pod events.
const PERIOD: Duration = Duration::from_millis(100);

/// The views to rebuild, as described in the module docs.
#[derive(Clone, Debug, Default)]
pub struct Reports {
    bindings: BTreeSet<BindingKey>,
    groups: BTreeSet<TargetGroupArn>,
    not_before: Moment,
    throttled: Throttled,
    told: Notices<Origin>,
}

impl Reports {
    /// Invalidates the view of a binding.
    pub fn touch_binding(&mut self, binding: BindingKey) {
        self.bindings.insert(binding);
    }

    /// Invalidates the view of a target group.
    pub fn touch_group(&mut self, group: &TargetGroupArn) {
        self.groups.insert(group.clone());
    }

    /// Records all problems of the bindings of `origin`. Returns one text per reason for the problems that were not
    /// reported yet.
    pub fn news(
        &mut self,
        origin: &Origin,
        all: impl IntoIterator<Item = (Reason, String)>,
    ) -> BTreeMap<Reason, String> {
        let mut news: BTreeMap<Reason, Vec<String>> = BTreeMap::new();
        for (reason, said) in self.told.set(origin, all) {
            news.entry(reason).or_default().push(said);
        }
        let together = |(reason, said): (Reason, Vec<String>)| {
            let more = said.len() - 1;
            let first = said.into_iter().next().unwrap_or_default();
            (reason, if more == 0 { first } else { format!("{first} (and {more} more)") })
        };
        news.into_iter().map(together).collect()
    }

    /// Clears the record of all reports, so that Headgate reports every problem again.
    pub fn hush(&mut self) {
        self.told = Notices::default();
    }

    /// Records which calls AWS throttles. Every binding in an affected account reports the throttled calls.
    pub fn throttled(&mut self, throttled: Throttled, index: &Index) {
        if self.throttled != throttled {
            let is_other = |key: &BindingKey| throttled.of(&key.group) != self.throttled.of(&key.group);
            let all = index.bindings().all().map(|binding| &binding.key);
            self.bindings.extend(all.filter(|key| is_other(key)).cloned());
            self.throttled = throttled;
        }
    }

    /// The report that AWS throttles calls for the account of this group.
    pub fn throttling(&self, group: &TargetGroupArn) -> Option<(Reason, String)> {
        self.throttled.of(group).map(|calls| (Reason::Throttled, sayings::throttled(calls)))
    }

    /// When to publish the next view.
    pub fn due(&self) -> Option<Moment> {
        (!self.bindings.is_empty() || !self.groups.is_empty()).then_some(self.not_before)
    }

    /// Returns the changed views if they are due, and drops target groups without bindings.
    pub fn flush(
        &mut self,
        now: Moment,
        standby: bool,
        bounds: &Bounds,
        index: &Index,
        groups: &mut Groups,
        nodes: LastSeen<'_>,
    ) -> Vec<Picture> {
        let mut shown = Vec::new();
        if self.due().is_none_or(|due| due > now) {
            return shown;
        }
        self.not_before = now + PERIOD;
        for key in std::mem::take(&mut self.bindings) {
            let Some(binding) = index.bindings().get(&key) else {
                shown.push(Picture::BindingGone(key));
                continue;
            };
            let hold = HoldWanted::of(binding.policy.hold, binding.balancer, bounds);
            let group = groups.get(&key.group);
            let targets = index.bindings().targets_of(&key).map(|(target, pod)| TargetView {
                target: *target,
                pod: pod.clone(),
                node: index.pods().get(pod).and_then(|pod| pod.node.clone()),
                registered: group.is_some_and(|group| group.registrations().is_registered(target)),
                state: group.and_then(|group| group.observation().state(target)),
                why: group
                    .and_then(|group| group.observation().health(target))
                    .map_or("", |health| health.reason),
                gate: index.pods().get(pod).map_or(GateView::None, GateView::of),
            });
            let targets = targets.collect();
            let ending = group.map(|group| group.ending(&key)).unwrap_or_default();
            let mut said = troubles(&key, index, groups);
            said.extend(pause(&key, index, groups));
            said.extend(self.throttling(&key.group));
            shown.push(Picture::Binding(BindingView { key, targets, ending, hold, said }));
        }
        let bound = |arn: &TargetGroupArn| index.bindings().of_group(arn).next().is_some();
        let gone = groups.drop_unused(self.groups.iter(), bound, standby);
        shown.extend(gone.into_iter().map(Picture::GroupGone));
        for arn in std::mem::take(&mut self.groups) {
            if let Some(group) = groups.get(&arn) {
                let node = |pod: &ObjectKey| index.pods().get(pod).and_then(|pod| pod.node.as_ref());
                let zone_of = |pod: &ObjectKey| nodes.zone(node(pod)).and_then(|zone| ZoneName::parse(zone));
                let mut view = group.view(&arn, zone_of);
                let kept = index.bindings().of_group(&arn).map(|binding| index.pods().kept_by(&binding.key));
                view.held += kept.sum::<usize>();
                shown.push(Picture::Group(view));
            }
        }
        shown
    }
}

#[cfg(test)]
mod tests;
