//! The core in simulated worlds.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::{
    sync::Mutex,
    time::{Duration, Instant},
};

use headgate_simulation::{
    TOLD_AT_ONCE, Worlds, accounts, brakes, cases, daemonsets, lease, limits, reads, refusals, replay,
    run_many, swaps, tenants,
};

/// Worlds of a plain test run.
const WORLDS: u64 = 10_000;

/// Of those with [`TOLD_AT_ONCE`].
const AT_ONCE: u64 = 2_000;

/// The number in an environment variable, if it is set.
fn asked(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

#[test]
fn every_invariant_holds_in_thousands_of_worlds_that_go_wrong() {
    if let Some(seed) = asked("HEADGATE_SIM_SEED") {
        replay(seed).unwrap();
        return;
    }
    let start = Instant::now();
    let from = asked("HEADGATE_SIM_FROM").unwrap_or(0);
    let soak = asked("HEADGATE_SIM_SECONDS").map(Duration::from_secs);
    let few = asked("HEADGATE_SIM_WORLDS");
    let most = from + few.unwrap_or(WORLDS);
    // A soak is to find as many as it can, and does not end with the first.
    let enough = |seed, broken| soak.map_or(seed >= most || broken > 0, |soak| start.elapsed() >= soak);
    let so_far = Mutex::new((0_u64, 0_u64, start));
    let tell = |end: Result<u64, &str>| {
        let mut so_far = so_far.lock().unwrap();
        so_far.0 += 1;
        match end {
            Ok(steps) => so_far.1 += steps,
            Err(broken) => println!("{broken}"),
        }
        if so_far.2.elapsed() >= Duration::from_secs(60) {
            so_far.2 = Instant::now();
            println!("{} seeds, {} steps so far", so_far.0, so_far.1);
        }
    };
    let Worlds { seeds, steps, coverage, broken } = run_many(from, enough, |end| {
        if soak.is_some() {
            tell(end);
        }
    });
    let seconds = start.elapsed().as_secs_f64();
    #[allow(clippy::cast_precision_loss)] // millions
    let rate = steps as f64 / seconds;
    println!("{seeds} seeds, {steps} steps, {seconds:.1} s, {rate:.0} steps/s\n{coverage}");
    assert!(broken.is_empty(), "{} broke:\n{}", broken.len(), broken.join("\n\n"));
    if few.is_none() {
        assert_eq!(coverage.never(), Vec::<String>::new(), "these never occurred, so they were never tested");
    }
}

#[test]
fn the_properties_hold_where_the_watches_are_never_late() {
    let most = asked("HEADGATE_SIM_WORLDS").map_or(AT_ONCE, |few| few.min(AT_ONCE));
    let enough = |seed, broken| seed >= TOLD_AT_ONCE + most || broken > 0;
    let Worlds { broken, .. } = run_many(TOLD_AT_ONCE, enough, |_| ());
    assert!(broken.is_empty(), "{} broke:\n{}", broken.len(), broken.join("\n\n"));
}

#[test]
fn what_chance_seldom_brings_about_goes_as_it_should() {
    let broken = cases::broken();
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn what_goes_wrong_in_one_account_changes_no_call_of_another() {
    assert_eq!(accounts::first_broken(), None);
}

#[test]
fn a_set_of_pods_on_every_node_is_rolled_as_it_says_whatever_goes_wrong() {
    if let Some(seed) = asked("HEADGATE_SIM_SEED") {
        assert_eq!(daemonsets::broken(seed, true), None);
        return;
    }
    assert_eq!(daemonsets::first_broken(), None);
}

#[test]
fn a_controller_of_sets_that_is_killed_after_any_of_its_requests_takes_none_too_early_and_the_roll_ends() {
    let rolls = daemonsets::killed_at_each_step().unwrap();
    eprintln!("{rolls} rolls");
    assert!(rolls > 100, "{rolls}");
}

#[test]
fn what_one_namespace_asks_for_changes_nothing_of_another() {
    assert_eq!(tenants::first_broken(), None);
}

#[test]
fn what_most_of_is_said_to_be_gone_stays_until_that_is_confirmed_and_goes_within_a_minute() {
    assert_eq!(brakes::first_broken(), None);
}

#[test]
fn what_aws_refuses_costs_few_calls_and_no_other_target_waits_for_it() {
    refusals::all().unwrap();
}

#[test]
fn of_three_replicas_never_two_lead_and_mostly_one_does() {
    let (mut terms, mut led, mut inherited, mut stepped_down) = (0, 0, 0, 0);
    for seed in 0..1_000 {
        let world = lease::World::run(seed).unwrap();
        terms += world.terms;
        led += world.holders;
        inherited += world.inherited;
        stepped_down += world.stepped_down;
    }
    println!(
        "{terms} terms, {inherited} after a holder that was proven dead, {stepped_down} given back by one that could \
         not lead; somebody led in {led} of 1000000 steps"
    );
    assert!(stepped_down > 100, "{stepped_down} terms were given back by a leader that could not lead");
    assert!(inherited > 100, "{inherited} terms began before the Lease of a dead holder had run out");
    assert!(terms > 3_000 && led > 500_000, "{terms} terms, somebody led in {led} of 1000000 steps");
}

#[test]
fn the_one_replica_that_can_lead_comes_to_lead_and_of_those_that_cannot_they_hardly_ever_change() {
    lease::World::hold_out(0..20).unwrap();
}

#[test]
fn the_last_removal_of_a_burst_is_about_as_early_as_if_its_end_had_been_known() {
    limits::ends_early(&limits::NONE, Duration::from_millis(500)).unwrap();
}

#[test]
fn behind_aws_latency_it_is_too() {
    limits::ends_early(&limits::USUAL, Duration::from_millis(500)).unwrap();
    // Calls that arrive later arrive later.
    limits::ends_early(&limits::WORST, Duration::from_millis(750)).unwrap();
}

#[test]
fn no_call_is_refused_whenever_before_its_answer_it_arrives() {
    for latency in [limits::USUAL, limits::WORST] {
        limits::refuses_nothing(&latency).unwrap();
    }
}

#[test]
fn pods_that_come_instead_are_registered_as_soon_as_the_removals_leave_tokens_for_it() {
    for latency in [limits::NONE, limits::USUAL, limits::WORST] {
        println!("{latency:?}");
        limits::registrations_follow(&latency).unwrap();
    }
}

#[test]
fn a_token_that_somebody_else_takes_costs_that_token_and_the_one_of_the_refused_call() {
    limits::one_token_costs_one().unwrap();
}

#[test]
fn another_program_that_draws_from_the_bucket_is_yielded_to() {
    limits::others_are_yielded_to().unwrap();
}

#[test]
fn unhealthy_targets_in_hundreds_of_groups_leave_half_of_the_describe_calls_and_keep_no_gate_waiting() {
    for (groups, seed) in [(200, 0), (200, 1), (600, 2)] {
        let outcome = reads::unhealthy_targets_starve_nobody(groups, seed).unwrap();
        println!("{groups} groups: {outcome:?}");
    }
}

#[test]
fn a_pod_that_takes_its_time_to_start_is_not_kept_waiting_for_much_longer() {
    (0..5).try_for_each(reads::slow_starters_do_not_wait).unwrap();
}

#[test]
fn what_somebody_else_takes_out_is_put_back_and_soon_once_that_is_known() {
    (0..2).try_for_each(|seed| reads::what_others_take_out_is_put_back(998, seed)).unwrap();
}

#[test]
fn a_set_that_is_replaced_as_a_whole_leaves_no_fewer_healthy_targets_than_the_smaller_of_both() {
    assert_eq!(swaps::first_broken(), None);
}
