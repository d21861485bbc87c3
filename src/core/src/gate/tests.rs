//! Tests of gates with simulated answers of `DescribeTargetHealth`, without an engine.

use std::{collections::BTreeMap, net::IpAddr, time::Duration};

use super::*;
use crate::{
    model::{
        Failure, FailureClass, GateWhenUnused, HealthState, Moment, ObjectKey, PodFacts, RequestId, Target,
        gate::{Bound, Case, GateWrite, Shown, Stands},
    },
    testing::{PodBuilder, arn, ip, pod},
};

const HEALTHY: HealthState = HealthState::Healthy;

fn closed(name: &str, uid: &str, last: u8) -> PodBuilder {
    pod(name, uid).at(last).gated(Shown::Closed)
}

fn open(name: &str, uid: &str, last: u8) -> PodBuilder {
    pod(name, uid).at(last).gated(Shown::Open(Some(ip(last))))
}

fn fails(class: FailureClass) -> Result<(), Failure> {
    Err(Failure::new(class, "Code", "text"))
}

/// Pods, each a target of the group `blue`, and the last reported health of their targets.
struct World {
    gates: Gates,
    now: Moment,
    pods: BTreeMap<ObjectKey, PodFacts>,
    shown: BTreeMap<IpAddr, HealthState>,
    ids: u64,
    writes: Vec<(RequestId, GateWrite)>,
    told: Vec<News>,
}

impl World {
    fn new() -> Self {
        Self {
            gates: Gates::new(Duration::from_secs(30), None, 1),
            now: Moment::START,
            pods: BTreeMap::new(),
            shown: BTreeMap::new(),
            ids: 0,
            writes: Vec::new(),
            told: Vec::new(),
        }
    }

    fn take(&mut self, due: Vec<Due>) {
        for due in due {
            match due {
                Due::Write(id, write) => self.writes.push((id, write)),
                Due::Tell(_, _, news) => self.told.push(news),
                Due::Read(_) | Due::Expect(_) | Due::Stir(_) | Due::Count(_) => {}
            }
        }
    }

    fn judge(&mut self) {
        let Self { gates, pods, shown, ids, .. } = self;
        let case = |pod: &ObjectKey| {
            let ip = pods.get(pod)?.ips.first().copied();
            let stands = ip.and_then(|ip| shown.get(&ip)).map(|state| Stands::Read((*state).into()));
            let bound = Bound {
                group: arn("blue"),
                target: ip.map(|ip| Target::new(ip, 80)),
                stands: stands.unwrap_or(Stands::Unregistered),
                when_unused: GateWhenUnused::Open,
            };
            Some(Case { ip, bound: vec![bound], expected: None, doubt: None, runs: true })
        };
        let id = || {
            *ids += 1;
            RequestId(*ids)
        };
        let due = gates.judge(case, id, self.now);
        self.take(due);
    }

    fn apply(&mut self, pod: PodBuilder) {
        let pod = pod.build();
        let before = self.pods.get(&pod.key).filter(|before| before.uid == pod.uid);
        self.gates.saw(&pod, before, true, self.now);
        self.pods.insert(pod.key.clone(), pod);
        self.judge();
    }

    /// Advances the time second by second. Each `DescribeTargetHealth` call returns these states.
    fn passes(&mut self, seconds: u64, shown: &[(u8, HealthState)]) {
        self.shown = shown.iter().map(|(last, state)| (ip(*last), *state)).collect();
        for _ in 0..seconds {
            self.now = self.now + Duration::from_secs(1);
            self.gates.touch(Touched::Group(&arn("blue")), self.now);
            self.judge();
        }
    }

    fn end(&mut self, (id, write): &(RequestId, GateWrite), result: Result<(), Failure>) {
        let due = self.gates.written(&write.pod, *id, result, self.now);
        self.take(due);
        self.judge();
    }

    /// Completes each write, and returns its pod, `+` or `-`, and its reason.
    fn turned(&mut self) -> Vec<String> {
        let writes = std::mem::take(&mut self.writes);
        for write in &writes {
            self.end(write, Ok(()));
        }
        let sign = |open| if open { '+' } else { '-' };
        let show = |(_, GateWrite { pod, condition, .. }): &(RequestId, GateWrite)| {
            format!("{} {} {}", pod.name, sign(condition.open), condition.reason.as_str())
        };
        writes.iter().map(show).collect()
    }
}

#[test]
fn why_a_gate_is_closed_is_written_after_a_moment_and_when_it_has_changed() {
    let mut world = World::new();
    world.apply(closed("a", "1", 1));
    world.passes(2, &[(1, HealthState::Initial)]);
    assert_eq!(world.turned(), [""; 0], "most are open soon");
    world.passes(4, &[(1, HealthState::Initial)]);
    assert_eq!(world.turned(), ["a - TargetInitial"]);
    world.passes(20, &[(1, HealthState::Initial)]);
    assert_eq!(world.turned(), [""; 0]);
    world.passes(5, &[(1, HealthState::Unhealthy)]);
    assert_eq!(world.turned(), ["a - TargetUnhealthy"]);
    world.passes(5, &[(1, HealthState::Draining)]);
    assert_eq!(world.turned(), [""; 0], "not for each word");
}

#[test]
fn a_gate_that_is_open_stays_so_whatever_the_load_balancer_says() {
    let mut world = World::new();
    world.apply(open("a", "1", 1));
    world.passes(10, &[(1, HEALTHY)]);
    world.passes(60, &[(1, HealthState::Unhealthy)]);
    assert_eq!(world.turned(), [""; 0]);
}

#[test]
fn a_gate_closes_when_its_pod_gets_another_ip_and_opens_for_that_one() {
    let by_hand = pod("a", "1").at(1).gated(Shown::Open(None));
    for before in [open("a", "1", 1), by_hand] {
        let mut world = World::new();
        world.apply(before.clone());
        world.passes(10, &[(1, HEALTHY)]);
        world.apply(before.at(2));
        assert_eq!(world.turned(), ["a - IpChanged"]);
        world.apply(closed("a", "1", 2));
        world.passes(3, &[(2, HEALTHY)]);
        assert_eq!(world.turned(), ["a + TargetsHealthy"]);
        world.apply(open("a", "1", 2));
        world.passes(60, &[(2, HEALTHY)]);
        assert_eq!(world.turned(), [""; 0]);
    }
}

#[test]
fn a_gate_that_somebody_wiped_out_is_opened_again_and_a_write_that_nobody_sees_is_repeated() {
    let mut world = World::new();
    world.apply(open("a", "1", 1));
    world.passes(10, &[(1, HEALTHY)]);
    world.apply(pod("a", "1").at(1).gated(Shown::Missing));
    assert_eq!(world.turned(), ["a + TargetsHealthy"]);
    world.passes(4, &[(1, HEALTHY)]);
    assert_eq!(world.turned(), [""; 0]);
    world.passes(2, &[(1, HEALTHY)]);
    assert_eq!(world.turned(), ["a + TargetsHealthy"]);
}

#[test]
fn one_pod_that_cannot_be_written_to_holds_up_no_other_and_few_are_written_at_once() {
    let mut world = World::new();
    let pods = 1..=20_u8;
    for last in pods.clone() {
        world.apply(closed(&format!("p{last:02}"), &last.to_string(), last));
    }
    world.passes(1, &pods.map(|last| (last, HEALTHY)).collect::<Vec<_>>());
    let first = std::mem::take(&mut world.writes);
    assert_eq!((first.len(), &*first[0].1.pod.name), (8, "p01"));
    world.end(&first[0], fails(FailureClass::Unavailable));
    world.end(&first[1], fails(FailureClass::Denied));
    world.end(&first[2], fails(FailureClass::Denied));
    world.end(&first[3], fails(FailureClass::Gone));
    assert_eq!(world.told, [News::Refused("text".into())], "once");
    for write in &first[4..] {
        world.end(write, Ok(()));
    }
    assert_eq!(world.turned().len(), 8);
    let mut rest = world.turned();
    for _ in 0..10 {
        world.now = world.now + Duration::from_millis(100);
        world.judge();
        rest.extend(world.turned());
    }
    rest.sort();
    let again =
        ["p01", "p02", "p03", "p17", "p18", "p19", "p20"].map(|pod| format!("{pod} + TargetsHealthy"));
    assert_eq!(rest, again, "those that failed again, the one that is gone not");
}

#[test]
fn a_gate_that_stays_closed_is_told_once_and_so_is_that_it_opened_late() {
    let mut world = World::new();
    world.apply(closed("a", "1", 1));
    world.apply(pod("b", "2").gated(Shown::Closed));
    world.passes(299, &[(1, HealthState::Unhealthy)]);
    assert_eq!(world.told, []);
    world.passes(300, &[(1, HealthState::Unhealthy)]);
    assert_eq!(world.told.len(), 1, "one without IP is Kubernetes' own to explain: {:?}", world.told);
    let why = "target 10.0.0.1:80 of target group blue: unhealthy";
    assert_eq!(world.told[0], News::StillClosed(Duration::from_secs(300), why.to_owned()));
    world.turned();
    world.passes(2, &[(1, HEALTHY)]);
    world.turned();
    assert!(matches!(world.told[1..], [News::OpenedLate(..)]), "{:?}", world.told);
}

#[test]
fn one_that_is_not_listed_for_a_moment_is_not_written_to_beside_the_write_under_way() {
    let mut world = World::new();
    world.apply(closed("a", "1", 1));
    world.passes(6, &[(1, HealthState::Initial)]);
    let write = world.writes.remove(0);
    world.gates.touch(Touched::Gone(&write.1.pod, &write.1.uid), world.now);
    world.pods.clear();
    world.apply(closed("a", "1", 1));
    world.passes(2, &[(1, HEALTHY)]);
    assert!(world.writes.is_empty(), "that may arrive later");
    world.end(&write, Ok(()));
    assert_eq!(world.turned(), ["a + TargetsHealthy"]);
    // Writes to pods that no longer exist do not block other writes forever.
    for last in 1..=8 {
        world.apply(closed(&format!("b{last}"), "1", last));
    }
    world.passes(1, &(1..=8).map(|last| (last, HEALTHY)).collect::<Vec<_>>());
    let writes = std::mem::take(&mut world.writes);
    assert_eq!(writes.len(), 8);
    for (_, write) in &writes {
        world.gates.touch(Touched::Gone(&write.pod, &write.uid), world.now);
    }
    world.apply(closed("c", "1", 9));
    world.passes(1, &[(9, HEALTHY)]);
    assert!(world.writes.is_empty(), "so many at once");
    for write in &writes {
        world.end(write, fails(FailureClass::Gone));
    }
    assert_eq!(world.turned(), ["c + TargetsHealthy"]);
}

#[test]
fn a_pod_that_ends_or_is_followed_by_another_is_not_written_to() {
    let mut world = World::new();
    for last in 1..=3 {
        world.apply(closed(&format!("p{last}"), &last.to_string(), last));
    }
    world.apply(closed("p1", "1", 1).terminating());
    world.apply(closed("p2", "2", 2).finished());
    world.apply(closed("p3", "33", 4));
    world.passes(2, &[(1, HEALTHY), (2, HEALTHY), (3, HEALTHY)]);
    let gone = world.pods.remove(&closed("p3", "33", 4).build().key).unwrap();
    world.gates.touch(Touched::Gone(&gone.key, &gone.uid), world.now);
    world.passes(60, &[(1, HEALTHY), (2, HEALTHY), (3, HEALTHY), (4, HEALTHY)]);
    assert_eq!(world.turned(), [""; 0]);
}
