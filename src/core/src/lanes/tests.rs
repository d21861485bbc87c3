//! When which call goes, and how that compares with the earliest that AWS's bucket allows.

use super::*;
use crate::testing::arn;

fn at(ms: u64) -> Moment {
    Moment::after_start(Duration::from_millis(ms))
}

fn due(group: &TargetGroupArn, since: Moment, targets: usize) -> Due<'_> {
    Due { group, since, targets }
}

fn lanes() -> Lanes {
    Lanes::new(Limits::default())
}

fn groups(count: usize) -> Vec<TargetGroupArn> {
    (0..count).map(|at| arn(&format!("g{at}"))).collect()
}

/// A burst: pods that go, each in a group, and when.
struct Burst {
    groups: Vec<TargetGroupArn>,
    /// Milliseconds and group, in order.
    gone: Vec<(u64, usize)>,
}

impl Burst {
    /// `pods` pods of `count` groups go within `ms`, group by group or in turn.
    fn new(pods: usize, count: usize, ms: usize, grouped: bool) -> Self {
        let group = |pod: usize| if grouped { pod * count / pods } else { pod % count };
        let gone = (0..pods).map(|pod| ((pod * ms / pods) as u64, group(pod))).collect();
        Self { groups: groups(count), gone }
    }

    /// When the last call could go at the earliest, knowing everything in advance: of each group as few calls as
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
        let mut bucket = Bucket::new(Limits::default().changes);
        let mut now = at(0);
        for ms in last {
            now = bucket.when(1.0, now.max(at(ms))).max(at(ms));
            assert!(bucket.take(now));
        }
        now
    }

    /// Lets the lanes do it: when the last call goes, how many there are, and how long the pods wait on average.
    fn run(&self) -> (Moment, usize, Duration) {
        let mut lanes = lanes();
        let mut waiting: BTreeMap<usize, Vec<Moment>> = BTreeMap::new();
        let mut gone = self.gone.iter().peekable();
        let (mut now, mut calls, mut waited) = (at(0), 0, Duration::ZERO);
        loop {
            while let Some((ms, group)) = gone.next_if(|(ms, _)| at(*ms) <= now) {
                lanes.removal_caused(&self.groups[*group], at(*ms));
                waiting.entry(*group).or_default().push(at(*ms));
            }
            loop {
                let due =
                    waiting.iter().map(|(group, since)| due(&self.groups[*group], since[0], since.len()));
                let Some(sent) = lanes.removal(due, now) else { break };
                let group = self.groups.iter().position(|group| group == sent).unwrap();
                calls += 1;
                let mut goes = waiting.remove(&group).unwrap();
                if goes.len() > MAX_TARGETS_PER_CALL {
                    waiting.insert(group, goes.split_off(MAX_TARGETS_PER_CALL));
                }
                waited += goes.iter().map(|since| now.since(*since)).sum();
            }
            let due = waiting.iter().map(|(group, since)| due(&self.groups[*group], since[0], since.len()));
            let wakeup = lanes.next_removal(due, now);
            assert!(wakeup.is_none_or(|wakeup| wakeup > now), "woken for nothing at {now:?}");
            let event = gone.peek().map(|(ms, _)| at(*ms));
            match wakeup.into_iter().chain(event).min() {
                Some(next) => now = next,
                None => break,
            }
        }
        (now, calls, waited / u32::try_from(self.gone.len()).unwrap())
    }
}

#[test]
fn the_last_removal_of_a_burst_is_about_as_early_as_if_its_end_had_been_known() {
    let mut all = Vec::new();
    for (pods, count) in [(1000, 20), (1000, 5), (1000, 1), (200, 20), (40, 20), (12, 12)] {
        for ms in [0, 1_000, 2_000, 3_000, 5_000, 10_000, 30_000] {
            for grouped in [true, false] {
                let burst = Burst::new(pods, count, ms, grouped);
                let (last, calls, waited) = burst.run();
                let late = last.since(burst.earliest());
                let how = if grouped { "grouped" } else { "interleaved" };
                println!(
                    "{pods} pods, {count} groups, {ms} ms, {how}: {late:?} late, {calls} calls, waited {waited:?}"
                );
                // Group by group, each is over long before the burst is.
                let patience = if grouped { Duration::from_millis(500) } else { Duration::from_millis(2500) };
                if late > Duration::from_millis(500) || waited > patience {
                    all.push((pods, count, ms, how, late, waited));
                }
            }
        }
    }
    assert_eq!(all, []);
}

#[test]
fn a_removal_goes_at_once_while_tokens_are_plenty_and_pods_go_here_and_there() {
    let (mut lanes, groups) = (lanes(), groups(3));
    for (at_ms, group) in [(0, 0), (400, 0), (800, 1), (810, 2), (1_200, 0)] {
        lanes.removal_caused(&groups[group], at(at_ms));
        let due = due(&groups[group], at(at_ms), 1);
        assert_eq!(lanes.removal([due].into_iter(), at(at_ms)), Some(&groups[group]), "{at_ms}");
    }
}

#[test]
fn a_group_that_was_not_called_yet_goes_before_those_that_take_turns() {
    let (mut lanes, groups) = (lanes(), groups(3));
    for group in &groups[..2] {
        lanes.removal_caused(group, at(0));
        assert!(lanes.removal([due(group, at(0), 1)].into_iter(), at(0)).is_some());
    }
    for group in &groups {
        lanes.removal_caused(group, at(1_000));
    }
    let due = groups.iter().map(|group| due(group, at(500), 1));
    assert_eq!(lanes.removal(due, at(1_200)), Some(&groups[2]));
}

#[test]
fn registrations_leave_half_of_the_tokens_for_removals() {
    let mut lanes = lanes();
    assert_eq!((0..30).filter(|_| lanes.may_add(at(0))).count(), 10);
    let next = lanes.next_addition(at(0));
    assert!(next > at(249) && next < at(252), "{next:?}");
    let groups = groups(12);
    let due: Vec<_> = groups.iter().map(|group| due(group, at(0), 100)).collect();
    let gone = (0..12).filter_map(|at_| lanes.removal(due[at_..].iter().copied(), at(0)));
    assert_eq!(gone.count(), 10);
}

#[test]
fn a_bucket_of_one_token_serves_registrations_too() {
    let limit = Limit { per_second: 1.0, burst: 1.0 };
    let mut lanes = Lanes::new(Limits { changes: limit, reads: limit });
    assert!(lanes.may_add(at(0)) && !lanes.may_add(at(900)) && lanes.may_add(at(1_100)));
    assert!(lanes.may_look_up(at(0)));
}

#[test]
fn throttled_registrations_slow_down_alone_and_throttled_removals_slow_both() {
    let mut lanes = lanes();
    lanes.addition_throttled(at(0));
    assert!(lanes.next_addition(at(0)) >= at(500), "at half the rate");
    let group = arn("blue");
    lanes.removal_caused(&group, at(0));
    assert!(lanes.removal([due(&group, at(0), 1)].into_iter(), at(0)).is_some());
    lanes.removal_throttled(at(0));
    assert_eq!(lanes.removal([due(&group, at(0), 1)].into_iter(), at(400)), None);
    assert!(lanes.removal([due(&group, at(0), 1)].into_iter(), at(520)).is_some());
}

#[test]
fn reads_take_half_of_their_bucket_and_no_token_of_changes() {
    let mut lanes = lanes();
    assert_eq!((0..300).filter(|_| lanes.may_read(at(0))).count(), 100);
    assert_eq!((0..300).filter(|_| lanes.may_look_up(at(0))).count(), 100);
    assert!(lanes.may_add(at(0)));
    lanes.read_throttled(at(0));
    assert!(!lanes.may_look_up(at(39)) && lanes.may_look_up(at(41)), "at half the rate");
}

#[test]
fn many_target_groups_are_read_less_often() {
    assert_eq!(lanes().read_period(100), Duration::from_secs(8));
    assert_eq!(lanes().read_period(3_000), Duration::from_secs(240));
}

#[test]
fn when_the_next_call_may_go_is_when_there_is_a_token_for_it() {
    let mut lanes = lanes();
    assert_eq!((lanes.next_look_up(at(0)), lanes.next_read(at(0))), (at(0), at(0)));
    while lanes.may_read(at(0)) {}
    let next = lanes.next_read(at(0));
    assert!(next > at(0) && !lanes.may_read(at(0)) && lanes.may_look_up(at(0)));
    assert!(lanes.may_read(next));
    while lanes.may_look_up(next) {}
    let next = lanes.next_look_up(at(100));
    assert!(lanes.may_look_up(next));
}

#[test]
fn when_throttling_is_over_is_known_while_it_lasts() {
    let mut lanes = lanes();
    assert_eq!((lanes.throttled(at(0)), lanes.next_recovery()), (None, None));
    lanes.read_throttled(at(0));
    assert_eq!(lanes.throttled(at(0)), Some("Describe calls"));
    let over = lanes.next_recovery().unwrap();
    assert!(over > at(0));
    assert_eq!(lanes.throttled(over + Duration::from_millis(1)), None);
}

#[test]
fn a_removal_without_a_token_goes_when_the_next_one_comes() {
    let mut lanes = lanes();
    let groups = groups(30);
    for group in &groups {
        lanes.removal_caused(group, at(0));
    }
    let full = || groups.iter().map(|group| due(group, at(0), MAX_TARGETS_PER_CALL));
    let mut sent = 0;
    while lanes.removal(full(), at(0)).is_some() {
        sent += 1;
    }
    assert_eq!(sent, 20, "all tokens");
    let next = lanes.next_removal(full(), at(0)).unwrap();
    assert!(next >= at(250) && next < at(251), "four come in a second: {next:?}");
    assert!(lanes.removal(full(), next).is_some());
    assert_eq!(lanes.next_removal(std::iter::empty(), at(0)), None);
}

#[test]
fn registrations_leave_half_of_the_tokens_to_removals() {
    let mut lanes = lanes();
    let mut added = 0;
    while lanes.may_add(at(0)) {
        added += 1;
    }
    assert_eq!(added, 10);
    let small = Limits { changes: Limit { per_second: 1.0, burst: 1.0 }, ..Limits::default() };
    assert!(Lanes::new(small).may_add(at(0)), "of one token none can be left");
}
