//! Tests of routing tables and of DNS answers.

use super::*;

#[test]
fn row_10_a_network_node_sends_within_its_zone_unless_cross_zone_is_on() {
    let mut lab = Lab::network().prompt();
    lab.register_well(A);
    lab.register_well(B);
    lab.pass(200.0);
    assert_eq!((lab.routed_by(A), lab.routed_by(B)), (1, 1));
    lab.attribute("load_balancing.cross_zone.enabled", "true");
    assert_eq!((lab.routed_by(A), lab.routed_by(B)), (3, 3));
    lab.attribute("load_balancing.cross_zone.enabled", "use_load_balancer_configuration");
    assert_eq!((lab.routed_by(A), lab.routed_by(B)), (1, 1));
}

#[test]
fn an_application_node_sends_to_all_zones() {
    let mut lab = Lab::application().prompt();
    lab.register_well(A);
    lab.pass(10.0);
    assert_eq!(lab.routed_by(A), 3);
}

#[test]
fn row_09_a_node_without_healthy_target_sends_to_all_it_knows() {
    let mut lab = Lab::network().prompt();
    lab.register(A).unwrap();
    lab.register("127.101.0.11").unwrap();
    lab.pass(200.0);
    assert_eq!((lab.routed_by(A), lab.routed_by("127.101.0.11")), (1, 1));
    lab.well.insert(addr(A));
    lab.pass(200.0);
    assert_eq!((lab.routed_by(A), lab.routed_by("127.101.0.11")), (1, 0));
}

#[test]
fn row_10_dns_leaves_out_zones_without_healthy_target_unless_none_has_one() {
    let mut lab = Lab::network().prompt();
    let in_dns = |lab: &Lab| lab.model.addresses_in_dns(lab.model.balancer(lab.balancer).unwrap()).len();
    assert_eq!(in_dns(&lab), 3);
    lab.register_well(A);
    lab.pass(200.0);
    assert_eq!(in_dns(&lab), 1);
}

#[test]
fn a_group_of_weight_zero_gets_nothing() {
    let mut lab = Lab::network().prompt();
    let other = lab.model.create_group(group_spec("other", Kind::Network)).unwrap();
    lab.register_well(A);
    lab.model.register(other, &[raw("127.101.0.11")], lab.now).unwrap();
    let listener = lab.listen(81, &[(lab.group, 0), (other, 3)]);
    lab.pass(200.0);
    for flow in 0..50_u64 {
        let choice = lab.model.choose(listener, 0, Some(flow << 32 | flow), None).unwrap();
        assert_eq!(choice.route.unwrap().target, addr("127.101.0.11"));
    }
}

#[test]
fn requests_take_turns_among_the_targets() {
    let mut lab = Lab::application().prompt();
    lab.register_well(A);
    lab.register_well(B);
    lab.pass(10.0);
    let listener = lab.listener();
    let mut pick = || lab.model.choose(listener, 0, None, None).unwrap().route.unwrap().target;
    let (first, second, third) = (pick(), pick(), pick());
    assert_ne!(first, second);
    assert_eq!(first, third);
}

#[test]
fn row_09_a_node_with_fewer_healthy_targets_than_the_attribute_asks_for_sends_to_all() {
    let mut lab = Lab::network().prompt();
    let other = "127.101.0.11";
    lab.register_well(A);
    lab.register(other).unwrap();
    lab.pass(200.0);
    assert_eq!((lab.routed_by(A), lab.routed_by(other)), (1, 0));
    lab.attribute("target_group_health.unhealthy_state_routing.minimum_healthy_targets.count", "2");
    assert_eq!((lab.routed_by(A), lab.routed_by(other)), (1, 1));
    lab.well.insert(addr(other));
    lab.pass(200.0);
    lab.register("127.101.0.12").unwrap();
    lab.pass(200.0);
    assert_eq!((lab.routed_by(other), lab.routed_by("127.101.0.12")), (1, 0));
    lab.attribute("target_group_health.unhealthy_state_routing.minimum_healthy_targets.percentage", "80");
    assert_eq!((lab.routed_by(other), lab.routed_by("127.101.0.12")), (1, 1));
}

#[test]
fn row_10_a_zone_with_fewer_healthy_targets_than_the_attribute_asks_for_leaves_dns() {
    let mut lab = Lab::network().prompt();
    let in_dns = |lab: &Lab| lab.model.addresses_in_dns(lab.model.balancer(lab.balancer).unwrap()).len();
    for target in [A, "127.101.0.11", B] {
        lab.register_well(target);
    }
    lab.pass(200.0);
    assert_eq!(in_dns(&lab), 2);
    lab.attribute("target_group_health.dns_failover.minimum_healthy_targets.count", "2");
    assert_eq!(in_dns(&lab), 1);
}
