//! Tests of the effects of probes, and of the times at which the effects become visible.

use super::*;

#[test]
fn row_02_a_network_target_is_healthy_after_as_many_checks_as_the_threshold() {
    let mut lab = Lab::network().prompt();
    lab.register_well(A);
    lab.pass(119.0);
    assert_eq!(lab.state(A), "initial/Elb.InitialHealthChecking");
    lab.pass(2.0);
    assert_eq!(lab.state(A), "healthy");
}

#[test]
fn row_02_an_application_target_is_healthy_after_one_check_but_comes_back_after_the_threshold() {
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
fn row_04_a_node_may_act_on_a_decision_before_or_after_the_api_shows_it() {
    let (mut before, mut after) = (0, 0);
    for n in 0..20 {
        let mut lab = Lab::network().prompt();
        lab.tune(|lag| lag.health_skew = Range { low: -5.0, high: 5.0 });
        for _ in 0..n {
            lab.model.hex(1);
        }
        // The target is not healthy yet, so the change of its health changes the routing.
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
fn row_03_a_target_is_not_healthy_before_the_last_node_has_learned_of_it() {
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
    // The API shows health changes long after the nodes act on the changes.
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

#[test]
fn row_08_a_node_stops_sending_thirty_to_forty_seconds_after_a_target_is_shown_as_unhealthy() {
    let mut lab = Lab::network().prompt();
    lab.register_well(A);
    lab.register_well("127.101.0.11");
    lab.pass(200.0);
    lab.well.remove(&addr(A));
    lab.pass(200.0);
    let (shown, stopped) = (lab.shown_at(A, "unhealthy").unwrap(), lab.routed_at(A, false)[0]);
    assert!((30.0..=40.0).contains(&(stopped - shown)), "shown at {shown}, stopped at {stopped}");
}

#[test]
fn row_08_flows_are_cut_once_the_node_acts_and_not_where_it_fails_open() {
    let mut lab = Lab::network().prompt();
    lab.register_well(A);
    lab.register_well("127.101.0.11");
    lab.register_well(B);
    lab.pass(200.0);
    assert_eq!(lab.model.take_cuts(), []);
    lab.well.remove(&addr(A));
    lab.well.remove(&addr(B));
    lab.pass(200.0);
    let cuts = lab.model.take_cuts();
    let is_cut = |target: &str, node: usize| {
        cuts.iter().any(|cut| cut.target == addr(target) && cut.node == Some(node))
    };
    assert!(is_cut(A, 0), "{cuts:?}");
    assert!(!is_cut(B, 1), "the last of its zone: {cuts:?}");
}

#[test]
fn row_08_an_unhealthy_target_drains_for_its_interval_when_its_flows_are_kept() {
    let mut lab = Lab::network().prompt();
    lab.attribute("target_health_state.unhealthy.connection_termination.enabled", "false");
    lab.attribute("target_health_state.unhealthy.draining_interval_seconds", "600");
    lab.register_well(A);
    lab.register_well("127.101.0.11");
    lab.pass(200.0);
    lab.well.remove(&addr(A));
    lab.pass(120.0);
    assert_eq!(lab.state(A), "unhealthy.draining/Target.FailedHealthChecks");
    lab.pass(600.0);
    assert_eq!(lab.state(A), "unhealthy/Target.FailedHealthChecks");
    assert_eq!(lab.model.take_cuts(), []);
    lab.well.insert(addr(A));
    lab.pass(300.0);
    assert_eq!(lab.state(A), "healthy");
}

#[test]
fn row_08_an_application_node_stops_at_once_and_cuts_nothing() {
    let mut lab = Lab::application().prompt();
    lab.register_well(A);
    lab.register_well(B);
    lab.pass(60.0);
    lab.well.remove(&addr(A));
    lab.pass(120.0);
    let (shown, stopped) = (lab.shown_at(A, "unhealthy").unwrap(), lab.routed_at(A, false));
    assert_eq!(stopped, [shown; 3]);
    assert_eq!(lab.model.take_cuts(), []);
}
