//! Every planted bug is noticed: a simulation that does not notice them would not notice the real ones.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::{
    ops::Range,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use headgate_core::planted;
use headgate_simulation::{
    Coverage, accounts, brakes, cases, daemonsets, lease, limits, reads, refusals, run, swaps, tenants,
};

/// A bug must be noticed within so many worlds.
const BUDGET: u64 = 1_000;

/// Of these most are noticed in so few.
const FIRST: u64 = 100;

/// Worlds beyond these that show what hardly any other one does: a target whose pod had it through other bindings before, and
/// a removal that is held at an address which has changed hands.
const RARE: [u64; 2] = [1_911, 15_300_835];

fn worlds(mut seeds: Range<u64>) -> Result<(), String> {
    seeds.try_for_each(|seed| run(seed, &mut Coverage::default()).map(drop))
}

/// Its name, and what it says.
type Check = (&'static str, fn() -> Result<(), String>);

/// What notices a mistake, the fast ones first: says what is wrong, if anything is.
const CHECKS: [Check; 13] = [
    ("worlds", || worlds(0..FIRST)),
    ("cases", cases::all),
    ("brakes", || brakes::first_broken().map_or(Ok(()), Err)),
    ("swaps", || swaps::first_broken().map_or(Ok(()), Err)),
    ("refusals", refusals::all),
    ("limits", || {
        limits::refuses_nothing(&limits::USUAL)?;
        limits::one_token_costs_one()?;
        limits::others_are_yielded_to()?;
        limits::registrations_follow(&limits::USUAL)
    }),
    ("lease", || (0..1_000).try_for_each(|seed| lease::World::run(seed).map(drop))),
    ("unable", || lease::World::hold_out(0..5)),
    ("rare", || RARE.iter().try_for_each(|seed| worlds(*seed..seed + 1))),
    ("worlds", || worlds(FIRST..BUDGET)),
    ("tenants", || tenants::first_broken().map_or(Ok(()), Err)),
    ("accounts", || accounts::first_broken().map_or(Ok(()), Err)),
    ("reads", reads::all),
];

/// What notices a mistake in what becomes of an IngressDaemonSet. Such a mistake is called after the set.
const OF_SETS: [Check; 1] = [("daemonsets", || daemonsets::first_broken().map_or(Ok(()), Err))];

/// Which check notices a bug, and what it says; a panic is noticed, too.
fn noticed(bug: Option<usize>) -> Option<(&'static str, String)> {
    let is_of_sets =
        bug.and_then(|nth| planted::ALL.get(nth)).is_some_and(|(name, _)| name.starts_with("Set"));
    let by = |(name, check): Check| {
        planted::switch(bug);
        let ended = catch_unwind(AssertUnwindSafe(check));
        planted::switch(None);
        let said = match ended {
            Ok(Ok(())) => return None,
            Ok(Err(said)) => said,
            Err(panic) => {
                let text = panic.downcast_ref::<String>().map(String::as_str);
                text.or_else(|| panic.downcast_ref().copied()).unwrap_or("a panic").to_owned()
            }
        };
        Some((name, said.lines().next().unwrap_or_default().to_owned()))
    };
    if is_of_sets { OF_SETS.into_iter().find_map(by) } else { CHECKS.into_iter().find_map(by) }
}

#[test]
fn every_planted_bug_is_noticed() {
    // `HEADGATE_PLANTED=Set` looks at those with that in their names.
    let only = std::env::var("HEADGATE_PLANTED").unwrap_or_default();
    let (next, missed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                loop {
                    let nth = next.fetch_add(1, Ordering::Relaxed);
                    let Some((name, _)) = planted::ALL.get(nth) else { break };
                    if !name.contains(&*only) {
                        continue;
                    }
                    match noticed(Some(nth)) {
                        Some((check, said)) => println!("{name}: {check}: {said}"),
                        None => missed.lock().unwrap().push(*name),
                    }
                }
            });
        }
    });
    assert_eq!(missed.into_inner().unwrap(), [""; 0], "these mistakes are not noticed");
}

#[test]
fn without_a_bug_nothing_is_noticed() {
    // The worlds of the core itself are played elsewhere.
    worlds(0..FIRST).unwrap_or_else(|said| panic!("{said}"));
    for (name, check) in CHECKS.iter().chain(&OF_SETS).filter(|(name, _)| *name != "worlds") {
        check().unwrap_or_else(|said| panic!("{name}: {said}"));
    }
}
