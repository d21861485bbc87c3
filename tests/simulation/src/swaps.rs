//! Sets that are replaced as a whole, as for blue/green: a Service that comes to select other pods. Worlds of their own.
//!
//! Old pods serve, and new ones are there. The selector moves. Each new one becomes healthy after a while, or never. Meanwhile
//! old pods may end, as Argo Rollouts has it, and another replica may come to lead.
//!
//! * The load balancer has as many healthy targets as before, less those whose pods have ended; a new leader, which does not know how many there were, keeps as many as the smaller set has.
//! * When all of the new are healthy, or some and the grace is over, the old are gone; while none is, they stay.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use headgate_core::{
    Answer, Call, Change, Effect, Engine, Input, Leadership, Moment, Reason, Request, RequestId, Scope,
    Settings,
    ledger::{LedgerRequest, LedgerVersion, StoredLedger, object_name},
    model::{HealthState, Labels, LeastHealthy, PodFacts, ServiceFacts, Target},
};

use crate::objects::{everything_is_granted, group, pod, service};
use crate::words::ip;

const WORLDS: u64 = 300;
const SECOND: Duration = Duration::from_secs(1);
const GRACE: Duration = Duration::from_secs(60);
/// When the selector moves, in seconds.
const SWAP: u64 = 10;
/// So much later everything has become of it that will.
const END: u64 = 240;
/// The addresses of the new begin after this one.
const NEW: u8 = 100;

/// The first of these worlds that is not as it should be, and how.
pub fn first_broken() -> Option<String> {
    (0..WORLDS).find_map(|seed| World::new(seed).run().err().map(|broken| format!("world {seed}: {broken}")))
}

struct World {
    engine: Engine,
    rng: fastrand::Rng,
    now: Moment,
    ledger: Option<StoredLedger>,
    version: u32,
    reads: Vec<RequestId>,
    /// The pods that are there, by the last part of their address.
    pods: BTreeMap<u8, PodFacts>,
    service: ServiceFacts,
    /// What AWS has: each from when on it is healthy, if ever.
    aws: BTreeMap<u8, Option<Moment>>,
    /// After how many seconds each of the new is healthy, if ever.
    new: BTreeMap<u8, Option<u64>>,
    said: usize,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let (old, new) = (rng.u8(1..=8), rng.u8(1..=8));
        // All, some, or none of them.
        let good = rng.u8(0..6);
        let after = |rng: &mut fastrand::Rng| match good {
            0 => None,
            1 => rng.bool().then(|| rng.u64(1..40)),
            _ => Some(rng.u64(1..40)),
        };
        let new = (1..=new).map(|at| (NEW + at, after(&mut rng))).collect();
        let pods = (1..=old).map(|at| (at, pod("web", at)));
        let mut world = Self {
            engine: Self::engine(seed),
            rng,
            now: Moment::START,
            ledger: None,
            version: 0,
            reads: Vec::new(),
            pods: pods.collect(),
            service: service("web"),
            aws: BTreeMap::new(),
            new,
            said: 0,
        };
        let green: Vec<u8> = world.new.keys().copied().collect();
        world.pods.extend(green.into_iter().map(|at| (at, pod("green", at))));
        world
    }

    fn engine(seed: u64) -> Engine {
        Engine::new(Settings {
            region: "us-east-1".into(),
            scopes: vec![Scope::Cluster],
            replacement_grace: GRACE,
            seed,
            ..Settings::default()
        })
    }

    fn run(&mut self) -> Result<(), String> {
        self.begins();
        let old: Vec<u8> = self.pods.keys().copied().filter(|at| *at <= NEW).collect();
        // Of a third of the worlds, the old pods end by themselves.
        let ends: BTreeMap<u8, u64> = match self.rng.u8(0..3) {
            0 => old.iter().map(|at| (*at, SWAP + self.rng.u64(1..120))).collect(),
            _ => BTreeMap::new(),
        };
        let another_leads = Some(SWAP + self.rng.u64(1..60)).filter(|_| self.rng.u8(0..3) == 0);
        let (mut has_led, mut full) = (false, false);
        for second in 1..=SWAP + END {
            if second == SWAP {
                self.service.selector = Labels::from_iter([("app", "green")]);
                self.says_service();
            }
            for (at, _) in ends.iter().filter(|(_, end)| **end == second) {
                if let Some(pod) = self.pods.remove(at) {
                    self.step(Input::Pod { change: Change::Deleted(pod), seen: self.now });
                }
            }
            if another_leads == Some(second) {
                has_led = true;
                self.engine = Self::engine(second);
                self.begins();
            }
            self.passes();
            if second < SWAP {
                continue;
            }
            let served = self.healthy().iter().filter(|at| **at > NEW).count();
            full |= served == self.new.len();
            let ended = old.iter().filter(|at| !self.pods.contains_key(at)).count();
            let before = old.len() - ended;
            let least = if has_led { before.min(self.new.len()) } else { before };
            let is_over = served > 0 && self.last_healthy().is_none_or(|at| self.now.since(at) >= GRACE);
            if !full && !is_over && self.healthy().len() < least {
                return Err(format!(
                    "after {second} s {:?} are healthy, and {least} should be",
                    self.healthy()
                ));
            }
            if full && self.healthy().len() < self.new.len() {
                return Err(format!("after {second} s only {:?} are healthy", self.healthy()));
            }
        }
        let serves = self.new.values().any(Option::is_some);
        let there: BTreeSet<u8> = self.aws.keys().copied().collect();
        let stay: Vec<u8> = old.into_iter().filter(|at| !serves && self.pods.contains_key(at)).collect();
        let should: BTreeSet<u8> = self.new.keys().copied().chain(stay.iter().copied()).collect();
        if there != should {
            return Err(format!("at the end AWS has {there:?}, and should have {should:?}"));
        }
        if !stay.is_empty() && self.said == 0 {
            return Err("nobody is told that the old ones stay".to_owned());
        }
        Ok(())
    }

    /// A replica begins to lead, and has seen all there is.
    fn begins(&mut self) {
        self.reads.clear();
        self.step(everything_is_granted());
        let change = Change::Relisted(Scope::Cluster, vec![]);
        self.step(Input::Binding { change, seen: self.now });
        let change = Change::Relisted(Scope::Cluster, vec![self.service.clone()]);
        self.step(Input::Service { change, seen: self.now });
        let change = Change::Relisted(Scope::Cluster, self.pods.values().cloned().collect());
        self.step(Input::Pod { change, seen: self.now });
        self.step(Input::Leadership(Leadership::Leading { term: 1, is_settled: true }));
    }

    fn says_service(&mut self) {
        let change = Change::Applied(self.service.clone());
        self.step(Input::Service { change, seen: self.now });
    }

    fn passes(&mut self) {
        self.now = self.now + SECOND;
        self.step(Input::Tick);
        let healthy = self.healthy();
        let state = |at: &u8| {
            let is_healthy = healthy.contains(at);
            let dead = !is_healthy && self.aws[at].is_none();
            match (is_healthy, dead) {
                (true, _) => HealthState::Healthy,
                (_, true) => HealthState::Unhealthy,
                _ => HealthState::Initial,
            }
        };
        let states =
            self.aws.keys().map(|at| (Target::new(ip(*at), 80), state(at).into())).collect::<Vec<_>>();
        for id in std::mem::take(&mut self.reads) {
            self.step(Input::Answered { id, result: Ok(Answer::Health(states.clone())) });
        }
    }

    /// What the load balancer sends to, and answers.
    fn healthy(&self) -> BTreeSet<u8> {
        let is = |(at, since): (&u8, &Option<Moment>)| {
            (since.is_some_and(|since| self.now >= since) && self.pods.contains_key(at)).then_some(*at)
        };
        self.aws.iter().filter_map(is).collect()
    }

    /// When the last of the new became healthy, or will.
    fn last_healthy(&self) -> Option<Moment> {
        let new = self.aws.iter().filter(|(at, _)| **at > NEW);
        new.filter_map(|(_, since)| *since).filter(|since| *since <= self.now).max()
    }

    fn step(&mut self, input: Input) {
        for effect in self.engine.step(input, self.now) {
            match effect {
                Effect::Send { id, request: Request::Call(Call::ReadHealth { .. }), .. } => {
                    self.reads.push(id);
                }
                Effect::Send { id, request, .. } => {
                    let answer = self.answer(request);
                    self.step(Input::Answered { id, result: Ok(answer) });
                }
                Effect::Notice(notice) => self.said += usize::from(notice.reason == Reason::RemovalHeld),
                _ => {}
            }
        }
    }

    fn answer(&mut self, request: Request) -> Answer {
        let last = |target: &Target| (1..=u8::MAX).find(|at| ip(*at) == target.ip).unwrap_or_default();
        match request {
            Request::Call(Call::FindGroups { .. }) => return Answer::Groups(vec![group()]),
            Request::Call(Call::ReadAttributes { .. }) => return Answer::Attributes(LeastHealthy::DEFAULT),
            Request::Call(Call::Register { items, .. }) => {
                for at in items.iter().map(|item| last(&item.target)) {
                    let after = self.new.get(&at).copied().unwrap_or(Some(1));
                    self.aws.entry(at).or_insert(after.map(|after| self.now + Duration::from_secs(after)));
                }
            }
            Request::Call(Call::Deregister { items, .. }) => {
                for item in &items {
                    self.aws.remove(&last(&item.target));
                }
            }
            Request::Ledger(LedgerRequest::LoadAll) => {
                return Answer::Ledgers(self.ledger.iter().cloned().collect());
            }
            Request::Ledger(LedgerRequest::Load(_)) => return Answer::Ledger(self.ledger.clone()),
            Request::Ledger(LedgerRequest::Write(_, ledger)) => {
                self.version += 1;
                let version = LedgerVersion::new(self.version.to_string());
                let name = object_name(&ledger.group).into();
                self.ledger = Some(StoredLedger { name, version: version.clone(), content: Ok(ledger) });
                return Answer::Written(version);
            }
            _ => {}
        }
        Answer::Done
    }
}
