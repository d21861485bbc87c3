//! Two accounts with target groups of equal names: neither touches the other.
//!
//! Pods come and go in both, in bursts that need more calls than there are tokens. AWS of one account then throttles, fails,
//! loses answers and takes its time. The same world is run once more without that: in the healthy account each target
//! is registered and taken out at the same times.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use headgate_core::{
    Settings,
    engine::{Effect, Engine, Input, Leadership},
    ledger::{LedgerRequest, LedgerVersion},
    model::{
        Call, Change, Failure, FailureClass, GroupRef, Health, HealthState, LeastHealthy, Moment, PodFacts,
        RequestId, Scope, ServiceFacts, Target, TargetGroupArn, TargetGroupFacts,
        rates::{AccountKey, Limit, Limits},
        target_group::list,
    },
    requests::{Answer, Request},
};

use crate::{
    objects::{group, pod, service},
    timeline::Timeline,
};

/// The first is Headgate's own; what is said of it by name, is said of the other one by ARN.
const ACCOUNTS: [&str; 2] = ["123456789012", "999999999999"];
const NAMES: [&str; 3] = ["blue", "green", "red"];
/// Pods of each account.
const PODS: u8 = 100;
const WORLDS: u64 = 50;
/// All target groups are found by then: the jitter of each hangs on the order in which they were.
const FOUND: u64 = 1_000;
/// From then on nothing happens and nothing fails.
const CALM: u64 = 100_000;
const END: u64 = 240_000;
const LATENCY: u64 = 40;
/// What a token takes to come.
const TOKEN: Duration = Duration::from_millis(500);
/// Of some 150.
const FEW: usize = 5;
/// Some 2,000 are needed.
const STEPS: u32 = 50_000;

fn at(ms: u64) -> Moment {
    Moment::after_start(Duration::from_millis(ms))
}

fn arn(account: usize, name: &str) -> TargetGroupArn {
    let id = ACCOUNTS[account];
    let text = format!("arn:aws:elasticloadbalancing:us-east-1:{id}:targetgroup/{name}/{account:016x}");
    TargetGroupArn::parse(&text).unwrap()
}

fn account_of(group: &TargetGroupArn) -> usize {
    ACCOUNTS.iter().position(|id| *id == group.account()).unwrap()
}

/// A call to an account, and when it was sent.
type Sent = (Moment, String);

struct World {
    engine: Engine,
    now: Moment,
    rng: fastrand::Rng,
    /// The account whose AWS fails.
    faulty: Option<usize>,
    /// What AWS has, and since when.
    there: BTreeMap<TargetGroupArn, BTreeMap<Target, Moment>>,
    events: Timeline<Input>,
    sent: [Vec<Sent>; 2],
    /// The targets that should be there in the end.
    wanted: BTreeSet<(TargetGroupArn, Target)>,
}

impl World {
    fn new(seed: u64, faulty: Option<usize>) -> Self {
        let key =
            AccountKey { id: ACCOUNTS[1].into(), region: "us-east-1".into(), role: "arn:aws:iam::x".into() };
        let limits = Limits {
            changes: Limit { per_second: 2.0, burst: 6.0 },
            reads: Limit { per_second: 20.0, burst: 40.0 },
        };
        let settings = Settings {
            accounts: vec![key],
            scopes: vec![Scope::Cluster],
            limits,
            seed,
            ..Settings::default()
        };
        let there =
            (0..2).flat_map(|account| NAMES.map(|name| (arn(account, name), BTreeMap::new()))).collect();
        let mut world = Self {
            engine: Engine::new(settings),
            now: Moment::START,
            rng: fastrand::Rng::with_seed(seed),
            faulty,
            there,
            events: Timeline::default(),
            sent: [Vec::new(), Vec::new()],
            wanted: BTreeSet::new(),
        };
        world.plan();
        world
    }

    fn put(&mut self, at: Moment, input: Input) {
        self.events.put(at, input);
    }

    /// Which pods come and go when, for chance to say before anything fails.
    fn plan(&mut self) {
        let start = Moment::START;
        let mut services = Vec::new();
        for (account, name) in (0..2).flat_map(|account| NAMES.map(|name| (account, name))) {
            let app = format!("{name}-{account}");
            let meant = if account == 0 { name.to_owned() } else { arn(account, name).to_string() };
            services
                .push(ServiceFacts { target_groups: Some(format!("http={meant}").into()), ..service(&app) });
        }
        self.put(start, Input::Leadership(Leadership::Leading { term: 1, is_settled: true }));
        self.put(start, Input::Binding { change: Change::Relisted(Scope::Cluster, Vec::new()), seen: start });
        self.put(start, Input::Service { change: Change::Relisted(Scope::Cluster, services), seen: start });
        self.put(start, Input::Pod { change: Change::Relisted(Scope::Cluster, Vec::new()), seen: start });
        let bursts: Vec<u64> = (0..6).map(|_| self.rng.u64(1_000..CALM - 10_000)).collect();
        for (account, last) in (0..2).flat_map(|account| (0..PODS).map(move |last| (account, last))) {
            let name = NAMES[self.rng.usize(0..NAMES.len())];
            let last = if account == 0 { last } else { 128 + last };
            let it = pod(&format!("{name}-{account}"), last);
            let mut moment = |from: u64| {
                let burst = bursts[self.rng.usize(0..bursts.len())] + self.rng.u64(0..2_000);
                from.max(if self.rng.bool() { burst } else { self.rng.u64(0..CALM - 10_000) })
            };
            let comes = moment(1);
            let goes = moment(comes + 500);
            self.say(comes, Change::Applied(it.clone()));
            if self.rng.u8(0..4) == 0 {
                self.wanted.insert((arn(account, name), Target::new(it.ips[0], 80)));
            } else {
                self.say(goes, Change::Applied(PodFacts { terminating: true, ..it.clone() }));
                self.say(goes + 3_000, Change::Deleted(PodFacts { terminating: true, ..it }));
            }
        }
    }

    fn say(&mut self, after: u64, change: Change<PodFacts>) {
        self.put(at(after), Input::Pod { change, seen: at(after) });
    }

    /// Runs to the end.
    fn run(mut self) -> Result<[Vec<Sent>; 2], String> {
        let mut steps = 0;
        loop {
            steps += 1;
            if steps > STEPS {
                return Err(format!("woken again and again at {:?}", self.now));
            }
            let wakes = self.engine.next_wakeup(self.now).map(|due| due.max(self.now));
            let happens = self.events.next();
            let Some(next) = wakes.into_iter().chain(happens).min().filter(|next| *next < at(END)) else {
                break;
            };
            self.now = next;
            let input = self.events.take(next).unwrap_or(Input::Tick);
            for effect in self.engine.step(input, self.now) {
                if let Effect::Send { id, request, .. } = effect {
                    self.carry_out(id, request)?;
                }
            }
        }
        let there = self.there.iter();
        let there = there.flat_map(|(group, targets)| targets.keys().map(|target| (group.clone(), *target)));
        let there: BTreeSet<_> = there.collect();
        if there == self.wanted { Ok(self.sent) } else { Err("AWS has not what it should".to_owned()) }
    }

    fn carry_out(&mut self, id: RequestId, request: Request) -> Result<(), String> {
        // At once: when a ledger notes what is not urgent depends on when its group is looked at next, also beside others.
        let at_once = Duration::ZERO;
        let (after, result) = match request {
            Request::Call(call) => self.call(&call)?,
            Request::Ledger(LedgerRequest::LoadAll) => (at_once, Ok(Answer::Ledgers(Vec::new()))),
            Request::Ledger(LedgerRequest::Load(_)) => (at_once, Ok(Answer::Ledger(None))),
            Request::Ledger(LedgerRequest::Write(..)) => {
                (at_once, Ok(Answer::Written(LedgerVersion::new(id.0.to_string()))))
            }
            Request::Ledger(LedgerRequest::Delete(..)) => (at_once, Ok(Answer::Done)),
            other => return Err(format!("nobody should ask for {other:?}")),
        };
        self.put(self.now + after, Input::Answered { id, result });
        Ok(())
    }

    /// AWS takes a call, or not; says how and after which time it answers.
    fn call(&mut self, call: &Call) -> Result<(Duration, Result<Answer, Failure>), String> {
        let account = call.group().map_or(0, account_of);
        if let Call::Register { items, .. } | Call::Deregister { items, .. } = call
            && !items.iter().all(|item| is_of(account, &item.target))
        {
            return Err(format!("a pod of another account: {call:?}"));
        }
        let text = match call {
            Call::Register { group, items } | Call::Deregister { group, items } => {
                let targets: Vec<String> = items.iter().map(|item| item.target.to_string()).collect();
                format!("{} {} {}", call.action(), group.name(), targets.join(" "))
            }
            Call::ReadHealth { group } | Call::ReadAttributes { group } => {
                format!("{} {}", call.action(), group.name())
            }
            Call::FindGroups { references } => format!("{} {}", call.action(), list(references)),
        };
        self.sent[account].push((self.now, text));
        let fails = self.faulty == Some(account) && (at(FOUND)..at(CALM)).contains(&self.now);
        let fate = if fails { self.rng.u8(0..100) } else { 100 };
        let slow = Duration::from_millis(if fails { self.rng.u64(30..4_000) } else { LATENCY });
        let failure = |class| Err(Failure::new(class, "Code", "text"));
        Ok(match fate {
            0..30 => (slow, failure(FailureClass::Throttled)),
            30..40 => (Duration::from_secs(8), failure(FailureClass::Unavailable)),
            40..50 => {
                let _ = self.take(call);
                (Duration::from_secs(8), failure(FailureClass::Unavailable))
            }
            50..55 => (slow, failure(FailureClass::Denied)),
            _ => (slow, Ok(self.take(call))),
        })
    }

    fn take(&mut self, call: &Call) -> Answer {
        let now = self.now;
        match call {
            Call::FindGroups { references } => {
                let arns = references.iter().map(|reference| match reference {
                    GroupRef::Name(name) => arn(0, name),
                    GroupRef::Arn(arn) => arn.clone(),
                });
                Answer::Groups(arns.map(|arn| TargetGroupFacts { arn, ..group() }).collect())
            }
            Call::ReadAttributes { .. } => Answer::Attributes(LeastHealthy::DEFAULT),
            Call::ReadHealth { group } => {
                let health = |since: &Moment| {
                    let grown = now.since(*since) >= Duration::from_secs(3);
                    let state = if grown { HealthState::Healthy } else { HealthState::Initial };
                    Health { state, reason: "", zone: None }
                };
                let targets = &self.there[group];
                Answer::Health(targets.iter().map(|(target, since)| (*target, health(since))).collect())
            }
            Call::Register { group, items } => {
                let targets = self.there.get_mut(group).unwrap();
                for item in items {
                    targets.entry(item.target).or_insert(now);
                }
                Answer::Done
            }
            Call::Deregister { group, items } => {
                let targets = self.there.get_mut(group).unwrap();
                for item in items {
                    targets.remove(&item.target);
                }
                Answer::Done
            }
        }
    }
}

/// Whether a target is a pod of this account.
fn is_of(account: usize, target: &Target) -> bool {
    match target.ip {
        std::net::IpAddr::V4(ip) => (ip.octets()[3] < 128) == (account == 0),
        std::net::IpAddr::V6(_) => false,
    }
}

/// When each target was registered, or taken out.
fn changes(sent: &[Sent]) -> BTreeMap<(String, String), Vec<Moment>> {
    let mut all: BTreeMap<_, Vec<Moment>> = BTreeMap::new();
    for (at, text) in sent {
        let mut words = text.split(' ');
        let call = [words.next(), words.next()].map(Option::unwrap_or_default).join(" ");
        for target in words {
            all.entry((call.clone(), target.to_owned())).or_default().push(*at);
        }
    }
    all
}

/// Whether the targets of an account are registered and taken out as often in both worlds, and at the same times but for
/// one token: all but a few, since which of two things comes first at a moment may hang on a microsecond, and a pod that
/// lives for a moment is registered then or not.
fn same(with: &[Sent], without: &[Sent]) -> Result<(), String> {
    let far = |(a, b): (&Moment, &Moment)| a.since(*b).max(b.since(*a)) > TOKEN;
    let (with, without) = (changes(with), changes(without));
    let all: BTreeSet<_> = with.keys().chain(without.keys()).collect();
    let differs = |what: &&(String, String)| {
        let at = |changes: &BTreeMap<_, Vec<Moment>>| changes.get(*what).cloned().unwrap_or_default();
        let (one, other) = (at(&with), at(&without));
        one.len() != other.len() || one.iter().zip(&other).any(far)
    };
    let others: Vec<_> = all.iter().copied().filter(differs).collect();
    if others.len() <= FEW {
        Ok(())
    } else {
        Err(format!("{} of {} changes: {others:?}", others.len(), all.len()))
    }
}

/// Runs a world with the faults of one account, and without.
fn check(seed: u64, faulty: usize) -> Result<usize, String> {
    let (with, without) = (World::new(seed, Some(faulty)).run()?, World::new(seed, None).run()?);
    let healthy = 1 - faulty;
    same(&with[healthy], &without[healthy])?;
    if same(&with[faulty], &without[faulty]).is_ok() {
        return Err("nothing has failed".to_owned());
    }
    Ok(with[healthy].len())
}

/// What is broken in the first world in which anything is.
pub fn first_broken() -> Option<String> {
    let worlds = (0..WORLDS).flat_map(|seed| [(seed, 0), (seed, 1)]);
    let mut broken = worlds
        .map(|(seed, faulty)| check(seed, faulty).map_err(|why| format!("{seed}: {faulty} fails: {why}")));
    broken.find_map(Result::err)
}
