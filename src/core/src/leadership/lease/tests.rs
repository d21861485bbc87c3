//! Tests of one replica and its Lease, step by step.

use super::*;

mod resting;

const SECOND: Duration = Duration::from_secs(1);

pub fn at(seconds: f64) -> Moment {
    Moment::after_start(Duration::from_secs_f64(seconds))
}

pub fn lease(me: &str) -> Lease {
    Lease::new(me, Timing::default())
}

/// A Lease that `holder` has written. Each value of `renewed` makes another state.
fn held(holder: &str, renewed: u32) -> Stored {
    let record = Record {
        is_settled: false,
        holder: (!holder.is_empty()).then(|| holder.into()),
        duration: Some(15 * SECOND),
        transitions: 3,
        acquired: Some("noon".into()),
        renewed: Some(renewed.to_string().into()),
    };
    Stored { version: format!("v{renewed}").into(), record, rests: Vec::new() }
}

/// The Lease after this write.
pub fn written(request: &Request, renewed: u32) -> Stored {
    let (Request::Create(claim) | Request::Replace { claim, .. }) = request else {
        panic!("{request:?} writes nothing")
    };
    let mut stored = held(claim.holder.as_deref().unwrap_or_default(), renewed);
    stored.record.transitions = claim.transitions;
    stored.record.is_settled = claim.is_settled;
    stored.record.duration = Some(claim.duration);
    stored.rests.clone_from(&claim.rests);
    stored
}

/// A leader that sent its last renewal at `at(0.0)`.
fn leader() -> Lease {
    let mut lease = lease("a");
    assert_eq!(lease.request(at(0.0)), Some(Request::Read));
    lease.answered(Ok(None), at(0.0));
    let request = lease.request(at(0.0)).unwrap();
    assert!(matches!(request, Request::Create(_)), "{request:?}");
    lease.answered(Ok(Some(written(&request, 1))), at(0.1));
    lease
}

/// A candidate that saw the holder `b` at `at(0.0)`.
fn candidate() -> Lease {
    let mut lease = lease("a");
    lease.request(at(0.0)).unwrap();
    lease.answered(Ok(Some(held("b", 1))), at(0.0));
    lease
}

fn poll(lease: &mut Lease, sees: Option<Stored>, when: Moment) {
    assert_eq!(lease.request(when), Some(Request::Read), "at {when:?}");
    lease.answered(Ok(sees), when);
}

/// The number and the end of the term, if there is one.
fn leads(lease: &Lease, now: Moment) -> Option<(u64, Moment)> {
    lease.term(now).map(|term| (term.number, term.until))
}

#[test]
fn where_there_is_no_lease_it_is_made_and_held() {
    let lease = leader();
    assert_eq!(leads(&lease, at(0.1)), Some((1, at(10.0))));
    assert_eq!(lease.due(), Some(at(2.0)));
}

#[test]
fn a_term_counts_from_the_sending_of_the_last_renewal_that_succeeded() {
    let mut lease = leader();
    let request = lease.request(at(2.0)).unwrap();
    assert!(matches!(&request, Request::Replace { version, .. } if &**version == "v1"), "{request:?}");
    lease.answered(Ok(Some(written(&request, 2))), at(3.5));
    assert_eq!(leads(&lease, at(3.5)), Some((1, at(12.0))));
    assert_eq!(leads(&lease, at(12.0)), None);
}

#[test]
fn a_renewal_keeps_the_time_of_acquisition_and_the_count_of_transitions() {
    let mut lease = leader();
    let Some(Request::Replace { claim, .. }) = lease.request(at(2.0)) else { panic!("no renewal") };
    assert_eq!((claim.transitions, claim.acquired_now), (1, false));
}

#[test]
fn a_lease_that_changes_is_respected_whatever_its_times_say() {
    let mut lease = candidate();
    for renewed in 1..20 {
        // The clock of the other node has stopped or runs backwards. Only the change of the Lease matters.
        let when = at(f64::from(renewed) * 2.0);
        poll(&mut lease, Some(held("b", 100 - renewed)), when);
    }
    assert_eq!(leads(&lease, at(40.0)), None);
}

#[test]
fn a_lease_that_does_not_change_is_taken_to_the_moment() {
    let mut lease = candidate();
    for second in 1..=7 {
        poll(&mut lease, Some(held("b", 1)), at(f64::from(second) * 2.0));
    }
    assert_eq!(lease.due(), Some(at(15.0)), "and not when the next look would be due");
    let request = lease.request(at(15.0)).unwrap();
    let Request::Replace { version, claim } = &request else { panic!("{request:?}") };
    assert_eq!((&**version, claim.transitions, claim.acquired_now), ("v1", 4, true));
    lease.answered(Ok(Some(written(&request, 2))), at(15.0));
    assert_eq!(leads(&lease, at(15.0)), Some((1, at(25.0))));
}

#[test]
fn a_touch_that_leaves_the_record_as_it_is_keeps_no_dead_holder_alive() {
    let mut lease = candidate();
    let touched = Stored { version: "v9".into(), ..held("b", 1) };
    poll(&mut lease, Some(touched), at(14.0));
    let request = lease.request(at(15.0)).unwrap();
    assert!(matches!(&request, Request::Replace { version, .. } if &**version == "v9"), "{request:?}");
}

#[test]
fn the_holders_own_duration_counts() {
    let mut lease = lease("a");
    lease.request(at(0.0)).unwrap();
    let mut other = held("b", 1);
    other.record.duration = Some(60 * SECOND);
    lease.answered(Ok(Some(other)), at(0.0));
    assert_eq!(lease.request(at(59.0)), Some(Request::Read));
}

#[test]
fn garbage_in_the_lease_is_waited_out_and_then_replaced() {
    let mut lease = lease("a");
    lease.request(at(0.0)).unwrap();
    let record = Record {
        is_settled: false,
        holder: Some("x".into()),
        duration: None,
        transitions: u32::MAX,
        acquired: None,
        renewed: None,
    };
    let garbage = Stored { version: "v1".into(), record, rests: Vec::new() };
    lease.answered(Ok(Some(garbage.clone())), at(0.0));
    poll(&mut lease, Some(garbage), at(14.0));
    let Some(Request::Replace { claim, .. }) = lease.request(at(15.0)) else { panic!("not replaced") };
    assert_eq!(claim.transitions, u32::MAX);
}

#[test]
fn a_released_lease_is_taken_as_soon_as_it_is_seen() {
    let mut lease = candidate();
    assert_eq!(lease.due(), Some(at(2.0)));
    lease.observed(Some(held("", 2)), at(0.3));
    let request = lease.request(at(0.3)).unwrap();
    assert!(matches!(&request, Request::Replace { version, .. } if &**version == "v2"), "{request:?}");
}

fn ended(pod: &str, message: &str) -> EndedContainer {
    EndedContainer { pod: pod.into(), reason: "Error".into(), message: message.into() }
}

/// A candidate that saw the holder `b_1`, in the pod `b`, at `at(0.0)`.
fn candidate_beside_a_pod() -> Lease {
    let mut lease = lease("a_1");
    poll(&mut lease, Some(held("b_1", 1)), at(0.0));
    assert_eq!((lease.pod_of_holder(), lease.due()), (Some("b"), Some(at(2.0))));
    lease
}

#[test]
fn the_lease_of_a_holder_that_is_proven_dead_is_taken_at_once() {
    let mut lease = candidate_beside_a_pod();
    lease.ended(&ended("b", "b_1"), at(0.3));
    let request = lease.request(at(0.3)).unwrap();
    let Request::Replace { version, claim } = &request else { panic!("{request:?}") };
    assert_eq!((&**version, claim.transitions, claim.acquired_now), ("v1", 4, true));
    lease.answered(Ok(Some(written(&request, 2))), at(0.4));
    assert_eq!(leads(&lease, at(0.4)), Some((1, at(10.3))));
}

#[test]
fn what_proves_nothing_of_the_holder_leaves_its_lease_alone() {
    let unknown = EndedContainer { reason: "ContainerStatusUnknown".into(), ..ended("b", "b_1") };
    for proof in [ended("b", "b_0"), ended("c", "b_1"), ended("c", "c_1"), ended("b", ""), unknown] {
        let mut lease = candidate_beside_a_pod();
        lease.ended(&proof, at(0.3));
        assert_eq!((lease.request(at(0.3)), lease.due()), (None, Some(at(2.0))), "{proof:?}");
        poll(&mut lease, Some(held("b_1", 1)), at(14.0));
        assert_eq!(leads(&lease, at(14.0)), None);
    }
}

#[test]
fn a_renewal_that_arrives_after_the_death_of_the_holder_keeps_nobody_waiting() {
    let mut lease = candidate_beside_a_pod();
    lease.ended(&ended("b", "b_1"), at(0.3));
    lease.request(at(0.3)).unwrap();
    lease.answered(Err(Failure::Conflict), at(0.4));
    poll(&mut lease, Some(held("b_1", 2)), at(0.4));
    let request = lease.request(at(0.4)).unwrap();
    assert!(matches!(&request, Request::Replace { version, .. } if &**version == "v2"), "{request:?}");
}

#[test]
fn a_proof_that_comes_before_the_lease_is_seen_or_while_a_request_is_out_counts() {
    let mut early = lease("a_1");
    early.ended(&ended("b", "b_1"), at(0.0));
    poll(&mut early, Some(held("b_1", 1)), at(0.0));
    assert!(matches!(early.request(at(0.0)), Some(Request::Replace { .. })));
    let mut busy = candidate_beside_a_pod();
    busy.request(at(2.0)).unwrap();
    busy.ended(&ended("b", "b_1"), at(2.1));
    busy.answered(Ok(Some(held("b_1", 1))), at(2.2));
    assert!(matches!(busy.request(at(2.2)), Some(Request::Replace { .. })));
}

#[test]
fn a_lease_that_was_deleted_is_not_free_because_its_last_holder_is_dead() {
    let mut lease = candidate_beside_a_pod();
    lease.ended(&ended("b", "b_1"), at(0.3));
    lease.request(at(0.3)).unwrap();
    lease.answered(Err(Failure::Conflict), at(0.4));
    poll(&mut lease, None, at(0.4));
    assert_eq!(lease.due(), Some(at(2.4)), "another one may have held it meanwhile");
    assert_eq!(lease.request(at(15.3)), Some(Request::Read));
}

#[test]
fn a_replica_that_starts_again_in_its_pod_follows_itself_at_once() {
    let mut lease = lease("b_2");
    poll(&mut lease, Some(held("b_1", 1)), at(0.0));
    assert!(lease.ended(&ended("b", "b_1"), at(0.1)), "the holder is dead");
    assert!(!lease.ended(&ended("b", "b_1"), at(0.1)), "that was known");
    assert!(matches!(lease.request(at(0.1)), Some(Request::Replace { .. })));
}

#[test]
fn nobody_is_told_of_its_own_death_and_few_others_are_remembered() {
    let mut leading = lease("a_1");
    poll(&mut leading, None, at(0.0));
    let request = leading.request(at(0.0)).unwrap();
    leading.answered(Ok(Some(written(&request, 1))), at(0.0));
    leading.ended(&ended("a", "a_1"), at(1.0));
    assert_eq!((leading.due(), leads(&leading, at(1.0)).is_some()), (Some(at(2.0)), true));
    let mut lease = candidate_beside_a_pod();
    for other in 0..1_000 {
        lease.ended(&ended("b", &format!("b_0{other}")), at(0.1));
    }
    assert_eq!(lease.dead.len(), DEAD);
    lease.ended(&ended("b", "b_1"), at(0.2));
    assert!(lease.request(at(0.2)).is_some(), "the last one counts");
}

#[test]
fn what_a_watch_shows_while_a_request_is_out_is_looked_at_again() {
    let mut lease = candidate();
    lease.request(at(2.0)).unwrap();
    lease.observed(Some(held("", 2)), at(2.1));
    lease.answered(Ok(Some(held("b", 1))), at(2.2));
    assert_eq!(lease.request(at(2.2)), Some(Request::Read));
}

#[test]
fn of_two_that_take_it_at_once_the_one_that_is_refused_waits() {
    let mut lease = candidate();
    lease.observed(Some(held("", 2)), at(0.3));
    lease.request(at(0.3)).unwrap();
    lease.answered(Err(Failure::Conflict), at(0.4));
    poll(&mut lease, Some(held("c", 3)), at(0.4));
    assert_eq!(leads(&lease, at(0.4)), None);
    assert_eq!(lease.due(), Some(at(2.4)));
}

#[test]
fn conflict_after_conflict_is_no_tight_loop() {
    let mut lease = candidate();
    lease.observed(Some(held("", 2)), at(0.3));
    for _ in 0..2 {
        lease.request(at(0.3)).unwrap();
        lease.answered(Err(Failure::Conflict), at(0.3));
        if lease.due() == Some(at(0.3)) {
            poll(&mut lease, Some(held("", 2)), at(0.3));
        }
    }
    assert_eq!(lease.due(), Some(at(2.3)));
}

#[test]
fn a_holder_that_cannot_renew_stops_before_another_may_take_over() {
    let mut lease = leader();
    let mut now = at(2.0);
    let mut tries = 0;
    while now < at(9.0) {
        assert_eq!(leads(&lease, now), Some((1, at(10.0))));
        lease.request(now).unwrap();
        lease.answered(Err(Failure::Other("no answer".into())), now + SECOND);
        now = lease.due().unwrap();
        tries += 1;
    }
    assert!(tries > 3, "{tries}");
    assert_eq!(leads(&lease, at(10.0)), None);
}

#[test]
fn a_holder_of_long_ago_takes_no_deleted_lease_that_another_one_may_have_held() {
    let mut lease = leader();
    // The replica was paused, `b` took over, and then somebody deleted the Lease.
    lease.request(at(60.0)).unwrap();
    lease.answered(Err(Failure::Conflict), at(60.0));
    poll(&mut lease, None, at(60.0));
    assert_eq!(lease.due(), Some(at(62.0)));
    poll(&mut lease, None, at(74.0));
    assert!(matches!(lease.request(at(75.0)), Some(Request::Create(_))));
}

#[test]
fn a_renewal_whose_answer_was_lost_is_read_and_sent_again() {
    let mut lease = leader();
    lease.request(at(2.0)).unwrap();
    lease.answered(Err(Failure::Other("no answer".into())), at(4.5));
    assert_eq!(leads(&lease, at(4.5)), Some((1, at(10.0))), "not assumed to be applied");
    poll(&mut lease, Some(held("a", 2)), at(5.0));
    let request = lease.request(at(5.0)).unwrap();
    assert!(matches!(&request, Request::Replace { version, .. } if &**version == "v2"), "{request:?}");
    lease.answered(Ok(Some(written(&request, 3))), at(5.0));
    assert_eq!(leads(&lease, at(5.0)), Some((1, at(15.0))));
}

#[test]
fn a_paused_holder_learns_nothing_good_from_an_old_answer() {
    let mut lease = leader();
    let request = lease.request(at(2.0)).unwrap();
    // The replica was paused for a minute while the answer waited.
    lease.answered(Ok(Some(written(&request, 2))), at(62.0));
    assert_eq!(leads(&lease, at(62.0)), None);
    poll_after_pause(&mut lease);
}

/// Another replica has taken over during the pause. The paused replica detects the new holder and does not act.
fn poll_after_pause(lease: &mut Lease) {
    lease.request(at(62.0)).unwrap();
    lease.answered(Err(Failure::Conflict), at(62.0));
    poll(lease, Some(held("b", 9)), at(62.0));
    assert_eq!((leads(lease, at(62.0)), lease.holder()), (None, Some("b")));
}

#[test]
fn a_term_that_ran_out_goes_on_only_under_a_new_number() {
    let mut lease = leader();
    let request = lease.request(at(20.0)).unwrap();
    lease.answered(Ok(Some(written(&request, 2))), at(20.1));
    assert_eq!(leads(&lease, at(20.1)), Some((2, at(30.0))));
}

#[test]
fn a_holder_that_sees_another_one_stops_at_once() {
    let mut lease = leader();
    lease.request(at(2.0)).unwrap();
    lease.answered(Err(Failure::Conflict), at(2.0));
    assert!(leads(&lease, at(2.0)).is_some(), "somebody may have touched it only");
    poll(&mut lease, Some(held("b", 2)), at(2.1));
    assert_eq!(leads(&lease, at(2.1)), None);
}

#[test]
fn a_deleted_lease_is_made_again_by_its_holder_at_once() {
    let mut lease = leader();
    lease.request(at(2.0)).unwrap();
    lease.answered(Err(Failure::Conflict), at(2.0));
    poll(&mut lease, None, at(2.1));
    let request = lease.request(at(2.1)).unwrap();
    assert!(matches!(request, Request::Create(_)), "{request:?}");
    lease.answered(Ok(Some(written(&request, 5))), at(2.2));
    assert_eq!(leads(&lease, at(2.2)), Some((1, at(12.1))));
}

#[test]
fn a_deleted_lease_is_not_taken_while_its_holder_may_still_act() {
    let mut lease = candidate();
    for second in 1..=8 {
        poll(&mut lease, None, at(f64::from(second) * 2.0));
    }
    let request = lease.request(at(17.0)).unwrap();
    assert!(matches!(request, Request::Create(_)), "{request:?}");
}

#[test]
fn leaving_ends_the_term_at_once_and_releases_the_lease() {
    let mut lease = leader();
    lease.leave(false, at(1.0));
    assert!(!lease.has_left(), "others may wait for it still");
    assert_eq!(leads(&lease, at(1.0)), None);
    let request = lease.request(at(1.0)).unwrap();
    let Request::Replace { claim, .. } = &request else { panic!("{request:?}") };
    assert_eq!((claim.holder.as_deref(), claim.transitions), (None, 1));
    lease.answered(Ok(Some(written(&request, 2))), at(1.1));
    assert_eq!(lease.request(at(1.1)), None);
    assert!(lease.has_left());
}

#[test]
fn leaving_waits_for_the_renewal_that_is_out_and_releases_what_it_wrote() {
    let mut lease = leader();
    let renewal = lease.request(at(2.0)).unwrap();
    lease.leave(false, at(2.1));
    assert_eq!(lease.due(), None);
    lease.answered(Ok(Some(written(&renewal, 2))), at(2.2));
    let request = lease.request(at(2.2)).unwrap();
    assert!(
        matches!(&request, Request::Replace { version, claim } if &**version == "v2" && claim.holder.is_none())
    );
    assert_eq!(leads(&lease, at(2.2)), None);
}

#[test]
fn the_next_holder_knows_that_nothing_can_come_late_only_from_a_clean_exit() {
    for (is_settled, leaves_at) in [(true, 1.0), (false, 1.0), (true, 20.0)] {
        let mut before = leader();
        before.leave(is_settled, at(leaves_at));
        let release = before.request(at(leaves_at)).unwrap();
        let mut lease = lease("b");
        lease.request(at(leaves_at)).unwrap();
        lease.answered(Ok(Some(written(&release, 2))), at(leaves_at));
        let take = lease.request(at(leaves_at)).unwrap();
        let Request::Replace { claim, .. } = &take else { panic!("{take:?}") };
        assert!(!claim.is_settled, "whoever takes the Lease wipes the mark");
        lease.answered(Ok(Some(written(&take, 3))), at(leaves_at));
        let term = lease.term(at(leaves_at)).unwrap();
        let in_its_term = leaves_at < 10.0;
        assert_eq!((term.transitions, term.is_settled), (2, is_settled && in_its_term), "{leaves_at}");
    }
}

#[test]
fn a_term_that_follows_ones_own_calls_is_not_settled() {
    let mut before = leader();
    before.leave(true, at(1.0));
    let release = before.request(at(1.0)).unwrap();
    let mut lease = lease("b");
    lease.request(at(1.0)).unwrap();
    lease.answered(Ok(Some(written(&release, 2))), at(1.0));
    let take = lease.request(at(1.0)).unwrap();
    lease.answered(Ok(Some(written(&take, 3))), at(1.0));
    assert!(lease.term(at(1.0)).unwrap().is_settled);
    assert_eq!(lease.term(at(11.0)), None);
    let renewal = lease.request(at(12.0)).unwrap();
    lease.answered(Ok(Some(written(&renewal, 4))), at(12.0));
    assert!(!lease.term(at(12.0)).unwrap().is_settled);
}

#[test]
fn a_holder_whose_lease_was_deleted_before_gets_a_later_term_and_one_that_was_deposed_none() {
    let mut lease = leader();
    lease.outdated(57, at(1.0));
    assert_eq!(lease.term(at(1.0)), None);
    assert_eq!(lease.request(at(1.0)), Some(Request::Read));
    let mut deposed = lease.clone();
    lease.answered(Ok(Some(held("a", 1))), at(1.0));
    let renewal = lease.request(at(1.0)).unwrap();
    lease.answered(Ok(Some(written(&renewal, 2))), at(1.0));
    let term = lease.term(at(1.0)).unwrap();
    assert_eq!((term.number, term.transitions), (2, 58));
    lease.outdated(57, at(1.5));
    assert!(lease.term(at(1.5)).is_some(), "that is said already");

    deposed.answered(Ok(Some(held("b", 1))), at(1.0));
    assert_eq!((deposed.term(at(1.0)), deposed.holder()), (None, Some("b")));
}

#[test]
fn leaving_leaves_another_ones_lease_alone() {
    let mut lease = candidate();
    lease.leave(false, at(1.0));
    assert_eq!(lease.request(at(1.0)), None);
    assert!(lease.has_left());
}

#[test]
fn a_timing_that_cannot_work_is_refused_with_what_was_expected() {
    for (duration, deadline, retry, said) in [
        (0, 10_000, 2_000, "set whole seconds"),
        (1_500, 1_000, 200, "set whole seconds"),
        (15_000, 15_000, 2_000, "set less than the lease duration, 15s"),
        (15_000, 10_000, 6_000, "set at most half of the renew deadline, 10s"),
        (15_000, 10_000, 0, "at least 10ms"),
    ] {
        let of = Duration::from_millis;
        let error = Timing::new(of(duration), of(deadline), of(retry)).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
    let default = Timing::default();
    assert_eq!(Timing::new(15 * SECOND, 10 * SECOND, 2 * SECOND), Ok(default));
    assert_eq!(default.request_timeout(), Duration::from_millis(2500), "four fit before it stops");
}

#[test]
fn a_holder_whose_renewal_got_no_answer_looks_sooner_than_one_that_only_waits() {
    let lost = || Err(Failure::Other("lost".into()));
    let mut holder = leader();
    assert!(matches!(holder.request(at(2.0)), Some(Request::Replace { .. })));
    holder.answered(lost(), at(3.0));
    assert_eq!(holder.due(), Some(at(3.5)), "a quarter of the retry period later");
    let mut waiting = candidate();
    let due = waiting.due().unwrap();
    assert_eq!(waiting.request(due), Some(Request::Read));
    waiting.answered(lost(), due);
    assert_eq!(waiting.due(), Some(due + 2 * SECOND));
}

#[test]
fn the_usual_times_are_those_of_client_go() {
    let timing = Timing::default();
    let times = [timing.duration(), timing.renew_deadline(), timing.retry_period()];
    assert_eq!(times, [15 * SECOND, 10 * SECOND, 2 * SECOND]);
}

#[test]
fn an_answer_that_comes_at_the_deadline_or_later_begins_no_term() {
    for late in [10.0, 11.0] {
        let mut lease = lease("a");
        poll(&mut lease, None, at(0.0));
        let request = lease.request(at(0.0)).unwrap();
        lease.answered(Ok(Some(written(&request, 1))), at(late));
        assert_eq!(leads(&lease, at(late)), None, "{late}");
        let request = lease.request(at(late)).unwrap();
        lease.answered(Ok(Some(written(&request, 2))), at(late));
        assert_eq!(leads(&lease, at(late)), Some((1, at(late + 10.0))), "{late}");
    }
}
