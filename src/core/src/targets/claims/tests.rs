//! The life of one target. The simulation in `tests/simulation/src/claims` tries every order of events.

use std::{collections::BTreeMap, time::Duration};

use super::*;
use crate::{model::Uid, testing::target};

const DELAYS: Delays = Delays {
    late: Duration::from_secs(10),
    stale: Duration::from_secs(5),
    bound: Duration::from_secs(120),
    notice: Duration::from_secs(20),
};

/// The next steps: calls, the request to the ledger, and when another step becomes due because time passes.
#[derive(Debug, Default, PartialEq, Eq)]
struct Due {
    remove: Vec<Target>,
    add: Vec<Target>,
    ledger: Option<Request>,
    again: Option<Moment>,
}

/// A group whose requests are answered immediately.
struct Stage {
    targets: Targets,
    now: u64,
    requests: u64,
}

fn at(second: u64) -> Moment {
    Moment::after_start(Duration::from_secs(second))
}

fn mark(pod: &str) -> PodMark {
    PodMark::of(&Uid::new(pod))
}

fn version(number: u64) -> LedgerVersion {
    LedgerVersion::new(number.to_string())
}

fn claims(pods: &[(u8, &str)]) -> Claims {
    pods.iter()
        .map(|(host, pod)| (target(*host, 80), Claim { pod: mark(pod), binding: Some("default/web".into()) }))
        .collect()
}

impl Stage {
    /// A leader of term 2 whose ledger names these claims.
    fn begin(inherited: &[(u8, &str)], settled: u64) -> Self {
        let found = Some((version(1), Content { term: 1, claims: claims(inherited), ..Content::default() }));
        let mut targets = Targets::new(DELAYS);
        targets.begin(2);
        assert!(targets.found(found, at(settled), at(100)));
        let mut stage = Self { targets, now: 100, requests: 0 };
        stage.write();
        stage
    }

    fn next_id(&mut self) -> RequestId {
        self.requests += 1;
        RequestId(self.requests)
    }

    fn due(&mut self) -> Due {
        self.due_if(true)
    }

    /// The next steps. `may_go`: whether targets may be taken from their pods.
    fn due_if(&mut self, may_go: bool) -> Due {
        let (now, mut due) = (at(self.now), Due::default());
        let all = || (1..4).map(|host| target(host, 80));
        for target in all() {
            match self.targets.plan(&target, now, may_go) {
                Some(Way::In) => due.add.push(target),
                Some(Way::Out) => due.remove.push(target),
                None => {}
            }
        }
        due.ledger = self.targets.ledger_request(now);
        due.again =
            all().filter_map(|target| self.targets.waits_until(&target)).filter(|until| *until > now).min();
        due
    }

    /// Writes the ledger until it has the desired content.
    fn write(&mut self) {
        while let Some(request) = self.due().ledger {
            let id = self.next_id();
            self.targets.ledger_mut().sent(id, request.clone());
            let Request::Write(_, _) = request else { panic!("{request:?}") };
            self.targets.ledger_mut().written(id, Ok(version(100 + id.0)));
        }
    }

    fn want(&mut self, host: u8, pod: Option<&str>) {
        let wanted = pod.map(|pod| Wanted { pod: mark(pod), binding: "default/web".into(), may_add: true });
        self.targets.want(target(host, 80), wanted);
    }

    fn send(&mut self, way: Way, host: u8) -> RequestId {
        let due = self.due();
        let list = if way == Way::In { due.add } else { due.remove };
        assert!(list.contains(&target(host, 80)), "{list:?}");
        let id = self.next_id();
        self.targets.sent(id, way, &[target(host, 80)], at(self.now));
        id
    }

    fn answer(&mut self, id: RequestId, host: u8, outcome: Outcome) {
        self.targets.answered(id, &[target(host, 80)], outcome, at(self.now));
    }

    /// Reads the group; the read begins and ends now.
    fn read(&mut self, shown: &[(u8, HealthState)]) -> Vec<Target> {
        let shown: BTreeMap<Target, HealthState> =
            shown.iter().map(|(host, health)| (target(*host, 80), *health)).collect();
        self.targets.read(at(self.now), shown, at(self.now))
    }

    fn is_healthy(&self, host: u8, pod: &str) -> bool {
        self.targets.health(&target(host, 80), mark(pod)) == Some(HealthState::Healthy)
    }

    fn ledger(&self) -> Claims {
        self.targets.ledger().last_written().map(|content| content.claims.clone()).unwrap_or_default()
    }

    /// Pod `a` is registered at host 1, in a group that had no other target before.
    fn registered() -> Self {
        let mut stage = Self::begin(&[], 0);
        stage.read(&[]);
        stage.want(1, Some("a"));
        stage.write();
        let id = stage.send(Way::In, 1);
        stage.answer(id, 1, Outcome::Done);
        stage
    }
}

#[test]
fn a_claim_is_written_before_the_target_is_registered_and_erased_when_nothing_is_sent_any_more() {
    let mut stage = Stage::begin(&[], 0);
    stage.want(1, Some("a"));
    let due = stage.due();
    assert!(due.add.is_empty() && due.ledger.is_some(), "{due:?}");
    stage.write();
    let id = stage.send(Way::In, 1);
    stage.answer(id, 1, Outcome::Done);
    assert_eq!(stage.ledger(), claims(&[(1, "a")]));

    stage.want(1, None);
    let id = stage.send(Way::Out, 1);
    stage.answer(id, 1, Outcome::Done);
    stage.now += 119;
    stage.read(&[]);
    assert_eq!(stage.due(), Due { again: Some(at(220)), ..Due::default() });
    stage.now += 1;
    stage.read(&[]);
    stage.write();
    assert_eq!(stage.ledger(), Claims::new());
    assert!(matches!(stage.targets.state(&target(1, 80)), Some(State::Absent { .. })));
}

#[test]
fn a_group_that_cannot_be_read_keeps_no_claim_beyond_its_bound() {
    let mut stage = Stage::registered();
    stage.want(1, None);
    let id = stage.send(Way::Out, 1);
    stage.answer(id, 1, Outcome::Done);
    stage.now += 200;
    assert_eq!(stage.due().ledger, None, "a read may yet be answered");
    stage.targets.reads_mut().fail();
    stage.write();
    assert_eq!(stage.ledger(), Claims::new());
}

#[test]
fn a_removal_does_not_wait_for_a_registration_in_flight_and_counts_when_that_has_ended() {
    for ends in [true, false] {
        let mut stage = Stage::begin(&[], 0);
        stage.want(1, Some("a"));
        stage.write();
        let registration = stage.send(Way::In, 1);
        stage.want(1, None);
        let removal = stage.send(Way::Out, 1);
        stage.answer(removal, 1, Outcome::Done);
        assert_eq!(stage.due(), Due { again: Some(at(110)), ..Due::default() }, "it does not count");
        if ends {
            stage.answer(registration, 1, Outcome::Done);
        } else {
            stage.now += 10;
        }
        let removal = stage.send(Way::Out, 1);
        stage.answer(removal, 1, Outcome::Done);
        assert!(matches!(stage.targets.state(&target(1, 80)), Some(State::Draining(_))), "{ends}");
    }
}

#[test]
fn a_registration_without_an_answer_is_sent_again_and_then_counts_for_its_pod() {
    let mut stage = Stage::begin(&[], 0);
    stage.want(1, Some("a"));
    stage.write();
    let id = stage.send(Way::In, 1);
    stage.answer(id, 1, Outcome::Unknown);
    let id = stage.send(Way::In, 1);
    stage.answer(id, 1, Outcome::Done);
    assert!(matches!(stage.targets.state(&target(1, 80)), Some(State::Registered { late: Some(_), .. })));
    assert!(!stage.targets.is_settled(), "the first one may come late");
    stage.want(1, None);
    let removal = stage.send(Way::Out, 1);
    stage.answer(removal, 1, Outcome::Done);
    assert!(
        matches!(stage.targets.state(&target(1, 80)), Some(State::Unsettled { .. })),
        "it does not count"
    );
}

#[test]
fn a_group_that_aws_does_not_know_keeps_its_claims_until_a_read_shows_the_target_or_the_bound_is_over() {
    let mut stage = Stage::registered();
    stage.want(1, None);
    let id = stage.send(Way::Out, 1);
    stage.answer(id, 1, Outcome::Gone);
    assert_eq!(stage.ledger(), claims(&[(1, "a")]));
    stage.now += 6;
    stage.read(&[(1, HealthState::Healthy)]);
    stage.send(Way::Out, 1);
}

#[test]
fn a_new_leader_removes_at_once_what_nobody_wants_and_keeps_without_a_call_what_somebody_does() {
    let mut stage = Stage::begin(&[(1, "a"), (2, "b")], 110);
    stage.want(1, Some("a"));
    let due = stage.due();
    assert_eq!((due.remove, due.add), (vec![target(2, 80)], vec![]));
    stage.now = 116;
    stage.read(&[(1, HealthState::Healthy), (2, HealthState::Draining)]);
    assert!(!stage.is_healthy(1, "a"), "that may be the health of what was there before");
    stage.now = 136;
    stage.read(&[(1, HealthState::Healthy)]);
    assert!(stage.is_healthy(1, "a"));
    assert!(stage.due().add.is_empty());
}

#[test]
fn health_counts_from_reads_that_cannot_show_what_was_before() {
    let mut stage = Stage::registered();
    stage.now += 5;
    stage.read(&[(1, HealthState::Healthy)]);
    assert!(!stage.is_healthy(1, "a"));
    stage.now += 1;
    stage.read(&[(1, HealthState::Healthy)]);
    assert!(stage.is_healthy(1, "a") && !stage.is_healthy(1, "b"));
}

#[test]
fn what_somebody_else_may_have_registered_is_not_healthy_before_it_was_seen_unhealthy() {
    let mut stage = Stage::begin(&[], 0);
    stage.read(&[(1, HealthState::Healthy)]);
    stage.want(1, Some("a"));
    stage.write();
    let id = stage.send(Way::In, 1);
    stage.answer(id, 1, Outcome::Done);
    for (after, health, counts) in [
        (6, HealthState::Healthy, false),
        (6, HealthState::Initial, false),
        (5, HealthState::Healthy, false),
        (1, HealthState::Healthy, true),
    ] {
        stage.now += after;
        stage.read(&[(1, health)]);
        assert_eq!(stage.is_healthy(1, "a"), counts, "at {}", stage.now);
    }
}

#[test]
fn an_address_that_goes_to_another_pod_is_removed_before_it_is_registered_for_it() {
    let mut stage = Stage::registered();
    stage.want(1, Some("b"));
    assert!(stage.due().add.is_empty());
    let id = stage.send(Way::Out, 1);
    stage.answer(id, 1, Outcome::Done);
    assert_eq!(stage.ledger(), claims(&[(1, "a")]));
    stage.write();
    assert_eq!(stage.ledger(), claims(&[(1, "b")]), "one write replaces the claim");
    stage.send(Way::In, 1);
}

#[test]
fn what_was_refused_is_as_before_and_what_nobody_knows_is_unsettled() {
    let mut stage = Stage::begin(&[], 0);
    stage.want(1, Some("a"));
    stage.write();
    let id = stage.send(Way::In, 1);
    stage.answer(id, 1, Outcome::Refused);
    assert_eq!(stage.due().add, [target(1, 80)]);
    let id = stage.send(Way::In, 1);
    stage.answer(id, 1, Outcome::Unknown);
    assert!(!stage.targets.is_settled());
    stage.now += 16;
    stage.read(&[]);
    stage.write();
    stage.send(Way::In, 1);
}

#[test]
fn a_pod_that_was_asked_to_leave_keeps_its_target_and_gets_no_new_one() {
    let mut stage = Stage::registered();
    let leaving = Some(Wanted { pod: mark("a"), binding: "default/web".into(), may_add: false });
    stage.targets.want(target(1, 80), leaving.clone());
    stage.targets.want(target(2, 80), leaving);
    assert_eq!(stage.due(), Due::default());
    stage.now += 6;
    stage.read(&[]);
    stage.write();
    assert!(stage.due().add.is_empty(), "somebody has removed it");
}

#[test]
fn a_target_that_may_not_go_yet_stays() {
    let mut stage = Stage::registered();
    stage.want(1, None);
    assert_eq!(stage.due_if(false).remove, []);
    assert_eq!(stage.due().remove, [target(1, 80)]);
}

#[test]
fn after_a_conflict_nothing_counts_until_this_term_has_written_again() {
    let mut stage = Stage::registered();
    stage.targets.ledger.seen(Some(&version(7)));
    stage.want(2, Some("b"));
    let load = stage.due().ledger;
    assert_eq!(load, Some(Request::Load));
    let id = stage.next_id();
    stage.targets.ledger.sent(id, Request::Load);
    stage.targets.ledger.load_ended(id);
    let found = Content { term: 1, claims: claims(&[(3, "c")]), ..Content::default() };
    assert!(stage.targets.found(Some((version(7), found)), at(0), at(100)));
    let due = stage.due();
    assert!(due.add.is_empty(), "{due:?}");
    stage.write();
    assert_eq!(stage.ledger(), claims(&[(1, "a"), (2, "b"), (3, "c")]));

    stage.targets.ledger.seen(None);
    let id = stage.next_id();
    stage.targets.ledger.sent(id, Request::Load);
    stage.targets.ledger.load_ended(id);
    let later = Content { term: 3, claims: Claims::new(), ..Content::default() };
    assert!(!stage.targets.found(Some((version(8), later)), at(0), at(100)));
}

#[test]
fn what_a_removal_has_left_and_a_read_shows_again_is_somebody_elses() {
    let mut stage = Stage::registered();
    stage.want(1, None);
    let id = stage.send(Way::Out, 1);
    stage.answer(id, 1, Outcome::Done);
    stage.now += 120;
    assert_eq!(stage.read(&[(1, HealthState::Initial)]), [target(1, 80)]);
    stage.write();
    assert_eq!((stage.ledger(), stage.due().remove), (Claims::new(), vec![]));
}
