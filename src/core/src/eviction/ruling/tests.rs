//! Tests of the answers to eviction requests.

use super::*;
use crate::{
    model::{LeavingFacts, LoadBalancerType, Uid, eviction::Ago},
    testing::{PodBuilder, pod},
};

const NOW: WallTime = WallTime::since_1970(Duration::from_secs(1_800_000_000));
/// The start of the tests on the monotonic clock of the process.
const START: Moment = Moment::after_start(Duration::from_secs(10_000));
const NLB: BoundTo = BoundTo { balancer: LoadBalancerType::Network, hold: Hold::Auto, paused: false };

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn web() -> PodBuilder {
    pod("web", "u-1").at(1)
}

fn ruled(pod: PodBuilder, bound: &[BoundTo], request: &Request, later: u64) -> Ruling {
    let pod = pod.build();
    let seen = pod.leaving.as_deref().map(seen);
    rule(
        &pod,
        bound,
        false,
        false,
        request,
        &Rules::default(),
        (START + seconds(later), NOW + seconds(later), seen),
    )
}

/// The times if this replica saw each annotation as soon as it was written.
fn seen(leaving: &LeavingFacts) -> Seen {
    let mut words = vec![leaving.ask.since, leaving.ask.asked];
    words.extend(leaving.waits.map(|(at, _)| at));
    words.extend(leaving.deregistered.map(|(at, _)| at));
    words.sort_unstable();
    let until = |at: WallTime| LeavingFacts {
        ask: Asked { asked: leaving.ask.asked.min(at), ..leaving.ask },
        waits: leaving.waits.filter(|(is, _)| *is <= at),
        deregistered: leaving.deregistered.filter(|(is, _)| *is <= at),
        ..*leaving
    };
    let moment = |at: WallTime| START + at.since(NOW);
    let mut seen = Seen::first(&until(words[0]), moment(words[0]));
    for at in words {
        seen.follow(&until(at), moment(at));
    }
    seen
}

fn asks(pod: PodBuilder, bound: &[BoundTo]) -> Ruling {
    ruled(pod, bound, &Request::default(), 0)
}

#[test]
fn a_pod_that_a_load_balancer_does_not_send_to_passes_and_says_why() {
    let paused = BoundTo { paused: true, ..NLB };
    let off = BoundTo { hold: Hold::Off, ..NLB };
    for (pod, bound, reason) in [
        (web().terminating(), &[NLB][..], Cause::PodTerminating),
        (web().finished(), &[NLB], Cause::PodFinished),
        (pod("web", "u-1"), &[], Cause::NoIp),
        (web(), &[], Cause::NotATarget),
        (web(), &[paused, paused], Cause::Paused),
        (web(), &[off], Cause::HoldNotWanted),
    ] {
        assert_eq!(asks(pod, bound), Ruling::Pass(reason));
    }
    assert!(matches!(asks(web(), &[paused, NLB]), Ruling::Wait { .. }), "one of them can be left");
}

#[test]
fn a_pod_that_nothing_keeps_alive_is_noted_and_waits() {
    let mark = Some(Mark::Asked(Asked::first(NOW)));
    let wait = |reason, retry, mark| Ruling::Wait { cause: reason, retry, uid: Uid::new("u-1"), mark };
    let recorded = |mark| wait(Cause::EvictionRecorded, LONGEST_RETRY / 2, mark);
    assert_eq!(asks(web(), &[NLB]), recorded(mark));
    let noted = web().leaving(LeavingFacts::asked(NOW, NOW));
    assert_eq!(ruled(noted.clone(), &[NLB], &Request::default(), 19), recorded(None));
    let again = Some(Mark::Asked(Asked { asked: NOW + seconds(20), ..Asked::first(NOW) }));
    assert_eq!(ruled(noted, &[NLB], &Request::default(), 20), recorded(again), "it is still asked for");
}

#[test]
fn a_pod_without_a_hold_passes_if_its_node_is_read_and_remains_and_waits_otherwise() {
    let ruled = |pod: PodBuilder, node_goes| {
        let (pod, request) = (pod.build(), Request::default());
        rule(&pod, &[NLB], false, node_goes, &request, &Rules::default(), (START, NOW, None))
    };
    let (retry, uid, mark) = (LONGEST_RETRY / 2, Uid::new("u-1"), Mark::Asked(Asked::first(NOW)));
    let asks = ruled(web().on("n"), false);
    assert_eq!(asks, Ruling::AskNode { node: "n".into(), retry, uid: uid.clone(), mark });
    let passes = Ruling::Regardless(Cause::HoldMissing, uid.clone());
    let waits = Ruling::Wait { cause: Cause::EvictionRecorded, retry, uid, mark: Some(mark) };
    assert_eq!((asks.clone().with_node(true), asks.with_node(false)), (passes, waits.clone()));
    assert_eq!(ruled(web().on("n"), true), waits, "the watch shows it already");
    assert_eq!(ruled(web(), false), waits, "there is no node to read");
    for node_goes in [true, false] {
        let held = ruled(web().on("n").sleeping(150, 180), node_goes);
        assert_eq!(held.clone().with_node(false), Ruling::Pass(Cause::HoldAllows));
        assert_eq!(held.clone().with_node(true), held, "its node does not matter");
    }
}

#[test]
fn a_pod_that_is_leaving_already_goes_on_whatever_its_node_becomes() {
    let asked = LeavingFacts::asked(NOW, NOW);
    let early = LeavingFacts { ask: Asked::early(NOW), ..asked };
    let out = LeavingFacts { deregistered: Some((NOW, seconds(120))), ..asked };
    for leaving in [asked, early, out] {
        let ruling = ruled(web().on("n").leaving(leaving), &[NLB], &Request::default(), 1);
        assert!(matches!(ruling, Ruling::Wait { .. }), "{ruling:?}");
        assert_eq!(ruling.clone().with_node(true), ruling);
    }
}

#[test]
fn a_pod_with_a_hold_passes_if_it_and_the_requests_grace_period_are_long_enough() {
    let alb = BoundTo { balancer: LoadBalancerType::Application, ..NLB };
    let ten = BoundTo { hold: Hold::For(10), ..NLB };
    let grace = |grace| Request { grace: Some(grace), ..Request::default() };
    for (pod, bound, request, passes) in [
        (web().sleeping(150, 180), &[NLB][..], Request::default(), true),
        (web().sleeping(150, 180), &[NLB], grace(155), true),
        (web().sleeping(150, 180), &[NLB], grace(154), false),
        (web().sleeping(150, 154), &[NLB], grace(600), false),
        (web().sleeping(149, 180), &[NLB], Request::default(), false),
        (web().sleeping(45, 75), &[alb], Request::default(), true),
        (web().sleeping(45, 75), &[alb, NLB], Request::default(), false),
        (web().sleeping(10, 40), &[ten], Request::default(), true),
        (web().sleeping(20, 50).held(Hold::For(20)), &[NLB], Request::default(), true),
        (web().sleeping(20, 50).held(Hold::For(21)), &[ten], Request::default(), false),
    ] {
        let ruling = ruled(pod, bound, &request, 0);
        assert_eq!(ruling == Ruling::Pass(Cause::HoldAllows), passes, "{ruling:?}");
    }
}

#[test]
fn a_pod_that_may_go_passes_and_one_that_is_out_waits_for_the_bound() {
    let out = LeavingFacts { deregistered: Some((NOW, seconds(120))), ..LeavingFacts::asked(NOW, NOW) };
    for (later, retry) in [(0, 5), (117, 3), (120, 1)] {
        let Ruling::Wait { cause: reason, retry: is, .. } =
            ruled(web().leaving(out), &[], &Request::default(), later)
        else {
            panic!("passed after {later} s")
        };
        assert_eq!((reason, is), (Cause::EvictionWaitsForLoadBalancer, seconds(retry)));
    }
    let done = LeavingFacts { may_go: Some(Cause::EvictionAllowed), ..out };
    assert_eq!(asks(web().leaving(done), &[]), Ruling::Pass(Cause::EvictionAllowed));
}

#[test]
fn without_a_word_of_a_leader_it_passes_after_a_while() {
    let asked = LeavingFacts::asked(NOW, NOW);
    let waits = LeavingFacts { waits: Some((NOW + seconds(100), Cause::EvictionWaitsForBudget)), ..asked };
    let out = LeavingFacts { deregistered: Some((NOW, seconds(120))), ..asked };
    for (leaving, last) in [(asked, 180), (waits, 280), (out, 300)] {
        let ruled = |later| ruled(web().leaving(leaving), &[NLB], &Request::default(), later);
        assert!(matches!(ruled(last), Ruling::Wait { .. }), "{leaving:?}");
        assert_eq!(ruled(last + 1), Ruling::Regardless(Cause::NobodyDecides, Uid::new("u-1")), "{leaving:?}");
    }
}

#[test]
fn a_pod_with_a_hold_in_a_guarded_zone_waits_for_the_zone_and_a_request_that_cuts_its_hold_short_no_longer() {
    let guarded = |pod: PodBuilder, grace| {
        let request = Request { grace, ..Request::default() };
        rule(&pod.build(), &[NLB], true, false, &request, &Rules::default(), (START, NOW, None))
    };
    let held = || web().sleeping(150, 180);
    let noted = Some(Mark::Asked(Asked { held: true, ..Asked::first(NOW) }));
    for grace in [None, Some(5)] {
        let Ruling::Wait { retry, mark, .. } = guarded(held(), grace) else { panic!("it passed") };
        assert_eq!((retry, &mark), (seconds(1), &noted), "{grace:?}: it is not taken out for what is asked");
    }
    let ask = Asked { held: true, ..Asked::first(NOW) };
    let asked = LeavingFacts { ask, ..LeavingFacts::asked(NOW, NOW) };
    let free = LeavingFacts { may_go: Some(Cause::ZoneAllows), ..asked };
    assert!(!free.is_out(), "it stays a target until it ends");
    assert_eq!(guarded(held().leaving(free), None), Ruling::Pass(Cause::ZoneAllows));
    let cut = Ruling::Regardless(Cause::GraceCutsHold, Uid::new("u-1"));
    assert_eq!(guarded(held().leaving(free), Some(5)), cut);
    let out = LeavingFacts { deregistered: Some((NOW, seconds(120))), ..asked };
    let out = LeavingFacts { may_go: Some(Cause::EvictionAllowed), ..out };
    assert_eq!(guarded(held().leaving(out), Some(5)), Ruling::Pass(Cause::EvictionAllowed), "it is out");
}

#[test]
fn what_is_noted_of_a_hold_is_what_the_pod_has() {
    let asked = LeavingFacts::asked(NOW, NOW);
    for (pod, held) in [(web().sleeping(150, 180), true), (web(), false)] {
        let ask = Asked { held: !held, ..asked.ask };
        let noted = LeavingFacts { ask, may_go: Some(Cause::ZoneAllows), ..asked };
        let Ruling::Wait { mark, retry, .. } = ruled(pod.leaving(noted), &[NLB], &Request::default(), 1)
        else {
            panic!("what was said for another one is void")
        };
        let again = Asked { held, asked: NOW + seconds(1), ..Asked::first(NOW) };
        assert_eq!((mark, retry), (Some(Mark::Asked(again)), LONGEST_RETRY / 2));
    }
}

#[test]
fn of_a_pod_that_is_out_it_is_noted_that_it_has_lost_its_hold_when_it_is_asked_for_again() {
    let ask = Asked { held: true, ..Asked::first(NOW) };
    let out = LeavingFacts { ask, deregistered: Some((NOW, seconds(120))), ..LeavingFacts::asked(NOW, NOW) };
    let mark = |later| match ruled(web().leaving(out), &[NLB], &Request::default(), later) {
        Ruling::Wait { cause: Cause::EvictionWaitsForLoadBalancer, mark, .. } => mark,
        other => panic!("{other:?}"),
    };
    assert_eq!(mark(19), None);
    let again = Asked { asked: NOW + seconds(20), held: false, ..ask };
    assert_eq!(mark(20), Some(Mark::Asked(again)));
}

#[test]
fn who_asks_for_a_pod_that_left_early_waits_from_then_on_and_it_leaves_since_before() {
    let early = LeavingFacts { ask: Asked::early(NOW), ..LeavingFacts::asked(NOW, NOW) };
    let out = LeavingFacts { deregistered: Some((NOW, seconds(120))), ..early };
    let mark = Some(Mark::Asked(Asked { begun: NOW, ..Asked::first(NOW + seconds(117)) }));
    for (leaving, reason, retry) in [
        (early, Cause::EvictionRecorded, LONGEST_RETRY / 2),
        (out, Cause::EvictionWaitsForLoadBalancer, seconds(3)),
    ] {
        let ruling = ruled(web().leaving(leaving), &[NLB], &Request::default(), 117);
        assert_eq!(ruling, Ruling::Wait { cause: reason, retry, uid: Uid::new("u-1"), mark });
    }
}

#[test]
fn a_note_says_since_when_somebody_asks_and_never_from_before_the_leaving_that_it_is_about() {
    let request = Request { ago: Ago { first: seconds(20), last: seconds(5) }, ..Request::default() };
    let noted = |pod: PodBuilder| match ruled(pod, &[NLB], &request, 100) {
        Ruling::Wait { mark: Some(Mark::Asked(asked)), .. } => (asked.begun, asked.since, asked.asked),
        other => panic!("{other:?}"),
    };
    let at = |later| NOW + seconds(later);
    assert_eq!(noted(web()), (at(80), at(80), at(95)));
    let asked = LeavingFacts::asked(at(10), at(10));
    assert_eq!(noted(web().leaving(asked)), (at(10), at(10), at(100)), "another word");
    let early = |begun| web().leaving(LeavingFacts { ask: Asked::early(begun), ..asked });
    assert_eq!(noted(early(at(50))), (at(50), at(80), at(95)));
    for begun in [at(90), at(110)] {
        let since = begun + STEP;
        assert_eq!(noted(early(begun)), (begun, since, since.max(at(95))), "it left early before that");
    }
    let left = |at| PodFacts { left_over: Some(at), ..web().build() };
    for (left_over, begun) in [(at(70), at(80)), (at(90), at(90) + STEP), (at(110), at(110) + STEP)] {
        let noted = match rule(
            &left(left_over),
            &[NLB],
            false,
            false,
            &request,
            &Rules::default(),
            (START, at(100), None),
        ) {
            Ruling::Wait { mark: Some(Mark::Asked(asked)), .. } => asked,
            other => panic!("{other:?}"),
        };
        assert_eq!((noted.begun, noted.since, noted.asked), (begun, begun, begun.max(at(95))));
    }
}

#[test]
fn what_cannot_be_true_holds_nobody_up() {
    let far = NOW + seconds(24 * 3600 + 1);
    let asked = LeavingFacts::asked(NOW, NOW);
    let first = Some(Mark::Asked(Asked::first(NOW + seconds(1))));
    let mark = |leaving| match ruled(web().leaving(leaving), &[NLB], &Request::default(), 1) {
        Ruling::Wait { cause: Cause::EvictionRecorded, mark, .. } => mark,
        other => panic!("{other:?}"),
    };
    assert_eq!(mark(LeavingFacts::asked(far + seconds(1), far)), first, "as if nobody had asked");
    let out = LeavingFacts { deregistered: Some((NOW, seconds(4_294_967_295))), ..asked };
    assert_eq!(mark(out), None, "the leader takes it away");
    let ruled = ruled(web().leaving(out), &[NLB], &Request::default(), 181);
    assert_eq!(ruled, Ruling::Regardless(Cause::NobodyDecides, Uid::new("u-1")), "if there is one");
}
