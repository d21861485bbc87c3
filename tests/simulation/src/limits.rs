//! Bursts of removals behind AWS's limits and latency, and the registrations of the pods that come instead, compared with
//! the earliest that AWS's bucket allows.
//!
//! AWS counts when a call arrives: at some time after it was sent, and before its answer. The bucket here is AWS's own, so
//! it says which calls are refused; the lanes only see answers.

mod burst;
mod play;

use std::{ops::Range, time::Duration};

use self::{
    burst::{Burst, Left, at},
    play::{Outcome, Play},
};

/// A pod that goes is replaced after so many milliseconds, as in the benchmark.
const REPLACED_AFTER: Range<u64> = 30..90;
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
        all.sort_by_key(Outcome::last);
        if let Some(outcome) = all.iter().find(|outcome| outcome.refused > 0) {
            return Err(format!("{}: {} calls were refused", burst.what, outcome.refused));
        }
        let (middle, latest) = (&all[all.len() / 2], &all[all.len() - 1]);
        let (late, latest) = (middle.last().since(earliest), latest.last().since(earliest));
        let (calls, waited) = (middle.removals.len(), middle.waited());
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
    for burst in bursts().into_iter().map(|burst| burst.replaced(REPLACED_AFTER)) {
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
        let later = other.last().since(alone.last());
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

/// 1,000 pods in 20 groups go within so many milliseconds.
const REPLACED_WITHIN: [usize; 5] = [1_000, 3_000, 7_000, 10_000, 13_000];

/// The figures of a burst, the worst of some seeds, in seconds.
#[derive(Default)]
struct Figures {
    refused: usize,
    removals: usize,
    additions: usize,
    /// The last removal, after the earliest possible.
    last: f64,
    /// From a pod's deletion to its removal, on average.
    waited: f64,
    /// From a pod's IP to its registration: the median, and that which the tokens that the removals left allowed.
    median: f64,
    allowed: f64,
    /// The last registration, after the earliest possible after these removals.
    last_addition: f64,
}

impl Figures {
    fn of(burst: &Burst, latency: &Latency) -> Self {
        let (mut all, earliest) = (Self::default(), burst.earliest());
        for seed in 0..SEEDS {
            let mut one = play(burst, latency, seed);
            one.registered.sort_unstable();
            let median = one.registered.get(one.registered.len() / 2).map_or(0.0, Duration::as_secs_f64);
            let last = one.additions.iter().max().map_or(0.0, |at| at.elapsed().as_secs_f64());
            let [left, spare] = [0; 2].map(|_| Left::by(&one.removals));
            all = Self {
                refused: all.refused + one.refused,
                removals: all.removals.max(one.removals.len()),
                additions: all.additions.max(one.additions.len()),
                last: all.last.max(one.last().since(earliest).as_secs_f64()),
                waited: all.waited.max(one.waited().as_secs_f64()),
                median: all.median.max(median),
                allowed: all.allowed.max(spare.median_wait(&one.ips)),
                last_addition: all.last_addition.max(last - left.last_addition(&one.ips)),
            };
        }
        all
    }
}

/// Pods that are replaced are registered as soon as the removals leave tokens for it, and cost no removal much.
pub fn registrations_follow(latency: &Latency) -> Result<(), String> {
    // Calls that arrive later arrive later.
    let later = Duration::from_millis(latency.arrival).as_secs_f64();
    for ms in REPLACED_WITHIN {
        for grouped in [true, false] {
            let alone = Burst::new(1000, 20, ms, grouped);
            let burst = alone.clone().replaced(REPLACED_AFTER);
            let (alone, with) = (Figures::of(&alone, latency), Figures::of(&burst, latency));
            let said = format!(
                "{}: {} removals ({} if nothing comes instead), the last {:.2} s ({:.2}) after the earliest, waited {:.2} s \
                 ({:.2}); {} registrations, IP to registration {:.2} s (removals allow {:.2}), the last {:.2} s after the \
                 earliest; {} refused",
                burst.what,
                with.removals,
                alone.removals,
                with.last,
                alone.last,
                with.waited,
                alone.waited,
                with.additions,
                with.median,
                with.allowed,
                with.last_addition,
                with.refused
            );
            println!("{said}");
            let costs = with.last > alone.last + 0.3 || with.waited > alone.waited + 0.15;
            let waits = with.median > f64::max(5.0, with.allowed + 0.5) || with.last_addition > 1.0 + later;
            if costs || waits || with.refused > 0 {
                return Err(said);
            }
        }
    }
    Ok(())
}
