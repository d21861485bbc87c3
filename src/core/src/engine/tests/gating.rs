//! Tests of readiness gates: the calls to AWS, and the writes to pods.

use super::*;
use crate::model::{
    Health,
    gate::{GateWrite, Shown},
    health::NOT_IN_USE,
    policy::GATE_WHEN_UNUSED,
};

pub(super) const HEALTHY: HealthState = HealthState::Healthy;

/// A pod with a closed gate, at 10.0.0.`last`.
pub(super) fn closed(name: &str, uid: &str, last: u8) -> PodBuilder {
    pod(name, uid).at(last).gated(Shown::Closed)
}

pub(super) fn open(name: &str, uid: &str, last: u8) -> PodBuilder {
    pod(name, uid).at(last).gated(Shown::Open(Some(crate::testing::ip(last))))
}

impl World {
    /// Returns all gate writes that were sent after the last call.
    pub(super) fn writes(&mut self) -> Vec<Sent<GateWrite>> {
        self.asked(|request| if let Asks::Gate(write) = request { Some(write) } else { None })
    }

    /// Completes each write, and returns its pod, `+` or `-`, and its reason.
    pub(super) fn turned(&mut self) -> Vec<String> {
        let show = |write: &Sent<GateWrite>| {
            let sign = if write.condition.open { '+' } else { '-' };
            format!("{} {sign} {}", write.pod.name, write.condition.reason.as_str())
        };
        let writes = self.writes();
        for write in &writes {
            self.end_write(write, Ok(()));
        }
        writes.iter().map(show).collect()
    }

    pub(super) fn end_write(&mut self, write: &Sent<GateWrite>, result: Result<(), Failure>) {
        self.step(Input::Answered { id: write.id, result: result.map(|()| Answer::Done) });
    }

    /// Answers the open `DescribeTargetHealth` calls with these targets.
    pub(super) fn says(&mut self, there: &[(u8, HealthState)]) {
        let states: Vec<(u8, Health)> = there.iter().map(|(last, state)| (*last, (*state).into())).collect();
        self.says_all(&states);
    }

    pub(super) fn says_all(&mut self, there: &[(u8, Health)]) {
        let (reads, rest) = std::mem::take(&mut self.open)
            .into_iter()
            .partition(|(_, call)| matches!(call, Call::ReadHealth { .. }));
        self.open = rest;
        for (id, _) in reads {
            let states = there.iter().map(|(last, health)| (target(*last, 80), *health)).collect();
            self.step(Input::Answered { id, result: Ok(Answer::Health(states)) });
        }
    }

    /// Accepts the open registrations and deregistrations.
    pub(super) fn takes_changes(&mut self) {
        let (changes, rest) = std::mem::take(&mut self.open)
            .into_iter()
            .partition(|(_, call)| matches!(call, Call::Register { .. } | Call::Deregister { .. }));
        self.open = rest;
        for (id, _) in changes {
            self.step(Input::Answered { id, result: Ok(Answer::Done) });
        }
    }

    /// Advances the time second by second. Each `DescribeTargetHealth` call returns these targets.
    pub(super) fn passes(&mut self, seconds: u64, there: &[(u8, HealthState)]) {
        for _ in 0..seconds {
            self.wait(Duration::from_secs(1));
            self.takes_changes();
            self.says(there);
        }
    }
}

impl World {
    /// Whether the gate of this pod opens for its health while time passes, each read shows these, and each write
    /// succeeds.
    pub(super) fn opens(&mut self, pod: &str, seconds: u64, there: &[(u8, HealthState)]) -> bool {
        let opened = format!("{pod} + TargetsHealthy");
        let second = |_| {
            self.passes(1, there);
            self.turned().contains(&opened)
        };
        (0..seconds).map(second).filter(|opens| *opens).count() > 0
    }
}

/// Creates a `World` with the group `blue`. AWS has reported that the group is empty.
pub(super) fn ready() -> World {
    let mut world = World::new(vec![web()], vec![]);
    world.passes(3, &[]);
    world
}

#[test]
fn a_gate_opens_on_the_first_read_that_began_after_its_own_registration() {
    let mut world = ready();
    world.wait(Duration::from_secs(60));
    world.apply(closed("a", "1", 1));
    assert_eq!(world.changes(), ["+blue 10.0.0.1:80"]);
    world.says(&[(1, HEALTHY)]);
    world.takes_changes();
    assert_eq!(world.turned(), [""; 0], "that read began before");
    world.passes(2, &[(1, HealthState::Initial)]);
    assert_eq!(world.turned(), [""; 0]);
    world.passes(1, &[(1, HEALTHY)]);
    let writes = world.writes();
    let condition = &writes[0].condition;
    assert_eq!((writes.len(), condition.open, condition.turns), (1, true, true));
    assert_eq!(condition.message, "pod IP 10.0.0.1, target 10.0.0.1:80 of target group blue: healthy");
    world.wait(Duration::from_millis(40));
    world.end_write(&writes[0], Ok(()));
    let took = Effect::Took(Span::HealthyToGate, Duration::from_millis(40));
    assert!(world.views.contains(&took), "{:?}", world.views);
    let grown = world.views.iter().any(|view| matches!(view, Effect::Took(Span::RegisterToHealthy, _)));
    assert!(grown, "{:?}", world.views);
    world.apply(open("a", "1", 1));
    world.passes(60, &[(1, HEALTHY)]);
    assert_eq!(world.turned(), [""; 0], "and that is all");
    assert_eq!(world.said(), [], "nobody need know");
}

#[test]
fn while_a_gate_waits_its_target_group_is_read_every_second() {
    let mut world = ready();
    world.apply(closed("a", "1", 1));
    world.takes_changes();
    world.wait(Duration::from_secs(2));
    let mut reads = 0;
    for _ in 0..100 {
        reads += world.open.len();
        world.says(&[(1, HealthState::Initial)]);
        world.wait(Duration::from_millis(200));
    }
    assert!((18..=21).contains(&reads), "{reads} reads in 20 s");
}

#[test]
fn a_pod_that_gets_the_address_of_one_that_was_removed_waits_for_a_read_that_cannot_show_the_old_one() {
    let mut world = ready();
    world.apply(pod("a", "1").at(1));
    world.passes(10, &[(1, HEALTHY)]);
    world.delete(pod("a", "1").at(1));
    world.takes_changes();
    world.apply(closed("b", "2", 1));
    world.takes_changes();
    world.passes(4, &[(1, HEALTHY)]);
    assert_eq!(world.turned(), ["b - HealthUnread"], "a read may still show the old one");
    assert!(!world.opens("b", 4, &[(1, HealthState::Initial)]));
    assert!(world.opens("b", 7, &[(1, HEALTHY)]));
}

#[test]
fn a_target_that_passes_from_one_pod_to_another_has_to_be_seen_unhealthy_or_long_enough() {
    for seen_unhealthy in [true, false] {
        let mut world = ready();
        world.apply(pod("a", "1").at(1));
        world.passes(10, &[(1, HEALTHY)]);
        world.apply(closed("b", "2", 1));
        assert_eq!(
            world.changes(),
            ["-blue 10.0.0.1:80"],
            "the health of the old one must not count for the new one"
        );
        world.takes_changes();
        assert_eq!(world.changes(), ["+blue 10.0.0.1:80"]);
        world.takes_changes();
        world.passes(20, &[(1, HEALTHY)]);
        assert_eq!(world.turned(), ["b - HealthUnread"], "it may be the health of the old one");
        if seen_unhealthy {
            assert!(!world.opens("b", 2, &[(1, HealthState::Unhealthy)]));
            assert!(world.opens("b", 7, &[(1, HEALTHY)]));
        } else {
            assert!(!world.opens("b", 75, &[(1, HEALTHY)]));
            assert!(world.opens("b", 3, &[(1, HEALTHY)]));
        }
    }
}

#[test]
fn a_foreign_target_at_the_address_does_not_lend_its_health() {
    let mut world = World::new(vec![web()], vec![]);
    world.passes(70, &[(1, HEALTHY)]);
    world.apply(closed("a", "1", 1));
    world.passes(20, &[(1, HEALTHY)]);
    assert_eq!(world.turned(), ["a - HealthUnread"]);
    world.passes(90, &[(1, HEALTHY)]);
    assert_eq!(world.turned(), ["a + TargetsHealthy"]);
}

#[test]
fn two_bindings_both_count() {
    let both = service("web").port("http", 80).annotated("http=blue,http=green");
    let mut world = World::new(vec![both], vec![]);
    world.passes(3, &[]);
    world.apply(closed("a", "1", 1));
    world.takes_changes();
    world.wait(Duration::from_secs(1));
    let reads: Vec<_> = std::mem::take(&mut world.open);
    assert_eq!(reads.len(), 2);
    for (at, (id, _)) in reads.into_iter().enumerate() {
        assert_eq!(world.turned(), [""; 0]);
        let state = if at == 0 { HEALTHY } else { HealthState::Initial };
        let states = vec![(target(1, 80), state.into())];
        world.step(Input::Answered { id, result: Ok(Answer::Health(states)) });
    }
    assert_eq!(world.turned(), [""; 0]);
    world.passes(1, &[(1, HEALTHY)]);
    assert_eq!(world.turned(), ["a + TargetsHealthy"]);
}

#[test]
fn a_gate_that_was_open_for_another_ip_is_closed_by_the_next_leader_too() {
    let mut world = World::unsynced();
    world.relist_services(vec![web()]);
    world.relist_pods(vec![open("a", "1", 1).at(2), open("b", "2", 3)]);
    world.answer_all();
    assert_eq!(world.turned(), ["a - IpChanged"]);
}

#[test]
fn a_gate_says_whether_its_pod_waits_for_aws_or_for_another_pod() {
    let mut world = ready();
    world.apply(closed("a", "1", 1).host_network());
    for _ in 0..4 {
        world.wait(Duration::from_secs(1));
        world.says(&[]);
    }
    assert_eq!(world.turned(), ["a - NotRegisteredYet"]);
    world.takes_changes();
    world.apply(closed("b", "2", 1).host_network());
    for _ in 0..4 {
        world.wait(Duration::from_secs(1));
        world.says(&[(1, HealthState::Initial)]);
    }
    assert_eq!(world.turned(), ["b - WaitsForHostNetworkPod"]);
}

#[test]
fn a_target_group_that_no_listener_uses_opens_the_gate_unless_the_service_waits_for_one() {
    for (word, turned) in [("open", "a + TargetGroupUnused"), ("wait", "a - TargetUnused")] {
        let mut world = World::new(vec![web().with(GATE_WHEN_UNUSED, word)], vec![]);
        world.passes(3, &[]);
        world.apply(closed("a", "1", 1));
        for _ in 0..10 {
            world.wait(Duration::from_secs(1));
            world.takes_changes();
            let unused = Health { reason: NOT_IN_USE, ..HealthState::Unused.into() };
            world.says_all(&[(1, unused)]);
        }
        assert_eq!(world.turned(), [turned]);
    }
}

/// `a` and `b` wait for their gates. For 20 s, AWS reports `a` as healthy and `b` as unused.
fn one_zone_is_not_served(service: ServiceBuilder) -> World {
    let unused = Health { reason: NOT_IN_USE, ..HealthState::Unused.into() };
    let mut world = World::new(vec![service], vec![]);
    world.passes(3, &[]);
    world.apply(closed("a", "1", 1));
    world.apply(closed("b", "2", 2));
    for _ in 0..20 {
        world.wait(Duration::from_secs(1));
        world.takes_changes();
        world.says_all(&[(1, HEALTHY.into()), (2, unused)]);
    }
    world
}

#[test]
fn in_a_zone_that_the_load_balancer_does_not_serve_the_gate_stays_closed_and_that_is_told_once() {
    for word in ["open", "wait"] {
        let mut world = one_zone_is_not_served(web().with(GATE_WHEN_UNUSED, word));
        assert_eq!(world.turned(), ["a + TargetsHealthy", "b - ZoneNotServed"], "{word}");
        let told: Vec<&Notice> =
            world.notices.iter().filter(|notice| notice.reason == Reason::ZoneNotServed).collect();
        assert_eq!(told.len(), 1);
        let note = &told[0].note;
        assert!(note.contains("Target 10.0.0.2:80 of blue is in a zone"), "{note}");
        // The zone is enabled.
        for (seconds, state) in [(30, HealthState::Initial), (1, HEALTHY)] {
            world.wait(Duration::from_secs(seconds));
            world.says_all(&[(1, HEALTHY.into()), (2, state.into())]);
        }
        // The watch has not shown the open gate of `a`, so Headgate writes the gate again.
        assert_eq!(world.turned(), ["a + TargetsHealthy", "b + TargetsHealthy"]);
    }
}

#[test]
fn while_a_listener_comes_nobody_is_told_of_a_zone() {
    let unused = Health { reason: NOT_IN_USE, ..HealthState::Unused.into() };
    let mut world = World::new(vec![web().with(GATE_WHEN_UNUSED, "wait")], vec![]);
    world.passes(3, &[]);
    world.apply(closed("a", "1", 1));
    world.apply(closed("b", "2", 2));
    for (seconds, health) in [(5, [unused, unused]), (3, [HealthState::Initial.into(), unused])] {
        for _ in 0..seconds {
            world.wait(Duration::from_secs(1));
            world.takes_changes();
            world.says_all(&[(1, health[0]), (2, health[1])]);
        }
    }
    world.wait(Duration::from_secs(1));
    world.says(&[(1, HEALTHY), (2, HEALTHY)]);
    assert!(world.notices.iter().all(|notice| notice.reason != Reason::ZoneNotServed));
}

#[test]
fn nothing_is_written_by_a_standby_nor_when_only_read_is_allowed() {
    let mut standby = World::standby(cluster_wide());
    standby.relist_written(vec![]);
    let read_only = World::with(Settings { read_only: true, ..cluster_wide() });
    for mut world in [standby, read_only] {
        world.relist_services(vec![web()]);
        world.relist_pods(vec![closed("a", "1", 1), open("b", "2", 2).at(3)]);
        world.passes(120, &[(1, HEALTHY)]);
        assert_eq!(world.turned(), [""; 0]);
    }
}

#[test]
fn a_paused_group_says_so_and_opens_no_gate() {
    let mut world = World::new(vec![web().with(crate::model::policy::PAUSED, "true")], vec![]);
    world.apply(closed("a", "1", 1));
    world.passes(120, &[(1, HEALTHY)]);
    assert_eq!(world.turned(), ["a - RegistrationPaused"]);
}

#[test]
fn a_new_leader_opens_what_the_one_before_has_registered_and_touches_no_open_gate() {
    let mut before = ready();
    before.apply(closed("a", "1", 1));
    before.apply(open("b", "2", 2));
    before.passes(10, &[(1, HealthState::Initial), (2, HEALTHY)]);
    let mut world = World::standby(cluster_wide());
    world.ledgers.clone_from(&before.ledgers);
    world.relist_written(vec![]);
    world.relist_services(vec![web()]);
    world.relist_pods(vec![closed("a", "1", 1), open("b", "2", 2)]);
    world.answer_all();
    world.step(Input::Leadership(Leadership::Leading { term: 1, is_settled: true }));
    world.passes(5, &[(1, HEALTHY), (2, HealthState::Unhealthy)]);
    assert_eq!(world.turned(), ["a - HealthUnread"], "a read may be older than the registration");
    assert!(!world.opens("a", 5, &[(1, HealthState::Initial), (2, HealthState::Unhealthy)]));
    assert!(world.opens("a", 8, &[(1, HEALTHY), (2, HealthState::Unhealthy)]));
    assert_eq!(world.changes(), [""; 0], "both are registered");
}

#[test]
fn a_gate_that_a_late_write_has_opened_stays_open() {
    let mut world = ready();
    world.apply(closed("a", "1", 1));
    world.passes(3, &[(1, HEALTHY)]);
    let opens = world.writes();
    assert!(opens[0].condition.open);
    world.annotate(service("web").port("http", 80).annotated("http=blue,http=green"));
    world.answer_all();
    world.end_write(&opens[0], Err(fails(FailureClass::Unavailable, "no answer")));
    world.passes(5, &[]);
    let said = world.turned();
    assert!(said.len() == 1 && said[0].starts_with("a - "), "why it is closed, as far as is known: {said:?}");
    world.apply(open("a", "1", 1));
    world.passes(60, &[]);
    assert_eq!(world.turned(), [""; 0], "for neither of the two reasons");
}

#[test]
fn the_view_of_a_binding_shows_the_gate_of_each_pod() {
    use crate::view::GateView;
    let mut world = ready();
    let show = |world: &mut World| {
        world.wait(Duration::from_millis(200));
        let mut views = world.views.iter().rev();
        views.find_map(|view| match view {
            Effect::Shows(Picture::Binding(view)) => Some(view.targets[0].gate),
            _ => None,
        })
    };
    world.apply(closed("a", "1", 1));
    assert_eq!(show(&mut world), Some(GateView::Closed));
    world.apply(open("a", "1", 1));
    assert_eq!(show(&mut world), Some(GateView::Open));
    world.apply(pod("a", "2").at(1));
    assert_eq!(show(&mut world), Some(GateView::None));
}
