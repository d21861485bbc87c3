//! Which pod's health a read shows, and how long a target took to become healthy.

use super::*;

/// The target is registered for `a` ten seconds after the start.
fn registered_at_ten() -> Drive {
    let mut drive = Drive::default();
    drive.want(Some("a"));
    let call = drive.add();
    drive.0.registered(call.0, &call.1, None, at(10));
    drive
}

impl Drive {
    /// Whether a read that began at `began` shows the health of this pod.
    fn tells_of(&self, uid: &str, began: u64) -> bool {
        self.0.is_told_by(&target(T, 80), &Uid::new(uid), at(began))
    }
    fn grown(&mut self, state: HealthState, began: u64) -> Vec<Duration> {
        self.0.grown_healthy(&shows(state), at(began), at(began))
    }
    /// The target is registered for `b` at second 10, and was not deregistered for `a`.
    fn passed_on() -> Self {
        let mut drive = Self::with_a_registered();
        drive.want(Some("b"));
        let call = drive.add();
        drive.0.registered(call.0, &call.1, None, at(10));
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
    drive.0.registered(call.0, &call.1, None, at(10));
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
fn a_pod_that_has_lost_its_address_and_got_it_again_is_not_taken_for_the_one_that_had_it() {
    use super::super::{entry::Goes, evidence::Past};
    for (cause, past) in [
        (Cause::IpChanged, Past::Registered),
        (Cause::StaleTarget, Past::Registered),
        (Cause::BindingRemoved, Past::Nothing),
    ] {
        let mut drive = Drive::with_a_registered();
        let entry = drive.0.entries.get_mut(&target(T, 80)).unwrap();
        // AWS has not accepted the deregistration.
        (entry.cause, entry.wish) = (cause, Wish::Gone(Goes::Now));
        drive.want(Some("a"));
        let past_is = drive.0.entries.get(&target(T, 80)).unwrap().past_before(PodMark::of(&Uid::new("a")));
        assert_eq!(past_is, past, "{cause:?}: AWS may still know the old sandbox");
    }
}

#[test]
fn a_pod_that_has_its_address_again_is_registered_once_more_where_it_was_never_taken_out() {
    // The deregistration was not sent, or AWS has not accepted it: denied, rejected or throttled.
    let failures = [FailureClass::Denied, FailureClass::Refused, FailureClass::Throttled].map(Some);
    for failure in failures.into_iter().chain([None]) {
        let mut drive = registered_at_ten();
        drive.0.want(Ownership { cause: Cause::IpChanged, ..owned(None) }, true);
        if failure.is_some() {
            let removal = drive.remove();
            drive.0.deregistered(removal.0, &removal.1, failure, None, at(12));
        }
        drive.want(Some("a"));
        // The gate of its pod is not open.
        drive.0.gate_is(&target(T, 80), false, at(20));
        assert!(!drive.tells_of("a", 21), "{failure:?}: it may be about who answered there meanwhile");
        let call = drive.add();
        drive.0.registered(call.0, &call.1, None, at(30));
        assert!(!drive.tells_of("a", 120) && drive.tells_of("a", 121), "{failure:?}");
    }
    // A pod that had its address all the time is as healthy as AWS reports.
    let mut drive = registered_at_ten();
    drive.0.want(Ownership { cause: Cause::NotReady, ..owned(None) }, true);
    drive.want(Some("a"));
    assert!(drive.tells_of("a", 21) && drive.due() == (false, false));
}

#[test]
fn a_read_that_may_be_older_than_a_removal_that_was_given_up_tells_of_nobody() {
    for (failure, from) in [(FailureClass::Unavailable, at(65)), (FailureClass::Throttled, at(0))] {
        let mut drive = Drive::with_a_registered();
        drive.want(None);
        let removal = drive.remove();
        drive.want(Some("a"));
        drive.0.deregistered(removal.0, &removal.1, Some(failure), None, at(60));
        let entry = drive.0.entries.get(&target(T, 80)).unwrap();
        assert_eq!(entry.evidence.own_health_from, from, "{failure:?}");
    }
}
