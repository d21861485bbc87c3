//! Tests of the state machine alone: a pod with an eviction request, and a pod whose node will be removed.

use std::{sync::Arc, time::Duration};

use super::*;
use crate::{
    binding::settle,
    index::{Index, Order},
    model::{
        Cause, Change, Fate, GroupRef, LeavingFacts, Moment, NodeFacts, Origin, PodFacts, RequestId,
        Resolution, Settled, Signals, WallTime,
        eviction::{Checked, Rules},
        leaving::{Asked, Mark},
        signal::DISRUPTED,
        target_group::GroupSettings,
        time::Window,
    },
    nodes::Nodes,
    requests::{Answer, Request},
    services::Services,
    targets::groups::Groups,
    testing::{PodBuilder, arn, group, pod, service},
};

/// The state machine and the data that it reads.
struct World {
    evictions: Evictions,
    index: Index,
    groups: Groups,
    services: Services,
    nodes: Nodes,
    now: Moment,
    ids: u64,
}

fn at(seconds: u64) -> Moment {
    Moment::after_start(Duration::from_secs(seconds))
}

fn wall(now: Moment) -> WallTime {
    WallTime::since_1970(Duration::from_secs(1_800_000_000)) + now.elapsed()
}

impl World {
    /// Creates an index in which the Service `web` binds its pods to `blue`. The health of the targets is unknown.
    fn new(pods: &[PodBuilder]) -> Self {
        let web = service("web").port("http", 80).annotated("http=blue").build();
        let origin = Origin::Service(web.key.clone());
        let blue = Arc::new(group("blue"));
        let found = |_: &GroupRef| Resolution::Found(blue.clone());
        let settled = settle(&origin, &web, &Settled::default(), found);
        let mut index = Index::new(Duration::ZERO, Duration::ZERO);
        index.set_bindings(&origin, &settled.bindings, Cause::BindingRemoved, at(0));
        let mut groups = Groups::new(GroupSettings {
            late: Duration::from_secs(30),
            replacement_grace: Duration::from_secs(300),
            holder_patience: Duration::from_secs(3600),
            dates_registrations: false,
            add_window: Window { idle: Duration::ZERO, most: Duration::ZERO },
            read_only: false,
            bounds: crate::model::Bounds::default(),
            seed: 1,
        });
        groups.make(&arn("blue")).registrations_mut().no_ledger();
        let services =
            Services::new(&crate::Settings { relist_patience: Duration::ZERO, ..crate::Settings::default() });
        let (evictions, nodes) = (Evictions::default(), Nodes::new(Signals::default(), Duration::ZERO));
        let mut world = Self { evictions, index, groups, services, nodes, now: at(1), ids: 0 };
        for pod in pods {
            world.pod(pod.clone());
        }
        world
    }

    fn around(&mut self) -> (&mut Evictions, Surroundings<'_>) {
        let Self { evictions, index, groups, services, nodes, now, .. } = self;
        let around =
            Surroundings::new((index, groups, services, nodes), Rules::default(), true, *now, wall(*now));
        (evictions, around)
    }

    fn pod(&mut self, pod: PodBuilder) {
        let change: Change<PodFacts> = Change::Applied(pod.build());
        let Change::Applied(facts) = &change else { return };
        let key = facts.key.clone();
        let (evictions, around) = self.around();
        let late = evictions.saw(&change, &around);
        self.index.apply(change, self.now);
        let (evictions, around) = self.around();
        evictions.follow(Followed::Pods(Some(&key), &late), &around);
    }

    /// Gives the node `n` this taint. `None`: removes the taint.
    fn taint(&mut self, taint: Option<&str>) -> Vec<Consequence> {
        let taints = taint.into_iter().map(Into::into).collect();
        let node = NodeFacts { name: "n".into(), taints, ..NodeFacts::default() };
        let nodes = self.nodes.apply(Change::Applied(node), self.now, wall(self.now)).unwrap_or_default();
        let (evictions, around) = self.around();
        evictions.follow(Followed::Nodes(&nodes), &around)
    }

    fn due(&mut self) -> Vec<(RequestId, Request)> {
        let mut ids = self.ids;
        let (evictions, around) = self.around();
        let next = || {
            ids += 1;
            RequestId(ids)
        };
        let (due, _) = evictions.due(next, &around);
        self.ids = ids;
        due
    }

    fn answered(&mut self, id: RequestId, answer: Answer) -> Option<Outcome> {
        let (evictions, around) = self.around();
        evictions.answered(id, Ok(answer), &around)
    }
}

fn web() -> PodBuilder {
    pod("web", "u-1").at(1).on("n")
}

fn no_budget() -> Answer {
    Answer::Checked(Checked { refused: None, budgets: Vec::new() })
}

#[test]
fn a_pod_that_is_asked_to_leave_is_checked_and_leaves() {
    let mut world = World::new(&[web()]);
    assert_eq!((world.evictions.next_due(), world.due()), (None, vec![]));
    let asked = LeavingFacts::asked(wall(world.now), wall(world.now));
    world.pod(web().leaving(asked));
    assert_eq!(world.evictions.next_due(), Some(world.now));
    let due = world.due();
    let [(id, Request::Check(check))] = &due[..] else { panic!("{due:?}") };
    assert_eq!(check.departing, [], "nobody else leaves");
    let leaves = Outcome::Leaves { pod: check.pod.clone(), node: None };
    assert_eq!(world.answered(*id, no_budget()), Some(leaves));
    assert_eq!(world.answered(*id, no_budget()), None, "it was answered");
    // The test applies the order in place of the engine. The decision is then written to the pod.
    world.index.order(&check.pod, Order::Leave(true), world.now);
    let due = world.due();
    let [(_, Request::Mark(write))] = &due[..] else { panic!("{due:?}") };
    assert!(matches!(write.mark, Mark::Deregistered { .. }), "AWS has nothing of it: {write:?}");
}

#[test]
fn a_pod_whose_node_is_disrupted_is_asked_to_leave_and_stays_with_its_node() {
    let mut world = World::new(&[web()]);
    let goes = world.taint(Some(DISRUPTED[0]));
    let [Consequence::Goes { pod, signal, is_target, .. }] = &goes[..] else { panic!("{goes:?}") };
    assert_eq!((&*pod.name, signal.fate, *is_target), ("web", Fate::Disrupted, true));
    let due = world.due();
    let [(id, Request::Mark(write))] = &due[..] else { panic!("{due:?}") };
    assert_eq!(write.mark, Mark::Asked(Asked::early(wall(world.now))));
    assert_eq!(world.answered(*id, Answer::Done), None);
    let stays = world.taint(None);
    let [Consequence::Stays { is_out, .. }] = &stays[..] else { panic!("{stays:?}") };
    assert!(!is_out, "it had not left");
}

#[test]
fn what_was_decided_and_is_not_written_down_is_known() {
    let mut world = World::new(&[web()]);
    world.pod(web().leaving(LeavingFacts::asked(wall(world.now), wall(world.now))));
    let due = world.due();
    let [(id, Request::Check(check))] = &due[..] else { panic!("{due:?}") };
    assert!(world.answered(*id, no_budget()).is_some());
    let pod = check.pod.clone();
    assert_eq!(world.evictions.decided(), (vec![pod], vec![]));
}
