//! Bursts of removals behind AWS's limits and latency, compared with the earliest that AWS's bucket allows.
//!
//! AWS counts when a call arrives: at some time after it was sent, and before its answer. The bucket here is AWS's own, so
//! it says which calls are refused; the lanes only see answers.

use std::{
    collections::{BTreeMap, VecDeque},
    ops::Range,
    time::Duration,
};

use headgate_core::{
    Moment,
    model::{
        TargetGroupArn,
        limits::{Due, Limit, Limits},
    },
    rate_limit::{Lane, Lanes, MAX_TARGETS_PER_CALL, Ticket},
};

/// A pod that goes is replaced after this time.
const REPLACED_AFTER: Duration = Duration::from_millis(60);
/// A group is called again this long after a refusal.
const BACKOFF: Duration = Duration::from_millis(100);
/// So often is each played.
const SEEDS: u64 = 4;

/// How long calls take, in milliseconds.
#[derive(Clone, Debug)]
pub struct Latency {
    /// Until they are answered.
    answer: Range<u64>,
    /// Until they arrive, at most; never after their answer.
    arrival: u64,
}

/// None at all.
pub const NONE: Latency = Latency { answer: 0..1, arrival: 0 };
/// As it is measured: 30 to 250 ms to the answer, most of it after AWS has counted the call.
pub const USUAL: Latency = Latency { answer: 30..250, arrival: 25 };
/// The same, and a call may be counted at any time before its answer.
pub const WORST: Latency = Latency { answer: 30..250, arrival: 250 };

fn arn(at: usize) -> TargetGroupArn {
    let text =
        format!("arn:aws:elasticloadbalancing:us-east-1:123456789012:targetgroup/g{at}/0123456789abcdef");
    TargetGroupArn::parse(&text).unwrap()
}

/// AWS's bucket, with AWS's clock.
struct Account {
    limit: Limit,
    tokens: f64,
    filled: Moment,
    /// When calls of another program arrive.
    others: VecDeque<Moment>,
}

impl Account {
    fn new(others: impl Iterator<Item = Moment>) -> Self {
        let limit = Limits::default().changes;
        Self { limit, tokens: limit.burst, filled: Moment::START, others: others.collect() }
    }

    /// A call arrives: whether it is accepted. A refused one takes no token.
    fn accepts(&mut self, now: Moment) -> bool {
        while self.others.front().is_some_and(|at| *at <= now) {
            if let Some(at) = self.others.pop_front() {
                self.take(at);
            }
        }
        self.take(now)
    }

    fn take(&mut self, now: Moment) -> bool {
        let gained = now.since(self.filled).as_secs_f64() * self.limit.per_second;
        self.tokens = (self.tokens + gained).min(self.limit.burst);
        self.filled = self.filled.max(now);
        let accepted = self.tokens >= 1.0;
        self.tokens -= if accepted { 1.0 } else { 0.0 };
        accepted
    }
}

/// A burst: pods that go, each in a group, and when.
#[derive(Clone)]
struct Burst {
    what: String,
    groups: Vec<TargetGroupArn>,
    /// Milliseconds and group, in order.
    gone: Vec<(u64, usize)>,
    /// Whether others come in their place.
    replaced: bool,
}

impl Burst {
    /// `pods` pods of `count` groups go within `ms`, group by group or in turn.
    fn new(pods: usize, count: usize, ms: usize, grouped: bool) -> Self {
        let group = |pod: usize| if grouped { pod * count / pods } else { pod % count };
        let gone = (0..pods).map(|pod| ((pod * ms / pods) as u64, group(pod))).collect();
        let groups = (0..count).map(arn).collect();
        let how = if grouped { "grouped" } else { "interleaved" };
        let what = format!("{pods} pods, {count} groups, {ms} ms, {how}");
        Self { what, groups, gone, replaced: false }
    }

    /// Nothing goes for a while in the middle, as when the API server is busy; the rest comes later.
    fn stalled(self, pause: u64) -> Self {
        let middle = self.gone[self.gone.len() / 2].0;
        let late = |(ms, group): (u64, usize)| (if ms >= middle { ms + pause } else { ms }, group);
        let gone = self.gone.into_iter().map(late).collect();
        Self { what: format!("{}, stalled for {pause} ms", self.what), gone, ..self }
    }

    fn replaced(self) -> Self {
        Self { what: self.what + ", replaced", replaced: true, ..self }
    }

    /// When the last call could arrive at the earliest, knowing everything in advance: of each group as few calls as
    /// carry its pods, each as soon as the last of them has gone and there is a token.
    fn earliest(&self) -> Moment {
        let mut of = vec![Vec::new(); self.groups.len()];
        for (ms, group) in &self.gone {
            of[*group].push(*ms);
        }
        let calls =
            of.iter().flat_map(|of| of.rchunks(MAX_TARGETS_PER_CALL).map(|call| call[call.len() - 1]));
        let mut last: Vec<u64> = calls.collect();
        last.sort_unstable();
        let (mut account, mut now) = (Account::new(std::iter::empty()), Moment::START);
        for ms in last {
            now = now.max(at(ms));
            while !account.accepts(now) {
                now = now + Duration::from_millis(1);
            }
        }
        now
    }
}

fn at(ms: u64) -> Moment {
    Moment::after_start(Duration::from_millis(ms))
}

/// A call under way.
struct Sent {
    group: usize,
    is_removal: bool,
    causes: Vec<Moment>,
    ticket: Ticket,
    arrives: Moment,
    answered: Moment,
    accepted: Option<bool>,
}

/// How a burst went.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Outcome {
    /// When the last accepted removal arrived, and the last registration.
    last: Moment,
    last_addition: Moment,
    calls: usize,
    additions: usize,
    refused: usize,
    /// From each pod's deletion to the arrival of its call, on average.
    waited: Duration,
}

/// What waits for a call, of removals or of registrations.
#[derive(Default)]
struct Queue {
    causes: BTreeMap<usize, Vec<Moment>>,
    /// Until when groups wait after a refusal.
    backoffs: BTreeMap<usize, Moment>,
}

impl Queue {
    fn push(&mut self, group: usize, causes: impl IntoIterator<Item = Moment>) {
        let queue = self.causes.entry(group).or_default();
        queue.extend(causes);
        queue.sort();
    }

    fn due(&self, now: Moment) -> impl Iterator<Item = (usize, &Vec<Moment>)> {
        let rests = move |group: &usize| self.backoffs.get(group).is_some_and(|until| *until > now);
        let all = self.causes.iter().filter(move |(group, _)| !rests(group));
        all.map(|(group, causes)| (*group, causes))
    }

    fn take(&mut self, group: usize) -> Vec<Moment> {
        let mut causes = self.causes.remove(&group).unwrap();
        if causes.len() > MAX_TARGETS_PER_CALL {
            self.causes.insert(group, causes.split_off(MAX_TARGETS_PER_CALL));
        }
        causes
    }
}

/// A burst being played.
struct Play<'a> {
    burst: &'a Burst,
    latency: Latency,
    rng: fastrand::Rng,
    lanes: Lanes,
    account: Account,
    removals: Queue,
    additions: Queue,
    sent: Vec<Sent>,
    now: Moment,
    outcome: Outcome,
}

impl<'a> Play<'a> {
    fn new(burst: &'a Burst, latency: &Latency, others: impl Iterator<Item = Moment>, seed: u64) -> Self {
        Self {
            burst,
            latency: latency.clone(),
            rng: fastrand::Rng::with_seed(seed),
            lanes: Lanes::new(Limits::default()),
            account: Account::new(others),
            removals: Queue::default(),
            additions: Queue::default(),
            sent: Vec::new(),
            now: Moment::START,
            outcome: Outcome::default(),
        }
    }

    fn run(mut self) -> Outcome {
        let gone = self.burst.gone.iter().map(|(ms, group)| (at(*ms), *group));
        let mut gone: VecDeque<(Moment, usize)> = gone.collect();
        let replaced = gone.iter().filter(|_| self.burst.replaced);
        let mut coming: VecDeque<(Moment, usize)> =
            replaced.map(|(at, group)| (*at + REPLACED_AFTER, *group)).collect();
        let pods = u32::try_from(gone.len()).unwrap();
        loop {
            while let Some((at, group)) = gone.pop_front_if(|(at, _)| *at <= self.now) {
                self.lanes.removal_caused(&self.burst.groups[group], at);
                self.removals.push(group, [at]);
            }
            while let Some((at, group)) = coming.pop_front_if(|(at, _)| *at <= self.now) {
                self.additions.push(group, [at]);
            }
            self.arrive();
            self.answer();
            let wakeup = self.send();
            assert!(wakeup.is_none_or(|wakeup| wakeup > self.now), "woken for nothing at {:?}", self.now);
            let arrivals = self.sent.iter().filter(|it| it.accepted.is_none()).map(|it| it.arrives);
            let backoffs = self.removals.backoffs.values().chain(self.additions.backoffs.values()).copied();
            let events = gone.front().into_iter().chain(coming.front()).map(|(at, _)| *at);
            let events = events.chain(arrivals).chain(self.sent.iter().map(|it| it.answered)).chain(backoffs);
            match events.filter(|at| *at > self.now).chain(wakeup).min() {
                Some(next) => self.now = next,
                None => break,
            }
        }
        Outcome { waited: self.outcome.waited / pods, ..self.outcome }
    }

    /// Calls arrive at AWS.
    fn arrive(&mut self) {
        self.sent.sort_by_key(|it| it.arrives);
        for it in self.sent.iter_mut().filter(|it| it.accepted.is_none() && it.arrives <= self.now) {
            let accepted = self.account.accepts(it.arrives);
            it.accepted = Some(accepted);
            if accepted && it.is_removal {
                self.outcome.last = it.arrives;
                self.outcome.waited += it.causes.iter().map(|cause| it.arrives.since(*cause)).sum();
            } else if accepted {
                self.outcome.last_addition = it.arrives;
            }
        }
    }

    /// Answers arrive here.
    fn answer(&mut self) {
        let (answered, rest) =
            std::mem::take(&mut self.sent).into_iter().partition(|it| it.answered <= self.now);
        self.sent = rest;
        let answered: Vec<Sent> = answered;
        for it in answered {
            let refused = it.accepted == Some(false);
            self.lanes.answered(it.ticket, refused, self.now);
            if refused {
                self.outcome.refused += 1;
                let queue = if it.is_removal { &mut self.removals } else { &mut self.additions };
                queue.push(it.group, it.causes);
                queue.backoffs.insert(it.group, self.now + BACKOFF);
            }
        }
    }

    /// Sends what may go; says when more may.
    fn send(&mut self) -> Option<Moment> {
        let groups = &self.burst.groups;
        let due = |queue: &'_ Queue, now: Moment| -> Vec<(usize, Moment, usize)> {
            queue.due(now).map(|(group, causes)| (group, causes[0], causes.len())).collect()
        };
        let dues = |due: &[(usize, Moment, usize)]| -> Vec<Due<'a>> {
            let due = due.iter();
            due.map(|(group, since, targets)| Due {
                group: &groups[*group],
                since: *since,
                targets: *targets,
            })
            .collect()
        };
        loop {
            let waiting = dues(&due(&self.removals, self.now));
            let Some((sent, ticket)) = self.lanes.removal(&waiting, self.now) else { break };
            let group = groups.iter().position(|group| group == sent).unwrap();
            let causes = self.removals.take(group);
            self.outcome.calls += 1;
            self.call(group, true, causes, ticket);
        }
        let waiting = due(&self.removals, self.now);
        if !waiting.is_empty() {
            return self.lanes.next_removal(&dues(&waiting), self.now);
        }
        while let Some((_, group)) =
            self.additions.due(self.now).map(|(group, causes)| (causes[0], group)).min()
        {
            let Some(ticket) = self.lanes.take(Lane::Addition, self.now) else {
                return Some(self.lanes.when(Lane::Addition, self.now));
            };
            let causes = self.additions.take(group);
            self.outcome.additions += 1;
            self.call(group, false, causes, ticket);
        }
        None
    }

    fn call(&mut self, group: usize, is_removal: bool, causes: Vec<Moment>, ticket: Ticket) {
        let takes = self.rng.u64(self.latency.answer.clone());
        let arrives =
            self.now + Duration::from_micros(self.rng.u64(0..=takes.min(self.latency.arrival) * 1000));
        let answered = self.now + Duration::from_millis(takes);
        self.sent.push(Sent { group, is_removal, causes, ticket, arrives, answered, accepted: None });
    }
}

fn play(burst: &Burst, latency: &Latency, seed: u64) -> Outcome {
    Play::new(burst, latency, std::iter::empty(), seed).run()
}

fn bursts() -> Vec<Burst> {
    let mut bursts = Vec::new();
    for (pods, count) in [(1000, 20), (1000, 5), (1000, 1), (200, 20), (40, 40), (40, 20), (12, 12)] {
        for ms in [0, 1_000, 2_000, 3_000, 7_000, 30_000] {
            for grouped in [true, false] {
                bursts.push(Burst::new(pods, count, ms, grouped));
            }
        }
    }
    for pause in [100, 200] {
        for ms in [1_000, 2_000, 3_000, 7_000] {
            bursts.push(Burst::new(1000, 20, ms, false).stalled(pause));
            bursts.push(Burst::new(1000, 20, ms, true).stalled(pause));
        }
    }
    bursts
}

/// Bursts end about as early as can be, and no call is refused.
pub fn ends_early(latency: &Latency, most: Duration) -> Result<(), String> {
    for burst in bursts() {
        let earliest = burst.earliest();
        let seeds = if latency.arrival == 0 { 1 } else { SEEDS };
        let mut all: Vec<Outcome> = (0..seeds).map(|seed| play(&burst, latency, seed)).collect();
        all.sort_by_key(|outcome| outcome.last);
        if let Some(outcome) = all.iter().find(|outcome| outcome.refused > 0) {
            return Err(format!("{}: {} calls were refused", burst.what, outcome.refused));
        }
        let (middle, latest) = (all[all.len() / 2], all[all.len() - 1]);
        let (late, latest) = (middle.last.since(earliest), latest.last.since(earliest));
        let Outcome { calls, waited, .. } = middle;
        println!("{}: {late:?}, at most {latest:?} late, {calls} calls, waited {waited:?}", burst.what);
        // Group by group, each is over long before the burst is.
        let grouped = burst.what.contains("grouped");
        let patience = Duration::from_millis(if grouped { 0 } else { 2_000 }) + most;
        // With so many groups all wait for the refill.
        let patience = if burst.groups.len() > 20 { patience * 4 } else { patience };
        if latest > most || waited > patience {
            return Err(format!("{}: {latest:?} late, waited {waited:?}", burst.what));
        }
    }
    Ok(())
}

/// No call is refused while nobody else draws from the bucket, of registrations beside removals neither.
pub fn refuses_nothing(latency: &Latency) -> Result<(), String> {
    for burst in bursts().into_iter().map(Burst::replaced) {
        for seed in 0..SEEDS {
            let outcome = play(&burst, latency, seed);
            if outcome.refused > 0 {
                return Err(format!("{}, seed {seed}: {} calls were refused", burst.what, outcome.refused));
            }
        }
    }
    Ok(())
}

/// Somebody else takes one token while all are used up: that costs this token, and one more for the refused call.
pub fn one_token_costs_one() -> Result<(), String> {
    let burst = Burst::new(40, 40, 1_000, true);
    for seed in 0..20 {
        let alone = play(&burst, &USUAL, seed);
        let other = Play::new(&burst, &USUAL, std::iter::once(at(2_600)), seed).run();
        let later = other.last.since(alone.last);
        // Two tokens of 250 ms, and what differs because calls take other times.
        if other.refused > 1 || later > Duration::from_millis(600) {
            return Err(format!("seed {seed}: {} refused, {later:?} later than alone", other.refused));
        }
    }
    Ok(())
}

/// Another program draws as much as there is: most of it is left to it.
pub fn others_are_yielded_to() -> Result<(), String> {
    let burst = Burst::new(200, 200, 1_000, true);
    let others = |every: usize| (0..100_000_u64).step_by(every).map(at);
    let outcome = Play::new(&burst, &USUAL, others(250), 1).run();
    if outcome.refused > 60 {
        return Err(format!("{} calls were refused beside another program", outcome.refused));
    }
    Ok(())
}
