//! The short form of `make demo`: one phase, with and without Headgate.
//!
//! The losses without Headgate depend on the speed of the machine, so only `make demo` requires them. This test checks
//! in the trace that the load balancer keeps sending to terminated pods, which shows that they need the hold.

use std::time::Duration;

use headgate_demo::{
    play::{Phase, Script, play, start},
    report::{Demands, Report, Verdict},
    stage::{Care, DEREGISTRATION_BOUND},
};
use headgate_harness::shared_world::alone;

#[test]
fn a_rolling_restart_loses_nothing_with_gate_and_hold_though_the_load_balancer_goes_on_sending() {
    alone(|world| async move {
        let facts = world.facts();
        let (headgate, configuration) =
            start(facts, &["careful", "plain"], "demo", DEREGISTRATION_BOUND).await;
        let care = Care::covering(DEREGISTRATION_BOUND, facts.time_scale);
        let (later, phases) = (Duration::ZERO, &[Phase::Restart]);
        let script = |name, number, care| Script { name, number, care, later, mine: "demo", phases };
        let careful = play(facts, &headgate, script("careful", 1, care)).await;
        let plain = play(facts, &headgate, script("plain", 2, Care::None)).await;
        configuration.remove().await;
        let count = "headgate_holds_too_short_total{target_group=\"careful-web\"}";
        assert_eq!(headgate.metric(count).await, Some(0.0), "no hold of careful was too short");
        let demands = Demands {
            offered: 2_000,
            pods_replaced: 6,
            lag_bound_ms: DEREGISTRATION_BOUND * facts.time_scale * 1000.0,
            plain_loss: 0.0,
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
