//! All pods that are asked to leave, and the requests about them that are under way.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use super::{
    agenda::{Agenda, Touched, these, within},
    checks::Checks,
    departure::{AGAIN, Case, Concerns, Departure, Next},
    stays_alive,
};
use crate::{
    index::Index,
    model::{
        Failure, FailureClass, Moment, ObjectKey, PodFacts, Reason, RequestId, TargetGroupArn, Uid, WallTime,
        eviction::{Budget, Checked, Limits},
        leaving::Mark,
    },
    nodes::Signal,
};

/// What follows from an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A pod is to be taken out now.
    Leaves {
        /// The pod.
        pod: ObjectKey,
        /// If nobody has asked for its eviction: its node, which is about to go.
        node: Option<(Arc<str>, Signal)>,
    },
    /// The user is to be told.
    Tells {
        /// Of this pod.
        pod: ObjectKey,
        /// This life of it.
        uid: Uid,
        /// What.
        reason: Reason,
        /// In the words of Kubernetes, or about the budget.
        why: Box<str>,
        /// So long after it was asked to leave for the first time.
        after: Duration,
        /// Whether its eviction is let through now.
        passes: bool,
    },
}

/// A request that is under way. Its answer may come when the pod has gone, or leaves no more, because of it.
#[derive(Clone, Debug)]
pub struct Open {
    pub(super) pod: ObjectKey,
    uid: Uid,
    /// What is written; `None`: it is a check.
    pub(super) mark: Option<Mark>,
    since: WallTime,
    /// Nobody has asked for it then.
    early: bool,
    /// Why it is let through, if that is no word of its own.
    why: Box<str>,
}

/// All pods that are asked to leave. See the module above.
///
/// Each is looked at when something happens to it, to a target group of its, or when its time has come; so what happens
/// costs what those cost that it concerns.
#[derive(Debug, Default)]
pub struct Departures {
    pods: BTreeMap<ObjectKey, Departure>,
    open: BTreeMap<RequestId, Open>,
    agenda: Agenda,
    by_group: BTreeMap<TargetGroupArn, BTreeSet<ObjectKey>>,
    /// Those that were taken out on the word of a request alone, by target group: another one waits for its turn.
    turns: BTreeMap<TargetGroupArn, BTreeSet<ObjectKey>>,
    checks: Checks,
}

fn put(index: &mut BTreeMap<TargetGroupArn, BTreeSet<ObjectKey>>, arn: &TargetGroupArn, pod: &ObjectKey) {
    index.entry(arn.clone()).or_default().insert(pod.clone());
}

fn take(index: &mut BTreeMap<TargetGroupArn, BTreeSet<ObjectKey>>, arn: &TargetGroupArn, pod: &ObjectKey) {
    if let Some(pods) = index.get_mut(arn) {
        pods.remove(pod);
        if pods.is_empty() {
            index.remove(arn);
        }
    }
}

impl Departures {
    /// A pod looks like this now.
    pub fn saw(&mut self, pod: &PodFacts, now: Moment, wall: WallTime) {
        let known = self.pods.get(&pod.key).is_some_and(|known| known.uid == pod.uid);
        let written = pod.leaving.as_deref().filter(|_| stays_alive(pod));
        if !known || written.is_none() {
            self.forget(&pod.key);
        }
        let Some(written) = written else { return };
        let departure = self.pods.entry(pod.key.clone()).or_insert_with(|| {
            // It was seen to be undone, and that has not been answered.
            let mut open = self.open.iter().filter(|(_, open)| open.uid == pod.uid);
            let busy = open.next().map(|(id, open)| (*id, open.mark));
            Departure::new(pod.uid.clone(), wall, busy)
        });
        departure.sees(*written, now, wall);
        self.touch(Touched::Pod(&pod.key), now);
    }

    /// The pod is gone, or does not leave any more.
    pub fn forget(&mut self, pod: &ObjectKey) {
        self.concern(pod, Concerns::default());
        self.agenda.put(pod, None);
        if self.pods.remove(pod).is_some() {
            self.checks.forget(pod);
        }
    }

    /// Forgets the pods, this one or all, that the index does not have any more.
    pub fn keep(&mut self, one: Option<&ObjectKey>, index: &Index) {
        for pod in these(&self.pods, one.map_or(Touched::All, Touched::Pod)) {
            if index.pods().get(&pod).map(|facts| &facts.uid)
                != self.get(&pod).map(|departure| &departure.uid)
            {
                self.forget(&pod);
            }
        }
    }

    /// What a pod has to do with, as it stands now.
    pub fn concern(&mut self, pod: &ObjectKey, concerns: Concerns) {
        let Some(departure) = self.pods.get_mut(pod) else { return };
        let before = std::mem::replace(&mut departure.concerns, concerns);
        for arn in &before.groups {
            take(&mut self.by_group, arn, pod);
            take(&mut self.turns, arn, pod);
        }
        for arn in &departure.concerns.groups {
            put(&mut self.by_group, arn, pod);
            if departure.is_taken_out_at_a_word() {
                put(&mut self.turns, arn, pod);
            }
        }
    }

    /// Whether a pod waits for another one of its target groups that was taken out on the word of a request alone.
    pub fn waits_for_turn(&self, pod: &ObjectKey) -> bool {
        let Some(departure) = self.pods.get(pod) else { return false };
        let is_anothers = |arn: &TargetGroupArn| {
            self.turns.get(arn).is_some_and(|pods| pods.iter().any(|other| other != pod))
        };
        let Concerns { groups, is_backed } = &departure.concerns;
        departure.is_asked() && !is_backed && groups.iter().any(is_anothers)
    }

    /// Another replica leads from now on, or may. Gives the pods whose removal was decided here and is not written down.
    pub fn stand_by(&mut self) -> Vec<ObjectKey> {
        self.open.clear();
        self.checks = Checks::default();
        self.touch(Touched::All, Moment::START);
        let mut undecided = Vec::new();
        for (pod, departure) in &mut self.pods {
            (departure.busy, departure.waits, departure.failing) = (None, None, None);
            departure.again = Moment::START;
            departure.told.clear();
            undecided.extend(departure.decision.take().map(|_| pod.clone()));
        }
        undecided
    }

    /// Something has happened: those that it concerns are looked at.
    pub fn touch(&mut self, touched: Touched<'_>, now: Moment) {
        let pods = match touched {
            Touched::Group(arn) => self.by_group.get(arn).into_iter().flatten().cloned().collect(),
            Touched::Removal(pod) => {
                let Some(departure) = self.pods.get_mut(pod).filter(|it| it.was_taken_out()) else { return };
                departure.back.get_or_insert(now);
                vec![pod.clone()]
            }
            touched => these(&self.pods, touched),
        };
        for pod in pods {
            self.agenda.hasten(&pod, now);
        }
    }

    /// One of them.
    pub fn get(&self, pod: &ObjectKey) -> Option<&Departure> {
        self.pods.get(pod)
    }

    /// One of them, to be changed.
    pub fn get_mut(&mut self, pod: &ObjectKey) -> Option<&mut Departure> {
        self.pods.get_mut(pod)
    }

    /// Those of a namespace.
    pub fn within(&self, namespace: &str) -> impl Iterator<Item = (&ObjectKey, &Departure)> {
        within(&self.pods, namespace)
    }

    /// When something is to be done.
    pub fn next_due(&self) -> Option<Moment> {
        self.agenda.next_due()
    }

    /// Those that are looked at now: who was asked first goes first.
    pub fn take_due(&mut self, now: Moment) -> Vec<ObjectKey> {
        for pod in self.checks.take() {
            self.touch(Touched::Pod(&pod), now);
        }
        let mut due = Vec::new();
        while let Some(pod) = self.agenda.take(now) {
            due.extend(self.get(&pod).map(|departure| (departure.facts.since, pod)));
        }
        due.sort();
        due.into_iter().map(|(_, pod)| pod).collect()
    }

    /// The next step of a pod.
    pub fn next(&mut self, pod: &ObjectKey, case: &Case, limits: &Limits) -> Next {
        let Some(departure) = self.pods.get_mut(pod) else { return Next::Wait(None) };
        if case.is_gone
            && let Some(decision) = &mut departure.decision
        {
            decision.taken.get_or_insert(case.wall);
        }
        if case.is_back && departure.facts.deregistered.is_some() {
            departure.back.get_or_insert(case.now);
        }
        match departure.next(case, limits) {
            Next::Check if self.checks.waits(pod, departure.facts.since) => Next::Wait(None),
            Next::Wait(due) => {
                self.agenda.put(pod, due);
                Next::Wait(due)
            }
            next => next,
        }
    }

    /// A request about a pod begins: to write `mark`, or a check. Gives the life of the pod that is meant.
    pub fn begin(&mut self, pod: &ObjectKey, id: RequestId, mark: Option<Mark>) -> Option<Uid> {
        let departure = self.pods.get_mut(pod)?;
        departure.busy = Some((id, mark));
        if mark.is_none() {
            self.checks.begin(pod, id);
        }
        let (uid, since, early) = (departure.uid.clone(), departure.facts.since, departure.facts.early);
        let why = departure.failing.as_ref().map(|(_, why)| why.clone()).unwrap_or_default();
        self.open.insert(id, Open { pod: pod.clone(), uid: uid.clone(), mark, since, early, why });
        Some(uid)
    }

    /// A request is answered: this one. `None`: another one, or one of an earlier term.
    pub fn answered(&mut self, id: RequestId, now: Moment) -> Option<Open> {
        let open = self.open.remove(&id)?;
        if open.mark.is_none() {
            self.checks.end(&open.pod, id);
        }
        self.touch(Touched::Pod(&open.pod), now);
        Some(open)
    }

    fn departure_of(&mut self, open: &Open) -> Option<&mut Departure> {
        self.pods.get_mut(&open.pod).filter(|departure| departure.uid == open.uid)
    }

    /// This was written, or could not be.
    pub fn marked(
        &mut self,
        open: Open,
        mark: Mark,
        result: Result<(), Failure>,
        (now, wall): (Moment, WallTime),
    ) -> Option<Outcome> {
        let departure = self.departure_of(&open);
        let Err(failure) = result else {
            if let Some(departure) = departure {
                departure.written(mark, now, wall);
            }
            return match mark {
                Mark::MayGo { reason, .. } if !open.early => Some(open.tells(reason, wall)),
                Mark::Undone => Some(open.tells(Reason::EvictionGivenUp, wall)),
                Mark::Disbelieved => Some(open.tells(Reason::LeavingNotCredible, wall)),
                _ => None,
            };
        };
        let departure = departure?;
        (departure.busy, departure.again) = (None, now + AGAIN);
        let is_new = failure.is_lasting() && departure.told.insert(Reason::LeavingNotRecorded);
        is_new.then(|| Open { why: failure.message, ..open }.tells(Reason::LeavingNotRecorded, wall))
    }

    /// What the API server says of the budgets of a pod, which `is_ready`, or not.
    pub fn checked(
        &mut self,
        open: Open,
        result: Result<Checked, Failure>,
        is_ready: bool,
        limits: &Limits,
        (now, wall): (Moment, WallTime),
    ) -> Option<Outcome> {
        let departure = self.departure_of(&open)?;
        departure.busy = None;
        let (reason, why) = match result.map(|checked| refusal(checked, is_ready)) {
            Ok(Some(refusal)) => refusal,
            Ok(None) => {
                (departure.failing, departure.waits) = (None, None);
                return Some(Outcome::Leaves { pod: open.pod, node: None });
            }
            Err(failure) => {
                departure.again = now + AGAIN;
                if failure.class != FailureClass::Gone {
                    let since = departure.failing.as_ref().map_or(now, |(since, _)| *since);
                    departure.failing = Some((since, failure.message));
                }
                return None;
            }
        };
        departure.failing = None;
        let written = |(at, is): (WallTime, Reason)| is == reason && wall.since(at) < limits.refresh();
        departure.waits = (!departure.facts.waits.is_some_and(written)).then_some(reason);
        departure.again = if departure.waits.is_some() { now } else { now + AGAIN };
        let long = departure.is_asked() && wall.since(departure.facts.since) >= limits.patience;
        let tells = long && departure.told.insert(reason);
        tells.then(|| Open { why, ..open }.tells(reason, wall))
    }
}

/// Why a pod may not be evicted for now, and in which words.
fn refusal(Checked { refused, budgets }: Checked, is_ready: bool) -> Option<(Reason, Box<str>)> {
    if let Some(why) = refused {
        return Some((Reason::EvictionWaitsForBudget, why));
    }
    // A pod that is not ready takes nothing of a budget, as Kubernetes sees it.
    let full = budgets.iter().find(|budget| is_ready && budget.allowed <= budget.departing);
    let Budget { name, allowed, departing } = full?;
    let why = format!(
        "PodDisruptionBudget {name} allows {allowed}, and {departing} of its pods are on their way out"
    );
    Some((Reason::EvictionWaitsForDeparture, why.into()))
}

impl Open {
    fn tells(self, reason: Reason, wall: WallTime) -> Outcome {
        let passes = matches!(self.mark, Some(Mark::MayGo { .. })) && reason != Reason::LeavingNotRecorded;
        let Self { pod, uid, why, since, .. } = self;
        Outcome::Tells { pod, uid, reason, why, after: wall.since(since), passes }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::departure::Decision, *};
    use crate::{
        model::LeavingFacts,
        testing::{arn, pod},
    };

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

    /// Pods that are asked to leave, each a second later than the one before, and have been looked at.
    fn asked(names: &[&str]) -> (Departures, Vec<ObjectKey>) {
        let (mut departures, mut keys) = (Departures::default(), Vec::new());
        for (name, at) in names.iter().zip(1..) {
            let leaving = LeavingFacts::asked(wall(at), wall(at));
            let last = u8::try_from(at).unwrap();
            let facts = pod(name, name).at(last).leaving(leaving).build();
            departures.saw(&facts, case(9).now, wall(9));
            keys.push(facts.key);
        }
        assert_eq!(departures.take_due(case(9).now), keys, "who was asked first goes first");
        (departures, keys)
    }

    fn concerns(groups: &[&str], is_backed: bool) -> Concerns {
        Concerns { groups: groups.iter().map(|name| arn(name)).collect(), is_backed }
    }

    fn decide(departures: &mut Departures, pod: &ObjectKey, now: Moment) {
        let decision = Decision { since: now, targets: Vec::new(), bound: BOUND, taken: None };
        departures.get_mut(pod).unwrap().decision = Some(decision);
    }

    /// The write of a mark begins and ends.
    fn written(departures: &mut Departures, pod: &ObjectKey, id: u64, mark: Mark, at: u64) {
        assert!(departures.begin(pod, RequestId(id), Some(mark)).is_some());
        answered(departures, id, at);
    }

    fn answered(departures: &mut Departures, id: u64, at: u64) {
        let Case { now, wall, .. } = case(at);
        let open = departures.answered(RequestId(id), now).unwrap();
        let mark = open.mark.unwrap();
        assert_eq!(departures.marked(open, mark, Ok(()), (now, wall)), None);
    }

    #[test]
    fn what_happens_in_a_group_is_looked_at_by_those_that_have_to_do_with_it() {
        let (mut departures, pods) = asked(&["a", "b", "c"]);
        departures.concern(&pods[0], concerns(&["g"], false));
        departures.concern(&pods[1], concerns(&["h"], false));
        let now = case(10).now;
        departures.touch(Touched::Group(&arn("g")), now);
        assert_eq!(departures.take_due(now), [pods[0].clone()]);
        departures.concern(&pods[0], concerns(&["h"], false));
        departures.touch(Touched::Group(&arn("g")), now);
        assert_eq!(departures.next_due(), None);
        departures.touch(Touched::Group(&arn("h")), now);
        assert_eq!(departures.take_due(now), pods[..2]);
        departures.forget(&pods[0]);
        departures.touch(Touched::All, now);
        assert_eq!(departures.take_due(now), pods[1..]);
    }

    #[test]
    fn those_that_wait_for_a_check_have_their_turn_also_if_the_first_of_them_does_not_check_after_all() {
        let (mut departures, pods) = asked(&["a", "b", "c", "d"]);
        let limits = Limits { given_up_after: Duration::from_secs(900), ..Limits::default() };
        let check = |departures: &mut Departures, pod: &ObjectKey, id| {
            assert_eq!(departures.next(pod, &case(10), &limits), Next::Check);
            assert!(departures.begin(pod, RequestId(id), None).is_some());
        };
        let checks = |departures: &mut Departures, id, result, at| {
            let Case { now, wall, .. } = case(at);
            let open = departures.answered(RequestId(id), now).unwrap();
            departures.checked(open, result, true, &limits, (now, wall))
        };
        check(&mut departures, &pods[0], 1);
        for pod in &pods[1..] {
            assert_eq!(departures.next(pod, &case(10), &limits), Next::Wait(None));
        }
        assert_eq!(departures.next_due(), None);
        let checked = Ok(Checked { refused: None, budgets: Vec::new() });
        let checked = checks(&mut departures, 1, checked, 11);
        assert_eq!(checked, Some(Outcome::Leaves { pod: pods[0].clone(), node: None }));
        let now = case(11).now;
        assert_eq!(departures.take_due(now), pods[..2]);
        let is_none = Case { is_target: false, ..case(11) };
        assert!(matches!(departures.next(&pods[1], &is_none, &limits), Next::Mark(Mark::MayGo { .. })));
        assert_eq!(departures.take_due(now), [pods[2].clone()]);
        check(&mut departures, &pods[2], 2);
        assert_eq!(departures.take_due(now), [], "one at a time");
        departures.forget(&pods[3]);
        let failed = Err(Failure::new(FailureClass::Unavailable, "Timeout", "late"));
        assert_eq!(checks(&mut departures, 2, failed, 12), None);
        assert_eq!(departures.take_due(case(12).now), [pods[2].clone()]);
    }

    #[test]
    fn another_one_has_its_turn_when_the_first_is_gone_or_its_node_goes() {
        let (mut departures, pods) = asked(&["a", "b", "c"]);
        for pod in &pods[..2] {
            departures.concern(pod, concerns(&["g"], false));
        }
        departures.concern(&pods[2], concerns(&["h"], false));
        let waits = |departures: &Departures| {
            pods.iter().map(|pod| departures.waits_for_turn(pod)).collect::<Vec<_>>()
        };
        assert_eq!(waits(&departures), [false; 3]);
        decide(&mut departures, &pods[0], case(10).now);
        departures.concern(&pods[0], concerns(&["g"], false));
        assert_eq!(waits(&departures), [false, true, false]);
        departures.concern(&pods[0], concerns(&["g"], true));
        assert_eq!(waits(&departures), [false; 3], "its node takes no pods");
        departures.concern(&pods[0], concerns(&["g", "h"], false));
        assert_eq!(waits(&departures), [false, true, true]);
        departures.forget(&pods[0]);
        assert_eq!(waits(&departures), [false; 3]);
        assert!(departures.turns.is_empty() && departures.by_group.len() == 2);
    }

    #[test]
    fn what_aws_has_again_while_that_it_is_out_is_being_written_is_waited_for() {
        let limits = Limits { given_up_after: Duration::from_secs(900), ..Limits::default() };
        let mut departures = Departures::default();
        let facts = pod("web", "u-1").at(1).leaving(LeavingFacts::asked(wall(1), wall(1))).build();
        let key = facts.key.clone();
        departures.saw(&facts, case(1).now, wall(1));
        decide(&mut departures, &key, case(1).now);
        let out = |at| Next::Mark(Mark::Deregistered { at: wall(at), bound: BOUND });
        assert_eq!(departures.next(&key, &case(2), &limits), out(2));
        let mark = Mark::Deregistered { at: wall(2), bound: BOUND };
        assert!(departures.begin(&key, RequestId(1), Some(mark)).is_some());
        // A call of a leader before has landed, was seen, and is undone.
        departures.touch(Touched::Removal(&key), case(3).now);
        answered(&mut departures, 1, 4);
        assert_eq!(departures.next(&key, &case(9), &limits), out(9), "and the bound counts from then");
        written(&mut departures, &key, 2, Mark::Deregistered { at: wall(9), bound: BOUND }, 10);
        assert!(matches!(departures.next(&key, &case(2 + 120), &limits), Next::Wait(_)));
        let go = Next::Mark(Mark::MayGo { at: wall(9 + 120), reason: Reason::EvictionAllowed });
        assert_eq!(departures.next(&key, &case(9 + 120), &limits), go);
    }

    #[test]
    fn for_whom_nobody_asks_waits_for_aws_as_long_as_it_takes_and_is_looked_at_now_and_then() {
        let limits = Limits::default();
        let asked = LeavingFacts { early: true, ..LeavingFacts::asked(wall(1), wall(1)) };
        let out = LeavingFacts { deregistered: Some((wall(2), BOUND)), ..asked };
        let mut departures = Departures::default();
        let facts = pod("web", "u-1").at(1).leaving(out).build();
        departures.saw(&facts, case(3).now, wall(3));
        for at in [4, 300] {
            let case = Case { is_back: true, node_goes: true, ..case(at) };
            let Next::Wait(Some(due)) = departures.next(&facts.key, &case, &limits) else { panic!() };
            assert!(due > case.now, "{due:?} at {at}");
        }
    }

    #[test]
    fn only_what_is_out_is_back() {
        let limits = Limits::default();
        let asked = LeavingFacts::asked(wall(1), wall(1));
        let out = LeavingFacts { deregistered: Some((wall(2), BOUND)), ..asked };
        for (leaving, is_back) in [(out, true), (asked, false)] {
            let mut departures = Departures::default();
            let facts = pod("web", "u-1").at(1).leaving(leaving).build();
            departures.saw(&facts, case(3).now, wall(3));
            departures.touch(Touched::Removal(&facts.key), case(3).now);
            let case = Case { is_gone: false, ..case(4) };
            let next = departures.next(&facts.key, &case, &limits);
            let anew = Next::Mark(Mark::Deregistered { at: wall(4), bound: BOUND });
            assert_eq!(next == anew, is_back, "{leaving:?}: {next:?}");
        }
    }
}
