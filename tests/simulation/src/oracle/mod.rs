//! What should be, worked out the slow and simple way from what the engine was told.

mod addresses;
mod bound;
mod doubts;
mod gates;
mod leaving;
mod objects;
mod passed_over;
mod pods;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use self::{bound::Bound, leaving::Nodes, objects::Objects, pods::Pods};
pub use self::{
    gates::Selecting,
    leaving::{Places, Shown},
    pods::Told,
};
use crate::{words::GROUPS, words::Key};
use headgate_core::{
    Settings,
    engine::Input,
    leadership::Watch,
    ledger::PodMark,
    model::{
        BindingFacts, BindingKey, Change, Moment, ObjectKey, Origin, PodFacts, Target, TargetGroupArn,
        TargetGroupFacts, Uid, view::Apart,
    },
};

/// Gives the target group of a name, if the engine knows one.
type Known<'a> = dyn Fn(&str) -> Option<Arc<TargetGroupFacts>> + 'a;

/// A pod that had a target, and through which bindings.
type Had = (Uid, BTreeSet<BindingKey>);

/// What the engine was told.
#[derive(Debug)]
pub struct Oracle {
    pods: Pods,
    objects: Objects,
    /// The pods of each binding, each with its target and its life.
    claims: Places,
    /// The pod that had a target last, and whether it lost it for what became of a pod, and not for what is written.
    left: BTreeMap<Key, (Uid, bool)>,
    /// Through which bindings pods had a target: all of them, the one that had it last at the end.
    through: BTreeMap<Key, Vec<Had>>,
    /// Through which bindings each target is claimed now, and was at some time in this step.
    through_now: BTreeMap<Key, Had>,
    in_this_step: BTreeMap<Key, Had>,
    /// The same of pods that a list has shown with addresses which others in it have got since: whether they had a target for
    /// a moment hangs on the order in the list.
    in_lists: BTreeMap<Key, Vec<Had>>,
    /// Nothing has become of the claims since the step began.
    step_begins: bool,
    /// The targets that are to go although their pods live: those have not been ready for too long, or leave.
    lost: BTreeSet<Key>,
    /// What stands between pods and their targets, as the engine has decided.
    apart: BTreeMap<ObjectKey, Apart>,
    nodes: Nodes,
    /// Whether pods, Services and TargetBindings were listed.
    listed: [bool; 3],
    /// Since when all were.
    synced: Option<Moment>,
    /// The bindings in force, and when they changed last.
    in_force: Vec<BindingKey>,
    bindings_changed: Moment,
    /// The target groups that were known last.
    known: [Option<Arc<TargetGroupFacts>>; 3],
    /// The list of pods that came just now is doubted.
    doubts: bool,
    seen: Vec<&'static str>,
}

impl Oracle {
    pub fn new(settings: &Settings) -> Self {
        Self {
            pods: Pods::new(settings.not_ready_for, settings.relist_patience),
            objects: Objects::new(settings.service_grace, settings.relist_patience),
            claims: BTreeMap::new(),
            left: BTreeMap::new(),
            through: BTreeMap::new(),
            through_now: BTreeMap::new(),
            in_this_step: BTreeMap::new(),
            in_lists: BTreeMap::new(),
            step_begins: true,
            lost: BTreeSet::new(),
            apart: BTreeMap::new(),
            nodes: Nodes::new(settings.relist_patience),
            listed: [false; 3],
            synced: None,
            in_force: Vec::new(),
            bindings_changed: Moment::START,
            known: GROUPS.map(|_| None),
            doubts: false,
            seen: Vec::new(),
        }
    }

    /// This has occurred.
    pub fn sees(&mut self, what: &'static str) {
        self.seen.push(what);
    }

    /// Time has passed.
    pub fn pass(&mut self, now: Moment, known: &Known<'_>) {
        self.doubts = false;
        self.step_begins = true;
        self.objects.services_doubted.asks = false;
        self.objects.written_doubted.asks = false;
        self.nodes.doubted.asks = false;
        self.nodes_pass(now);
        if self.pods.pass(now, &mut self.seen) {
            self.claim(true);
        }
        if self.objects.pass(now, known) {
            self.claim(false);
        }
        self.note_bindings(now);
    }

    /// When [`Oracle::pass`] has something to do.
    pub fn next_due(&self) -> Option<Moment> {
        let nodes = self.nodes.doubted.next_due().into_iter().chain(self.nodes.next_lost(self.pods.lost()));
        self.objects.next_due().into_iter().chain(self.pods.next_due()).chain(nodes).min()
    }

    /// The engine is told this.
    pub fn told(&mut self, input: &Input, now: Moment, known: &Known<'_>) {
        match input {
            Input::Pod { change: Change::Relisted(_, list), .. } => {
                self.listed[0] = true;
                let most = self.most_of_a_binding(list);
                let lives = self.lives_apart();
                self.doubts = self.pods.listed(list, &most, now, &mut self.seen);
                self.forget_apart(&lives);
                self.note_drained();
            }
            Input::Pod { change, .. } => {
                let lives = self.lives_apart();
                self.pods.told(change, now);
                self.forget_apart(&lives);
                self.note_drained();
            }
            Input::Node { change, .. } => return self.told_of_nodes(change, now),
            Input::Service { change, .. } => {
                self.listed[1] |= matches!(change, Change::Relisted(..));
                self.objects.told_of_services(change, now, known);
            }
            Input::Binding { change, .. } => {
                self.listed[2] |= matches!(change, Change::Relisted(..));
                self.objects.told_of_bindings(change, now, known);
            }
            _ => return,
        }
        if self.has_seen_all() {
            self.synced.get_or_insert(now);
        }
        let of_the_pod = matches!(input, Input::Pod { .. });
        if of_the_pod {
            self.note_lost();
        }
        self.claim(of_the_pod);
        if matches!(input, Input::Pod { change: Change::Relisted(..), .. }) {
            self.note_lists();
        }
        self.note_bindings(now);
    }

    fn note_lists(&mut self) {
        for pod in self.pods.all.values().filter(|pod| self.pods.has_lost_its_ip(pod)) {
            for bound in self.objects.bound.values() {
                for key in bound.keys() {
                    let Some(target) = bound.target(key, pod, None, true) else { continue };
                    let here = self.in_lists.entry((key.group.clone(), target)).or_default();
                    match here.iter_mut().find(|(uid, _)| *uid == pod.facts.uid) {
                        Some((_, keys)) => _ = keys.insert(key.clone()),
                        None => here.push((pod.facts.uid.clone(), BTreeSet::from([key.clone()]))),
                    }
                }
            }
        }
    }

    /// A step is over: target groups may have become known in it.
    pub fn looks(&mut self, now: Moment, known: &Known<'_>) {
        let groups = GROUPS.map(known);
        if self.known == groups {
            return;
        }
        self.known = groups;
        self.objects.settle(known);
        self.claim(false);
        self.note_bindings(now);
    }

    /// The missing pods of bindings that would lose more than half of their targets, and at least two.
    fn most_of_a_binding(&self, list: &[PodFacts]) -> BTreeSet<ObjectKey> {
        let missing = |pod: &ObjectKey| !list.iter().any(|listed| listed.key == *pod);
        let mut all: BTreeMap<&BindingKey, (BTreeSet<Target>, BTreeSet<Target>)> = BTreeMap::new();
        for ((key, pod), (target, _)) in &self.claims {
            let (targets, stay) = all.entry(key).or_default();
            targets.insert(*target);
            if !missing(pod) {
                stay.insert(*target);
            }
        }
        let most = |key: &BindingKey| {
            let (targets, stay) = &all[key];
            let fewer = targets.len() - stay.len();
            fewer >= 2 && 2 * fewer > targets.len()
        };
        let gone = self.claims.keys().filter(|(key, pod)| missing(pod) && most(key));
        gone.map(|(_, pod)| pod.clone()).collect()
    }

    /// Works out who has which target, after something has become of a pod or, if not `of_the_pod`, of what is written.
    fn claim(&mut self, of_the_pod: bool) {
        self.objects.bound.retain(|_, bound| !bound.is_over());
        let mut claims = BTreeMap::new();
        for bound in self.objects.bound.values() {
            for key in bound.keys() {
                let has_its_ip = |pod: &Told| !self.is_out(pod) && !self.pods.has_lost_its_ip(pod);
                for (name, pod) in self.pods.all.iter().filter(|(_, pod)| has_its_ip(pod)) {
                    let id = (key.clone(), name.clone());
                    let had = self.claims.get(&id).filter(|(_, uid)| *uid == pod.facts.uid);
                    let let_go = self.apart_of(name).let_go;
                    let target = bound.target(key, pod, had.map(|(target, _)| *target), let_go);
                    if let Some(target) = target {
                        claims.insert(id, (target, pod.facts.uid.clone()));
                    }
                }
            }
        }
        let had = std::mem::replace(&mut self.claims, claims);
        for ((binding, _), (target, uid)) in had {
            let has = |(claimed, pod): (&Target, &Told)| *claimed == target && pod.facts.uid == uid;
            if !self.claims_in(&binding.group).any(has) {
                self.left.insert((binding.group, target), (uid, of_the_pod));
            }
        }
        self.note_through();
        let mut lost = std::mem::take(&mut self.lost);
        lost.retain(|(group, target)| {
            self.at(target)
                .any(|pod| (pod.is_lost && self.apart_of(&pod.facts.key).let_go) || self.is_out(pod))
                && !self.claims_in(group).any(|(claimed, _)| claimed == target)
        });
        self.lost = lost;
    }

    /// Notes through which bindings targets are claimed; of those that nobody claims any more that stays. Those whose claims
    /// end in one step end together, in whatever order.
    fn note_through(&mut self) {
        let mut through: BTreeMap<Key, Had> = BTreeMap::new();
        for ((binding, _), (target, uid)) in &self.claims {
            let owner = self.owner(&binding.group, target);
            if owner.is_some_and(|owner| owner.facts.uid == *uid) {
                let its = through.entry((binding.group.clone(), *target));
                its.or_insert_with(|| (uid.clone(), BTreeSet::new())).1.insert(binding.clone());
            }
        }
        if std::mem::take(&mut self.step_begins) {
            self.in_this_step = std::mem::take(&mut self.through_now);
        }
        for (key, (uid, bindings)) in &through {
            let its = self.in_this_step.entry(key.clone()).or_insert_with(|| (uid.clone(), BTreeSet::new()));
            if its.0 != *uid {
                *its = (uid.clone(), BTreeSet::new());
            }
            its.1.extend(bindings.iter().cloned());
        }
        let ended = self.in_this_step.iter().filter(|(key, _)| !through.contains_key(*key));
        for (key, its) in ended.chain(&through) {
            let here = self.through.entry(key.clone()).or_default();
            if here.last() != Some(its) {
                here.retain(|(uid, _)| *uid != its.0);
                here.push(its.clone());
            }
        }
        self.through_now = through;
    }

    /// What has occurred since this was asked last.
    pub fn seen(&mut self) -> Vec<&'static str> {
        let mut seen = std::mem::take(&mut self.seen);
        seen.append(&mut self.objects.seen);
        seen.append(&mut self.seen_of_addresses());
        seen
    }

    fn claims_in(&self, group: &TargetGroupArn) -> impl Iterator<Item = (&Target, &Told)> {
        let here = self.claims.iter().filter(move |((key, _), _)| key.group == *group);
        here.filter_map(|((_, pod), (target, _))| Some((target, self.pods.all.get(pod)?)))
    }

    /// All pods that the engine was told of.
    pub fn all_pods(&self) -> impl Iterator<Item = &Told> {
        self.pods.all.values()
    }

    /// Since when every watch has listed.
    pub fn synced(&self) -> Option<Moment> {
        self.synced
    }

    /// Whether every watch has listed.
    pub fn has_seen_all(&self) -> bool {
        self.listed == [true; 3]
    }

    /// The watches that are to list once more for what was said in this step.
    pub fn asks(&self) -> Vec<Watch> {
        let all = [
            (Watch::Pods, self.doubts),
            (Watch::Services, self.objects.services_doubted.asks),
            (Watch::Bindings, self.objects.written_doubted.asks),
            (Watch::Nodes, self.nodes.doubted.asks),
        ];
        all.into_iter().filter(|(_, asks)| *asks).map(|(watch, _)| watch).collect()
    }

    /// The targets that a group should have.
    pub fn wanted(&self, group: &TargetGroupArn) -> BTreeSet<Target> {
        self.claims_in(group).map(|(target, _)| *target).collect()
    }

    /// The targets of one binding.
    pub fn targets_of(&self, binding: &BindingKey) -> BTreeSet<Target> {
        let here = self.claims.iter().filter(|((key, _), _)| key == binding);
        here.map(|(_, (target, _))| *target).collect()
    }

    /// Whose a target is: of the pods that claim it, the one that got its IP last.
    pub fn owner(&self, group: &TargetGroupArn, target: &Target) -> Option<&Told> {
        let claims = self.claims_in(group).filter(|(claimed, _)| *claimed == target);
        claims.map(|(_, pod)| pod).max_by_key(|pod| pod.order)
    }

    /// Whether a pod lives at the target that would be it if it was readier.
    pub fn waits_for_readiness(&self, group: &TargetGroupArn, target: &Target) -> bool {
        let has_its_ip = |pod: &&Told| !self.is_out(pod) && !self.pods.has_lost_its_ip(pod);
        let mut living = self.pods.all.values().filter(has_its_ip);
        living.any(|pod| {
            let let_go = self.apart_of(&pod.facts.key).let_go;
            self.objects.bound.values().any(|bound| bound.waits_for(target, group, pod, let_go))
        })
    }

    /// Whether nothing may be written about a target: all bindings are paused through which a pod has it, or had it last, or
    /// all of the group if none of those is left.
    pub fn is_paused(&self, group: &TargetGroupArn, target: &Target) -> bool {
        self.is_paused_by(group, self.had(group, target).last())
    }

    /// The same, of what this pod had: through all that it had it, if it was others' for a moment within a list.
    pub fn is_paused_of(&self, group: &TargetGroupArn, target: &Target, uid: &Uid) -> bool {
        let had = self.had(group, target);
        let listed = self.in_lists.get(&(group.clone(), *target)).into_iter().flatten();
        let mut its = had.iter().chain(listed).filter(|(pod, _)| pod == uid).peekable();
        match its.peek() {
            Some(_) => its.all(|had| self.is_paused_by(group, Some(had))),
            None => self.is_paused_by(group, had.last()),
        }
    }

    /// Who had a target, and through which bindings.
    fn had(&self, group: &TargetGroupArn, target: &Target) -> &[Had] {
        self.through.get(&(group.clone(), *target)).map_or(&[], Vec::as_slice)
    }

    fn is_paused_by(&self, group: &TargetGroupArn, had: Option<&Had>) -> bool {
        let own: Vec<_> = had.into_iter().flat_map(|(_, keys)| keys).collect();
        let all = self.objects.bound.values().flat_map(|bound| bound.keys().map(move |key| (key, bound)));
        let (own, others): (Vec<_>, Vec<_>) =
            all.filter(|(key, _)| key.group == *group).partition(|(key, _)| own.contains(key));
        let speak = if own.is_empty() { others } else { own };
        !speak.is_empty() && speak.iter().all(|(_, bound)| bound.is_paused())
    }

    /// The same of one of which the engine knows the ledger's word only: all that bind the group are paused.
    pub fn all_are_paused(&self, group: &TargetGroupArn) -> bool {
        let mut bound = self.objects.bound.values().filter(|bound| bound.binds(group)).peekable();
        bound.peek().is_some() && bound.all(Bound::is_paused)
    }

    /// Whether the engine may take it for one or the other, or for that of a pod before, which the ledger names.
    pub fn may_be_paused(&self, group: &TargetGroupArn, target: &Target) -> bool {
        let listed = self.in_lists.get(&(group.clone(), *target)).into_iter().flatten();
        let mut had = self.had(group, target).iter().chain(listed);
        had.any(|had| self.is_paused_by(group, Some(had)))
            || self.is_paused(group, target)
            || self.all_are_paused(group)
    }

    /// The same of one that this pod has through this binding, or would have.
    pub fn is_paused_for(&self, key: &BindingKey, target: &Target, uid: &Uid) -> bool {
        match self.had(&key.group, target).last() {
            Some((owner, _)) if owner == uid => self.is_paused(&key.group, target),
            _ => self.objects.bound.get(&key.origin).is_some_and(Bound::is_paused),
        }
    }

    /// Whether anything binds a group.
    pub fn binds(&self, group: &TargetGroupArn) -> bool {
        self.objects.bound.values().any(|bound| bound.binds(group))
    }

    /// Whether a pod lives at the target.
    pub fn lives_at(&self, target: &Target) -> bool {
        self.at(target).any(Told::lives)
    }

    /// Whether a pod is at the target, which may be ending.
    pub fn is_somebody_at(&self, target: &Target) -> bool {
        self.at(target).any(|pod| !pod.facts.finished)
    }

    /// Whether there is the pod of this mark, which may be ending.
    pub fn is_there(&self, mark: PodMark) -> bool {
        self.all_pods().any(|pod| !pod.facts.finished && PodMark::of(&pod.facts.uid) == mark)
    }

    /// Whether a pod lives at the target with an open gate: should it be put back, its gate has to be closed.
    pub fn may_be_put_back(&self, target: &Target) -> bool {
        let shown = |pod: &Told| pod.facts.gate.as_deref().map(|gate| gate.shown).unwrap_or_default();
        self.at(target).any(|pod| pod.lives() && shown(pod).is_open_for(&pod.facts.ips))
    }

    /// Whether a group is Headgate's alone.
    pub fn is_exclusive(&self, group: &TargetGroupArn) -> bool {
        let mut bound = self.objects.bound.values().filter(|bound| bound.binds(group)).peekable();
        bound.peek().is_some() && bound.all(|bound| bound.is_exclusive() && bound.ends.is_none())
    }

    /// The bindings in force.
    pub fn in_force(&self) -> impl Iterator<Item = &BindingKey> {
        self.in_force.iter()
    }

    /// Whether something that is written cannot be followed, or not yet.
    pub fn is_in_doubt(&self) -> bool {
        self.objects.bound.values().any(Bound::is_in_doubt)
    }

    /// The pod that had a target last as far as is known, and whether it lost it for what became of a pod.
    pub fn left(&self, key: &Key) -> Option<(&Uid, bool)> {
        self.left.get(key).map(|(uid, of_the_pod)| (uid, *of_the_pod))
    }

    fn at<'a>(&'a self, target: &'a Target) -> impl Iterator<Item = &'a Told> {
        self.pods.all.values().filter(|pod| pod.facts.ips.contains(&target.ip))
    }

    /// Whether the pod of this UID lives at the target's IP, no other one does, and none that ends there has got it since.
    pub fn lives_alone(&self, uid: &Uid, target: &Target) -> bool {
        let mut there = self.at(target).filter(|pod| pod.lives());
        let is_it = |pod: &Told| pod.facts.uid == *uid && !self.pods.has_lost_its_ip(pod);
        there.next().is_some_and(is_it) && there.next().is_none()
    }

    /// Whether the pod of this UID has the target's IP, and had another one before, or had lost it.
    pub fn has_had_another_ip(&self, uid: &Uid, target: &Target) -> bool {
        self.at(target).any(|pod| pod.facts.uid == *uid && pod.had_another_ip)
    }

    /// Whether no living pod has the target's IP.
    pub fn is_gone(&self, target: &Target) -> bool {
        !self.at(target).any(Told::lives)
    }

    /// Whether a pod that is going, and has not ended, has the target's IP.
    pub fn is_going(&self, target: &Target) -> bool {
        self.is_gone(target) && self.at(target).any(|pod| pod.facts.terminating && !pod.facts.finished)
    }

    /// Whether any pod that has not ended has the target's IP.
    pub fn is_held(&self, target: &Target) -> bool {
        self.at(target).any(|pod| !pod.facts.finished)
    }

    /// Whether a pod lives at the target, or did when a list that is doubted did not have it.
    pub fn is_doubted(&self, target: &Target) -> bool {
        self.at(target).any(Told::is_doubted)
    }

    /// Whether the target is to go because its pod has not been ready for too long.
    pub fn is_lost(&self, group: &TargetGroupArn, target: &Target) -> bool {
        self.lost.contains(&(group.clone(), *target))
    }

    /// The targets that each TargetBinding has for itself that is deleted just now: of two that end together, either may
    /// be let go first, and leave to the other what both have.
    pub fn ending(&self, change: &Change<BindingFacts>) -> Vec<(ObjectKey, Uid, Vec<Key>)> {
        let bindings = match change {
            Change::Applied(binding) => std::slice::from_ref(binding),
            Change::Deleted(_) => &[],
            Change::Relisted(_, list) => &list[..],
        };
        let ending = bindings.iter().filter(|binding| binding.ending);
        let known = ending.filter_map(|binding| {
            let bound = self.objects.bound.get(&Origin::TargetBinding(binding.key.clone()))?;
            let shared = |key: &BindingKey, target: &Target| {
                self.claims.iter().any(|((other, _), (claimed, _))| {
                    claimed == target && other.group == key.group && other.origin != key.origin
                })
            };
            let of = |key: &BindingKey| {
                let own = self.targets_of(key).into_iter().filter(|target| !shared(key, target));
                own.map(|target| (key.group.clone(), target)).collect()
            };
            let targets: Vec<Vec<Key>> = bound.keys().map(of).collect();
            Some((binding.key.clone(), binding.uid.clone(), targets.concat()))
        });
        known.collect()
    }
}
