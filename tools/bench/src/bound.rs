//! The earliest possible end of a burst of removals, and of the registrations next to them, if the future were known.
//!
//! A call takes one token, and removes a limited number of targets of one group, all of which were deleted before. The
//! fewest possible calls are, for each group, one per full chunk of its deletions in order, and one for the remaining
//! ones. None of them can be sent before the last deletion in its chunk. If each call is sent as soon as it is complete
//! and there is a token, the calls end at least as early as any other schedule: another order or more calls only take
//! tokens that these need later. No program without knowledge of the future can promise that.
//!
//! Registrations of the replacement pods get the tokens that removals have left. A registration is sent as soon as it
//! has a token and every later removal still has its own.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, VecDeque},
};

/// AWS's bucket for RegisterTargets and DeregisterTargets.
#[derive(Clone, Copy, Debug)]
pub struct Bucket {
    /// The number of tokens that it holds.
    pub burst: f64,
    /// The number of tokens that are added per second.
    pub per_second: f64,
}

/// The result of the best schedule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bound {
    /// When its last call is sent, in seconds on the clock of the deletions.
    pub last: f64,
    /// The number of its calls.
    pub calls: usize,
}

/// The result of a schedule without knowledge of the future.
#[derive(Clone, Debug, PartialEq)]
pub struct AtOnce {
    /// Its last call, and the number of its calls.
    pub bound: Bound,
    /// The time from each deletion to its call, in seconds.
    pub waits: Vec<f64>,
}

/// The earliest possible end for these deletions, by group, in seconds. The bucket is full before the first one.
pub fn earliest(deletions: &BTreeMap<String, Vec<f64>>, bucket: Bucket, chunk: usize) -> Bound {
    let releases = complete(deletions, chunk);
    let (mut tokens, mut filled) = (bucket.burst, f64::NEG_INFINITY);
    let mut last: f64 = 0.0;
    for release in &releases {
        let mut at = release.max(last);
        if filled.is_finite() {
            tokens = (tokens + (at - filled) * bucket.per_second).min(bucket.burst);
        }
        if tokens < 1.0 {
            at += (1.0 - tokens) / bucket.per_second;
            tokens = 1.0;
        }
        tokens -= 1.0;
        filled = at;
        last = at;
    }
    Bound { last, calls: releases.len() }
}

/// The result if every removal is sent at once, together with everything that is due in its group: whenever there is a
/// token, the group with the oldest waiting removal is called.
pub fn at_once(deletions: &BTreeMap<String, Vec<f64>>, bucket: Bucket, chunk: usize) -> AtOnce {
    let mut waiting: Vec<VecDeque<f64>> = deletions
        .values()
        .map(|times| {
            let mut times = times.clone();
            times.sort_by(f64::total_cmp);
            times.into()
        })
        .collect();
    let (mut tokens, mut filled, mut now) = (bucket.burst, 0.0, 0.0_f64);
    let mut waits = Vec::new();
    let mut calls = 0;
    while let Some(group) =
        waiting.iter_mut().filter(|group| !group.is_empty()).min_by(|one, other| one[0].total_cmp(&other[0]))
    {
        now = now.max(group[0]);
        tokens = (tokens + (now - filled) * bucket.per_second).min(bucket.burst);
        if tokens < 1.0 {
            now += (1.0 - tokens) / bucket.per_second;
            tokens = 1.0;
        }
        (tokens, filled) = (tokens - 1.0, now);
        calls += 1;
        for _ in 0..chunk {
            match group.front() {
                Some(deleted) if *deleted <= now => waits.push(now - deleted),
                _ => break,
            }
            group.pop_front();
        }
    }
    AtOnce { bound: Bound { last: now, calls }, waits }
}

/// When the fewest calls for all of these have all their targets, in order.
fn complete(times: &BTreeMap<String, Vec<f64>>, chunk: usize) -> Vec<f64> {
    let mut complete = Vec::new();
    for times in times.values() {
        let mut times = times.clone();
        times.sort_by(f64::total_cmp);
        complete.extend(times.chunks(chunk).filter_map(|chunk| chunk.last().copied()));
    }
    complete.sort_by(f64::total_cmp);
    complete
}

/// The tokens that removals have left.
#[derive(Clone, Debug)]
pub struct Left {
    /// When calls took their tokens, in order.
    taken: Vec<f64>,
    bucket: Bucket,
}

impl Left {
    /// The tokens of a bucket that was full before the first of these removals.
    pub fn by(mut removals: Vec<f64>, bucket: Bucket) -> Self {
        removals.sort_by(f64::total_cmp);
        Self { taken: removals, bucket }
    }

    /// The earliest possible end for registrations of pods that get their IPs at these times, by group.
    pub fn earliest(mut self, ips: &BTreeMap<String, Vec<f64>>, chunk: usize) -> Bound {
        let releases = complete(ips, chunk);
        let calls = releases.len();
        Bound { last: releases.into_iter().fold(0.0, |last, release| self.take(release.max(last))), calls }
    }

    /// How long each pod waits for its registration, if every token is used at once for the group with the longest
    /// wait.
    pub fn waits(mut self, ips: &BTreeMap<String, Vec<f64>>, chunk: usize) -> Vec<f64> {
        let sorted = |times: &Vec<f64>| {
            let mut times = times.clone();
            times.sort_by(f64::total_cmp);
            VecDeque::from(times)
        };
        let mut waiting: Vec<VecDeque<f64>> = ips.values().map(sorted).collect();
        let (mut now, mut waits) = (0.0_f64, Vec::new());
        while let Some(group) = waiting
            .iter_mut()
            .filter(|group| !group.is_empty())
            .min_by(|one, other| one[0].total_cmp(&other[0]))
        {
            now = self.take(now.max(group[0]));
            for _ in 0..chunk {
                waits.extend(group.pop_front_if(|ip| *ip <= now).map(|ip| now - ip));
            }
        }
        waits
    }

    /// The earliest time of one more call, not before `at`. Takes its token.
    fn take(&mut self, mut at: f64) -> f64 {
        while let Some(later) = self.lacks(at) {
            at = later;
        }
        self.taken.insert(self.taken.partition_point(|taken| *taken <= at), at);
        at
    }

    /// When to try instead, if one more call at this time had no token, or took the token of a later one.
    fn lacks(&self, at: f64) -> Option<f64> {
        let place = self.taken.partition_point(|taken| *taken <= at);
        let (before, after) = self.taken.split_at(place);
        let (mut tokens, mut filled) = (self.bucket.burst, f64::NEG_INFINITY);
        before.iter().chain([&at]).chain(after).enumerate().find_map(|(nth, time)| {
            if filled.is_finite() {
                tokens = (tokens + (time - filled) * self.bucket.per_second).min(self.bucket.burst);
            }
            filled = *time;
            let missing = 1.0 - tokens;
            tokens = (tokens - 1.0).max(0.0);
            match nth.cmp(&place) {
                // AWS has accepted it, so a small difference comes from rounding.
                Ordering::Less => None,
                _ if missing < 1e-6 => None,
                Ordering::Equal => Some(time + missing / self.bucket.per_second),
                Ordering::Greater => Some(*time),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AWS: Bucket = Bucket { burst: 20.0, per_second: 4.0 };

    fn groups(count: usize, each: &[f64]) -> BTreeMap<String, Vec<f64>> {
        (0..count).map(|at| (format!("g{at}"), each.to_vec())).collect()
    }

    #[test]
    fn as_many_groups_as_tokens_end_with_the_last_deletion() {
        assert_eq!(earliest(&groups(20, &[1.0, 3.0, 5.0]), AWS, 100), Bound { last: 5.0, calls: 20 });
    }

    #[test]
    fn more_groups_than_tokens_wait_for_the_refill() {
        assert_eq!(earliest(&groups(24, &[5.0]), AWS, 100), Bound { last: 6.0, calls: 24 });
    }

    #[test]
    fn a_group_larger_than_a_call_spends_a_token_for_each_chunk_when_that_is_full() {
        let bound = earliest(&groups(20, &[0.0, 1.0, 10.0]), AWS, 2);
        assert_eq!(bound, Bound { last: 10.0, calls: 40 });
    }

    #[test]
    fn at_once_spends_a_token_on_each_until_there_are_none() {
        let one = groups(1, &[0.0, 0.1, 0.2, 0.3]);
        let bucket = Bucket { burst: 2.0, per_second: 1.0 };
        let AtOnce { bound, waits } = at_once(&one, bucket, 100);
        // Two at once. The next token is there at 1.0 s, and two are sent with it.
        assert_eq!(bound, Bound { last: 1.0, calls: 3 });
        assert_eq!(waits.len(), 4);
        assert!(waits[..2].iter().all(|wait| *wait == 0.0) && (waits[3] - 0.7).abs() < 1e-9, "{waits:?}");
    }

    #[test]
    fn registrations_get_the_tokens_that_removals_have_left() {
        let left = Left::by(vec![0.0; 20], AWS);
        assert_eq!(left.clone().earliest(&groups(4, &[0.0]), 100), Bound { last: 1.0, calls: 4 });
        // A fifth one is sent at 1.25 s.
        assert_eq!(left.waits(&groups(5, &[0.5]), 100), [0.0, 0.0, 0.25, 0.5, 0.75]);
    }

    #[test]
    fn a_registration_costs_no_removal_its_token() {
        let bucket = Bucket { burst: 2.0, per_second: 1.0 };
        let one = groups(1, &[0.0]);
        // There is a token at 0 s, but then the second one at 1 s would be missing.
        let left = Left::by(vec![0.0, 1.0, 1.0], bucket);
        assert_eq!(left.earliest(&one, 100), Bound { last: 2.0, calls: 1 });
        assert_eq!(Left::by(vec![0.0, 1.0], bucket).earliest(&one, 100), Bound { last: 0.0, calls: 1 });
    }
}
