//! What is answered when an eviction is asked for: pure, from what is known of the pod, with one reason.

use std::time::Duration;

use super::seen::Seen;
use crate::model::{
    Bounds, Hold, Moment, PodFacts, Reason, WallTime,
    eviction::{BoundTo, LONGEST_RETRY, Request, Rules, Ruling},
    leaving::{Asked, Mark, STEP},
};

/// What a request's grace period must leave besides the hold.
const ROOM: Duration = Duration::from_secs(5);

/// The pod's own word counts before those of what binds it.
pub fn hold_of(pod: &PodFacts, bound: &BoundTo) -> Hold {
    pod.hold.unwrap_or(bound.hold)
}

/// For how long the load balancers may go on sending after the pod was deregistered: the longest of all. `None`: it is not
/// to be held for any.
pub fn propagation(pod: &PodFacts, bound: &[BoundTo], bounds: &Bounds) -> Option<Duration> {
    let of = |bound: &BoundTo| hold_of(pod, bound).bound(bound.balancer, bounds);
    bound.iter().filter(|bound| !bound.paused).filter_map(of).max()
}

/// Whether the pod keeps itself alive for as long as it should be, whatever is asked for.
pub fn has_hold(pod: &PodFacts, bound: &[BoundTo]) -> bool {
    !bound.is_empty() && is_held(pod, bound, None)
}

/// The same, if it is evicted like that.
fn is_held(pod: &PodFacts, bound: &[BoundTo], grace: Option<u32>) -> bool {
    let seconds = |bound: &BoundTo| hold_of(pod, bound).seconds(bound.balancer);
    let wanted = bound.iter().map(seconds).max().unwrap_or_default();
    let room = u32::try_from(ROOM.as_secs()).unwrap_or(u32::MAX);
    // The request's own may only shorten the pod's, as far as the kubelet goes.
    let grace = grace.unwrap_or(pod.ending.grace).min(pod.ending.grace);
    pod.ending.sleeps >= wanted && grace >= wanted.saturating_add(room)
}

/// The answer to a request for the eviction of `pod`, which is `bound` like this.
///
/// `is_guarded`: its zone may have to wait for a replacement. `node_goes`: the watch shows that its node takes no pods or is
/// about to go. `seen`: since when this replica sees what is written on it.
pub fn rule(
    pod: &PodFacts,
    bound: &[BoundTo],
    is_guarded: bool,
    node_goes: bool,
    request: &Request,
    rules: &Rules,
    (now, wall, seen): (Moment, WallTime, Option<Seen>),
) -> Ruling {
    let limits = &rules.limits;
    if let Some(reason) = pod.goes() {
        return Ruling::Pass(reason);
    }
    let wait = |reason: Reason, retry: Duration, mark| {
        let retry = retry.clamp(Duration::from_secs(1), LONGEST_RETRY);
        Ruling::Wait { reason, retry, uid: pod.uid.clone(), mark }
    };
    // Whoever asks says how much time the pod gets. That takes nothing out: it may be anybody.
    let held = has_hold(pod, bound);
    let cuts = !is_held(pod, bound, request.grace);
    let pass_held = |reason| {
        if cuts { Ruling::Regardless(Reason::GraceCutsHold, pod.uid.clone()) } else { Ruling::Pass(reason) }
    };
    let written = pod.leaving.as_deref().and_then(|leaving| leaving.credible(wall));
    if let Some(leaving) = written {
        let seen = seen.unwrap_or_else(|| Seen::first(&leaving, now));
        if leaving.ask.held != held && !leaving.ask.early && !leaving.is_out() {
            let mark = Mark::Asked(Asked { held, ..leaving.again(wall) });
            return wait(Reason::EvictionRecorded, LONGEST_RETRY / 2, Some(mark));
        }
        if let Some(reason) = leaving.let_go() {
            // Of one that is out nothing is cut short.
            return if held && !leaving.is_out() { pass_held(reason) } else { Ruling::Pass(reason) };
        }
        if leaving.ask.early {
            // It is out, or about to be, and nobody has waited for it until now. One that nobody was expected to evict has its
            // hold for what is left of the bound.
            if held && leaving.is_out() {
                return pass_held(Reason::HoldIsEnough);
            }
            let begun = leaving.ask.begun;
            let mark = Mark::Asked(Asked { held, begun, ..asked_first(begun + STEP, request, wall) });
            let (reason, retry) = match seen.over(&leaving) {
                Some(over) => (Reason::EvictionWaitsForLoadBalancer, over.since(now)),
                None => (Reason::EvictionRecorded, LONGEST_RETRY / 2),
            };
            return wait(reason, retry, Some(mark));
        }
        let since = seen.since().seen();
        let looked = seen.waits().map_or(since, |waits| waits.seen().max(since));
        let (reason, heard, retry) = match (seen.over(&leaving), leaving.waits) {
            (Some(over), _) => (Reason::EvictionWaitsForLoadBalancer, since.max(over), over.since(now)),
            // Decided as soon as a target there turns healthy.
            (None, Some((_, reason @ Reason::EvictionWaitsForZone))) => {
                (reason, looked, Duration::from_secs(1))
            }
            (None, Some((_, reason))) => (reason, looked, LONGEST_RETRY),
            (None, None) => (Reason::EvictionRecorded, since, LONGEST_RETRY / 2),
        };
        if now.since(heard) > limits.silence() {
            return Ruling::Regardless(Reason::NobodyDecides, pod.uid.clone());
        }
        let old = seen.asked().ago(now) >= limits.refresh();
        return wait(reason, retry, old.then_some(Mark::Asked(Asked { held, ..leaving.again(wall) })));
    }
    if bound.is_empty() {
        return Ruling::Pass(if pod.ips.is_empty() { Reason::NoIp } else { Reason::NotATarget });
    }
    if bound.iter().all(|bound| bound.paused) {
        return Ruling::Pass(Reason::Paused);
    }
    if propagation(pod, bound, &rules.bounds).is_none() {
        return Ruling::Pass(Reason::HoldOff);
    }
    if held && !is_guarded {
        return pass_held(Reason::HoldIsEnough);
    }
    // The leader needs a moment to look at a zone; to take a pod out it needs longer.
    let retry = if held { Duration::from_secs(1) } else { LONGEST_RETRY / 2 };
    let asked = asked_first(WallTime::default(), request, wall).after(pod.left_over, wall);
    let mark = Mark::Asked(Asked { held, ..asked });
    match pod.node.clone().filter(|_| !held && !node_goes) {
        // The watch may lag behind: `kubectl drain` cordons and evicts at once.
        Some(node) => Ruling::AskNode { node, retry, uid: pod.uid.clone(), mark },
        None => wait(Reason::EvictionRecorded, retry, Some(mark)),
    }
}

/// What is noted for a request, if nobody has asked before: not from before then.
fn asked_first(earliest: WallTime, request: &Request, wall: WallTime) -> Asked {
    let since = (wall - request.ago.first).max(earliest);
    Asked { asked: (wall - request.ago.last).max(since), ..Asked::first(since) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        model::{LeavingFacts, LoadBalancerType, Uid, eviction::Ago},
        testing::{PodBuilder, pod},
    };

    const NOW: WallTime = WallTime::since_1970(Duration::from_secs(1_800_000_000));
    /// The same by the clock of the process.
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

    /// Each word was seen when it was written.
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
            (web().terminating(), &[NLB][..], Reason::PodTerminating),
            (web().finished(), &[NLB], Reason::PodFinished),
            (pod("web", "u-1"), &[], Reason::NoIp),
            (web(), &[], Reason::NotATarget),
            (web(), &[paused, paused], Reason::Paused),
            (web(), &[off], Reason::HoldOff),
        ] {
            assert_eq!(asks(pod, bound), Ruling::Pass(reason));
        }
        assert!(matches!(asks(web(), &[paused, NLB]), Ruling::Wait { .. }), "one of them can be left");
    }

    #[test]
    fn a_pod_that_nothing_keeps_alive_is_noted_and_waits() {
        let mark = Some(Mark::Asked(Asked::first(NOW)));
        let wait = |reason, retry, mark| Ruling::Wait { reason, retry, uid: Uid::new("u-1"), mark };
        let recorded = |mark| wait(Reason::EvictionRecorded, LONGEST_RETRY / 2, mark);
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
        let passes = Ruling::Regardless(Reason::HoldMissing, uid.clone());
        let waits = Ruling::Wait { reason: Reason::EvictionRecorded, retry, uid, mark: Some(mark) };
        assert_eq!((asks.clone().with_node(true), asks.with_node(false)), (passes, waits.clone()));
        assert_eq!(ruled(web().on("n"), true), waits, "the watch shows it already");
        assert_eq!(ruled(web(), false), waits, "there is no node to read");
        for node_goes in [true, false] {
            let held = ruled(web().on("n").sleeping(150, 180), node_goes);
            assert_eq!(held.clone().with_node(false), Ruling::Pass(Reason::HoldIsEnough));
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
            assert_eq!(ruling == Ruling::Pass(Reason::HoldIsEnough), passes, "{ruling:?}");
        }
    }

    #[test]
    fn a_pod_that_may_go_passes_and_one_that_is_out_waits_for_the_bound() {
        let out = LeavingFacts { deregistered: Some((NOW, seconds(120))), ..LeavingFacts::asked(NOW, NOW) };
        for (later, retry) in [(0, 5), (117, 3), (120, 1)] {
            let Ruling::Wait { reason, retry: is, .. } =
                ruled(web().leaving(out), &[], &Request::default(), later)
            else {
                panic!("passed after {later} s")
            };
            assert_eq!((reason, is), (Reason::EvictionWaitsForLoadBalancer, seconds(retry)));
        }
        let done = LeavingFacts { may_go: Some(Reason::EvictionAllowed), ..out };
        assert_eq!(asks(web().leaving(done), &[]), Ruling::Pass(Reason::EvictionAllowed));
    }

    #[test]
    fn without_a_word_of_a_leader_it_passes_after_a_while() {
        let asked = LeavingFacts::asked(NOW, NOW);
        let waits =
            LeavingFacts { waits: Some((NOW + seconds(100), Reason::EvictionWaitsForBudget)), ..asked };
        let out = LeavingFacts { deregistered: Some((NOW, seconds(120))), ..asked };
        for (leaving, last) in [(asked, 180), (waits, 280), (out, 300)] {
            let ruled = |later| ruled(web().leaving(leaving), &[NLB], &Request::default(), later);
            assert!(matches!(ruled(last), Ruling::Wait { .. }), "{leaving:?}");
            assert_eq!(
                ruled(last + 1),
                Ruling::Regardless(Reason::NobodyDecides, Uid::new("u-1")),
                "{leaving:?}"
            );
        }
    }

    #[test]
    fn a_pod_with_a_hold_in_a_guarded_zone_waits_for_the_zone_and_a_request_that_cuts_its_hold_short_no_longer()
     {
        let guarded = |pod: PodBuilder, grace| {
            let request = Request { grace, ..Request::default() };
            rule(&pod.build(), &[NLB], true, false, &request, &Rules::default(), (START, NOW, None))
        };
        let held = || web().sleeping(150, 180);
        let noted = Some(Mark::Asked(Asked { held: true, ..Asked::first(NOW) }));
        for grace in [None, Some(5)] {
            let Ruling::Wait { retry, mark, .. } = guarded(held(), grace) else { panic!("it passed") };
            assert_eq!(
                (retry, &mark),
                (seconds(1), &noted),
                "{grace:?}: it is not taken out for what is asked"
            );
        }
        let ask = Asked { held: true, ..Asked::first(NOW) };
        let asked = LeavingFacts { ask, ..LeavingFacts::asked(NOW, NOW) };
        let free = LeavingFacts { may_go: Some(Reason::ZoneAllows), ..asked };
        assert!(!free.is_out(), "it stays a target until it ends");
        assert_eq!(guarded(held().leaving(free), None), Ruling::Pass(Reason::ZoneAllows));
        let cut = Ruling::Regardless(Reason::GraceCutsHold, Uid::new("u-1"));
        assert_eq!(guarded(held().leaving(free), Some(5)), cut);
        let out = LeavingFacts { deregistered: Some((NOW, seconds(120))), ..asked };
        let out = LeavingFacts { may_go: Some(Reason::EvictionAllowed), ..out };
        assert_eq!(guarded(held().leaving(out), Some(5)), Ruling::Pass(Reason::EvictionAllowed), "it is out");
    }

    #[test]
    fn what_is_noted_of_a_hold_is_what_the_pod_has() {
        let asked = LeavingFacts::asked(NOW, NOW);
        for (pod, held) in [(web().sleeping(150, 180), true), (web(), false)] {
            let ask = Asked { held: !held, ..asked.ask };
            let noted = LeavingFacts { ask, may_go: Some(Reason::ZoneAllows), ..asked };
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
        let out =
            LeavingFacts { ask, deregistered: Some((NOW, seconds(120))), ..LeavingFacts::asked(NOW, NOW) };
        let mark = |later| match ruled(web().leaving(out), &[NLB], &Request::default(), later) {
            Ruling::Wait { reason: Reason::EvictionWaitsForLoadBalancer, mark, .. } => mark,
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
            (early, Reason::EvictionRecorded, LONGEST_RETRY / 2),
            (out, Reason::EvictionWaitsForLoadBalancer, seconds(3)),
        ] {
            let ruling = ruled(web().leaving(leaving), &[NLB], &Request::default(), 117);
            assert_eq!(ruling, Ruling::Wait { reason, retry, uid: Uid::new("u-1"), mark });
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
            Ruling::Wait { reason: Reason::EvictionRecorded, mark, .. } => mark,
            other => panic!("{other:?}"),
        };
        assert_eq!(mark(LeavingFacts::asked(far + seconds(1), far)), first, "as if nobody had asked");
        let out = LeavingFacts { deregistered: Some((NOW, seconds(4_294_967_295))), ..asked };
        assert_eq!(mark(out), None, "the leader takes it away");
        let ruled = ruled(web().leaving(out), &[NLB], &Request::default(), 181);
        assert_eq!(ruled, Ruling::Regardless(Reason::NobodyDecides, Uid::new("u-1")), "if there is one");
    }
}
