//! The short form of `make demo`: one phase, with care and without.

use headgate_tests::{
    demo::{
        play::{Phase, Script, play},
        report::{Demands, Report, Verdict},
        stage::{Care, DEREGISTRATION_BOUND},
    },
    headgate::Headgate,
    shared_world::alone,
};

#[test]
fn a_rolling_restart_loses_nothing_with_care_and_some_without() {
    alone(|world| async move {
        let facts = world.facts();
        let headgate = Headgate::start(facts, &facts.kubeconfig, &["--namespaces=careful,plain"]).await;
        let care = Care::for_scale(facts.time_scale);
        let script = |name, number, care| Script { name, number, care, phases: &[Phase::Restart] };
        let careful = play(facts, &headgate, script("careful", 1, care)).await;
        let plain = play(facts, &headgate, script("plain", 2, Care::default())).await;
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
