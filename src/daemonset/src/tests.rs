//! Tests of the whole controller for cases that the simulation does not cover.

mod large;

use std::{sync::Arc, time::Duration};

use headgate_core::model::{Change, Labels, Moment, ObjectKey, Scope, Uid, WallTime};

use super::{Daemonsets, Input};
use crate::model::{
    Amount, BudgetFacts, Owner, Placement, Remembered, RevisionFacts, SetFacts, SetNode, SetPod, SetSpec,
    Strategy,
    ask::{Ask, Asked, Outcome},
    plan::Why,
    status::Roll,
};

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("ingress", name)
}

fn at(seconds: u64) -> Moment {
    Moment::after_start(Duration::from_secs(seconds))
}

fn wall(seconds: u64) -> WallTime {
    WallTime::since_1970(Duration::from_secs(seconds))
}

fn owner() -> Owner {
    Owner { name: "edge".into(), uid: Uid::new("s1") }
}

pub fn set() -> SetFacts {
    let remembered =
        Remembered { current: Some("a".into()), update: Some("a".into()), ..Remembered::default() };
    SetFacts {
        key: key("edge"),
        uid: Uid::new("s1"),
        version: "1".into(),
        generation: 1,
        deleting: false,
        spec: SetSpec {
            pods_per_node: 1,
            revision: "a".into(),
            placement: Placement::default(),
            strategy: Strategy::RollingUpdate { surge: 1, unavailable: 0 },
            nodes_at_once: Amount::Number(1),
            deadline: Duration::from_secs(600),
            handshake: None,
            min_ready: Duration::ZERO,
            history: 1,
            paused: false,
            may_miss: None,
            labels: Labels::from_iter([("app", "edge")]),
        },
        remembered,
        beyond: None,
    }
}

fn pod(name: &str, revision: &str, node: &str) -> SetPod {
    SetPod {
        key: key(name),
        uid: Uid::new(format!("u-{name}")),
        version: "1".into(),
        controller: Some(owner()),
        set: Some("edge".into()),
        revision: revision.into(),
        node: node.into(),
        scheduled: true,
        created: wall(0),
        terminating: false,
        finished: false,
        ready: Some(wall(1)),
    }
}

fn revision(name: &str, number: i64) -> RevisionFacts {
    RevisionFacts {
        key: key(&format!("edge-{name}")),
        uid: Uid::new(format!("r-{name}")),
        controller: Some(owner()),
        set: Some("edge".into()),
        revision: name.into(),
        number,
    }
}

/// A set, and all requests that the controller sent for the set.
struct Played {
    machine: Daemonsets,
    asked: Vec<Asked>,
    now: u64,
}

impl Played {
    fn new(set: SetFacts, nodes: &[&str], pods: Vec<SetPod>, revisions: Vec<RevisionFacts>) -> Self {
        let node = |name: &&str| SetNode { name: (*name).into(), ready: true, ..SetNode::default() };
        let nodes = nodes.iter().map(node).collect();
        let mut played = Self { machine: Daemonsets::new(&[Scope::Cluster]), asked: Vec::new(), now: 100 };
        played.step(Input::Set(Change::Relisted(Scope::Cluster, vec![set])));
        played.step(Input::Pod(Change::Relisted(Scope::Cluster, pods)));
        played.step(Input::Revision(Change::Relisted(Scope::Cluster, revisions)));
        played.step(Input::Budget(Change::Relisted(Scope::Cluster, Vec::new())));
        assert_eq!(played.asked, [], "not all is listed");
        played.step(Input::Node(Change::Relisted(Scope::Cluster, nodes)));
        played
    }

    fn step(&mut self, input: Input) {
        self.asked.extend(self.machine.step(input, at(self.now), wall(self.now)));
    }

    fn pass(&mut self, seconds: u64) {
        self.now += seconds;
        self.step(Input::Passed);
    }

    /// Returns the requests since the last call, except status writes.
    fn asks(&mut self) -> Vec<Ask> {
        let asked = std::mem::take(&mut self.asked);
        asked.into_iter().map(|asked| asked.ask).filter(|ask| !matches!(ask, Ask::Write { .. })).collect()
    }

    /// Answers the only request, and applies the effects of the answer.
    fn answer(&mut self, outcome: Outcome) -> Ask {
        let mut asked = std::mem::take(&mut self.asked);
        asked.retain(|asked| !matches!(asked.ask, Ask::Write { .. }));
        let [Asked { id, ask, .. }] = &asked[..] else { panic!("{asked:?}") };
        self.step(Input::Answered(*id, outcome));
        ask.clone()
    }
}

fn made(ask: &Ask) -> (&str, &str, &str) {
    match ask {
        Ask::Make { name, node, revision } => (name, node, revision),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_first_pods_are_made_when_their_template_is_kept() {
    let fresh = SetFacts { remembered: Remembered::default(), ..set() };
    let mut played = Played::new(fresh, &["n1"], Vec::new(), Vec::new());
    assert!(matches!(
        &played.asked[..],
        [Asked { ask: Ask::KeepRevision { number: 1, .. }, .. }, Asked { ask: Ask::Write { .. }, .. }]
    ));
    played.asked.clear();
    played.step(Input::Set(Change::Applied(SetFacts { version: "2".into(), ..set() })));
    assert_eq!(played.asks(), [], "there is nothing to make them from yet");
    played.step(Input::Revision(Change::Applied(revision("a", 1))));
    let asks = played.asks();
    assert_eq!(asks.len(), 1);
    let (name, node, revision) = made(&asks[0]);
    assert!(name.starts_with("edge-") && name.ends_with("-0"), "{name}");
    assert_eq!((node, revision), ("n1", "a"));
}

#[test]
fn pods_are_made_faster_as_long_as_that_succeeds_and_slower_when_it_does_not() {
    let nodes: Vec<String> = (0..20).map(|at| format!("n{at}")).collect();
    let nodes: Vec<&str> = nodes.iter().map(String::as_str).collect();
    let mut played = Played::new(set(), &nodes, Vec::new(), vec![revision("a", 1)]);
    let mut at_once = Vec::new();
    for round in 0..4 {
        let asked: Vec<Asked> = std::mem::take(&mut played.asked)
            .into_iter()
            .filter(|asked| !matches!(asked.ask, Ask::Write { .. }))
            .collect();
        at_once.push(asked.len());
        for (nth, asked) in asked.into_iter().enumerate() {
            let uid = Uid::new(format!("u{round}-{nth}"));
            played.step(Input::Answered(asked.id, Outcome::Done(Some(uid))));
        }
    }
    assert_eq!(at_once, [1, 2, 4, 8]);
    let asked = std::mem::take(&mut played.asked);
    for asked in asked.into_iter().filter(|asked| !matches!(asked.ask, Ask::Write { .. })) {
        played.step(Input::Answered(asked.id, Outcome::Refused("exceeded quota".into())));
    }
    played.asked.clear();
    played.step(Input::Passed);
    assert_eq!(played.asks(), []);
    let status = played.machine.statuses().next().unwrap().2;
    assert_eq!(status.refused.as_deref(), Some("exceeded quota"));
    played.pass(1);
    assert!(played.machine.due().0.is_some());
    assert_eq!(played.asks().len(), 1, "one, to see whether it is over");
}

#[test]
fn that_pods_are_refused_is_over_when_none_is_wanted_any_more() {
    let refused = |played: &Played| played.machine.statuses().next().unwrap().2.refused.clone();
    let mut new = set();
    new.spec.revision = "b".into();
    new.remembered.update = Some("b".into());
    new.remembered.turns.insert("n1".into(), wall(90));
    let pods = vec![pod("edge-x-0", "a", "n1")];
    let mut played = Played::new(new, &["n1"], pods, vec![revision("a", 1), revision("b", 2)]);
    let asked = played.answer(Outcome::Refused("no image".into()));
    assert!(matches!(asked, Ask::Make { .. }), "{asked:?}");
    assert_eq!(refused(&played).as_deref(), Some("no image"));
    played.step(Input::Set(Change::Applied(SetFacts { version: "3".into(), ..set() })));
    assert_eq!(refused(&played), None, "the set has gone back to what its pods have");
}

#[test]
fn a_node_whose_pods_end_by_themselves_gets_the_next_one_later_each_time() {
    let mut ended = pod("edge-x-0", "a", "n1");
    ended.finished = true;
    let mut played = Played::new(set(), &["n1"], vec![ended.clone()], vec![revision("a", 1)]);
    let asked = played.answer(Outcome::Done(None));
    assert!(matches!(asked, Ask::Delete { why: Why::Finished, .. }));
    played.step(Input::Pod(Change::Deleted(ended)));
    assert_eq!(played.asks(), [], "not at once");
    played.pass(1);
    assert_eq!(played.asks().len(), 1);
}

#[test]
fn the_budget_of_a_set_of_this_name_whose_pods_were_to_stay_is_taken_over_and_no_second_one_made() {
    let mut with_budget = set();
    with_budget.spec.may_miss = Some(Amount::Percent(25));
    let mut played =
        Played::new(with_budget, &["n1"], vec![pod("edge-x-0", "a", "n1")], vec![revision("a", 1)]);
    played.asks();
    let left = BudgetFacts {
        key: key("headgate-edge"),
        uid: Uid::new("b"),
        controller: None,
        set: Some("edge".into()),
        selector: Vec::new(),
        min_available: Some(7),
        beyond: None,
    };
    played.step(Input::Budget(Change::Relisted(Scope::Cluster, vec![left.clone()])));
    let adopt = Ask::AdoptBudget { name: "headgate-edge".into(), uid: Uid::new("b") };
    assert_eq!(played.answer(Outcome::Done(None)), adopt);
    played.step(Input::Budget(Change::Applied(BudgetFacts { controller: Some(owner()), ..left })));
    assert_eq!(played.asks(), [Ask::KeepBudget { least: 0, uid: Some(Uid::new("b")) }]);
}

#[test]
fn the_name_of_a_pod_that_is_let_go_is_not_waited_for() {
    let mut empty = Played::new(set(), &["n1"], Vec::new(), vec![revision("a", 1)]);
    let name = made(&empty.answer(Outcome::Done(None))).0.to_owned();
    for release_first in [true, false] {
        let mut played = Played::new(set(), &["n1"], vec![pod(&name, "a", "n1")], vec![revision("a", 1)]);
        played.step(Input::Pod(Change::Deleted(pod(&name, "a", "n1"))));
        let mut asked = std::mem::take(&mut played.asked);
        asked.retain(|asked| !matches!(asked.ask, Ask::Write { .. }));
        let [release, make] = &asked[..] else { panic!("{asked:?}") };
        assert!(matches!(release.ask, Ask::Release { .. }) && made(&make.ask).0 == name, "{asked:?}");
        let mut answers = [(release.id, Outcome::Done(None)), (make.id, Outcome::Exists)];
        if !release_first {
            answers.reverse();
        }
        for (id, outcome) in answers {
            played.step(Input::Answered(id, outcome));
        }
        let asks = played.asks();
        assert!(asks.len() == 1 && made(&asks[0]).0 != name, "another name, at once: {asks:?}");
    }
}

#[test]
fn where_pods_are_to_be_taken_over_nothing_else_is_done_before() {
    let orphan = |name, revision, node| SetPod { controller: None, ..pod(name, revision, node) };
    let pods =
        vec![orphan("edge-x-0", "a", "n1"), orphan("edge-y-0", "a", "n2"), orphan("edge-y-1", "a", "n2")];
    let mut played = Played::new(set(), &["n1", "n2", "n3"], pods, vec![revision("a", 1)]);
    let asks = played.asks();
    let adopted = asks.iter().filter(|ask| matches!(ask, Ask::Adopt { .. })).count();
    let others: Vec<&Ask> = asks.iter().filter(|ask| !matches!(ask, Ask::Adopt { .. })).collect();
    assert_eq!(adopted, 3);
    let [other] = others[..] else { panic!("{others:?}") };
    assert_eq!(made(other).1, "n3", "{other:?}");
}

#[test]
fn a_pod_that_has_lost_its_label_is_let_go_and_one_that_ends_is_not_asked_for() {
    let pods = vec![pod("edge-x-0", "a", "n1"), pod("edge-x-1", "a", "n2")];
    let mut played = Played::new(set(), &["n1", "n2"], pods.clone(), vec![revision("a", 1)]);
    let ended = SetPod { terminating: true, ..pods[0].clone() };
    played.step(Input::Pod(Change::Applied(ended.clone())));
    played.step(Input::Pod(Change::Deleted(ended)));
    played.step(Input::Pod(Change::Deleted(pods[1].clone())));
    let asks = played.asks();
    let let_go: Vec<&Ask> = asks.iter().filter(|ask| matches!(ask, Ask::Release { .. })).collect();
    assert_eq!(let_go, [&Ask::Release { name: "edge-x-1".into(), uid: Uid::new("u-edge-x-1") }]);
    played.pass(120);
    assert!(!played.asks().iter().any(|ask| matches!(ask, Ask::Release { .. })), "once");
}

#[test]
fn a_pod_with_the_label_and_without_an_owner_is_adopted_and_one_without_the_label_let_go() {
    let orphan = SetPod { controller: None, ..pod("edge-x-0", "a", "n1") };
    let relabelled = SetPod { set: Some("other".into()), ..pod("edge-x-1", "a", "n1") };
    let mut played = Played::new(set(), &["n1"], vec![orphan, relabelled], vec![revision("a", 1)]);
    let asks = played.asks();
    let adopt = Ask::Adopt { name: "edge-x-0".into(), uid: Uid::new("u-edge-x-0") };
    let release = Ask::Release { name: "edge-x-1".into(), uid: Uid::new("u-edge-x-1") };
    assert!(asks.contains(&adopt) && asks.contains(&release), "{asks:?}");
}

#[test]
fn going_back_to_an_older_revision_keeps_the_pods_that_have_it() {
    let mut back = set();
    back.remembered = Remembered {
        current: Some("a".into()),
        update: Some("b".into()),
        turns: [(Arc::from("n1"), wall(90))].into(),
    };
    let pods = vec![pod("edge-x-0", "b", "n1"), pod("edge-y-0", "a", "n2")];
    let revisions = vec![revision("a", 1), revision("b", 2)];
    let mut played = Played::new(back.clone(), &["n1", "n2"], pods, revisions);
    assert_eq!(
        played.asks(),
        [Ask::RenumberRevision { name: "edge-a".into(), uid: Uid::new("r-a"), number: 3 }]
    );
    back.version = "2".into();
    back.remembered.update = Some("a".into());
    played.step(Input::Set(Change::Applied(back)));
    let asks = played.asks();
    let [ask] = &asks[..] else { panic!("{asks:?}") };
    assert_eq!(made(ask).1, "n1", "the other node has what it should");
}

#[test]
fn old_revisions_go_but_for_the_newest_that_are_kept() {
    let revisions = vec![revision("x", 1), revision("y", 2), revision("a", 3)];
    let mut played = Played::new(set(), &["n1"], vec![pod("edge-x-0", "a", "n1")], revisions);
    assert_eq!(played.asks(), [Ask::DropRevision { name: "edge-x".into(), uid: Uid::new("r-x") }]);
}

#[test]
fn what_is_asked_once_is_not_asked_again_while_the_watch_is_behind() {
    let mut with_budget = set();
    with_budget.spec.may_miss = Some(Amount::Percent(25));
    let pods = vec![pod("edge-x-0", "a", "n1")];
    let mut played = Played::new(with_budget, &["n1"], pods, vec![revision("a", 1)]);
    assert_eq!(played.answer(Outcome::Done(None)), Ask::KeepBudget { least: 0, uid: None });
    played.pass(1);
    assert_eq!(played.asks(), []);
    played.step(Input::Budget(Change::Applied(BudgetFacts {
        key: key("edge"),
        uid: Uid::new("b"),
        controller: Some(owner()),
        set: Some("edge".into()),
        selector: Vec::new(),
        min_available: Some(0),
        beyond: None,
    })));
    played.pass(60);
    assert_eq!(played.asks(), []);
}

#[test]
fn a_name_that_somebody_else_has_is_let_alone_and_nobody_waits_for_what_is_past() {
    let mut played = Played::new(set(), &["n1"], Vec::new(), vec![revision("a", 1)]);
    let first = played.answer(Outcome::Exists);
    let is_later = |played: &Played| played.machine.due().0.is_some_and(|due| due > at(played.now));
    assert!(is_later(&played), "it may be a pod of its own, which the watch has not shown yet");
    played.pass(59);
    assert_eq!(played.asks(), []);
    played.pass(1);
    let asks = played.asks();
    assert_eq!(asks.len(), 1);
    assert_ne!(made(&asks[0]).0, made(&first).0);
    assert!(is_later(&played));
}

#[test]
fn a_set_that_is_being_deleted_is_left_to_the_garbage_collector() {
    let mut played = Played::new(SetFacts { deleting: true, ..set() }, &["n1"], Vec::new(), Vec::new());
    played.pass(60);
    assert_eq!(played.asked, []);
}

#[test]
fn the_status_says_how_far_it_is_and_counts_are_written_once_a_second() {
    let pods = vec![pod("edge-x-0", "a", "n1")];
    let mut played = Played::new(set(), &["n1"], pods, vec![revision("a", 1)]);
    let [Asked { id, ask: Ask::Write { version, status }, .. }] = &played.asked[..] else {
        panic!("{:?}", played.asked)
    };
    assert_eq!((&**version, status.roll, status.nodes, status.available), ("1", Roll::Done, 1, 1));
    let id = *id;
    played.asked.clear();
    played.step(Input::Answered(id, Outcome::Done(None)));
    played.step(Input::Set(Change::Applied(SetFacts { version: "2".into(), ..set() })));
    let not_ready = SetPod { ready: None, version: "2".into(), ..pod("edge-x-0", "a", "n1") };
    played.step(Input::Pod(Change::Applied(not_ready)));
    assert!(
        matches!(&played.asked[..], [Asked { ask: Ask::Write { .. }, .. }]),
        "the roll is another one now"
    );
}
