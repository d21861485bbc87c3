//! A state of a world: what there is, what may happen next, and what follows.

use std::collections::BTreeMap;

use headgate_core::{
    ledger::{LedgerVersion, PodMark},
    model::HealthState,
    targets::claims::{Content, Outcome, Request, State, Targets, Wanted, Way},
};

use super::{
    aws::{Aws, Shown},
    leader::{Call, Leader, Reading, Write},
    parts::{Asks, Phase, Pod, mark, moment, target as target_of},
    shapes::{BEYOND, Faults, LATE, Shape},
};

/// What is wrong, in words.
pub type Held<T = ()> = Result<T, String>;

/// The ledger of a group, as it is stored.
#[derive(Clone, Debug, Default)]
pub struct Stored {
    pub content: Option<(LedgerVersion, Content)>,
    pub writes: u64,
}

/// A call that nobody waits for any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Late {
    pub is_registration: bool,
    pub target: usize,
    pub pod: usize,
    /// It takes effect within so many ticks, or never.
    pub left: u32,
    /// The leader that gave it up for a removal, and learns of its answer if that comes; and whether AWS has applied it.
    pub asker: Option<usize>,
    pub is_applied: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    Tick,
    PodAnswers(usize),
    PodDeleted(usize),
    PodEnded(usize),
    PodGone(usize),
    SecondPod,
    Unbound,
    Moved,
    HealthCheck(usize),
    Stranger(usize),
    RemovedByHand(usize),
    LateCallArrives(usize),
    LateCallIsLost(usize),
    LateCallAnswered(usize),
    LateWriteArrives(usize),
    LateWriteIsLost(usize),
    Crash,
    Deposed,
    Noticed,
    HandedOver,
    Elected,
    Sees(usize, usize),
    CallApplied(usize, usize),
    CallAnswered(usize, usize),
    CallGivenUp(usize, usize),
    CallRefused(usize, usize),
    Paused,
    Written(usize, usize),
    WriteGivenUp(usize, usize),
    Read(usize, [Shown; 2]),
    ReadBegins(usize, [Shown; 2]),
    ReadAnswered(usize),
    ReadFails(usize),
    GateOpens(usize, usize),
    GateCloses(usize, usize),
    GateWriteGivenUp(usize, usize),
    LateGateArrives(usize),
    LateGateIsLost(usize),
    TakesOut(usize, usize),
    LetsStay(usize),
    EvictionBegins(usize),
    EvictionStops(usize),
    EvictionAsked(usize),
    LedgerDeleted(usize),
}

#[derive(Clone, Debug)]
pub struct World {
    pub shape: &'static Shape,
    pub now: u32,
    pub term: u64,
    pub aws: [Aws; 2],
    pub ledgers: [Stored; 2],
    pub pods: [Pod; 2],
    /// The one that leads, and one that did and has not noticed.
    pub leaders: [Option<Leader>; 2],
    /// For how long the deposed one acts on, and its calls may take effect.
    pub zombie: (u32, u32),
    pub late_calls: Vec<Late>,
    pub late_writes: Vec<(usize, Write)>,
    /// Whether the Lease says that nothing of the last leader can take effect any more.
    pub is_settled: bool,
    /// Whether a leader stood still for longer than anybody assumes.
    pub was_paused: bool,
    pub left: Faults,
}

impl World {
    /// With so many faults on a path, and no more than the shape allows.
    pub fn new(shape: &'static Shape, faults: u8) -> Held<Self> {
        let pod = |phase, address| Pod { phase, address, is_bound: true, ..Pod::default() };
        let mut ledgers = [Stored::default(), Stored::default()];
        if shape.has_ledger {
            for ledger in &mut ledgers {
                ledger.put(Content::default());
            }
        }
        let mut world = Self {
            shape,
            now: 0,
            term: 0,
            aws: [Aws::new(shape.stranger_first), Aws::new(false)],
            ledgers,
            pods: [pod(Phase::Running, 0), pod(Phase::NotYet, shape.second_address)],
            leaders: [None, None],
            zombie: (0, 0),
            late_calls: Vec::new(),
            late_writes: Vec::new(),
            is_settled: true,
            was_paused: false,
            left: Faults { all: faults.min(shape.faults.all), ..shape.faults },
        };
        world.take(Act::Elected)?;
        Ok(world)
    }

    // ---- what may happen ----

    /// All that may happen next; what comes by itself when nothing goes wrong comes first, and time last of that.
    pub fn acts(&self) -> Vec<Act> {
        let mut acts = Vec::with_capacity(24);
        self.lates(&mut acts);
        for (who, leader) in self.leaders.iter().enumerate() {
            match leader {
                Some(leader) => self.acts_of(who, leader, &mut acts),
                None if who == 0 => acts.push(Act::Elected),
                None => {}
            }
        }
        self.acts_of_pods(&mut acts);
        self.acts_of_others(&mut acts);
        if self.may_tick() {
            acts.push(Act::Tick);
        }
        acts.sort_by_key(|act| rank(self, act).unwrap_or(u8::MAX));
        acts
    }

    /// Whether it comes by itself when nothing goes wrong and no user acts.
    pub fn is_calm(&self, act: &Act) -> bool {
        rank(self, act).is_some()
    }

    fn can(&self, left: u8) -> bool {
        left > 0 && self.left.all > 0
    }

    fn lates(&self, acts: &mut Vec<Act>) {
        for (nth, late) in self.late_calls.iter().enumerate() {
            if nth == 0 || self.late_calls[nth - 1] != *late {
                let next = if late.is_applied { Act::LateCallAnswered } else { Act::LateCallArrives };
                acts.extend([next(nth), Act::LateCallIsLost(nth)]);
            }
        }
        for (nth, (group, write)) in self.late_writes.iter().enumerate() {
            if self.ledgers[*group].takes(write) {
                acts.push(Act::LateWriteArrives(nth));
            }
            acts.push(Act::LateWriteIsLost(nth));
        }
        for (nth, _) in self.pods.iter().enumerate().filter(|(_, pod)| pod.late_gate) {
            acts.extend([Act::LateGateArrives(nth), Act::LateGateIsLost(nth)]);
        }
        acts.extend(self.leaders[1].is_some().then_some(Act::Noticed));
    }

    fn acts_of(&self, who: usize, leader: &Leader, acts: &mut Vec<Act>) {
        let is_behind = |pod: &usize| leader.seen[*pod].seen() != self.pods[*pod].seen();
        acts.extend((0..2).filter(is_behind).map(|pod| Act::Sees(who, pod)));
        for (target, call) in leader.calls.iter().enumerate() {
            let Some(call) = call else { continue };
            acts.push(Act::CallAnswered(who, target));
            acts.extend((!call.is_applied).then_some(Act::CallApplied(who, target)));
            acts.extend(self.can(self.left.given_up).then_some(Act::CallGivenUp(who, target)));
            let may_be_refused = !call.is_applied && self.can(self.left.refused);
            acts.extend(may_be_refused.then_some(Act::CallRefused(who, target)));
        }
        for (group, _) in leader.writes.iter().enumerate().filter(|(_, write)| write.is_some()) {
            acts.push(Act::Written(who, group));
            acts.extend(self.can(self.left.lost_write).then_some(Act::WriteGivenUp(who, group)));
        }
        for pod in 0..2 {
            if self.may_open(leader, pod) {
                acts.push(Act::GateOpens(who, pod));
                let may_fail = self.can(self.left.late_gate) && !self.pods[pod].late_gate;
                acts.extend(may_fail.then_some(Act::GateWriteGivenUp(who, pod)));
            }
            acts.extend(leader.moved[pod].then_some(Act::GateCloses(who, pod)));
            acts.extend(self.may_take_out(leader, pod).then_some(Act::TakesOut(who, pod)));
        }
        if leader.reading.is_some() {
            acts.push(Act::ReadAnswered(who));
            return;
        }
        acts.extend(self.can(self.left.failed_read).then_some(Act::ReadFails(who)));
        let now = [self.aws[0].shown(), self.aws[1].shown()];
        let is_slow = self.can(self.left.slow_read);
        for first in self.aws[0].may_show() {
            for second in self.aws[1].may_show() {
                let shown = [first, second];
                let is_stale = shown != now;
                if !is_stale || self.can(self.left.stale_read) {
                    acts.push(Act::Read(who, shown));
                }
                if is_slow && (!is_stale || (self.can(self.left.stale_read) && self.left.all > 1)) {
                    acts.push(Act::ReadBegins(who, shown));
                }
            }
        }
    }

    fn acts_of_pods(&self, acts: &mut Vec<Act>) {
        for (nth, pod) in self.pods.iter().enumerate() {
            match pod.phase {
                Phase::Running => {
                    acts.extend((!pod.answers).then_some(Act::PodAnswers(nth)));
                    acts.extend(self.shape.deleted[nth].then_some(Act::PodDeleted(nth)));
                    if self.shape.unbound && nth == 0 && pod.is_bound {
                        acts.push(Act::Unbound);
                    }
                    if self.shape.moves && nth == 0 && pod.address == 0 {
                        acts.push(Act::Moved);
                    }
                    if self.shape.evicted[nth] {
                        let stops = self.left.stops > 0;
                        match pod.asks {
                            Asks::Nobody => acts.push(Act::EvictionBegins(nth)),
                            Asks::Somebody => {
                                acts.push(Act::EvictionAsked(nth));
                                acts.extend(stops.then_some(Act::EvictionStops(nth)));
                            }
                            Asks::NotAnyMore => acts.extend(stops.then_some(Act::EvictionBegins(nth))),
                        }
                    }
                    if pod.asks == Asks::NotAnyMore && pod.leaves && self.leaders[0].is_some() {
                        acts.push(Act::LetsStay(nth));
                    }
                }
                Phase::Terminating => acts.push(Act::PodEnded(nth)),
                Phase::Ended => acts.push(Act::PodGone(nth)),
                Phase::NotYet | Phase::Gone => {}
            }
        }
        let [first, second] = &self.pods;
        let is_free = first.address != second.address || first.phase > Phase::Terminating;
        if self.shape.second_pod && second.phase == Phase::NotYet && is_free {
            acts.push(Act::SecondPod);
        }
    }

    fn acts_of_others(&self, acts: &mut Vec<Act>) {
        for target in 0..self.shape.targets {
            if self.is_behind(target) {
                acts.push(Act::HealthCheck(target));
            }
            if self.can(self.left.stranger) && !self.aws[target].is_registered {
                acts.push(Act::Stranger(target));
            }
            if self.can(self.left.removed_by_hand) && self.aws[target].is_registered {
                acts.push(Act::RemovedByHand(target));
            }
        }
        let Some(leader) = &self.leaders[0] else { return };
        acts.extend(self.can(self.left.crash).then_some(Act::Crash));
        let sends = leader.calls.iter().flatten().any(|call| !call.is_applied);
        acts.extend((sends && self.can(self.left.paused)).then_some(Act::Paused));
        let may_be_deposed = self.can(self.left.deposed) && self.leaders[1].is_none();
        acts.extend(may_be_deposed.then_some(Act::Deposed));
        let may_hand_over = self.can(self.left.handed_over) && leader.is_idle();
        acts.extend(may_hand_over.then_some(Act::HandedOver));
        for group in 0..self.shape.groups() {
            // Its finalizer keeps a ledger with claims.
            let is_empty = |(_, content): &(LedgerVersion, Content)| content.claims.is_empty();
            let may_be = self.ledgers[group].content.as_ref().is_some_and(is_empty) && leader.is_ready(group);
            acts.extend((may_be && self.can(self.left.ledger_deleted)).then_some(Act::LedgerDeleted(group)));
        }
    }

    fn may_tick(&self) -> bool {
        let is_due = self.late_calls.iter().any(|late| late.left == 0)
            || (self.leaders[1].is_some() && (self.zombie.0 == 0 || self.zombie.1 == 0));
        let waits = |leader: &Leader| {
            leader.calls.iter().any(Option::is_some) || leader.writes.iter().any(Option::is_some)
        };
        let is_busy = !self.shape.slow && self.leaders[0].as_ref().is_some_and(waits);
        let is_checked = |target: usize| {
            let notice = self.shape.notice;
            notice > 0 && self.aws[target].behind >= notice && self.is_behind(target)
        };
        !is_due && !is_busy && !(0..self.shape.targets).any(is_checked)
    }

    /// Whether a health check would find a target otherwise than it is shown.
    fn is_behind(&self, target: usize) -> bool {
        let aws = &self.aws[target];
        aws.is_registered && aws.checked(self.answers_at(target)) != (aws.is_healthy, aws.proven)
    }

    /// The pod that has the address of a target.
    pub fn holder(&self, target: usize) -> Option<usize> {
        let has = |pod: &usize| {
            let Pod { phase, address, .. } = self.pods[*pod];
            matches!(phase, Phase::Running | Phase::Terminating)
                && self.shape.at(address).any(|at| at == target)
        };
        (0..2).rev().find(has)
    }

    fn answers_at(&self, target: usize) -> Option<usize> {
        self.holder(target).filter(|pod| self.pods[*pod].answers)
    }

    // ---- the rest of a leader ----

    /// Which pod should have a target.
    fn wanted(&self, leader: &Leader, target: usize) -> Option<Wanted> {
        let has = |pod: &usize| {
            let Pod { phase, address, .. } = leader.seen[*pod];
            phase == Phase::Running && self.shape.at(address).any(|at| at == target)
        };
        let nth = (0..2).rev().find(has)?;
        let pod = &leader.seen[nth];
        let goes = !pod.is_bound || (pod.leaves && leader.granted[nth]);
        (!goes).then(|| Wanted { pod: mark(nth), binding: "default/web".into(), may_add: !pod.leaves })
    }

    fn may_open(&self, leader: &Leader, nth: usize) -> bool {
        let pod = &leader.seen[nth];
        let goes = pod.leaves && leader.granted[nth];
        let is_healthy = |target| leader.is_healthy(self.shape, target, mark(nth));
        pod.phase == Phase::Running
            && pod.is_bound
            && !self.pods[nth].gate_is_open
            && self.pods[nth].phase != Phase::Gone
            && !goes
            && !leader.moved[nth]
            && self.shape.at(pod.address).all(is_healthy)
    }

    fn may_take_out(&self, leader: &Leader, nth: usize) -> bool {
        // The write that closes the gate carries the version of the pod.
        let pod = Some(&self.pods[nth]).filter(|pod| pod.seen() == leader.seen[nth].seen());
        let is_asked = pod.is_some_and(|pod| pod.phase == Phase::Running && pod.leaves);
        let is_ready = (0..self.shape.groups()).any(|group| leader.is_ready(group));
        is_asked && !leader.granted[nth] && is_ready && moment(self.now) >= leader.settled
    }

    // ---- what follows ----

    /// Takes a step, and what follows from it by itself.
    pub fn take(&mut self, act: Act) -> Held {
        self.step(act)?;
        for who in 0..2 {
            while self.reacts(who)? {}
        }
        if self.was_paused { Ok(()) } else { self.holds() }
    }

    /// A leader does what is due. Gives whether there was anything.
    fn reacts(&mut self, who: usize) -> Held<bool> {
        let Some(mut leader) = self.leaders[who].take() else { return Ok(false) };
        let mut anything = false;
        if !self.shape.late_watch {
            leader.sees(&self.pods);
        }
        for target in 0..self.shape.targets {
            let wanted = self.wanted(&leader, target);
            leader.groups[self.shape.group(target)].want(target_of(self.shape, target), wanted);
        }
        for group in 0..self.shape.groups() {
            let now = moment(self.now);
            let own = (0..self.shape.targets).filter(|target| self.shape.group(*target) == group);
            let due: Vec<(usize, Way)> = own
                .filter_map(|nth| {
                    let way = leader.groups[group].plan(&target_of(self.shape, nth), now, true)?;
                    Some((nth, way))
                })
                .collect();
            for (nth, way) in due {
                self.sends(&mut leader, who, nth, way)?;
                anything = true;
            }
            let Some(request) = leader.groups[group].ledger_request(now) else { continue };
            anything = true;
            let id = leader.next_id();
            let ledger = leader.groups[group].ledger_mut();
            ledger.sent(id, request.clone());
            match request {
                Request::Write(version, content) => {
                    leader.writes[group] = Some(Write { id, version, content });
                }
                Request::Load => {
                    let found = self.ledgers[group].content.clone();
                    let settled = leader.settled;
                    ledger.load_ended(id);
                    if !leader.groups[group].found(found, settled, now) {
                        self.forget_askers(|late| late.asker == Some(who));
                        self.leaves_behind(&leader, self.zombie.1);
                        self.zombie = (0, 0);
                        return Ok(false);
                    }
                }
            }
        }
        self.leaders[who] = Some(leader);
        Ok(anything)
    }

    fn sends(&mut self, leader: &mut Leader, who: usize, nth: usize, way: Way) -> Held {
        let (group, at) = (self.shape.group(nth), target_of(self.shape, nth));
        let state = leader.groups[group].state(&at).copied();
        // The call in flight was given up for this one. Of several that were, the answer to the last one says something.
        if let Some(call) = leader.calls[nth].take() {
            self.forget_askers(|late| late.target == nth && late.asker == Some(who));
            self.is_late(nth, call, if who == 1 { self.zombie.1 } else { LATE }, Some(who));
        }
        self.may_send(nth, way, state.as_ref())?;
        let pod =
            (0..2).find(|pod| state.as_ref().and_then(State::pod) == Some(mark(*pod))).unwrap_or_default();
        let id = leader.next_id();
        leader.groups[group].sent(id, way, &[at], moment(self.now));
        leader.calls[nth] = Some(Call { id, way, pod, is_applied: false });
        Ok(())
    }

    fn is_late(&mut self, target: usize, call: Call, left: u32, asker: Option<usize>) {
        let Call { way, pod, is_applied, .. } = call;
        let is_registration = way == Way::In;
        self.late_calls.push(Late { is_registration, target, pod, left, asker, is_applied });
        self.late_calls.sort_unstable();
    }

    /// Nobody learns of the answers to these any more.
    fn forget_askers(&mut self, of: impl Fn(&Late) -> bool) {
        for late in self.late_calls.iter_mut().filter(|late| of(late)) {
            late.asker = None;
        }
        self.late_calls.retain(|late| !late.is_applied || late.asker.is_some());
        self.late_calls.sort_unstable();
    }

    /// What a leader had in flight goes on without it.
    fn leaves_behind(&mut self, leader: &Leader, left: u32) {
        for (target, call) in leader.calls.iter().enumerate() {
            if let Some(call) = call.filter(|call| !call.is_applied) {
                self.is_late(target, call, left, None);
            }
        }
        for (group, write) in leader.writes.iter().enumerate() {
            self.late_writes.extend(write.iter().map(|write| (group, write.clone())));
        }
        self.drop_late_writes();
    }

    /// Writes that would meet a conflict change nothing.
    fn drop_late_writes(&mut self) {
        let ledgers = &self.ledgers;
        self.late_writes.retain(|(group, write)| write.version.is_none() || ledgers[*group].takes(write));
    }

    fn applies(&mut self, is_registration: bool, target: usize, pod: usize) -> Held {
        if is_registration {
            self.aws[target].register(pod);
            return Ok(());
        }
        if !self.aws[target].is_registered {
            return Ok(());
        }
        self.may_remove(target)?;
        self.aws[target].deregister();
        Ok(())
    }

    fn step(&mut self, act: Act) -> Held {
        match act {
            Act::Tick => self.tick(),
            Act::PodAnswers(pod) => self.pods[pod].answers = true,
            Act::PodDeleted(pod) => self.terminates(pod),
            Act::PodEnded(pod) => {
                (self.pods[pod].phase, self.pods[pod].answers) = (Phase::Ended, false);
            }
            Act::PodGone(pod) => {
                (self.pods[pod].phase, self.pods[pod].gate_is_open) = (Phase::Gone, false);
            }
            Act::SecondPod => self.pods[1].phase = Phase::Running,
            Act::Unbound => {
                self.pods[0].is_bound = false;
                self.pod_changes(0);
            }
            // Its sandbox was made again: nothing answers there yet.
            Act::Moved => {
                (self.pods[0].address, self.pods[0].answers) = (1, false);
                self.pod_changes(0);
            }
            Act::HealthCheck(target) => {
                let checked = self.aws[target].checked(self.answers_at(target));
                self.aws[target].change(|aws| ((aws.is_healthy, aws.proven), aws.behind) = (checked, 0));
            }
            Act::Stranger(target) => {
                self.spend(|left| &mut left.stranger);
                self.aws[target].register_stranger();
            }
            Act::RemovedByHand(target) => {
                self.spend(|left| &mut left.removed_by_hand);
                self.aws[target].remove_by_hand();
            }
            Act::LateCallArrives(nth) => {
                let late = self.late_calls.remove(nth);
                self.applies(late.is_registration, late.target, late.pod)?;
                if late.asker.is_some() {
                    self.late_calls.push(Late { is_applied: true, ..late });
                    self.late_calls.sort_unstable();
                }
            }
            Act::LateCallAnswered(nth) => {
                let Late { target, asker, .. } = self.late_calls.remove(nth);
                let (at, group) = (target_of(self.shape, target), self.shape.group(target));
                let now = moment(self.now);
                self.leads(asker.unwrap_or_default(), |leader| {
                    if let Some(State::Unsettled { gave_up: Some((id, _)), .. }) =
                        leader.groups[group].state(&at)
                    {
                        let id = *id;
                        leader.groups[group].answered(id, &[at], Outcome::Done, now);
                    }
                });
            }
            Act::LateCallIsLost(nth) => _ = self.late_calls.remove(nth),
            Act::LateWriteArrives(nth) => {
                let (group, write) = self.late_writes.remove(nth);
                self.stores(group, &write);
            }
            Act::LateWriteIsLost(nth) => _ = self.late_writes.remove(nth),
            Act::Crash => {
                self.spend(|left| &mut left.crash);
                if let Some(leader) = self.leaders[0].take() {
                    self.forget_askers(|late| late.asker == Some(0));
                    self.leaves_behind(&leader, LATE);
                }
            }
            // It is replaced, and what it was about to send comes when it goes on.
            Act::Paused => {
                self.spend(|left| &mut left.paused);
                self.was_paused = true;
                if let Some(leader) = self.leaders[0].take() {
                    self.forget_askers(|late| late.asker == Some(0));
                    self.leaves_behind(&leader, BEYOND);
                }
            }
            Act::Deposed => {
                self.spend(|left| &mut left.deposed);
                self.forget_askers(|late| late.asker == Some(1));
                for late in &mut self.late_calls {
                    late.asker = late.asker.map(|_| 1);
                }
                self.late_calls.sort_unstable();
                self.leaders[1] = self.leaders[0].take();
                self.zombie = (self.shape.zombie, LATE);
                if self.shape.zombie == 0 {
                    self.notices();
                }
            }
            Act::Noticed => self.notices(),
            Act::HandedOver => {
                self.spend(|left| &mut left.handed_over);
                self.forget_askers(|late| late.asker == Some(0));
                self.is_settled = self.leaders[0].take().is_some_and(|leader| leader.is_settled());
            }
            Act::Elected => self.elected(),
            Act::Sees(who, pod) => {
                let now = self.pods[pod];
                self.leads(who, |leader| leader.see(pod, now));
            }
            Act::CallApplied(who, target) => {
                let Some(call) = self.call(who, target) else { return Ok(()) };
                self.applies(call.way == Way::In, target, call.pod)?;
                let applied = Call { is_applied: true, ..call };
                self.leads(who, |leader| leader.calls[target] = Some(applied));
            }
            Act::CallAnswered(who, target) => {
                let Some(call) = self.call(who, target) else { return Ok(()) };
                if !call.is_applied {
                    self.applies(call.way == Way::In, target, call.pod)?;
                }
                self.call_ends(who, target, call, Outcome::Done);
            }
            Act::CallGivenUp(who, target) => {
                let Some(call) = self.call(who, target) else { return Ok(()) };
                self.spend(|left| &mut left.given_up);
                if !call.is_applied {
                    self.is_late(target, call, if who == 1 { self.zombie.1 } else { LATE }, None);
                }
                self.call_ends(who, target, call, Outcome::Unknown);
            }
            Act::CallRefused(who, target) => {
                let Some(call) = self.call(who, target) else { return Ok(()) };
                self.spend(|left| &mut left.refused);
                self.call_ends(who, target, call, Outcome::Refused);
            }
            Act::Written(who, group) => {
                let Some(write) = self.write(who, group) else { return Ok(()) };
                let result = self.stores(group, &write).ok_or(Outcome::Unknown);
                self.leads(who, |leader| leader.groups[group].ledger_mut().written(write.id, result));
            }
            Act::WriteGivenUp(who, group) => {
                self.spend(|left| &mut left.lost_write);
                let Some(write) = self.write(who, group) else { return Ok(()) };
                self.leads(who, |leader| {
                    leader.groups[group].ledger_mut().written(write.id, Err(Outcome::Unknown));
                });
                self.late_writes.push((group, write));
                self.drop_late_writes();
            }
            Act::Read(who, shown) => {
                self.spend_on_read(shown);
                self.reads(who, Reading { began: self.now, shown });
            }
            Act::ReadBegins(who, shown) => {
                self.spend_on_read(shown);
                self.spend(|left| &mut left.slow_read);
                let began = self.now;
                self.leads(who, |leader| leader.reading = Some(Reading { began, shown }));
            }
            Act::ReadAnswered(who) => {
                if let Some(reading) = self.leads(who, |leader| leader.reading.take()).flatten() {
                    self.reads(who, reading);
                }
            }
            Act::ReadFails(who) => {
                self.spend(|left| &mut left.failed_read);
                self.leads(who, |leader| leader.groups.iter_mut().for_each(|group| group.reads_mut().fail()));
            }
            Act::GateOpens(_, pod) => self.opens(pod)?,
            Act::GateCloses(who, pod) => {
                self.pods[pod].gate_is_open = false;
                self.pod_changes(pod);
                self.leads(who, |leader| leader.moved[pod] = false);
            }
            Act::GateWriteGivenUp(_, pod) => {
                self.spend(|left| &mut left.late_gate);
                self.pods[pod].late_gate = true;
            }
            Act::LateGateArrives(pod) => {
                self.pods[pod].late_gate = false;
                self.opens(pod)?;
            }
            Act::LateGateIsLost(pod) => self.pods[pod].late_gate = false,
            // The gate is closed first, and the write is acknowledged.
            Act::TakesOut(who, pod) => {
                self.pods[pod].gate_is_open = false;
                self.pod_changes(pod);
                self.leads(who, |leader| leader.granted[pod] = true);
            }
            Act::LetsStay(pod) => {
                self.pods[pod].leaves = false;
                self.pod_changes(pod);
            }
            Act::EvictionBegins(pod) => {
                if self.pods[pod].asks == Asks::NotAnyMore {
                    self.left.stops -= 1;
                }
                self.pods[pod].asks = Asks::Somebody;
            }
            Act::EvictionStops(pod) => {
                self.left.stops -= 1;
                self.pods[pod].asks = Asks::NotAnyMore;
            }
            Act::EvictionAsked(pod) => self.asked(pod)?,
            Act::LedgerDeleted(group) => {
                self.spend(|left| &mut left.ledger_deleted);
                self.ledgers[group].content = None;
                self.drop_late_writes();
                (0..2).for_each(|who| {
                    _ = self.leads(who, |leader| leader.groups[group].ledger_mut().seen(None));
                });
            }
        }
        Ok(())
    }

    fn leads<T>(&mut self, who: usize, does: impl FnOnce(&mut Leader) -> T) -> Option<T> {
        self.leaders[who].as_mut().map(does)
    }

    fn call(&self, who: usize, target: usize) -> Option<Call> {
        self.leaders[who].as_ref()?.calls[target]
    }

    fn write(&mut self, who: usize, group: usize) -> Option<Write> {
        self.leaders[who].as_mut()?.writes[group].take()
    }

    fn call_ends(&mut self, who: usize, target: usize, call: Call, outcome: Outcome) {
        let (shape, now) = (self.shape, moment(self.now));
        self.leads(who, |leader| {
            leader.calls[target] = None;
            let at = target_of(shape, target);
            leader.groups[shape.group(target)].answered(call.id, &[at], outcome, now);
        });
    }

    /// A write arrives. Gives the new version, if it is taken.
    fn stores(&mut self, group: usize, write: &Write) -> Option<LedgerVersion> {
        let ledger = &mut self.ledgers[group];
        if !ledger.takes(write) {
            return None;
        }
        let version = ledger.put(write.content.clone());
        self.drop_late_writes();
        Some(version)
    }

    fn elected(&mut self) {
        self.term += 1;
        let late = self.shape.delays().late;
        let settled = moment(self.now) + if self.is_settled { std::time::Duration::ZERO } else { late };
        // Taking the Lease wipes the mark.
        self.is_settled = false;
        let take_over = |group: usize| {
            let found = Option::<(LedgerVersion, Content)>::clone(&self.ledgers[group].content);
            let mut targets = Targets::new(self.shape.delays());
            targets.begin(self.term);
            targets.found(found, settled, moment(self.now)).then_some(targets)
        };
        let groups: Option<Vec<Targets>> = (0..self.shape.groups()).map(take_over).collect();
        self.leaders[0] = groups.map(|groups| Leader::new(self.term, settled, groups, self.pods));
    }

    fn notices(&mut self) {
        if let Some(leader) = self.leaders[1].take() {
            self.forget_askers(|late| late.asker == Some(1));
            self.leaves_behind(&leader, self.zombie.1);
        }
        self.zombie = (0, 0);
    }

    fn reads(&mut self, who: usize, Reading { began, shown }: Reading) {
        let (shape, now) = (self.shape, moment(self.now));
        self.leads(who, |leader| {
            for (group, targets) in leader.groups.iter_mut().enumerate() {
                let mut there = BTreeMap::new();
                for (nth, shown) in shown.iter().enumerate().take(shape.targets) {
                    let health = match shown {
                        _ if shape.group(nth) != group => continue,
                        Shown::Absent => continue,
                        Shown::Unhealthy => HealthState::Initial,
                        Shown::Healthy => HealthState::Healthy,
                    };
                    there.insert(target_of(shape, nth), health);
                }
                targets.read(moment(began), there, now);
            }
        });
    }

    fn terminates(&mut self, pod: usize) {
        let pod = &mut self.pods[pod];
        pod.phase = Phase::Terminating;
        (pod.asks, pod.leaves, pod.late_gate, pod.is_bound) = (Asks::Nobody, false, false, true);
    }

    /// Writes to a pod carry its version: what was given up before fails.
    fn pod_changes(&mut self, pod: usize) {
        self.pods[pod].late_gate = false;
    }

    fn opens(&mut self, pod: usize) -> Held {
        if self.pods[pod].phase == Phase::Gone || self.pods[pod].gate_is_open {
            return Ok(());
        }
        self.may_be_open(pod)?;
        self.pods[pod].gate_is_open = true;
        self.pod_changes(pod);
        Ok(())
    }

    /// The webhook is asked: it reads the pod and all ledgers.
    fn asked(&mut self, pod: usize) -> Held {
        if self.pods[pod].phase != Phase::Running {
            return Ok(());
        }
        let names = |target: usize| {
            let claim = self.claim(target);
            let is_at = self.shape.at(self.pods[pod].address).any(|at| at == target);
            claim.is_some_and(|claim| claim == mark(pod) || is_at)
        };
        if !(0..self.shape.targets).any(names) {
            self.may_go(pod)?;
            self.terminates(pod);
        } else if !self.pods[pod].leaves {
            self.pods[pod].leaves = true;
            self.pod_changes(pod);
        }
        Ok(())
    }

    /// The pod that the ledger names for a target.
    pub fn claim(&self, target: usize) -> Option<PodMark> {
        let (_, content) = self.ledgers[self.shape.group(target)].content.as_ref()?;
        content.claims.get(&target_of(self.shape, target)).map(|claim| claim.pod)
    }

    fn tick(&mut self) {
        self.now += 1;
        for target in 0..2 {
            let differs = self.shape.notice > 0 && target < self.shape.targets && self.is_behind(target);
            self.aws[target].tick(differs);
        }
        for late in &mut self.late_calls {
            late.left = late.left.saturating_sub(1);
        }
        self.late_calls.sort_unstable();
        self.zombie = (self.zombie.0.saturating_sub(1), self.zombie.1.saturating_sub(1));
    }

    fn spend_on_read(&mut self, shown: [Shown; 2]) {
        if shown != [self.aws[0].shown(), self.aws[1].shown()] {
            self.spend(|left| &mut left.stale_read);
        }
    }

    fn spend(&mut self, what: impl FnOnce(&mut Faults) -> &mut u8) {
        *what(&mut self.left) -= 1;
        self.left.all -= 1;
    }
}

/// In which order things happen when nothing goes wrong.
fn rank(world: &World, act: &Act) -> Option<u8> {
    Some(match act {
        Act::LateCallArrives(_) | Act::LateCallAnswered(_) => 0,
        Act::LateWriteArrives(_) => 1,
        Act::LateWriteIsLost(_) | Act::LateGateIsLost(_) => 2,
        Act::Noticed | Act::Elected => 3,
        Act::Sees(..) | Act::Written(..) | Act::CallAnswered(..) | Act::ReadAnswered(_) => 4,
        Act::PodAnswers(_) | Act::HealthCheck(_) => 5,
        Act::Read(_, shown) if *shown == [world.aws[0].shown(), world.aws[1].shown()] => 6,
        Act::LetsStay(_) | Act::GateCloses(..) => 7,
        Act::GateOpens(..) => 8,
        Act::TakesOut(..) => 9,
        Act::EvictionAsked(_) => 10,
        Act::PodEnded(_) | Act::PodGone(_) => 11,
        Act::Tick => 12,
        _ => return None,
    })
}

impl Stored {
    fn takes(&self, write: &Write) -> bool {
        self.content.as_ref().map(|(version, _)| version) == write.version.as_ref()
    }

    fn put(&mut self, content: Content) -> LedgerVersion {
        self.writes += 1;
        let version = LedgerVersion::new(self.writes.to_string());
        self.content = Some((version.clone(), content));
        version
    }
}
