//! Leadership and the ledgers. The leader loads the ledgers before it acts, and writes the ledgers when the
//! registrations require a write.
//!
//! A standby stores the state from the watches, and looks up the target groups that users refer to. A standby reads the
//! ledgers to find out which pods were targets before it saw the pods. A standby writes nothing.
//!
//! A new leader first loads the ledgers. Until the leader has the ledgers and every watch has listed, it sends only
//! look-ups. A leader that loses the Lease drops the data that only a leader has (`leader.rs`). The replica then
//! rebuilds the target groups from the watches, and ignores answers to earlier requests.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use super::Engine;
use crate::{
    engine::asker::Asker,
    engine::{Effect, Leadership, knowledge::Knowledge, leader::Leader},
    eviction::Touched,
    index::{Order, Said},
    leadership::{Load, Role},
    ledger::{LedgerRequest, LedgerVersion, PodMark, StoredLedger, object_name},
    model::{
        Cause, Failure, FailureClass, Moment, Origin, Owner, PodFacts, Reason, RequestId, Target,
        TargetGroupArn, Transition, claims::Began, excerpt::beginning,
    },
    requests::{Answer, Request},
    targets::{
        groups::{Groups, begin_term},
        registration::{Holder, Orphan, Registrations},
    },
};

/// The addresses in this ledger, each with its pod.
fn had(stored: &StoredLedger) -> Vec<(IpAddr, PodMark)> {
    let Ok((_, content)) = stored.open() else { return Vec::new() };
    content.claims.iter().map(|(target, claim)| (target.ip, claim.pod)).collect()
}

/// The pod that the ledger names for `target`, if this replica has seen the pod end or lose the address, and why it is no target. A
/// pod that shows no address yet may have this one, because the watch may lag.
fn went(known: &Knowledge, mark: PodMark, target: &Target) -> Option<(Owner, Cause)> {
    if let Some(owner) = known.gone.of(mark) {
        return Some((owner.clone(), Cause::PodDeleted));
    }
    let pod = known.index.pods().marked(mark)?;
    let owner = Owner { pod: pod.key.clone(), uid: pod.uid.clone() };
    match pod {
        _ if !pod.ips.is_empty() && !pod.ips.contains(&target.ip) => Some((owner, Cause::IpChanged)),
        // A pod that has finished may have lost its address.
        _ if pod.terminating && !pod.finished => Some((owner, Cause::PodTerminating)),
        _ => None,
    }
}

fn arns(groups: &Groups) -> Vec<TargetGroupArn> {
    groups.keys().cloned().collect()
}

impl Engine {
    pub(super) fn on_leadership(&mut self, leadership: Leadership, now: Moment) {
        match leadership {
            Leadership::Leading { term, is_settled } if self.term.leads(true) => {
                begin_term(&mut self.groups, Began { term, at: now, is_settled });
                self.leader = Some(Leader::begin(&self.known, self.settings.bounds));
                self.out.put(Effect::Happened(Transition::Leads(true)));
                self.say_everything();
            }
            Leadership::Standby if self.term.leads(false) => {
                self.out.put(Effect::Happened(Transition::Leads(false)));
                for (call, ticket) in self.out.end_term() {
                    self.accounts.answered(&call, ticket, &Ok(Answer::Done), &self.groups, now);
                }
                self.reports.hush();
                // Decisions that this replica has not written no longer apply.
                let (decided, mut stays_out) =
                    self.leader.take().map(|leader| leader.evictions.decided()).unwrap_or_default();
                stays_out.retain(|pod| !self.known.index.pods().goes_with_its_node(pod));
                let decided = decided.iter().map(|pod| (pod, Order::Leave(false)));
                for (pod, order) in decided.chain(stays_out.iter().map(|pod| (pod, Order::NodeGoes(None)))) {
                    let changes = self.known.index.order(pod, order, now);
                    self.absorb(changes, now);
                }
                let wanted = self.known.index.bindings().ownerships();
                self.groups = Groups::after_term(&self.groups, wanted);
                for arn in arns(&self.groups) {
                    self.govern(&arn, now);
                    self.reports.touch_group(&arn);
                }
                for binding in self.known.index.bindings().all() {
                    self.reports.touch_binding(binding.key.clone());
                }
            }
            Leadership::Leaving => {
                for arn in arns(&self.groups) {
                    if let Some(group) = self.groups.get_mut(&arn) {
                        group.registrations_mut().hurry_ledger();
                    }
                }
            }
            Leadership::Leading { .. } | Leadership::Standby => {}
        }
    }

    /// Requests the ledgers if a request is due.
    pub(super) fn load_ledgers(&mut self, now: Moment) {
        if self.term.next_load().is_none_or(|due| due > now) {
            return;
        }
        let id = self.out.next_id();
        self.term.loads(id);
        self.out.ask(id, Asker::Ledgers, Request::Ledger(LedgerRequest::LoadAll));
    }

    pub(super) fn on_ledgers(
        &mut self,
        id: RequestId,
        result: Result<Vec<StoredLedger>, Failure>,
        now: Moment,
    ) {
        let load = self.term.loaded(id, result.is_ok(), now);
        if let (Some(_), Ok(ledgers)) = (load, &result) {
            let pods = ledgers.iter().flat_map(had).map(|(_, pod)| pod);
            self.touch_evictions(Touched::Ledgers(&pods.collect()), now);
        }
        match (load, result) {
            (Some(Load::TakesOver), Ok(ledgers)) => self.take_over(&ledgers, now),
            (Some(Load::LooksAgain), Ok(ledgers)) => self.compare(&ledgers, now),
            _ => {}
        }
    }

    /// Compares the ledgers with the ledgers that the leader took over at the start of its term. If a ledger differs,
    /// the leader reads the ledger again.
    fn compare(&mut self, ledgers: &[StoredLedger], now: Moment) {
        for stored in ledgers {
            let Ok((arn, _)) = stored.open() else { continue };
            if let Some(group) = self.groups.get_mut(&arn) {
                group.registrations_mut().ledger_is_at(&stored.version);
            } else {
                self.take_over_group(&arn, Some(stored), now);
                self.groups.orphans().touch();
            }
        }
    }

    fn take_over(&mut self, ledgers: &[StoredLedger], now: Moment) {
        self.groups.orphans().touch();
        let ledgers_say: Vec<(IpAddr, PodMark)> = ledgers.iter().flat_map(had).collect();
        let changes = self.known.index.apply(Said::Ledgers(ledgers_say), now);
        self.absorb(changes, now);
        let mut named = BTreeMap::new();
        for arn in arns(&self.groups) {
            if let Some(group) = self.groups.get_mut(&arn) {
                group.registrations_mut().no_ledger();
            }
            named.insert(object_name(&arn), arn);
        }

        for stored in ledgers {
            let group = if let Ok((arn, _)) = stored.open() {
                arn
            } else {
                self.groups.orphans().unreadable(stored);
                let Some(arn) = named.get(stored.stem()) else { continue };
                arn.clone()
            };
            self.take_over_group(&group, Some(stored), now);
        }
        // A group without a ledger has no owner.
        for arn in named.values() {
            self.settle_naming(arn, now);
        }
    }

    fn take_over_group(&mut self, arn: &TargetGroupArn, stored: Option<&StoredLedger>, now: Moment) {
        if let Some(later) = self.groups.make(arn).take_over(stored, now) {
            self.out.put(Effect::Outdated(later));
        }
        self.govern(arn, now);
        self.settle_naming(arn, now);
        self.reports.touch_group(arn);
    }

    /// Adds a group with its loaded ledger, unless the engine already has the group.
    pub(super) fn make_group(&mut self, arn: &TargetGroupArn, now: Moment) {
        if self.groups.contains_key(arn) {
            return;
        }
        self.groups.make(arn);
        if self.term.role() >= Role::Listing {
            let stored = self.groups.orphans().unreadable_of(arn).cloned();
            self.take_over_group(arn, stored.as_ref(), now);
        }
    }

    /// Sends the ledger requests that are due.
    pub(super) fn send_ledger_requests(&mut self, now: Moment) {
        for arn in self.groups.calls(now).ledgers() {
            let id = self.out.next_id();
            let Some(group) = self.groups.get_mut(&arn) else { continue };
            let bound = || self.known.index.bindings().of_group(&arn).next().is_some();
            let Some(request) = group.registrations_mut().ledger_request(&arn, bound, id, now) else {
                continue;
            };
            let asker = match &request {
                LedgerRequest::LoadAll => Asker::Ledgers,
                LedgerRequest::Load(_) => Asker::ReadLedger(arn),
                LedgerRequest::Write(..) => Asker::WriteLedger(arn),
                LedgerRequest::Delete(..) => Asker::DeleteLedger(arn),
            };
            self.out.ask(id, asker, Request::Ledger(request));
        }
    }

    pub(super) fn on_ledger(
        &mut self,
        arn: &TargetGroupArn,
        id: RequestId,
        result: &Result<Option<StoredLedger>, Failure>,
        now: Moment,
    ) {
        let Some(group) = self.groups.get_mut(arn) else { return };
        if !group.registrations_mut().ledger_was_read(id, result.is_ok(), now) {
            return;
        }
        match result {
            Ok(stored) => {
                self.groups.orphans().readable(arn);
                self.take_over_group(arn, stored.as_ref(), now);
                self.groups.orphans().touch();
                self.say_about(arn);
            }
            Err(failure) => self.ledger_refused(arn, "get", Some(failure)),
        }
    }

    /// Handles the result of a write of a ledger, or of its deletion (`Ok(None)`).
    pub(super) fn on_ledger_written(
        &mut self,
        arn: &TargetGroupArn,
        id: RequestId,
        result: &Result<Option<LedgerVersion>, Failure>,
        now: Moment,
    ) {
        let Some(group) = self.groups.get_mut(arn) else { return };
        if group.registrations_mut().wrote_ledger(id, result, now) {
            self.reports.touch_group(arn);
        }
        let failure = result.as_ref().err();
        self.ledger_refused(arn, "create, update and delete", failure);
        // Kubernetes may still execute a timed-out request, so Headgate must read the ledgers again later.
        if failure.is_some_and(|failure| failure.class == FailureClass::Unavailable) {
            self.term.may_land_late(now);
        }
    }

    /// Records whether Kubernetes denies access to a ledger. Headgate reports the denial until the access works.
    fn ledger_refused(&mut self, arn: &TargetGroupArn, verbs: &str, failure: Option<&Failure>) {
        let Some(group) = self.groups.get_mut(arn) else { return };
        let trouble = match failure {
            None => None,
            Some(failure) if failure.is_lasting() => Some((
                Reason::LedgerUnreadable,
                format!(
                    "Target group {}: nothing is registered, because Kubernetes rejects its TargetLedger ({}). Install the \
                     CRD, and grant {verbs} on targetledgers.",
                    arn.name(),
                    beginning(&failure.message),
                ),
            )),
            Some(_) => return,
        };
        if group.ledger_trouble(trouble) {
            self.say_about(arn);
        }
    }

    /// Evaluates targets of earlier ledgers that no pod needs, if a relevant change has happened.
    pub(super) fn review(&mut self, now: Moment) {
        if !self.acts() || !self.groups.orphans().begin_review() {
            return;
        }
        let arns = arns(&self.groups);
        self.review_holders(&arns, now);
        self.spare_foreign_targets(&arns);
        self.judge(&arns, now);
    }

    /// Evaluates the targets of earlier ledgers in these groups. Cancels unsent deregistrations that have become
    /// doubtful.
    pub(super) fn judge(&mut self, arns: &[TargetGroupArn], now: Moment) {
        let orphans = self.targets_in(arns, |it| it.orphans().map(|(target, _)| *target).collect());
        let unsent = |it: &Registrations| it.stale_and_unsent().copied().collect();
        for (arn, target) in orphans {
            let holder = self.holder(&arn, &target);
            let exclusive = self.is_exclusive(&arn);
            let living = self.only_living(&target.ip);
            let Some(group) = self.groups.get_mut(&arn) else { continue };
            let living = living.map(|living| {
                let pods = self.known.index.pods();
                let is_its = group.registrations().claimed_for(&target) == Some(PodMark::of(&living.uid));
                let mut bound = pods.bound(&living.pod).into_iter().filter(|_| is_its);
                let is_not_ready =
                    bound.any(|(to, target)| to.key.group == arn && target == Err(Cause::NotReady));
                let leaves = pods.why_out(&living.pod).or(is_not_ready.then_some(Cause::NotReady));
                (living, leaves)
            });
            let mark = group.registrations().claimed_for(&target);
            if let Some((owner, cause)) = mark.and_then(|mark| went(&self.known, mark, &target)) {
                group.registrations_mut().pod_is_gone(&target, owner, cause, now);
            }
            let sight = group.sight(&target);
            group.registrations_mut().judge(&target, &holder, living, sight, exclusive, now);
        }
        for (arn, target) in self.targets_in(arns, unsent) {
            // While Headgate can cancel the deregistration, it must consider earlier and new pods at this address.
            self.groups.orphans().contests(target.ip);
            if let Holder::Doubtful(pod) = self.holder(&arn, &target)
                && let Some(group) = self.groups.get_mut(&arn)
            {
                group.registrations_mut().call_off(&target, &pod);
            }
        }
        for arn in arns {
            let Some(group) = self.groups.get_mut(arn) else { continue };
            let (mut suspects, mut doubted) = (BTreeSet::new(), Vec::new());
            for (target, orphan) in group.registrations().orphans() {
                match orphan {
                    Orphan::Doubted(pod) => doubted.push(pod.clone()),
                    Orphan::Suspect => _ = suspects.insert(*target),
                    Orphan::Unjudged => {}
                }
            }
            let changed = group.suspect(suspects);
            for pod in doubted {
                self.groups.orphans().doubts(pod);
            }
            if changed {
                self.reports.touch_group(arn);
                self.say_about(arn);
            }
        }
    }

    /// The targets that `of` returns for each of these groups.
    fn targets_in(
        &self,
        arns: &[TargetGroupArn],
        of: impl Fn(&Registrations) -> Vec<Target>,
    ) -> Vec<(TargetGroupArn, Target)> {
        let groups = arns.iter().filter_map(|arn| Some((arn, self.groups.get(arn)?)));
        let targets = groups.flat_map(|(arn, group)| {
            of(group.registrations()).into_iter().map(move |target| (arn.clone(), target))
        });
        targets.collect()
    }

    /// Whether a pod has the address of `target` and may still need the target.
    fn holder(&self, arn: &TargetGroupArn, target: &Target) -> Holder {
        // If two groups have the same name, one of the groups was deleted. Headgate may not know yet which group was
        // deleted.
        let twin = || self.groups.iter().any(|(other, group)| other.is_twin_of(arn) && !group.is_missing());
        let may_be_wanted = |pod: &&PodFacts| {
            self.known.services.origins().doubtful(&pod.key.namespace)
                || twin()
                || self.known.index.pods().waits_for_readiness(&pod.key, arn, target)
        };
        let mut tenants = self.known.index.pods().at(&target.ip).peekable();
        if tenants.peek().is_none() {
            return Holder::Nobody;
        }
        let doubtful = tenants.filter(|pod| !pod.terminating).find(may_be_wanted);
        doubtful.map_or(Holder::Pod, |pod| Holder::Doubtful(pod.key.clone()))
    }

    /// The living pod with this address, if the status of no other living pod shows the address.
    fn only_living(&self, ip: &IpAddr) -> Option<Owner> {
        let mut living = self.known.index.pods().at(ip).filter(|pod| !pod.terminating);
        let only = living.next().filter(|_| living.next().is_none())?;
        Some(Owner { pod: only.key.clone(), uid: only.uid.clone() })
    }

    /// Reports all problems again, because this replica has become the leader.
    fn say_everything(&mut self) {
        for origin in self.known.services.origins().all().cloned().collect::<Vec<_>>() {
            self.say(&origin);
        }
        for trouble in self.known.index.bindings().troubles().cloned().collect::<Vec<_>>() {
            self.tell_pods(&trouble);
        }
        self.tell_contests(&self.known.index.pods().contests().collect::<Vec<_>>());
    }

    /// Reports the problems of a group on the objects that bind the group.
    pub(super) fn say_about(&mut self, arn: &TargetGroupArn) {
        self.touch(arn);
        let bound = self.known.index.bindings().of_group(arn);
        let origins: BTreeSet<Origin> = bound.map(|binding| binding.key.origin.clone()).collect();
        for origin in origins {
            self.say(&origin);
        }
    }
}
