//! All pods that are asked to leave, and the requests about them that are under way.

use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    net::IpAddr,
    sync::Arc,
    time::Duration,
};

use super::{
    Limits,
    departure::{AGAIN, Case, Concerns, Decision, Departure, Next},
};
use crate::model::{
    Failure, FailureClass, Labels, LeavingFacts, Moment, ObjectKey, PodFacts, Reason, RequestId, Target,
    TargetGroupArn, Uid, WallTime, leaving::Mark,
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
    Leaves {
        /// The pod.
        pod: ObjectKey,
        /// Whether nobody has asked for its eviction.
        early: bool,
    },
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

/// What has happened.
#[derive(Clone, Copy, Debug)]
pub enum Touched<'a> {
    /// Something about this pod.
    Pod(&'a ObjectKey),
    /// Something about this target group.
    Group(&'a TargetGroupArn),
    /// What binds the pods of this namespace was decided anew.
    Namespace(&'a str),
    /// Something that may matter to any: nodes, or which namespaces are selected.
    All,
}

/// All pods that are asked to leave. See the module above.
///
/// Each is looked at when something happens to it, to a target group of its, or when its time has come; so what happens
/// costs what those cost that it concerns.
#[derive(Debug, Default)]
pub struct Departures {
    pods: BTreeMap<ObjectKey, Departure>,
    requests: BTreeMap<RequestId, Request>,
    /// When each is looked at next.
    agenda: BTreeSet<(Moment, ObjectKey)>,
    by_group: BTreeMap<TargetGroupArn, BTreeSet<ObjectKey>>,
    by_ip: BTreeMap<IpAddr, BTreeSet<ObjectKey>>,
    /// Those that were taken out on the word of a request alone, by target group: another one waits for its turn.
    turns: BTreeMap<TargetGroupArn, BTreeSet<ObjectKey>>,
    /// Where a check is under way.
    checking: BTreeMap<Arc<str>, RequestId>,
    /// Those that wait for it to end, who was asked first before the others; and where one has ended.
    queues: BTreeMap<Arc<str>, BTreeSet<(WallTime, ObjectKey)>>,
    free: BTreeSet<Arc<str>>,
}

fn put<K: Ord + Clone>(index: &mut BTreeMap<K, BTreeSet<ObjectKey>>, key: &K, pod: &ObjectKey) {
    index.entry(key.clone()).or_default().insert(pod.clone());
}

fn take<K: Ord>(index: &mut BTreeMap<K, BTreeSet<ObjectKey>>, key: &K, pod: &ObjectKey) {
    if let Some(pods) = index.get_mut(key) {
        pods.remove(pod);
        if pods.is_empty() {
            index.remove(key);
        }
    }
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
        let credible = facts.credible(wall);
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
        let ips = std::mem::replace(&mut departure.ips, pod.ips.clone());
        for ip in &ips {
            take(&mut self.by_ip, ip, &pod.key);
        }
        for ip in &pod.ips {
            put(&mut self.by_ip, ip, &pod.key);
        }
        self.touch(Touched::Pod(&pod.key), now);
    }

    /// The pod is gone, or does not leave any more.
    pub fn forget(&mut self, pod: &ObjectKey) {
        self.concern(pod, Concerns::default());
        self.put_off(pod, None);
        let Some(departure) = self.pods.remove(pod) else { return };
        for ip in &departure.ips {
            take(&mut self.by_ip, ip, pod);
        }
        if let Some(queue) = self.queues.get_mut(&pod.namespace) {
            queue.retain(|(_, waits)| waits != pod);
        }
    }

    /// When a pod is looked at next.
    fn put_off(&mut self, pod: &ObjectKey, due: Option<Moment>) {
        let Some(departure) = self.pods.get_mut(pod) else { return };
        if let Some(due) = std::mem::replace(&mut departure.due, due) {
            self.agenda.remove(&(due, pod.clone()));
        }
        if let Some(due) = due {
            self.agenda.insert((due, pod.clone()));
        }
    }

    /// What a pod has to do with, as it stands now.
    pub fn concern(&mut self, pod: &ObjectKey, concerns: Concerns) {
        let Some(departure) = self.pods.get_mut(pod) else { return };
        let before = std::mem::replace(&mut departure.concerns, concerns);
        let takes = departure.is_taken_out_at_a_word();
        let took = std::mem::replace(&mut departure.is_taken_at_a_word, takes);
        let after = &departure.concerns;
        if before.groups != after.groups {
            for arn in before.groups.difference(&after.groups) {
                take(&mut self.by_group, arn, pod);
            }
            for arn in after.groups.difference(&before.groups) {
                put(&mut self.by_group, arn, pod);
            }
        }
        if took {
            for arn in &before.groups {
                take(&mut self.turns, arn, pod);
            }
        }
        if takes {
            for arn in &after.groups {
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
        !self.turns.is_empty() && !departure.facts.early && !is_backed && groups.iter().any(is_anothers)
    }

    /// Forgets the pods that are not there any more: this one, or all.
    pub fn keep(&mut self, one: Option<&ObjectKey>, is_there: impl Fn(&ObjectKey, &Uid) -> bool) {
        match one {
            Some(pod) if self.pods.get(pod).is_some_and(|departure| !is_there(pod, &departure.uid)) => {
                self.forget(pod);
            }
            Some(_) => {}
            None => {
                let gone = self.pods.iter().filter(|(pod, departure)| !is_there(pod, &departure.uid));
                for pod in gone.map(|(pod, _)| pod.clone()).collect::<Vec<_>>() {
                    self.forget(&pod);
                }
            }
        }
    }

    /// Another replica leads from now on, or may. Gives the pods whose removal was decided here and is not written down.
    pub fn stand_by(&mut self) -> Vec<ObjectKey> {
        self.requests.clear();
        self.checking.clear();
        self.queues.clear();
        self.free.clear();
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
        let pods: Vec<ObjectKey> = match touched {
            Touched::Pod(pod) => vec![pod.clone()],
            Touched::Group(arn) => self.by_group.get(arn).into_iter().flatten().cloned().collect(),
            Touched::Namespace(namespace) => self.within(namespace).map(|(pod, _)| pod.clone()).collect(),
            Touched::All => self.pods.keys().cloned().collect(),
        };
        for pod in pods {
            let due = self.pods.get(&pod).and_then(|departure| departure.due);
            if due.is_none_or(|due| due > now) {
                self.put_off(&pod, Some(now));
            }
        }
    }

    /// Those of a namespace.
    fn within(&self, namespace: &str) -> impl Iterator<Item = (&ObjectKey, &Departure)> {
        let all = self.pods.range(ObjectKey::new(namespace, "")..);
        all.take_while(move |(pod, _)| &*pod.namespace == namespace)
    }

    /// When something is to be done.
    pub fn next_due(&self) -> Option<Moment> {
        self.agenda.first().map(|(due, _)| *due)
    }

    /// Those that are looked at now: who was asked first goes first.
    pub fn take_due(&mut self, now: Moment) -> Vec<ObjectKey> {
        for namespace in std::mem::take(&mut self.free) {
            if self.checking.contains_key(&namespace) {
                continue;
            }
            // If that one does not check after all, the next one may.
            if let Some((_, pod)) = self.queues.get_mut(&namespace).and_then(BTreeSet::pop_first) {
                self.touch(Touched::Pod(&pod), now);
                self.free.insert(namespace);
            } else {
                self.queues.remove(&namespace);
            }
        }
        let mut due = Vec::new();
        while let Some((at, pod)) = self.agenda.first().cloned()
            && at <= now
        {
            self.put_off(&pod, None);
            due.extend(self.since(&pod).map(|since| (since, pod)));
        }
        due.sort();
        due.into_iter().map(|(_, pod)| pod).collect()
    }

    /// The next step of a pod. A check waits while another one of its namespace is under way: two that are answered side
    /// by side would both be allowed.
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
        let (next, since) = (departure.next(case, limits), departure.facts.since);
        match next {
            Next::Check if self.checking.contains_key(&pod.namespace) => {
                self.queues.entry(pod.namespace.clone()).or_default().insert((since, pod.clone()));
                Next::Wait(None)
            }
            Next::Wait(due) => {
                self.put_off(pod, due);
                Next::Wait(due)
            }
            next => next,
        }
    }

    /// The targets whose removal was decided.
    pub fn decided(&self, pod: &ObjectKey) -> Option<&Decision> {
        self.pods.get(pod)?.decision.as_ref()
    }

    /// The labels of the pods of a namespace that are on their way out.
    pub fn departing(&self, namespace: &str, limits: &Limits, wall: WallTime) -> Vec<Labels> {
        let here = self.within(namespace);
        here.filter(|(_, departure)| departure.departs(limits, wall))
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

    /// Whether it is still to be decided that a pod leaves.
    pub fn is_undecided(&self, pod: &ObjectKey) -> bool {
        let undecided =
            |it: &Departure| !it.facts.held && it.decision.is_none() && it.facts.deregistered.is_none();
        self.pods.get(pod).is_some_and(undecided)
    }

    /// Whether a pod leaves only if its zones allow it: it neither was taken out yet nor has been let go.
    pub fn asks_zones(&self, pod: &ObjectKey) -> bool {
        let asks = |it: &Departure| {
            it.decision.is_none() && it.facts.deregistered.is_none() && it.facts.let_go().is_none()
        };
        self.pods.get(pod).is_some_and(asks)
    }

    /// Since when a pod is asked to leave.
    pub fn since(&self, pod: &ObjectKey) -> Option<WallTime> {
        Some(self.pods.get(pod)?.facts.since)
    }

    /// A request about a pod begins: to write `mark`, or a check.
    pub fn begin(&mut self, pod: &ObjectKey, id: RequestId, mark: Option<Mark>) -> Option<(Uid, Labels)> {
        let departure = self.pods.get_mut(pod)?;
        departure.busy = Some((id, mark));
        if mark.is_none() {
            self.checking.insert(pod.namespace.clone(), id);
        }
        let (uid, since, early) = (departure.uid.clone(), departure.facts.since, departure.facts.early);
        let why = departure.failing.as_ref().map(|(_, why)| why.clone()).unwrap_or_default();
        self.requests.insert(id, Request { pod: pod.clone(), uid, mark, since, early, why });
        Some((departure.uid.clone(), departure.labels.clone()))
    }

    /// Something was written, or could not be. Gives what the user should be told.
    pub fn marked(&mut self, id: RequestId, result: Result<(), Failure>, case: &Case) -> Option<Marked> {
        let Request { pod, uid, mark, since, early, why } = self.requests.remove(&id)?;
        let mark = mark?;
        self.touch(Touched::Pod(&pod), case.now);
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
        if self.checking.get(&pod.namespace) == Some(&id) {
            self.checking.remove(&pod.namespace);
            self.free.insert(pod.namespace.clone());
        }
        self.touch(Touched::Pod(&pod), case.now);
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
                        let early = departure.facts.early;
                        return Some(Verdict::Leaves { pod, early });
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
        for pod in self.by_ip.get(ip).cloned().unwrap_or_default() {
            if let Some(departure) = self.pods.get_mut(&pod).filter(|it| is_out(it)) {
                departure.back.get_or_insert(now);
                self.touch(Touched::Pod(&pod), now);
            }
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

    fn group(name: &str) -> TargetGroupArn {
        crate::testing::arn(name)
    }

    fn concerns(groups: &[&str], is_backed: bool) -> Concerns {
        Concerns { groups: groups.iter().map(|name| group(name)).collect(), is_backed }
    }

    #[test]
    fn what_happens_in_a_group_is_looked_at_by_those_that_have_to_do_with_it() {
        let (mut departures, pods) = asked(&["a", "b", "c"]);
        departures.concern(&pods[0], concerns(&["g"], false));
        departures.concern(&pods[1], concerns(&["h"], false));
        let now = case(10).now;
        departures.touch(Touched::Group(&group("g")), now);
        assert_eq!(departures.take_due(now), [pods[0].clone()]);
        departures.concern(&pods[0], concerns(&["h"], false));
        departures.touch(Touched::Group(&group("g")), now);
        assert_eq!(departures.next_due(), None);
        departures.touch(Touched::Group(&group("h")), now);
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
        check(&mut departures, &pods[0], 1);
        for pod in &pods[1..] {
            assert_eq!(departures.next(pod, &case(10), &limits), Next::Wait(None));
        }
        assert_eq!(departures.next_due(), None);
        let checked = Ok(Checked { refused: None, budgets: Vec::new() });
        let verdict = departures.checked(RequestId(1), checked, |_| true, &limits, &case(11));
        assert_eq!(verdict, Some(Verdict::Leaves { pod: pods[0].clone(), early: false }));
        let now = case(11).now;
        assert_eq!(departures.take_due(now), pods[..2]);
        let is_none = Case { is_target: false, ..case(11) };
        assert!(matches!(departures.next(&pods[1], &is_none, &limits), Next::Mark(Mark::MayGo { .. })));
        assert_eq!(departures.take_due(now), [pods[2].clone()]);
        check(&mut departures, &pods[2], 2);
        assert_eq!(departures.take_due(now), [], "one at a time");
        departures.forget(&pods[3]);
        let failed = Err(Failure::new(FailureClass::Unavailable, "Timeout", "late"));
        assert_eq!(departures.checked(RequestId(2), failed, |_| true, &limits, &case(12)), None);
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
        departures.decide(&pods[0], Vec::new(), BOUND, case(10).now);
        departures.concern(&pods[0], concerns(&["g"], false));
        assert_eq!(waits(&departures), [false, true, false]);
        departures.concern(&pods[0], concerns(&["g"], true));
        assert_eq!(waits(&departures), [false; 3], "its node takes no pods");
        departures.concern(&pods[0], concerns(&["g", "h"], false));
        assert_eq!(waits(&departures), [false, true, true]);
        departures.forget(&pods[0]);
        assert_eq!(waits(&departures), [false; 3]);
        assert!(departures.turns.is_empty() && departures.by_ip.len() == 2 && departures.by_group.len() == 2);
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
