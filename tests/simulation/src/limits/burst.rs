//! A burst, AWS's bucket, and what could be reached with it by one who knows the future.

use std::{cmp::Ordering, collections::VecDeque, ops::Range, time::Duration};

use headgate_core::{
    Moment,
    model::rates::MAX_TARGETS_PER_CALL,
    model::{
        TargetGroupArn,
        rates::{Limit, Limits},
    },
};

pub(super) fn at(ms: u64) -> Moment {
    Moment::after_start(Duration::from_millis(ms))
}

fn arn(at: usize) -> TargetGroupArn {
    let text =
        format!("arn:aws:elasticloadbalancing:us-east-1:123456789012:targetgroup/g{at}/0123456789abcdef");
    TargetGroupArn::parse(&text).unwrap()
}

/// AWS's bucket, with AWS's clock.
pub(super) struct Account {
    limit: Limit,
    tokens: f64,
    filled: Moment,
    /// When calls of another program arrive.
    others: VecDeque<Moment>,
}

impl Account {
    pub(super) fn new(others: impl Iterator<Item = Moment>) -> Self {
        let limit = Limits::default().changes;
        Self { limit, tokens: limit.burst, filled: Moment::START, others: others.collect() }
    }

    /// A call arrives: whether it is accepted. A refused one takes no token.
    pub(super) fn accepts(&mut self, now: Moment) -> bool {
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
pub(super) struct Burst {
    pub(super) what: String,
    pub(super) groups: Vec<TargetGroupArn>,
    /// Milliseconds and group, in order.
    pub(super) gone: Vec<(u64, usize)>,
    /// After how many milliseconds others have an IP in their place, if any come.
    pub(super) replaced: Option<Range<u64>>,
}

impl Burst {
    /// `pods` pods of `count` groups go within `ms`, group by group or in turn.
    pub(super) fn new(pods: usize, count: usize, ms: usize, grouped: bool) -> Self {
        let group = |pod: usize| if grouped { pod * count / pods } else { pod % count };
        let gone = (0..pods).map(|pod| ((pod * ms / pods) as u64, group(pod))).collect();
        let groups = (0..count).map(arn).collect();
        let how = if grouped { "grouped" } else { "interleaved" };
        let what = format!("{pods} pods, {count} groups, {ms} ms, {how}");
        Self { what, groups, gone, replaced: None }
    }

    /// Nothing goes for a while in the middle, as when the API server is busy; the rest comes later.
    pub(super) fn stalled(self, pause: u64) -> Self {
        let middle = self.gone[self.gone.len() / 2].0;
        let late = |(ms, group): (u64, usize)| (if ms >= middle { ms + pause } else { ms }, group);
        let gone = self.gone.into_iter().map(late).collect();
        Self { what: format!("{}, stalled for {pause} ms", self.what), gone, ..self }
    }

    /// For each that goes another one comes, and has its IP after so many milliseconds.
    pub(super) fn replaced(self, after: Range<u64>) -> Self {
        let what = format!("{}, replaced after {} to {} ms", self.what, after.start, after.end);
        Self { what, replaced: Some(after), ..self }
    }

    /// When the last call could arrive at the earliest, knowing everything in advance: of each group as few calls as
    /// carry its pods, each as soon as the last of them has gone and there is a token.
    pub(super) fn earliest(&self) -> Moment {
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

/// The tokens that removals leave, for one who knows when each of them arrives.
pub(super) struct Left {
    /// When calls arrive, in order.
    taken: Vec<f64>,
    limit: Limit,
}

impl Left {
    pub(super) fn by(removals: &[Moment]) -> Self {
        let mut taken: Vec<f64> = removals.iter().map(|at| at.elapsed().as_secs_f64()).collect();
        taken.sort_by(f64::total_cmp);
        Self { taken, limit: Limits::default().changes }
    }

    /// When a registration could arrive at the earliest, not before this, such that every other call has its token.
    fn take(&mut self, mut at: f64) -> f64 {
        while let Some(later) = self.lacks(at) {
            at = later;
        }
        self.taken.insert(self.taken.partition_point(|taken| *taken <= at), at);
        at
    }

    /// When to try instead, if one more call at this time would cost another one its token, or has none itself.
    fn lacks(&self, at: f64) -> Option<f64> {
        let place = self.taken.partition_point(|taken| *taken <= at);
        let (before, after) = self.taken.split_at(place);
        let mut calls = before.iter().chain([&at]).chain(after).copied().enumerate();
        let (mut tokens, mut filled) = (self.limit.burst, 0.0);
        calls.find_map(|(nth, time)| {
            tokens = (tokens + (time - filled) * self.limit.per_second).min(self.limit.burst);
            filled = time;
            let missing = (1.0 - tokens).max(0.0);
            tokens = (tokens - 1.0).max(0.0);
            match nth.cmp(&place) {
                _ if missing < 1e-6 => None,
                Ordering::Less => None,
                Ordering::Equal => Some(time + missing / self.limit.per_second),
                Ordering::Greater => Some(time),
            }
        })
    }

    /// When the last registration could arrive at the earliest: of each group as few calls as carry its pods, each as
    /// soon as the last of them has its IP and there is a token that no removal needs.
    pub(super) fn last_addition(mut self, ips: &[Vec<Moment>]) -> f64 {
        let chunks = ips.iter().flat_map(|of| of.chunks(MAX_TARGETS_PER_CALL));
        let mut whole: Vec<f64> =
            chunks.filter_map(|chunk| Some(chunk.last()?.elapsed().as_secs_f64())).collect();
        whole.sort_by(f64::total_cmp);
        whole.into_iter().fold(0.0, |last, whole| self.take(whole.max(last)))
    }

    /// How long pods would wait for their registration if each token that no removal needs was used at once, for the
    /// group in which one waits longest: the median, in seconds.
    pub(super) fn median_wait(mut self, ips: &[Vec<Moment>]) -> f64 {
        let of = |of: &Vec<Moment>| of.iter().map(|at| at.elapsed().as_secs_f64()).collect::<VecDeque<f64>>();
        let mut waiting: Vec<VecDeque<f64>> = ips.iter().map(of).collect();
        let (mut now, mut waits) = (0.0_f64, Vec::new());
        while let Some(group) =
            waiting.iter_mut().filter(|of| !of.is_empty()).min_by(|one, other| one[0].total_cmp(&other[0]))
        {
            now = self.take(now.max(group[0]));
            for _ in 0..MAX_TARGETS_PER_CALL {
                waits.extend(group.pop_front_if(|at| *at <= now).map(|at| now - at));
            }
        }
        waits.sort_by(f64::total_cmp);
        waits.get(waits.len() / 2).copied().unwrap_or_default()
    }
}
