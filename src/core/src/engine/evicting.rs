//! Evictions: how a replica answers a request, and how the leader deregisters a pod before its eviction. This module
//! also handles the targets of pods whose nodes will be removed.

use std::sync::Arc;

use crate::{
    engine::asker::Asker,
    engine::{Effect, Engine, Span, knowledge::Knowledge, outbox::Outbox},
    eviction::{Consequence, Evictions, Followed, Late, Outcome, Surroundings, Touched},
    index::{Index, Order, Said},
    leadership::Watch,
    model::{
        Cause, Change, Failure, Fate, Moment, NodeFacts, Notice, ObjectKey, Owner, PodFacts, Reason,
        RequestId, Settings, Signal, Transition, WallTime,
        eviction::{Request, Rules, Ruling},
        notice::About,
        transition::PodStep,
    },
    nodes::Nodes,
    report::sayings,
    requests::Answer,
    services::Services,
    targets::groups::Groups,
};

fn around<'a>(
    (index, services, nodes): (&'a Index, &'a Services, &'a Nodes),
    groups: &'a Groups,
    settings: &Settings,
    leads: bool,
    now: Moment,
) -> Surroundings<'a> {
    let rules = Rules { limits: settings.leaving, bounds: settings.bounds };
    Surroundings::new((index, groups, services, nodes), rules, leads, now, settings.started + now.elapsed())
}

impl Engine {
    /// The evictions, the outbox, and the data of the other modules. If this replica is the leader, the method returns
    /// the leader's evictions.
    pub(super) fn evictions(&mut self, now: Moment) -> (&mut Evictions, &mut Outbox, Surroundings<'_>) {
        let leads = self.acts() && !self.settings.read_only;
        let Self { known, leader, out, groups, settings, .. } = self;
        let Knowledge { evictions, index, services, nodes, .. } = known;
        let evictions = leader.as_mut().map_or(evictions, |leader| &mut leader.evictions);
        (evictions, out, around((index, services, nodes), groups, settings, leads, now))
    }

    /// The current evictions, read-only.
    pub(super) fn evictions_known(&self) -> &Evictions {
        self.leader.as_ref().map_or(&self.known.evictions, |leader| &leader.evictions)
    }

    /// Notifies the evictions of an event.
    pub(super) fn touch_evictions(&mut self, touched: Touched<'_>, now: Moment) {
        self.known.evictions.touch(touched, now);
        if let Some(leader) = &mut self.leader {
            leader.evictions.touch(touched, now);
        }
    }

    /// Passes a change from the watch of pods to [`Evictions::saw`] before the index handles the change.
    pub(super) fn evictions_see(&mut self, change: &Change<PodFacts>, now: Moment) -> Vec<Late> {
        let leads = self.acts() && !self.settings.read_only;
        let Self { known, leader, groups, settings, .. } = self;
        let Knowledge { evictions, index, services, nodes, .. } = known;
        let around = |leads| around((index, services, nodes), groups, settings, leads, now);
        let late = evictions.saw(change, &around(false));
        leader.as_mut().map_or(late, |leader| leader.evictions.saw(change, &around(leads)))
    }

    /// Passes a change of the index or of the nodes to [`Evictions::follow`].
    fn consequences(&mut self, what: Followed<'_>, now: Moment) -> Vec<Consequence> {
        let leads = self.acts() && !self.settings.read_only;
        let Self { known, leader, groups, settings, .. } = self;
        let Knowledge { evictions, index, services, nodes, .. } = known;
        let around = |leads| around((index, services, nodes), groups, settings, leads, now);
        let consequences = evictions.follow(what, &around(false));
        leader.as_mut().map_or(consequences, |leader| leader.evictions.follow(what, &around(leads)))
    }

    /// The answer to a request to evict a pod. The method changes no state.
    pub fn may_evict(&self, pod: &ObjectKey, request: &Request, now: Moment) -> Ruling {
        if !self.term.is_synced() {
            return Ruling::Pass(Cause::BindingsUnknown);
        }
        if !self.known.services.is_selected(&pod.namespace) {
            return Ruling::Pass(Cause::NamespaceNotServed);
        }
        let is_meant = |facts: &&PodFacts| request.uid.as_ref().is_none_or(|uid| *uid == facts.uid);
        let Some(facts) = self.known.index.pods().get(pod).filter(is_meant) else {
            return Ruling::Pass(Cause::NotATarget);
        };
        self.around(now).answer(self.evictions_known(), facts, request)
    }

    /// The data of the other modules, for the evictions.
    pub(super) fn around(&self, now: Moment) -> Surroundings<'_> {
        let leads = self.acts() && !self.settings.read_only;
        let Self { known: Knowledge { index, services, nodes, .. }, groups, settings, .. } = self;
        around((index, services, nodes), groups, settings, leads, now)
    }

    /// The nodes that will be removed, or that were deleted and still have pods, with the fate of each node.
    pub fn nodes_that_go(&self) -> impl Iterator<Item = (&Arc<str>, Fate)> {
        self.known.nodes.going().map(|(node, signal)| (node, signal.fate))
    }

    pub(super) fn wall(&self, now: Moment) -> WallTime {
        self.settings.started + now.elapsed()
    }

    /// Handles a change from the watch of nodes.
    pub(super) fn on_node(&mut self, change: Change<NodeFacts>, seen: Moment, now: Moment) {
        let wall = self.wall(now);
        if let Some(nodes) = self.known.nodes.apply(change, seen, wall) {
            self.record_nodes(&nodes);
            // Zones and the owners of addresses depend on nodes. After the initial list, Headgate may also know that a
            // node remains.
            self.touch_evictions(Touched::All, now);
            self.evictions_follow(Followed::Nodes(&nodes), seen, now);
        }
        self.out.extend(self.known.nodes.take_asks().map(|scope| Effect::Relist(Watch::Nodes, scope)));
        self.nodes_turn(seen, now);
    }

    /// Passes changes in the presence of nodes to the index, which then decides again which pod has which address.
    fn nodes_turn(&mut self, seen: Moment, now: Moment) {
        for (node, presence) in self.known.nodes.take_turned() {
            let changes = self.known.index.apply(Said::Node(node, presence), seen);
            self.absorb(changes, now);
        }
    }

    /// Accepts the reported deletions of nodes that no list has contradicted within the timeout.
    pub(super) fn nodes_pass(&mut self, now: Moment) {
        let wall = self.wall(now);
        let gone = self.known.nodes.pass(now, wall);
        if !gone.is_empty() {
            self.record_nodes(&gone);
            self.touch_evictions(Touched::All, now);
            self.evictions_follow(Followed::Nodes(&gone), now, now);
        }
        self.nodes_turn(now, now);
    }

    /// Handles the consequences of a change of the index or of the nodes, for pods whose nodes will be removed or
    /// remain.
    pub(super) fn evictions_follow(&mut self, what: Followed<'_>, seen: Moment, now: Moment) {
        let acts = self.acts();
        for consequence in self.consequences(what, now) {
            match consequence {
                Consequence::Goes { pod, node, signal, is_target, stays_out } => {
                    let goes = signal.fate.is_immediate();
                    let goes = (goes || stays_out).then(|| signal.fate.cause());
                    let changes = self.known.index.order(&pod, Order::NodeGoes(goes), seen);
                    self.absorb(changes, now);
                    let Some(cause) = goes.filter(|_| signal.fate.is_immediate()) else { continue };
                    self.held_of_pod_goes(&pod, cause, seen);
                    if is_target && acts && !self.settings.read_only {
                        self.tell_node_goes(&pod, cause.reason(), &node, &signal);
                    }
                }
                Consequence::Stays { pod, node, is_out } => {
                    if is_out && acts {
                        self.tell_pod(&pod, Reason::RegisteredAgain, sayings::node_stays(&node));
                    }
                    let changes = self.known.index.order(&pod, Order::NodeGoes(None), seen);
                    self.absorb(changes, now);
                }
                Consequence::Ends(node) => _ = self.known.nodes.forget(&node),
            }
        }
    }

    /// Sends the requests about evictions that are due.
    pub(super) fn mind_evictions(&mut self, now: Moment) {
        let is_due = self.evictions_known().next_due().is_some_and(|due| due <= now);
        if !is_due || !self.acts() || self.settings.read_only {
            return;
        }
        let (evictions, out, around) = self.evictions(now);
        let (asks, closely) = evictions.due(|| out.next_id(), &around);
        for (id, request) in asks {
            self.out.ask(id, Asker::Eviction, request);
        }
        for arn in closely {
            if let Some(group) = self.groups.get_mut(&arn) {
                group.look_closely(now);
            }
        }
    }

    /// Handles the answer to a request about an eviction.
    pub(super) fn on_eviction_answered(
        &mut self,
        id: RequestId,
        result: Result<Answer, Failure>,
        now: Moment,
    ) {
        let (evictions, _, around) = self.evictions(now);
        match evictions.answered(id, result, &around) {
            None => {}
            Some(Outcome::Leaves { pod, node }) => {
                if let Some((node, signal)) = node {
                    self.tell_node_goes(&pod, Reason::NodeDisrupted, &node, &signal);
                }
                self.held_of_pod_goes(&pod, Cause::PodEvicting, now);
                let changes = self.known.index.order(&pod, Order::Leave(true), now);
                self.absorb(changes, now);
            }
            Some(Outcome::Tells { pod, uid, cause, why, after, passes }) => {
                if passes {
                    self.out.put(Effect::Took(Span::Departure, after));
                }
                let owner = Owner { pod: pod.clone(), uid: uid.clone() };
                self.out.put(Effect::Happened(Transition::Pod(owner, PodStep::Eviction(cause, passes))));
                if let Some(note) = sayings::eviction(cause, &why, after) {
                    self.out.tell(Notice { about: About::Pod(pod, uid), reason: cause.reason(), note });
                }
            }
        }
    }

    fn tell_node_goes(&mut self, pod: &ObjectKey, reason: Reason, node: &str, signal: &Signal) {
        let passed_over = self.known.index.pods().get(pod).map(|facts| facts.passed_over).unwrap_or_default();
        self.tell_pod(pod, reason, sayings::node_goes(node, signal, passed_over));
    }

    pub(super) fn tell_pod(&mut self, pod: &ObjectKey, reason: Reason, note: String) {
        if let Some(facts) = self.known.index.pods().get(pod) {
            let about = About::Pod(pod.clone(), facts.uid.clone());
            self.out.tell(Notice { about, reason, note });
        }
    }
}
