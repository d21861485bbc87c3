//! The nodes that the engine was told of, and the pods that leave while they live.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use super::{Oracle, bound::Bound, doubts::Doubts, pods::Told};
use crate::words::Key;
use headgate_core::model::{
    BindingKey, Change, HealthState, LeavingFacts, Moment, NodeFacts, ObjectKey, Target, TargetGroupArn, Uid,
    signal::{DISRUPTED, DYING},
    view::Apart,
};

/// Where pods are targets: by binding and pod, the target and the life of the pod.
pub type Places = BTreeMap<(BindingKey, ObjectKey), (Target, Uid)>;
/// What the last read of each group has shown.
pub type Shown = BTreeMap<TargetGroupArn, BTreeMap<Key, HealthState>>;

/// For so long a node is not ready before its pods lose their addresses.
const LOST_AFTER: Duration = Duration::from_secs(30);

/// The nodes.
#[derive(Debug)]
pub struct Nodes {
    all: BTreeMap<Arc<str>, NodeFacts>,
    deleted: BTreeSet<Arc<str>>,
    /// When those that are not ready count as lost.
    unready: BTreeMap<Arc<str>, Moment>,
    /// The pods that had an address when their node was about to die, or gone.
    go: BTreeSet<Uid>,
    /// From these pods were evicted while they were to be drained.
    pub(super) drained: BTreeSet<Arc<str>>,
    /// Most are said to be gone.
    pub doubted: Doubts<Arc<str>>,
}

/// The first taint of a node, if it has one, that says that it is to be drained; and not that it dies.
pub(super) fn disrupted_by(node: &NodeFacts) -> Option<&str> {
    let has = |keys: &'static [&'static str]| node.taints.iter().find(move |taint| keys.contains(&&***taint));
    has(&DISRUPTED).filter(|_| has(&DYING).is_none() && !node.shuts_down).map(|taint| &**taint)
}

impl Nodes {
    pub(super) fn get(&self, name: &Arc<str>) -> Option<&NodeFacts> {
        self.all.get(name)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &NodeFacts> {
        self.all.values()
    }

    /// From these pods were evicted; what is well again is not drained any more.
    pub(super) fn note_drained(&mut self, from: Vec<Arc<str>>) {
        self.drained.extend(from);
        let all = &self.all;
        let is_well = |node: &NodeFacts| !node.cordoned && node.taints.is_empty() && !node.shuts_down;
        self.drained.retain(|name| !all.get(name).is_some_and(is_well));
    }

    pub fn new(patience: Duration) -> Self {
        Self {
            all: BTreeMap::new(),
            deleted: BTreeSet::new(),
            unready: BTreeMap::new(),
            go: BTreeSet::new(),
            drained: BTreeSet::new(),
            doubted: Doubts::new(patience),
        }
    }

    /// 0: it stays, as far as is known; 1: it is to be drained; 2: it dies; 3: it is gone.
    fn fate(&self, name: &Arc<str>) -> u8 {
        let Some(node) = self.all.get(name) else { return if self.deleted.contains(name) { 3 } else { 0 } };
        let has = |keys: &[&str]| node.taints.iter().any(|taint| keys.contains(&&**taint));
        match () {
            () if has(&DYING) || node.shuts_down => 2,
            () if has(&DISRUPTED) => 1,
            () => 0,
        }
    }

    fn told(&mut self, change: &Change<NodeFacts>, now: Moment, seen: &mut Vec<&'static str>) {
        match change {
            Change::Applied(node) => {
                self.doubted.shows(&node.name);
                self.deleted.remove(&node.name);
                self.put(node, now);
            }
            Change::Deleted(node) => {
                let there = self.all.len();
                if !self.all.contains_key(&node.name) || self.doubted.deleted(&node.name, there, now, seen) {
                    self.loses([node.name.clone()]);
                }
            }
            Change::Relisted(_, list) => {
                let listed = list.iter().map(|node| node.name.clone()).collect();
                let gone = self.doubted.listed(&listed, &self.all.keys().cloned().collect(), now, seen);
                self.loses(gone);
                self.deleted.retain(|name| !listed.contains(name));
                for node in list {
                    self.put(node, now);
                }
            }
        }
    }

    fn put(&mut self, node: &NodeFacts, now: Moment) {
        let before = self.all.insert(node.name.clone(), node.clone());
        if !node.not_ready {
            self.unready.remove(&node.name);
        } else if before.as_ref().is_none_or(|before| !before.not_ready) {
            let lost_at = if before.is_none() { now } else { now + LOST_AFTER };
            self.unready.insert(node.name.clone(), lost_at);
        }
    }

    fn lost(&self, now: Moment) -> BTreeSet<Arc<str>> {
        self.unready.iter().filter(|(_, at)| **at <= now).map(|(node, _)| node.clone()).collect()
    }

    /// When one that is not ready comes to be lost that is none of these.
    pub(super) fn next_lost(&self, lost: &BTreeSet<Arc<str>>) -> Option<Moment> {
        self.unready.iter().filter(|(node, _)| !lost.contains(*node)).map(|(_, at)| *at).min()
    }

    fn loses(&mut self, names: impl IntoIterator<Item = Arc<str>>) {
        for name in names {
            self.all.remove(&name);
            self.unready.remove(&name);
            self.deleted.insert(name);
        }
    }
}

impl Oracle {
    pub(super) fn told_of_nodes(&mut self, change: &Change<NodeFacts>, now: Moment) {
        let mut seen = Vec::new();
        self.nodes_change(now, |nodes| nodes.told(change, now, &mut seen));
        self.seen.append(&mut seen);
    }

    /// Time has passed.
    pub(super) fn nodes_pass(&mut self, now: Moment) {
        let gone = self.nodes.doubted.pass(now);
        if !gone.is_empty() {
            self.seen.push("list: gone after a while");
            self.nodes_change(now, |nodes| nodes.loses(gone));
        }
        self.pods.lost_nodes(self.nodes.lost(now), now);
    }

    fn nodes_change(&mut self, now: Moment, change: impl FnOnce(&mut Nodes)) {
        let names = |nodes: &Nodes| -> BTreeSet<Arc<str>> {
            nodes.all.keys().chain(&nodes.deleted).cloned().collect()
        };
        let before: BTreeMap<Arc<str>, u8> =
            names(&self.nodes).into_iter().map(|name| (name.clone(), self.nodes.fate(&name))).collect();
        let well = |nodes: &Nodes, name: &Arc<str>| nodes.all.get(name).is_some_and(|node| !node.not_ready);
        let there: BTreeMap<Arc<str>, bool> =
            self.nodes.all.keys().map(|name| (name.clone(), well(&self.nodes, name))).collect();
        change(&mut self.nodes);
        for name in there.keys().filter(|name| !self.nodes.all.contains_key(*name)) {
            self.pods.node_is_gone(name, true, now);
        }
        for name in
            self.nodes.all.keys().filter(|name| well(&self.nodes, name) && there.get(*name) != Some(&true))
        {
            self.pods.node_is_gone(name, false, now);
        }
        self.pods.lost_nodes(self.nodes.lost(now), now);
        self.claim(true);
        self.note_drained();
        let mut all = names(&self.nodes);
        all.extend(before.keys().cloned());
        for name in all {
            let fate = self.nodes.fate(&name);
            let here = |pod: &&Told| pod.facts.node.as_ref() == Some(&name);
            let pods: Vec<&Told> = self.pods.all.values().filter(here).collect();
            if fate < 2 {
                for pod in pods {
                    self.nodes.go.remove(&pod.facts.uid);
                }
            } else if before.get(&name) != Some(&fate) {
                let go = pods.iter().filter(|pod| pod.lives()).map(|pod| pod.facts.uid.clone());
                self.nodes.go.extend(go);
            }
        }
    }

    /// What stands between a pod and its targets.
    pub fn apart_of(&self, pod: &ObjectKey) -> Apart {
        self.apart.get(pod).copied().unwrap_or_default()
    }

    /// Whether a pod is no target because of its node.
    pub fn goes_with_its_node(&self, pod: &ObjectKey) -> bool {
        self.apart_of(pod).node_goes
    }

    /// Whether a living pod is no target because it leaves.
    pub fn is_out(&self, pod: &Told) -> bool {
        let apart = self.apart_of(&pod.facts.key);
        apart.decided || apart.node_goes || pod.facts.leaving.as_deref().is_some_and(LeavingFacts::is_out)
    }

    /// The pod of this name, as the engine was told of it.
    pub fn told_pod(&self, pod: &ObjectKey) -> Option<&Told> {
        self.pods.all.get(pod)
    }

    /// Whether anything that selects a pod names this target group.
    pub fn names(&self, pod: &Told, group: &str) -> bool {
        let mut bound = self.objects.bound.values();
        bound.any(|bound| bound.asks_for(&pod.facts.labels) && bound.text.names(group))
    }

    /// It is told to stand by: what it has decided about pods and not written down is not in force from then on. That comes
    /// before all else of the step. So a pod that has not been ready for too long by now is a target that is to go, as
    /// for a replica that never decided anything, and not one that may not come back.
    pub fn stands_by(&mut self) {
        let lives = |pod: &ObjectKey| self.told_pod(pod).is_some_and(Told::lives);
        let mut apart = self.apart.clone();
        for (pod, apart) in apart.iter_mut().filter(|(pod, _)| lives(pod)) {
            apart.decided = false;
            apart.node_goes &= self.told_pod(pod).is_some_and(|pod| self.node_dies(pod));
        }
        apart.retain(|_, apart| *apart != Apart::default());
        if self.apart != apart {
            self.apart = apart;
            self.note_lost();
            self.claim(true);
        }
    }

    /// Which lives the engine's decisions are about.
    pub(super) fn lives_apart(&self) -> BTreeMap<ObjectKey, Option<Uid>> {
        let life = |name: &ObjectKey| self.told_pod(name).map(|pod| pod.facts.uid.clone());
        self.apart.keys().map(|name| (name.clone(), life(name))).collect()
    }

    /// What was decided about another life of a name says nothing about the one that has it now.
    pub(super) fn forget_apart(&mut self, before: &BTreeMap<ObjectKey, Option<Uid>>) {
        let now = self.lives_apart();
        self.apart.retain(|name, _| now.get(name) == before.get(name));
    }

    /// A step is over: the engine has decided this. Says what is wrong with that.
    pub fn hears(&mut self, apart: BTreeMap<ObjectKey, Apart>) -> Result<(), String> {
        if self.apart != apart {
            self.apart = apart;
            self.note_lost();
            self.claim(true);
        }
        self.forget_deleted_nodes();
        for pod in self.pods.all.values().filter(|pod| pod.lives()) {
            let name = &pod.facts.key.name;
            let fate = pod.facts.node.as_ref().map_or(0, |node| self.nodes.fate(node));
            let node_goes = self.apart_of(&pod.facts.key).node_goes;
            // One that starts there is not registered.
            let stays_out = self.is_passed_over(pod);
            if node_goes && fate < 2 && !stays_out {
                return Err(format!("{name} is taken out because of its node, which stays"));
            }
            if !node_goes && fate >= 2 && self.nodes.go.contains(&pod.facts.uid) {
                return Err(format!("the node of {name} goes, and it stays a target"));
            }
        }
        Ok(())
    }

    /// A node that is gone is remembered as long as it matters.
    fn forget_deleted_nodes(&mut self) {
        let Self { pods, nodes, apart, .. } = self;
        let goes = |pod: &Told| apart.get(&pod.facts.key).is_some_and(|apart| apart.node_goes);
        let go = std::mem::take(&mut nodes.go);
        let left: Vec<&Told> =
            pods.all.values().filter(|pod| go.contains(&pod.facts.uid) || goes(pod)).collect();
        let living = left.iter().filter(|pod| !pod.facts.terminating && !pod.facts.finished);
        let with_pods: BTreeSet<&Arc<str>> = living.filter_map(|pod| pod.facts.node.as_ref()).collect();
        nodes.deleted.retain(|node| with_pods.contains(node));
        nodes.go = left.iter().map(|pod| pod.facts.uid.clone()).collect();
    }

    /// A node that is there.
    pub fn node(&self, name: &Arc<str>) -> Option<&NodeFacts> {
        self.nodes.get(name)
    }

    /// Whether a node that is there is about to go, or cordoned.
    pub fn goes_away(&self, name: &Arc<str>) -> bool {
        self.nodes.fate(name) > 0 || self.nodes.get(name).is_some_and(|node| node.cordoned)
    }

    /// Whether the node of a pod is known to be as it should be.
    pub fn node_stays(&self, pod: &Told) -> bool {
        let node = pod.facts.node.as_ref().filter(|node| self.nodes.all.contains_key(*node));
        node.is_some_and(|node| self.nodes.fate(node) == 0) && !self.is_passed_over_on_a_cordon(pod)
    }

    /// Whether the node of a pod takes new ones, as far as is known.
    pub fn node_is_closed(&self, pod: &Told) -> bool {
        let node = pod.facts.node.as_ref().and_then(|node| self.nodes.all.get(node));
        node.is_some_and(|node| !node.takes_pods)
    }

    /// Whether the node of a pod is about to go, as far as the pod is concerned.
    pub fn node_goes(&self, pod: &Told) -> bool {
        let goes = pod.facts.node.as_ref().is_some_and(|node| self.nodes.fate(node) > 0);
        goes || self.is_passed_over_on_a_cordon(pod)
    }

    /// Whether the node of a pod is not known to be there and ready.
    pub fn node_may_be_lost(&self, pod: &Told, now: Moment) -> bool {
        let node = pod.facts.node.as_ref().filter(|node| self.nodes.all.contains_key(*node));
        pod.node_gone || node.is_none_or(|node| self.nodes.lost(now).contains(node))
    }

    /// Whether the node of a pod dies, or is gone.
    pub fn node_dies(&self, pod: &Told) -> bool {
        pod.facts.node.as_ref().is_some_and(|node| self.nodes.fate(node) > 1)
    }

    fn is_passed_over_on_a_cordon(&self, pod: &Told) -> bool {
        let node = pod.facts.node.as_ref().and_then(|node| self.nodes.all.get(node));
        pod.facts.passed_over.by_all && node.is_some_and(|node| node.cordoned)
    }

    fn zone(&self, pod: &Told) -> Option<&Arc<str>> {
        self.nodes.all.get(pod.facts.node.as_ref()?)?.zone.as_ref()
    }

    /// Where each pod is a target now.
    pub fn places(&self) -> Places {
        self.claims.clone()
    }

    /// Whether a pod that had these places leaves a zone of one of them without a healthy target, although another pod
    /// there is one or may become one; `departs`: which others go as well. A place that what is written has taken away
    /// meanwhile it has lost for that.
    pub fn is_last_of_a_zone(
        &self,
        pod: &Told,
        places: &Places,
        shown: &Shown,
        departs: impl Fn(&Told) -> bool,
        deregistering: bool,
    ) -> bool {
        let Some(zone) = self.zone(pod) else { return false };
        let here = |other: &Told| other.facts.uid != pod.facts.uid && self.zone(other) == Some(zone);
        let own =
            places.iter().filter(|((_, name), (_, uid))| *name == pod.facts.key && *uid == pod.facts.uid);
        let mut own = own.filter(|((key, _), (target, uid))| !self.is_paused_for(key, target, uid));
        own.any(|((key, _), (target, _))| {
            let keeps =
                |bound: &&Bound| bound.target(key, pod, Some(*target), false).as_ref() == Some(target);
            let bound = self.objects.bound.get(&key.origin).filter(keeps);
            let Some(bound) = bound.filter(|bound| !deregistering || bound.deregisters()) else {
                return false;
            };
            let states = shown.get(&key.group);
            let is_healthy = |target: &Target| {
                let of =
                    |states: &BTreeMap<Key, HealthState>| states.get(&(key.group.clone(), *target)).copied();
                states.and_then(of) == Some(HealthState::Healthy)
            };
            let mut others = self.pods.all.values().filter(|other| {
                let may_come = other.facts.node.is_none() && other.facts.uid != pod.facts.uid;
                !other.facts.finished && bound.selects(&other.facts.labels) && (may_come || here(other))
            });
            let remaining =
                places.iter().filter(|((other, _), _)| other == key).any(|((_, name), (target, uid))| {
                    let other = self.pods.all.get(name).filter(|other| other.facts.uid == *uid);
                    other.is_some_and(|other| here(other) && is_healthy(target) && !departs(other))
                });
            (states.is_none() || is_healthy(target)) && others.next().is_some() && !remaining
        })
    }

    /// Whether a pod that had these places is the only healthy target of a group.
    pub fn is_last_healthy(
        &self,
        pod: &Told,
        places: &Places,
        shown: &Shown,
        departs: impl Fn(&Told) -> bool,
    ) -> bool {
        let is_its = |name: &ObjectKey, uid: &Uid| *name == pod.facts.key && *uid == pod.facts.uid;
        let own = places.iter().filter(|((_, name), (_, uid))| is_its(name, uid));
        let mut own = own.filter(|((key, _), (target, uid))| !self.is_paused_for(key, target, uid));
        own.any(|((key, _), (target, _))| {
            let Some(states) = shown.get(&key.group) else { return true };
            let is_healthy =
                |target: &Target| states.get(&(key.group.clone(), *target)) == Some(&HealthState::Healthy);
            let mut others = places.iter().filter(|((other, _), _)| other.group == key.group);
            let remaining = others.any(|((_, name), (target, uid))| {
                let other = self.pods.all.get(name).filter(|_| !is_its(name, uid));
                other.is_some_and(|other| is_healthy(target) && !departs(other))
            });
            is_healthy(target) && !remaining
        })
    }

    /// What the pods had that are out by now is to be removed; of those that were let go because they have not been ready
    /// for too long, what they had through bindings that ask for that: elsewhere it says nothing, and a removal for
    /// another reason may be held.
    pub(super) fn note_lost(&mut self) {
        let goes = |(key, name): &(BindingKey, ObjectKey)| {
            let deregisters = || self.objects.bound.get(&key.origin).is_some_and(Bound::deregisters);
            let pod = self.pods.all.get(name);
            pod.is_some_and(|pod| {
                self.is_out(pod) || (pod.is_lost && self.apart_of(name).let_go && deregisters())
            })
        };
        let had = self.claims.iter().filter(|(id, _)| goes(id));
        let had: Vec<Key> = had.map(|((key, _), (target, _))| (key.group.clone(), *target)).collect();
        self.lost.extend(had);
    }
}
