//! A burst being played: the lanes on one side, AWS's bucket on the other, calls between them.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use headgate_core::{
    Moment,
    lanes::{Lanes, Ticket},
    model::rates::{Due, Lane, Limits, MAX_TARGETS_PER_CALL},
};

use super::{
    Latency,
    burst::{Account, Burst, at},
};

/// A group is called again this long after a refusal.
const BACKOFF: Duration = Duration::from_millis(100);

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
#[derive(Clone, Debug, Default)]
pub(super) struct Outcome {
    /// When the accepted removals arrived, and the accepted registrations.
    pub(super) removals: Vec<Moment>,
    pub(super) additions: Vec<Moment>,
    /// How many calls were refused.
    pub(super) refused: usize,
    /// From each pod's deletion to the arrival of its removal.
    pub(super) waits: Vec<Duration>,
    /// From each IP to the arrival of its registration.
    pub(super) registered: Vec<Duration>,
    /// When the pods that came had their IPs, of each group, in order.
    pub(super) ips: Vec<Vec<Moment>>,
}

impl Outcome {
    /// When the last removal arrived.
    pub(super) fn last(&self) -> Moment {
        self.removals.iter().copied().max().unwrap_or_default()
    }

    /// From a pod's deletion to the arrival of its removal, on average.
    pub(super) fn waited(&self) -> Duration {
        self.waits.iter().sum::<Duration>() / u32::try_from(self.waits.len().max(1)).unwrap_or(u32::MAX)
    }
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
pub(super) struct Play<'a> {
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
    pub(super) fn new(
        burst: &'a Burst,
        latency: &Latency,
        others: impl Iterator<Item = Moment>,
        seed: u64,
    ) -> Self {
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

    pub(super) fn run(mut self) -> Outcome {
        let gone = self.burst.gone.iter().map(|(ms, group)| (at(*ms), *group));
        let mut gone: VecDeque<(Moment, usize)> = gone.collect();
        let mut coming = self.coming();
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
        self.outcome
    }

    /// When pods that come have their IPs, and in which groups.
    fn coming(&mut self) -> VecDeque<(Moment, usize)> {
        let mut coming = Vec::new();
        for (ms, group) in self.burst.replaced.iter().flat_map(|_| &self.burst.gone) {
            let after = self.burst.replaced.clone().map_or(0, |after| self.rng.u64(after));
            coming.push((at(ms + after), *group));
        }
        coming.sort_unstable();
        self.outcome.ips = vec![Vec::new(); self.burst.groups.len()];
        for (ip, group) in &coming {
            self.outcome.ips[*group].push(*ip);
        }
        coming.into()
    }

    /// Calls arrive at AWS.
    fn arrive(&mut self) {
        self.sent.sort_by_key(|it| it.arrives);
        for it in self.sent.iter_mut().filter(|it| it.accepted.is_none() && it.arrives <= self.now) {
            let accepted = self.account.accepts(it.arrives);
            it.accepted = Some(accepted);
            let waited = it.causes.iter().map(|cause| it.arrives.since(*cause));
            if accepted && it.is_removal {
                self.outcome.removals.push(it.arrives);
                self.outcome.waits.extend(waited);
            } else if accepted {
                self.outcome.additions.push(it.arrives);
                self.outcome.registered.extend(waited);
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
