//! The short form of `make zero-loss`: a cell on simulated nodes, fast.
//!
//! The losses of the control depend on the speed of the machine, so only `make zero-loss` requires them.

use headgate_harness::{aws::Aws, shared_world::alone};
use headgate_zero_loss::{
    asks::Least,
    cell::{Cell, Hold},
    data,
    play::{Setting, play},
    profile::Profile,
    report::Report,
    scenario::Scenario,
};
use localstack_world::{Facts, Nodes};

/// Faster than `make zero-loss`, and with a smaller margin, because nothing else runs at the same time.
const SETTING: Setting = Setting { time_scale: 0.02, margin: 5 };

/// Runs a scenario. Fails if the result differs from the table.
async fn as_promised(facts: &Facts, scenario: Scenario, profile: Profile, hold: Hold) -> Report {
    let nodes = Nodes::Simulated;
    let cell = Cell { scenario, ingress: None, profile, cross_zone: true, hold, nodes };
    // Names of target groups have at most 32 characters, and this is a part of them.
    let name = scenario.name().trim_start_matches("least-healthy-");
    let rows = play(facts, cell, SETTING, name, &facts.folder).await;
    let report = Report { rows };
    let shown = data::csv(&report);
    assert_eq!(report.broken(), Vec::<String>::new(), "\n{shown}");
    assert!(cell.is_promised() && report.rows.iter().all(|row| row.offered > 100), "{shown}");
    // Resets the stand-in for other tests.
    Aws::new(facts).await.control("POST", "/reset", None).await;
    report
}

#[test]
fn a_leader_killed_during_a_roll_loses_nothing_with_gate_and_hold() {
    alone(|world| async move {
        let report =
            Box::pin(as_promised(world.facts(), Scenario::LeaderKilled, Profile::TypicalNlb, Hold::Covering))
                .await;
        let used = report.rows[0].margin_used_ms;
        assert!(
            used > 1_000,
            "pods went while nobody led: {used} ms until AWS had taken the last Deregister"
        );
    });
}

#[test]
fn late_pods_behind_a_target_group_that_asks_for_many_healthy_targets_lose_nothing() {
    alone(|world| async move {
        let scenario = Scenario::LeastHealthy(Least::Percent(60));
        Box::pin(as_promised(world.facts(), scenario, Profile::TypicalAlb, Hold::Covering)).await;
    });
}

#[test]
fn a_drain_during_a_zonal_shift_loses_nothing_and_waits_for_the_last_pod_that_serves() {
    alone(|world| async move {
        let (scenario, profile) = (Scenario::ShiftDrain, Profile::TypicalNlb);
        let report = Box::pin(as_promised(world.facts(), scenario, profile, Hold::Covering)).await;
        let row = &report.rows[0];
        assert!(row.fewest_healthy >= Some(1) && row.drain_seconds.is_some(), "{row:?}");
    });
}
