//! Evictions: what is answered, and how the leader takes a pod out before.

use super::*;
use crate::{
    eviction::Ruling,
    model::{
        LeavingFacts, NodeFacts, Uid, WallTime,
        eviction::{Budget, Check, Checked, MarkWrite, Request},
        gate::Shown,
        leaving::Mark,
        policy::{HOLD, PAUSED, REGISTER_WHEN},
    },
};

pub(super) const BOUND: Duration = Duration::from_secs(120);

impl World {
    pub(super) fn wall(&self) -> WallTime {
        WallTime::default() + self.now.elapsed()
    }

    pub(super) fn checks(&mut self) -> Vec<Sent<Check>> {
        self.asked(|request| if let Asks::Check(check) = request { Some(check) } else { None })
    }

    pub(super) fn marks(&mut self) -> Vec<Sent<MarkWrite>> {
        self.asked(|request| if let Asks::Mark(mark) = request { Some(mark) } else { None })
    }

    /// The one check that was asked for, of this pod.
    pub(super) fn check_of(&mut self, pod: &str) -> Sent<Check> {
        let checks = self.checks();
        let names: Vec<&str> = checks.iter().map(|check| &*check.pod.name).collect();
        assert_eq!(names, [pod]);
        checks.into_iter().next().unwrap()
    }

    pub(super) fn mark_of(&mut self, pod: &str) -> Sent<MarkWrite> {
        let marks = self.marks();
        let names: Vec<&str> = marks.iter().map(|mark| &*mark.pod.name).collect();
        assert_eq!(names, [pod], "{marks:?}");
        marks.into_iter().next().unwrap()
    }

    pub(super) fn checked(&mut self, check: &Sent<Check>, result: Result<Checked, Failure>) {
        self.step(Input::Answered { id: check.id, result: result.map(Answer::Checked) });
    }

    pub(super) fn allowed(&mut self, check: &Sent<Check>, allowed: usize) {
        let budgets = vec![Budget { name: "web".into(), allowed, departing: check.departing.len() }];
        self.checked(check, Ok(Checked { refused: None, budgets }));
    }

    pub(super) fn written_mark(&mut self, write: &Sent<MarkWrite>, result: Result<(), Failure>) {
        self.step(Input::Answered { id: write.id, result: result.map(|()| Answer::Done) });
    }

    /// A node of no zone.
    pub(super) fn node(&mut self, name: &str, takes_pods: bool) {
        let node = NodeFacts { name: name.into(), takes_pods, cordoned: !takes_pods, ..NodeFacts::default() };
        self.step(Input::Node { change: Change::Applied(node), seen: self.now });
    }

    pub(super) fn asks(&self, pod: &str) -> Ruling {
        self.engine.may_evict(&ObjectKey::new(NAMESPACE, pod), &Request::default(), self.now)
    }
}

pub(super) fn no_budget() -> Checked {
    Checked { refused: None, budgets: Vec::new() }
}

/// A pod of the app `web` at 10.0.0.`last` that was asked to leave at a time.
pub(super) fn asked(name: &str, last: u8, at: WallTime) -> PodBuilder {
    pod(name, &format!("u-{name}")).at(last).leaving(LeavingFacts::asked(at, at))
}

/// `a`, `b` and `c` are registered.
pub(super) fn three() -> World {
    let pods = ["a", "b", "c"].iter().zip(1..).map(|(name, last)| pod(name, &format!("u-{name}")).at(last));
    World::new(vec![web()], pods.collect())
}

/// `a` was asked to leave, may, and AWS has taken its removal.
pub(super) fn out() -> World {
    let mut world = three();
    world.wait(Duration::from_secs(1));
    world.apply(asked("a", 1, world.wall()));
    let check = world.check_of("a");
    world.checked(&check, Ok(no_budget()));
    world.answer_all();
    let mark = world.mark_of("a");
    assert_eq!(mark.mark, Mark::Deregistered { at: world.wall(), bound: BOUND });
    world.written_mark(&mark, Ok(()));
    world
}

#[test]
fn a_pod_that_is_asked_to_leave_is_deregistered_and_may_go_when_the_bound_has_passed() {
    let mut world = three();
    assert!(matches!(world.asks("a"), Ruling::Wait { reason: Reason::EvictionRecorded, mark: Some(_), .. }));
    assert_eq!(world.changes(), [""; 0], "a question changes nothing");
    world.apply(asked("a", 1, world.wall()));
    let check = world.check_of("a");
    assert_eq!(world.changes(), [""; 0], "nothing before the budgets are known");
    world.checked(&check, Ok(no_budget()));
    assert_eq!(
        (world.changes(), world.reasons()),
        (vec!["-blue 10.0.0.1:80".to_owned()], vec![Reason::PodEvicting])
    );
    assert_eq!(world.marks(), [], "AWS has not taken it");
    world.wait(Duration::from_secs(3));
    world.answer_all();
    let mark = world.mark_of("a");
    let at = world.wall();
    assert_eq!(mark.mark, Mark::Deregistered { at, bound: BOUND });
    assert_eq!(mark.uid, Uid::new("u-a"));
    world.written_mark(&mark, Ok(()));
    let leaving = LeavingFacts { deregistered: Some((at, BOUND)), ..LeavingFacts::asked(at, at) };
    world.apply(pod("a", "u-a").at(1).leaving(leaving));
    world.wait(BOUND.saturating_sub(Duration::from_secs(1)));
    world.answer_all();
    assert_eq!(world.marks(), []);
    assert!(matches!(world.asks("a"), Ruling::Wait { reason: Reason::EvictionWaitsForLoadBalancer, .. }));
    world.wait(Duration::from_secs(1));
    let mark = world.mark_of("a");
    assert_eq!(mark.mark, Mark::MayGo { at: world.wall(), reason: Reason::EvictionAllowed });
    world.written_mark(&mark, Ok(()));
    assert!(world.views.iter().any(|view| matches!(view, Effect::Took(Span::Departure, _))));
    let leaving = LeavingFacts { may_go: Some(Reason::EvictionAllowed), ..leaving };
    world.apply(pod("a", "u-a").at(1).leaving(leaving));
    assert_eq!(world.asks("a"), Ruling::Pass(Reason::EvictionAllowed));
    assert_eq!((world.changes(), world.said()), (vec![], vec![]), "it stays out, and nobody need know");
}

#[test]
fn a_pod_takes_its_target_with_it_though_the_status_of_another_one_carries_its_ip() {
    let mut world = three();
    world.apply(pod("d", "u-d").at(1));
    world.answer_all();
    world.apply(asked("d", 1, world.wall()));
    let check = world.check_of("d");
    world.checked(&check, Ok(no_budget()));
    assert_eq!(world.changes(), ["-blue 10.0.0.1:80"], "a has lost it, though its status shows it");
    world.answer_all();
    assert_eq!(world.mark_of("d").mark, Mark::Deregistered { at: world.wall(), bound: BOUND });
}

#[test]
fn what_is_written_on_a_pod_of_a_namespace_that_is_not_selected_is_another_installations() {
    let mut world = World::with(Settings { namespaces_are_selected: true, ..cluster_wide() });
    let select = |names: &[&str]| Input::Namespace {
        change: Change::Relisted(Scope::Cluster, names.iter().map(|name| Arc::from(*name)).collect()),
        seen: Moment::START,
    };
    world.step(select(&["other"]));
    world.relist_services(vec![web()]);
    world.relist_pods(vec![pod("a", "u-a").at(1)]);
    world.answer_all();
    world.apply(asked("a", 1, world.wall()));
    world.wait(Duration::from_secs(5));
    assert_eq!((world.marks(), world.checks()), (vec![], vec![]));
    assert_eq!(world.asks("a"), Ruling::Pass(Reason::NamespaceNotServed));
    world.step(select(&["other", NAMESPACE]));
    world.answer_all();
    world.wait(Duration::from_secs(1));
    let _ = world.check_of("a");
}

#[test]
fn nobody_takes_a_pod_for_no_target_while_its_target_group_is_looked_up() {
    let mut world = World::with(cluster_wide());
    world.relist_services(vec![web()]);
    world.relist_pods(vec![pod("a", "u-a").at(1), pod("b", "u-b").at(2).sleeping(150, 180)]);
    assert!(matches!(world.asks("a"), Ruling::Wait { reason: Reason::EvictionRecorded, mark: Some(_), .. }));
    assert_eq!(world.asks("b"), Ruling::Pass(Reason::HoldIsEnough), "whatever it turns out to be");
    world.apply(asked("a", 1, world.wall()));
    world.wait(Duration::from_secs(5));
    assert_eq!((world.marks(), world.checks()), (vec![], vec![]), "the leader waits as well");
    world.answer_all();
    world.wait(Duration::from_secs(1));
    let _ = world.check_of("a");
}

#[test]
fn what_cannot_be_looked_up_delays_no_eviction_without_end() {
    let mut world = World::with(cluster_wide());
    world.relist_services(vec![web()]);
    world.relist_pods(vec![pod("a", "u-a").at(1)]);
    world.apply(asked("a", 1, world.wall()));
    world.wait(Duration::from_secs(59));
    assert_eq!((world.marks(), world.checks()), (vec![], vec![]));
    world.wait(Duration::from_secs(2));
    let check = world.check_of("a");
    world.checked(&check, Ok(no_budget()));
    let mark = world.mark_of("a");
    assert!(matches!(mark.mark, Mark::Deregistered { .. }), "as if it was a target: the bound is waited for");
}

#[test]
fn a_removal_that_is_under_way_for_another_reason_is_waited_for() {
    let mut world = three();
    world.apply(pod("a", "u-a").at(1).labelled("other"));
    assert_eq!(world.changes(), ["-blue 10.0.0.1:80"]);
    world.apply(asked("a", 1, world.wall()).labelled("other"));
    world.wait(Duration::from_secs(1));
    let check = world.check_of("a");
    world.checked(&check, Ok(no_budget()));
    assert_eq!(world.marks(), [], "AWS has not taken it");
    world.answer_all();
    let mark = world.mark_of("a");
    assert!(matches!(mark.mark, Mark::Deregistered { bound: BOUND, .. }), "{mark:?}");
}

#[test]
fn an_earlier_word_that_lands_late_does_not_shorten_the_wait() {
    let mut world = out();
    let (at, later) = (world.wall(), world.wall() + Duration::from_secs(30));
    let says = |at| LeavingFacts { deregistered: Some((at, BOUND)), ..LeavingFacts::asked(at, at) };
    let says = |at| LeavingFacts { begun: WallTime::default(), ..says(at) };
    world.wait(Duration::from_secs(31));
    world.answer_all();
    world.apply(pod("a", "u-a").at(1).leaving(says(later)));
    assert_eq!(world.marks(), []);
    world.apply(pod("a", "u-a").at(1).leaving(says(at)));
    let now = world.wall();
    assert_eq!(world.mark_of("a").mark, Mark::Deregistered { at: now, bound: BOUND }, "it waits anew");
}

#[test]
fn a_pod_that_was_unbound_a_moment_ago_waits_for_the_bound_and_later_for_nothing() {
    let mut world = three();
    world.apply(pod("a", "u-a").at(1).labelled("other"));
    world.answer_all();
    assert!(matches!(world.asks("a"), Ruling::Wait { reason: Reason::EvictionRecorded, .. }));
    world.wait(Duration::from_secs(20));
    world.answer_all();
    world.apply(asked("a", 1, world.wall()).labelled("other"));
    world.wait(Duration::from_secs(1));
    let check = world.check_of("a");
    world.checked(&check, Ok(no_budget()));
    let mark = world.mark_of("a").mark;
    let left = BOUND.saturating_sub(Duration::from_secs(20));
    assert!(matches!(mark, Mark::Deregistered { bound, .. } if bound <= left), "{mark:?}");
    world.wait(BOUND);
    world.apply(pod("a", "u-a").at(1).labelled("other"));
    assert_eq!(world.asks("a"), Ruling::Pass(Reason::NotATarget));
}

#[test]
fn a_pod_that_may_have_been_readier_before_is_the_leaders_to_decide() {
    let service = web().with(REGISTER_WHEN, "ready");
    let mut world = World::new(vec![service], vec![pod("a", "u-a").at(1)]);
    assert!(matches!(world.asks("a"), Ruling::Wait { reason: Reason::EvictionRecorded, .. }));
    world.apply(asked("a", 1, world.wall()));
    let mark = world.mark_of("a").mark;
    assert!(matches!(mark, Mark::MayGo { reason: Reason::NotATarget, .. }), "{mark:?}");
}

#[test]
fn a_pod_that_is_not_ready_any_more_is_the_leaders_to_decide_who_may_keep_it() {
    let mut world = World::new(vec![web().with(WHEN_NOT_READY, "deregister")], vec![]);
    world.apply(pod("a", "u-a").at(1).ready());
    world.apply(pod("a", "u-a").at(1));
    world.answer_all();
    for _ in 0..2 {
        world.wait(BOUND);
        world.answer_all();
    }
    assert!(matches!(world.asks("a"), Ruling::Wait { reason: Reason::EvictionRecorded, .. }));
    world.apply(asked("a", 1, world.wall()));
    world.wait(BOUND);
    let mark = world.mark_of("a").mark;
    assert!(matches!(mark, Mark::MayGo { reason: Reason::NotATarget, .. }), "{mark:?}");
}

#[test]
fn what_is_held_of_a_pod_until_others_replace_it_goes_when_the_pod_leaves() {
    let mut world = three();
    world.annotate(service("web").port_to("http", 80, 81).annotated("http=blue"));
    assert_eq!(world.changes(), ["+blue 10.0.0.1:81 10.0.0.2:81 10.0.0.3:81"], "the old ones are held");
    world.apply(asked("a", 1, world.wall()));
    let check = world.check_of("a");
    world.checked(&check, Ok(no_budget()));
    assert_eq!(world.changes()[1..], ["-blue 10.0.0.1:80 10.0.0.1:81"]);
}

#[test]
fn what_is_held_of_a_pod_goes_when_it_is_seen_that_the_pod_is_out_whatever_else_is_new_of_it() {
    for app in ["web", "other"] {
        let mut world = three();
        world.annotate(service("web").port_to("http", 80, 81).annotated("http=blue"));
        assert_eq!(world.changes(), ["+blue 10.0.0.1:81 10.0.0.2:81 10.0.0.3:81"], "the old ones are held");
        let at = world.wall();
        let leaving = LeavingFacts { deregistered: Some((at, BOUND)), ..LeavingFacts::asked(at, at) };
        world.apply(pod("a", "u-a").at(1).labelled(app).leaving(leaving));
        assert_eq!(world.changes()[1..], ["-blue 10.0.0.1:80 10.0.0.1:81"], "{app}");
    }
}

#[test]
fn of_ten_that_are_asked_at_once_under_a_budget_of_one_one_leaves() {
    let pods =
        (1..=10).map(|last| pod(&format!("p{last:02}"), &format!("u-p{last:02}")).at(last).on("n").ready());
    let mut world = World::new(vec![web()], pods.collect());
    world.node("n", false);
    let at = world.wall();
    for last in 1..=10 {
        world.apply(asked(&format!("p{last:02}"), last, at).on("n").ready());
    }
    let check = world.check_of("p01");
    assert_eq!(check.departing, []);
    world.allowed(&check, 1);
    assert_eq!(world.changes(), ["-blue 10.0.0.1:80"]);
    // A dry run reserves nothing: the budget still says one.
    for last in 2..=10 {
        let name = format!("p{last:02}");
        let check = world.check_of(&name);
        assert_eq!(check.departing.len(), 1);
        world.allowed(&check, 1);
        // That it waits is written on it, beside the next question.
        let mark = world.mark_of(&name);
        assert!(matches!(mark.mark, Mark::Waits { reason: Reason::EvictionWaitsForDeparture, .. }));
        world.written_mark(&mark, Ok(()));
    }
    assert_eq!(world.changes(), ["-blue 10.0.0.1:80"], "and no other");
    // The first has gone: the next one is let out.
    world.delete(pod("p01", "u-p01").at(1).on("n"));
    world.wait(Duration::from_secs(2));
    let check = world.check_of("p02");
    assert_eq!(check.departing, []);
    world.allowed(&check, 1);
    assert_eq!(world.changes().last().unwrap(), "-blue 10.0.0.2:80");
}

#[test]
fn a_pod_with_its_hold_is_not_taken_out_whatever_is_noted_of_it() {
    let held = |name: &str, last| pod(name, &format!("u-{name}")).at(last).sleeping(150, 180);
    let mut world = World::new(vec![web()], vec![held("a", 1), held("b", 2)]);
    let at = world.wall();
    let forged = Request { grace: Some(1), uid: None };
    let key = ObjectKey::new(NAMESPACE, "a");
    let cut = Ruling::Regardless(Reason::GraceCutsHold, Uid::new("u-a"));
    assert_eq!(world.engine.may_evict(&key, &forged, world.now), cut);
    world.apply(held("a", 1).leaving(LeavingFacts::asked(at, at)));
    for _ in 0..30 {
        world.wait(Duration::from_secs(10));
        world.answer_all();
        assert_eq!((world.changes(), world.checks()), (vec![], vec![]));
    }
}

#[test]
fn a_pod_that_has_its_hold_when_the_budgets_are_known_is_not_taken_out() {
    let held = || pod("a", "u-a").at(1).sleeping(60, 90);
    let mut world = World::new(vec![web()], vec![held()]);
    let at = world.wall();
    world.apply(held().leaving(LeavingFacts::asked(at, at)));
    let check = world.check_of("a");
    world.annotate(web().with(HOLD, "60s"));
    world.checked(&check, Ok(no_budget()));
    for _ in 0..3 {
        assert_eq!((world.changes(), world.checks()), (vec![], vec![]));
        world.wait(Duration::from_secs(10));
        world.answer_all();
    }
}

#[test]
fn what_cannot_be_true_is_taken_away_and_said() {
    for bound in [Duration::from_secs(u32::MAX.into()), BOUND] {
        let mut world = three();
        let at = world.wall();
        let far =
            if bound == BOUND { at + crate::model::leaving::CREDIBLE + Duration::from_secs(1) } else { at };
        let forged = LeavingFacts { deregistered: Some((far, bound)), ..LeavingFacts::asked(at, at) };
        world.apply(pod("a", "u-a").at(1).leaving(forged));
        let mark = world.mark_of("a");
        assert_eq!(mark.mark, Mark::Disbelieved);
        world.written_mark(&mark, Ok(()));
        assert_eq!(world.said(), [Reason::LeavingNotCredible]);
    }
}

#[test]
fn what_a_budget_refuses_waits_is_asked_again_and_said_once_it_is_long() {
    let mut world = three();
    world.apply(asked("a", 1, world.wall()));
    let refused = || Ok(Checked { refused: Some("needs 3 healthy pods".into()), budgets: Vec::new() });
    let check = world.check_of("a");
    world.checked(&check, refused());
    let mark = world.mark_of("a");
    assert!(matches!(mark.mark, Mark::Waits { reason: Reason::EvictionWaitsForBudget, .. }));
    world.written_mark(&mark, Ok(()));
    assert_eq!(world.checks(), [], "not at once");
    for _ in 0..35 {
        world.wait(Duration::from_secs(2));
        for check in world.checks() {
            world.checked(&check, refused());
        }
        for mark in world.marks() {
            world.written_mark(&mark, Ok(()));
        }
    }
    assert_eq!(world.said(), [Reason::EvictionWaitsForBudget]);
    assert!(world.notices[0].note.contains("needs 3 healthy pods"), "{:?}", world.notices);
    assert_eq!(world.changes(), [""; 0]);
}

#[test]
fn a_pod_that_is_not_ready_takes_nothing_of_a_budget() {
    for (builder, leaves) in [
        (pod("a", "u-a").at(1), true),
        (pod("a", "u-a").at(1).ready(), false),
        (pod("a", "u-a").at(1).ready().gated(Shown::Closed), true),
    ] {
        let mut world = three();
        let at = world.wall();
        world.apply(builder.leaving(LeavingFacts::asked(at, at)));
        let check = world.check_of("a");
        world.allowed(&check, 0);
        assert_eq!(world.changes() == ["-blue 10.0.0.1:80"], leaves);
    }
}

#[test]
fn an_eviction_that_nobody_asks_for_any_more_is_undone_and_the_pod_is_registered_again() {
    let mut world = out();
    let at = world.wall();
    world.wait(BOUND);
    let mark = world.mark_of("a");
    world.written_mark(&mark, Ok(()));
    world.wait(Duration::from_secs(15 * 60 - 121));
    world.answer_all();
    assert_eq!(world.marks(), []);
    world.wait(Duration::from_secs(1));
    let mark = world.mark_of("a");
    assert_eq!(mark.mark, Mark::Undone);
    world.written_mark(&mark, Ok(()));
    assert_eq!(world.said(), [Reason::EvictionGivenUp]);
    assert_eq!(world.changes(), [""; 0], "not before the pod says so");
    world.apply(pod("a", "u-a").at(1));
    world.answer_all();
    world.wait(Duration::from_secs(10));
    assert!(
        world.engine.may_evict(&ObjectKey::new(NAMESPACE, "a"), &Request::default(), world.now)
            != Ruling::Pass(Reason::NotATarget)
    );
    assert!(at < world.wall());
}

#[test]
fn what_the_watch_says_before_the_answer_to_a_write_is_told_all_the_same() {
    let mut world = out();
    world.wait(Duration::from_secs(15 * 60));
    let mark = world.mark_of("a");
    world.apply(pod("a", "u-a").at(1));
    world.written_mark(&mark, Ok(()));
    assert_eq!((mark.mark, world.said()), (Mark::Undone, vec![Reason::EvictionGivenUp]));
}

#[test]
fn the_pod_is_registered_again_for_the_reason_that_its_eviction_was_given_up() {
    let mut world = out();
    world.apply(pod("a", "u-a").at(1));
    assert_eq!(
        (world.changes(), world.reasons()),
        (vec!["+blue 10.0.0.1:80".to_owned()], vec![Reason::EvictionGivenUp])
    );
}

#[test]
fn when_aws_does_not_take_the_removal_the_eviction_is_let_through_after_a_while() {
    let mut world = three();
    world.apply(asked("a", 1, world.wall()));
    let check = world.check_of("a");
    world.checked(&check, Ok(no_budget()));
    for _ in 0..59 {
        world.refuse_changes(FailureClass::Unavailable);
        world.wait(Duration::from_secs(1));
    }
    assert_eq!(world.marks(), []);
    world.wait(Duration::from_secs(1));
    let mark = world.mark_of("a");
    assert!(matches!(mark.mark, Mark::MayGo { reason: Reason::DeregistrationTooSlow, .. }));
    world.written_mark(&mark, Ok(()));
    assert_eq!(world.said(), [Reason::DeregistrationTooSlow]);
}

#[test]
fn when_kubernetes_does_not_say_what_the_budgets_allow_it_is_let_through_after_a_while() {
    let mut world = three();
    world.apply(asked("a", 1, world.wall()));
    for _ in 0..30 {
        let check = world.check_of("a");
        world.checked(&check, Err(fails(FailureClass::Unavailable, "forbidden")));
        assert_eq!(world.marks(), []);
        world.wait(Duration::from_secs(2));
    }
    let mark = world.mark_of("a");
    assert!(matches!(mark.mark, Mark::MayGo { reason: Reason::EvictionUncheckable, .. }));
    world.written_mark(&mark, Ok(()));
    assert!(world.notices[0].note.contains("(forbidden)"), "{:?}", world.notices);
}

#[test]
fn a_pod_that_is_no_target_any_more_may_go_at_once_when_the_load_balancer_has_stopped() {
    let mut world = three();
    world.service(Change::Deleted(web().build()));
    world.wait(GRACE);
    world.answer_all();
    world.wait(BOUND);
    world.answer_all();
    world.apply(asked("a", 1, world.wall()));
    let mark = world.mark_of("a");
    assert!(matches!(mark.mark, Mark::MayGo { reason: Reason::NotATarget, .. }));
}

#[test]
fn a_paused_group_holds_no_eviction_up_and_one_of_two_that_is_not_is_left() {
    let both = || service("web").port("http", 80).annotated("http=blue,http=green");
    let mut world = World::new(vec![both().with(PAUSED, "true")], vec![pod("a", "u-a").at(1)]);
    assert_eq!(world.asks("a"), Ruling::Pass(Reason::Paused));
    world.annotate(both().with(HOLD, "3m"));
    world.answer_all();
    world.apply(asked("a", 1, world.wall()));
    let check = world.check_of("a");
    world.checked(&check, Ok(no_budget()));
    assert_eq!(world.changes().len(), 2);
    let (id, call) = world.open.pop().unwrap();
    assert!(matches!(call, Call::Deregister { .. }));
    world.step(Input::Answered { id, result: Ok(Answer::Done) });
    assert_eq!(world.marks(), [], "AWS must have taken both");
    world.answer_all();
    // Three minutes with the margin of 30 s.
    let bound = Duration::from_secs(150);
    assert!(matches!(world.mark_of("a").mark, Mark::Deregistered { bound: is, .. } if is == bound));
}

#[test]
fn what_is_removed_because_a_pause_has_ended_is_waited_for_with_its_own_bound() {
    let other = || service("other").port("http", 80).annotated("http=green").with(HOLD, "3m");
    let mut world = World::new(vec![web(), other()], vec![pod("a", "u-a").at(1)]);
    world.annotate(other().with(PAUSED, "true"));
    world.apply(asked("a", 1, world.wall()));
    let check = world.check_of("a");
    world.checked(&check, Ok(no_budget()));
    assert_eq!(world.changes(), ["-blue 10.0.0.1:80"]);
    let (blue, _) = world.open.pop().unwrap();
    world.annotate(other());
    assert_eq!(world.changes(), ["-green 10.0.0.1:80"]);
    world.step(Input::Answered { id: blue, result: Ok(Answer::Done) });
    assert_eq!(world.marks(), [], "AWS must have taken both");
    world.answer_all();
    let bound = Duration::from_secs(150);
    assert!(matches!(world.mark_of("a").mark, Mark::Deregistered { bound: is, .. } if is == bound));
}

#[test]
fn an_abandoned_departure_on_a_pod_that_stays_out_does_not_hold_up_the_others_for_ever() {
    let mut world = out();
    world.node("n", false);
    world.apply(asked("b", 2, world.wall()).on("n").ready());
    let check = world.check_of("b");
    assert_eq!(check.departing.len(), 1);
    // The write that undoes it does not succeed.
    world.wait(Duration::from_secs(15 * 60));
    for mark in world.marks() {
        world.written_mark(&mark, Err(fails(FailureClass::Unavailable, "later")));
    }
    let at = world.wall();
    world.apply(pod("b", "u-b").at(2).on("n").ready().leaving(LeavingFacts::asked(at, at)));
    world.allowed(&check, 1);
    for _ in 0..3 {
        for mark in world.marks() {
            let undoes = mark.mark == Mark::Undone;
            world.written_mark(
                &mark,
                if undoes { Err(fails(FailureClass::Unavailable, "later")) } else { Ok(()) },
            );
        }
        world.wait(Duration::from_secs(2));
    }
    let check = world.check_of("b");
    assert_eq!(check.departing, []);
}

#[test]
fn a_mark_that_may_not_be_written_is_said_once() {
    let mut world = out();
    world.notices.clear();
    for _ in 0..3 {
        world.wait(BOUND);
        let mark = world.mark_of("a");
        world.written_mark(&mark, Err(fails(FailureClass::Denied, "cannot patch pods")));
    }
    assert_eq!(world.said(), [Reason::LeavingNotRecorded]);
    assert!(world.notices[0].note.contains("expected a Role"), "{:?}", world.notices);
}

#[test]
fn a_replica_that_has_not_seen_everything_lets_evictions_through() {
    let world = World::unsynced();
    assert_eq!(world.asks("a"), Ruling::Pass(Reason::BindingsUnknown));
    let mut world = three();
    let other = Request { uid: Some(Uid::new("u-other")), grace: None };
    let key = ObjectKey::new(NAMESPACE, "a");
    assert_eq!(world.engine.may_evict(&key, &other, world.now), Ruling::Pass(Reason::NotATarget));
    world.apply(pod("a", "u-a").at(1).terminating());
    assert_eq!(world.asks("a"), Ruling::Pass(Reason::PodTerminating));
}
