//! What probes lead to, and when it is seen.

use super::*;

#[test]
fn a_network_target_is_healthy_after_as_many_checks_as_the_threshold() {
    let mut lab = Lab::network().prompt();
    lab.register_well(A);
    lab.pass(119.0);
    assert_eq!(lab.state(A), "initial/Elb.InitialHealthChecking");
    lab.pass(2.0);
    assert_eq!(lab.state(A), "healthy");
}

#[test]
fn an_application_target_is_healthy_after_one_check_but_comes_back_after_the_threshold() {
    let mut lab = Lab::application().prompt();
    lab.register_well(A);
    lab.pass(0.5);
    assert_eq!(lab.state(A), "healthy");
    lab.well.clear();
    lab.pass(60.0);
    assert_eq!(lab.state(A), "unhealthy/Target.ResponseCodeMismatch");
    lab.well.insert(addr(A));
    lab.pass(31.0);
    assert_eq!(lab.state(A), "unhealthy/Target.ResponseCodeMismatch");
    lab.pass(120.0);
    assert_eq!(lab.state(A), "healthy");
}

#[test]
fn a_network_load_balancer_gives_one_reason_for_everything() {
    let mut lab = Lab::network().prompt();
    lab.register(A).unwrap();
    lab.pass(100.0);
    assert_eq!(lab.state(A), "unhealthy/Target.FailedHealthChecks");
}

#[test]
fn a_revived_target_does_not_inherit_health() {
    let mut lab = Lab::network().prompt();
    lab.register_well(A);
    lab.pass(200.0);
    lab.deregister(A);
    lab.well.clear();
    lab.register(A).unwrap();
    lab.pass(10.0);
    assert_eq!(lab.state(A), "initial/Elb.InitialHealthChecking");
    lab.pass(60.0);
    assert_eq!(lab.state(A), "unhealthy/Target.FailedHealthChecks");
}

#[test]
fn a_node_may_act_on_a_decision_before_or_after_the_api_shows_it() {
    let (mut before, mut after) = (0, 0);
    for n in 0..20 {
        let mut lab = Lab::network().prompt();
        lab.tune(|lag| lag.health_skew = Range { low: -5.0, high: 5.0 });
        for _ in 0..n {
            lab.model.hex(1);
        }
        // Not healthy, so that the change of health is a change of routing.
        lab.register("127.101.0.11").unwrap();
        lab.register_well(A);
        lab.pass(200.0);
        let shown = lab.shown_at(A, "healthy").unwrap();
        let acted = lab.routed_at("127.101.0.11", false)[0];
        assert!((acted - shown).abs() <= 10.0);
        if acted < shown {
            before += 1;
        } else {
            after += 1;
        }
    }
    assert!(before > 0 && after > 0, "{before} before, {after} after");
}

#[test]
fn a_target_is_not_healthy_before_the_last_node_has_learned_of_it() {
    let mut lab = Lab::network().prompt();
    lab.tune(|lag| lag.registration = Range { low: 0.0, high: 3000.0 });
    lab.attribute("load_balancing.cross_zone.enabled", "true");
    lab.register_well(A);
    lab.pass(4000.0);
    let last = lab.routed_at(A, true).into_iter().fold(0.0, f64::max);
    assert!(lab.shown_at(A, "healthy").unwrap() >= last);
}

#[test]
fn a_decision_about_an_earlier_registration_is_not_shown_for_a_later_one() {
    let mut lab = Lab::network().prompt();
    // The API is far behind the nodes.
    lab.tune(|lag| lag.health_skew = Range { low: -100.0, high: -90.0 });
    lab.register_well(A);
    lab.pass(125.0);
    assert_eq!(lab.state(A), "initial/Elb.InitialHealthChecking");
    lab.deregister(A);
    lab.well.clear();
    lab.register(A).unwrap();
    lab.pass(400.0);
    assert_eq!(lab.shown_at(A, "healthy"), None);
    assert_eq!(lab.state(A), "unhealthy/Target.FailedHealthChecks");
}
