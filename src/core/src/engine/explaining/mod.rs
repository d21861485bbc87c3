//! Collects all information about one pod or about the pods of a node for `headgate explain`, and all differences for
//! `headgate diff`. The module makes no decisions and changes no state. Each explanation comes from the part that makes
//! the decision.

mod comparing;
mod due;
mod node;
mod words;

use self::due::{Due, Stands, left};
use super::Engine;
use crate::{
    explanation::{Explanation, Gate, Life, Next, Place, Progress, Seen, Step, Word},
    model::rates::Lane,
    model::{
        Binding, BindingKey, Cause, HoldWanted, Moment, ObjectKey, PodFacts, Reason, Target, TargetGroupArn,
        TroubleKind, account::Under, gate::Doubt,
    },
    report::{
        sayings,
        troubles::{pause, troubles},
    },
    targets::groups::{Group, Observation},
    view::GateView,
};

impl Engine {
    /// Returns all information about the pod of this name.
    pub fn explain(&mut self, pod: &ObjectKey, now: Moment) -> Explanation {
        let seen = self.known.index.pods().get(pod).cloned();
        let mut found = Vec::new();
        for (binding, target) in self.known.index.pods().bound(pod) {
            let Some(facts) = &seen else { continue };
            let stands = match target {
                Err(cause) => self.not_a_target(facts, binding, None, cause),
                Ok(target) => self.claimed(facts, binding, target),
            };
            found.push((binding.key.group.clone(), Some(binding.key.clone()), target.ok(), stands));
        }
        let uid = seen.as_ref().map(|facts| &facts.uid);
        for (arn, group) in self.groups.iter() {
            for target in group.registrations().left_by(pod, uid) {
                let account = group.registrations().account(target);
                let left = account
                    .map(|account| (arn.clone(), account.binding.cloned(), Some(*target), left(&account)));
                found.extend(left);
            }
        }
        let places: Vec<Place> = found
            .into_iter()
            .map(|(group, binding, target, stands)| self.place(pod, group, binding, target, stands, now))
            .collect();
        let bound = self.known.index.pods().bound(pod);
        let own = seen.as_ref().and_then(|facts| facts.hold);
        let holds = bound.iter().map(|(binding, _)| {
            let hold = own.unwrap_or(binding.policy.hold);
            HoldWanted::of(hold, binding.balancer, &self.settings.bounds)
        });
        Explanation {
            pod: pod.clone(),
            gate: seen.as_ref().map(|facts| Gate {
                shown: GateView::of(facts),
                verdict: self
                    .leader
                    .as_ref()
                    .and_then(|leader| leader.gates.should_show(pod))
                    .map(|(condition, since)| ((condition.reason.reason(), condition.message), since)),
            }),
            nowhere: places.is_empty().then(|| self.nowhere(pod, seen.as_ref())),
            hold: holds.max_by_key(|hold| (hold.seconds, hold.bound)),
            seen: seen.map(|facts| Seen {
                uid: facts.uid,
                ips: facts.ips,
                host_network: facts.host_network,
                ready: facts.readiness.is_ready(),
                life: match () {
                    () if facts.finished => Life::Finished,
                    () if facts.terminating => Life::Terminating,
                    () => Life::Lives,
                },
            }),
            places,
        }
    }

    /// Why no binding selects the pod.
    fn nowhere(&self, pod: &ObjectKey, seen: Option<&PodFacts>) -> Word {
        let namespace = &*pod.namespace;
        if !self.settings.scopes.iter().any(|scope| scope.covers(namespace)) {
            let said = format!(
                "this Headgate does not manage namespace {namespace}. Add the namespace to --namespaces, or query the \
                 Headgate that manages it"
            );
            return (Reason::NamespaceNotServed, said);
        }
        if let Some(word) = self.not_listed_yet() {
            return word;
        }
        if !self.known.services.is_selected(namespace) {
            let said = format!(
                "namespace {namespace} does not match --namespace-selector. Add the labels of the selector to the namespace"
            );
            return (Reason::NamespaceNotServed, said);
        }
        let Some(facts) = seen else {
            return (
                Reason::PodDeleted,
                format!("there is no pod {pod}, and Headgate has no record of a target of this pod"),
            );
        };
        match self.known.services.origins().doubt(namespace, &facts.labels) {
            Some(Doubt::Pending(origin)) => {
                return (
                    Reason::NotSelected,
                    format!("Headgate has not yet looked up a target group that {origin} names"),
                );
            }
            Some(Doubt::Unreadable(origin)) => {
                let problems: Vec<&str> =
                    self.known.services.origins().problems(&origin).map(|problem| &*problem.said).collect();
                return (
                    Reason::InvalidBinding,
                    format!(
                        "{origin} selects this pod, but Headgate cannot use its target groups: {}",
                        problems.join("; ")
                    ),
                );
            }
            Some(Doubt::Refused(origin)) => {
                let of = self.known.services.origins().problems(&origin);
                let refused = of.filter(|problem| problem.reason == Reason::NotGranted);
                let said: Vec<&str> = refused.map(|problem| &*problem.said).collect();
                return (
                    Reason::NotGranted,
                    format!("{origin} selects this pod, but the binding is not granted: {}", said.join("; ")),
                );
            }
            None => {}
        }
        let plain: Vec<&str> = self
            .known
            .services
            .origins()
            .selecting_without_binding(namespace, &facts.labels)
            .map(|service| &*service.name)
            .collect();
        let said = words::not_selected(namespace, &plain);
        (Reason::NotSelected, said)
    }

    fn not_listed_yet(&self) -> Option<Word> {
        let said = "Headgate decides nothing before the initial sync of all watches and ledgers; headgate_synced and the log \
                    show the progress";
        (!self.acts()).then(|| (Reason::NotListedYet, said.to_owned()))
    }

    /// The state of a pod that a binding selects, but that is not a target of the binding.
    fn not_a_target(
        &self,
        facts: &PodFacts,
        binding: &Binding,
        target: Option<Target>,
        cause: Cause,
    ) -> Stands {
        let said = match cause {
            Cause::NoSuchPort | Cause::WrongIpFamily => {
                sayings::binding_trouble(binding, &TroubleKind::Unfit(cause), &facts.key.name)
            }
            Cause::WaitsForHostNetworkPod => {
                let owner =
                    target.and_then(|target| self.known.index.bindings().owner(&binding.key.group, &target));
                words::another_had_it_first(owner)
            }
            Cause::IpChanged => {
                words::another_has_got_it(self.known.index.pods().taken_by(facts).map(|(pod, _)| pod))
            }
            Cause::AddressContested => self.waits_for_address(facts),
            cause => {
                let signal =
                    facts.node.as_ref().and_then(|node| Some((node, self.known.nodes.signal(node)?.0)));
                match signal.filter(|(_, signal)| signal.fate.cause() == cause) {
                    Some((node, signal)) => sayings::node_goes(node, signal, facts.passed_over),
                    None => words::no_target(cause).to_owned(),
                }
            }
        };
        (Progress::NotATarget, (cause.reason(), said), None)
    }

    /// Describes the address that a pod waits for, and the pod that has the address.
    fn waits_for_address(&self, facts: &PodFacts) -> String {
        let holder =
            self.known.index.pods().taken_by(facts).and_then(|(pod, _)| self.known.index.pods().get(pod));
        let said = |holder: &PodFacts| {
            let ip = facts.ips.iter().find(|ip| holder.ips.contains(ip))?;
            Some(sayings::waits_for_address(*ip, holder))
        };
        holder.and_then(said).unwrap_or_default()
    }

    /// The state of a pod that should be this target of a binding.
    fn claimed(&self, facts: &PodFacts, binding: &Binding, target: Target) -> Stands {
        let arn = &binding.key.group;
        let account = self.groups.get(arn).and_then(|group| group.registrations().account(&target));
        let Some(account) = account.filter(|account| *account.uid == facts.uid) else {
            let owner = self.known.index.bindings().owner(arn, &target).filter(|owner| **owner != facts.key);
            let cause = match owner {
                None => Cause::NotRegisteredYet,
                Some(_) => Cause::WaitsForHostNetworkPod,
            };
            return self.not_a_target(facts, binding, Some(target), cause);
        };
        let (progress, since) = match account.under {
            Under::Registered | Under::Believed => {
                (Progress::Registered, account.ended.unwrap_or(account.since))
            }
            _ => (Progress::Registering, account.since),
        };
        (progress, (account.cause.reason(), words::standing(&account)), Some(since))
    }

    /// Describes a target: the problems of its binding and target group, its last known health, and its next step.
    fn place(
        &mut self,
        pod: &ObjectKey,
        group: TargetGroupArn,
        binding: Option<BindingKey>,
        target: Option<Target>,
        (progress, word, since): Stands,
        now: Moment,
    ) -> Place {
        let listed = self.not_listed_yet();
        let throttled = self.accounts.throttled(now).of(&group);
        let turn = |lane| self.accounts.lanes(&group).when(lane, now);
        let (next_addition, next_reads) = (turn(Lane::Addition), (turn(Lane::AwaitedRead), turn(Lane::Read)));
        let known = self.groups.get(&group);
        let next = known.and_then(|known| {
            let account = target.and_then(|target| known.registrations().account(&target));
            let due = Due { group: known, arn: &group, listed, throttled, now };
            match (progress, account) {
                (Progress::Registering, Some(account)) => Some(due.registers(&account, next_addition)),
                (Progress::Deregistering, Some(account)) => due.deregisters(&account),
                (Progress::Registered, _) => {
                    let goes = binding.as_ref().and_then(|binding| self.may_go(pod, binding));
                    let goes = goes.or_else(|| self.leaves_early(pod, now));
                    Some(goes.unwrap_or_else(|| due.reads(next_reads)))
                }
                _ => None,
            }
        });
        let observed = known.map(Group::observation);
        Place {
            target,
            progress,
            word,
            since,
            health: target.and_then(|target| observed?.health(&target)),
            read: observed.and_then(Observation::last_read),
            next,
            troubles: binding
                .as_ref()
                .filter(|_| known.is_some())
                .map(|key| self.said_of(key))
                .unwrap_or_default(),
            group,
            binding,
        }
    }

    fn said_of(&self, binding: &BindingKey) -> Vec<Word> {
        let about = self
            .known
            .services
            .origins()
            .problems(&binding.origin)
            .filter(|problem| problem.is_about(&binding.port));
        let mut said: Vec<Word> = about.map(|problem| (problem.reason, problem.said.clone())).collect();
        said.extend(troubles(binding, &self.known.index, &self.groups));
        said.extend(pause(binding, &self.known.index, &self.groups));
        said.extend(self.reports.throttling(&binding.group));
        said
    }

    /// The next step for a pod that should be deregistered before a client requests its eviction.
    fn leaves_early(&self, pod: &ObjectKey, now: Moment) -> Option<Next> {
        let facts = self.known.index.pods().get(pod)?;
        let cause = match facts.leaving.as_deref() {
            Some(leaving) if leaving.ask.early => {
                leaving.waits.map_or(Cause::NodeDisrupted, |(_, cause)| cause)
            }
            Some(_) => return None,
            None => self.around(now).waits_early(self.evictions_known(), facts)?,
        };
        let waits = Some((cause.reason(), words::leaves_early(cause).to_owned()));
        Some(Next { step: Step::Deregister, at: None, waits })
    }

    /// The next deregistration of a registered target if nothing changes, with its time and its reason.
    fn may_go(&self, pod: &ObjectKey, key: &BindingKey) -> Option<Next> {
        let binding = self.known.index.bindings().get(key)?;
        let lets_go = |_: &Moment| binding.lets_go();
        let node = self.known.index.pods().get(pod).and_then(|pod| pod.node.as_ref());
        let node = self.known.nodes.last_seen().given_up_at(node);
        let kept =
            self.known.index.pods().kept_since(pod).map(|since| since + self.settings.leaving.patience);
        let may = [
            (
                self.known.index.pods().lost_at(pod).filter(lets_go),
                Reason::NotReady,
                "unless the pod is ready again by then",
            ),
            (
                kept.filter(lets_go),
                Reason::RemovalHeld,
                "or when its zone has enough healthy targets without it: it is not ready any more",
            ),
            (
                self.known.index.pods().given_up_at(pod),
                Reason::ListDoubted,
                "unless a second list of pods has the pod",
            ),
            (
                self.known.services.origins().doubted_until(&key.origin),
                Reason::ListDoubted,
                "unless a second list has the TargetBinding, or its namespace",
            ),
            (node, Reason::ListDoubted, "unless a second list of nodes has the pod's node"),
            (
                self.known.services.origins().end_of(&key.origin),
                Reason::BindingRemoved,
                "unless the Service is made again",
            ),
        ];
        let first = may.into_iter().filter_map(|(at, reason, said)| Some((at?, reason, said)));
        let (at, reason, said) = first.min_by_key(|(at, ..)| *at)?;
        Some(Next { step: Step::Deregister, at: Some(at), waits: Some((reason, said.to_owned())) })
    }
}
