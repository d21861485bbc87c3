//! The engine connects the parts of this crate. The engine turns inputs into effects and has no other side effects.
//!
//! One task owns the engine, so the engine needs no locks. The engine decides about all calls to AWS but does not send
//! the calls itself. Until every watch has listed, the engine emits only look-ups, so an incomplete view of the cluster
//! never causes a deregistration. Until this replica is the leader and has the ledgers, the engine also emits only
//! look-ups.

mod answers;
mod asker;
mod asking;
mod effect;
mod evicting;
mod explaining;
mod gating;
mod gone;
mod governing;
mod granting;
mod holding;
mod input;
mod keeping;
mod knowledge;
mod leader;
mod leading;
mod looking;
mod outbox;
mod recording;
mod sending;
mod telling;
#[cfg(test)]
mod tests;

pub use effect::{Effect, Span};
pub use input::{Input, Leadership};

use std::collections::BTreeSet;

use crate::{
    engine::{holding::About, knowledge::Knowledge, leader::Leader, outbox::Outbox},
    eviction::{self, Followed},
    gate::Touched,
    lanes::account::Accounts,
    leadership::{Role, Term, Watch},
    model::{
        BindingKey, Bindings, Cause, Change, Changes, GroupRef, Moment, Origin, PodFacts, Resolution,
        Settings, settings::Granting,
    },
    report::Reports,
    services::{Changed, Watched},
    targets::groups::Groups,
};

/// The engine. See the module docs.
#[derive(Clone, Debug)]
pub struct Engine {
    settings: Settings,
    term: Term,
    known: Knowledge,
    /// The data of the leader. The value exists from the start of this replica's term, even before the leader acts.
    leader: Option<Leader>,
    accounts: Accounts,
    groups: Groups,
    out: Outbox,
    reports: Reports,
}

impl Engine {
    /// Creates an engine without data.
    pub fn new(settings: Settings) -> Self {
        let namespaces = settings.namespaces_are_selected.then_some(Watch::Namespaces);
        let grants = (settings.grants != Granting::Unwatched).then_some(Watch::Grants);
        let besides: Vec<Watch> = namespaces.into_iter().chain(grants).collect();
        Self {
            term: Term::new(&settings.scopes, &besides, settings.late, settings.seed),
            known: Knowledge::new(&settings),
            leader: None,
            accounts: Accounts::new(&settings.region, &settings.accounts, settings.limits, settings.seed),
            groups: Groups::new(settings.groups()),
            out: Outbox::default(),
            reports: Reports::default(),
            settings,
        }
    }

    /// Whether every watch has listed and the first request for the ledgers was answered.
    pub fn is_synced(&self) -> bool {
        self.term.is_synced()
    }

    /// Whether this replica calls AWS and writes: it is the leader, has the ledgers, and every watch has listed.
    fn acts(&self) -> bool {
        self.term.role() == Role::Acting
    }

    fn is_standby(&self) -> bool {
        self.term.role() == Role::Standby
    }

    /// The number of known pods.
    pub fn pod_count(&self) -> usize {
        self.known.index.pods().count()
    }

    /// The number of pods that show an address of a pod on another node.
    pub fn contested(&self) -> usize {
        self.known.index.pods().contested()
    }

    /// Processes an input, and returns the resulting effects.
    pub fn step(&mut self, input: Input, now: Moment) -> Vec<Effect> {
        // Handle leadership first, because a replica that is no longer the leader must not report anything.
        if let Input::Leadership(leadership) = input {
            self.on_leadership(leadership, now);
        }
        let pods = self.known.index.pods().count();
        if let Some(changes) = self.known.index.pass(now) {
            if self.known.index.pods().count() < pods {
                self.evictions_follow(Followed::Pods(None, &[]), now, now);
            }
            self.absorb(changes, now);
            self.let_gone_pods_go(&About::All, now);
        }
        let changed = self.known.services.pass(now);
        self.written(changed, now, now);
        self.nodes_pass(now);
        if let Some((watch, scope)) = input.lists()
            && self.term.listed(watch, scope)
        {
            self.touch_gates(Touched::Listed, now);
        }
        match input {
            Input::Pod { change, seen } => self.on_pod(change, seen, now),
            Input::Service { change, seen } => self.on_written(Watched::Service(change), seen, now),
            Input::Binding { change, seen } => {
                self.on_written(Watched::Binding(change), seen, now);
                self.accounts.refer(&self.known.services.take_renamed(&self.groups));
            }
            Input::Namespace { change, seen } => self.on_written(Watched::Namespace(change), seen, now),
            Input::Grants { all, seen } => {
                self.touch_evictions(eviction::Touched::All, now);
                self.on_written(Watched::Grants(all), seen, now);
            }
            Input::Node { change, seen } => self.on_node(change, seen, now),
            Input::Answered { id, result } => self.on_answer(id, result, now),
            Input::Clock(wall) => self.settings.started = wall - now.elapsed(),
            Input::Leadership(_) | Input::Tick => {}
        }
        self.mind_kept(now);
        self.mind_evictions(now);
        self.load_ledgers(now);
        self.review(now);
        self.send(now);
        self.mind_gates(now);
        if self.acts() {
            self.let_groups_sleep(now);
        }
        self.release();
        self.reports.throttled(self.accounts.throttled(now), &self.known.index);
        let standby = self.term.role() == Role::Standby;
        let Self { reports, known: Knowledge { index, nodes, .. }, groups, settings, .. } = self;
        let shown = reports.flush(now, standby, &settings.bounds, index, groups, nodes.last_seen());
        self.out.extend(shown.into_iter().map(Effect::Shows));
        self.out.take()
    }

    /// The time at which the engine needs an [`Input::Tick`] if it receives no other input before.
    pub fn next_wakeup(&mut self, now: Moment) -> Option<Moment> {
        let mut next = self.reports.due();
        let mut earlier = |moment: Option<Moment>| next = next.into_iter().chain(moment).min();
        earlier(self.known.index.next_due());
        earlier(self.known.services.origins().next_due());
        earlier(self.known.nodes.last_seen().next_due());
        earlier(self.term.next_load());
        let calls = self.acts().then(|| self.groups.calls(now));
        let is_standby = self.is_standby();
        earlier(self.accounts.next(calls, is_standby, now));
        if let Some(calls) = calls {
            earlier(calls.when());
        }
        if let Some(leader) = self.leader.as_ref().filter(|_| self.acts()) {
            earlier(leader.gates.next_due());
            earlier(leader.evictions.next_due().filter(|_| !self.settings.read_only));
        }
        next
    }

    fn on_pod(&mut self, change: Change<PodFacts>, seen: Moment, now: Moment) {
        self.groups.orphans().saw(&change);
        let about = About::of(&change);
        self.gates_see(&change, now);
        self.known.creations.saw(&change, |pod| {
            self.known.index.pods().get(&pod.key).is_some_and(|known| known.uid == pod.uid)
        });
        let late = self.evictions_see(&change, now);
        let changes = self.known.index.apply(change, seen);
        self.absorb(changes, now);
        self.evictions_follow(Followed::Pods(about.pod(), &late), seen, now);
        self.let_gone_pods_go(&about, seen);
    }

    /// Handles a change of a Service, a TargetBinding, the grants or the selected namespaces.
    fn on_written(&mut self, watched: Watched, seen: Moment, now: Moment) {
        let changed = self.known.services.apply(watched, seen);
        self.groups.orphans().touch();
        self.written(changed, seen, now);
    }

    fn written(&mut self, (origins, namespaces, relist): Changed, seen: Moment, now: Moment) {
        self.out.extend(relist.map(|(watch, scope)| Effect::Relist(watch, scope)));
        if !namespaces.is_empty() {
            self.touch_evictions(eviction::Touched::All, now);
        }
        if !origins.is_empty() {
            self.groups.orphans().touch();
        }
        for namespace in namespaces {
            let selected = self.known.services.is_selected(&namespace);
            self.touch_gates(Touched::Namespace { name: &namespace, changed: true, selected }, now);
            self.out.put(Effect::Selected(namespace, selected));
        }
        for origin in origins {
            self.settle(&origin, seen, now);
        }
    }

    /// Decides again which bindings of an object are in force.
    fn settle(&mut self, origin: &Origin, seen: Moment, now: Moment) {
        let (mut bindings, mut ended) = self.settle_once(origin, now);
        let is_new = |key: &&BindingKey| !self.groups.contains_key(&key.group);
        let new: Vec<_> = bindings.keys().filter(is_new).map(|key| key.group.clone()).collect();
        for group in &new {
            self.make_group(group, now);
        }
        // The owners of a group are known only after the group was added.
        if !new.is_empty() {
            (bindings, ended) = self.settle_once(origin, now);
        }
        self.accounts.refer(&self.known.services.take_renamed(&self.groups));
        let changes = self.known.index.set_bindings(origin, &bindings, ended, seen);
        for key in &changes.bindings {
            self.govern(&key.group, now);
        }
        let (name, others) = (&origin.key().namespace, !changes.bindings.is_empty());
        self.touch_gates(Touched::Namespace { name, changed: others, selected: false }, now);
        if others {
            self.touch_evictions(eviction::Touched::Namespace(name), now);
        }
        self.absorb(changes, now);
        self.say(origin);
    }

    fn settle_once(&mut self, origin: &Origin, now: Moment) -> (Bindings, Cause) {
        let resolve = |reference: &GroupRef| self.accounts.resolve(reference);
        self.known.services.settle(origin, resolve, &self.groups, now)
    }

    /// Removes the finalizers of deleted TargetBindings whose targets are all deregistered. The method considers
    /// targets in the target group that the TargetBinding last named. The method also considers an earlier target
    /// group, which remains in force while the last-named group is not found.
    fn release(&mut self) {
        if !self.acts() {
            return;
        }
        let (accounts, groups) = (&self.accounts, &self.groups);
        let leaves = |origin: &Origin| groups.values().any(|group| group.registrations().is_leaving(origin));
        let named_is_left = |group: &GroupRef| match accounts.resolve(group) {
            Resolution::Found(facts) => {
                groups.get(&facts.arn).is_none_or(|group| !group.registrations().is_leaving_unknown())
            }
            Resolution::Failed(cause, _) => cause != Cause::AccessDenied,
            Resolution::Pending => false,
        };
        let released =
            self.known.services.released(|origin, group| !leaves(origin) && group.is_none_or(named_is_left));
        self.out.extend(released.into_iter().map(|(key, uid)| Effect::Released(key, uid)));
    }

    /// Whether no call or write of a ledger of this term can take effect late. A successor may then act immediately.
    pub fn is_settled(&self) -> bool {
        self.leader.is_some() && self.groups.values().all(|group| group.registrations().is_settled())
    }

    /// Passes the changes of the index on to the target groups and the other parts.
    fn absorb(&mut self, changes: Changes, now: Moment) {
        for gone in &changes.gone {
            self.touch_gates(Touched::Gone(&gone.pod, &gone.uid), now);
        }
        self.known.gone.note(&changes.gone, now);
        let (gone, ended) =
            (changes.gone.clone(), changes.ended.iter().map(|ended| ended.pod.clone()).collect());
        let mut held = BTreeSet::new();
        for ownership in changes.ownerships {
            let (arn, seen) = (ownership.through.last.group.clone(), ownership.seen);
            let (goes, target, cause) = (ownership.owner.is_none(), ownership.target, ownership.cause);
            let binding = ownership.through.last.clone();
            if let Some(owner) = &ownership.owner {
                self.touch_gates(Touched::Pod(&owner.pod), now);
            }
            self.make_group(&arn, now);
            self.record_ownership(&ownership);
            let Some(group) = self.groups.get_mut(&arn) else { continue };
            if let Some(leader) = &mut self.leader {
                leader.holds.stays(&arn, &target, ownership.owner.as_ref());
            }
            group.registrations_mut().want(ownership, !changes.written);
            if !goes && self.holds(&binding) {
                held.insert(arn.clone());
            }
            let Some(group) = self.groups.get_mut(&arn) else { continue };
            if goes && let Some(leader) = &mut self.leader {
                let (was, asked) = (
                    group.registrations().may_be_sent_to(&target),
                    group.registrations().asked_hold(&target),
                );
                leader.holds.leaves(&arn, &target, cause, was, asked);
            }
            if goes && group.registrations().oldest_removal().is_some() {
                self.accounts.removal_caused(&arn, seen);
            }
        }
        for ended in changes.ended {
            self.pod_ended(ended);
        }
        self.record_ends(ended, gone);
        self.out.extend(changes.relist.map(|scope| Effect::Relist(Watch::Pods, scope)));
        self.tell_excesses(changes.beyond);
        self.tell_contests(&changes.contests);
        self.tell_troubles(changes.troubles);
        for binding in changes.bindings {
            if let Some(group) = self.groups.get_mut(&binding.group) {
                group.registrations_mut().look_at_ledger();
            }
            self.reports.touch_group(&binding.group);
            self.reports.touch_binding(binding);
        }
        // These groups have new owners, so other namespaces may no longer bind these groups.
        for arn in held {
            self.settle_naming(&arn, now);
        }
    }
}
