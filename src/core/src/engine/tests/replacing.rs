//! Tests of the replacement of all targets. Headgate removes an old target only when a new target is healthy.

use super::*;
use crate::model::{Health, health::NOT_IN_USE, policy::PAUSED};

const GRACE: Duration = Duration::from_secs(300);
const OLD: [(u8, u16, HealthState); 2] = [(1, 80, HealthState::Healthy), (2, 80, HealthState::Healthy)];

impl World {
    /// Answers the open `DescribeTargetHealth` calls with these targets.
    fn shows(&mut self, shown: &[(u8, u16, HealthState)]) {
        let (reads, rest) = std::mem::take(&mut self.open)
            .into_iter()
            .partition(|(_, call)| matches!(call, Call::ReadHealth { .. }));
        self.open = rest;
        for (id, _) in reads {
            let states =
                shown.iter().map(|(last, port, state)| (target(*last, *port), (*state).into())).collect();
            self.step(Input::Answered { id, result: Ok(Answer::Health(states)) });
        }
    }

    /// Accepts the open registrations and deregistrations.
    fn take_changes(&mut self) {
        let is_change = |call: &Call| matches!(call, Call::Register { .. } | Call::Deregister { .. });
        let (changes, rest) =
            std::mem::take(&mut self.open).into_iter().partition(|(_, call)| is_change(call));
        self.open = rest;
        for (id, _) in changes {
            self.step(Input::Answered { id, result: Ok(Answer::Done) });
        }
    }

    /// Answers the open `DescribeTargetHealth` calls with these targets, now and after this many seconds.
    fn later_shows(&mut self, seconds: u64, shown: &[(u8, u16, HealthState)]) {
        self.shows(shown);
        self.wait(Duration::from_secs(seconds));
        self.shows(shown);
    }

    fn group_view(&mut self) -> crate::view::GroupView {
        self.wait(Duration::from_millis(200));
        let shown = self.views.iter().rev().find_map(|view| match view {
            Effect::Shows(Picture::Group(view)) => Some(view.clone()),
            _ => None,
        });
        shown.unwrap()
    }
}

fn two_pods() -> Vec<PodBuilder> {
    vec![pod("a", "1").at(1), pod("b", "2").at(2)]
}

/// Creates two healthy targets on port 80.
fn serving() -> World {
    let mut world = World::new(vec![web()], two_pods());
    world.later_shows(3, &OLD);
    assert_eq!(world.changes(), [""; 0]);
    world
}

fn moved() -> ServiceBuilder {
    service("web").port_to("http", 80, 81).annotated("http=blue")
}

/// Creates a `World` in which the port has changed and AWS has accepted the new targets.
fn replaced() -> World {
    let mut world = serving();
    world.annotate(moved());
    assert_eq!(world.changes(), ["+blue 10.0.0.1:81 10.0.0.2:81"]);
    world.take_changes();
    world
}

fn with_new(state: HealthState) -> Vec<(u8, u16, HealthState)> {
    OLD.into_iter().chain([(1, 81, HealthState::Initial), (2, 81, state)]).collect()
}

/// The old targets and all new targets, all healthy.
fn all_new() -> Vec<(u8, u16, HealthState)> {
    OLD.into_iter().chain([1, 2].map(|last| (last, 81, HealthState::Healthy))).collect()
}

#[test]
fn one_of_the_old_targets_goes_for_each_of_the_new_that_is_healthy_and_that_is_said_once() {
    let mut world = replaced();
    world.later_shows(10, &with_new(HealthState::Initial));
    assert_eq!((world.changes(), world.said()), (vec![], vec![Reason::RemovalHeld]));
    let view = world.group_view();
    assert_eq!((view.held, view.held_until), (2, None), "what never is healthy replaces nothing");
    world.later_shows(3, &with_new(HealthState::Healthy));
    assert_eq!(world.changes(), ["-blue 10.0.0.1:80"]);
    world.take_changes();
    let view = world.group_view();
    assert_eq!((view.held, view.held_until.is_some()), (1, true));
    world.later_shows(3, &with_new(HealthState::Healthy)[1..]);
    assert_eq!(world.changes(), [""; 0]);
    world.later_shows(3, &all_new()[1..]);
    assert_eq!(world.changes(), ["-blue 10.0.0.2:80"]);
    assert_eq!(world.causes(), [Cause::PortChanged]);
    world.take_changes();
    let view = world.group_view();
    assert_eq!((view.held, world.said().len()), (0, 1));
}

#[test]
fn a_read_that_began_before_the_registration_had_ended_shows_no_new_health() {
    let mut world = serving();
    world.annotate(moved());
    world.wait(Duration::from_secs(61));
    assert!(world.open.iter().any(|(_, call)| matches!(call, Call::ReadHealth { .. })));
    world.take_changes();
    world.shows(&with_new(HealthState::Healthy));
    assert_eq!(world.changes(), [""; 0]);
}

#[test]
fn every_change_of_what_is_written_holds_and_a_part_that_stays_does_not() {
    let green = |last| pod(&format!("g{last}"), &format!("g{last}")).at(last).labelled("green");
    // Either the selector changes, or another Service binds the same target group.
    let changes: [fn(&mut World); 2] = [
        |w| w.annotate(web().selector(&[("app", "green")])),
        |w| {
            w.annotate(
                service("green").selector(&[("app", "green")]).port("http", 80).annotated("http=blue"),
            );
            w.annotate(service("web").port("http", 80));
        },
    ];
    for change in changes {
        let mut world = serving();
        world.apply(green(9));
        change(&mut world);
        assert_eq!(world.changes(), ["+blue 10.0.0.9:80"]);
        world.take_changes();
        let new = |state| [OLD[0], OLD[1], (9, 80, state)];
        world.later_shows(10, &new(HealthState::Initial));
        assert_eq!(world.changes(), [""; 0]);
        world.later_shows(3, &new(HealthState::Healthy));
        assert_eq!(world.changes(), ["-blue 10.0.0.1:80 10.0.0.2:80"]);
    }
    let mut world = serving();
    world.apply(pod("a", "1").at(1).labelled("quarantine"));
    assert_eq!(world.changes(), ["-blue 10.0.0.1:80"], "the other one serves");
}

#[test]
fn one_in_a_zone_that_the_load_balancer_does_not_serve_replaces_nothing() {
    let not_in_use = Health { reason: NOT_IN_USE, ..HealthState::Unused.into() };
    for (old, goes) in [(HealthState::Healthy.into(), false), (not_in_use, true)] {
        let mut world = replaced();
        let mut went = false;
        for _ in 0..3 {
            world.take_changes();
            world.wait(Duration::from_secs(6));
            for (id, _) in std::mem::take(&mut world.open) {
                let new = (1..3).map(|last| (target(last, 81), not_in_use));
                let states = (1..3).map(|last| (target(last, 80), old)).chain(new).collect();
                world.step(Input::Answered { id, result: Ok(Answer::Health(states)) });
            }
            went |= world.changes().iter().any(|call| call.starts_with("-blue 10.0.0.1:80"));
        }
        assert_eq!(went, goes, "{old:?}");
    }
}

#[test]
fn nothing_is_held_where_nothing_follows_or_nothing_served() {
    let mut world = serving();
    world.annotate(web().selector(&[("app", "nobody")]));
    assert_eq!(world.changes(), ["-blue 10.0.0.1:80 10.0.0.2:80"]);
    let mut world = serving();
    world.annotate(service("web").port("http", 80));
    assert_eq!(world.changes(), ["-blue 10.0.0.1:80 10.0.0.2:80"]);
    for state in [HealthState::Unhealthy, HealthState::UnhealthyDraining, HealthState::Unused] {
        let mut world = World::new(vec![web()], two_pods());
        world.later_shows(3, &[(1, 80, state), (2, 80, state)]);
        world.annotate(moved());
        assert_eq!(world.changes()[0], "-blue 10.0.0.1:80 10.0.0.2:80", "{state:?}");
    }
}

#[test]
fn a_pod_that_goes_meanwhile_or_loses_its_address_is_removed_at_once() {
    type Go = fn(&mut World);
    let goes: [(Reason, Go); 7] = [
        (Reason::PodTerminating, |w| w.apply(pod("a", "1").at(1).terminating())),
        (Reason::PodFinished, |w| w.apply(pod("a", "1").at(1).finished())),
        (Reason::PodDeleted, |w| w.delete(pod("a", "1").at(1))),
        (Reason::PodDeleted, |w| w.relist_pods(vec![pod("b", "2").at(2)])),
        (Reason::PodDeleted, |w| w.apply(pod("a", "9").at(9))),
        (Reason::AddressChanged, |w| w.apply(pod("a", "1").at(7))),
        (Reason::AddressChanged, |w| w.apply(pod("c", "3").at(1).labelled("other"))),
    ];
    for (reason, go) in goes {
        let mut world = replaced();
        go(&mut world);
        let held: Vec<String> = world
            .changes()
            .into_iter()
            .filter(|call| call.ends_with(":80") || call.contains(":80 "))
            .collect();
        assert_eq!(held.len(), 1, "{reason}: {:?}", world.changes());
        assert!(held[0].starts_with("-blue 10.0.0.1:80"), "{held:?}");
        let said = world.open.iter().find_map(|(_, call)| match call {
            Call::Deregister { items, .. } => items.iter().find(|item| item.target == target(1, 80)),
            _ => None,
        });
        assert_eq!(said.unwrap().reason.reason(), reason);
    }
}

#[test]
fn a_pod_that_goes_while_its_target_seems_to_be_missing_is_not_held_later() {
    let mut world = serving();
    world.annotate(moved().with(PAUSED, "true"));
    world.later_shows(10, &[(2, 80, HealthState::Healthy)]);
    world.delete(pod("a", "1").at(1));
    world.later_shows(10, &OLD);
    world.annotate(moved());
    assert_eq!(world.changes(), ["-blue 10.0.0.1:80", "+blue 10.0.0.2:81"]);
}

#[test]
fn a_pod_that_loses_its_address_in_the_very_change_that_replaces_it_is_removed_at_once() {
    let other = |pod: PodBuilder| pod.labelled("other");
    let mut world = serving();
    world.relist_pods(vec![other(pod("a", "1").at(7)), other(pod("b", "2").at(2)), pod("c", "3").at(3)]);
    assert_eq!(world.changes(), ["-blue 10.0.0.1:80", "+blue 10.0.0.3:80"]);

    let mut world = serving();
    let orphan = other(pod("d", "4").at(1));
    world.relist_pods(vec![
        other(pod("a", "1").at(1)),
        other(pod("b", "2").at(2)),
        pod("c", "3").at(3),
        orphan,
    ]);
    assert_eq!(world.changes(), ["-blue 10.0.0.1:80", "+blue 10.0.0.3:80"]);
}

#[test]
fn what_never_is_healthy_replaces_nothing_and_the_grace_begins_with_the_last_of_the_new_that_is() {
    let mut world = serving();
    world.annotate(moved());
    for _ in 0..100 {
        world.refuse_changes(FailureClass::Denied);
        world.later_shows(10, &OLD);
    }
    world.later_shows(20, &OLD);
    assert_eq!(world.changes(), ["+blue 10.0.0.1:81 10.0.0.2:81"]);
    world.take_changes();
    for _ in 0..100 {
        world.later_shows(10, &with_new(HealthState::Unhealthy));
        assert_eq!(world.changes(), [""; 0]);
    }
    // One new target becomes healthy, and the other new target does not.
    world.later_shows(60, &with_new(HealthState::Healthy));
    assert_eq!(world.changes(), ["-blue 10.0.0.1:80"]);
    world.take_changes();
    let until = world.group_view().held_until.unwrap();
    let one = &with_new(HealthState::Healthy)[1..];
    while world.now + Duration::from_secs(10) < until {
        world.later_shows(10, one);
        assert_eq!(world.changes(), [""; 0]);
    }
    world.later_shows(10, one);
    assert_eq!(world.changes(), ["-blue 10.0.0.2:80"]);
}

#[test]
fn that_the_new_ones_do_not_become_healthy_is_said_again_and_again() {
    let mut world = replaced();
    for _ in 0..125 {
        world.later_shows(10, &with_new(HealthState::Unhealthy));
    }
    assert_eq!(world.changes(), [""; 0]);
    let held = world.notices.iter().filter(|notice| notice.reason == Reason::RemovalHeld);
    let said: Vec<&str> = held.map(|notice| &*notice.note).collect();
    assert_eq!(said.len(), 3, "{said:?}");
    assert!(said[2].contains("20 min so far"), "{said:?}");
}

#[test]
fn an_old_pod_that_goes_makes_room_for_one_of_the_new() {
    let mut world = replaced();
    world.later_shows(10, &with_new(HealthState::Initial));
    world.apply(pod("b", "2").at(2).terminating());
    assert_eq!(world.changes(), ["-blue 10.0.0.2:80 10.0.0.2:81"]);
    world.take_changes();
    world.later_shows(3, &[OLD[0], (1, 81, HealthState::Initial)]);
    assert_eq!(world.changes(), [""; 0]);
    world.later_shows(3, &[OLD[0], (1, 81, HealthState::Healthy)]);
    assert_eq!(world.changes(), ["-blue 10.0.0.1:80"], "all of the new are");
}

#[test]
fn what_is_changed_back_meanwhile_never_left() {
    let mut world = replaced();
    world.later_shows(3, &with_new(HealthState::Initial));
    world.annotate(web());
    assert_eq!(world.changes(), ["-blue 10.0.0.1:81 10.0.0.2:81"]);
    world.take_changes();
    world.later_shows(10, &OLD);
    assert_eq!(world.changes(), [""; 0]);
}

#[test]
fn what_is_changed_back_while_it_is_being_removed_does_not_serve() {
    let mut world = replaced();
    world.later_shows(3, &all_new());
    assert_eq!(world.changes(), ["-blue 10.0.0.1:80 10.0.0.2:80"]);
    world.annotate(web());
    world.take_changes();
    assert_eq!(world.changes(), ["+blue 10.0.0.1:80 10.0.0.2:80"], "and those on 81 stay");
}

#[test]
fn after_another_change_meanwhile_the_old_stay_for_what_comes_then() {
    let mut world = replaced();
    let unhealthy = [(1, 81, HealthState::Unhealthy), (2, 81, HealthState::Unhealthy)];
    world.later_shows(290, &[OLD, unhealthy].concat());
    world.annotate(service("web").port_to("http", 80, 82).annotated("http=blue"));
    assert_eq!(world.changes(), ["-blue 10.0.0.1:81 10.0.0.2:81", "+blue 10.0.0.1:82 10.0.0.2:82"]);
    world.take_changes();
    let new = |state| [OLD[0], OLD[1], (1, 82, HealthState::Unhealthy), (2, 82, state)];
    world.later_shows(290, &new(HealthState::Unhealthy));
    assert!(!world.changes().iter().any(|call| call.contains(":80")), "{:?}", world.changes());
    world.later_shows(20, &new(HealthState::Healthy));
    assert_eq!(world.changes()[0], "-blue 10.0.0.1:80");
}

#[test]
fn the_new_pods_may_go_and_come_while_the_old_are_held() {
    let green = |last: u8| pod(&format!("g{last}"), &format!("g{last}")).at(last).labelled("green");
    let mut world = serving();
    world.apply(green(9));
    world.annotate(web().selector(&[("app", "green")]));
    world.take_changes();
    world.apply(green(9).terminating());
    assert_eq!(world.changes(), ["-blue 10.0.0.9:80"]);
    world.take_changes();
    world.later_shows(10, &OLD);
    world.apply(green(8));
    assert_eq!(world.changes(), ["+blue 10.0.0.8:80"], "the old ones are still there");
    world.take_changes();
    world.wait(Duration::from_secs(3));
    world.annotate(service("web").port("http", 80));
    assert_eq!(world.changes(), ["-blue 10.0.0.1:80 10.0.0.2:80 10.0.0.8:80"], "nothing is to follow");
}

#[test]
fn a_pause_stops_the_grace_and_shows_what_would_be_done() {
    let mut world = serving();
    world.annotate(moved().with(crate::model::policy::PAUSED, "true"));
    let planned = world.views.iter().filter(|view| matches!(view, Effect::Planned(_))).count();
    assert_eq!(planned, 4);
    world.later_shows(2 * GRACE.as_secs(), &OLD);
    assert_eq!(world.changes(), [""; 0]);
    world.annotate(moved());
    assert_eq!(world.changes(), ["+blue 10.0.0.1:81 10.0.0.2:81"]);
    world.take_changes();
    world.later_shows(10, &with_new(HealthState::Initial));
    assert_eq!(world.changes(), [""; 0]);
    world.later_shows(10, &all_new());
    assert_eq!(world.changes(), ["-blue 10.0.0.1:80 10.0.0.2:80"]);
}

/// A new leader whose ledger contains the target of this pod. The Service has moved to another port.
fn take_over(noted_pod: &str) -> World {
    let mut world = World::standby(cluster_wide());
    world.written(Change::Relisted(Scope::Cluster, vec![]));
    world.relist_services(vec![moved()]);
    world.relist_pods(vec![pod("a", "1").at(1)]);
    world.answer_all();
    world.claimed("blue", &[(1, noted_pod)]);
    world.step(Input::Leadership(Leadership::Leading { term: 1, is_settled: true }));
    world
}

#[test]
fn a_new_leader_holds_what_its_ledger_and_the_pods_say() {
    let mut world = take_over("1");
    assert_eq!(world.changes(), ["+blue 10.0.0.1:81"]);
    world.take_changes();
    let shown = |state| [(1, 80, HealthState::Healthy), (1, 81, state)];
    world.later_shows(10, &shown(HealthState::Initial));
    assert_eq!((world.changes(), world.said()), (vec![], vec![Reason::RemovalHeld]));
    world.later_shows(10, &shown(HealthState::Healthy));
    assert_eq!(
        (world.changes(), world.causes()),
        (vec!["-blue 10.0.0.1:80".into()], vec![Cause::StaleTarget])
    );
    // Another pod has the address now, so Headgate deregisters the target immediately.
    assert_eq!(take_over("before").changes()[0], "-blue 10.0.0.1:80");
}

#[test]
fn what_a_new_leader_holds_goes_at_once_when_its_pod_goes_and_for_no_other_change_of_it() {
    let mut world = take_over("1");
    world.apply(pod("a", "1").at(1).ready());
    world.relist_pods(vec![pod("a", "1").at(1)]);
    assert_eq!(world.changes(), ["+blue 10.0.0.1:81"]);
    world.apply(pod("a", "1").at(1).terminating());
    let changes = ["+blue 10.0.0.1:81", "-blue 10.0.0.1:80 10.0.0.1:81"];
    assert_eq!(
        (world.changes(), world.causes()[1]),
        (changes.map(String::from).into(), Cause::PodTerminating)
    );
}

#[test]
fn who_saw_the_change_as_a_standby_holds_as_well_when_it_leads() {
    let mut world = replaced();
    world.step(Input::Leadership(Leadership::Standby));
    world.open.clear();
    world.wait(2 * GRACE);
    world.step(Input::Leadership(Leadership::Leading { term: 1, is_settled: true }));
    assert_eq!(world.changes(), [""; 0], "the ledger has claims on all of them");
    world.later_shows(10, &with_new(HealthState::Initial));
    assert_eq!(world.changes(), [""; 0]);
    world.later_shows(10, &all_new());
    assert_eq!(world.changes(), ["-blue 10.0.0.1:80 10.0.0.2:80"]);
    assert_eq!(world.causes(), [Cause::StaleTarget; 2], "only the ledger remembers them");
}

#[test]
fn a_set_that_is_being_replaced_is_held_anew_when_a_pause_ends() {
    let mut world = replaced();
    world.later_shows(10, &with_new(HealthState::Initial));
    world.annotate(moved().with(crate::model::policy::PAUSED, "true"));
    world.wait(2 * GRACE);
    assert_eq!(world.changes(), [""; 0]);
    world.annotate(moved());
    world.later_shows(10, &with_new(HealthState::Initial));
    assert_eq!(world.changes(), [""; 0], "none of the new is healthy");
    world.later_shows(30, &all_new());
    assert_eq!(world.changes(), ["-blue 10.0.0.1:80 10.0.0.2:80"]);
}

#[test]
fn a_group_shows_how_many_of_its_targets_are_in_which_state_and_how_many_are_not_ours() {
    use HealthState::{Draining, Healthy, Unhealthy};
    let mut world = serving();
    world.later_shows(60, &[(1, 80, Healthy), (2, 80, Healthy), (8, 80, Unhealthy), (9, 80, Draining)]);
    let view = world.group_view();
    let count = [Healthy, Unhealthy, Draining, HealthState::Initial].map(|state| view.in_state(state));
    assert_eq!(count, [2, 1, 1, 0]);
    assert_eq!(view.foreign, 1, "what drains is leaving");
    assert_eq!(world.engine.pod_count(), 2);
}

#[test]
fn when_the_new_pods_have_gone_and_none_comes_the_old_go_after_the_grace_however_the_service_changes() {
    let green = |last: u8| pod(&format!("g{last}"), &format!("g{last}")).at(last).labelled("green");
    let mut world = serving();
    world.apply(green(9));
    world.annotate(web().selector(&[("app", "green")]));
    world.take_changes();
    world.later_shows(200, &[OLD[0], OLD[1], (9, 80, HealthState::Initial)]);
    world.apply(green(9).terminating());
    world.take_changes();
    world.later_shows(50, &OLD);
    world.annotate(web().selector(&[("app", "green")]).with(crate::model::policy::HOLD, "20s"));
    world.later_shows(49, &OLD);
    assert_eq!(world.changes(), [""; 0]);
    world.later_shows(1, &OLD);
    assert_eq!(world.changes(), ["-blue 10.0.0.1:80 10.0.0.2:80"]);
}

#[test]
fn a_service_that_changes_while_the_old_are_held_does_not_make_the_grace_longer() {
    let mut world = replaced();
    world.later_shows(10, &with_new(HealthState::Healthy));
    assert_eq!(world.changes(), ["-blue 10.0.0.1:80"]);
    world.take_changes();
    let one = &with_new(HealthState::Healthy)[1..];
    world.later_shows(250, one);
    world.annotate(moved().with(crate::model::policy::HOLD, "20s"));
    world.later_shows(39, one);
    assert_eq!(world.changes(), [""; 0]);
    world.later_shows(11, one);
    assert_eq!(world.changes(), ["-blue 10.0.0.2:80"]);
}

#[test]
fn in_a_target_group_that_is_no_more_nothing_is_held() {
    let mut world = replaced();
    world.later_shows(10, &with_new(HealthState::Unhealthy));
    assert_eq!(world.changes(), [""; 0]);
    for _ in 0..8 {
        world.wait(Duration::from_secs(10));
        let (reads, rest) = std::mem::take(&mut world.open)
            .into_iter()
            .partition(|(_, call)| matches!(call, Call::ReadHealth { .. }));
        world.open = rest;
        for (id, _) in reads {
            world.step(Input::Answered { id, result: Err(failure(FailureClass::Gone)) });
        }
    }
    assert_eq!(world.group_view().held, 0);
}
