//! What AWS refuses, and what it costs the others: worlds of their own.
//!
//! AWS refuses calls that name certain targets. Of hundreds that it refuses alike it is asked a few times, and then once each
//! time; one bad target among good ones is found with few calls, and the good ones do not wait for it. A good pod of another
//! target group is registered at the same moment as in a world without all that.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, Ipv4Addr},
    time::Duration,
};

use headgate_core::{
    Settings,
    engine::{Effect, Engine, Input, Leadership},
    ledger::{LedgerRequest, LedgerVersion},
    model::{
        Call, Change, Failure, FailureClass, GroupRef, HealthState, LeastHealthy, Moment, ObjectKey,
        PodFacts, RequestId, Scope, ServiceFacts, Target, TargetGroupArn, TargetGroupFacts, Uid,
    },
    requests::{Answer, Request},
};

use crate::{
    objects::{group, pod, service},
    timeline::Timeline,
};

/// What AWS and Kubernetes take to answer.
const AWS: Duration = Duration::from_millis(40);
const KUBERNETES: Duration = Duration::from_millis(5);
/// Nothing of interest happens later.
const END: u64 = 700_000;
/// The bad group, and the good one.
const BAD: &str = "bad";
const GOOD: &str = "good";
/// Good pods come this often, from the first refusals on.
const GAIN: usize = 700;
const STEPS: u32 = 100_000;

fn at(ms: u64) -> Moment {
    Moment::after_start(Duration::from_millis(ms))
}

fn arn(name: &str) -> TargetGroupArn {
    let text =
        format!("arn:aws:elasticloadbalancing:us-east-1:123456789012:targetgroup/{name}/0123456789abcdef");
    TargetGroupArn::parse(&text).unwrap()
}

fn target(at: u16) -> Target {
    let [high, low] = at.to_be_bytes();
    Target::new(IpAddr::V4(Ipv4Addr::new(10, 0, high, low)), 80)
}

/// A pod of this app at that target.
fn pod_at(app: &str, at: u16) -> PodFacts {
    PodFacts {
        key: ObjectKey::new(crate::words::NAMESPACE, format!("pod-{at}")),
        uid: Uid::new(format!("uid-{at}")),
        ips: vec![target(at).ip],
        ..pod(app, 1)
    }
}

struct World {
    engine: Engine,
    now: Moment,
    /// Calls that name one of these are refused from this time until that.
    refuses: BTreeSet<Target>,
    from: Moment,
    until: Moment,
    there: BTreeMap<TargetGroupArn, BTreeSet<Target>>,
    events: Timeline<Input>,
    /// Each call that changes targets, and whether it was refused.
    sent: Vec<(Moment, Call, bool)>,
}

impl World {
    fn new() -> Self {
        let settings = Settings {
            region: "us-east-1".into(),
            scopes: vec![Scope::Cluster],
            seed: 1,
            ..Settings::default()
        };
        let mut world = Self {
            engine: Engine::new(settings),
            now: Moment::START,
            refuses: BTreeSet::new(),
            from: Moment::START,
            until: at(END),
            there: [BAD, GOOD].map(|name| (arn(name), BTreeSet::new())).into(),
            events: Timeline::default(),
            sent: Vec::new(),
        };
        let start = Moment::START;
        let bound =
            |name: &str| ServiceFacts { target_groups: Some(format!("http={name}").into()), ..service(name) };
        let services = vec![bound(BAD), bound(GOOD)];
        world.put(start, Input::Leadership(Leadership::Leading { term: 1, is_settled: true }));
        world
            .put(start, Input::Binding { change: Change::Relisted(Scope::Cluster, Vec::new()), seen: start });
        world.put(start, Input::Service { change: Change::Relisted(Scope::Cluster, services), seen: start });
        world.put(start, Input::Pod { change: Change::Relisted(Scope::Cluster, Vec::new()), seen: start });
        world
    }

    fn put(&mut self, at: Moment, input: Input) {
        self.events.put(at, input);
    }

    fn comes(&mut self, ms: u64, pod: PodFacts) {
        self.put(at(ms), Input::Pod { change: Change::Applied(pod), seen: at(ms) });
    }

    fn goes(&mut self, ms: u64, pod: PodFacts) {
        self.comes(ms, PodFacts { terminating: true, ..pod });
    }

    fn run(mut self) -> Result<Self, String> {
        let mut steps = 0;
        loop {
            steps += 1;
            if steps > STEPS {
                return Err(format!("woken again and again at {:?}", self.now));
            }
            let wakes = self.engine.next_wakeup(self.now).map(|due| due.max(self.now));
            let happens = self.events.next();
            let Some(next) = wakes.into_iter().chain(happens).min().filter(|next| *next < at(END)) else {
                return Ok(self);
            };
            self.now = next;
            let input = self.events.take(next).unwrap_or(Input::Tick);
            for effect in self.engine.step(input, self.now) {
                if let Effect::Send { id, request, .. } = effect {
                    self.carry_out(id, request)?;
                }
            }
        }
    }

    fn carry_out(&mut self, id: RequestId, request: Request) -> Result<(), String> {
        let (after, result) = match request {
            Request::Call(call) => (AWS, self.call(call)),
            Request::Ledger(LedgerRequest::LoadAll) => (KUBERNETES, Ok(Answer::Ledgers(Vec::new()))),
            Request::Ledger(LedgerRequest::Load(_)) => (KUBERNETES, Ok(Answer::Ledger(None))),
            Request::Ledger(LedgerRequest::Write(..)) => {
                (KUBERNETES, Ok(Answer::Written(LedgerVersion::new(id.0.to_string()))))
            }
            Request::Ledger(LedgerRequest::Delete(..)) => (KUBERNETES, Ok(Answer::Done)),
            other => return Err(format!("nobody should ask for {other:?}")),
        };
        self.put(self.now + after, Input::Answered { id, result });
        Ok(())
    }

    fn call(&mut self, call: Call) -> Result<Answer, Failure> {
        match &call {
            Call::FindGroups { references } => {
                let facts = |reference: &GroupRef| match reference {
                    GroupRef::Name(name) => TargetGroupFacts { arn: arn(name), ..group() },
                    GroupRef::Arn(arn) => TargetGroupFacts { arn: arn.clone(), ..group() },
                };
                return Ok(Answer::Groups(references.iter().map(facts).collect()));
            }
            Call::ReadAttributes { .. } => return Ok(Answer::Attributes(LeastHealthy::DEFAULT)),
            Call::ReadHealth { group } => {
                let there = self.there[group].iter();
                return Ok(Answer::Health(there.map(|it| (*it, HealthState::Healthy.into())).collect()));
            }
            Call::Register { group, items } | Call::Deregister { group, items } => {
                let fails = (self.from..self.until).contains(&self.now);
                if fails && items.iter().any(|item| self.refuses.contains(&item.target)) {
                    self.sent.push((self.now, call, true));
                    return Err(Failure::new(FailureClass::Refused, "InvalidTarget", "not in the VPC"));
                }
                let there = self.there.get_mut(group).unwrap();
                for item in items {
                    if matches!(call, Call::Register { .. }) {
                        there.insert(item.target);
                    } else {
                        there.remove(&item.target);
                    }
                }
            }
        }
        self.sent.push((self.now, call, false));
        Ok(Answer::Done)
    }

    /// The moments of the calls about a group, registrations or removals, and whether each was refused.
    fn calls(&self, name: &str, removals: bool) -> Vec<(Moment, bool)> {
        let is_it = |call: &Call| {
            call.group().is_some_and(|group| group.name() == name)
                && matches!(call, Call::Deregister { .. }) == removals
        };
        self.sent.iter().filter(|(_, call, _)| is_it(call)).map(|(at, _, refused)| (*at, *refused)).collect()
    }
}

fn expect(holds: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what()) }
}

/// Good pods come and go, and with `bad` five hundred pods of another target group that are all refused.
fn beside(bad: u16) -> Result<World, String> {
    let mut world = World::new();
    world.refuses = (1_000..1_000 + bad).map(target).collect();
    for nth in 0..bad {
        world.comes(1_000, pod_at(BAD, 1_000 + nth));
    }
    for (nth, ms) in (1_050..END - 10_000).step_by(GAIN).enumerate() {
        let good = pod_at(GOOD, 2_000 + u16::try_from(nth).unwrap());
        world.comes(ms, good.clone());
        world.goes(ms + 500, good);
    }
    world.run()
}

/// Of 500 targets of a group that are all refused AWS is asked a few times at first, and then once each time; and the good
/// pods of another group are registered, and taken out, as early as without them.
fn many_are_refused_alike() -> Result<(), String> {
    let (with, without) = (beside(500)?, beside(0)?);
    let calls = with.calls(BAD, false);
    let first = calls.iter().filter(|(sent, _)| *sent < at(10_000)).count();
    expect((4..=10).contains(&first), || format!("{first} calls at first: {calls:?}"))?;
    let later = calls.len() - first;
    expect((4..=8).contains(&later), || format!("{later} calls later: {calls:?}"))?;
    for removals in [false, true] {
        let (here, there) = (with.calls(GOOD, removals), without.calls(GOOD, removals));
        expect(here.len() == there.len(), || format!("{} calls, and {}", here.len(), there.len()))?;
        for ((here, _), (there, _)) in here.iter().zip(&there) {
            let late = here.since(*there);
            expect(late <= KUBERNETES, || format!("{late:?} later than without them, at {there:?}"))?;
        }
    }
    Ok(())
}

/// One of a hundred is refused, or its removal: the others do not wait for it, and it is taken when AWS takes it.
fn one_is_refused(removals: bool) -> Result<(), String> {
    let mut world = World::new();
    let (comes, goes, mended) = (1_000, 100_000, 300_000);
    world.refuses = BTreeSet::from([target(1_003)]);
    (world.from, world.until) = (at(if removals { goes } else { 0 }), at(mended));
    for nth in 1_000..1_100 {
        world.comes(comes, pod_at(BAD, nth));
        if removals {
            world.goes(goes, pod_at(BAD, nth));
        }
    }
    let world = world.run()?;
    let calls = world.calls(BAD, removals);
    let begins = if removals { goes } else { comes };
    let soon = calls.iter().filter(|(sent, _)| *sent < at(begins + 8_000)).count();
    expect(soon <= 16, || format!("{soon} calls: {calls:?}"))?;
    let taken = calls.iter().filter(|(sent, refused)| !refused && *sent < at(mended)).map(|(sent, _)| *sent);
    let last = taken.max().unwrap_or(at(END));
    expect(last < at(begins + 8_000), || format!("the last of the others waits until {last:?}"))?;
    let there = world.there[&arn(BAD)].len();
    let should_be = if removals { 0 } else { 100 };
    expect(there == should_be, || format!("{there} targets in the end, and not {should_be}: {calls:?}"))?;
    expect(calls.len() - soon <= 10, || format!("tried again too often: {calls:?}"))
}

/// Plays all of them.
///
/// # Errors
/// What is not as it should be.
pub fn all() -> Result<(), String> {
    many_are_refused_alike().map_err(|why| format!("many: {why}"))?;
    one_is_refused(false).map_err(|why| format!("one registration: {why}"))?;
    one_is_refused(true).map_err(|why| format!("one removal: {why}"))
}
