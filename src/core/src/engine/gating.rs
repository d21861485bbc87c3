//! Readiness gates: when to evaluate the gate of each pod, which facts to use, and what to write.

use crate::{
    engine::asker::Asker,
    engine::{Effect, Engine, Span, knowledge::Knowledge, leader::Leader},
    gate::{Due, Touched},
    model::{
        Cause, Change, Failure, HealthState, Moment, Notice, ObjectKey, PodFacts, RequestId, Target,
        TargetGroupArn, Uid,
        gate::{Bound, Case, Stands, Unread},
        notice::About,
    },
    report::sayings,
    requests::Request,
    targets::groups::{Group, Groups},
    view::GateView,
};

/// The facts that decide the gate of a pod.
fn gate_case<'a>(
    Knowledge { index, services, nodes, .. }: &'a Knowledge,
    groups: &Groups,
    pod: &ObjectKey,
) -> Option<Case<'a>> {
    let facts = index.pods().get(pod)?;
    let signal = facts.node.as_ref().and_then(|node| nodes.signal(node));
    let is_passed_over = signal.is_some_and(|(signal, _)| facts.passed_over.on(signal));
    let bound = index.pods().bound(pod).into_iter().map(|(binding, target)| Bound {
        group: binding.key.group.clone(),
        target: target.ok(),
        stands: match target {
            Err(Cause::NodeDisrupted) if is_passed_over => Stands::LeftToItsNode,
            target => stands(groups, &binding.key.group, facts, target),
        },
        when_unused: binding.policy.gate_when_unused,
    });
    Some(Case {
        ip: facts.ips.first().copied(),
        bound: bound.collect(),
        expected: facts.gate.as_deref().and_then(|gate| gate.expected.as_deref()),
        doubt: services.origins().doubt(&pod.namespace, &facts.labels),
        runs: facts.readiness.containers,
    })
}

/// The state of a pod in a target group. `target`: the pod's target in the group, or why the pod has no target.
fn stands(groups: &Groups, arn: &TargetGroupArn, pod: &PodFacts, target: Result<Target, Cause>) -> Stands {
    let uid = &pod.uid;
    let target = match target {
        Ok(target) => target,
        Err(cause) => return Stands::NoTarget(cause),
    };
    let Some(group) = groups.get(arn) else { return Stands::Unregistered };
    match (group.registrations().owner(&target), group.observation().last_read()) {
        (Some(owner), _) if owner != uid && pod.host_network => {
            Stands::NoTarget(Cause::WaitsForHostNetworkPod)
        }
        // The previous pod at the address still owns the target. An event will report the change soon.
        (Some(owner), _) if owner != uid => Stands::Unregistered,
        (Some(_), Some(_)) if group.registrations().is_told_by(&target, uid) => {
            group.observation().health(&target).map_or(Stands::Unread(None), Stands::Read)
        }
        _ if group.registrations().is_registered(&target) => Stands::Unread(unread(group, &target, uid)),
        _ if group.registrations().is_believed(&target) => Stands::Unread(None),
        _ if group.registrations().is_paused(&target) => Stands::Paused,
        _ => Stands::Unregistered,
    }
}

/// The time at which AWS accepted a target, if no `DescribeTargetHealth` call has been answered since. An answer that
/// the group does not exist also counts.
fn unread(group: &Group, target: &Target, uid: &Uid) -> Option<Unread> {
    let since = group.registrations().unread_since(target, uid).filter(|_| !group.is_missing())?;
    Some(Unread { since, tried: group.observation().has_failed_since(since) })
}

impl Engine {
    /// Passes a change from the watch of pods to the gates before the index handles the change.
    pub(super) fn gates_see(&mut self, change: &Change<PodFacts>, now: Moment) {
        let pods = match change {
            Change::Applied(pod) => std::slice::from_ref(pod),
            Change::Relisted(_, pods) => &pods[..],
            Change::Deleted(_) => return,
        };
        for pod in pods {
            let before = self.known.index.pods().get(&pod.key).filter(|before| before.uid == pod.uid);
            if before.is_some_and(|before| GateView::of(before) != GateView::of(pod)) {
                for (binding, _) in self.known.index.pods().bound(&pod.key) {
                    self.reports.touch_binding(binding.key.clone());
                }
                self.record_gate(pod);
            }
            let before = self.known.index.pods().get(&pod.key).filter(|before| before.uid == pod.uid);
            if before.is_some_and(|before| !before.readiness.containers && pod.readiness.containers) {
                self.may_become_healthy(&pod.key, now);
            }
            let before = self.known.index.pods().get(&pod.key).filter(|before| before.uid == pod.uid);
            let ours = self.known.services.is_selected(&pod.key.namespace);
            self.known.gates.saw(pod, before, ours, now);
            if let Some(leader) = &mut self.leader {
                leader.gates.saw(pod, before, ours, now);
            }
        }
    }

    /// Notifies the gates of an event.
    pub(super) fn touch_gates(&mut self, what: Touched<'_>, now: Moment) {
        self.known.gates.touch(what, now);
        if let Some(leader) = &mut self.leader {
            leader.gates.touch(what, now);
        }
    }

    /// Reads the health of the pod's targets soon, because the containers of the pod have become ready. Groups in which
    /// the pod's targets are already healthy are not read.
    fn may_become_healthy(&mut self, pod: &ObjectKey, now: Moment) {
        for (binding, target) in self.known.index.pods().bound(pod) {
            let (Ok(target), arn) = (target, &binding.key.group) else { continue };
            let is_healthy =
                |group: &Group| group.observation().state(&target).is_some_and(HealthState::is_healthy);
            if self.groups.get(arn).is_some_and(|group| !is_healthy(group))
                && let Some(group) = self.groups.get_mut(arn)
            {
                group.stir(now);
            }
        }
    }

    /// Closes the gates of pods whose targets will be registered again. Headgate registers a target when the gate of
    /// its pod is closed or cannot be closed.
    pub(super) fn close_gates(&mut self, now: Moment) {
        let put_backs = self.groups.calls(now).put_backs();
        let Some(leader) = &mut self.leader else { return };
        for (arn, target) in put_backs.map(|(arn, target)| (arn.clone(), *target)).collect::<Vec<_>>() {
            let Some(group) = self.groups.get_mut(&arn) else { continue };
            let Some((owner, asked)) = group.registrations().put_back(&target) else { continue };
            let pod = self.known.index.pods().get(&owner.pod).filter(|pod| pod.uid == owner.uid);
            let is_open = pod.is_some_and(|pod| leader.gates.close(pod, asked, now));
            group.registrations_mut().gate_is(&target, is_open, now);
        }
    }

    /// Evaluates the gates of pods with changes, and sends the writes that are due.
    pub(super) fn mind_gates(&mut self, now: Moment) {
        if self.settings.read_only || !self.acts() {
            return;
        }
        let Self { known, groups, leader: Some(Leader { gates, .. }), out, .. } = self else {
            return;
        };
        let case = |pod: &ObjectKey| gate_case(known, groups, pod);
        let due = gates.judge(case, || out.next_id(), now);
        self.carry_out(due, now);
    }

    pub(super) fn on_gate_written(
        &mut self,
        pod: &ObjectKey,
        id: RequestId,
        result: Result<(), Failure>,
        now: Moment,
    ) {
        let Some(leader) = &mut self.leader else { return };
        let due = leader.gates.written(pod, id, result, now);
        self.carry_out(due, now);
    }

    /// Performs the actions that are due for the gates.
    fn carry_out(&mut self, due: Vec<Due>, now: Moment) {
        for due in due {
            match due {
                Due::Read(arn) => {
                    if let Some(group) = self.groups.get_mut(&arn) {
                        group.await_read(now);
                    }
                }
                Due::Expect(arn) => {
                    if let Some(group) = self.groups.get_mut(&arn) {
                        group.expect(now);
                    }
                }
                Due::Stir(arn) => {
                    if let Some(group) = self.groups.get_mut(&arn) {
                        group.stir(now);
                    }
                }
                Due::Write(id, write) => {
                    self.out.ask(id, Asker::Gate(write.pod.clone()), Request::Gate(write));
                }
                Due::Tell(pod, uid, news) => {
                    let (reason, note) = sayings::gate(&news);
                    self.out.tell(Notice { about: About::Pod(pod, uid), reason, note });
                }
                Due::Count(took) => self.out.put(Effect::Took(Span::HealthyToGate, took)),
            }
        }
    }
}
