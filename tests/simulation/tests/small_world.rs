//! The core in every state of a small world.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::Instant,
};

use headgate_simulation::{
    claims,
    exhaustive::{Bounds, Report, explore, tell},
};

/// The number in an environment variable, if it is set.
fn asked<T: std::str::FromStr>(name: &str, otherwise: T) -> T {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name} is a number")),
        Err(_) => otherwise,
    }
}

/// The number in an environment variable, where this world has any of that.
fn more(name: &str, usual: u8) -> u8 {
    if usual == 0 { 0 } else { asked(name, usual) }
}

/// `make explore` asks for more.
fn holds_everywhere(usual: Bounds) {
    let bounds = Bounds {
        faults: more("HEADGATE_EXHAUSTIVE_FAULTS", usual.faults),
        crashes: more("HEADGATE_EXHAUSTIVE_CRASHES", usual.crashes),
        deposals: more("HEADGATE_EXHAUSTIVE_DEPOSALS", usual.deposals),
        troubles: asked("HEADGATE_EXHAUSTIVE_TROUBLES", usual.troubles),
        dawdles: asked("HEADGATE_EXHAUSTIVE_DAWDLES", usual.dawdles),
        states: asked("HEADGATE_EXHAUSTIVE_STATES", usual.states),
        ..usual
    };
    let Report { states, steps, depth, widest, is_exhausted, took } =
        explore(bounds).unwrap_or_else(|broken| panic!("{}\n{}", broken.what, tell(bounds, &broken.path)));
    let seconds = took.as_secs_f64();
    let exhausted = if is_exhausted { "exhausted" } else { "NOT exhausted" };
    println!(
        "{bounds:?}\n{states} states, {steps} steps, depth {depth}, at most {widest} kept, {exhausted}, {seconds:.1} s"
    );
    assert!(is_exhausted, "there are more states than {}", bounds.states);
}

#[test]
fn of_a_pod_that_is_evicted_every_state_is_as_it_should_be_when_a_call_goes_wrong() {
    holds_everywhere(Bounds {
        is_evicted: true,
        one_by_one: true,
        faults: 1,
        dawdles: 1,
        ..Bounds::default()
    });
}

#[test]
fn of_a_pod_that_is_deleted_every_state_is_as_it_should_be_when_a_call_goes_wrong() {
    holds_everywhere(Bounds { faults: 1, dawdles: 1, ..Bounds::default() });
}

#[test]
fn of_a_pod_that_is_deleted_every_state_is_as_it_should_be_when_another_replica_comes_to_lead() {
    holds_everywhere(Bounds { crashes: 1, deposals: 1, dawdles: 0, ..Bounds::default() });
}

#[test]
fn of_a_pod_that_is_evicted_every_state_is_as_it_should_be_when_another_replica_comes_to_lead() {
    holds_everywhere(Bounds {
        is_evicted: true,
        one_by_one: true,
        crashes: 1,
        deposals: 1,
        dawdles: 0,
        ..Bounds::default()
    });
}

/// `HEADGATE_CLAIMS=evicted` looks only at worlds with that in their names.
#[test]
fn claims_hold_in_every_order_of_events_and_faults() {
    let only = asked("HEADGATE_CLAIMS", String::new());
    let faults = asked("HEADGATE_CLAIMS_FAULTS", 1);
    let shapes: Vec<_> = claims::SHAPES.iter().filter(|shape| shape.name.contains(&only)).collect();
    assert!(!shapes.is_empty(), "there is no world with {only} in its name");
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(shape) = shapes.get(next.fetch_add(1, Ordering::Relaxed)) {
            let began = Instant::now();
            let explored =
                claims::explore(shape, faults, usize::MAX).unwrap_or_else(|wrong| panic!("{wrong}"));
            println!("{}: {explored:?}, {:.1} s", shape.name, began.elapsed().as_secs_f64());
        }
    };
    let threads = Bounds::default().threads;
    thread::scope(|scope| (0..threads).for_each(|_| _ = scope.spawn(work)));
}
