//! Tests of the index alone. The inputs are pods and bindings, and the outputs are claimed targets.

use std::{sync::Arc, time::Duration};

use super::*;
use crate::{
    binding::settle,
    model::{GroupRef, LeavingFacts, Resolution, ServiceFacts, Settled, WallTime, leaving::Asked},
    testing::{NAMESPACE, PodBuilder, arn, group, pod, service, target},
};

const PATIENCE: Duration = Duration::from_secs(10);

fn at(seconds: u64) -> Moment {
    Moment::after_start(Duration::from_secs(seconds))
}

fn key() -> ObjectKey {
    ObjectKey::new(NAMESPACE, "a")
}

fn a() -> PodBuilder {
    pod("a", "u-a")
}

/// Binds the pods of a Service to `blue`.
fn bind(index: &mut Index, service: &ServiceFacts) {
    let origin = Origin::Service(service.key.clone());
    let blue = Arc::new(group("blue"));
    let found = |_: &GroupRef| Resolution::Found(blue.clone());
    let settled = settle(&origin, service, &Settled::default(), found);
    index.set_bindings(&origin, &settled.bindings, Cause::BindingRemoved, at(0));
}

/// Creates an index with the binding of the Service `web` and this pod.
fn index(pod: PodBuilder) -> Index {
    let mut index = Index::new(PATIENCE, PATIENCE);
    bind(&mut index, &service("web").port("http", 80).annotated("http=blue").build());
    apply(&mut index, pod, 1);
    index
}

fn apply(index: &mut Index, pod: PodBuilder, seconds: u64) {
    index.apply(Change::Applied(pod.build()), at(seconds));
}

/// The targets of `blue`.
fn targets(index: &Index) -> Vec<Target> {
    let blue = arn("blue");
    let bound = index.bindings().of_group(&blue);
    bound.flat_map(|binding| index.bindings().targets_of(&binding.key)).map(|(target, _)| *target).collect()
}

#[test]
fn when_a_pod_was_no_target_any_more_is_known_but_for_one_that_lost_its_address() {
    let mut index = index(a().at(1));
    assert_eq!((targets(&index), index.pods().left_at(&key())), (vec![target(1, 80)], None));
    apply(&mut index, a().at(2), 2);
    assert_eq!(targets(&index), [target(2, 80)]);
    assert_eq!(index.pods().left_at(&key()), None, "whoever is sent there finds nobody");
    apply(&mut index, a().at(2).labelled("other"), 3);
    assert_eq!((targets(&index), index.pods().left_at(&key())), (vec![], Some(at(3))));
    apply(&mut index, a().at(2).labelled("third"), 4);
    assert_eq!(index.pods().left_at(&key()), Some(at(3)), "it was none");
}

#[test]
fn a_pod_that_a_list_left_out_and_a_watch_shows_again_is_known_as_that() {
    for (gone, returned) in
        [(Change::Relisted(Scope::Cluster, vec![]), Some(at(3))), (Change::Deleted(a().at(1).build()), None)]
    {
        let mut index = index(a().at(1));
        assert_eq!(index.pods().returned_at(&key()), None);
        index.apply(gone, at(2));
        assert!(index.pods().get(&key()).is_none());
        apply(&mut index, a().at(1), 3);
        assert_eq!(index.pods().returned_at(&key()), returned);
    }
}

#[test]
fn what_is_decided_about_a_pod_is_known_of_it_alone() {
    let mut index = index(a().at(1));
    apply(&mut index, pod("b", "u-b").at(2), 1);
    assert!(!index.pods().leaves(&key()) && index.pods().apart().is_empty());
    index.order(&key(), Order::Leave(true), at(2));
    assert!(index.pods().leaves(&key()) && !index.pods().leaves(&ObjectKey::new(NAMESPACE, "b")));
    assert_eq!(index.pods().apart().into_keys().collect::<Vec<_>>(), [key()]);
    assert_eq!(targets(&index), [target(2, 80)]);
    index.order(&key(), Order::Leave(false), at(3));
    assert!(index.pods().apart().is_empty());
    assert_eq!(targets(&index), [target(1, 80), target(2, 80)]);
}

#[test]
fn a_pod_that_was_let_go_for_not_being_ready_is_let_go_until_it_is_ready_again() {
    let mut index = index(a().at(1).ready());
    let let_go = |index: &Index| index.pods().apart().get(&key()).is_some_and(|apart| apart.let_go);
    apply(&mut index, a().at(1), 2);
    index.pass(at(12));
    apply(&mut index, a().at(1).containers_ready(), 13);
    assert!(!let_go(&index), "nobody has decided that");
    index.order(&key(), Order::LetGo, at(14));
    apply(&mut index, a().at(1), 15);
    assert!(let_go(&index));
    apply(&mut index, a().at(1).ready(), 16);
    assert!(!let_go(&index));
}

#[test]
fn of_a_pod_that_is_seen_again_the_older_address_counts_first() {
    let mut index = index(a().at(1));
    // The status of each of the two pods shows the address. The pod that got the address last has it.
    apply(&mut index, pod("b", "u-b").at(1), 2);
    let owner =
        |index: &Index| index.pods().taken_by(&a().at(1).build()).map(|(pod, _)| pod.name.to_string());
    assert_eq!(owner(&index).as_deref(), Some("b"));
    apply(&mut index, a().at(2), 3);
    apply(&mut index, a().at(1), 4);
    assert_eq!(owner(&index), None, "it has got it since");
}

#[test]
fn a_pod_comes_back_for_the_reason_that_it_was_out() {
    let now = WallTime::since_1970(Duration::from_secs(100));
    let asked = LeavingFacts::asked(now, now);
    let early = LeavingFacts { ask: Asked::early(now), ..asked };
    for (leaving, cause) in [(asked, Cause::EvictionGivenUp), (early, Cause::NodeStays)] {
        let mut index = index(a().at(1).leaving(leaving));
        index.order(&key(), Order::Leave(true), at(2));
        assert_eq!(targets(&index), []);
        let changes = index.apply(Change::Applied(a().at(1).build()), at(3));
        let reasons: Vec<Cause> = changes.ownerships.iter().map(|ownership| ownership.cause).collect();
        assert_eq!((reasons, targets(&index)), (vec![cause], vec![target(1, 80)]));
    }
}

#[test]
fn what_pods_of_the_host_network_share_is_not_lost_with_one_of_them() {
    let host = |name: &str, last| pod(name, &format!("u-{name}")).at(last).host_network();
    let pods = || [host("a", 1), host("b", 1), host("c", 2), host("d", 2)];
    let list = |pods: &[PodBuilder]| {
        Change::Relisted(Scope::Cluster, pods.iter().map(|pod| pod.clone().build()).collect())
    };
    let mut index = index(host("a", 1));
    index.apply(list(&pods()), at(2));
    assert_eq!(targets(&index), [target(1, 80), target(2, 80)]);
    let changes = index.apply(list(&[host("b", 1), host("d", 2)]), at(3));
    assert_eq!((changes.relist, index.pods().count()), (None, 2));
    let changes = index.apply(list(&[]), at(4));
    assert_eq!((changes.relist, index.pods().count()), (Some(Scope::Cluster), 2), "that is doubted");
    assert_eq!(targets(&index), [target(1, 80), target(2, 80)]);
}

#[test]
fn a_pod_without_the_port_is_a_trouble_of_its_binding_until_it_has_it() {
    let web = service("web").port_named("http", 80, "web").annotated("http=blue").build();
    let mut index = Index::new(PATIENCE, PATIENCE);
    bind(&mut index, &web);
    apply(&mut index, a().at(1), 1);
    let binding = index.bindings().all().next().unwrap().key.clone();
    let trouble = crate::model::Trouble { binding, kind: TroubleKind::Unfit(Cause::NoSuchPort) };
    assert!(index.bindings().has_trouble(&trouble));
    assert_eq!(index.bindings().troubles().collect::<Vec<_>>(), [&trouble]);
    apply(&mut index, a().at(1).port("web", 8080), 2);
    assert!(!index.bindings().has_trouble(&trouble));
    assert_eq!((index.bindings().troubles().count(), targets(&index)), (0, vec![target(1, 8080)]));
}

#[test]
fn an_address_is_shared_by_pods_of_the_host_network_alone() {
    let host = || a().at(1).host_network();
    let mut index = index(host());
    let other = || pod("c", "u-c").at(1);
    let taken_by = |index: &Index, pod: PodBuilder| {
        index.pods().taken_by(&pod.build()).map(|(pod, cause)| (pod.name.to_string(), cause))
    };
    apply(&mut index, pod("b", "u-b").at(1).host_network(), 2);
    apply(&mut index, other(), 3);
    assert_eq!(taken_by(&index, host()), None);
    assert_eq!(taken_by(&index, other()), Some(("a".to_owned(), Cause::AddressContested)));
}
