//! Targets that come back, get lost or are somebody else's, and the gates of their pods.

use std::collections::BTreeSet;

use headgate_core::{
    Cause,
    model::{GateFacts, HealthState, PodFacts, ServiceFacts, Target, Uid, gate::Shown},
};

use super::stage::{Case, SECOND, Stage, expect, paused};
use crate::objects::{pod, service};
use crate::words::ip;

/// All of them.
pub const ALL: [Case; 8] = [
    ("a_doubt_that_comes_late", a_doubt_that_comes_late),
    ("a_target_at_which_another_pod_was_for_a_moment", a_target_at_which_another_pod_was_for_a_moment),
    (
        "a_target_of_nobody_knows_whom_at_the_address_of_a_paused_one",
        a_target_of_nobody_knows_whom_at_the_address_of_a_paused_one,
    ),
    ("an_address_that_another_installation_registers", an_address_that_another_installation_registers),
    ("a_target_that_was_missing_for_one_read", a_target_that_was_missing_for_one_read),
    ("a_gate_that_opens_for_what_cannot_be_read", a_gate_that_opens_for_what_cannot_be_read),
    (
        "a_gate_of_whose_registration_only_the_ledger_tells",
        a_gate_of_whose_registration_only_the_ledger_tells,
    ),
    (
        "a_removal_that_was_given_up_before_nothing_can_be_read",
        a_removal_that_was_given_up_before_nothing_can_be_read,
    ),
];

/// The removal of a stale target waits for the end of a pause; meanwhile a Service that selects its pod becomes doubtful.
fn a_doubt_that_comes_late() -> Result<(), String> {
    let mut stage = Stage::new(&[1]);
    stage.service(paused());
    stage.pods(&[pod("api", 1)]);
    stage.lead();
    stage.apply(ServiceFacts { target_groups: Some("http=unknown".into()), ..service("api") });
    stage.apply(service("web"));
    stage.passes(61 * SECOND);
    stage.reads(&[(1, HealthState::Healthy.into())]);
    stage.expect_removed(&[])
}

/// While another replica leads a pod goes, then another one has its address for a moment: what the ledger says of the first
/// goes at once.
fn a_target_at_which_another_pod_was_for_a_moment() -> Result<(), String> {
    let mut stage = Stage::new(&[1]);
    stage.service(service("web"));
    stage.pods(&[pod("web", 1)]);
    stage.goes(&pod("web", 1));
    stage.pod(of_another_life(1));
    stage.goes(&of_another_life(1));
    stage.lead();
    stage.reads(&[(1, HealthState::Healthy.into())]);
    stage.expect_removed(&[1])
}

/// The ledger has a target of a pod that nobody here has seen; a pod of a paused Service went from its address. It may as
/// well be another Service's, which is not paused.
fn a_target_of_nobody_knows_whom_at_the_address_of_a_paused_one() -> Result<(), String> {
    let mut stage = Stage::new(&[1]);
    stage.service(paused());
    stage.apply(service("api"));
    stage.pods(&[]);
    stage.pod(of_another_life(1));
    stage.goes(&of_another_life(1));
    stage.lead();
    stage.shows_until_one_goes(10, &[(1, HealthState::Unhealthy.into())]);
    stage.expect_removed(&[1])
}

/// A pod goes, and another installation that shares the target group registers its address for a pod of another cluster.
fn an_address_that_another_installation_registers() -> Result<(), String> {
    let mut stage = Stage::leading();
    stage.pod(pod("web", 1));
    stage.shows(60, &[(1, HealthState::Healthy.into())]);
    stage.goes(&pod("web", 1));
    let removed = vec![Target::new(ip(1), 80)];
    expect("removed targets", &stage.removed, &removed)?;
    stage.shows(4, &[]);
    stage.shows(10, &[(1, HealthState::Initial.into())]);
    stage.shows(120, &[(1, HealthState::Healthy.into())]);
    expect("removed targets", &stage.removed, &removed)
}

/// Others have taken a target out again and again, so that it waits to be registered, and its pod, whose gate is open, is not
/// selected any more: as it was before.
fn taken_by_others() -> (Stage, PodFacts) {
    let mut stage = Stage::leading();
    let gate = Some(Box::new(GateFacts { shown: Shown::Open(Some(ip(1))), ..GateFacts::default() }));
    let its = PodFacts { gate, ..pod("web", 1) };
    stage.pod(its.clone());
    stage.shows(20, &[]);
    stage.pod(PodFacts { labels: pod("other", 1).labels, ..its.clone() });
    (stage, its)
}

/// It is there after all, and is taken out from here: the gate is closed before it is put back.
fn a_target_that_was_missing_for_one_read() -> Result<(), String> {
    let (mut stage, its) = taken_by_others();
    stage.shows_until_one_goes(60, &[(1, HealthState::Healthy.into())]);
    stage.expect_removed(&[1])?;
    stage.pod(its);
    expect("gates closed to register again", &stage.closed_again(), &1)
}

/// Its health cannot be read for a minute: its gate opens, says so, and says the usual when the target is seen healthy.
fn a_gate_that_opens_for_what_cannot_be_read() -> Result<(), String> {
    let mut stage = Stage::leading();
    let gated = |gate| PodFacts { gate: Some(Box::new(gate)), ..pod("web", 1) };
    stage.pod(gated(GateFacts::default()));
    stage.reads_fail(70);
    let opened = |stage: &Stage| {
        let opened = stage.gates.iter().filter(|(_, open, _)| *open);
        opened.map(|(.., reason)| *reason).collect::<BTreeSet<_>>()
    };
    expect("why it is open", &opened(&stage), &BTreeSet::from([Cause::HealthUnreadable]))?;
    stage.pod(gated(GateFacts { shown: Shown::Open(Some(ip(1))), unread: true, expected: None }));
    stage.gates.clear();
    stage.shows(30, &[(1, HealthState::Unhealthy.into())]);
    expect("what is written while it is unhealthy", &stage.gates.len(), &0)?;
    stage.shows(60, &[(1, HealthState::Healthy.into())]);
    expect("why it is open", &opened(&stage), &BTreeSet::from([Cause::TargetsHealthy]))
}

/// A pod's health cannot be read, and that AWS took its registration only the ledger says: its gate stays closed.
fn a_gate_of_whose_registration_only_the_ledger_tells() -> Result<(), String> {
    let mut stage = Stage::new(&[1]);
    stage.service(service("web"));
    stage.pods(&[PodFacts { gate: Some(Box::default()), ..pod("web", 1) }]);
    stage.lead();
    let is_open = |stage: &Stage| stage.gates.iter().any(|(_, open, _)| *open);
    stage.reads_fail(120);
    expect("whether its gate opens before a read", &is_open(&stage), &false)?;
    stage.shows(60, &[(1, HealthState::Healthy.into())]);
    expect("whether its gate opens after that", &is_open(&stage), &true)
}

/// The answer to the removal of a pod's target is lost. Another pod gets the address, is registered, and cannot be read: the
/// lost one may be applied for half a minute, so the gate waits longer.
fn a_removal_that_was_given_up_before_nothing_can_be_read() -> Result<(), String> {
    let mut stage = Stage::leading();
    stage.pod(pod("web", 1));
    stage.shows(5, &[(1, HealthState::Healthy.into())]);
    stage.lost_removals = 1;
    stage.goes(&pod("web", 1));
    stage.pod(PodFacts { gate: Some(Box::default()), ..of_another_life(1) });
    stage.reads_fail(80);
    // The lost one, one that is early, and one that counts.
    expect("removals", &stage.removed.len(), &3)?;
    expect("open gates", &stage.gates.iter().filter(|(_, open, _)| *open).count(), &0)
}

/// Another pod of the same name and address.
fn of_another_life(last: u8) -> PodFacts {
    PodFacts { uid: Uid::new("another"), ..pod("web", last) }
}
