//! The short form of `make demo`: one phase, with care and without.

use headgate_tests::{
    demo::{
        play::{Phase, Script, play, start},
        report::{Demands, Report, Verdict},
        stage::{Care, DEREGISTRATION_BOUND},
    },
    shared_world::alone,
};

#[test]
fn a_rolling_restart_loses_nothing_with_gate_and_hold_and_some_without() {
    alone(|world| async move {
        let facts = world.facts();
        let (headgate, configuration) = start(facts, "demo", DEREGISTRATION_BOUND).await;
        let care = Care::covering(DEREGISTRATION_BOUND, facts.time_scale);
        let script =
            |name, number, care| Script { name, number, care, mine: "demo", phases: &[Phase::Restart] };
        let careful = play(facts, &headgate, script("careful", 1, care)).await;
        let plain = play(facts, &headgate, script("plain", 2, Care::None)).await;
        configuration.remove().await;
        for (run, short) in [("careful", false), ("plain", true)] {
            let count = format!("headgate_holds_too_short_total{{target_group=\"{run}-web\"}}");
            let counted = headgate.metric(&count).await.unwrap();
            assert_eq!(counted > 0.0, short, "{counted} holds of {run} were too short");
        }
        let demands = Demands {
            offered: 2_000,
            pods_replaced: 6,
            lag_bound_ms: DEREGISTRATION_BOUND * facts.time_scale * 1000.0,
            plain_loss: 0.005,
        };
        let report = Report { careful, plain };
        let table = report.table();
        assert_eq!(report.verdict(demands), Verdict::Pass, "{table}\n{:?}", report.careful.lost_requests);
        let all = &report.plain.lost_requests;
        let unexplained: Vec<_> = all
            .iter()
            .filter(|lost| lost.target.is_none() && lost.before_registration_was_known_ms.is_none())
            .collect();
        assert!(unexplained.is_empty(), "{unexplained:?}\n{table}");
    });
}
