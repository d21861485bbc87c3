//! Which pod should be a target of which target group. Headgate updates the result with each event.
//!
//! ```text
//!  pods ────► addresses ────► verdict ────► claims ────► owner of each target ────► Changes
//!  bindings ────────────────────┘
//!
//!  pods       queries about pods                   in_force   the bindings, with `Claim`s and problems
//!  addresses  which pod has which address          verdict    decides whether a pod should be a target
//!  keeping    unready pods that their zone needs   leaving    pods that are deregistered while alive
//!  workloads  which pods belong to one workload, and whether any of these pods was bound
//! ```
//!
//! * **Owns** the pods as last seen, the bindings in force, the pod of each address, and the pod that owns each target.
//! * **Flow.** Each call returns the changes: an [`Ownership`] for each target with a new owner, the terminated pods,
//!   and each changed [`Trouble`]. [`Pods`] and [`InForce`] provide read access.
//! * **Guarantees.** Only the pod that has an address claims targets at the address (see `addresses.rs`). Pods of the
//!   host network share an address legitimately; the first of these pods owns the target. When a pod gets a new target,
//!   the index reports the new target before the removal of the old target.
//! * **Assumes** that a list is never older than earlier events, and that the caller has decided which bindings are in
//!   force.
//! * **Caveat.** The index matches pods against selectors and does not use EndpointSlices. Pods report a change earlier
//!   than EndpointSlices do. Even with `publishNotReadyAddresses`, Headgate sees that a pod is terminating.

mod addresses;
mod claims;
mod in_force;
mod keeping;
mod leaving;
mod pods;
pub mod verdict;
mod workloads;

pub use in_force::InForce;
pub use leaving::Order;
pub use pods::Pods;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
    time::Duration,
};

use self::{addresses::Addresses, in_force::Claim, keeping::Keeping, pods::PodEntry, workloads::Workloads};
use crate::{
    agenda::Agenda,
    brake::{Becomes, Brake, is_most},
    ledger::PodMark,
    model::{
        BindingKey, Bindings, Cause, Change, Changes, Moment, ObjectKey, Origin, Owner, PodFacts, Scope,
        Standing, Target, TroubleKind, limits::Excess, node::Presence,
    },
};

/// The time within which a pod that was missing in a list may appear again.
const RETURNS: Duration = Duration::from_secs(15 * 60);

/// An event that can change which pod has which target.
#[allow(clippy::large_enum_variant)] // A value is moved only once.
pub enum Said {
    /// A change of pods.
    Pods(Change<PodFacts>),
    /// The presence of a node changed. The pods of the node may have lost their addresses.
    Node(Arc<str>, Presence),
    /// The pod of each address, from the ledgers. A [`PodMark`] identifies a pod.
    Ledgers(Vec<(IpAddr, PodMark)>),
}

impl From<Change<PodFacts>> for Said {
    fn from(change: Change<PodFacts>) -> Self {
        Self::Pods(change)
    }
}

/// Why something changes, and the time at which Headgate received the event that caused the change.
#[derive(Clone, Copy, Debug)]
struct Because {
    cause: Cause,
    seen: Moment,
}

impl Because {
    fn but(self, cause: Cause) -> Self {
        Self { cause, ..self }
    }
}

/// The index. See the module docs.
#[derive(Clone, Debug, Default)]
pub struct Index {
    /// The time after which an unready pod counts as unready for too long.
    patience: Duration,
    /// Delays changes if a list lacks most pods of a binding. The check never delays a deletion from a watch, because a
    /// target without its pod drops requests.
    brake: Brake<ObjectKey>,
    /// The time at which each unready pod will count as unready for too long.
    wavering: Agenda,
    /// Boxed, because a `BTreeMap` node reserves memory for more entries than it contains.
    pods: BTreeMap<ObjectKey, Box<PodEntry>>,
    /// The pods by the hash that identifies each pod in the ledgers.
    marks: BTreeMap<PodMark, ObjectKey>,
    workloads: Workloads,
    addresses: Addresses,
    bindings: InForce,
    kept: Keeping,
    /// The pods that were missing in a list and may appear again, each with the time of that list.
    missing: BTreeMap<PodMark, Moment>,
    last_order: u64,
}

impl Index {
    /// Creates an empty index.
    pub fn new(patience: Duration, relist_patience: Duration) -> Self {
        Self { patience, brake: Brake::new(relist_patience), ..Self::default() }
    }

    /// Advances the time. Pods whose patience has passed now count as unready for too long. Pods that were missing in a
    /// list for too long now count as deleted. `None`: no change was due.
    pub fn pass(&mut self, now: Moment) -> Option<Changes> {
        self.bindings.forget_ended();
        self.due_to_pass().filter(|due| *due <= now)?;
        let because = Because { cause: Cause::PodMissing, seen: now };
        let mut rivals = self.addresses.pass(now);
        for pod in self.brake.pass(now) {
            rivals.append(&mut self.drop_pod(&pod, because));
        }
        self.claim_again(&rivals, because);
        while let Some(pod) = self.wavering.take(now) {
            if let Some(entry) = self.pods.get_mut(&pod) {
                entry.standing = Standing::Lost;
            }
            self.claim_all(&pod, Because { cause: Cause::NotReady, seen: now });
        }
        self.bindings.forget_ended();
        Some(self.changed())
    }

    /// Returns the collected changes and clears the collection.
    fn changed(&mut self) -> Changes {
        self.bindings.changes.contests = self.addresses.take_contests();
        std::mem::take(&mut self.bindings.changes)
    }

    fn due_to_pass(&self) -> Option<Moment> {
        let (wavering, missing) = (self.wavering.next_due(), self.brake.next_due());
        wavering.into_iter().chain(missing).chain(self.addresses.next_due()).min()
    }

    /// The time at which [`Index::pass`] or [`Index::take_kept`] next needs to run.
    pub fn next_due(&self) -> Option<Moment> {
        self.due_to_pass().into_iter().chain(self.kept.next_due()).min()
    }

    /// The unready pods that Headgate would deregister, if their zones need a check now. The flag is true for a pod
    /// that was added after the last call.
    pub fn take_kept(&mut self, now: Moment) -> Vec<(ObjectKey, bool)> {
        self.kept.take(now)
    }

    pub const fn pods(&self) -> Pods<'_> {
        Pods(self)
    }

    /// The bindings in force, and the owner of each target.
    pub const fn bindings(&self) -> &InForce {
        &self.bindings
    }

    /// Applies an event and returns the resulting changes.
    pub fn apply(&mut self, said: impl Into<Said>, seen: Moment) -> Changes {
        match said.into() {
            Said::Pods(change) => self.take_in_pods(change, seen),
            Said::Node(node, presence) => {
                let rivals = self.addresses.node_is(&node, presence, seen);
                self.claim_again(&rivals, Because { cause: Cause::PodHasIp, seen });
            }
            Said::Ledgers(had) => {
                let mut rivals = BTreeSet::new();
                for (ip, mark) in had {
                    if let Some(pod) = self.marks.get(&mark) {
                        rivals.append(&mut self.addresses.had(&ip, pod, seen));
                    }
                }
                self.claim_again(&rivals, Because { cause: Cause::PodListed, seen });
            }
        }
        self.changed()
    }

    fn take_in_pods(&mut self, change: Change<PodFacts>, seen: Moment) {
        match change {
            Change::Applied(facts) => {
                let because = Because { cause: Cause::PodHasIp, seen };
                let rivals = self.take_in(facts, because);
                self.claim_again(&rivals, because);
            }
            Change::Deleted(PodFacts { key, uid, .. }) => {
                // A delayed event about an earlier pod of the same name changes nothing.
                if self.pods.get(&key).is_some_and(|entry| entry.facts.uid == uid) {
                    let because = Because { cause: Cause::PodDeleted, seen };
                    let rivals = self.drop_pod(&key, because);
                    self.claim_again(&rivals, because);
                }
            }
            Change::Relisted(scope, pods) => self.relist_pods(&scope, pods, seen),
        }
    }

    /// Replaces all pods within `scope`.
    fn relist_pods(&mut self, scope: &Scope, mut pods: Vec<PodFacts>, seen: Moment) {
        let there: BTreeSet<&ObjectKey> = pods.iter().map(|pod| &pod.key).collect();
        let missing = self.pods.keys();
        let missing = missing.filter(|key| scope.covers(&key.namespace) && !there.contains(key));
        let missing: Vec<ObjectKey> = missing.cloned().collect();
        let most = self.most_of_a_binding(&missing);
        let because = Because { cause: Cause::PodMissing, seen };
        let mut rivals = BTreeSet::new();
        for (key, becomes) in self.brake.listed(scope, missing, &most, seen) {
            match becomes {
                Becomes::Gone => rivals.append(&mut self.drop_pod(&key, because)),
                Becomes::Doubted => {
                    let claims = self.pods.get(&key).map_or(&[][..], |entry| &entry.claims);
                    self.bindings.note_doubt(&key, claims);
                }
                Becomes::There => self.bindings.end_of(&key, |kind| *kind == TroubleKind::ListDoubted),
            }
        }
        self.bindings.changes.relist = self.brake.take_asks();
        // If two pods in one list have the same IP, the younger pod got the IP last.
        pods.sort_by(|a, b| (a.created, &a.uid).cmp(&(b.created, &b.uid)));
        let because = Because { cause: Cause::PodListed, seen };
        for pod in pods {
            rivals.append(&mut self.take_in(pod, because));
        }
        self.claim_again(&rivals, because);
    }

    /// Returns the missing pods of each binding that would lose more than half of its targets, and at least two. A
    /// wrong list must not deregister a whole Service. An API server that lost data or a misrouted proxy can return a
    /// wrong list.
    fn most_of_a_binding(&self, missing: &[ObjectKey]) -> BTreeSet<ObjectKey> {
        let gone: BTreeSet<&ObjectKey> = missing.iter().collect();
        // For each binding, the targets that the binding would lose, and the missing pods with `Claim`s through the
        // binding.
        let mut losses: BTreeMap<&BindingKey, (BTreeSet<Target>, Vec<&ObjectKey>)> = BTreeMap::new();
        for pod in missing {
            for (binding, target) in self.pods.get(pod).into_iter().flat_map(|entry| &entry.claims) {
                let (targets, pods) = losses.entry(binding).or_default();
                pods.push(pod);
                // Pods of the host network may claim the same target.
                let stays = |claim: &Claim| claim.binding == *binding && !gone.contains(&claim.owner.pod);
                if !self.bindings.claims_on(&binding.group, *target).iter().any(stays) {
                    targets.insert(*target);
                }
            }
        }
        let most = |(binding, (lost, _)): &(&BindingKey, (BTreeSet<Target>, Vec<&ObjectKey>))| {
            let all = self.bindings.targets_of(binding).count();
            is_most(lost.len(), all)
        };
        losses.into_iter().filter(most).flat_map(|(_, (_, pods))| pods).cloned().collect()
    }

    /// Replaces the bindings of `origin`. `ended`: why the bindings that are missing in `now` have ended.
    pub fn set_bindings(&mut self, origin: &Origin, now: &Bindings, ended: Cause, seen: Moment) -> Changes {
        self.bindings.changes.written = true;
        let before: Vec<BindingKey> = self.bindings.by(origin).map(|binding| binding.key.clone()).collect();
        let pods: Vec<ObjectKey> =
            self.pods().of(&origin.key().namespace).map(|pod| pod.key.clone()).collect();
        for key in before.iter().filter(|key| !now.contains_key(key)) {
            for pod in &pods {
                self.release(pod, key, None, Because { cause: ended, seen });
            }
            self.bindings.end_binding(key, seen);
        }
        for (key, binding) in now {
            if !self.bindings.begin_binding(binding, seen) {
                continue;
            }
            for pod in &pods {
                self.claim(pod, key, Because { cause: Cause::BindingAdded, seen });
            }
        }
        if !self.bindings.changes.bindings.is_empty() {
            for pod in &pods {
                self.note_keeping(pod, seen);
            }
        }
        self.changed()
    }

    /// Ends all doubts about this pod.
    fn believe(&mut self, pod: &ObjectKey) {
        if self.brake.shows(pod) {
            self.bindings.end_of(pod, |kind| *kind == TroubleKind::ListDoubted);
        }
    }

    /// Stores a pod. Returns the other pods that may have lost or regained an address.
    fn take_in(&mut self, facts: PodFacts, mut because: Because) -> BTreeSet<ObjectKey> {
        let key = facts.key.clone();
        self.believe(&key);
        let (mut had, mut rivals) = (Vec::new(), BTreeSet::new());
        self.note_beyond(&facts);
        match self.pods.get_mut(&key) {
            Some(entry) if entry.facts.uid == facts.uid => {
                if entry.facts == facts {
                    return rivals;
                }
                had.clone_from(&entry.facts.ips);
                if entry.facts.ips != facts.ips {
                    self.last_order += 1;
                    entry.order = self.last_order;
                } else if !facts.ips.is_empty() && entry.facts.readiness != facts.readiness {
                    because.cause = Cause::PodReady;
                }
                let alive = !entry.facts.has_ended();
                let was_early = entry.facts.leaving.as_deref().is_some_and(|leaving| leaving.ask.early);
                let was_out = entry.leaves || entry.facts.leaving.is_some();
                if was_out && facts.leaving.is_none() {
                    because.cause = if was_early { Cause::NodeStays } else { Cause::EvictionGivenUp };
                }
                entry.leaves &= facts.leaving.is_some();
                if entry.facts.labels != facts.labels {
                    self.workloads.came(&key.namespace, &facts.labels, because.seen);
                    self.workloads.left(&key.namespace, &entry.facts.labels, because.seen);
                }
                entry.facts = facts;
                if alive && entry.facts.has_ended() {
                    self.bindings.changes.ended.push(entry.ended(because.seen));
                }
            }
            other => {
                if other.is_some() {
                    rivals = self.drop_pod(&key, because.but(Cause::PodDeleted));
                }
                self.last_order += 1;
                self.workloads.came(&key.namespace, &facts.labels, because.seen);
                self.marks.insert(PodMark::of(&facts.uid), key.clone());
                let was_missing = self.missing.remove(&PodMark::of(&facts.uid)).is_some();
                let returned = was_missing.then_some(because.seen);
                let entry = PodEntry { returned, ..PodEntry::new(facts, self.last_order) };
                self.pods.insert(key.clone(), Box::new(entry));
            }
        }
        self.stand(&key, because.seen);
        let now = self.pods.get(&key).map(|entry| &entry.facts);
        rivals.append(&mut self.addresses.moved(&key, &had, now, because.seen));
        self.claim_all(&key, because);
        rivals
    }

    /// Records the parts of a pod that exceed a limit now and did not exceed the limit before.
    fn note_beyond(&mut self, facts: &PodFacts) {
        let known = self.pods.get(&facts.key).filter(|entry| entry.facts.uid == facts.uid);
        let known = known.map_or(&[][..], |entry| &entry.facts.beyond);
        let is_new = |excess: &&Excess| !known.iter().any(|old| old.limit == excess.limit);
        let owner = Owner { pod: facts.key.clone(), uid: facts.uid.clone() };
        let new = facts.beyond.iter().filter(is_new).map(|excess| (owner.clone(), *excess));
        self.bindings.changes.beyond.extend(new);
    }

    /// Decides again which targets these pods claim, because their addresses may have changed.
    fn claim_again(&mut self, pods: &BTreeSet<ObjectKey>, because: Because) {
        for pod in pods {
            self.claim_all(pod, because.but(Cause::PodHasIp));
        }
    }

    /// Records the pod's readiness from its status.
    fn stand(&mut self, pod: &ObjectKey, seen: Moment) {
        let Some(entry) = self.pods.get_mut(pod) else { return };
        entry.standing = entry.standing.then(entry.facts.readiness, seen);
        entry.let_go &= entry.standing == Standing::Lost;
        self.wavering.put(pod, entry.standing.lost_at(self.patience));
    }

    fn claim_all(&mut self, pod: &ObjectKey, because: Because) {
        let here: Vec<BindingKey> =
            self.bindings.of(&pod.namespace).map(|binding| binding.key.clone()).collect();
        for binding in here {
            self.claim(pod, &binding, because);
        }
        self.note_keeping(pod, because.seen);
    }

    /// Removes a pod. Returns the pods that may have regained an address.
    fn drop_pod(&mut self, key: &ObjectKey, because: Because) -> BTreeSet<ObjectKey> {
        self.believe(key);
        let Some(entry) = self.pods.get(key) else { return BTreeSet::new() };
        let claims = entry.claims.clone();
        let rivals = self.addresses.moved(key, &entry.facts.ips, None, because.seen);
        for (binding, target) in claims {
            self.release(key, &binding, Some(target), because);
        }
        self.wavering.put(key, None);
        if let Some(entry) = self.pods.remove(key) {
            if because.cause == Cause::PodMissing {
                self.missing.retain(|_, since| because.seen.since(*since) < RETURNS);
                self.missing.insert(PodMark::of(&entry.facts.uid), because.seen);
            }
            self.marks.remove(&PodMark::of(&entry.facts.uid));
            self.workloads.left(&key.namespace, &entry.facts.labels, because.seen);
            self.bindings.changes.gone.push(Owner { pod: key.clone(), uid: entry.facts.uid.clone() });
            self.bindings.changes.ended.extend((!entry.facts.has_ended()).then(|| entry.ended(because.seen)));
        }
        self.bindings.end_of(key, |_| true);
        self.kept.all.remove(key);
        rivals
    }
}

#[cfg(test)]
mod tests;
