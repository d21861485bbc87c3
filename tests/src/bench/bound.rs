//! The earliest possible end of a burst of removals, for one who knows the future.
//!
//! A call takes a token, and removes at most so many targets of one group, all of them deleted before. The fewest
//! calls that can do are, for each group, one for each full chunk of its deletions in their order and one for the
//! rest; none of them can go before the last deletion in it. Sent in the order in which they can go, each as soon as
//! there is a token for it, they end as early as any schedule does: another order or more calls only take tokens
//! earlier that these need later. No program without a view of the future can promise that.

use std::collections::BTreeMap;

/// AWS's bucket for RegisterTargets and DeregisterTargets.
#[derive(Clone, Copy, Debug)]
pub struct Bucket {
    /// Tokens that it holds.
    pub burst: f64,
    /// Tokens that come back per second.
    pub per_second: f64,
}

/// What the best schedule needs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bound {
    /// When its last call goes, in seconds on the clock of the deletions.
    pub last: f64,
    /// How many calls it makes.
    pub calls: usize,
}

/// The bound for these deletions, group by group, in seconds; the bucket is full before the first.
pub fn earliest(deletions: &BTreeMap<String, Vec<f64>>, bucket: Bucket, chunk: usize) -> Bound {
    let mut releases = Vec::new();
    for times in deletions.values() {
        let mut times = times.clone();
        times.sort_by(f64::total_cmp);
        releases.extend(times.chunks(chunk).filter_map(|chunk| chunk.last().copied()));
    }
    releases.sort_by(f64::total_cmp);
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
}
