//! Tests of nodes that will be removed: dying, disrupted and deleted nodes, and nodes that remain after all.

use super::{evicting::no_budget, *};
use crate::model::{
    Fate, LeavingFacts, NodeFacts, WallTime,
    eviction::{MarkWrite, Ruling},
    leaving::{Asked, Mark, STEP},
    signal::{DISRUPTED, DYING},
};

const HEALTHY: HealthState = HealthState::Healthy;
const BOUND: Duration = Duration::from_secs(120);

fn node(name: &str, taint: Option<&str>) -> NodeFacts {
    NodeFacts {
        name: name.into(),
        zone: Some("a".into()),
        takes_pods: taint.is_none(),
        taints: taint.into_iter().map(Into::into).collect(),
        ..NodeFacts::default()
    }
}

fn on_a(name: &str, last: u8) -> PodBuilder {
    pod(name, &format!("u-{name}")).at(last).on("a").ready()
}

fn held(name: &str, last: u8) -> PodBuilder {
    on_a(name, last).sleeping(150, 180)
}

impl World {
    fn taint(&mut self, name: &str, taint: Option<&str>) {
        self.step(Input::Node { change: Change::Applied(node(name, taint)), seen: self.now });
    }

    /// Completes the only open write of an annotation, and lets the watch show the annotation.
    fn marks_and_shows(&mut self, builder: &PodBuilder) -> Mark {
        let facts = builder.clone().build();
        let write = self.mark_of(&facts.key.name);
        self.written_mark(&write, Ok(()));
        let after = facts.leaving.as_deref().copied();
        let after = after.unwrap_or(LeavingFacts::asked(WallTime::default(), WallTime::default()));
        match after.with(write.mark) {
            Some(leaving) => self.apply(builder.clone().leaving(leaving)),
            None => self.apply(builder.clone()),
        }
        write.mark
    }

    /// Completes and returns all open writes of annotations.
    fn all_marked(&mut self) -> Vec<(String, Mark)> {
        let marks = self.marks();
        for write in &marks {
            self.written_mark(write, Ok(()));
        }
        marks.into_iter().map(|write| (write.pod.name.to_string(), write.mark)).collect()
    }

    /// Accepts all open calls. AWS reports these targets as healthy.
    fn healthy(&mut self, there: &[u8]) {
        let there: Vec<(u8, HealthState)> = there.iter().map(|last| (*last, HEALTHY)).collect();
        self.reads(&there);
    }
}

/// Creates nodes `a` and `b` with these pods. The listed targets are healthy.
fn world(pods: Vec<PodBuilder>, healthy: &[u8]) -> World {
    let mut world = World::new(vec![web()], pods);
    let nodes = vec![node("a", None), node("b", None)];
    world.step(Input::Node { change: Change::Relisted(Scope::Cluster, nodes), seen: world.now });
    world.healthy(healthy);
    assert_eq!(world.changes(), [""; 0]);
    world
}

fn early(at: WallTime) -> LeavingFacts {
    LeavingFacts { ask: Asked::early(at), ..LeavingFacts::asked(at, at) }
}

#[test]
fn the_targets_of_a_dying_node_go_at_once_with_a_hold_or_without() {
    for taint in DYING {
        let pods = vec![held("held", 1), on_a("plain", 2), pod("other", "u-other").at(3).on("b")];
        let mut world = world(pods, &[1, 2, 3]);
        world.taint("a", Some(taint));
        assert_eq!(world.changes(), ["-blue 10.0.0.1:80 10.0.0.2:80"], "{taint}");
        assert_eq!(world.causes(), [Cause::NodeDying; 2]);
        assert_eq!(world.said(), [Reason::NodeDying; 2]);
        assert!(
            world.notices[0]
                .note
                .contains("The pod was deregistered because its node a is about to fail (taint ")
        );
    }
    let mut world = world(vec![on_a("plain", 2)], &[2]);
    let down = NodeFacts { shuts_down: true, ..node("a", None) };
    world.step(Input::Node { change: Change::Applied(down), seen: world.now });
    assert_eq!(world.causes(), [Cause::NodeDying]);
}

#[test]
fn a_deleted_node_is_forgotten_when_a_list_without_its_pods_is_believed() {
    let mut world = world(vec![on_a("p", 1), on_a("q", 2), on_a("r", 3)], &[1, 2, 3]);
    world.relist_pods(vec![]);
    assert_eq!(world.engine.pod_count(), 3, "it is doubted");
    world.step(Input::Node { change: Change::Deleted(node("a", None)), seen: world.now });
    assert_eq!(nodes_gone(&world), 1);
    world.wait(Duration::from_secs(31));
    assert_eq!(world.engine.pod_count(), 0);
    assert_eq!(nodes_gone(&world), 0);
}

#[test]
fn what_is_held_until_others_replace_it_goes_with_its_dying_node() {
    let mut world = world(vec![on_a("plain", 2)], &[2]);
    world.apply(pod("new", "u-new").at(3).on("b"));
    world.apply(on_a("plain", 2).labelled("other"));
    assert_eq!(world.changes(), ["+blue 10.0.0.3:80"], "the old one waits for it");
    world.taint("a", Some(DYING[0]));
    assert_eq!(world.changes()[1..], ["-blue 10.0.0.2:80"]);
    assert_eq!(world.causes()[1], Cause::NodeDying);
}

#[test]
fn an_eviction_on_a_dying_node_waits_for_the_load_balancer_and_not_for_budgets() {
    let mut world = world(vec![on_a("plain", 2)], &[2]);
    world.taint("a", Some(DYING[1]));
    assert!(
        matches!(
            world.asks("plain"),
            Ruling::Wait { mark: Some(Mark::Asked(Asked { held: false, .. })), .. }
        ),
        "it was taken out a moment ago"
    );
    let at = world.wall();
    assert_eq!(world.marks_and_shows(&on_a("plain", 2)), Mark::Asked(Asked::early(at)));
    world.answer_all();
    let out = on_a("plain", 2).leaving(early(at));
    assert_eq!(world.marks_and_shows(&out), Mark::Deregistered { at: world.wall(), bound: BOUND });
    let out = out.leaving(LeavingFacts { deregistered: Some((at, BOUND)), ..early(at) });
    let Ruling::Wait { cause: reason, mark: Some(Mark::Asked(Asked { since, .. })), .. } =
        world.asks("plain")
    else {
        panic!("{:?}", world.asks("plain"))
    };
    assert_eq!((reason, since), (Cause::EvictionWaitsForLoadBalancer, world.wall() + STEP));
    world.wait(BOUND);
    world.answer_all();
    let mark = world.marks_and_shows(&out);
    assert_eq!(mark, Mark::MayGo { at: world.wall(), reason: Cause::EvictionAllowed });
    assert_eq!(world.checks(), [], "no budget was asked about");
    assert_eq!(world.asks("plain"), Ruling::Pass(Cause::EvictionAllowed));
    assert_eq!(world.said(), [Reason::NodeDying]);
}

#[test]
fn on_a_dying_node_nobody_takes_a_pod_for_no_target_while_its_target_group_is_looked_up() {
    let mut world = World::with(cluster_wide());
    world.relist_services(vec![web()]);
    world.relist_pods(vec![on_a("plain", 1)]);
    world.taint("a", Some(DYING[0]));
    let recorded = |world: &World| {
        matches!(world.asks("plain"), Ruling::Wait { cause: Cause::EvictionRecorded, mark: Some(_), .. })
    };
    assert!(recorded(&world));
    world.answer_all();
    assert!(recorded(&world), "it is a target but for its node");
}

#[test]
fn a_pod_with_its_hold_on_a_dying_node_is_evicted_without_more_ado() {
    let mut world = world(vec![held("held", 1)], &[1]);
    world.taint("a", Some(DYING[0]));
    world.answer_all();
    assert_eq!(world.marks(), []);
    assert_eq!(world.asks("held"), Ruling::Pass(Cause::HoldAllows));
}

#[test]
fn a_node_that_was_deleted_takes_its_targets_along_and_brings_them_back() {
    let mut world = world(vec![held("held", 1), on_a("plain", 2)], &[1, 2]);
    let gone = Change::Deleted(node("a", None));
    world.step(Input::Node { change: gone, seen: world.now });
    assert_eq!(world.causes(), [Cause::NodeDeleted; 2]);
    assert_eq!(world.marks(), [], "nobody evicts from a node that is not there");
    assert_eq!(nodes_gone(&world), 1);
    world.answer_all();
    world.taint("a", None);
    assert_eq!(world.causes(), [Cause::NodeStays; 2]);
    assert_eq!(nodes_gone(&world), 0);
}

#[test]
fn a_deleted_node_is_forgotten_with_its_last_pod() {
    let mut world = world(vec![on_a("plain", 2)], &[2]);
    world.step(Input::Node { change: Change::Deleted(node("a", None)), seen: world.now });
    world.step(Input::Node { change: Change::Deleted(node("b", None)), seen: world.now });
    assert_eq!(nodes_gone(&world), 1, "nothing is on b");
    world.delete(on_a("plain", 2));
    assert_eq!(nodes_gone(&world), 0);
}

#[test]
fn on_a_disrupted_node_only_pods_without_a_hold_leave_early_as_their_budget_allows() {
    for taint in DISRUPTED {
        let pods = vec![held("held", 1), on_a("plain", 2), pod("other", "u-other").at(3).on("b")];
        let mut world = world(pods, &[1, 2, 3]);
        world.taint("a", Some(taint));
        assert_eq!(world.changes(), [""; 0], "nothing before its budgets are known");
        let at = world.wall();
        assert_eq!(world.marks_and_shows(&on_a("plain", 2)), Mark::Asked(Asked::early(at)));
        let check = world.check_of("plain");
        world.checked(&check, Ok(no_budget()));
        assert_eq!(world.changes(), ["-blue 10.0.0.2:80"]);
        assert_eq!(world.causes(), [Cause::NodeDisrupted]);
        assert_eq!(world.said(), [Reason::NodeDisrupted]);
        assert!(world.notices[0].note.contains("will be drained"), "{}", world.notices[0].note);
    }
}

#[test]
fn of_three_under_a_budget_of_one_one_leaves_early_and_nobody_is_told_that_the_others_wait() {
    let pods = vec![on_a("p1", 1), on_a("p2", 2), on_a("p3", 3), pod("p4", "u-p4").at(4).on("b").ready()];
    let mut world = world(pods, &[1, 2, 3, 4]);
    world.taint("a", Some(DISRUPTED[0]));
    let at = world.wall();
    for write in world.marks() {
        assert_eq!(write.mark, Mark::Asked(Asked::early(at)));
        world.written_mark(&write, Ok(()));
    }
    for last in 1..=3 {
        world.apply(on_a(&format!("p{last}"), last).leaving(early(at)));
    }
    for _ in 0..90 {
        world.wait(Duration::from_secs(1));
        for check in world.checks() {
            world.allowed(&check, 1);
        }
        world.all_marked();
    }
    let removed: usize = world.changes().iter().filter(|change| change.starts_with('-')).count();
    assert_eq!(removed, 1, "{:?}", world.changes());
    assert_eq!(world.said(), [Reason::NodeDisrupted]);
}

#[test]
fn what_went_with_a_dying_node_counts_for_the_budgets_of_the_others() {
    let pods =
        vec![held("p1", 1), pod("p2", "u-p2").at(2).on("b").ready(), pod("p3", "u-p3").at(3).on("b").ready()];
    let mut world = world(pods, &[1, 2, 3]);
    world.taint("a", Some(DYING[0]));
    world.answer_all();
    let at = world.wall();
    world.apply(pod("p2", "u-p2").at(2).on("b").ready().leaving(LeavingFacts::asked(at, at)));
    assert_eq!(world.check_of("p2").departing.len(), 1);
}

#[test]
fn the_last_healthy_target_stays_until_its_eviction_is_asked_for() {
    let mut world = world(vec![on_a("plain", 2)], &[2]);
    let seen = [(2, HEALTHY), (3, HealthState::Unhealthy)];
    world.apply(pod("sick", "u-sick").at(3).on("b"));
    world.reads(&seen);
    world.taint("a", Some(DISRUPTED[0]));
    let at = world.wall();
    assert_eq!(world.marks_and_shows(&on_a("plain", 2)), Mark::Asked(Asked::early(at)));
    for _ in 0..20 {
        let marks = world.all_marked();
        let waits = |mark: &Mark| matches!(mark, Mark::Waits { reason: Cause::LastHealthyTarget, .. });
        assert!(marks.iter().all(|(_, mark)| waits(mark)), "{marks:?}");
        world.reads(&seen);
    }
    assert_eq!((world.checks(), world.said()), (vec![], vec![]), "however long that takes");
    let waits = Some((world.wall(), Cause::LastHealthyTarget));
    world.apply(on_a("plain", 2).leaving(LeavingFacts { waits, ..early(at) }));
    let explained = world.engine.explain(&ObjectKey::new(NAMESPACE, "plain"), world.now);
    let waits = explained.places[0].next.as_ref().and_then(|next| next.waits.as_ref());
    assert_eq!(waits.map(|(reason, _)| *reason), Some(Reason::RemovalHeld));
    // A client requests the eviction.
    let Ruling::Wait { mark: Some(mark), .. } = world.asks("plain") else { panic!("it passed") };
    let asked = early(at).with(mark).unwrap();
    assert!(!asked.ask.early);
    world.apply(on_a("plain", 2).leaving(asked));
    let mut checks = Vec::new();
    for _ in 0..8 {
        world.all_marked();
        world.reads(&seen);
        checks.extend(world.checks());
    }
    assert_eq!(checks.len(), 1, "when its zone has waited for long enough");
}

#[test]
fn when_the_sign_has_gone_everything_is_put_back_at_once() {
    let mut world = world(vec![held("held", 1), on_a("plain", 2), on_a("two", 3)], &[1, 2, 3]);
    world.taint("a", Some(DISRUPTED[0]));
    let at = world.wall();
    world.all_marked();
    let plain = on_a("plain", 2).leaving(early(at));
    world.apply(plain.clone());
    let check = world.check_of("plain");
    world.checked(&check, Ok(no_budget()));
    world.answer_all();
    let out = plain.leaving(LeavingFacts { deregistered: Some((world.wall(), BOUND)), ..early(at) });
    world.all_marked();
    world.apply(out);
    world.taint("a", None);
    let write = world.mark_of("plain");
    assert_eq!(write.mark, Mark::Stays);
    world.written_mark(&write, Ok(()));
    world.apply(on_a("plain", 2));
    assert_eq!(
        (world.changes(), world.causes()),
        (vec!["+blue 10.0.0.2:80".to_owned()], vec![Cause::NodeStays])
    );
    assert_eq!(world.said(), [Reason::NodeDisrupted, Reason::RegisteredAgain]);
    // A dying node that remains after all behaves in the same way.
    world.healthy(&[1, 2, 3]);
    world.taint("a", Some(DYING[0]));
    world.healthy(&[]);
    world.taint("a", None);
    assert_eq!(world.causes(), [Cause::NodeStays; 3]);
}

#[test]
fn a_pod_that_starts_on_a_marked_node_is_registered() {
    for taint in [DYING[0], DISRUPTED[0]] {
        let mut world = world(vec![on_a("plain", 2), pod("other", "u-other").at(3).on("b")], &[2, 3]);
        world.apply(pod("waits", "u-waits").on("a"));
        world.taint("a", Some(taint));
        world.answer_all();
        world.marks();
        world.apply(pod("waits", "u-waits").on("a").at(4));
        assert_eq!(world.changes(), ["+blue 10.0.0.4:80"], "{taint}: it had no address yet");
        world.answer_all();
        let now = i64::try_from(world.wall().elapsed().as_secs()).unwrap();
        world.apply(on_a("new", 5).created(now + 1));
        assert_eq!(world.changes(), ["+blue 10.0.0.5:80"], "{taint}: it was made afterwards");
        assert_eq!(world.marks(), []);
    }
}

#[test]
fn a_pod_that_is_seen_late_was_there_before_its_node_was_marked() {
    let mut world = world(vec![pod("other", "u-other").at(3).on("b")], &[3]);
    world.taint("a", Some(DYING[0]));
    world.apply(on_a("old", 2).created(1));
    assert_eq!(world.changes(), [""; 0], "it is not registered to begin with");
    assert_eq!(
        world.engine.explain(&ObjectKey::new(NAMESPACE, "old"), world.now).places[0].word.0,
        Reason::NodeDying
    );
}

#[test]
fn a_new_leader_goes_on_from_what_is_written_and_knows_the_marked_nodes() {
    let mut world = world(vec![on_a("plain", 2), on_a("two", 3)], &[2, 3]);
    world.step(Input::Leadership(Leadership::Standby));
    world.taint("a", Some(DISRUPTED[0]));
    assert_eq!(world.marks(), [], "the leader asks");
    let at = world.wall();
    world.apply(on_a("plain", 2).leaving(early(at)));
    world.step(Input::Leadership(Leadership::Leading { term: 1, is_settled: true }));
    let mut asked = Vec::new();
    for _ in 0..2 {
        world.healthy(&[2, 3]);
        asked.extend(world.all_marked());
    }
    assert!(
        asked
            .iter()
            .any(|(pod, mark)| pod == "two" && matches!(mark, Mark::Asked(Asked { early: true, .. }))),
        "{asked:?}"
    );
    assert!(world.checks().iter().any(|check| &*check.pod.name == "plain"));
}

#[test]
fn a_node_that_is_not_listed_yet_is_none_that_stays() {
    let mut world = World::new(vec![web()], vec![on_a("plain", 2)]);
    let at = world.wall();
    world.apply(on_a("plain", 2).leaving(LeavingFacts { deregistered: Some((at, BOUND)), ..early(at) }));
    world.answer_all();
    let stays = ("plain".to_owned(), Mark::Stays);
    assert!(!world.all_marked().contains(&stays));
    world.taint("a", None);
    assert!(world.all_marked().contains(&stays));
}

#[test]
fn what_is_done_early_waits_for_aws_as_long_as_it_takes() {
    let mut world = world(vec![on_a("plain", 2), on_a("two", 3)], &[2, 3]);
    let at = world.wall();
    world.taint("a", Some(DYING[0]));
    world.all_marked();
    world.apply(on_a("plain", 2).leaving(early(at)));
    for _ in 0..60 {
        world.wait(Duration::from_secs(2));
        world.refuse_changes(FailureClass::Unavailable);
        let marks = world.marks();
        assert!(
            marks.iter().all(|write| matches!(write.mark, Mark::Asked(Asked { early: true, .. }))),
            "{marks:?}"
        );
    }
    // From here on, a client waits for the eviction.
    let asked = LeavingFacts::asked(world.wall(), world.wall());
    world.apply(on_a("plain", 2).leaving(asked));
    assert!(!world.marks().iter().any(|write| matches!(write.mark, Mark::MayGo { .. })));
    let mut let_go = false;
    for _ in 0..32 {
        world.wait(Duration::from_secs(2));
        world.refuse_changes(FailureClass::Unavailable);
        let late = |write: &Sent<MarkWrite>| {
            matches!(write.mark, Mark::MayGo { reason: Cause::DeregistrationTooSlow, .. })
        };
        let_go |= world.marks().iter().any(late);
    }
    assert!(let_go);
}

#[test]
fn that_a_pod_cannot_be_asked_is_told_once() {
    let mut world = world(vec![on_a("plain", 2), on_a("two", 3)], &[2, 3]);
    world.apply(on_a("two", 3).terminating());
    world.answer_all();
    world.taint("a", Some(DISRUPTED[0]));
    for _ in 0..3 {
        let write = world.mark_of("plain");
        world.written_mark(&write, Err(fails(FailureClass::Denied, "no")));
        assert_eq!(world.marks(), [], "not at once");
        world.wait(Duration::from_secs(2));
    }
    assert_eq!(world.said(), [Reason::EvictionUnsafe]);
}

#[test]
fn nothing_is_asked_for_where_nothing_may_be_written() {
    let settings = Settings { read_only: true, ..cluster_wide() };
    let mut world = World::with(settings);
    world.relist_services(vec![web()]);
    world.relist_pods(vec![on_a("plain", 2)]);
    world.answer_all();
    world.taint("a", None);
    world.taint("a", Some(DISRUPTED[0]));
    world.taint("a", Some(DYING[0]));
    assert_eq!((world.marks(), world.said()), (vec![], vec![]));
}

#[test]
fn what_went_with_a_node_that_stays_after_all_is_not_said_to_be_out() {
    let mut world = world(vec![on_a("plain", 2)], &[2]);
    world.taint("a", Some(DYING[0]));
    let at = world.wall();
    assert_eq!(world.marks_and_shows(&on_a("plain", 2)), Mark::Asked(Asked::early(at)));
    world.answer_all();
    let marks = world.marks();
    assert!(matches!(marks[0].mark, Mark::Deregistered { .. }), "{marks:?}");
    world.written_mark(&marks[0], Err(fails(FailureClass::Unavailable, "no answer")));
    world.taint("a", Some(DISRUPTED[0]));
    world.wait(Duration::from_secs(3));
    let out = |mark: &Sent<MarkWrite>| matches!(mark.mark, Mark::Deregistered { .. });
    assert!(!world.marks().iter().any(out), "it is a target again");
    assert_eq!(world.changes(), ["+blue 10.0.0.2:80"]);
}

#[test]
fn a_pod_without_an_address_is_not_forgotten_when_its_node_is_to_be_drained_and_not_to_die() {
    let mut world = world(vec![on_a("plain", 2)], &[2]);
    world.taint("a", Some(DYING[0]));
    world.all_marked();
    world.answer_all();
    world.apply(pod("plain", "u-plain").on("a"));
    world.taint("a", Some(DISRUPTED[0]));
    world.apply(on_a("plain", 3));
    assert_eq!(world.changes().last().unwrap(), "+blue 10.0.0.3:80");
}

#[test]
fn that_a_pod_is_to_leave_early_is_written_again_later_and_says_the_same() {
    let mut world = world(vec![on_a("plain", 2)], &[2]);
    world.taint("a", Some(DISRUPTED[0]));
    let at = world.wall();
    let mut written = Vec::new();
    for _ in 0..21 {
        for write in world.marks() {
            written.push((world.wall().since(at).as_secs(), write.mark));
            world.written_mark(&write, Ok(()));
        }
        world.wait(Duration::from_secs(1));
    }
    let asked = Mark::Asked(Asked::early(at));
    assert_eq!(written, [(0, asked), (10, asked), (20, asked)], "the watch shows it late");
}

#[test]
fn whose_eviction_is_asked_for_does_not_leave_for_its_node() {
    let plain = on_a("plain", 2);
    let mut world = world(vec![plain.clone(), pod("other", "u-other").at(3).on("b")], &[2, 3]);
    world.taint("a", Some(DISRUPTED[0]));
    world.marks_and_shows(&plain);
    let checks = world.checks();
    world.apply(plain.leaving(LeavingFacts::asked(world.wall(), world.wall())));
    world.checked(&checks[0], Ok(no_budget()));
    assert_eq!((world.changes(), world.said()), (vec!["-blue 10.0.0.2:80".to_owned()], vec![]));
}

#[test]
fn that_a_node_stays_is_not_said_of_a_pod_that_had_not_left() {
    let plain = on_a("plain", 2);
    let mut world = world(vec![plain.clone(), pod("other", "u-other").at(3).on("b")], &[2, 3]);
    world.taint("a", Some(DISRUPTED[0]));
    assert!(matches!(world.marks_and_shows(&plain), Mark::Asked(_)));
    world.taint("a", None);
    assert_eq!((world.changes(), world.said()), (vec![], vec![]));
}

/// The number of deleted nodes that still have pods.
fn nodes_gone(world: &World) -> usize {
    world.engine.nodes_that_go().filter(|(_, fate)| *fate == Fate::Deleted).count()
}
