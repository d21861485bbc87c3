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

#[cfg(all(test, not(feature = "claims")))]
mod tests {
    use super::*;
    use crate::{
        ledger::{Noted, PodMark},
        model::{Cause, Owner, Uid},
        testing::arn,
    };

    fn key(namespace: &str, name: &str) -> BindingKey {
        let origin = Origin::Service(ObjectKey::new(namespace, name));
        BindingKey { origin, port: "http".into(), group: arn("blue") }
    }

    /// The bindings of a group: for each, whether it is paused, its hold in seconds, and whether it may bind the group.
    fn binders(all: &[(&BindingKey, bool, u32, bool)]) -> Binders {
        let says = |(key, paused, seconds, may_bind): &(&BindingKey, bool, u32, bool)| {
            let hold = Hold::For(*seconds);
            let bound = Duration::from_secs((*seconds).into());
            let says =
                Says { paused: *paused, hold: (bound, LoadBalancerType::Network, hold), may_bind: *may_bind };
            ((*key).clone(), says)
        };
        Binders { read_only: false, all: all.iter().map(says).collect() }
    }

    fn judged(binders: &Binders, mut entry: Entry) -> (bool, Hold) {
        binders.judge(&mut entry);
        (entry.paused, entry.asked.hold)
    }

    fn entry(namespace: &str, through: &[&BindingKey]) -> Entry {
        let owner = Owner { pod: ObjectKey::new(namespace, "a"), uid: Uid::new("a") };
        let through = through.split_last().map(|(last, others)| Through {
            last: (*last).clone(),
            others: others.iter().map(|key| (*key).clone()).collect(),
        });
        Entry::wanted(owner, through, Cause::PodHasIp, Moment::START)
    }

    #[test]
    fn a_target_is_paused_if_all_are_that_it_is_claimed_through_and_has_their_longest_hold() {
        let (web, api, other) = (key("shop", "web"), key("shop", "api"), key("rival", "web"));
        for (web_paused, api_paused, paused) in
            [(false, false, false), (true, false, false), (false, true, false), (true, true, true)]
        {
            let all = binders(&[
                (&web, web_paused, 10, true),
                (&api, api_paused, 20, true),
                (&other, true, 99, true),
            ]);
            assert_eq!(judged(&all, entry("shop", &[&web, &api])), (paused, Hold::For(20)));
            assert_eq!(judged(&all, entry("shop", &[&web])), (web_paused, Hold::For(10)));
        }
    }

    #[test]
    fn if_none_of_them_is_left_those_of_the_namespace_speak_and_never_those_of_another() {
        let (gone, api, other) = (key("shop", "gone"), key("shop", "api"), key("rival", "web"));
        for paused in [false, true] {
            let all = binders(&[(&api, paused, 20, true), (&other, !paused, 99, true)]);
            assert_eq!(judged(&all, entry("shop", &[&gone])), (paused, Hold::For(20)));
        }
        let alone = binders(&[(&other, true, 99, true)]);
        assert_eq!(judged(&alone, entry("shop", &[&gone])), (false, Hold::Auto));
    }

    #[test]
    fn of_what_only_the_ledger_tells_all_speak_who_may_bind_the_group() {
        let (web, api, refused) = (key("shop", "web"), key("rival", "api"), key("thief", "web"));
        let unknown =
            || Entry::inherited(Noted::Registered, PodMark::of(&Uid::new("a")), None, Moment::START);
        for (api_paused, paused) in [(false, false), (true, true)] {
            let all = binders(&[
                (&web, true, 10, true),
                (&api, api_paused, 20, true),
                (&refused, false, 99, false),
            ]);
            assert_eq!(judged(&all, unknown()), (paused, Hold::For(20)));
        }
        assert_eq!(judged(&binders(&[]), unknown()), (false, Hold::Auto));
    }

    #[test]
    fn what_pods_had_that_went_from_its_address_does_not_say_whose_a_target_is_that_only_the_ledger_tells_of()
    {
        let (web, api) = (key("shop", "web"), key("shop", "api"));
        let through = Some(Through { last: web.clone(), others: Vec::new() });
        let unknown = Entry::inherited(Noted::Registered, PodMark::of(&Uid::new("a")), None, Moment::START);
        let all = binders(&[(&web, true, 10, true), (&api, false, 20, true)]);
        assert_eq!(judged(&all, Entry { through, ..unknown }), (false, Hold::For(20)));
    }

    #[test]
    fn a_hold_that_was_asked_for_counts_when_nobody_is_left_to_ask_for_it() {
        let web = key("shop", "web");
        let mut entry = entry("shop", &[&web]);
        binders(&[(&web, false, 10, true)]).judge(&mut entry);
        assert_eq!(judged(&binders(&[]), entry), (false, Hold::For(10)));
    }

    #[test]
    fn headgate_that_only_reads_pauses_all() {
        let web = key("shop", "web");
        let all = Binders { read_only: true, ..binders(&[(&web, false, 10, true)]) };
        assert_eq!(judged(&all, entry("shop", &[&web])), (true, Hold::For(10)));
    }
}
