//! Tests of actions that Headgate delays although they seem to be due.

use super::*;
use crate::model::{Labels, NodeFacts, Protocol, TargetPort, Texts, Uid, target_binding::Pods};

fn pods(count: u8) -> Vec<PodBuilder> {
    (1..=count).map(|last| pod(&format!("p{last}"), &format!("{last}")).at(last)).collect()
}

fn asked(world: &World, of: Watch) -> usize {
    let asks = |effect: &&Effect| matches!(effect, Effect::Relist(watch, Scope::Cluster) if *watch == of);
    world.views.iter().filter(asks).count()
}

fn relists(world: &World) -> usize {
    asked(world, Watch::Pods)
}

#[test]
fn a_list_without_most_of_a_bindings_pods_is_believed_only_when_a_second_one_says_the_same() {
    let mut world = World::new(vec![web()], pods(4));
    world.relist_pods(pods(1));
    assert_eq!((world.changes(), relists(&world)), (vec![], 1));
    world.relist_pods(pods(4));
    world.wait(Duration::from_secs(60));
    assert_eq!(world.changes(), [""; 0], "the first list was wrong");
    world.answer_all();
    world.relist_pods(pods(1));
    world.relist_pods(pods(1));
    assert_eq!(world.changes(), ["-blue 10.0.0.2:80 10.0.0.3:80 10.0.0.4:80"]);
    assert_eq!(world.causes(), [Cause::PodMissing; 3]);
}

#[test]
fn a_list_without_half_of_the_pods_or_a_single_one_is_believed() {
    let mut world = World::new(vec![web()], pods(4));
    world.relist_pods(pods(2));
    assert_eq!(world.changes(), ["-blue 10.0.0.3:80 10.0.0.4:80"]);
    world.answer_all();
    world.wait(Duration::from_secs(3));
    world.relist_pods(pods(1));
    assert_eq!(world.changes(), ["-blue 10.0.0.2:80"]);
    world.answer_all();
    world.wait(Duration::from_secs(3));
    world.relist_pods(pods(0));
    assert_eq!((world.changes(), relists(&world)), (vec!["-blue 10.0.0.1:80".into()], 0));
}

#[test]
fn a_list_without_more_than_half_of_the_pods_is_doubted() {
    let mut world = World::new(vec![web()], pods(5));
    world.relist_pods(pods(2));
    assert_eq!((world.changes(), relists(&world)), (vec![], 1));
}

#[test]
fn missing_pods_whose_address_another_one_has_taken_lose_the_binding_nothing() {
    let mut world = World::new(vec![web()], pods(2));
    let orphans = || vec![pod("q1", "q1").at(1), pod("q2", "q2").at(2)];
    for orphan in orphans() {
        world.apply(orphan);
    }
    world.answer_all();
    world.relist_pods(orphans());
    assert_eq!((world.changes(), relists(&world)), (vec![], 0));
}

#[test]
fn a_doubted_list_is_believed_after_a_while_and_meanwhile_a_word_about_a_pod_counts_at_once() {
    let mut world = World::new(vec![web()], pods(3));
    world.relist_pods(pods(0));
    world.apply(pod("p1", "1").at(1).terminating());
    assert_eq!(world.changes(), ["-blue 10.0.0.1:80"]);
    world.answer_all();
    world.wait(Duration::from_secs(3));
    world.delete(pod("p2", "2").at(2));
    assert_eq!(world.changes(), ["-blue 10.0.0.2:80"]);
    world.answer_all();
    world.wait(Duration::from_secs(30));
    assert_eq!(world.changes(), ["-blue 10.0.0.3:80"]);
}

#[test]
fn pods_that_a_list_shows_as_ending_are_removed_at_once() {
    let mut world = World::new(vec![web()], pods(4));
    world.relist_pods(pods(4).into_iter().map(PodBuilder::terminating).collect());
    assert_eq!((world.changes().len(), relists(&world)), (1, 0));
}

#[test]
fn a_service_that_is_made_again_soon_keeps_its_targets() {
    let ends: [fn(&mut World); 2] =
        [|w| w.service(Change::Deleted(web().build())), |w| w.relist_services(vec![])];
    for end in ends {
        let mut world = World::new(vec![web()], pods(2));
        end(&mut world);
        world.wait(Duration::from_secs(59));
        assert_eq!(world.changes(), [""; 0]);
        world.annotate(web());
        world.wait(2 * GRACE);
        assert_eq!(world.changes(), [""; 0]);
        world.answer_all();
    }
}

#[test]
fn the_targets_of_a_service_that_is_not_made_again_go_after_a_while_and_those_of_pods_that_end_at_once() {
    let mut world = World::new(vec![web()], pods(2));
    world.service(Change::Deleted(web().build()));
    world.apply(pod("p1", "1").at(1).terminating());
    assert_eq!(world.changes(), ["-blue 10.0.0.1:80"]);
    world.answer_all();
    assert!(world.engine.next_wakeup(world.now).is_some_and(|due| due <= world.now + GRACE));
    world.wait(GRACE);
    assert_eq!(world.changes(), ["-blue 10.0.0.2:80"]);
    assert_eq!(world.causes(), [Cause::BindingRemoved]);
}

#[test]
fn a_service_that_is_made_again_without_the_annotation_loses_its_targets() {
    let mut world = World::new(vec![web()], pods(1));
    world.service(Change::Deleted(web().build()));
    world.annotate(service("web").port("http", 80));
    assert_eq!(world.changes(), ["-blue 10.0.0.1:80"]);
}

#[test]
fn when_most_services_are_gone_they_are_listed_once_more_while_their_targets_stay() {
    let services = || ["web", "api", "db"].map(|name| service(name).port("http", 80).annotated("http=blue"));
    let ends: [fn(&mut World); 2] = [
        |world| world.relist_services(vec![]),
        |world| {
            for name in ["web", "api"] {
                world.service(Change::Deleted(service(name).build()));
            }
        },
    ];
    for end in ends {
        let mut world = World::new(services().to_vec(), pods(2));
        end(&mut world);
        assert_eq!((asked(&world, Watch::Services), world.changes()), (1, vec![]));
        world.relist_services(services().to_vec());
        world.wait(2 * GRACE);
        assert_eq!((asked(&world, Watch::Services), world.changes()), (1, vec![]));
    }
    let mut world = World::new(services().to_vec(), pods(2));
    world.service(Change::Deleted(web().build()));
    assert_eq!(asked(&world, Watch::Services), 0);
}

/// A kind of watched objects. Three objects exist, and object N makes 10.0.0.N a target.
struct Kind {
    watch: Watch,
    says: fn(Change<u8>, Moment) -> Input,
    world: fn() -> World,
    cause: Cause,
}

fn of<T>(change: Change<u8>, make: fn(u8) -> T) -> Change<T> {
    match change {
        Change::Applied(at) => Change::Applied(make(at)),
        Change::Deleted(at) => Change::Deleted(make(at)),
        Change::Relisted(scope, all) => Change::Relisted(scope, all.into_iter().map(make).collect()),
    }
}

fn binding(at: u8) -> BindingFacts {
    BindingFacts {
        key: ObjectKey::new(NAMESPACE, format!("b{at}")),
        uid: Uid::new(format!("b{at}")),
        group: "blue".into(),
        pods: Pods::Selected(
            Labels::from_iter([("app", &*format!("app-{at}"))]),
            TargetPort::Number(80),
            Protocol::Tcp,
        ),
        policy: Texts::default(),
        ending: false,
    }
}

fn namespace(at: u8) -> Arc<str> {
    if at == 1 { NAMESPACE.into() } else { format!("space-{at}").into() }
}

fn node(at: u8) -> NodeFacts {
    NodeFacts { name: format!("n{at}").into(), takes_pods: true, ..NodeFacts::default() }
}

const KINDS: [Kind; 3] = [
    Kind {
        watch: Watch::Bindings,
        says: |change, seen| Input::Binding { change: of(change, binding), seen },
        world: || {
            let pods = (1..=3).map(|at| pod(&format!("p{at}"), &format!("{at}")).at(at));
            World::new(vec![], pods.collect())
        },
        cause: Cause::BindingRemoved,
    },
    Kind {
        watch: Watch::Namespaces,
        says: |change, seen| Input::Namespace { change: of(change, namespace), seen },
        world: || {
            let mut world = World::with(Settings { namespaces_are_selected: true, ..cluster_wide() });
            let elsewhere = |at: u8| {
                let web = web().build();
                ServiceFacts { key: ObjectKey::new(namespace(at), web.key.name.clone()), ..web }
            };
            world.service(Change::Relisted(Scope::Cluster, (1..=3).map(elsewhere).collect()));
            let pods = (1..=3).map(|at| {
                let pod = pod(&format!("p{at}"), &format!("{at}")).at(at).build();
                PodFacts { key: ObjectKey::new(namespace(at), pod.key.name.clone()), ..pod }
            });
            world.pod(Change::Relisted(Scope::Cluster, pods.collect()));
            world
        },
        cause: Cause::NamespaceNotSelected,
    },
    Kind {
        watch: Watch::Nodes,
        says: |change, seen| Input::Node { change: of(change, node), seen },
        world: || {
            let pods =
                (1..=3).map(|at| pod(&format!("p{at}"), &format!("{at}")).at(at).on(&format!("n{at}")));
            World::new(vec![web()], pods.collect())
        },
        cause: Cause::NodeDeleted,
    },
];

impl Kind {
    /// Creates a `World` with all three objects and all three targets.
    fn ready(&self) -> World {
        let mut world = (self.world)();
        self.listed(&mut world, &[1, 2, 3]);
        if self.watch == Watch::Bindings {
            for at in 1..=3 {
                world.apply(pod(&format!("p{at}"), &format!("{at}")).at(at).labelled(&format!("app-{at}")));
            }
        }
        world.answer_all();
        world.answer_all();
        assert_eq!(world.changes(), [""; 0]);
        world
    }

    fn says(&self, world: &mut World, change: Change<u8>) {
        world.step((self.says)(change, world.now));
    }

    fn listed(&self, world: &mut World, list: &[u8]) {
        self.says(world, Change::Relisted(Scope::Cluster, list.to_vec()));
    }

    /// The removed targets. Asserts that each deregistration has the expected cause.
    fn removed(&self, world: &mut World) -> Vec<u8> {
        let all = world.open.iter().flat_map(|(_, call)| match call {
            Call::Deregister { items, .. } => items.clone(),
            _ => Vec::new(),
        });
        let all: Vec<CallItem> = all.collect();
        assert!(all.iter().all(|item| item.reason == self.cause), "{all:?}");
        let mut removed: Vec<u8> =
            (1..=3).filter(|at| all.iter().any(|item| item.target == target(*at, 80))).collect();
        removed.sort_unstable();
        world.answer_all();
        removed
    }
}

#[test]
fn that_most_are_missing_in_a_list_is_believed_when_a_second_one_says_the_same() {
    for kind in KINDS {
        let mut world = kind.ready();
        kind.listed(&mut world, &[1]);
        assert_eq!((kind.removed(&mut world), asked(&world, kind.watch)), (vec![], 1), "{:?}", kind.watch);
        kind.listed(&mut world, &[1, 2]);
        assert_eq!((kind.removed(&mut world), asked(&world, kind.watch)), (vec![3], 1), "{:?}", kind.watch);
        world.wait(Duration::from_secs(60));
        assert_eq!(kind.removed(&mut world), [0; 0], "{:?}", kind.watch);
    }
}

#[test]
fn that_most_are_missing_in_a_list_is_believed_after_half_a_minute() {
    for kind in KINDS {
        let mut world = kind.ready();
        kind.listed(&mut world, &[]);
        world.wait(Duration::from_secs(29));
        assert_eq!(kind.removed(&mut world), [0; 0], "{:?}", kind.watch);
        assert!(
            world.engine.next_wakeup(world.now).is_some_and(|due| due <= world.now + Duration::from_secs(1))
        );
        kind.says(&mut world, Change::Applied(3));
        world.wait(Duration::from_secs(1));
        assert_eq!(kind.removed(&mut world), [1, 2], "{:?}", kind.watch);
    }
}

#[test]
fn a_single_one_that_is_gone_takes_its_targets_along_at_once() {
    for kind in KINDS {
        let mut world = kind.ready();
        kind.says(&mut world, Change::Deleted(2));
        assert_eq!(kind.removed(&mut world), [2], "{:?}", kind.watch);
        world.wait(Duration::from_secs(10));
        kind.listed(&mut world, &[1]);
        assert_eq!((kind.removed(&mut world), asked(&world, kind.watch)), (vec![3], 0), "{:?}", kind.watch);
    }
}

#[test]
fn deletions_of_most_within_a_moment_take_one_away_and_await_a_list() {
    for kind in KINDS {
        let mut world = kind.ready();
        kind.says(&mut world, Change::Deleted(1));
        assert_eq!(kind.removed(&mut world), [1], "{:?}", kind.watch);
        world.wait(Duration::from_secs(2));
        kind.says(&mut world, Change::Deleted(2));
        kind.says(&mut world, Change::Deleted(3));
        assert_eq!((kind.removed(&mut world), asked(&world, kind.watch)), (vec![], 1), "{:?}", kind.watch);
        world.wait(Duration::from_secs(20));
        kind.listed(&mut world, &[3]);
        assert_eq!(kind.removed(&mut world), [2], "{:?}", kind.watch);
    }
}

#[test]
fn a_pod_that_ends_is_removed_at_once_whatever_is_in_doubt() {
    for kind in KINDS.into_iter().filter(|kind| kind.watch == Watch::Nodes) {
        let mut world = kind.ready();
        kind.listed(&mut world, &[]);
        world.apply(pod("p1", "1").at(1).on("n1").terminating());
        assert_eq!(world.causes(), [Cause::PodTerminating]);
    }
}

#[test]
fn what_is_in_doubt_is_said_as_long_as_it_is() {
    for (kind, says) in
        [(&KINDS[0], "lacks most TargetBindings"), (&KINDS[1], "lacks most selected namespaces")]
    {
        let mut world = kind.ready();
        kind.listed(&mut world, &[]);
        let doubts = world.notices.iter().filter(|notice| notice.reason == Reason::ListDoubted);
        let notes: Vec<&str> = doubts.map(|notice| &*notice.note).collect();
        assert!(notes.len() == 3 && notes.iter().all(|note| note.contains(says)), "{notes:?}");
        assert!(notes[0].contains("until a second list confirms it, at most 30 s"), "{notes:?}");
        world.notices.clear();
        kind.listed(&mut world, &[1, 2, 3]);
        let shown = world.views.iter().rev().find_map(|effect| match effect {
            Effect::Shows(Picture::Origin(view)) => Some(view.problems.len()),
            _ => None,
        });
        assert_eq!((shown, world.said()), (Some(0), vec![]));
    }
}

#[test]
fn a_deleted_binding_that_its_finalizer_keeps_leaves_at_once_and_so_do_others() {
    let kind = &KINDS[0];
    let mut world = kind.ready();
    for at in 1..=3 {
        world.written(Change::Applied(BindingFacts { ending: true, ..binding(at) }));
        assert_eq!(kind.removed(&mut world), [at]);
        world.wait(Duration::from_secs(3));
    }
    for at in 1..=3 {
        world.written(Change::Deleted(BindingFacts { ending: true, ..binding(at) }));
    }
    assert_eq!(asked(&world, Watch::Bindings), 0);
}

#[test]
fn what_is_in_doubt_is_explained_with_the_time_at_which_it_is_believed() {
    for (kind, says) in
        KINDS.iter().zip(["has the TargetBinding, or", "or its namespace", "has the pod's node"])
    {
        let mut world = kind.ready();
        kind.listed(&mut world, &[]);
        let mut explanation = world.engine.explain(&ObjectKey::new(NAMESPACE, "p1"), world.now);
        let next = explanation.places.remove(0).next.unwrap();
        assert_eq!(next.at, Some(world.now + Duration::from_secs(30)), "{:?}", kind.watch);
        let (reason, said) = next.waits.unwrap();
        assert!(reason == Reason::ListDoubted && said.contains(says), "{reason} {said}");
    }
}
