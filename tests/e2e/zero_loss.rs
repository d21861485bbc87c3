//! The short form of `make zero-loss`: a cell on simulated nodes, fast.

use headgate_tests::{
    aws::Aws,
    shared_world::alone,
    zero_loss::{
        cell::{Cell, Hold},
        play::{Setting, play},
        profile::Profile,
        report::Report,
        scenario::Scenario,
    },
};
use localstack_world::Nodes;

/// Faster than `make zero-loss`, with less of a margin: nothing else runs meanwhile.
const SETTING: Setting = Setting { time_scale: 0.02, margin: 5 };

#[test]
fn a_leader_killed_during_a_roll_loses_nothing_with_gate_and_hold_and_some_without() {
    alone(|world| async move {
        let facts = world.facts();
        let cell = Cell {
            scenario: Scenario::LeaderKilled,
            profile: Profile::TypicalNlb,
            hold: Hold::Covering,
            nodes: Nodes::Simulated,
        };
        let rows = play(facts, cell, SETTING, "zero-loss", &facts.folder).await;
        let report = Report { rows };
        assert_eq!(report.complaints(), Vec::<String>::new(), "\n{}", report.table());
        assert!(report.rows.iter().all(|row| row.offered > 500), "{}", report.table());
        let used = report.rows[0].margin_used_ms;
        assert!(
            used > 1_000,
            "pods went while nobody led: {used} ms until AWS had taken the last Deregister"
        );
        // Other tests find the stand-in as it was.
        Aws::new(facts).await.control("POST", "/reset", None).await;
    });
}
