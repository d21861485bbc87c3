//! Tests of a leader that cannot lead, releases the Lease and backs off.

use super::*;

/// A leader that has released the Lease at `at(1.0)` and backs off for a minute, and the Lease that the leader wrote.
fn resting() -> (Lease, Stored) {
    let mut lease = leader();
    lease.steps_down(Reason::AwsUnreachable, 60 * SECOND, at(1.0));
    assert_eq!((lease.term(at(1.0)), lease.due()), (None, Some(at(1.0))));
    let request = lease.request(at(1.0)).unwrap();
    let Request::Replace { claim, .. } = &request else { panic!("{request:?}") };
    assert_eq!((claim.holder.as_deref(), claim.rests.len()), (None, 1));
    let (note, reason) = (&claim.rests[0], Reason::AwsUnreachable.as_str());
    assert_eq!((&*note.identity, note.pause, &*note.reason), ("a", 60 * SECOND, reason));
    let free = written(&request, 2);
    lease.answered(Ok(Some(free.clone())), at(1.0));
    (lease, free)
}

#[test]
fn a_leader_that_cannot_lead_gives_the_lease_back_and_stands_for_it_again_after_its_rest() {
    let (mut lease, free) = resting();
    for nth in 0..29 {
        let other = Stored { rests: free.rests.clone(), ..held("b", 10 + nth) };
        poll(&mut lease, Some(other), at(f64::from(nth) * 2.0 + 1.0));
    }
    poll(&mut lease, Some(Stored { version: "v99".into(), ..free }), at(59.0));
    assert_eq!(lease.request(at(60.9)), None, "its rest is not over");
    let request = lease.request(at(61.0)).unwrap();
    let Request::Replace { claim, .. } = &request else { panic!("{request:?}") };
    assert_eq!((claim.holder.as_deref(), claim.rests.len()), (Some("a"), 0), "and its note is left out");
}

#[test]
fn a_lease_that_nobody_takes_is_taken_again_before_the_rest_is_over() {
    let (mut lease, free) = resting();
    (0..8).for_each(|nth| poll(&mut lease, Some(free.clone()), at(f64::from(nth) * 2.0 + 1.0)));
    assert_eq!(lease.due(), Some(at(16.0)), "15 s after it was given back");
    assert!(matches!(lease.request(at(16.0)), Some(Request::Replace { .. })));
}

#[test]
fn a_renewal_that_is_out_does_not_keep_the_lease_that_is_to_be_given_back() {
    let mut lease = leader();
    let renewal = lease.request(at(2.0)).unwrap();
    lease.steps_down(Reason::WatchesFail, 60 * SECOND, at(2.1));
    lease.answered(Ok(Some(written(&renewal, 2))), at(2.2));
    assert_eq!(lease.term(at(2.2)), None);
    let request = lease.request(at(2.2)).unwrap();
    let Request::Replace { version, claim } = &request else { panic!("{request:?}") };
    assert_eq!((&**version, claim.holder.as_deref()), ("v2", None));
    lease.answered(Err(Failure::Other("no answer".into())), at(3.0));
    poll(&mut lease, Some(held("a", 2)), at(3.5));
    assert!(matches!(lease.request(at(3.5)), Some(Request::Replace { claim, .. }) if claim.holder.is_none()));
}

#[test]
fn who_rests_is_known_by_its_pod_for_as_long_as_its_rest_lasts() {
    let mut lease = lease("a_1");
    let note = Rest { identity: "b_1".into(), since: "noon".into(), pause: 30 * SECOND, reason: "x".into() };
    poll(&mut lease, Some(Stored { rests: vec![note], ..held("c_1", 1) }), at(0.0));
    assert!(lease.rests("b", at(29.0)) && !lease.rests("c", at(0.0)) && !lease.rests("b", at(30.0)));
}

#[test]
fn only_a_leader_steps_down() {
    let mut lease = candidate();
    lease.steps_down(Reason::WatchesFail, 60 * SECOND, at(1.0));
    lease.observed(Some(held("", 2)), at(1.5));
    assert!(matches!(lease.request(at(1.5)), Some(Request::Replace { .. })), "it does not rest");
}
