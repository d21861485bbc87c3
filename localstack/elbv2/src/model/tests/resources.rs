//! Tests of the validation of resources, and of deletions.

use super::*;
use crate::model::balancer::BalancerState;

#[test]
fn a_batch_with_one_bad_target_is_refused_whole() {
    let mut lab = Lab::network();
    let refusal = lab.model.register(lab.group, &[raw(A), raw("8.8.8.8")], lab.now).unwrap_err();
    assert!(refusal.to_string().contains("8.8.8.8"));
    assert_eq!(lab.state(A), "gone");
}

#[test]
fn an_address_in_the_vpc_cannot_be_given_another_zone() {
    let lab = Lab::network();
    let group = lab.model.group(lab.group).unwrap();
    let target = RawTarget { zone: Some("all".into()), ..raw(A) };
    assert_eq!(
        lab.model.admit(group, &target).unwrap_err().to_string(),
        "The IP address '127.101.0.10' is within the VPC, and cannot have its Availability Zone overridden to \
         'all' from 'us-east-1a'"
    );
}

#[test]
fn a_private_address_outside_the_vpc_needs_a_zone() {
    let lab = Lab::network();
    let group = lab.model.group(lab.group).unwrap();
    assert_eq!(
        lab.model.admit(group, &raw("10.4.40.87")).unwrap_err().to_string(),
        "The Availability Zone is required for IP address '10.4.40.87' because it is not in the VPC"
    );
    for zone in ["all", "us-east-1b"] {
        let target = RawTarget { zone: Some(zone.into()), ..raw("10.4.40.87") };
        assert!(lab.model.admit(group, &target).is_ok());
    }
}

#[test]
fn an_address_of_the_other_family_is_refused() {
    let lab = Lab::network();
    let group = lab.model.group(lab.group).unwrap();
    let target = RawTarget { id: "fd00::1".into(), port: None, zone: None };
    assert_eq!(lab.model.admit(group, &target).unwrap_err().code(), "ValidationError");
}

#[test]
fn a_group_belongs_to_one_load_balancer_at_a_time() {
    let mut lab = Lab::network();
    let spec =
        NewBalancer { name: "second".into(), ..lab.model.balancer(lab.balancer).unwrap().spec.clone() };
    let second = lab.model.create_balancer(spec, lab.now).unwrap();
    let forward = [Forward { group: lab.group, weight: 1 }];
    let refusal = lab.model.check_listener(second, 80, Protocol::Tcp, &forward.to_vec().into()).unwrap_err();
    assert_eq!(refusal.code(), "TargetGroupAssociationLimit");
}

#[test]
fn nodes_of_two_load_balancers_have_different_addresses() {
    let mut lab = Lab::network();
    let spec =
        NewBalancer { name: "second".into(), ..lab.model.balancer(lab.balancer).unwrap().spec.clone() };
    lab.model.create_balancer(spec, lab.now).unwrap();
    let all: Vec<IpAddr> =
        lab.model.balancers().flat_map(|b| b.nodes.iter().map(|node| node.address)).collect();
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), 6);
}

#[test]
fn a_load_balancer_is_provisioning_first_and_active_later() {
    let mut lab = Lab::network();
    assert_eq!(lab.model.balancer(lab.balancer).unwrap().state, BalancerState::Provisioning);
    lab.pass(121.0);
    assert_eq!(lab.model.balancer(lab.balancer).unwrap().state, BalancerState::Active);
}

#[test]
fn one_seed_gives_one_history() {
    let history = || {
        let mut lab = Lab::network();
        lab.register_well(A);
        lab.register_well(B);
        lab.pass(400.0);
        lab.deregister(A);
        lab.pass(400.0);
        lab.history.iter().map(|(at, event)| format!("{at} {event:?}")).collect::<Vec<_>>()
    };
    assert_eq!(history(), history());
}

#[test]
fn a_reset_leaves_nothing_that_could_still_happen() {
    let mut lab = Lab::network();
    lab.register_well(A);
    lab.pass(200.0);
    lab.model.reset();
    assert_eq!(lab.model.next_due(), None);
    assert_eq!((lab.model.groups().count(), lab.model.balancers().count()), (0, 0));
}
