//! Who should be a target of what: pods × bindings, kept up to date event by event.
//!
//! Plain data with synchronous methods. Each method returns what it changed: for each target whose owner is
//! another one now, an [`Ownership`]; and each [`Trouble`] that has just begun. Pods are matched against the
//! Services' selectors here, not through EndpointSlices: one hop earlier, and a terminating pod is seen as such
//! even with `publishNotReadyAddresses`.
//!
//! Only the pod that has an address claims targets there (see `addresses.rs`). Pods of the host network, which share
//! one honestly, wait for each other.

mod addresses;
mod changes;
mod claims;
mod keeping;
mod leaving;
mod troubles;
pub mod verdict;

pub use changes::{Changes, Ended, Owner, Ownership, Trouble, TroubleKind};
pub use keeping::lets_go;
#[cfg(test)]
pub use leaving::Apart;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
    time::Duration,
};

use self::{
    addresses::Addresses,
    keeping::Kept,
    troubles::{Subject, Troubled},
};
use crate::{
    binding::{Binding, BindingKey, Bindings},
    model::{
        object::{Labels, ObjectKey, Uid},
        origin::Origin,
        pod::PodFacts,
        readiness::Standing,
        reason::Reason,
        target::Target,
        target_group::TargetGroupArn,
        time::Moment,
        watch::Scope,
    },
    planted::{Bug, planted},
};

/// That a single pod is missing is never doubted: they come and go.
const FEWEST_DOUBTED: usize = 2;

/// Why something changes, and when the event that said so reached Headgate.
#[derive(Clone, Copy)]
struct Cause {
    reason: Reason,
    seen: Moment,
}

impl Cause {
    fn but(self, reason: Reason) -> Self {
        Self { reason, ..self }
    }
}

#[derive(Debug)]
struct PodEntry {
    facts: PodFacts,
    /// Grows with each new IP that any pod gets.
    order: u64,
    standing: Standing,
    /// It is taken out because it is to be evicted, and that is not written on it yet.
    leaves: bool,
    /// Its node is about to die, or gone.
    node_goes: Option<Reason>,
    /// It is not ready any more, and nothing keeps it.
    let_go: bool,
    claims: Vec<(BindingKey, Target)>,
    /// When it lost a claim last, other than with its address.
    left: Option<Moment>,
}

impl PodEntry {
    fn ended(&self, seen: Moment) -> Ended {
        let PodFacts { key, uid, hold, .. } = &self.facts;
        Ended { pod: Owner { pod: key.clone(), uid: uid.clone() }, hold: *hold, seen }
    }

    /// What [`verdict`] says of a pod that stays, if its addresses are its own.
    fn verdict(&self, had: Option<Target>, binding: &Binding) -> Result<Target, Reason> {
        let says = self.verdict_but_for_keeping(had, binding);
        says.and_then(|target| self.why_out().map_or(Ok(target), Err))
    }
}

#[derive(Clone, Debug)]
struct Claim {
    binding: BindingKey,
    owner: Owner,
    order: u64,
    host_network: bool,
}

#[derive(Debug, Default)]
struct Contest {
    claims: Vec<Claim>,
    owner: Option<Uid>,
    troubles: Vec<(Trouble, Subject)>,
}

/// The index. See the module.
#[derive(Debug)]
pub struct Index {
    /// How long a pod may be not ready before that counts.
    patience: Duration,
    /// How long a list may be doubted that says that most of a binding's pods are gone.
    relist_patience: Duration,
    /// The pods that a doubted list did not have, and until when they are taken for living.
    missing: BTreeMap<ObjectKey, Moment>,
    /// The pods that have not been ready since a while, by when that counts.
    wavering: BTreeSet<(Moment, ObjectKey)>,
    /// Boxed: a tree has room for twice as many as are in it.
    pods: BTreeMap<ObjectKey, Box<PodEntry>>,
    addresses: Addresses,
    /// By namespace.
    bindings: BTreeMap<Arc<str>, Bindings>,
    by_group: BTreeMap<TargetGroupArn, BTreeSet<BindingKey>>,
    contests: BTreeMap<(TargetGroupArn, Target), Contest>,
    targets: BTreeMap<BindingKey, BTreeMap<Target, ObjectKey>>,
    troubles: BTreeMap<Trouble, Troubled>,
    /// The pods that would be removed because they are not ready any more; and those that were not among them a moment
    /// ago.
    kept: BTreeMap<ObjectKey, Kept>,
    newly_kept: Vec<ObjectKey>,
    /// When the zones of all of them are looked at again.
    keeping_due: Moment,
    last_order: u64,
}

impl Index {
    /// An empty index; `patience` is how long a pod may be not ready before that counts, and `relist_patience` how
    /// long a list may be doubted that says that most of a binding's pods are gone.
    pub fn new(patience: Duration, relist_patience: Duration) -> Self {
        Self {
            patience,
            relist_patience,
            missing: BTreeMap::new(),
            wavering: BTreeSet::new(),
            pods: BTreeMap::new(),
            addresses: Addresses::default(),
            bindings: BTreeMap::new(),
            by_group: BTreeMap::new(),
            contests: BTreeMap::new(),
            targets: BTreeMap::new(),
            troubles: BTreeMap::new(),
            kept: BTreeMap::new(),
            newly_kept: Vec::new(),
            keeping_due: Moment::START,
            last_order: 0,
        }
    }

    /// Time has passed: pods that have not been ready for too long count as such, and pods that were missing in a list
    /// are given up.
    pub fn pass(&mut self, now: Moment) -> Changes {
        let mut changes = Changes::default();
        if self.missing.values().any(|until| *until <= now) {
            let over = self.missing.iter().filter(|(_, until)| **until <= now);
            let cause = Cause { reason: Reason::PodMissing, seen: now };
            let mut rivals = BTreeSet::new();
            for pod in over.map(|(pod, _)| pod.clone()).collect::<Vec<_>>() {
                rivals.append(&mut self.drop_pod(&pod, cause, &mut changes));
            }
            self.claim_again(&rivals, cause, &mut changes);
        }
        while self.wavering.first().is_some_and(|(due, _)| *due <= now) {
            let Some((_, pod)) = self.wavering.pop_first() else { break };
            if let Some(entry) = self.pods.get_mut(&pod) {
                entry.standing = Standing::Lost;
            }
            self.claim_all(&pod, Cause { reason: Reason::NotReady, seen: now }, &mut changes);
        }
        changes
    }

    /// When [`Index::pass`] has something to do.
    pub fn next_due(&self) -> Option<Moment> {
        self.wavering.first().map(|(due, _)| *due).into_iter().chain(self.missing.values().copied()).min()
    }

    /// A pod is there and looks like this.
    pub fn apply_pod(&mut self, facts: PodFacts, seen: Moment) -> Changes {
        let mut changes = Changes::default();
        let cause = Cause { reason: Reason::PodHasIp, seen };
        let rivals = self.apply(facts, cause, &mut changes);
        self.claim_again(&rivals, cause, &mut changes);
        changes
    }

    /// The pod object of this UID is gone. A late word about an older life of the name changes nothing.
    pub fn remove_pod(&mut self, key: &ObjectKey, uid: &Uid, seen: Moment) -> Changes {
        let mut changes = Changes::default();
        let is_meant =
            |entry: &PodEntry| entry.facts.uid == *uid || planted(Bug::LateDeletedRemovesTheSuccessor);
        if self.pods.get(key).is_some_and(|entry| is_meant(entry)) {
            let cause = Cause { reason: Reason::PodDeleted, seen };
            let rivals = self.drop_pod(key, cause, &mut changes);
            self.claim_again(&rivals, cause, &mut changes);
        }
        changes
    }

    /// These are all the pods within `scope`.
    pub fn relist_pods(&mut self, scope: &Scope, mut pods: Vec<PodFacts>, seen: Moment) -> Changes {
        let mut changes = Changes::default();
        let there: BTreeSet<&ObjectKey> = pods.iter().map(|pod| &pod.key).collect();
        let missing: Vec<ObjectKey> = self
            .pods
            .keys()
            .filter(|key| scope.covers(&key.namespace) && !there.contains(key))
            .filter(|_| !planted(Bug::RelistMissesTheMissing))
            .cloned()
            .collect();
        let mut doubted = self.doubted(&missing);
        // What a second list does not have either is gone.
        doubted.retain(|pod| !self.missing.contains_key(pod) || planted(Bug::DoubtNeverEnds));
        for pod in self.missing.keys().filter(|pod| scope.covers(&pod.namespace)).cloned().collect::<Vec<_>>()
        {
            self.believe(&pod, &mut changes);
        }
        if !doubted.is_empty() {
            changes.relist = Some(scope.clone());
        }
        let mut rivals = BTreeSet::new();
        for key in missing {
            if doubted.contains(&key) && !planted(Bug::DoubtfulListIsBelieved) {
                self.note_doubt(&key, &mut changes);
                self.missing.insert(key, seen + self.relist_patience);
            } else {
                let cause = Cause { reason: Reason::PodMissing, seen };
                rivals.append(&mut self.drop_pod(&key, cause, &mut changes));
            }
        }
        // Of two pods that come with the same IP in one list, the younger one got it last.
        pods.sort_by(|a, b| (a.created, &a.uid).cmp(&(b.created, &b.uid)));
        let cause = Cause { reason: Reason::PodListed, seen };
        for pod in pods {
            rivals.append(&mut self.apply(pod, cause, &mut changes));
        }
        self.claim_again(&rivals, cause, &mut changes);
        changes
    }

    /// Of the pods that are missing in a list, those of bindings that would lose more than half of their targets, and
    /// at least two: a list that is wrong, as of an API server that lost data or a proxy that leads elsewhere, must not
    /// take a whole Service away.
    fn doubted(&self, missing: &[ObjectKey]) -> BTreeSet<ObjectKey> {
        if self.relist_patience.is_zero() {
            return BTreeSet::new();
        }
        let gone: BTreeSet<&ObjectKey> = missing.iter().collect();
        // Of each binding the targets that it would lose, and the missing pods that claim any.
        let mut losses: BTreeMap<&BindingKey, (BTreeSet<Target>, Vec<&ObjectKey>)> = BTreeMap::new();
        for pod in missing {
            for (binding, target) in self.pods.get(pod).into_iter().flat_map(|entry| &entry.claims) {
                let (targets, pods) = losses.entry(binding).or_default();
                pods.push(pod);
                let contest = self.contests.get(&(binding.group.clone(), *target));
                // Pods of the host network claim what they share.
                let stays = |claim: &Claim| claim.binding == *binding && !gone.contains(&claim.owner.pod);
                if contest.is_some_and(|contest| !contest.claims.iter().any(stays)) {
                    targets.insert(*target);
                }
            }
        }
        let most = |(binding, (lost, _)): &(&BindingKey, (BTreeSet<Target>, Vec<&ObjectKey>))| {
            let all = self.targets.get(*binding).map_or(0, BTreeMap::len);
            lost.len() >= FEWEST_DOUBTED && 2 * lost.len() > all
        };
        losses.into_iter().filter(most).flat_map(|(_, (_, pods))| pods).cloned().collect()
    }

    /// The bindings of `origin` are these now; those that ended did so for `ended`.
    pub fn set_bindings(&mut self, origin: &Origin, now: &Bindings, ended: Reason, seen: Moment) -> Changes {
        let mut changes = Changes { written: true, ..Changes::default() };
        let here = self.bindings.entry(origin.key().namespace.clone()).or_default();
        let before: Vec<BindingKey> = here.keys().filter(|key| key.origin == *origin).cloned().collect();
        let pods = self.pods_in(&origin.key().namespace);
        for key in before.iter().filter(|key| !now.contains_key(key)) {
            for pod in &pods {
                self.release(pod, key, None, Cause { reason: ended, seen }, &mut changes);
            }
            if let Some(here) = self.bindings.get_mut(&origin.key().namespace) {
                here.remove(key);
            }
            if let Some(of_group) = self.by_group.get_mut(&key.group) {
                of_group.remove(key);
                if of_group.is_empty() {
                    self.by_group.remove(&key.group);
                }
            }
            self.targets.remove(key);
            self.troubles.retain(|trouble, _| trouble.binding != *key);
            changes.bindings.insert(key.clone());
        }
        for (key, binding) in now {
            let here = self.bindings.entry(origin.key().namespace.clone()).or_default();
            if here.get(key) == Some(binding) {
                continue;
            }
            here.insert(key.clone(), binding.clone());
            self.by_group.entry(key.group.clone()).or_default().insert(key.clone());
            changes.bindings.insert(key.clone());
            for pod in &pods {
                self.claim(pod, key, Cause { reason: Reason::BindingAdded, seen }, &mut changes);
            }
        }
        if !changes.bindings.is_empty() {
            for pod in &pods {
                self.note_keeping(pod, seen, &mut changes);
            }
        }
        changes
    }

    /// The targets that `binding` claims, each with its pod.
    pub fn targets_of(&self, binding: &BindingKey) -> impl Iterator<Item = (&Target, &ObjectKey)> {
        self.targets.get(binding).into_iter().flatten()
    }

    /// The bindings in force.
    pub fn bindings(&self) -> impl Iterator<Item = &Binding> {
        self.bindings.values().flat_map(BTreeMap::values)
    }

    /// The bindings in force that bind something to this group.
    pub fn bindings_of(&self, group: &TargetGroupArn) -> impl Iterator<Item = &Binding> {
        self.by_group.get(group).into_iter().flatten().filter_map(|key| self.binding(key))
    }

    /// The bindings in force that this object makes.
    pub fn bindings_by<'a>(&'a self, origin: &'a Origin) -> impl Iterator<Item = &'a Binding> {
        let here = self.bindings.get(&origin.key().namespace).into_iter().flat_map(BTreeMap::values);
        here.filter(move |binding| binding.key.origin == *origin)
    }

    /// The binding of this name, if it is in force.
    pub fn binding(&self, key: &BindingKey) -> Option<&Binding> {
        self.bindings.get(&key.origin.key().namespace)?.get(key)
    }

    /// The bindings in force that select pods of `namespace` with these labels.
    pub fn selecting(&self, namespace: &str, labels: &Labels) -> impl Iterator<Item = &Binding> {
        let here = self.bindings.get(namespace).into_iter().flat_map(BTreeMap::values);
        here.filter(|binding| binding.selector.selects(labels))
    }

    /// A pod as last seen.
    pub fn pod(&self, key: &ObjectKey) -> Option<&PodFacts> {
        self.pods.get(key).map(|entry| &entry.facts)
    }

    /// The bindings that select a pod, each with the target that it claims there, or why it claims none.
    pub fn bound(&self, pod: &ObjectKey) -> Vec<(&Binding, Result<Target, Reason>)> {
        let Some(entry) = self.pods.get(pod) else { return Vec::new() };
        let here = self.bindings.get(&pod.namespace).into_iter().flat_map(BTreeMap::values);
        let selecting = here.filter(|binding| binding.selector.selects(&entry.facts.labels));
        let stands = |binding: &Binding| {
            let claimed = entry.claims.iter().find(|(key, _)| *key == binding.key);
            match claimed {
                Some((_, target)) => Ok(*target),
                None => self.says(entry, None, binding),
            }
        };
        selecting.map(|binding| (binding, stands(binding))).collect()
    }

    /// Whether a pod would be this target of this group if it were readier, or if it had been it before.
    pub fn waits_for_readiness(&self, pod: &ObjectKey, group: &TargetGroupArn, target: &Target) -> bool {
        let Some(entry) = self.pods.get(pod) else { return false };
        let here = self.bindings.get(&pod.namespace).into_iter().flat_map(BTreeMap::values);
        let mut bound = here.filter(|binding| binding.key.group == *group);
        let says = |had, binding| self.says(entry, had, binding);
        bound.any(|binding| says(None, binding).is_err() && says(Some(*target), binding) == Ok(*target))
    }

    /// Why this pod does not stay a target at this address: it goes, has lost it, also to another pod that has got it
    /// since, or it leaves its target groups while it lives. `None`: it stays.
    pub fn left(&self, owner: &Owner, ip: &IpAddr) -> Option<Reason> {
        let Some(entry) = self.pods.get(&owner.pod).filter(|entry| entry.facts.uid == owner.uid) else {
            return Some(Reason::PodDeleted);
        };
        match &entry.facts {
            facts if facts.terminating => Some(Reason::PodTerminating),
            facts if facts.finished => Some(Reason::PodFinished),
            facts if !facts.ips.contains(ip) => Some(Reason::IpChanged),
            facts if self.addresses.taken_by(ip, &facts.key).is_some() => Some(Reason::IpChanged),
            _ => entry.why_out(),
        }
    }

    /// When a pod that is not ready counts as such, if that stays so.
    pub fn lost_at(&self, pod: &ObjectKey) -> Option<Moment> {
        self.pods.get(pod)?.standing.lost_at(self.patience)
    }

    /// When a pod that a doubted list did not have is given up.
    pub fn given_up_at(&self, pod: &ObjectKey) -> Option<Moment> {
        self.missing.get(pod).copied()
    }

    /// The pod whose a target of a group is.
    pub fn owner(&self, group: &TargetGroupArn, target: &Target) -> Option<&ObjectKey> {
        let contest = self.contests.get(&(group.clone(), *target))?;
        contest.prevailing().map(|claim| &claim.owner.pod)
    }

    /// All pods as last seen.
    pub fn pods(&self) -> impl Iterator<Item = &PodFacts> {
        self.pods.values().map(|entry| &entry.facts)
    }

    /// The pods of a namespace as last seen.
    pub fn pods_of(&self, namespace: &str) -> impl Iterator<Item = &PodFacts> {
        let from = self.pods.range(ObjectKey::new(namespace, "")..);
        from.take_while(move |(key, _)| &*key.namespace == namespace).map(|(_, entry)| &entry.facts)
    }

    /// How many pods are known.
    pub fn pod_count(&self) -> usize {
        self.pods.len()
    }

    /// What [`PodEntry::verdict`] says, and that its address is still its own.
    fn says(&self, entry: &PodEntry, had: Option<Target>, binding: &Binding) -> Result<Target, Reason> {
        let target = entry.verdict(had, binding)?;
        let taken = self.addresses.taken_by(&target.ip, &entry.facts.key);
        if taken.is_some() { Err(Reason::IpChanged) } else { Ok(target) }
    }

    fn pods_in(&self, namespace: &str) -> Vec<ObjectKey> {
        self.pods
            .range(ObjectKey::new(namespace, "")..)
            .map(|(key, _)| key)
            .take_while(|key| &*key.namespace == namespace)
            .cloned()
            .collect()
    }

    /// Nothing is in doubt about this pod.
    fn believe(&mut self, pod: &ObjectKey, changes: &mut Changes) {
        if self.missing.remove(pod).is_some() {
            self.end_of(pod, |kind| *kind == TroubleKind::ListDoubted, changes);
        }
    }

    /// A pod looks like this; gives those that may have lost an address to it, or have one again.
    fn apply(&mut self, facts: PodFacts, mut cause: Cause, changes: &mut Changes) -> BTreeSet<ObjectKey> {
        let key = facts.key.clone();
        self.believe(&key, changes);
        let (mut had, mut rivals) = (Vec::new(), BTreeSet::new());
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
                    cause.reason = Reason::PodReady;
                }
                let alive = !entry.facts.has_ended();
                let was_early = entry.facts.leaving.as_deref().is_some_and(|leaving| leaving.early);
                let was_out = entry.leaves || entry.facts.leaving.is_some();
                if was_out && facts.leaving.is_none() {
                    cause.reason = if was_early { Reason::NodeStays } else { Reason::EvictionGivenUp };
                }
                entry.leaves &= facts.leaving.is_some();
                entry.facts = facts;
                if alive && entry.facts.has_ended() {
                    changes.ended.push(entry.ended(cause.seen));
                }
            }
            other => {
                if other.is_some() {
                    rivals = self.drop_pod(&key, cause.but(Reason::PodDeleted), changes);
                }
                self.last_order += 1;
                let entry = PodEntry {
                    facts,
                    order: self.last_order,
                    standing: Standing::default(),
                    leaves: false,
                    node_goes: None,
                    let_go: false,
                    claims: Vec::new(),
                    left: None,
                };
                self.pods.insert(key.clone(), Box::new(entry));
            }
        }
        self.stand(&key, cause.seen);
        let now = self.pods.get(&key).map(|entry| &entry.facts);
        rivals.append(&mut self.addresses.moved(&key, &had, now));
        self.claim_all(&key, cause, changes);
        rivals
    }

    /// The addresses of these pods may be theirs no more, or theirs again.
    fn claim_again(&mut self, pods: &BTreeSet<ObjectKey>, cause: Cause, changes: &mut Changes) {
        for pod in pods {
            self.claim_all(pod, cause.but(Reason::PodHasIp), changes);
        }
    }

    /// Notes what the pod's status says of its readiness.
    fn stand(&mut self, pod: &ObjectKey, seen: Moment) {
        let Some(entry) = self.pods.get_mut(pod) else { return };
        let (before, patience) = (entry.standing, self.patience);
        entry.standing = before.then(entry.facts.readiness, seen);
        entry.let_go &= entry.standing == Standing::Lost;
        if before != entry.standing {
            if let Some(due) = before.lost_at(patience) {
                self.wavering.remove(&(due, pod.clone()));
            }
            if let Some(due) = entry.standing.lost_at(patience) {
                self.wavering.insert((due, pod.clone()));
            }
        }
    }

    fn claim_all(&mut self, pod: &ObjectKey, cause: Cause, changes: &mut Changes) {
        let here: Vec<BindingKey> =
            self.bindings.get(&pod.namespace).into_iter().flat_map(BTreeMap::keys).cloned().collect();
        for binding in here {
            self.claim(pod, &binding, cause, changes);
        }
        self.note_keeping(pod, cause.seen, changes);
    }

    /// A pod is gone; gives those that may have an address again.
    fn drop_pod(&mut self, key: &ObjectKey, cause: Cause, changes: &mut Changes) -> BTreeSet<ObjectKey> {
        self.believe(key, changes);
        let Some(entry) = self.pods.get(key) else { return BTreeSet::new() };
        let (standing, claims) = (entry.standing, entry.claims.clone());
        let rivals = self.addresses.moved(key, &entry.facts.ips, None);
        for (binding, target) in claims {
            self.release(key, &binding, Some(target), cause, changes);
        }
        if let Some(due) = standing.lost_at(self.patience) {
            self.wavering.remove(&(due, key.clone()));
        }
        let dropped = self.pods.remove(key).filter(|entry| !entry.facts.has_ended());
        changes.ended.extend(dropped.map(|entry| entry.ended(cause.seen)));
        self.end_of(key, |_| true, changes);
        self.kept.remove(key);
        rivals
    }
}
