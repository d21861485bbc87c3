//! Planted bugs are found in the small world: whoever looks at every state must come upon them.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use headgate_core::planted;
use headgate_simulation::exhaustive::{Bounds, explore};

/// Mistakes that show in a world as small as this one.
const SHOWN: [&str; 10] = [
    "SharedIsTakenForExclusive",
    "TerminatingStaysTarget",
    "OlderHolderKeepsTheIp",
    "BoundIsNotWaitedFor",
    "DeposedLeaderGoesOn",
    "RefusedOnesAreForgotten",
    "LedgerIsIgnored",
    "ActsBeforeLedgers",
    "ClaimIsNotAwaited",
    "ClaimTrustsReadsOfThePast",
];

/// A mistake must be found among so many states.
const STATES: usize = 12_000;

/// The worlds in which it is looked for, the smallest ones first.
fn worlds() -> Vec<Bounds> {
    let small = Bounds { one_by_one: true, dawdles: 0, states: STATES, threads: 1, ..Bounds::default() };
    let evicted = Bounds { is_evicted: true, ..small };
    vec![
        small,
        evicted,
        Bounds { one_by_one: false, dawdles: 1, ..small },
        Bounds { faults: 1, ..small },
        Bounds { crashes: 1, deposals: 1, ..small },
        Bounds { faults: 1, ..evicted },
    ]
}

/// The number of a mistake.
fn number(name: &str) -> usize {
    let known = planted::ALL.iter().position(|(known, _)| *known == name);
    known.unwrap_or_else(|| panic!("there is no planted bug {name}"))
}

/// What is wrong in the first state that is not as it should be, and after how many.
fn found(bug: usize) -> Option<String> {
    worlds().into_iter().find_map(|bounds| {
        planted::switch(Some(bug));
        let ended = catch_unwind(AssertUnwindSafe(|| explore(bounds)));
        planted::switch(None);
        match ended {
            Ok(Ok(_)) => None,
            Ok(Err(broken)) => {
                let (steps, states) = (broken.path.len(), broken.report.states);
                Some(format!("{} ({steps} steps, {states} states)", broken.what))
            }
            Err(_) => Some("a panic".to_owned()),
        }
    })
}

/// All of these that are found, each with what was wrong.
fn all_found(names: &[&'static str]) -> Vec<(&'static str, Option<String>)> {
    let (next, all) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                while let Some(name) = names.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let said = found(number(name));
                    println!("{name}: {}", said.as_deref().unwrap_or("not found"));
                    all.lock().unwrap().push((*name, said));
                }
            });
        }
    });
    all.into_inner().unwrap()
}

/// `HEADGATE_EXHAUSTIVE_ALL=1` says of all planted bugs whether they are found.
#[test]
fn planted_bugs_are_found() {
    if std::env::var_os("HEADGATE_EXHAUSTIVE_ALL").is_some() {
        let every: Vec<&'static str> = planted::ALL.iter().map(|(name, _)| *name).collect();
        all_found(&every);
        return;
    }
    // An empty list would find everything that is on it.
    assert!(SHOWN.len() >= 10, "expected ten planted bugs, and these are listed: {SHOWN:?}");
    let missed: Vec<&str> =
        all_found(&SHOWN).iter().filter(|(_, said)| said.is_none()).map(|(name, _)| *name).collect();
    assert_eq!(missed, [""; 0], "these mistakes are not found");
}
