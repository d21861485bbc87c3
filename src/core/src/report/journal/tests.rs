use std::time::Duration;

use super::*;
use crate::{
    model::{Cause, HealthState, Notice, Owner, Reason, transition::TargetStep},
    testing::{arn, target},
};

fn at(seconds: u64) -> Moment {
    Moment::after_start(Duration::from_secs(seconds))
}

fn owner(namespace: &str, name: &str, uid: &str) -> Owner {
    Owner { pod: ObjectKey::new(namespace, name), uid: Uid::new(uid) }
}

fn step(owner: &Owner, step: TargetStep) -> Transition {
    Transition::Target(arn("blue"), target(1, 80), owner.clone(), step)
}

fn numbers(entries: &[&Entry]) -> Vec<u64> {
    entries.iter().map(|entry| entry.number).collect()
}

#[test]
fn what_became_of_a_pod_is_asked_for_by_its_name_when_it_is_long_gone() {
    let mut journal = Journal::new(100);
    let (web, other) = (owner("shop", "web-0", "u-1"), owner("shop", "web-1", "u-2"));
    let steps = [
        TargetStep::Wanted(Cause::PodHasIp),
        TargetStep::Registered,
        TargetStep::Shown(None, Some(HealthState::Healthy.into())),
        TargetStep::Unwanted(Cause::PodTerminating),
        TargetStep::Deregistered,
    ];
    for (second, of) in (1..).zip(steps) {
        assert!(journal.record(step(&web, of), at(second)));
        assert!(journal.record(step(&other, of), at(second)));
    }
    assert!(journal.record(Transition::Pod(web.clone(), PodStep::Gone), at(9)));
    let said = journal.of_pod(&web.pod, 100);
    assert_eq!(numbers(&said), [1, 3, 5, 7, 9, 11]);
    assert_eq!((said[5].at, &said[5].what), (at(9), &Transition::Pod(web.clone(), PodStep::Gone)));
    assert_eq!(numbers(&journal.of_pod(&web.pod, 2)), [9, 11], "the last ones, if there are more");
    assert!(journal.of_pod(&ObjectKey::new("other", "web-0"), 9).is_empty());
}

#[test]
fn the_pods_that_were_never_targets_leave_no_trace() {
    let mut journal = Journal::new(100);
    for step in [PodStep::Ended, PodStep::Gone, PodStep::Gate(crate::view::GateView::Open)] {
        assert!(!journal.record(Transition::Pod(owner("shop", "job", "u-9"), step), at(1)));
    }
    assert!(journal.is_empty() && journal.last() == 0);
}

#[test]
fn a_namespace_that_starts_pods_without_end_takes_nothing_from_another() {
    let mut journal = Journal::new(10);
    let quiet = owner("quiet", "web-0", "q");
    for of in [TargetStep::Wanted(Cause::PodHasIp), TargetStep::Registered] {
        journal.record(step(&quiet, of), at(1));
    }
    for pod in 0..1000 {
        let pod = owner("loud", &format!("web-{pod}"), &format!("u-{pod}"));
        journal.record(step(&pod, TargetStep::Wanted(Cause::PodHasIp)), at(2));
    }
    assert_eq!((journal.len(), journal.forgotten()), (10, 992));
    assert_eq!(numbers(&journal.of_pod(&quiet.pod, 9)), [1, 2]);
    assert_eq!(numbers(&journal.latest(Some("loud"), 3)), [1000, 1001, 1002]);
    assert_eq!(journal.pods.len(), 9, "of what is forgotten nothing is counted any more");
    assert!(!journal.record(Transition::Pod(owner("loud", "web-1", "u-1"), PodStep::Gone), at(3)));
}

#[test]
fn whoever_follows_it_gets_each_entry_once_and_in_order() {
    let mut journal = Journal::new(100);
    for number in 0..20 {
        let namespace = ["a", "b", "c"][number % 3];
        let about = About::Pod(ObjectKey::new(namespace, "web"), Uid::new(format!("{number}")));
        let notice = Notice { about, reason: Reason::NeverHealthy, note: String::new() };
        journal.record(Transition::Said(notice), at(1));
    }
    let (mut followed, mut last) = (Vec::new(), 0);
    loop {
        let next = numbers(&journal.after(last, None, 3));
        let Some(newest) = next.last() else { break };
        last = *newest;
        followed.extend(next);
    }
    assert_eq!(followed, (1..=20).collect::<Vec<_>>());
    assert_eq!(numbers(&journal.after(10, Some("a"), 2)), [13, 16]);
    assert_eq!(numbers(&journal.latest(None, 4)), [17, 18, 19, 20]);
}

#[test]
fn it_knows_since_when_this_replica_leads_and_what_was_said_of_a_node() {
    let mut journal = Journal::new(100);
    assert_eq!(journal.leads_since(), None);
    journal.record(Transition::Leads(true), at(3));
    journal.record(Transition::Node("n-1".into(), Some(Cause::NodeDisrupted)), at(4));
    journal.record(Transition::Node("n-2".into(), None), at(4));
    journal.record(Transition::Node("n-1".into(), None), at(5));
    assert_eq!(journal.leads_since(), Some(at(3)));
    assert_eq!(numbers(&journal.of_node("n-1", 9)), [2, 4]);
    journal.record(Transition::Leads(false), at(6));
    assert_eq!(journal.leads_since(), None);
}
