//! Pods that are asked to leave, and those that a standby cannot judge.

use headgate_core::{
    Cause,
    model::{
        GateFacts, HealthState, LeavingFacts, PodFacts, Readiness, WallTime,
        gate::Shown,
        leaving::{Annotations, Asked, Mark},
        policy::REGISTER_WHEN,
    },
};

use super::stage::{Case, SECOND, Stage, expect, paused};
use crate::objects::{pod, service};
use crate::words::{forbidden, ip, no_answer};

/// All of them.
pub const ALL: [Case; 9] = [
    (
        "a_pod_that_the_leader_before_had_at_another_address",
        a_pod_that_the_leader_before_had_at_another_address,
    ),
    (
        "a_pod_that_gets_the_address_again_at_which_it_was_a_target",
        a_pod_that_gets_the_address_again_at_which_it_was_a_target,
    ),
    ("a_pod_that_was_taken_out_before_a_pause", a_pod_that_was_taken_out_before_a_pause),
    ("a_word_of_an_earlier_leaving_that_lands_late", a_word_of_an_earlier_leaving_that_lands_late),
    ("that_a_pod_is_still_asked_by_another_clock", that_a_pod_is_still_asked_by_another_clock),
    ("that_a_pod_may_go_by_a_clock_that_is_behind", that_a_pod_may_go_by_a_clock_that_is_behind),
    ("pods_that_a_standby_cannot_judge", pods_that_a_standby_cannot_judge),
    (
        "a_pod_that_was_bound_while_the_watches_of_a_standby_were_cut",
        a_pod_that_was_bound_while_the_watches_of_a_standby_were_cut,
    ),
    ("a_pod_whose_target_group_cannot_be_looked_up", a_pod_whose_target_group_cannot_be_looked_up),
];

/// A pod was a target and is not selected any more, so it was taken out: as it is now.
fn taken_out() -> Result<(Stage, PodFacts), String> {
    let mut stage = Stage::leading();
    stage.pod(pod("web", 1));
    stage.shows(10, &[(1, HealthState::Healthy.into())]);
    let other = PodFacts { labels: pod("other", 1).labels, ..pod("web", 1) };
    stage.pod(other.clone());
    stage.shows(1, &[]);
    stage.expect_removed(&[1])?;
    Ok((stage, other))
}

/// A new leader sees a pod without an address, or at another one than the leader before has registered, and nothing binds it:
/// the watch may be behind, so its eviction is noted first.
fn a_pod_that_the_leader_before_had_at_another_address() -> Result<(), String> {
    for ips in [vec![], vec![ip(5)]] {
        let mut stage = Stage::new(&[1]);
        stage.service(service("web"));
        stage.pods(&[PodFacts { ips: ips.clone(), ..pod("other", 1) }, pod("other", 2)]);
        stage.lead();
        stage.shows(15, &[(1, HealthState::Healthy.into())]);
        let left: Vec<u8> = (1..=2).filter(|last| stage.waits(*last)).collect();
        expect(&format!("pods whose eviction waits, with {ips:?}"), &left, &vec![1])?;
    }
    Ok(())
}

/// A pod was taken out, gets another address and then the first one again, and is asked to leave: it may still be sent to there.
fn a_pod_that_gets_the_address_again_at_which_it_was_a_target() -> Result<(), String> {
    let (mut stage, other) = taken_out()?;
    stage.pod(PodFacts { ips: vec![ip(9)], ..other.clone() });
    stage.shows(60, &[]);
    stage.asks(other);
    stage.shows(1, &[]);
    expect("whether it may go at once", &stage.lets_go(), &false)
}

/// A pod was taken out, then its Service is paused, and it is asked to leave: it may still be sent to.
fn a_pod_that_was_taken_out_before_a_pause() -> Result<(), String> {
    let (mut stage, other) = taken_out()?;
    stage.apply(paused());
    stage.asks(other);
    stage.shows(1, &[]);
    expect("whether it may go at once", &stage.lets_go(), &false)
}

/// What let a pod go that was asked to leave before lands late, and the clock was set back since. Then the pod is asked to
/// leave again: it waits.
fn a_word_of_an_earlier_leaving_that_lands_late() -> Result<(), String> {
    let mut stage = Stage::leading();
    let mut written = Annotations::default();
    stage.shows(10, &[(1, HealthState::Healthy.into())]);
    for ahead in [0, 60] {
        written.write(Mark::Undone);
        written.write(Mark::MayGo { at: stage.wall() + SECOND * ahead, reason: Cause::NotATarget });
        stage.pod(PodFacts { left_over: written.left_over(), ..pod("web", 1) });
        let Some(mark) = stage.notes(1) else { return Err("nothing is to be noted".into()) };
        written.write(mark);
        stage.pod(PodFacts { leaving: written.facts().map(Box::new), ..pod("web", 1) });
        expect(&format!("whether its eviction waits after {written:?}"), &stage.waits(1), &true)?;
    }
    Ok(())
}

/// A replica whose clock is behind has just noted that somebody still asks: that is not noted again before a while has passed
/// here.
fn that_a_pod_is_still_asked_by_another_clock() -> Result<(), String> {
    let mut stage = Stage::leading();
    stage.shows(100, &[(1, HealthState::Healthy.into())]);
    let behind = WallTime::default() + SECOND;
    stage.pod(PodFacts { leaving: Some(Box::new(LeavingFacts::asked(behind, behind))), ..pod("web", 1) });
    for (seconds, is_noted) in [(1, false), (18, false), (2, true)] {
        stage.shows(seconds, &[]);
        expect(&format!("whether it is noted {seconds} s later"), &stage.notes(1).is_some(), &is_noted)?;
    }
    Ok(())
}

/// A leader whose clock is ahead has noted that a pod is out, then another one lets it go: that is no older, so it counts.
fn that_a_pod_may_go_by_a_clock_that_is_behind() -> Result<(), String> {
    let mut stage = Stage::leading();
    let (asked, ahead) = (stage.wall(), stage.wall() + 600 * SECOND);
    let mut written = Annotations::default();
    written.write(Mark::Asked(Asked::first(asked)));
    written.write(Mark::Deregistered { at: ahead, bound: 5 * SECOND });
    stage.pod(PodFacts { leaving: written.facts().map(Box::new), ..pod("web", 1) });
    stage.shows(10, &[]);
    for mark in &stage.marks {
        written.write(*mark);
    }
    let let_go = written.facts().and_then(|facts| facts.let_go());
    expect("why it may go", &let_go, &Some(Cause::EvictionAllowed))
}

/// A standby has not seen that they were ready, or has seen them bound, or their gates are open, or the ledger tells of them;
/// and it does not know what the leader has taken out. It leaves their evictions to the leader, and lets the one go that
/// nothing tells of.
fn pods_that_a_standby_cannot_judge() -> Result<(), String> {
    let mut stage = Stage::new(&[6]);
    let mut ready_alone = service("web");
    ready_alone.policy.set(REGISTER_WHEN, "ready");
    stage.service(ready_alone);
    let open =
        |last| Some(Box::new(GateFacts { shown: Shown::Open(Some(ip(last))), ..GateFacts::default() }));
    let is_ready = Readiness { containers: true, gates: true };
    let was_bound = PodFacts { readiness: is_ready, ..pod("web", 2) };
    let had_another_address = PodFacts { gate: open(9), ..pod("other", 4) };
    let was_opened = PodFacts { gate: open(3), ..pod("other", 3) };
    stage.pods(&[
        pod("web", 1),
        was_bound.clone(),
        was_opened,
        had_another_address,
        pod("other", 5),
        pod("other", 6),
    ]);
    stage.pod(PodFacts { labels: pod("other", 2).labels, ..was_bound });
    stage.passes(600 * SECOND);
    let left: Vec<u8> = (1..=6).filter(|last| stage.waits(*last)).collect();
    expect("pods whose eviction waits for the leader", &left, &vec![1, 2, 3, 6])
}

/// A standby has not seen that a pod was bound, for its watches were cut: when they have listed again the ledgers say so.
fn a_pod_that_was_bound_while_the_watches_of_a_standby_were_cut() -> Result<(), String> {
    let mut stage = Stage::new(&[]);
    stage.service(service("web"));
    let pods = [pod("other", 1), pod("other", 2)];
    stage.pods(&pods);
    stage.passes(SECOND);
    stage.another_claims(&[1]);
    stage.pods(&pods);
    stage.passes(SECOND);
    let left: Vec<u8> = (1..=2).filter(|last| stage.waits(*last)).collect();
    expect("pods whose eviction waits for the leader", &left, &vec![1])
}

/// The target group that a Service names cannot be looked up: its pods may be targets there.
fn a_pod_whose_target_group_cannot_be_looked_up() -> Result<(), String> {
    for (failure, leads) in [(no_answer(), true), (no_answer(), false), (forbidden(), false)] {
        let mut stage = Stage::new(&[]);
        stage.no_lookups = Some(failure.clone());
        stage.service(service("web"));
        stage.pods(&[pod("web", 1), pod("other", 2)]);
        if leads {
            stage.lead();
        }
        stage.passes(SECOND);
        let left: Vec<u8> = (1..=2).filter(|last| stage.waits(*last)).collect();
        expect(&format!("pods whose eviction waits after {failure:?}"), &left, &vec![1])?;
    }
    Ok(())
}
