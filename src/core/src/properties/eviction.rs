//! Properties of the annotations on pods about their evictions, for any order of writes.

use std::time::Duration;

use proptest::prelude::*;

use super::holds;
use crate::{
    eviction::ruling::rule,
    model::{
        Bounds, Cause, Hold, LeavingFacts, LoadBalancerType, Moment, Uid, WallTime,
        eviction::{BoundTo, LONGEST_RETRY, Request, Rules, Ruling},
        leaving::{Annotations, Asked, Mark},
        pod::Ending,
    },
    testing::pod,
};

fn time() -> impl Strategy<Value = WallTime> {
    let seconds = prop_oneof![0..100_u64, 1_800_000_000..1_800_001_000_u64, any::<u64>()];
    seconds.prop_map(|seconds| WallTime::since_1970(Duration::from_secs(seconds)))
}

fn reason() -> impl Strategy<Value = Cause> {
    prop::sample::select(Cause::ALL)
}

fn mark() -> impl Strategy<Value = Mark> {
    let asked =
        (any::<(bool, bool)>(), time(), time(), time()).prop_map(|((held, early), begun, since, asked)| {
            Mark::Asked(Asked { held, early, begun, since, asked })
        });
    prop_oneof![
        4 => asked,
        2 => (time(), reason()).prop_map(|(at, reason)| Mark::Waits { at, reason }),
        2 => (time(), any::<u32>()).prop_map(|(at, bound)| Mark::Deregistered { at, bound: Duration::from_secs(bound.into()) }),
        2 => (time(), reason()).prop_map(|(at, reason)| Mark::MayGo { at, reason }),
        1 => Just(Mark::Undone),
        1 => Just(Mark::Stays),
        1 => Just(Mark::Disbelieved),
    ]
}

fn facts(marks: &[Mark]) -> Option<LeavingFacts> {
    let mut annotations = Annotations::default();
    for mark in marks {
        annotations.write(*mark);
    }
    annotations.facts()
}

#[test]
fn what_is_older_than_the_leaving_never_counts_whatever_is_written() {
    holds(prop::collection::vec(mark(), 0..8), |marks| {
        let Some(facts) = facts(&marks) else { return Ok(()) };
        prop_assert!(marks.iter().any(|mark| matches!(mark, Mark::Asked(_))), "somebody has asked");
        prop_assert!(facts.waits.is_none_or(|(at, _)| at >= facts.ask.begun));
        prop_assert!(facts.deregistered.is_none_or(|(at, _)| at >= facts.ask.begun));
        let undone =
            marks.iter().rposition(|mark| matches!(mark, Mark::Undone | Mark::Stays | Mark::Disbelieved));
        let asked = marks.iter().rposition(|mark| matches!(mark, Mark::Asked(_)));
        prop_assert!(asked > undone);
        Ok(())
    });
}

#[test]
fn a_request_about_a_pod_with_any_marks_is_answered_and_never_told_to_wait_for_long() {
    let ending = (any::<u32>(), any::<u32>()).prop_map(|(sleeps, grace)| Ending { sleeps, grace });
    let bound = (any::<bool>(), 0..=3600_u32, any::<bool>());
    let request = prop::option::of(any::<u32>());
    let marks = prop::collection::vec(mark(), 0..6);
    holds(
        (marks, ending, prop::collection::vec(bound, 0..3), request, time()),
        |(marks, ending, bound, grace, now)| {
            let mut web = pod("web", "u-1").at(1).build();
            (web.ending, web.leaving) = (ending, facts(&marks).map(Box::new));
            let bound: Vec<BoundTo> = bound
                .into_iter()
                .map(|(application, hold, paused): (bool, _, _)| BoundTo {
                    balancer: if application {
                        LoadBalancerType::Application
                    } else {
                        LoadBalancerType::Network
                    },
                    hold: Hold::For(hold.max(1)),
                    paused,
                })
                .collect();
            let rules = Rules { bounds: Bounds::default(), ..Rules::default() };
            let request = Request { uid: Some(Uid::new("u-1")), grace, ..Request::default() };
            if let Ruling::Wait { retry, uid, .. } =
                rule(&web, &bound, true, true, &request, &rules, (Moment::START, now, None))
            {
                prop_assert!(retry >= Duration::from_secs(1) && retry <= LONGEST_RETRY);
                prop_assert_eq!(uid, Uid::new("u-1"));
            }
            Ok(())
        },
    );
}
