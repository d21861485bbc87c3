//! Each rule of the machine, call by call.

use std::collections::BTreeMap;

use super::{calls::FIRST_SET_ASIDE, *};
use crate::{
    index::Owner,
    ledger::{LedgerRequest, LedgerVersion},
    model::{CallItem, HealthState, Uid, WallTime},
    testing::{arn, target},
};

const T: u8 = 1;

fn binding(name: &str) -> BindingKey {
    let origin = Origin::TargetBinding(ObjectKey::new("shop", name));
    BindingKey { origin, port: "http".into(), group: arn("blue") }
}

fn owned(by: Option<&str>) -> Ownership {
    Ownership {
        binding: binding("web"),
        target: target(T, 80),
        owner: by.map(|uid| Owner { pod: ObjectKey::new("shop", uid), uid: Uid::new(uid) }),
        reason: if by.is_some() { Reason::PodHasIp } else { Reason::PodTerminating },
        seen: Moment::START,
    }
}

/// The machine with a ledger that is written as soon as it asks.
struct Drive(Registrations, u64);

impl Default for Drive {
    fn default() -> Self {
        let mut registrations =
            Registrations::new(Duration::from_secs(30), Duration::from_secs(300), WallTime::default(), 1);
        registrations.no_ledger();
        Self(registrations, 0)
    }
}

impl Drive {
    /// Whether nothing is left so long after the start.
    fn is_over(&mut self, seconds: u64) -> bool {
        self.0.forget_departed(at(seconds));
        self.0.is_empty()
    }

    fn write_ledger(&mut self) {
        self.1 += 1;
        let id = RequestId(self.1);
        let request = self.0.ledger_request(&arn("blue"), || true, id, Moment::START);
        if let Some(LedgerRequest::Write(..)) = request {
            self.0.wrote_ledger(id, &Ok(Some(LedgerVersion::new(self.1.to_string()))), Moment::START);
        }
    }
    fn want(&mut self, by: Option<&str>) {
        self.0.want(owned(by), true);
    }
    fn add(&mut self) -> (RequestId, Vec<CallItem>) {
        self.write_ledger();
        assert!(self.0.oldest_addition().is_some(), "no registration is due");
        self.1 += 1;
        (RequestId(self.1), self.0.start_addition(RequestId(self.1), 100))
    }
    fn remove(&mut self) -> (RequestId, Vec<CallItem>) {
        assert!(self.0.oldest_removal().is_some(), "no removal is due");
        self.1 += 1;
        (RequestId(self.1), self.0.start_removal(RequestId(self.1), 100))
    }
    fn due(&mut self) -> (bool, bool) {
        self.write_ledger();
        (self.0.oldest_addition().is_some(), self.0.oldest_removal().is_some())
    }
    fn registered(&mut self, call: &(RequestId, Vec<CallItem>), ok: bool) {
        let ended = if ok { Ended::Well } else { Ended::Badly };
        self.0.registered(call.0, &call.1, ended, Moment::START);
    }
    fn refused(&mut self, call: &(RequestId, Vec<CallItem>)) {
        self.0.registered(call.0, &call.1, Ended::Refused, Moment::START);
    }
    fn deregistered(&mut self, call: &(RequestId, Vec<CallItem>), ok: bool) {
        self.0.deregistered(call.0, &call.1, ok, Moment::START);
    }
    fn with_a_registered() -> Self {
        let mut drive = Self::default();
        drive.want(Some("a"));
        let call = drive.add();
        drive.registered(&call, true);
        drive
    }
}

#[test]
fn a_wanted_target_is_registered_once_and_removed_once() {
    let mut drive = Drive::with_a_registered();
    assert!(drive.0.is_registered(&target(T, 80)));
    assert_eq!(drive.due(), (false, false));
    drive.want(None);
    let call = drive.remove();
    assert_eq!((call.1[0].uid.as_str(), call.1[0].reason), ("a", Reason::PodTerminating));
    assert_eq!(drive.due(), (false, false));
    drive.deregistered(&call, true);
    assert!(drive.0.has_tombstones(Moment::START));
}

#[test]
fn what_aws_may_have_of_a_pod_is_known_though_another_was_to_have_it_for_a_moment() {
    let of = |drive: &Drive, uid: &str| drive.0.all_of(&Uid::new(uid)).count();
    let mut drive = Drive::with_a_registered();
    drive.want(Some("b"));
    assert_eq!((of(&drive, "a"), of(&drive, "b")), (0, 1));
    drive.want(None);
    assert_eq!((of(&drive, "a"), of(&drive, "b")), (1, 1));
    let call = drive.remove();
    drive.deregistered(&call, true);
    assert_eq!((of(&drive, "a"), of(&drive, "b")), (0, 0));
}

#[test]
fn a_pod_that_had_a_target_before_another_is_put_back_when_it_was_taken_out_and_comes_back() {
    let mut drive = Drive::with_a_registered();
    drive.want(Some("b"));
    let call = drive.add();
    drive.registered(&call, true);
    drive.want(Some("a"));
    drive.want(None);
    let call = drive.remove();
    drive.deregistered(&call, true);
    drive.want(Some("a"));
    let owner = drive.0.put_back(&target(T, 80)).map(|(owner, _)| owner.uid.as_str());
    assert_eq!(owner, Some("a"), "its gate may be open since it had the target for the first time");
}

#[test]
fn what_was_never_registered_from_here_is_never_removed() {
    let mut drive = Drive::default();
    drive.want(None);
    assert_eq!(drive.due(), (false, false));
    drive.want(Some("a"));
    drive.want(None);
    assert!(drive.is_over(3600));
}

#[test]
fn a_removal_goes_at_once_beside_a_registration_in_flight_and_again_after_it() {
    let mut drive = Drive::default();
    drive.want(Some("a"));
    let register = drive.add();
    drive.want(None);
    let first = drive.remove();
    drive.deregistered(&first, true);
    assert_eq!(drive.due(), (false, false), "the registration is still in flight");
    drive.registered(&register, true);
    let second = drive.remove();
    drive.deregistered(&second, true);
    assert!(drive.0.has_tombstones(Moment::START));
}

#[test]
fn a_registration_waits_for_the_removal_of_the_same_target() {
    let mut drive = Drive::with_a_registered();
    drive.want(None);
    let removal = drive.remove();
    drive.want(Some("b"));
    assert_eq!(drive.due(), (false, false));
    drive.deregistered(&removal, true);
    assert_eq!(drive.add().1[0].uid.as_str(), "b");
}

#[test]
fn a_target_that_passes_to_another_pod_is_registered_again_and_not_removed() {
    let mut drive = Drive::with_a_registered();
    drive.want(Some("b"));
    assert_eq!(drive.due(), (true, false));
    assert!(!drive.0.is_registered(&target(T, 80)), "b has not been registered");
    let call = drive.add();
    drive.registered(&call, true);
    assert!(drive.0.is_registered(&target(T, 80)));
}

#[test]
fn a_removal_that_was_not_sent_yet_is_called_off_by_a_new_owner() {
    let mut drive = Drive::with_a_registered();
    drive.want(None);
    drive.want(Some("b"));
    assert_eq!(drive.due(), (true, false));
}

#[test]
fn a_failed_registration_is_tried_again_and_removed_if_no_longer_wanted() {
    let mut drive = Drive::default();
    drive.want(Some("a"));
    let call = drive.add();
    drive.registered(&call, false);
    let retry = drive.add();
    assert_eq!((retry.1[0].reason, retry.1[0].attempt), (Reason::PodHasIp, 2));
    drive.registered(&retry, false);
    drive.want(None);
    assert_eq!(drive.due(), (false, true), "its answer may have been lost");
}

#[test]
fn a_failed_removal_is_tried_again() {
    let mut drive = Drive::with_a_registered();
    drive.want(None);
    let call = drive.remove();
    drive.deregistered(&call, false);
    assert_eq!(drive.due(), (false, true));
}

#[test]
fn one_registration_call_at_a_time_and_what_comes_meanwhile_travels_together() {
    let mut drive = Drive::default();
    drive.want(Some("a"));
    let call = drive.add();
    for last in [2, 3] {
        drive.0.want(Ownership { target: target(last, 80), ..owned(Some("b")) }, true);
    }
    assert_eq!(drive.due(), (false, false));
    drive.registered(&call, true);
    assert_eq!(drive.add().1.len(), 2);
}

fn at(seconds: u64) -> Moment {
    Moment::after_start(Duration::from_secs(seconds))
}

fn removed() -> Drive {
    let mut drive = Drive::with_a_registered();
    drive.want(None);
    let call = drive.remove();
    drive.deregistered(&call, true);
    drive
}

#[test]
fn a_target_that_somebody_else_removed_is_registered_again_once_a_late_enough_read_misses_it() {
    let draining = BTreeMap::from([(target(T, 80), HealthState::Draining.into())]);
    for states in [BTreeMap::new(), draining] {
        let mut drive = Drive::with_a_registered();
        drive.0.observed(&states, at(4), at(4), |_, _| false);
        assert_eq!(drive.due(), (false, false), "the read may be older than the registration");
        drive.0.observed(&states, at(5), at(5), |_, _| false);
        assert_eq!(drive.add().1[0].reason, Reason::TargetMissing);
    }
}

#[test]
fn a_removed_target_that_a_late_call_brought_back_is_removed_again() {
    let mut drive = removed();
    let back = BTreeMap::from([(target(T, 80), HealthState::Initial.into())]);
    drive.0.observed(&back, at(4), at(4), |_, _| false);
    assert_eq!(drive.due(), (false, false), "the read may be older than the removal");
    drive.0.observed(&back, at(5), at(5), |_, _| false);
    assert_eq!(drive.remove().1[0].reason, Reason::TargetReappeared);
}

#[test]
fn a_read_that_began_before_the_last_call_ended_says_nothing() {
    let mut drive = removed();
    drive.0.observed(
        &BTreeMap::from([(target(T, 80), HealthState::Healthy.into())]),
        Moment::START,
        at(1),
        |_, _| false,
    );
    assert_eq!(drive.due(), (false, false));
}

#[test]
fn a_tombstone_is_dropped_after_two_reads_without_it_and_when_no_call_can_land_any_more() {
    let nothing = BTreeMap::new();
    let mut drive = removed();
    for second in [5, 6, 29] {
        drive.0.observed(&nothing, at(second), at(second), |_, _| false);
        assert!(drive.0.has_tombstones(at(second)), "{second}");
    }
    drive.0.observed(&nothing, at(30), at(30), |_, _| false);
    assert!(drive.is_over(3600));
    let mut drive = removed();
    for second in [1, 2, 60] {
        drive.0.observed(&nothing, at(second), at(second), |_, _| false);
    }
    assert!(drive.0.has_tombstones(at(60)), "one read that is late enough is not enough");
}

#[test]
fn a_group_that_is_gone_needs_no_tombstones() {
    let mut drive = removed();
    drive.0.group_is_gone();
    assert!(drive.is_over(3600));
}

#[test]
fn a_refused_call_is_halved_until_the_bad_target_is_alone_and_set_aside() {
    let mut drive = Drive::default();
    for last in 1..=8 {
        drive.0.want(Ownership { target: target(last, 80), ..owned(Some("a")) }, true);
    }
    let bad = target(6, 80);
    let (mut calls, mut registered) = (0, 0);
    while drive.due().0 {
        let call = drive.add();
        calls += 1;
        if call.1.iter().any(|item| item.target == bad) {
            drive.refused(&call);
        } else {
            registered += call.1.len();
            drive.registered(&call, true);
        }
    }
    assert_eq!((calls, registered), (7, 7), "8, 4, 4, 2, 2, 1, 1");
    assert_eq!(drive.0.next_take_up(), Some(Moment::START + FIRST_SET_ASIDE));
    drive.0.take_up(Moment::START + FIRST_SET_ASIDE);
    let again = drive.add();
    assert_eq!(again.1[0].target, bad);
    drive.refused(&again);
    assert_eq!(drive.0.next_take_up(), Some(Moment::START + 2 * FIRST_SET_ASIDE), "twice as long");
}

#[test]
fn a_new_pod_is_not_set_aside_for_what_the_old_one_did() {
    let mut drive = Drive::default();
    drive.want(Some("a"));
    let call = drive.add();
    drive.refused(&call);
    assert_eq!(drive.due(), (false, false));
    drive.want(Some("b"));
    assert_eq!((drive.due(), drive.0.next_take_up()), ((true, false), None));
}

#[test]
fn what_is_refused_and_not_wanted_any_more_is_not_set_aside() {
    let mut drive = Drive::default();
    drive.want(Some("a"));
    let call = drive.add();
    drive.want(None);
    drive.refused(&call);
    assert_eq!((drive.due(), drive.0.next_take_up()), ((false, true), None));
}

#[test]
fn what_was_set_aside_and_is_no_longer_wanted_is_removed_at_once() {
    let mut drive = Drive::default();
    drive.want(Some("a"));
    let call = drive.add();
    drive.refused(&call);
    drive.want(None);
    assert_eq!((drive.due(), drive.0.next_take_up()), ((false, true), None));
}

/// Registered for `a` ten seconds after the start.
fn registered_at_ten() -> Drive {
    let mut drive = Drive::default();
    drive.want(Some("a"));
    let call = drive.add();
    drive.0.registered(call.0, &call.1, Ended::Well, at(10));
    drive
}

fn shows(state: HealthState) -> BTreeMap<Target, crate::model::health::Health> {
    BTreeMap::from([(target(T, 80), state.into())])
}

impl Drive {
    /// Whether a read that began then tells of the health of this pod.
    fn tells_of(&self, uid: &str, began: u64) -> bool {
        self.0.is_told_by(&target(T, 80), &Uid::new(uid), at(began))
    }
    fn grown(&mut self, state: HealthState, began: u64) -> Vec<Duration> {
        self.0.grown_healthy(&shows(state), at(began), at(began))
    }
    /// Registered for `b` at second 10, without having been taken out of `a`.
    fn passed_on() -> Self {
        let mut drive = Self::with_a_registered();
        drive.want(Some("b"));
        let call = drive.add();
        drive.0.registered(call.0, &call.1, Ended::Well, at(10));
        drive
    }
}

#[test]
fn a_read_tells_of_the_pod_it_was_registered_for_once_it_began_after_that() {
    let mut drive = registered_at_ten();
    assert!(!drive.tells_of("a", 10) && drive.tells_of("a", 11));
    assert!(!drive.tells_of("b", 11), "another one");
    drive.want(None);
    assert!(!drive.tells_of("a", 11), "nobody's");
    drive.remove();
    drive.want(Some("a"));
    assert!(!drive.tells_of("a", 100), "its removal is in flight");
    let mut drive = registered_at_ten();
    drive.0.want(owned(None), false);
    drive.remove();
    drive.0.want(owned(Some("a")), false);
    assert!(!drive.tells_of("a", 100), "nor is it put back");
    let mut drive = registered_at_ten();
    drive.want(Some("b"));
    assert!(!drive.tells_of("b", 11) && !drive.tells_of("a", 11), "not registered for it yet");
}

#[test]
fn after_a_registration_that_failed_first_nothing_of_another_pod_is_feared() {
    let mut drive = Drive::default();
    drive.want(Some("a"));
    let call = drive.add();
    drive.registered(&call, false);
    let call = drive.add();
    drive.0.registered(call.0, &call.1, Ended::Well, at(10));
    assert!(drive.tells_of("a", 11));
}

#[test]
fn what_no_read_has_shown_before_its_registration_may_have_been_there() {
    for (unread, tells) in [(true, false), (false, true)] {
        let mut drive = Drive::default();
        drive.want(Some("a"));
        let call = drive.add();
        drive.0.there_before(&call.1, &BTreeMap::new(), unread);
        drive.registered(&call, true);
        assert_eq!(drive.tells_of("a", 4), tells);
        assert!(drive.tells_of("a", 6));
    }
}

#[test]
fn the_health_of_the_pod_before_is_over_once_a_late_enough_read_shows_another_one() {
    let tells = |reads: &[(HealthState, u64)], began| {
        let mut drive = Drive::passed_on();
        for (state, at) in reads {
            assert_eq!(drive.grown(*state, *at), [], "it may be the old one's");
        }
        drive.tells_of("b", began)
    };
    let unhealthy = HealthState::Unhealthy;
    assert!(!tells(&[], 100) && tells(&[], 101), "after what the load balancer takes to notice");
    assert!(!tells(&[(unhealthy, 14)], 50), "that may be older than the registration");
    assert!(!tells(&[(unhealthy, 15)], 20) && tells(&[(unhealthy, 15)], 21), "and so may the next one");
    let mut drive = Drive::passed_on();
    assert_eq!(drive.0.grown_healthy(&BTreeMap::new(), at(20), at(20)), []);
    assert!(!drive.tells_of("b", 50), "it was not shown at all");
}

#[test]
fn how_long_a_target_took_to_become_healthy_is_measured_once_and_from_its_own_registration() {
    let mut drive = registered_at_ten();
    assert_eq!(drive.grown(HealthState::Healthy, 9), []);
    assert_eq!(drive.grown(HealthState::Healthy, 10), []);
    assert_eq!(drive.grown(HealthState::Initial, 11), []);
    assert_eq!(drive.grown(HealthState::Healthy, 12), [Duration::from_secs(2)]);
    assert_eq!(drive.grown(HealthState::Healthy, 13), []);
}

#[test]
fn a_target_that_is_not_healthy_for_long_is_found_once_and_not_by_an_old_read() {
    let long = Duration::from_secs(300);
    let find = |drive: &mut Drive, state, began, now| {
        let found = drive.0.find_never_healthy(&shows(state), at(began), long, |_| false, at(now));
        (found.len(), drive.0.never_healthy())
    };
    let mut drive = registered_at_ten();
    assert_eq!(find(&mut drive, HealthState::Unhealthy, 9, 400), (0, 0), "it began before");
    assert_eq!(find(&mut drive, HealthState::Unhealthy, 309, 309), (0, 0));
    assert_eq!(find(&mut drive, HealthState::Unhealthy, 10, 310), (1, 1));
    assert_eq!(find(&mut drive, HealthState::Unhealthy, 320, 320), (0, 1));
    assert_eq!(find(&mut drive, HealthState::Healthy, 10, 321), (0, 1), "that may be another one's");
    assert_eq!(find(&mut drive, HealthState::Healthy, 11, 322), (0, 0));
}

#[test]
fn of_a_target_that_this_leader_has_registered_nobody_is_asked_whether_it_was_healthy_before() {
    let find = |was_healthy| {
        let mut drive = registered_at_ten();
        let found = drive.0.find_never_healthy(
            &shows(HealthState::Unhealthy),
            at(400),
            Duration::from_secs(300),
            |_| was_healthy,
            at(400),
        );
        found.len()
    };
    assert_eq!((find(true), find(false)), (1, 1));
}

#[test]
fn a_removed_target_is_new_until_a_read_has_missed_it() {
    let mut drive = removed();
    assert!(drive.0.has_new_tombstones());
    drive.0.observed(&BTreeMap::new(), at(5), at(5), |_, _| false);
    assert!(!drive.0.has_new_tombstones());
    assert!(!Drive::with_a_registered().0.has_new_tombstones());
}

#[test]
fn what_is_wanted_and_what_is_out_is_told_pod_by_pod() {
    let (here, elsewhere) = (target(T, 80), target(9, 80));
    let is_out = |drive: &Drive, uid: &str| drive.0.is_out(&here, &Uid::new(uid));
    let mut drive = Drive::with_a_registered();
    assert!(drive.0.wants(&here) && !drive.0.wants(&elsewhere));
    assert!(!is_out(&drive, "a"));
    assert!(!drive.is_over(3600));
    drive.want(None);
    assert!(!drive.0.wants(&here) && !is_out(&drive, "a"), "AWS has not taken it");
    assert!(is_out(&removed(), "a"));
    drive.want(Some("b"));
    assert!(is_out(&drive, "a") && !is_out(&drive, "b"));
}

#[test]
fn the_oldest_and_the_newest_registration_that_waits_are_known() {
    let mut drive = Drive::default();
    assert_eq!((drive.0.oldest_addition(), drive.0.newest_addition()), (None, None));
    for last in [1, 2, 3] {
        let seen = at(u64::from(last));
        drive.0.want(Ownership { target: target(last, 80), seen, ..owned(Some("a")) }, true);
    }
    drive.write_ledger();
    assert_eq!((drive.0.oldest_addition(), drive.0.newest_addition()), (Some(at(1)), Some(at(3))));
}

#[test]
fn the_ledger_is_packed_for_the_family_of_its_targets() {
    let mut drive = Drive::default();
    let address = "fd00::1".parse().unwrap();
    drive.0.want(Ownership { target: Target::new(address, 80), ..owned(Some("a")) }, true);
    let request = drive.0.ledger_request(&arn("blue"), || true, RequestId(1), Moment::START);
    let Some(LedgerRequest::Write(None, packed)) = request else { panic!("{request:?}") };
    let ledger = crate::ledger::Ledger::unpack(&packed).unwrap();
    assert!(ledger.get(&Target::new(address, 80)).is_some());
}

#[test]
fn that_a_living_pod_was_taken_out_is_written_at_once() {
    for (reason, waits) in [(Reason::NotReady, 0), (Reason::PodDeleted, 5)] {
        let mut drive = Drive::default();
        for last in [1, 2] {
            drive.0.want(Ownership { target: target(last, 80), ..owned(Some("a")) }, true);
        }
        let call = drive.add();
        drive.registered(&call, true);
        drive.write_ledger();
        drive.write_ledger();
        for (last, reason) in [(1, reason), (2, Reason::PodDeleted)] {
            drive.0.want(Ownership { target: target(last, 80), reason, ..owned(None) }, true);
        }
        drive.write_ledger();
        let call = drive.remove();
        drive.deregistered(&call, true);
        assert_eq!(drive.0.next_ledger(None, at(0)), Some(at(waits)), "{reason}");
    }
}

#[test]
fn what_the_ledger_says_is_registered_counts_only_when_a_read_shows_it() {
    let mut ledger = crate::ledger::Ledger::default();
    ledger.note(target(T, 80), crate::ledger::Noted::Registered, PodMark::of(&Uid::new("a")));
    for (states, is_there) in [(shows(HealthState::Healthy), true), (BTreeMap::new(), false)] {
        let mut drive = Drive::default();
        drive.want(Some("a"));
        drive.0.inherit(&ledger, at(0));
        assert!(!drive.0.is_registered(&target(T, 80)) && drive.0.waits_for_read());
        drive.0.observed(&states, at(2), at(2), |_, _| false);
        assert_eq!(drive.0.is_registered(&target(T, 80)), is_there);
        assert_eq!(drive.0.waits_for_read(), !is_there);
    }
}

#[test]
fn since_when_a_target_is_an_orphan_is_known_while_it_is_one() {
    let mut ledger = crate::ledger::Ledger::default();
    ledger.note(target(T, 80), crate::ledger::Noted::Registered, PodMark::of(&Uid::new("a")));
    let mut drive = Drive::default();
    drive.0.inherit(&ledger, at(7));
    assert_eq!((drive.0.orphan_since(&target(T, 80)), drive.0.waits_for_read()), (Some(at(7)), true));
    drive.want(Some("a"));
    assert_eq!(drive.0.orphan_since(&target(T, 80)), None);
}

#[test]
fn a_foreign_target_whose_removal_was_not_sent_is_spared_and_a_target_of_our_own_is_not() {
    let foreign_target = target(9, 80);
    let mut drive = Drive::with_a_registered();
    drive.want(None);
    drive.0.expel(foreign_target, at(1));
    assert_eq!(drive.0.removals(), 2);
    drive.0.spare_foreign_targets();
    assert_eq!(drive.0.removals(), 1);
    assert!(!drive.0.knows(&foreign_target));
    drive.0.expel(foreign_target, at(1));
    drive.remove();
    drive.0.spare_foreign_targets();
    assert!(drive.0.knows(&foreign_target), "its removal is on its way");
}

#[test]
fn a_ledger_is_looked_at_again_when_others_have_written_it_or_bindings_have_changed() {
    let mut drive = Drive::with_a_registered();
    drive.write_ledger();
    drive.write_ledger();
    assert_eq!(drive.0.next_ledger(None, at(0)), None);
    drive.0.look_at_ledger();
    assert_eq!(drive.0.next_ledger(None, at(0)), Some(at(5)));
    drive.0.ledger_is_at(&LedgerVersion::new("of somebody else"));
    let request = drive.0.ledger_request(&arn("blue"), || true, RequestId(99), at(0));
    assert_eq!(request, Some(LedgerRequest::Load(arn("blue"))));
    assert!(drive.0.has_ledger() && !Drive::default().0.has_ledger());
}

#[test]
fn registrations_that_wait_are_counted_with_those_that_wait_for_the_ledger() {
    let mut drive = Drive::default();
    assert_eq!(drive.0.additions(), 0);
    for last in [1, 2] {
        drive.0.want(Ownership { target: target(last, 80), ..owned(Some("a")) }, true);
    }
    assert_eq!(drive.0.additions(), 2);
    drive.write_ledger();
    assert_eq!(drive.0.additions(), 2);
}
