//! Many target groups in which something is not as it should be: how often they are read, and who has to wait for that.
//!
//! The real engine with its own lanes, on simulated time, behind AWS's usual latency. Nothing fails.

use std::{
    collections::{BTreeMap, BinaryHeap, VecDeque},
    net::IpAddr,
    time::Duration,
};

use headgate_core::{
    Settings,
    engine::{Effect, Engine, Input, Leadership},
    ledger::{LedgerRequest, LedgerVersion},
    model::{
        Call, Change, GateFacts, Health, HealthState, LeastHealthy, Moment, ObjectKey, PodFacts, Readiness,
        RequestId, Scope, ServiceFacts, Target, TargetGroupArn, TargetGroupFacts, Uid,
        gate::{GateWrite, Shown},
        rates::{Limit, Limits},
    },
    requests::{Answer, Request},
};

use crate::objects::{group, pod, service};

/// Half of the Describe calls that AWS allows in a second.
const HALF: usize = 25;
/// So soon after the load balancer has called its target healthy a gate is opened.
const SOON: Duration = Duration::from_secs(2);
const SECOND: Duration = Duration::from_secs(1);
/// The group in which nothing is amiss.
const QUIET: usize = 999;
/// Of one run; some 20,000 are needed.
const STEPS: u32 = 500_000;
/// By then all target groups are found, and all targets registered.
const SETTLED: u64 = 400;

fn at(seconds: u64) -> Moment {
    Moment::after_start(Duration::from_secs(seconds))
}

fn arn(number: usize) -> TargetGroupArn {
    let account = "arn:aws:elasticloadbalancing:us-east-1:123456789012";
    TargetGroupArn::parse(&format!("{account}:targetgroup/g{number}/{number:016x}")).unwrap()
}

/// What the load balancer says of a target when.
#[derive(Clone, Copy, Debug)]
struct Plan {
    /// It is new for so long.
    grows: Duration,
    /// From then on it is unhealthy.
    sick: Option<Moment>,
    /// And from then on it is not any more.
    well: Option<Moment>,
}

impl Plan {
    fn state(self, registered: Moment, now: Moment) -> HealthState {
        let is_sick = self.sick.is_some_and(|sick| sick <= now) && self.well.is_none_or(|well| now < well);
        match now.since(registered) < self.grows {
            true => HealthState::Initial,
            false if is_sick => HealthState::Unhealthy,
            false => HealthState::Healthy,
        }
    }
}

/// What happens at some time.
enum What {
    Input(Input),
    /// AWS answers this.
    Answer(RequestId, Call),
    /// The containers of a pod become ready.
    Runs(ObjectKey),
    /// Somebody else takes a target out.
    Taken(usize, Target),
}

/// In order; what comes first was put first.
struct Event {
    at: Moment,
    number: u64,
    what: What,
}

impl Ord for Event {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (other.at, other.number).cmp(&(self.at, self.number))
    }
}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Event {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Event {}

struct World {
    engine: Engine,
    now: Moment,
    rng: fastrand::Rng,
    events: BinaryHeap<Event>,
    number: u64,
    /// What AWS has, and since when.
    there: BTreeMap<TargetGroupArn, BTreeMap<Target, Moment>>,
    plans: BTreeMap<Target, Plan>,
    pods: BTreeMap<ObjectKey, PodFacts>,
    /// When Describe calls were sent, and each gate opened.
    describes: Vec<Moment>,
    opened: BTreeMap<ObjectKey, Moment>,
    /// When each target was registered.
    registered: BTreeMap<Target, Vec<Moment>>,
}

impl World {
    /// So many groups, and the quiet one; nobody is in them.
    fn new(groups: usize, limits: Limits, seed: u64) -> Self {
        let settings = Settings { scopes: vec![Scope::Cluster], limits, seed, ..Settings::default() };
        let mut world = Self {
            engine: Engine::new(settings),
            now: Moment::START,
            rng: fastrand::Rng::with_seed(seed),
            events: BinaryHeap::new(),
            number: 0,
            there: BTreeMap::new(),
            plans: BTreeMap::new(),
            pods: BTreeMap::new(),
            describes: Vec::new(),
            opened: BTreeMap::new(),
            registered: BTreeMap::new(),
        };
        let service = |number: usize| {
            let name = format!("app-{number}");
            ServiceFacts { target_groups: Some(format!("http=g{number}").into()), ..service(&name) }
        };
        let services = (0..groups).chain([QUIET]).map(service).collect();
        let start = Moment::START;
        for input in [
            Input::Leadership(Leadership::Leading { term: 1, is_settled: true }),
            Input::Binding { change: Change::Relisted(Scope::Cluster, Vec::new()), seen: start },
            Input::Service { change: Change::Relisted(Scope::Cluster, services), seen: start },
            Input::Pod { change: Change::Relisted(Scope::Cluster, Vec::new()), seen: start },
        ] {
            world.put(start, What::Input(input));
        }
        world
    }

    fn put(&mut self, at: Moment, what: What) {
        self.number += 1;
        self.events.push(Event { at, number: self.number, what });
    }

    /// A pod comes to a group; its gate is closed if it has one.
    fn comes(&mut self, group: usize, gated: bool, when: Moment, plan: Plan) -> (ObjectKey, Target) {
        let many = u32::try_from(self.plans.len()).unwrap();
        let [_, _, high, low] = many.to_be_bytes();
        let ip = IpAddr::from([10, 7, high, low]);
        let like = pod(&format!("app-{group}"), 1);
        let key = ObjectKey::new(like.key.namespace.clone(), format!("pod-{many}"));
        let gate = gated.then(|| Box::new(GateFacts { shown: Shown::Closed, ..GateFacts::default() }));
        let uid = Uid::new(format!("uid-{many}"));
        let it = PodFacts { key: key.clone(), uid, gate, ips: vec![ip], ..like };
        let target = Target::new(ip, 80);
        self.plans.insert(target, plan);
        self.pods.insert(key.clone(), it.clone());
        self.put(when, What::Input(Input::Pod { change: Change::Applied(it), seen: when }));
        (key, target)
    }

    fn run(&mut self, until: Moment) -> Result<(), String> {
        let mut steps = 0;
        loop {
            steps += 1;
            if steps > STEPS {
                return Err(format!("woken again and again at {:?}", self.now));
            }
            let wakes = self.engine.next_wakeup(self.now).map(|due| due.max(self.now));
            let happens = self.events.peek().map(|event| event.at);
            let next = wakes.into_iter().chain(happens).min().filter(|next| *next < until);
            let Some(next) = next else { return Ok(()) };
            self.now = next;
            let is_due = happens.is_some_and(|happens| happens <= next);
            let what = if is_due { self.events.pop().map(|event| event.what) } else { None };
            let input = match what {
                None => Input::Tick,
                Some(What::Input(input)) => input,
                Some(What::Answer(id, call)) => Input::Answered { id, result: Ok(self.take(&call)) },
                Some(What::Runs(pod)) => {
                    let it = self.pods.get_mut(&pod).unwrap();
                    it.readiness = Readiness { containers: true, gates: true };
                    Input::Pod { change: Change::Applied(it.clone()), seen: self.now }
                }
                Some(What::Taken(group, target)) => {
                    self.there.entry(arn(group)).or_default().remove(&target);
                    continue;
                }
            };
            for effect in self.engine.step(input, self.now) {
                if let Effect::Send { id, request, .. } = effect {
                    self.carry_out(id, request)?;
                }
            }
        }
    }

    fn carry_out(&mut self, id: RequestId, request: Request) -> Result<(), String> {
        let result = match request {
            Request::Call(call) => {
                if matches!(call, Call::FindGroups { .. } | Call::ReadHealth { .. }) {
                    self.describes.push(self.now);
                }
                let takes = Duration::from_millis(self.rng.u64(30..250));
                self.put(self.now + takes, What::Answer(id, call));
                return Ok(());
            }
            Request::Gate(write) => {
                self.writes(&write);
                Answer::Done
            }
            Request::Ledger(LedgerRequest::LoadAll) => Answer::Ledgers(Vec::new()),
            Request::Ledger(LedgerRequest::Load(_)) => Answer::Ledger(None),
            Request::Ledger(LedgerRequest::Write(..)) => {
                Answer::Written(LedgerVersion::new(id.0.to_string()))
            }
            Request::Ledger(LedgerRequest::Delete(..)) => Answer::Done,
            other => return Err(format!("nobody should ask for {other:?}")),
        };
        self.put(
            self.now + Duration::from_millis(10),
            What::Input(Input::Answered { id, result: Ok(result) }),
        );
        Ok(())
    }

    /// The condition of a pod is written, and its watch says so.
    fn writes(&mut self, write: &GateWrite) {
        let it = self.pods.get_mut(&write.pod).unwrap();
        let shown = if write.condition.open { Shown::Open(it.ips.first().copied()) } else { Shown::Closed };
        it.gate = Some(Box::new(GateFacts { shown, ..GateFacts::default() }));
        let change = Change::Applied(it.clone());
        if write.condition.open {
            self.opened.entry(write.pod.clone()).or_insert(self.now);
        }
        let seen = self.now + Duration::from_millis(20);
        self.put(seen, What::Input(Input::Pod { change, seen }));
    }

    fn take(&mut self, call: &Call) -> Answer {
        match call {
            Call::FindGroups { references } => {
                let arns = references.iter().map(|name| arn(name.to_string()[1..].parse().unwrap()));
                Answer::Groups(arns.map(|arn| TargetGroupFacts { arn, ..group() }).collect())
            }
            Call::ReadAttributes { .. } => Answer::Attributes(LeastHealthy::DEFAULT),
            Call::ReadHealth { group } => {
                let state = |(target, since): (&Target, &Moment)| {
                    let state = self.plans[target].state(*since, self.now);
                    (*target, Health { state, reason: "", zone: None })
                };
                Answer::Health(self.there.entry(group.clone()).or_default().iter().map(state).collect())
            }
            Call::Register { group, items } => {
                let targets = self.there.entry(group.clone()).or_default();
                for item in items {
                    targets.entry(item.target).or_insert(self.now);
                    self.registered.entry(item.target).or_default().push(self.now);
                }
                Answer::Done
            }
            Call::Deregister { group, items } => {
                for item in items {
                    self.there.entry(group.clone()).or_default().remove(&item.target);
                }
                Answer::Done
            }
        }
    }

    /// The most Describe calls of any second from then on.
    fn busiest(&self, from: Moment) -> usize {
        let (mut second, mut most) = (VecDeque::new(), 0);
        for call in self.describes.iter().filter(|call| **call >= from) {
            second.push_back(*call);
            while second.front().is_some_and(|first| call.since(*first) >= SECOND) {
                second.pop_front();
            }
            most = most.max(second.len());
        }
        most
    }
}

/// What became of a world.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    /// The most Describe calls of any second.
    pub busiest: usize,
    /// The longest time from a target's being healthy to the opening of its pod's gate.
    pub latest: Duration,
    /// How many Describe calls there were in a second on average in the end, when nothing had changed for minutes.
    pub calm: usize,
}

/// Each of so many groups has a target that is unhealthy for five minutes and more; a new pod comes to a quiet one every ten
/// seconds.
fn unhealthy(groups: usize, seed: u64) -> Result<Outcome, String> {
    let mut world = World::new(groups, Limits::default(), seed);
    for group in 0..groups {
        let (healthy, sick) = (group % 3 == 0, group % 2 == 0);
        // Some were healthy, others never; of some the gates stay closed; some never run.
        let sick = Some(if sick { at(SETTLED) } else { Moment::START });
        let plan = Plan { grows: Duration::from_secs(20), sick, well: None };
        let when = Moment::after_start(Duration::from_millis(1_000 + 10 * group as u64));
        let (key, _) = world.comes(group, true, when, plan);
        if group % 3 != 1 {
            world.put(when + SECOND, What::Runs(key));
        }
        if healthy {
            world.comes(group, false, when, Plan { sick: None, ..plan });
        }
    }
    let mut new = Vec::new();
    for nth in 0..30 {
        let when = at(SETTLED + nth * 10) + Duration::from_millis(world.rng.u64(0..5_000));
        let grows = Duration::from_millis(world.rng.u64(3_000..150_000));
        new.push(world.comes(QUIET, true, when, Plan { grows, sick: None, well: None }));
    }
    let (calm, end) = (at(SETTLED + 540), at(SETTLED + 600));
    world.run(end)?;
    let calls = world.describes.iter().filter(|call| **call >= calm).count();
    let mut outcome = Outcome { busiest: world.busiest(at(SETTLED)), calm: calls / 60, ..Outcome::default() };
    for (pod, target) in new {
        let opened = world.opened.get(&pod).ok_or_else(|| format!("the gate of {pod} was never opened"))?;
        let healthy = world.registered[&target][0] + world.plans[&target].grows;
        outcome.latest = outcome.latest.max(opened.since(healthy));
    }
    Ok(outcome)
}

/// Reads stay under half of the Describe calls though so many groups have an unhealthy target each, and a gate that waits in
/// another one is opened all the same when its target is healthy.
pub fn unhealthy_targets_starve_nobody(groups: usize, seed: u64) -> Result<Outcome, String> {
    let outcome = unhealthy(groups, seed)?;
    // Each is read every half minute by then, if there are calls for that.
    let calm = (groups / 30 + 2).min(16);
    if outcome.busiest > HALF || outcome.latest > SOON || outcome.calm > calm {
        return Err(format!("{groups} groups: {outcome:?}"));
    }
    Ok(outcome)
}

/// Pods that are unhealthy first, since they take their time to start, are not kept waiting for much longer than that.
pub fn slow_starters_do_not_wait(seed: u64) -> Result<(), String> {
    let mut world = World::new(0, Limits::default(), seed);
    for (nth, seconds) in (0..).zip([10_u64, 60, 250, 1_000]) {
        let when = at(10 + 2_000 * nth);
        let runs = when + Duration::from_secs(seconds);
        let checked = Duration::from_secs(world.rng.u64(5..40));
        let plan = Plan { grows: 3 * SECOND, sick: Some(when), well: Some(runs + checked) };
        let (pod, _) = world.comes(QUIET, true, when, plan);
        world.put(runs, What::Runs(pod.clone()));
        world.run(at(2_000 * (nth + 1)))?;
        let opened = world.opened.get(&pod).ok_or_else(|| format!("the gate of {pod} was never opened"))?;
        let late = opened.since(runs + checked);
        if late > SOON + checked / 8 {
            return Err(format!(
                "ready after {seconds} s, healthy {checked:?} later, opened {late:?} after that"
            ));
        }
    }
    Ok(())
}

/// Somebody takes targets out of one of so many groups: the first time that is noticed when it is read like any other, and
/// then soon; and the others cost no more than before.
pub fn what_others_take_out_is_put_back(groups: usize, seed: u64) -> Result<(), String> {
    let limits = Limits { changes: Limit { per_second: 100.0, burst: 100.0 }, ..Limits::default() };
    let mut world = World::new(groups, limits, seed);
    let plan = Plan { grows: 5 * SECOND, sick: None, well: None };
    let mut targets = Vec::new();
    for group in 0..groups {
        let when = Moment::after_start(Duration::from_millis(1_000 + 10 * group as u64));
        targets.push(world.comes(group, false, when, plan).1);
    }
    let mut all = vec![targets[7]];
    all.extend((0..9).map(|_| world.comes(7, false, at(3), plan).1));
    let taken = |nth: u64| at(if nth == 0 { 600 } else { 750 + 60 * (nth - 1) });
    for (nth, target) in (0..).zip(&all) {
        world.put(taken(nth), What::Taken(7, *target));
    }
    world.run(at(1_400))?;
    for (nth, target) in (0..).zip(&all) {
        let back = world.registered[target].iter().find(|at| **at > taken(nth));
        let after = back.ok_or_else(|| format!("{target} was not put back"))?.since(taken(nth));
        // The first time in turn with all others; then the sooner, the less time has passed since the last time.
        let most = Duration::from_secs(match nth {
            0 => 90,
            1 => 45,
            _ => 20,
        });
        if after > most {
            return Err(format!("target {nth} was put back {after:?} after it was taken out"));
        }
    }
    match world.busiest(at(300)) {
        ..=HALF => Ok(()),
        busiest => Err(format!("{busiest} Describe calls in a second")),
    }
}

/// All of that, with as few groups as show it.
pub fn all() -> Result<(), String> {
    (0..2).try_for_each(slow_starters_do_not_wait)?;
    unhealthy_targets_starve_nobody(200, 0)?;
    unhealthy_targets_starve_nobody(600, 0)?;
    what_others_take_out_is_put_back(100, 0)
}
