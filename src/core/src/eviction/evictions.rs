//! The state machine of evictions: which pods should be evicted, and which of these pods next need a check or an
//! annotation. The state machine reads [`Surroundings`] and changes only its own state.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use super::{
    Touched,
    departure::{Case, Decision, Departure, Next},
    departures::{Departures, Open, Outcome},
    detaching::Detaching,
    early::{Early, starts_there, was_there},
    ruling::propagation,
    seen::Seen,
    stays_alive,
    surroundings::{Place, Surroundings, bound},
    zone::may_leave,
};
use crate::{
    ledger::PodMark,
    model::{
        Binding, Cause, Change, Failure, Fate, Labels, Moment, ObjectKey, PodFacts, RequestId, Signal,
        Target, TargetGroupArn,
        eviction::{self, Check, Checked, MarkWrite, Ruling},
        object::within,
    },
    requests::{Answer, Request, fitting},
};

/// An update of the index or of the nodes.
#[derive(Clone, Copy, Debug)]
pub enum Followed<'a> {
    /// The watch reported this pod, or any number of pods if `None`. The slice is the result of [`Evictions::saw`].
    Pods(Option<&'a ObjectKey>, &'a [Late]),
    /// The removal signals of these nodes have changed.
    Nodes(&'a [Arc<str>]),
}

/// A pod on a node that will be removed, seen for the first time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Late {
    pod: ObjectKey,
    /// Whether the pod has just started on the node.
    starts: bool,
}

/// The consequence of a change of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Consequence {
    /// The pod's node will be removed.
    Goes {
        pod: ObjectKey,
        node: Arc<str>,
        /// The removal signal, with its message. The signal determines whether Headgate deregisters the targets
        /// immediately.
        signal: Signal,
        /// Whether the pod has a target that Headgate may deregister.
        is_target: bool,
        /// Whether the pod has just started on the node and is not registered.
        stays_out: bool,
    },
    /// The pod's node remains after all.
    Stays {
        pod: ObjectKey,
        node: Arc<str>,
        /// Whether the pod was deregistered because of the node.
        is_out: bool,
    },
    /// All pods of a deleted node are deleted.
    Ends(Arc<str>),
}

/// Requests with their IDs, and target groups whose health Headgate must read more often. A pod waits for healthy
/// targets of these groups in its zone.
type Due = (Vec<(RequestId, Request)>, BTreeSet<TargetGroupArn>);

#[derive(Clone, Debug, Default)]
pub struct Evictions {
    pub(super) departures: Departures,
    pub(super) early: Early,
    pub(super) detaching: Detaching,
    /// The pods that had targets in the ledgers when the ledgers were last read.
    noted: BTreeSet<PodMark>,
}

/// Methods that handle events.
impl Evictions {
    /// Handles an event that may affect pods that are or will be evicted.
    pub fn touch(&mut self, touched: Touched<'_>, now: Moment) {
        if let Touched::Ledgers(pods) = touched {
            self.noted.clone_from(pods);
        }
        self.departures.touch(touched, now);
        self.early.touch(touched, now);
        if matches!(touched, Touched::All) {
            self.detaching.touch(now);
        }
    }

    /// Handles a change from the watch before the index handles the change. Returns the affected pods on nodes that
    /// will be removed, if the change is the first that shows the pod.
    pub fn saw(&mut self, change: &Change<PodFacts>, around: &Surroundings<'_>) -> Vec<Late> {
        let (pods, touched) = match change {
            Change::Applied(pod) => (std::slice::from_ref(pod), Touched::Pod(&pod.key)),
            Change::Relisted(_, pods) => (&pods[..], Touched::All),
            Change::Deleted(pod) => (&[][..], Touched::Pod(&pod.key)),
        };
        for pod in pods {
            self.departures.saw(pod, around.now, around.wall);
        }
        if around.nodes.going().next().is_none() {
            return Vec::new();
        }
        let matters = if let Touched::Pod(pod) = touched { self.early.pods.contains_key(pod) } else { true };
        if matters {
            self.touch(touched, around.now);
        }
        let known = |pod: &PodFacts| around.index.pods().get(&pod.key).filter(|known| known.uid == pod.uid);
        // A pod in a list may have started at any time.
        let starts = matches!(change, Change::Applied(_));
        let late = pods.iter().filter(|pod| stays_alive(pod)).filter_map(|pod| {
            let starts_there = starts_there(pod, known(pod), around.nodes);
            let is_late = starts_there || (was_there(pod, around.nodes) && known(pod).is_none());
            let starts = starts && starts_there;
            is_late.then(|| Late { pod: pod.key.clone(), starts })
        });
        let late = late.collect();
        for pod in pods.iter().filter(|pod| pod.is_evicted) {
            if let Some(node) = pod.node.as_ref().filter(|node| around.nodes.signal(node).is_some()) {
                self.early.drains(node, around.now);
            }
        }
        late
    }

    /// Handles an update of the index or of the nodes. Returns the consequences for the pods of nodes.
    pub fn follow(&mut self, what: Followed<'_>, around: &Surroundings<'_>) -> Vec<Consequence> {
        let (mut all, mut has_fewer) = (Vec::new(), true);
        match what {
            Followed::Pods(one, late) => {
                self.departures.keep(one, around.index);
                has_fewer = self.early.keep(one, around.index);
                all.extend(
                    late.iter()
                        .filter_map(|late| self.concern(&late.pod, late.starts && around.leads, around)),
                );
            }
            Followed::Nodes(nodes) => {
                for node in nodes {
                    let concerned = self.early.pods().filter(|(_, on)| *on == node);
                    let mut pods: BTreeSet<ObjectKey> = concerned.map(|(pod, _)| pod.clone()).collect();
                    if around.nodes.signal(node).is_none() {
                        self.early.forget_node(node);
                        all.extend(pods.into_iter().map(|pod| self.no_concern(pod, node, around)));
                        continue;
                    }
                    for pod in around.index.pods().all().filter(|pod| pod.node.as_ref() == Some(node)) {
                        if pod.is_evicted {
                            self.early.drains(node, around.now);
                        }
                        if !pod.ips.is_empty() && stays_alive(pod) {
                            pods.insert(pod.key.clone());
                        }
                    }
                    all.extend(pods.iter().filter_map(|pod| self.concern(pod, false, around)));
                }
            }
        }
        // Headgate tracks a deleted node while the node still has pods.
        let gone = around.nodes.going().filter(|(_, signal)| has_fewer && signal.fate == Fate::Deleted);
        let empty = gone.filter(|(node, _)| self.early.pods().all(|(_, on)| on != *node));
        let empty: Vec<Arc<str>> = empty.map(|(node, _)| node.clone()).collect();
        for node in empty {
            self.early.forget_node(&node);
            all.push(Consequence::Ends(node));
        }
        all
    }

    /// Updates whether the removal of its node affects a pod. `starts`: whether the pod has just started on the node.
    fn concern(&mut self, pod: &ObjectKey, starts: bool, around: &Surroundings<'_>) -> Option<Consequence> {
        let facts = around.index.pods().get(pod)?;
        let node = facts.node.clone()?;
        let signal = around.nodes.signal(&node)?.0.clone();
        if !signal.concerns(facts) {
            let was_concerned = self.early.pods.contains_key(pod);
            return was_concerned.then(|| self.no_concern(pod.clone(), &node, around));
        }
        let stays_out = starts && self.stays_out(facts, around);
        self.early.concern(facts, &node, stays_out, around.now);
        if !around.is_passed_over(facts) {
            self.early.is_evicted(pod);
        }
        let stays_out = self.early.stays_out(pod);
        if !signal.fate.is_immediate() {
            self.back_with_its_node(pod, around);
        }
        self.departures.touch(Touched::Pod(pod), around.now);
        let is_target = around.targets_of(pod).iter().any(|(bound, ..)| !bound.paused);
        Some(Consequence::Goes { pod: pod.clone(), node, signal, is_target, stays_out })
    }

    /// Removes a pod whose node remains.
    fn no_concern(&mut self, pod: ObjectKey, node: &Arc<str>, around: &Surroundings<'_>) -> Consequence {
        self.early.forget(&pod);
        let early = self
            .departures
            .pods
            .get(&pod)
            .is_some_and(|departure| departure.facts.ask.early && departure.is_out());
        self.back_with_its_node(&pod, around);
        self.departures.touch(Touched::Pod(&pod), around.now);
        let is_out = early || around.index.pods().goes_with_its_node(&pod);
        Consequence::Stays { pod, node: node.clone(), is_out }
    }

    /// Removes the decision about a pod that was deregistered with its node.
    fn back_with_its_node(&mut self, pod: &ObjectKey, around: &Surroundings<'_>) {
        if let Some(departure) =
            self.departures.pods.get_mut(pod).filter(|_| !around.index.pods().leaves(pod))
        {
            departure.decision = None;
        }
    }
}

/// Methods that only the leader uses.
impl Evictions {
    /// The time at which [`Evictions::due`] next needs to run.
    pub fn next_due(&self) -> Option<Moment> {
        let departures = self.departures.agenda.next_due();
        departures.into_iter().chain(self.early.next_due()).chain(self.detaching.next_due()).min()
    }

    /// Returns the requests that are due. Annotations for pods whose node will be removed come first, followed by the
    /// steps of all pods that should be evicted.
    pub fn due(&mut self, mut next_id: impl FnMut() -> RequestId, around: &Surroundings<'_>) -> Due {
        let mut asks = self.ask_to_leave(&mut next_id, around);
        let mut closely = BTreeSet::new();
        loop {
            let pods = self.departures.take_due(around.now);
            if pods.is_empty() {
                break;
            }
            for pod in &pods {
                let groups = self.groups_of(pod, around);
                self.departures.concern(pod, groups);
            }
            // Another installation manages namespaces that are not selected.
            for pod in pods.iter().filter(|pod| around.services.is_selected(&pod.namespace)) {
                asks.extend(self.step(pod, &mut next_id, around, &mut closely));
            }
        }
        let departures = &self.departures;
        let over = |pod: &ObjectKey| {
            let departure = departures.pods.get(pod)?;
            departure.seen.over(&departure.facts)
        };
        asks.extend(self.detaching.due(&mut next_id, over, around));
        (asks, closely)
    }

    fn step(
        &mut self,
        pod: &ObjectKey,
        next_id: impl FnOnce() -> RequestId,
        around: &Surroundings<'_>,
        closely: &mut BTreeSet<TargetGroupArn>,
    ) -> Option<(RequestId, Request)> {
        let facts = around.index.pods().get(pod)?;
        self.decide_what_went_besides(facts, around);
        let case = self.case(facts, around)?;
        if case.zones == Err(Cause::EvictionWaitsForZone) {
            closely.extend(around.targets_of(pod).into_iter().map(|(_, arn, _)| arn));
        }
        let mark = match self.departures.next(pod, &case, &around.rules.limits) {
            Next::Wait(_) => return None,
            Next::Check => None,
            Next::Mark(mark) => Some(mark),
        };
        let id = next_id();
        let (uid, pod) = (self.departures.begin(pod, id, mark, around.now)?, pod.clone());
        let request = if let Some(mark) = mark {
            Request::Mark(MarkWrite { pod, uid, mark })
        } else {
            let departing = self.departing(&pod.namespace, around);
            let passed_over = around.is_passed_over(facts);
            Request::Check(Check { pod, uid, labels: facts.labels.clone(), departing, passed_over })
        };
        Some((id, request))
    }

    /// Handles the answer to a request. Returns the action that follows from the answer. With [`Outcome::Leaves`], the
    /// decision to deregister the pod is already stored.
    pub fn answered(
        &mut self,
        id: RequestId,
        result: Result<Answer, Failure>,
        around: &Surroundings<'_>,
    ) -> Option<Outcome> {
        if self.detaching.answered(id, result.as_ref().err(), around.now) {
            return None;
        }
        let Some(open) = self.departures.answered(id, around.now) else {
            let (pod, uid, why) =
                self.early.answered(id, fitting!(result, Answer::Done => ()), around.now)?;
            let cause = Cause::LeavingNotRecorded;
            return Some(Outcome::Tells { pod, uid, cause, why, after: Duration::ZERO, passes: false });
        };
        let now = around.now;
        match open.mark {
            Some(mark) => self.departures.marked(open, mark, fitting!(result, Answer::Done => ()), now),
            None => self.checked(open, fitting!(result, Answer::Checked(checked) => checked), around),
        }
    }

    fn checked(
        &mut self,
        open: Open,
        result: Result<Checked, Failure>,
        around: &Surroundings<'_>,
    ) -> Option<Outcome> {
        let facts = around.index.pods().get(&open.pod);
        let (is_ready, now) = (facts.is_none_or(PodFacts::is_ready), around.now);
        let outcome = self.departures.checked(open, result, is_ready, &around.rules.limits, now)?;
        let Outcome::Leaves { pod, .. } = &outcome else { return Some(outcome) };
        let places = around.targets_of(pod);
        // During the check, other pods in the zones may have terminated, or the pod may have got a hold. The leader
        // then checks the pod again.
        if self.zones_allow(pod, around).is_err() || self.keeps_its_hold(pod, &bound(&places), around) {
            return None;
        }
        let facts = facts?;
        let node = facts.node.as_ref().filter(|_| {
            self.departures.pods.get(pod).is_some_and(|departure| departure.facts.ask.early)
                && self.early.pods.contains_key(pod)
        });
        let node = node.and_then(|node| Some((node.clone(), around.nodes.signal(node)?.0.clone())));
        self.decide(facts, places, around);
        Some(Outcome::Leaves { pod: pod.clone(), node })
    }
}

/// Read-only methods.
impl Evictions {
    /// The pods whose deregistration is decided but not written yet, and the unregistered pods that started on nodes
    /// that will be removed.
    pub fn decided(&self) -> (Vec<ObjectKey>, Vec<ObjectKey>) {
        let decided = self.departures.pods.iter().filter(|(_, departure)| departure.decision.is_some());
        let kept_out = self.early.pods.keys().filter(|pod| self.early.stays_out(pod));
        (decided.map(|(pod, _)| pod.clone()).collect(), kept_out.cloned().collect())
    }

    /// Whether the zones of a pod allow its termination, in the target groups of the bindings that `leaves` selects.
    /// `waited`: the time since the pod should first have been deregistered.
    pub fn may_leave(
        &self,
        pod: &ObjectKey,
        leaves: impl Fn(&Binding) -> bool,
        waited: Duration,
        around: &Surroundings<'_>,
    ) -> Result<Cause, Cause> {
        let zones = around.zones(pod, leaves, |owner| self.departs(owner, around));
        may_leave(&zones, waited, around.rules.limits.patience)
    }

    fn departs(&self, pod: &ObjectKey, around: &Surroundings<'_>) -> bool {
        let departure = self.departures.pods.get(pod);
        departure.is_some_and(|departure| departure.departs(&around.rules.limits, around.now))
    }

    fn zones_allow(&self, pod: &ObjectKey, around: &Surroundings<'_>) -> Result<Cause, Cause> {
        let departure = self.departures.pods.get(pod);
        let is_early = departure.is_some_and(|departure| departure.facts.ask.early);
        if is_early && around.is_last_that_serves(pod, |owner| self.departs(owner, around)) {
            return Err(Cause::LastHealthyTarget);
        }
        let facts = around.index.pods().get(pod).filter(|_| is_early);
        if facts.is_some_and(|facts| around.is_passed_over(facts) && !self.share_allows(facts, around)) {
            return Err(Cause::TooManyLeaveEarly);
        }
        let waited = departure.map(|departure| departure.seen.waited(around.now)).unwrap_or_default();
        self.may_leave(pod, |_| true, waited, around)
    }

    /// The times at which this replica first saw each annotation on a pod about its eviction.
    pub(super) fn seen(&self, pod: &PodFacts) -> Option<Seen> {
        let departure = self.departures.pods.get(&pod.key).filter(|departure| departure.uid == pod.uid);
        departure.map(|departure| departure.seen)
    }

    /// Whether a pod's node is cordoned or will be removed. Headgate then does not undo the eviction when the requests
    /// stop.
    fn node_goes(&self, pod: &PodFacts, around: &Surroundings<'_>) -> bool {
        around.nodes.last_seen().is_closed(pod.node.as_ref()) || self.early.pods.contains_key(&pod.key)
    }

    /// The target groups whose events affect a pod.
    fn groups_of(&self, pod: &ObjectKey, around: &Surroundings<'_>) -> BTreeSet<TargetGroupArn> {
        let decided = self.departures.pods.get(pod).and_then(|departure| departure.decision.as_ref());
        let decided = decided.into_iter().flat_map(|decision| &decision.targets);
        let Some(facts) = around.index.pods().get(pod) else { return BTreeSet::new() };
        let bound = around.index.bindings().selecting(&pod.namespace, &facts.labels);
        let bound = bound.map(|binding| binding.key.group.clone());
        let left = around.left_of(facts).into_iter().map(|(_, arn, _)| arn);
        decided.map(|(arn, _)| arn.clone()).chain(bound).chain(left).collect()
    }

    fn case(&self, pod: &PodFacts, around: &Surroundings<'_>) -> Option<Case> {
        let departure = self.departures.pods.get(&pod.key)?;
        let is_out = |(arn, target): &(TargetGroupArn, Target)| {
            let group = around.groups.get(arn);
            group.is_none_or(|group| group.registrations().is_out(target, &pod.uid, &pod.ips))
        };
        let decided = departure.decision.as_ref();
        let is_unknown = around.may_yet_bind(pod).is_some();
        let asks_zones = departure.asks_zones();
        let zones = if asks_zones { self.zones_allow(&pod.key, around) } else { Ok(Cause::ZoneAllows) };
        let (bound, lingers) = (bound(&around.targets_of(&pod.key)), around.lingering(pod));
        let is_back = !around.left_of(pod).is_empty();
        Some(Case {
            zones,
            has_hold: self.keeps_its_hold(&pod.key, &bound, around),
            is_target: bound.iter().any(|bound| !bound.paused)
                || (is_unknown || is_back)
                || !lingers.is_zero(),
            lingers,
            is_back,
            is_gone: decided.is_some_and(|decision| decision.targets.iter().all(is_out)),
            is_unknown,
            node_goes: self.node_goes(pod, around),
            node_stays: around.nodes.last_seen().stays(pod),
            now: around.now,
            wall: around.wall,
        })
    }

    /// Records the decision to deregister a pod from these `places`.
    fn decide(&mut self, pod: &PodFacts, places: Vec<Place>, around: &Surroundings<'_>) {
        let (targets, bound) = around.taken_out(pod, places);
        if let Some(departure) = self.departures.pods.get_mut(&pod.key) {
            departure.decision = Some(Decision { since: around.now, targets, bound, taken: None });
        }
    }

    /// Adds targets to the decision about a pod that were deregistered without it: targets that were deregistered with
    /// the node before the request, and targets that could not be deregistered at the time of the decision (for
    /// example while paused).
    fn decide_what_went_besides(&mut self, pod: &PodFacts, around: &Surroundings<'_>) {
        if around.index.pods().goes_with_its_node(&pod.key)
            && self.departures.pods.get(&pod.key).is_some_and(Departure::is_undecided)
        {
            self.decide(pod, around.bound_but_for_leaving(&pod.key), around);
        }
        let departure = self.departures.pods.get_mut(&pod.key);
        let Some(decision) = departure.and_then(|departure| departure.decision.as_mut()) else { return };
        for (bound, arn, target) in around.left_of(pod) {
            let target = (arn, target);
            if !decision.targets.contains(&target) {
                let bound = propagation(pod, &[bound], &around.rules.bounds).unwrap_or_default();
                decision.targets.push(target);
                (decision.bound, decision.taken) = (decision.bound.max(bound), None);
            }
        }
    }

    /// The labels of all pods in a namespace with an eviction in progress, including pods that were deregistered with
    /// their nodes.
    fn departing(&self, namespace: &str, around: &Surroundings<'_>) -> Vec<Labels> {
        let pods = around.index.pods();
        let departs = |pod: &&ObjectKey| self.departs(pod, around);
        let leave = within(&self.departures.pods, namespace).map(|(pod, _)| pod).filter(departs);
        let with_nodes = self
            .early
            .pods()
            .map(|(pod, _)| pod)
            .filter(|pod| &*pod.namespace == namespace && pods.goes_with_its_node(pod) && !departs(pod));
        leave.chain(with_nodes).filter_map(|pod| Some(pods.get(pod)?.labels.clone())).collect()
    }
}

impl Surroundings<'_> {
    /// The answer to a request for the eviction of a pod.
    pub fn answer(&self, evictions: &Evictions, facts: &PodFacts, request: &eviction::Request) -> Ruling {
        let was_noted = evictions.noted.contains(&PodMark::of(&facts.uid));
        self.rule(evictions.seen(facts), was_noted, facts, request)
    }
}
