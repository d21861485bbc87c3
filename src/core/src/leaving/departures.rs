//! All pods that are asked to leave, and the requests about them that are under way.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    net::IpAddr,
    time::Duration,
};

use super::{
    Limits,
    departure::{AGAIN, Case, Decision, Departure, Next},
};
use crate::{
    model::{
        leaving::{LeavingFacts, Mark},
        object::{Labels, ObjectKey, Uid},
        pod::PodFacts,
        reason::Reason,
        request::{Failure, FailureClass, RequestId},
        target::Target,
        target_group::TargetGroupArn,
        time::{Moment, WallTime},
    },
    planted::{Bug, planted},
};

/// What a PodDisruptionBudget that is about the pod says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Its name.
    pub name: Box<str>,
    /// `status.disruptionsAllowed`.
    pub allowed: usize,
    /// How many of the pods that are on their way out already it is about, too.
    pub departing: usize,
}

/// What the API server says about an eviction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    /// A dry run of it is refused for now, as by a budget: in these words.
    pub refused: Option<Box<str>>,
    /// The budgets that are about the pod.
    pub budgets: Vec<Budget>,
}

/// What follows from a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The pod may be taken out now.
    Leaves(ObjectKey),
    /// It has to wait, for so long already that the user is told.
    Waits {
        /// The pod.
        pod: ObjectKey,
        /// Why.
        reason: Reason,
        /// In the words of Kubernetes, or about the budget.
        why: Box<str>,
    },
}

/// What has been written, or could not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marked {
    /// The pod.
    pub pod: ObjectKey,
    /// This life of it.
    pub uid: Uid,
    /// What was written; `None`: Kubernetes does not allow it, in the words of `why`.
    pub mark: Option<Mark>,
    /// Whether nobody had asked for its eviction.
    pub early: bool,
    /// Why it was let through, or could not be written.
    pub why: Box<str>,
    /// How long ago it was asked to leave for the first time.
    pub after: Duration,
}

/// A request that is under way. Its answer may come when the pod has gone, or leaves no more, because of it.
#[derive(Clone, Debug)]
struct Request {
    pod: ObjectKey,
    uid: Uid,
    /// What is written; `None`: it is a check.
    mark: Option<Mark>,
    since: WallTime,
    /// Nobody has asked for it then.
    early: bool,
    /// Why it is let through, if that is no word of its own.
    why: Box<str>,
}

/// All pods that are asked to leave. See the module above.
#[derive(Debug, Default)]
pub struct Departures {
    pods: BTreeMap<ObjectKey, Departure>,
    requests: BTreeMap<RequestId, Request>,
    /// When the next step is due, if nothing happens before.
    due: Option<Moment>,
}

impl Departures {
    /// A pod looks like this now.
    pub fn saw(&mut self, pod: &PodFacts, now: Moment, wall: WallTime) {
        let Some(mut facts) = pod.leaving.as_deref().copied().filter(|_| !pod.terminating && !pod.finished)
        else {
            self.forget(&pod.key);
            return;
        };
        let written = facts;
        let credible = if planted(Bug::AllIsBelieved) { Some(facts) } else { facts.credible(wall) };
        facts =
            credible.unwrap_or_else(|| LeavingFacts { held: facts.held, ..LeavingFacts::asked(wall, wall) });
        // The clock of whoever wrote it may be ahead.
        (facts.since, facts.asked) = (facts.since.min(wall), facts.asked.min(wall));
        facts.deregistered = facts.deregistered.map(|(at, bound)| (at.min(wall), bound));
        if self.pods.get(&pod.key).is_some_and(|known| known.uid != pod.uid) {
            self.forget(&pod.key);
        }
        let departure = match self.pods.entry(pod.key.clone()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => {
                // It was seen to be undone, and that has not been answered.
                let mut open = self.requests.iter().filter(|(_, open)| open.uid == pod.uid);
                let busy = open.next().map(|(id, open)| (*id, open.mark));
                place.insert(Departure { busy, ..Departure::new(pod, facts) })
            }
        };
        departure.sees(facts, written, now);
        departure.disbelieved = credible != Some(written);
        departure.labels = pod.labels.clone();
        departure.ips.clone_from(&pod.ips);
        self.due = Some(now);
    }

    /// The pod is gone, or does not leave any more.
    pub fn forget(&mut self, pod: &ObjectKey) {
        self.pods.remove(pod);
    }

    /// Forgets the pods that are not there any more: this one, or all.
    pub fn keep(&mut self, one: Option<&ObjectKey>, is_there: impl Fn(&ObjectKey, &Uid) -> bool) {
        match one {
            Some(pod) if self.pods.get(pod).is_some_and(|departure| !is_there(pod, &departure.uid)) => {
                self.forget(pod);
            }
            Some(_) => {}
            None => self.pods.retain(|pod, departure| is_there(pod, &departure.uid)),
        }
    }

    /// Another replica leads from now on, or may. Gives the pods whose removal was decided here and is not written down.
    pub fn stand_by(&mut self) -> Vec<ObjectKey> {
        self.requests.clear();
        self.due = Some(Moment::START);
        let mut undecided = Vec::new();
        for (pod, departure) in &mut self.pods {
            (departure.busy, departure.waits, departure.failing) = (None, None, None);
            departure.again = Moment::START;
            departure.told.clear();
            if !planted(Bug::DecisionOutlivesTheReign) {
                undecided.extend(departure.decision.take().map(|_| pod.clone()));
            }
        }
        undecided
    }

    /// Something has happened that matters to them.
    pub const fn touch(&mut self, now: Moment) {
        self.due = Some(now);
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.pods.is_empty()
    }

    /// When something is to be done.
    pub const fn next_due(&self) -> Option<Moment> {
        self.due
    }

    /// What is to be done at a time goes first for whoever was asked first; gives all, and begins anew to count when
    /// something is due.
    pub fn take_due(&mut self) -> Vec<ObjectKey> {
        self.due = None;
        let mut pods: Vec<(WallTime, &ObjectKey)> =
            self.pods.iter().map(|(pod, departure)| (departure.facts.since, pod)).collect();
        pods.sort();
        pods.into_iter().map(|(_, pod)| pod.clone()).collect()
    }

    /// The next step of a pod. A check waits while another one of its namespace is under way: two that are answered side
    /// by side would both be allowed.
    pub fn next(&mut self, pod: &ObjectKey, case: &Case, limits: &Limits) -> Next {
        let Some(departure) = self.pods.get_mut(pod) else { return Next::Wait(None) };
        if (case.is_gone || planted(Bug::DecidedIsRemoved))
            && let Some(decision) = &mut departure.decision
        {
            decision.taken.get_or_insert(case.wall);
        }
        if case.is_back && departure.facts.deregistered.is_some() {
            departure.back.get_or_insert(case.now);
        }
        let next = departure.next(case, limits);
        let next = match next {
            Next::Check if self.checks(&pod.namespace) => Next::Wait(None),
            next => next,
        };
        if let Next::Wait(Some(due)) = next {
            self.due = self.due.into_iter().chain([due]).min();
        }
        next
    }

    fn checks(&self, namespace: &str) -> bool {
        let mut requests = self.requests.values();
        requests.any(|request| request.mark.is_none() && &*request.pod.namespace == namespace)
    }

    /// The targets whose removal was decided.
    pub fn decided(&self, pod: &ObjectKey) -> Option<&Decision> {
        self.pods.get(pod)?.decision.as_ref()
    }

    /// The labels of the pods of a namespace that are on their way out.
    pub fn departing(&self, namespace: &str, limits: &Limits, wall: WallTime) -> Vec<Labels> {
        let here = self.pods.iter().filter(|(pod, _)| &*pod.namespace == namespace);
        here.filter(|(_, departure)| departure.departs(limits, wall) && !planted(Bug::DeparturesAreForgotten))
            .map(|(_, departure)| departure.labels.clone())
            .collect()
    }

    /// Whether a pod counts as on its way out.
    pub fn departs(&self, pod: &ObjectKey, limits: &Limits, wall: WallTime) -> bool {
        self.pods.get(pod).is_some_and(|departure| departure.departs(limits, wall))
    }

    /// Whether a pod was taken out, or is being.
    pub fn is_out(&self, pod: &ObjectKey) -> bool {
        self.pods.get(pod).is_some_and(|departure| departure.decision.is_some() || departure.facts.is_out())
    }

    /// Whether a pod leaves, or is to, though nobody has asked for its eviction.
    pub fn is_early(&self, pod: &ObjectKey) -> bool {
        self.pods.get(pod).is_some_and(|departure| departure.facts.early)
    }

    /// The pods that were taken out because their eviction was asked for, or are being; and of those whose removal was
    /// decided here, from where.
    pub fn taken_out(&self) -> impl Iterator<Item = (&ObjectKey, Option<&Decision>)> {
        let out = |it: &&Departure| !it.facts.early && (it.decision.is_some() || it.facts.is_out());
        let all = self.pods.iter().filter(move |(_, departure)| out(departure));
        all.map(|(pod, departure)| (pod, departure.decision.as_ref()))
    }

    /// Whether it is still to be decided that a pod leaves.
    pub fn is_undecided(&self, pod: &ObjectKey) -> bool {
        let undecided =
            |it: &Departure| !it.facts.held && it.decision.is_none() && it.facts.deregistered.is_none();
        self.pods.get(pod).is_some_and(undecided)
    }

    /// Since when a pod is asked to leave.
    pub fn since(&self, pod: &ObjectKey) -> Option<WallTime> {
        Some(self.pods.get(pod)?.facts.since)
    }

    /// A request about a pod begins: to write `mark`, or a check.
    pub fn begin(&mut self, pod: &ObjectKey, id: RequestId, mark: Option<Mark>) -> Option<(Uid, Labels)> {
        let departure = self.pods.get_mut(pod)?;
        departure.busy = Some((id, mark));
        let (uid, since, early) = (departure.uid.clone(), departure.facts.since, departure.facts.early);
        let why = departure.failing.as_ref().map(|(_, why)| why.clone()).unwrap_or_default();
        self.requests.insert(id, Request { pod: pod.clone(), uid, mark, since, early, why });
        Some((departure.uid.clone(), departure.labels.clone()))
    }

    /// Something was written, or could not be. Gives what the user should be told.
    pub fn marked(&mut self, id: RequestId, result: Result<(), Failure>, case: &Case) -> Option<Marked> {
        let Request { pod, uid, mark, since, early, why } = self.requests.remove(&id)?;
        let mark = mark?;
        self.due = Some(case.now);
        let after = case.wall.since(since);
        let departure = self.pods.get_mut(&pod).filter(|departure| departure.uid == uid);
        let say = |mark, why| Some(Marked { pod: pod.clone(), uid: uid.clone(), mark, early, why, after });
        if result.is_ok() {
            if let Some(departure) = departure {
                departure.written(mark, case.now, case.wall);
            }
            return say(Some(mark), why);
        }
        let departure = departure?;
        departure.busy = None;
        departure.again = case.now + AGAIN;
        let lasting = result.err().filter(Failure::is_lasting)?;
        if departure.told.insert(Reason::LeavingNotRecorded) { say(None, lasting.message) } else { None }
    }

    /// What the API server says of the budgets of a pod, which `is_ready`, or not. Gives what follows, if anything.
    pub fn checked(
        &mut self,
        id: RequestId,
        result: Result<Checked, Failure>,
        is_ready: impl Fn(&ObjectKey) -> bool,
        limits: &Limits,
        case: &Case,
    ) -> Option<Verdict> {
        let Request { pod, uid, .. } = self.requests.remove(&id)?;
        self.due = Some(case.now);
        let departure = self.pods.get_mut(&pod).filter(|departure| departure.uid == uid)?;
        departure.busy = None;
        let (reason, why): (_, Box<str>) = match result {
            Err(Failure { class: FailureClass::Gone, .. }) => {
                departure.again = case.now + AGAIN;
                return None;
            }
            Err(Failure { message: why, .. }) => {
                departure.again = case.now + AGAIN;
                let since = departure.failing.as_ref().map_or(case.now, |(since, _)| *since);
                departure.failing = Some((since, why));
                return None;
            }
            Ok(Checked { refused: Some(why), .. }) => (Reason::EvictionWaitsForBudget, why),
            Ok(Checked { refused: None, budgets }) => {
                // A pod that is not ready takes nothing of a budget, as Kubernetes sees it.
                let full = budgets.iter().find(|budget| budget.allowed <= budget.departing);
                match full.filter(|_| is_ready(&pod)) {
                    None => {
                        (departure.failing, departure.waits) = (None, None);
                        return Some(Verdict::Leaves(pod));
                    }
                    Some(Budget { name, allowed, departing }) => (
                        Reason::EvictionWaitsForDeparture,
                        format!(
                            "PodDisruptionBudget {name} allows {allowed}, and {departing} of its pods are on their way out"
                        )
                        .into(),
                    ),
                }
            }
        };
        (departure.failing, departure.again) = (None, case.now + AGAIN);
        let said = departure
            .facts
            .waits
            .filter(|(at, said)| *said == reason && case.wall.since(*at) < limits.refresh());
        departure.waits = said.is_none().then_some(reason);
        if departure.waits.is_some() {
            departure.again = case.now;
        }
        let long = departure.is_asked() && case.wall.since(departure.facts.since) >= limits.patience;
        (long && departure.told.insert(reason)).then_some(Verdict::Waits { pod, reason, why })
    }

    /// The removal of a target is sent. If the pod at its address was said to be out, AWS has had it again.
    pub fn removal_sent(&mut self, ip: &IpAddr, now: Moment) {
        let is_taken = |decision: &Decision| decision.taken.is_some();
        let is_out =
            |it: &Departure| it.facts.deregistered.is_some() || it.decision.as_ref().is_some_and(is_taken);
        for departure in self.pods.values_mut().filter(|it| it.ips.contains(ip) && is_out(it)) {
            departure.back.get_or_insert(now);
            self.due = Some(now);
        }
    }

    /// That a pod is taken out is not in force any more.
    pub fn revoke(&mut self, pod: &ObjectKey) {
        if let Some(departure) = self.pods.get_mut(pod) {
            departure.decision = None;
        }
    }

    /// The leader takes the pod out: these targets.
    pub fn decide(
        &mut self,
        pod: &ObjectKey,
        targets: Vec<(TargetGroupArn, Target)>,
        bound: Duration,
        now: Moment,
    ) {
        if let Some(departure) = self.pods.get_mut(pod) {
            departure.decision = Some(Decision { since: now, targets, bound, taken: None });
        }
    }

    /// And these as well, since then.
    pub fn decide_more(&mut self, pod: &ObjectKey, targets: Vec<(TargetGroupArn, Target)>, bound: Duration) {
        let departure = self.pods.get_mut(pod);
        if let Some(decision) = departure.and_then(|departure| departure.decision.as_mut()) {
            decision.targets.extend(targets);
            (decision.bound, decision.taken) = (decision.bound.max(bound), None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::pod;

    const BOUND: Duration = Duration::from_secs(120);

    fn wall(seconds: u64) -> WallTime {
        WallTime::since_1970(Duration::from_secs(seconds))
    }

    fn case(seconds: u64) -> Case {
        Case {
            zones: Ok(Reason::ZoneAllows),
            has_hold: false,
            waits_for_turn: false,
            is_target: true,
            lingers: Duration::ZERO,
            is_back: false,
            is_gone: true,
            is_unknown: false,
            node_goes: false,
            node_stays: false,
            now: Moment::after_start(Duration::from_secs(seconds)),
            wall: wall(seconds),
        }
    }

    #[test]
    fn what_aws_has_again_while_that_it_is_out_is_being_written_is_waited_for() {
        let limits = Limits { given_up_after: Duration::from_secs(900), ..Limits::default() };
        let mut departures = Departures::default();
        let facts = pod("web", "u-1").at(1).leaving(LeavingFacts::asked(wall(1), wall(1))).build();
        let (key, ip) = (facts.key.clone(), facts.ips[0]);
        departures.saw(&facts, case(1).now, wall(1));
        departures.decide(&key, Vec::new(), BOUND, case(1).now);
        let out = |at| Next::Mark(Mark::Deregistered { at: wall(at), bound: BOUND });
        assert_eq!(departures.next(&key, &case(2), &limits), out(2));
        let mark = Mark::Deregistered { at: wall(2), bound: BOUND };
        assert!(departures.begin(&key, RequestId(1), Some(mark)).is_some());
        // A call of a leader before has landed, was seen, and is undone.
        departures.removal_sent(&ip, case(3).now);
        assert!(departures.marked(RequestId(1), Ok(()), &case(4)).is_some());
        assert_eq!(departures.next(&key, &case(9), &limits), out(9), "and the bound counts from then");
        assert!(
            departures
                .begin(&key, RequestId(2), Some(Mark::Deregistered { at: wall(9), bound: BOUND }))
                .is_some()
        );
        assert!(departures.marked(RequestId(2), Ok(()), &case(10)).is_some());
        assert!(matches!(departures.next(&key, &case(2 + 120), &limits), Next::Wait(_)));
        let go = Next::Mark(Mark::MayGo { at: wall(9 + 120), reason: Reason::EvictionAllowed });
        assert_eq!(departures.next(&key, &case(9 + 120), &limits), go);
    }

    #[test]
    fn only_what_is_out_and_has_the_address_is_back() {
        let limits = Limits::default();
        let asked = LeavingFacts::asked(wall(1), wall(1));
        let out = LeavingFacts { deregistered: Some((wall(2), BOUND)), ..asked };
        for (leaving, last, is_back) in [(out, 1, true), (out, 2, false), (asked, 1, false)] {
            let mut departures = Departures::default();
            let facts = pod("web", "u-1").at(1).leaving(leaving).build();
            departures.saw(&facts, case(3).now, wall(3));
            departures.removal_sent(&crate::testing::ip(last), case(3).now);
            let case = Case { is_gone: false, ..case(4) };
            let next = departures.next(&facts.key, &case, &limits);
            let anew = Next::Mark(Mark::Deregistered { at: wall(4), bound: BOUND });
            assert_eq!(next == anew, is_back, "{leaving:?} {last}: {next:?}");
        }
    }
}
