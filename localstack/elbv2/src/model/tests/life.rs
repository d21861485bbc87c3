//! Tests of the life of a target, from the registration to the end of draining.

use super::*;

#[test]
fn row_12_a_target_of_a_group_without_listener_is_not_in_use() {
    let mut lab = Lab::network();
    let listener = lab.listener();
    lab.model.delete_listener(listener, lab.now).unwrap();
    lab.register_well(A);
    lab.pass(1000.0);
    assert_eq!(lab.state(A), "unused/Target.NotInUse");
    assert_eq!(lab.routed_at(A, true), [0.0; 0]);
}

#[test]
fn row_12_a_target_in_a_zone_that_is_not_enabled_is_not_in_use() {
    let mut lab = Lab::network();
    lab.register_well("127.101.96.10");
    lab.pass(1000.0);
    assert_eq!(lab.state("127.101.96.10"), "unused/Target.NotInUse");
}

#[test]
fn a_listener_brings_targets_into_use_and_its_end_takes_them_out() {
    let mut lab = Lab::network();
    let listener = lab.listener();
    lab.model.delete_listener(listener, lab.now).unwrap();
    lab.register_well(A);
    lab.listen(80, &[(lab.group, 1)]);
    assert_eq!(lab.state(A), "initial/Elb.RegistrationInProgress");
    lab.pass(400.0);
    assert_eq!(lab.state(A), "healthy");
    let listener = lab.listener();
    lab.model.delete_listener(listener, lab.now).unwrap();
    assert_eq!(lab.state(A), "unused/Target.NotInUse");
    lab.pass(400.0);
    assert_eq!(lab.state(A), "unused/Target.NotInUse");
}

#[test]
fn row_01_nodes_learn_of_a_registration_each_at_its_own_time_within_the_range() {
    let mut lab = Lab::network();
    lab.attribute("load_balancing.cross_zone.enabled", "true");
    lab.register_well(A);
    lab.pass(29.0);
    assert_eq!(lab.state(A), "initial/Elb.RegistrationInProgress");
    lab.pass(62.0);
    let learned = lab.routed_at(A, true);
    assert_eq!(learned.len(), 3);
    assert!(learned.iter().all(|at| (30.0..=90.0).contains(at)), "{learned:?}");
    assert!(learned[0] < learned[1] && learned[1] < learned[2], "{learned:?}");
    assert_eq!(lab.state(A), "initial/Elb.InitialHealthChecking");
}

#[test]
fn row_05_a_deregistered_target_is_sent_to_until_each_node_has_learned_of_it() {
    let mut lab = Lab::network().prompt();
    lab.attribute("load_balancing.cross_zone.enabled", "true");
    lab.register_well(A);
    lab.pass(200.0);
    lab.deregister(A);
    assert_eq!(lab.state(A), "draining/Target.DeregistrationInProgress");
    assert_eq!(lab.routed_by(A), 3);
    assert!(!lab.settled());
    lab.pass(9.0);
    assert_eq!(lab.routed_by(A), 3);
    lab.pass(112.0);
    assert_eq!(lab.routed_by(A), 0);
    assert!(lab.settled());
    let stopped = lab.routed_at(A, false);
    assert_eq!(stopped.len(), 3);
    assert!(stopped.iter().all(|at| (210.0..=320.0).contains(at)), "{stopped:?}");
}

#[test]
fn row_06_draining_is_shown_for_the_delay_whatever_the_nodes_do() {
    let mut lab = Lab::application().prompt();
    lab.register_well(A);
    lab.pass(10.0);
    lab.deregister(A);
    lab.pass(299.0);
    assert_eq!(lab.state(A), "draining/Target.DeregistrationInProgress");
    lab.pass(2.0);
    assert_eq!(lab.state(A), "gone");
}

#[test]
fn row_06_draining_is_shown_at_least_until_the_last_node_has_stopped() {
    let mut lab = Lab::network().prompt();
    lab.attribute("deregistration_delay.timeout_seconds", "0");
    lab.attribute("load_balancing.cross_zone.enabled", "true");
    lab.register_well(A);
    lab.pass(200.0);
    lab.deregister(A);
    let mut seconds = 0;
    while lab.routed_by(A) > 0 {
        assert_eq!(lab.state(A), "draining/Target.DeregistrationInProgress");
        lab.pass(1.0);
        seconds += 1;
    }
    assert!((10..=121).contains(&seconds), "{seconds}");
    assert_eq!(lab.state(A), "gone");
}

#[test]
fn deregistering_an_unused_target_removes_it_at_once() {
    let mut lab = Lab::network();
    lab.register("127.101.96.10").unwrap();
    lab.deregister("127.101.96.10");
    assert_eq!(lab.state("127.101.96.10"), "gone");
}

#[test]
fn word_of_a_registration_that_is_overtaken_by_word_of_its_end_is_void() {
    let mut lab = Lab::network();
    lab.tune(|lag| lag.deregistration = Range { low: 0.0, high: 1.0 });
    lab.register_well(A);
    lab.pass(1.0);
    lab.deregister(A);
    lab.pass(200.0);
    assert_eq!(lab.routed_at(A, true), [0.0; 0]);
}

#[test]
fn row_11_a_revived_target_starts_over_and_survives_the_end_of_its_earlier_registration() {
    let mut lab = Lab::network();
    lab.tune(|lag| {
        lag.deregistration = Range { low: 100.0, high: 120.0 };
    });
    lab.register_well(A);
    lab.pass(400.0);
    assert_eq!(lab.routed_by(A), 1);
    lab.deregister(A);
    lab.register(A).unwrap();
    assert_eq!(lab.state(A), "initial/Elb.RegistrationInProgress");
    assert_eq!(lab.routed_by(A), 1, "nodes go on until they learn");
    lab.pass(700.0);
    assert_eq!(lab.state(A), "healthy");
    assert_eq!(lab.routed_by(A), 1);
}

#[test]
fn row_11_registering_a_draining_target_can_be_ignored() {
    let mut lab = Lab::application().prompt();
    lab.on_draining(OnDraining::Ignore);
    lab.register_well(A);
    lab.pass(10.0);
    lab.deregister(A);
    lab.register(A).unwrap();
    assert_eq!(lab.state(A), "draining/Target.DeregistrationInProgress");
    lab.pass(301.0);
    assert_eq!(lab.state(A), "gone");
}

#[test]
fn row_11_registering_a_draining_target_of_an_application_load_balancer_is_refused() {
    let mut lab = Lab::application().prompt();
    lab.register_well(A);
    lab.pass(10.0);
    lab.deregister(A);
    assert_eq!(lab.register(A).unwrap_err().code(), "ValidationError");
    assert_eq!(lab.state(A), "draining/Target.DeregistrationInProgress");
}

#[test]
fn the_same_address_on_two_ports_is_two_targets() {
    let mut lab = Lab::network().prompt();
    lab.register_well(A);
    lab.register_well("127.101.0.10:9090");
    lab.pass(200.0);
    lab.deregister(A);
    assert_eq!(lab.state(A), "draining/Target.DeregistrationInProgress");
    assert_eq!(lab.state("127.101.0.10:9090"), "healthy");
}

#[test]
fn registering_again_changes_nothing() {
    let mut lab = Lab::network().prompt();
    lab.register_well(A);
    lab.pass(200.0);
    lab.register(A).unwrap();
    assert_eq!(lab.state(A), "healthy");
}
