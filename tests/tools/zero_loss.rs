//! The short form of `make zero-loss`: a cell on simulated nodes, fast.
//!
//! What the control loses depends on the speed of the machine, so `make zero-loss` asks for it and these tests do not.

use headgate_harness::{aws::Aws, shared_world::alone};
use headgate_zero_loss::{
    cell::{Cell, Hold},
    data,
    play::{Setting, play},
    profile::Profile,
    report::Report,
    scenario::Scenario,
};
use localstack_world::{Facts, Nodes};

/// Faster than `make zero-loss`, with less of a margin: nothing else runs meanwhile.
const SETTING: Setting = Setting { time_scale: 0.02, margin: 5 };

/// Plays a scenario; fails if anything is not as the table has it.
async fn as_promised(facts: &Facts, scenario: Scenario, hold: Hold) -> Report {
    let (profile, nodes) = (Profile::TypicalNlb, Nodes::Simulated);
    let cell = Cell { scenario, ingress: None, profile, cross_zone: true, hold, nodes };
    let rows = play(facts, cell, SETTING, scenario.name(), &facts.folder).await;
    let report = Report { rows };
    let shown = data::csv(&report);
    assert_eq!(report.broken(), Vec::<String>::new(), "\n{shown}");
    assert!(cell.is_promised() && report.rows.iter().all(|row| row.offered > 100), "{shown}");
    // Other tests find the stand-in as it was.
    Aws::new(facts).await.control("POST", "/reset", None).await;
    report
}

#[test]
fn a_leader_killed_during_a_roll_loses_nothing_with_gate_and_hold() {
    alone(|world| async move {
        let report = Box::pin(as_promised(world.facts(), Scenario::LeaderKilled, Hold::Covering)).await;
        let used = report.rows[0].margin_used_ms;
        assert!(
            used > 1_000,
            "pods went while nobody led: {used} ms until AWS had taken the last Deregister"
        );
    });
}
