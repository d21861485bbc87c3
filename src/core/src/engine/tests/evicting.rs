//! Tests of evictions: the answers to requests, and the deregistration before an eviction.

use super::*;
use crate::model::{
    LeavingFacts, NodeFacts, Uid, WallTime,
    eviction::{Budget, Check, Checked, MarkWrite, Request, Ruling},
    leaving::Mark,
    signal::DISRUPTED,
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

    /// Returns the only requested check, which must be about this pod.
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

    /// After how many seconds this pod may go, if everything is answered.
    pub(super) fn may_go_after(&mut self, pod: &str) -> u64 {
        for seconds in 0..600 {
            self.answer_all();
            for check in self.checks() {
                self.checked(&check, Ok(no_budget()));
            }
            for write in self.marks() {
                self.written_mark(&write, Ok(()));
                if &*write.pod.name == pod
                    && matches!(write.mark, Mark::MayGo { reason: Cause::EvictionAllowed, .. })
                {
                    return seconds;
                }
            }
            self.wait(Duration::from_secs(1));
        }
        panic!("it may not go");
    }

    /// Adds a node without a zone.
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

/// A pod of the app `web` at 10.0.0.`last` whose eviction was requested at this time.
pub(super) fn asked(name: &str, last: u8, at: WallTime) -> PodBuilder {
    pod(name, &format!("u-{name}")).at(last).leaving(LeavingFacts::asked(at, at))
}

/// Creates a `World` in which `a`, `b` and `c` are registered.
pub(super) fn three() -> World {
    let pods = ["a", "b", "c"].iter().zip(1..).map(|(name, last)| pod(name, &format!("u-{name}")).at(last));
    World::new(vec![web()], pods.collect())
}

/// Creates a `World` in which the eviction of `a` was requested and AWS has accepted its deregistration.
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
    assert!(matches!(world.asks("a"), Ruling::Wait { cause: Cause::EvictionRecorded, mark: Some(_), .. }));
    assert_eq!(world.changes(), [""; 0], "a question changes nothing");
    world.apply(asked("a", 1, world.wall()));
    let check = world.check_of("a");
    assert_eq!(world.changes(), [""; 0], "nothing before the budgets are known");
    world.checked(&check, Ok(no_budget()));
    assert_eq!(
        (world.changes(), world.causes()),
        (vec!["-blue 10.0.0.1:80".to_owned()], vec![Cause::PodEvicting])
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
    assert!(matches!(world.asks("a"), Ruling::Wait { cause: Cause::EvictionWaitsForLoadBalancer, .. }));
    world.wait(Duration::from_secs(1));
    let mark = world.mark_of("a");
    assert_eq!(mark.mark, Mark::MayGo { at: world.wall(), reason: Cause::EvictionAllowed });
    world.written_mark(&mark, Ok(()));
    assert!(world.views.iter().any(|view| matches!(view, Effect::Took(Span::Departure, _))));
    let leaving = LeavingFacts { may_go: Some(Cause::EvictionAllowed), ..leaving };
    world.apply(pod("a", "u-a").at(1).leaving(leaving));
    assert_eq!(world.asks("a"), Ruling::Pass(Cause::EvictionAllowed));
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
    assert_eq!(world.asks("a"), Ruling::Pass(Cause::NamespaceNotServed));
    world.step(select(&["other", NAMESPACE]));
    world.answer_all();
    world.wait(Duration::from_secs(1));
    let _ = world.check_of("a");
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
fn a_pod_with_its_hold_is_not_taken_out_whatever_is_noted_of_it() {
    let held = |name: &str, last| pod(name, &format!("u-{name}")).at(last).sleeping(150, 180);
    let mut world = World::new(vec![web()], vec![held("a", 1), held("b", 2)]);
    let at = world.wall();
    let forged = Request { grace: Some(1), ..Request::default() };
    let key = ObjectKey::new(NAMESPACE, "a");
    let cut = Ruling::Regardless(Cause::GraceCutsHold, Uid::new("u-a"));
    assert_eq!(world.engine.may_evict(&key, &forged, world.now), cut);
    world.apply(held("a", 1).leaving(LeavingFacts::asked(at, at)));
    for _ in 0..30 {
        world.wait(Duration::from_secs(10));
        world.answer_all();
        assert_eq!((world.changes(), world.checks()), (vec![], vec![]));
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
    assert_eq!(world.said(), [Reason::RegisteredAgain]);
    assert_eq!(world.changes(), [""; 0], "not before the pod says so");
    world.apply(pod("a", "u-a").at(1));
    world.answer_all();
    world.wait(Duration::from_secs(10));
    assert!(
        world.engine.may_evict(&ObjectKey::new(NAMESPACE, "a"), &Request::default(), world.now)
            != Ruling::Pass(Cause::NotATarget)
    );
    assert!(at < world.wall());
}

#[test]
fn the_pod_is_registered_again_for_the_reason_that_its_eviction_was_given_up() {
    let mut world = out();
    world.apply(pod("a", "u-a").at(1));
    assert_eq!(
        (world.changes(), world.causes()),
        (vec!["+blue 10.0.0.1:80".to_owned()], vec![Cause::EvictionGivenUp])
    );
}

#[test]
fn a_replica_that_has_not_seen_everything_lets_evictions_through() {
    let world = World::unsynced();
    assert_eq!(world.asks("a"), Ruling::Pass(Cause::BindingsUnknown));
    let mut world = three();
    let other = Request { uid: Some(Uid::new("u-other")), ..Request::default() };
    let key = ObjectKey::new(NAMESPACE, "a");
    assert_eq!(world.engine.may_evict(&key, &other, world.now), Ruling::Pass(Cause::NotATarget));
    world.apply(pod("a", "u-a").at(1).terminating());
    assert_eq!(world.asks("a"), Ruling::Pass(Cause::PodTerminating));
}

#[test]
fn a_pod_of_paused_groups_alone_is_let_go_and_one_of_others_is_taken_out() {
    let mut world = three();
    world.annotate(web().with(crate::model::policy::PAUSED, "true"));
    world.apply(asked("a", 1, world.wall()));
    let go = Mark::MayGo { at: world.wall(), reason: Cause::NotATarget };
    assert_eq!((world.checks(), world.mark_of("a").mark), (vec![], go));
    let mut world = three();
    world.apply(pod("d", "u-d").at(4));
    // The target is not registered in AWS yet.
    world.apply(asked("d", 4, world.wall()));
    assert_eq!((world.marks(), &*world.check_of("d").pod.name), (vec![], "d"));
}

#[test]
fn the_node_of_a_pod_without_a_hold_is_asked_unless_the_watch_shows_that_it_goes() {
    let mut world = three();
    world.apply(pod("a", "u-a").at(1).on("n"));
    let asks = |world: &World| matches!(world.asks("a"), Ruling::AskNode { node, .. } if &*node == "n");
    let waits = |world: &World| {
        matches!(world.asks("a"), Ruling::Wait { cause: Cause::EvictionRecorded, mark: Some(_), .. })
    };
    assert!(asks(&world), "the watch has not shown it yet");
    world.node("n", true);
    assert!(asks(&world));
    world.node("n", false);
    assert!(waits(&world), "it is cordoned");
    let node = NodeFacts { name: "n".into(), takes_pods: true, ..NodeFacts::default() };
    let disrupted = NodeFacts { taints: vec![DISRUPTED[0].into()], ..node.clone() };
    for (change, goes) in [
        (Change::Applied(disrupted), true),
        (Change::Applied(node.clone()), false),
        (Change::Deleted(node), true),
    ] {
        world.step(Input::Node { change: change.clone(), seen: world.now });
        assert!(if goes { waits(&world) } else { asks(&world) }, "{change:?}");
    }
}

#[test]
fn pods_that_are_asked_to_leave_do_so_beside_each_other_whatever_their_node_becomes() {
    for takes_pods in [true, false] {
        let mut world = three();
        world.node("n", takes_pods);
        let at = world.wall();
        for (name, last) in [("a", 1), ("b", 2)] {
            world.apply(asked(name, last, at).on("n"));
        }
        for _ in 0..2 {
            for check in world.checks() {
                world.checked(&check, Ok(no_budget()));
            }
            world.wait(Duration::from_secs(1));
        }
        assert_eq!(world.changes(), ["-blue 10.0.0.1:80", "-blue 10.0.0.2:80"], "{takes_pods}");
    }
}
