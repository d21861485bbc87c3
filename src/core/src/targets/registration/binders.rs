//! What the bindings of a target group decide about their own targets: whether the targets are paused, and which hold
//! they request.
//!
//! * A binding decides about the targets that it wants, and about those that it wanted until their pods lost them. If
//!   several bindings have one target, the target is paused if all of them are, and the longest hold counts.
//! * If none of these bindings is in force any more, the bindings in the pod's namespace decide. The owner of a target
//!   that only the ledger names is unknown. All bindings that may bind the group decide about it, even if pods were
//!   seen to lose its address.
//! * One namespace therefore never decides about the targets of another.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use super::{
    Entry, Registrations,
    entries::{Action, Queue},
};
use crate::model::{
    AskedHold, Binding, BindingKey, Bounds, Call, Hold, LoadBalancerType, Moment, ObjectKey, Origin, Target,
    TargetGroupArn, changes::Through,
};

/// The decision of one binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Says {
    paused: bool,
    /// The hold, with its duration first so that holds compare by duration.
    hold: (Duration, LoadBalancerType, Hold),
    /// Whether the binding may bind the group. If it may not, or no longer, it decides about its own targets only.
    may_bind: bool,
}

fn namespace(key: &BindingKey) -> &Arc<str> {
    &key.origin.key().namespace
}

/// See the module docs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Binders {
    read_only: bool,
    all: BTreeMap<BindingKey, Says>,
}

impl Binders {
    /// A group without bindings.
    pub const fn none(read_only: bool) -> Self {
        Self { read_only, all: BTreeMap::new() }
    }

    /// A group with these bindings.
    pub fn new(all: &[&Binding], bounds: &Bounds, read_only: bool) -> Self {
        let says = |binding: &&Binding| Says {
            paused: binding.policy.paused,
            hold: (
                binding.policy.hold.bound(binding.balancer, bounds).unwrap_or_default(),
                binding.balancer,
                binding.policy.hold,
            ),
            may_bind: binding.withheld.is_none(),
        };
        Self { read_only, all: all.iter().map(|binding| (binding.key.clone(), says(binding))).collect() }
    }

    /// The paused bindings.
    fn paused(&self) -> impl Iterator<Item = &BindingKey> {
        self.all.iter().filter(|(_, says)| says.paused).map(|(key, _)| key)
    }

    /// The bindings that decide about a target.
    fn speak_for(&self, entry: &Entry) -> Vec<(&BindingKey, Says)> {
        let is_known = entry.namespace().is_some();
        let its_own = entry.through.iter().filter(|_| is_known).flat_map(Through::all);
        let its_own: Vec<_> =
            its_own.filter_map(|key| self.all.get_key_value(key)).map(|(key, says)| (key, *says)).collect();
        if !its_own.is_empty() {
            return its_own;
        }
        let speaks = |key: &BindingKey, says: &Says| match entry.namespace() {
            Some(own) => namespace(key) == own,
            None => says.may_bind,
        };
        let others = self.all.iter().filter(|(key, says)| speaks(key, says));
        others.map(|(key, says)| (key, *says)).collect()
    }

    /// Sets on a target what its bindings decide.
    pub fn judge(&self, entry: &mut Entry) {
        let all = self.speak_for(entry);
        let is_paused = !all.is_empty() && all.iter().all(|(_, says)| says.paused);
        let hold = all.iter().map(|(_, says)| says.hold).max();
        entry.paused = self.read_only || is_paused;
        if let Some((_, balancer, hold)) = hold {
            entry.asked = AskedHold { balancer, hold };
        }
    }
}

/// A change that is due: its target, since when, and whether it is a deregistration.
pub type Planned = (Target, Moment, bool);

impl Registrations {
    /// Sets the bindings of the group. `is_granted`: whether a grant names it. Returns whether the set of paused
    /// bindings changed.
    pub fn bound_by(&mut self, binders: Binders, is_granted: bool, now: Moment) -> bool {
        self.replaced.set_bound(!binders.all.is_empty());
        self.holders.bound_by(&binders.all.keys().map(namespace).cloned().collect(), is_granted, now);
        if binders == self.binders {
            return false;
        }
        let before = std::mem::replace(&mut self.binders, binders);
        let planned = self.planned();
        for target in self.entries.which(|_| true).copied().collect::<Vec<_>>() {
            self.change(target, |_| {});
        }
        // Some paused changes are no longer paused. Their targets could not be registered until now.
        if !planned.is_subset(&self.planned()) {
            self.replaced.grace_anew();
        }
        before.paused().ne(self.binders.paused())
    }

    /// Whether Headgate does not change this target.
    pub fn is_paused(&self, target: &Target) -> bool {
        self.entries.get(target).map_or(self.binders.read_only, |entry| entry.paused)
    }

    /// Like [`Self::is_paused`], if this pod is the current or last pod of the target.
    pub fn is_paused_for(&self, target: &Target, pod: &ObjectKey) -> Option<bool> {
        let its = |entry: &&Entry| entry.last.pod == *pod;
        self.entries.get(target).filter(its).map(|entry| entry.paused)
    }

    /// The object that paused the target. `None`: the target is not paused, or Headgate only reads.
    pub fn paused_by(&self, target: &Target) -> Option<&Origin> {
        let entry = self.entries.get(target).filter(|entry| entry.paused && !self.binders.read_only)?;
        self.binders.speak_for(entry).first().map(|(key, _)| &key.origin)
    }

    /// The hold that the bindings of the target request, or requested last.
    pub fn asked_hold(&self, target: &Target) -> AskedHold {
        self.entries.get(target).map(|entry| entry.asked).unwrap_or_default()
    }

    /// If anything is paused: how many registrations and deregistrations wait for the end of the pause.
    pub fn paused(&self) -> Option<(usize, usize)> {
        let count = |action| self.entries.count(Queue::Paused(action));
        let is_paused = self.binders.read_only || self.binders.paused().next().is_some();
        is_paused.then(|| (count(Action::Register), count(Action::Deregister)))
    }

    /// Whether deregistrations of this binding's targets wait for the end of a pause. Also true if the owner of a
    /// waiting target is unknown.
    pub fn removals_wait(&self, binding: &BindingKey) -> bool {
        let mut waiting = self.waiting_removals();
        waiting.any(|through| through.is_none_or(|through| through.all().any(|key| key == binding)))
    }

    /// The bindings of the targets whose deregistrations wait for the end of a pause.
    pub fn waiting_removals(&self) -> impl Iterator<Item = Option<&Through>> {
        let waiting = self.entries.waiting(Queue::Paused(Action::Deregister));
        waiting.filter_map(|(_, target)| Some(self.entries.get(target)?.through.as_ref()))
    }

    /// All changes that wait for the end of a pause.
    pub fn planned(&self) -> BTreeSet<Planned> {
        let waiting = |action| self.entries.waiting(Queue::Paused(action));
        let add = waiting(Action::Register).map(|(since, target)| (*target, *since, false));
        add.chain(waiting(Action::Deregister).map(|(since, target)| (*target, *since, true))).collect()
    }

    /// The call that this change would be.
    pub fn call_for(&self, group: &TargetGroupArn, (target, _, removal): &Planned) -> Call {
        let items = self.entries.get(target).map(|entry| entry.item(*target)).into_iter().collect();
        let group = group.clone();
        if *removal { Call::Deregister { group, items } } else { Call::Register { group, items } }
    }
}
