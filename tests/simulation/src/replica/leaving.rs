//! What must hold of pods that leave while they live: of each word of the leader about one, and of each eviction.

use std::{collections::BTreeMap, net::IpAddr, time::Duration};

use super::{Around, Replica, seen::AllSeen};
use crate::{oracle::Places, oracle::Selecting, oracle::Told, words::APPLICATION};
use headgate_core::{
    Settings,
    engine::Input,
    ledger::PodMark,
    model::{
        Bounds, Cause, Failure, FailureClass, Labels, LeavingFacts, Moment, ObjectKey, RequestId, Target,
        TargetGroupArn, Uid, WallTime,
        eviction::{Check, Checked, Limits, MarkWrite},
        leaving::{Asked, Mark},
        view::Apart,
    },
    requests::Answer,
};

/// The clocks of the replicas differ by less than this, where they are not wrong.
pub const SKEW: Duration = Duration::from_secs(2);

/// What a replica has asked about pods that leave, and was told.
#[derive(Debug)]
pub struct Leaving {
    limits: Limits,
    bounds: Bounds,
    started: WallTime,
    marks: BTreeMap<RequestId, MarkWrite>,
    checks: BTreeMap<RequestId, Check>,
    /// The check that has been answered in this very step, and how.
    answered: Option<(Check, Result<Checked, Failure>)>,
    /// Since when each pod cannot be checked.
    failing: BTreeMap<Uid, Moment>,
    /// When each pod was seen to be in the way of its own eviction: since when its removal is waited for.
    taken_out: BTreeMap<Uid, Moment>,
    /// Since when each pod was said to be out last.
    said_out: BTreeMap<Uid, WallTime>,
    /// Where the pods were targets before this step.
    before: Places,
    /// Whether the clocks of replicas differ by more than [`SKEW`]: then what is written cannot be held against them.
    clocks_are_wrong: bool,
    /// Since when this replica sees what is written on each pod.
    seen: AllSeen,
}

impl Leaving {
    pub fn new(settings: &Settings, clocks_are_wrong: bool) -> Self {
        Self {
            limits: settings.leaving,
            bounds: settings.bounds,
            started: settings.started,
            marks: BTreeMap::new(),
            checks: BTreeMap::new(),
            answered: None,
            failing: BTreeMap::new(),
            taken_out: BTreeMap::new(),
            said_out: BTreeMap::new(),
            before: BTreeMap::new(),
            clocks_are_wrong,
            seen: AllSeen::default(),
        }
    }

    fn wall(&self, now: Moment) -> WallTime {
        self.started + now.elapsed()
    }

    pub fn stands_by(&mut self) {
        self.marks.clear();
        self.checks.clear();
        self.failing.clear();
        self.taken_out.clear();
    }
}

fn app(labels: &Labels) -> &str {
    labels.get("app").unwrap_or_default()
}

/// What a leader writes is seen so long after that.
const SHOWN: Duration = Duration::from_secs(2);

impl Replica {
    /// Whether it leads, and has done so for as long as a leader may be silent about an eviction, and its word has been seen.
    pub fn has_had_its_say(&self, now: Moment) -> bool {
        let silent = self.leaving.limits.patience + SHOWN;
        self.may_write(now) && self.loaded.is_some_and(|loaded| now.since(loaded) >= silent)
    }

    /// Before a step.
    pub fn note_places(&mut self, input: &Input, now: Moment) {
        let leaving = &mut self.leaving;
        leaving.before = self.oracle.places();
        leaving.seen.told(input, now);
        if let Input::Clock(wall) = input {
            leaving.started = *wall - now.elapsed();
        }
        leaving.answered = match input {
            Input::Answered { id, result } => {
                leaving.marks.remove(id);
                let check = leaving.checks.remove(id);
                match (&check, result) {
                    (Some(check), Ok(_)) => _ = leaving.failing.remove(&check.uid),
                    (Some(check), Err(failure)) if failure.class != FailureClass::Gone => {
                        leaving.failing.entry(check.uid.clone()).or_insert(now);
                    }
                    _ => {}
                }
                let said = match result {
                    Ok(Answer::Checked(checked)) => Some(Ok(checked.clone())),
                    Ok(_) => None,
                    Err(failure) => Some(Err(failure.clone())),
                };
                check.zip(said)
            }
            _ => None,
        };
    }

    /// What its clock showed when the world began, for all that it knows.
    pub const fn started(&self) -> WallTime {
        self.leaving.started
    }

    /// When it saw that a pod was asked to leave as it was last.
    pub fn saw_asked(&self, uid: &Uid) -> Option<Moment> {
        self.leaving.seen.get(uid).map(|seen| seen.asked.1)
    }

    /// Whether every watch has listed, and it has heard of no target group yet.
    pub fn is_cold(&self) -> bool {
        self.runs() && self.oracle.has_seen_all() && self.looked_up.is_empty()
    }

    /// Whether a pod is on its way out already, beyond doubt.
    fn departs(&self, pod: &Told, now: Moment) -> bool {
        let wall = self.leaving.wall(now);
        let asked = self.leaving.seen.ago(&pod.facts.uid, |seen| seen.asked, now);
        let is_asked =
            |facts: &LeavingFacts| facts.ask.early || asked + SKEW < self.leaving.limits.given_up_after;
        let leaving = pod.facts.leaving.as_deref().and_then(|facts| facts.credible(wall));
        let leaving = leaving.filter(is_asked);
        let is_let_go = |mark: &MarkWrite| {
            mark.uid == pod.facts.uid && matches!(mark.mark, Mark::MayGo { .. }) && leaving.is_some()
        };
        let written = leaving.is_some_and(|facts| facts.is_out() || facts.let_go().is_some());
        let decided = leaving.is_some() && self.oracle.apart_of(&pod.facts.key).decided;
        !pod.facts.terminating
            && !pod.facts.finished
            && (written || decided || self.leaving.marks.values().any(is_let_go))
    }

    /// A step is over: which pods leave now that did not before it, and whether they may.
    pub fn check_departures(&mut self, around: &Around<'_>) -> Result<(), String> {
        let before = std::mem::take(&mut self.leaving.before);
        let apart = self.engine.apart();
        let new = |is: &dyn Fn(&Apart) -> bool| -> Vec<ObjectKey> {
            let was = |pod: &ObjectKey| is(&self.oracle.apart_of(pod));
            let now = apart.iter().filter(|(pod, apart)| is(apart) && !was(pod));
            now.map(|(pod, _)| pod.clone()).collect()
        };
        let (decided, let_go) = (new(&|apart| apart.decided), new(&|apart| apart.let_go));
        for pod in new(&|apart| apart.node_goes) {
            self.check_stays_out(&pod, around)?;
        }
        if let Some((pod, _)) = apart.iter().find(|(pod, apart)| {
            let lives = self.oracle.told_pod(pod).is_some_and(Told::lives);
            apart.decided && !self.leads && lives
        }) {
            return Err(format!("a replica that does not lead has decided that {} leaves", pod.name));
        }
        for pod in decided {
            self.check_decision(&pod, &before, around)?;
            let told = self.oracle.told_pod(&pod);
            let is_early =
                |told: &Told| told.facts.leaving.as_deref().is_some_and(|leaving| leaving.ask.early);
            if told.is_some_and(|told| is_early(told) && self.oracle.is_passed_over(told)) {
                self.oracle.sees("pod: leaves early, since nobody evicts it");
            }
        }
        // Another one may have come to be wanted just now, of which AWS has the target still.
        let mut places = before;
        let now = if let_go.is_empty() { Places::new() } else { self.oracle.places() };
        for (place, (target, uid)) in now {
            if around.aws.has(&place.0.group, &target) {
                places.entry(place).or_insert((target, uid));
            }
        }
        for pod in let_go.iter().filter(|_| self.may_write(around.now) && self.loaded.is_some()) {
            let Some(told) = self.oracle.told_pod(pod) else { continue };
            let departs = |other: &Told| self.departs(other, around.now);
            let over =
                told.lost_since().is_some_and(|since| around.now >= since + self.leaving.limits.patience);
            if !over && self.oracle.is_last_of_a_zone(told, &places, self.told.shown(), departs, true) {
                return Err(format!(
                    "{} is let go, not ready, and is the last healthy one of its zone",
                    pod.name
                ));
            }
        }
        self.oracle.hears(apart)
    }

    /// A pod that starts on a node that is to be drained is not registered there.
    fn check_stays_out(&mut self, pod: &ObjectKey, around: &Around<'_>) -> Result<(), String> {
        let name = &pod.name;
        let Some(told) =
            self.oracle.told_pod(pod).filter(|told| told.lives() && !self.oracle.node_dies(told))
        else {
            return Ok(());
        };
        if !self.leads || self.loaded.is_none() || told.ip_since != around.now {
            return Err(format!("{name} is kept out for its node, and has been there, or nobody leads"));
        }
        if !self.oracle.is_passed_over(told) || !self.oracle.is_its_turn(told) {
            return Err(format!("{name} is kept out for its node, whose turn has not come"));
        }
        if let Some(group) = self.oracle.too_many_leave(told, |other| self.is_out_early(other)) {
            return Err(format!("{name} is kept out, and too many of {} leave early", group.name()));
        }
        let mut its = around.history.registered_for.iter().filter(|(_, uid)| **uid == told.facts.uid);
        // What a late call has brought back nobody could know of, nor what another leader has done meanwhile.
        if let Some(((arn, target), _)) = its.find(|((arn, target), _)| {
            self.may_write(around.now)
                && self.oracle.would_have(told, arn, target)
                && around.aws.sends_to(arn, target, Duration::ZERO, around.now).is_some()
        }) {
            return Err(format!("{name} is kept out, and is {target} of {}", arn.name()));
        }
        self.oracle.sees("pod: starts on a node that is to be drained, and is kept out");
        Ok(())
    }

    /// Whether a pod is out, or as good as, before anybody has asked for its eviction.
    fn is_out_early(&self, pod: &Told) -> bool {
        let apart = self.oracle.apart_of(&pod.facts.key);
        let leaving = pod.facts.leaving.as_deref().filter(|leaving| leaving.ask.early);
        let is_out = leaving.is_some_and(|leaving| apart.decided || leaving.is_out());
        is_out || (apart.node_goes && !self.oracle.node_dies(pod))
    }

    /// The leader takes a pod out.
    fn check_decision(
        &mut self,
        pod: &ObjectKey,
        before: &Places,
        around: &Around<'_>,
    ) -> Result<(), String> {
        let name = &pod.name;
        if !self.leads || self.loaded.is_none() || !self.oracle.has_seen_all() {
            return Err(format!("it is decided that {name} leaves, and not all is known"));
        }
        let Some(told) = self.oracle.told_pod(pod) else {
            return Err(format!("it is decided that {name} leaves, and there is no such pod"));
        };
        let Some(facts) = told.facts.leaving.as_deref() else {
            return Err(format!("it is decided that {name} leaves, and nobody has asked"));
        };
        let now = around.now;
        self.leaving.taken_out.insert(told.facts.uid.clone(), now);
        let Some((_, Ok(checked))) = self.leaving.answered.as_ref().filter(|(check, _)| check.pod == *pod)
        else {
            return Err(format!("it is decided that {name} leaves, and its budgets were not asked"));
        };
        if checked.refused.is_some() {
            return Err(format!("it is decided that {name} leaves, and a budget refuses it"));
        }
        if let Some(budget) =
            checked.budgets.iter().find(|budget| budget.allowed <= budget.departing && told.facts.is_ready())
        {
            return Err(format!(
                "{name} leaves, a budget allows {}, and {} leave",
                budget.allowed, budget.departing
            ));
        }
        let departs = |other: &Told| self.departs(other, now);
        let waited = self.leaving.seen.ago(&told.facts.uid, |seen| seen.since, now);
        let over = waited + SKEW >= self.leaving.limits.patience;
        if !over && self.oracle.is_last_of_a_zone(told, before, self.told.shown(), departs, false) {
            return Err(format!("{name} leaves, and is the last healthy one of its zone"));
        }
        let passed_over = facts.ask.early && self.oracle.is_passed_over(told);
        if told.facts.ending.sleeps > 0 && !passed_over && before.keys().any(|(_, other)| other == pod) {
            return Err(format!("{name} is taken out, and has its hold"));
        }
        if passed_over && let Some(group) = self.oracle.too_many_leave(told, |other| self.is_out_early(other))
        {
            return Err(format!("{name} leaves early, and too many of {} do", group.name()));
        }
        if facts.ask.early && self.oracle.is_last_healthy(told, before, self.told.shown(), departs) {
            return Err(format!("{name} leaves early, and is the last healthy one"));
        }
        Ok(())
    }

    /// It is asked what budgets say.
    pub fn check_question(
        &mut self,
        id: RequestId,
        check: &Check,
        around: &Around<'_>,
    ) -> Result<(), String> {
        let name = &check.pod.name;
        if !self.leads || self.loaded.is_none() || !self.oracle.has_seen_all() {
            return Err(format!("the budgets of {name} are asked for, and not all is known"));
        }
        if !self.leaving.checks.is_empty() {
            return Err(format!("the budgets of {name} are asked for beside those of another pod"));
        }
        let Some(told) = self.oracle.pod(&check.pod, &check.uid) else {
            return Err(format!("the budgets of {name} are asked for, and there is no such pod"));
        };
        let mine = |labels: &Labels| app(labels) == app(&told.facts.labels);
        let said = check.departing.iter().filter(|labels| mine(labels)).count();
        let departs = |other: &&Told| {
            other.facts.uid != check.uid && mine(&other.facts.labels) && self.departs(other, around.now)
        };
        let depart = self.oracle.all_pods().filter(departs).count();
        if said < depart {
            return Err(format!(
                "the budgets of {name} are asked for beside {said} departures, and there are {depart}"
            ));
        }
        self.leaving.checks.insert(id, check.clone());
        Ok(())
    }

    /// Something is written on a pod.
    pub fn check_mark(
        &mut self,
        id: RequestId,
        write: &MarkWrite,
        around: &mut Around<'_>,
    ) -> Result<(), String> {
        let (name, now) = (&write.pod.name, around.now);
        if !self.leads || self.loaded.is_none() || !self.oracle.has_seen_all() {
            return Err(format!("{:?} is written on {name}, and not all is known", write.mark));
        }
        let Some(told) = self.oracle.pod(&write.pod, &write.uid) else {
            return Err(format!("{:?} is written on {name}, and there is no such pod", write.mark));
        };
        let is_other = |other: &MarkWrite| other.uid == write.uid && !matches!(other.mark, Mark::Asked(_));
        if !matches!(write.mark, Mark::Asked(_)) && self.leaving.marks.values().any(is_other) {
            return Err(format!("{:?} is written on {name} beside another word", write.mark));
        }
        let wall = self.leaving.wall(now);
        let limits = self.leaving.limits;
        let Leaving { taken_out, .. } = &self.leaving;
        let facts = told.facts.leaving.as_deref();
        if facts.is_none() && !matches!(write.mark, Mark::Asked(_)) {
            return Err(format!("{:?} is written on {name}, and nobody has asked", write.mark));
        }
        let facts = facts.copied().unwrap_or(LeavingFacts::asked(wall, wall));
        let waited = self.leaving.seen.ago(&write.uid, |seen| seen.since, now);
        match write.mark {
            Mark::Asked(Asked { early, .. }) => {
                if !early || !self.oracle.node_goes(told) {
                    return Err(format!("{name} is asked to leave, and its node does not go"));
                }
                if self.oracle.is_passed_over(told) {
                    if !self.oracle.is_its_turn(told) {
                        return Err(format!("{name} is asked to leave early, and many nodes are marked"));
                    }
                    let leaves = |other: &Told| {
                        let leaving = other.facts.leaving.as_deref();
                        let is_asked = leaving.is_some_and(|leaving| leaving.ask.early);
                        (is_asked && self.oracle.is_passed_over(other)) || self.is_out_early(other)
                    };
                    if let Some(group) = self.oracle.too_many_leave(told, leaves) {
                        return Err(format!(
                            "{name} is asked to leave early, and too many of {} are",
                            group.name()
                        ));
                    }
                } else if told.facts.ending.sleeps > 0 {
                    return Err(format!("{name} is asked to leave early, and has its hold"));
                }
            }
            Mark::Waits { reason, .. } => around.coverage.cause(reason),
            Mark::Deregistered { at, .. } => {
                // A word that was written before is followed by a later one, whatever the clock shows by now.
                let said =
                    facts.deregistered.map(|(at, _)| at).max(self.leaving.said_out.get(&write.uid).copied());
                let noted =
                    said.map_or(facts.ask.begun, |at| facts.ask.begun.max(at + Duration::from_secs(1)));
                if at > wall.max(noted) + SKEW {
                    return Err(format!("{name} is said to be out in the future"));
                }
                self.leaving.said_out.insert(write.uid.clone(), at);
                // Has it got an address again, that is not seen yet: when it is, the same is written anew.
                let is_there = |arn: &_, target: &Target| {
                    let is_there = || around.aws.sends_to(arn, target, Duration::ZERO, now);
                    if told.has_lost(&target.ip) { None } else { is_there() }
                };
                if let Some(why) = self.sends_to(&write.uid, around, is_there) {
                    return Err(format!("{name} is said to be out, and is not: {why}"));
                }
            }
            Mark::MayGo { reason, .. } => {
                around.coverage.cause(reason);
                match reason {
                    Cause::EvictionAllowed => self.check_is_out(name, &write.uid, around)?,
                    Cause::DeregistrationTooSlow => {
                        let since = taken_out.get(&write.uid).copied().unwrap_or_default();
                        if waited + SKEW < limits.patience && now.since(since) < limits.patience {
                            return Err(format!("AWS is said to be too slow for {name} after {waited:?}"));
                        }
                    }
                    Cause::EvictionUncheckable => {
                        let since = self.leaving.failing.get(&write.uid);
                        if since.is_none_or(|since| now.since(*since) < limits.patience) {
                            return Err(format!("the budgets of {name} are said not to be known"));
                        }
                    }
                    Cause::NotATarget => {
                        let is_there =
                            |arn: &_, target: &_| around.aws.sends_to(arn, target, Duration::ZERO, now);
                        if let Some(why) = self.sends_to(&write.uid, around, is_there) {
                            return Err(format!("{name} is said to be no target, and is one: {why}"));
                        }
                        self.check_is_out(name, &write.uid, around)?;
                        self.check_nothing_is_looked_up(told, around)?;
                    }
                    _ => {
                        let departs = |other: &Told| self.departs(other, now);
                        let places = self.oracle.places();
                        if waited + SKEW < limits.patience
                            && self.oracle.is_last_of_a_zone(told, &places, self.told.shown(), departs, false)
                        {
                            return Err(format!("{name} is let go, and is the last healthy one of its zone"));
                        }
                    }
                }
            }
            Mark::Undone => {
                if self.leaving.seen.ago(&write.uid, |seen| seen.asked, now) + SKEW < limits.given_up_after
                    || self.oracle.node_is_closed(told)
                {
                    return Err(format!("the leaving of {name} is undone, and somebody asks for it"));
                }
            }
            Mark::Disbelieved => {
                if facts.credible(wall) == Some(facts) {
                    return Err(format!("what is written on {name} is taken away, and may be true"));
                }
            }
            Mark::Stays => {
                if !facts.ask.early || !self.oracle.node_stays(told) {
                    return Err(format!("{name} is said to stay with its node, which goes, or is unknown"));
                }
            }
        }
        self.leaving.marks.insert(id, write.clone());
        Ok(())
    }

    /// Why a load balancer may have something of a pod, by this.
    fn sends_to(
        &self,
        uid: &Uid,
        around: &Around<'_>,
        why: impl Fn(&TargetGroupArn, &Target) -> Option<String>,
    ) -> Option<String> {
        // Nobody answers at an address that it has lost, whether this replica was told so or not, nor if it has finished.
        let pod = around.cluster.pods.values().find(|pod| pod.uid == *uid && !pod.finished)?;
        let its = around.history.registered_for.iter().filter(|(_, last)| *last == uid);
        let shares = |ip: &IpAddr| {
            let told = self.oracle.all_pods().map(|told| &told.facts);
            let mut others = told.chain(around.cluster.pods.values()).filter(|other| other.uid != *uid);
            others.any(|other| other.ips.contains(ip) && !other.finished)
        };
        let its = its.filter(|((_, target), _)| pod.ips.contains(&target.ip) && !shares(&target.ip));
        // That another one got it since, the ledger says, too.
        let is_anothers = |arn: &TargetGroupArn, target: &Target| {
            around.store.mark(arn, target).is_some_and(|mark| mark != PodMark::of(uid))
        };
        let is_due = |arn: &TargetGroupArn, target: &Target| {
            !self.oracle.may_be_paused(arn, target) && self.is_known(arn) && !is_anothers(arn, target)
        };
        let mut its = its.filter(|((arn, target), _)| is_due(arn, target));
        its.find_map(|((arn, target), _)| Some(format!("{target} in {}: {}", arn.name(), why(arn, target)?)))
    }

    pub fn is_known(&self, arn: &TargetGroupArn) -> bool {
        self.engine.group_named(arn.name()).is_some_and(|group| group.arn == *arn)
    }

    fn bound_of(&self, arn: &TargetGroupArn) -> Duration {
        let Bounds { application, network } = self.leaving.bounds;
        if arn.name() == APPLICATION { application } else { network }
    }

    /// No load balancer sends to a pod any more.
    pub fn check_is_out(&self, name: &str, uid: &Uid, around: &Around<'_>) -> Result<(), String> {
        let told = self.oracle.all_pods().find(|pod| pod.facts.uid == *uid);
        let out = told.and_then(|pod| pod.facts.leaving.as_deref()?.deregistered);
        let seen_out = self.leaving.seen.get(uid).and_then(|seen| seen.out);
        let may_send = |arn: &_, target: &_| {
            let bound = self.bound_of(arn).saturating_sub(2 * SKEW);
            // What was taken out for another reason a standby cannot know; a leader has done it, or read it in the ledger,
            // unless the leader before had to remove it once more and could not write that down.
            let taken_out = around.history.taken_out.get(&(arn.clone(), *target));
            let written = |at: Moment| {
                if self.leaving.clocks_are_wrong {
                    seen_out.is_some_and(|(_, seen)| seen >= at)
                } else {
                    out.is_some_and(|(out, _)| out + SKEW >= self.leaving.wall(at))
                }
            };
            let noted = |at: Moment| {
                if self.leaving.clocks_are_wrong {
                    return false;
                }
                let since = around.store.out_since(arn, target);
                since.is_none_or(|since| since + Duration::from_secs(1) + SKEW >= self.leaving.wall(at))
            };
            let done = |at: Moment| self.loaded.is_some_and(|loaded| at >= loaded || noted(at));
            let known = taken_out.is_none_or(|at| done(*at) || written(*at));
            around.aws.sends_to(arn, target, if known { bound } else { Duration::ZERO }, around.now)
        };
        match self.sends_to(uid, around, may_send) {
            Some(why) => Err(format!("{name} is let go, and a load balancer may send to it: {why}")),
            None => Ok(()),
        }
    }

    /// Whether a replica may have it noted on a pod that it is to leave because its eviction is asked for, although its node
    /// remains: it was told otherwise of the node, or of no node; the pod has its hold and waits for its zone; or it is leaving
    /// already.
    pub fn may_note(&self, pod: &ObjectKey, uid: &Uid, now: Moment) -> bool {
        let Some(told) = self.oracle.pod(pod, uid) else { return true };
        let leaving = told.facts.leaving.as_deref();
        told.facts.ending.sleeps > 0
            || told.facts.node.is_none()
            || self.oracle.node_is_closed(told)
            || self.oracle.node_goes(told)
            || leaving.is_some_and(|leaving| leaving.credible(self.leaving.wall(now)).is_some())
    }

    /// A replica lets an eviction through.
    pub fn check_passes(
        &self,
        pod: &ObjectKey,
        uid: &Uid,
        cause: Cause,
        around: &Around<'_>,
    ) -> Result<(), String> {
        let Some(told) = self.oracle.pod(pod, uid).filter(|_| self.oracle.has_seen_all()) else {
            return Ok(());
        };
        // A leader has written that, and it was looked at then.
        let is_written = told.facts.leaving.as_deref().and_then(LeavingFacts::let_go) == Some(cause);
        match cause {
            Cause::NotATarget if is_written => Ok(()),
            Cause::NotATarget if self.oracle.selecting(told).any(|bound| self.is_place(&bound, uid)) => {
                Err(format!("{} is evicted as no target, and is one", pod.name))
            }
            Cause::NotATarget => self.check_nothing_is_looked_up(told, around),
            Cause::HoldAllows if told.facts.ending.sleeps == 0 => {
                Err(format!("{} is evicted with its hold, and has none", pod.name))
            }
            _ => Ok(()),
        }
    }

    fn is_place(&self, bound: &Selecting<'_>, uid: &Uid) -> bool {
        bound.target.is_some_and(|target| !self.oracle.is_paused_for(bound.key, &target, uid))
    }

    /// A pod that counts as no target is not one of a group that nobody here has heard of yet.
    fn check_nothing_is_looked_up(&self, told: &Told, around: &Around<'_>) -> Result<(), String> {
        let uid = &told.facts.uid;
        let its = around.history.registered_for.iter().filter(|(_, last)| *last == uid);
        let mut unheard = its.filter(|((arn, target), _)| {
            !self.looked_up.contains(arn.name())
                && self.oracle.names(told, arn.name())
                && around.aws.sends_to(arn, target, Duration::ZERO, around.now).is_some()
        });
        match unheard.next() {
            Some(((arn, target), _)) => {
                Err(format!("{} counts as no target, and is {target} of {}", told.facts.key.name, arn.name()))
            }
            None => Ok(()),
        }
    }
}
