//! What is not done at once, although it seems to be due.

use super::*;

fn pods(count: u8) -> Vec<PodBuilder> {
    (1..=count).map(|last| pod(&format!("p{last}"), &format!("{last}")).at(last)).collect()
}

fn relists(world: &World) -> usize {
    world.views.iter().filter(|effect| matches!(effect, Effect::Relist(Scope::Cluster))).count()
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
    assert_eq!(world.reasons(), [Reason::PodMissing; 3]);
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
    assert_eq!(world.reasons(), [Reason::BindingRemoved]);
}

#[test]
fn a_service_that_is_made_again_without_the_annotation_loses_its_targets() {
    let mut world = World::new(vec![web()], pods(1));
    world.service(Change::Deleted(web().build()));
    world.annotate(service("web").port("http", 80));
    assert_eq!(world.changes(), ["-blue 10.0.0.1:80"]);
}
