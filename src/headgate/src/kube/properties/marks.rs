//! Property tests of the annotations on pods that are being evicted.

use std::{collections::BTreeMap, time::Duration};

use headgate_core::{
    Cause, WallTime,
    model::{
        leaving::{ALL, Annotations, Asked, Mark},
        object::Uid,
    },
};
use proptest::prelude::*;
use serde_json::Map;

use crate::{
    kube::marks::{annotations, read},
    properties::{any_text, holds, text},
};

/// Times with a four-digit year.
fn time() -> impl Strategy<Value = WallTime> {
    (0..253_402_207_200_000_u64).prop_map(|millis| WallTime::since_1970(Duration::from_millis(millis)))
}

fn mark() -> impl Strategy<Value = Mark> {
    let reason = || prop::sample::select(Cause::ALL);
    let asked = (0..3_u8, time(), time(), time()).prop_map(|(kind, begun, since, asked)| {
        Mark::Asked(Asked { held: kind == 1, early: kind == 2, begun, since, asked })
    });
    let bound = (0..=3600_u64).prop_map(Duration::from_secs);
    prop_oneof![
        3 => asked,
        1 => (time(), reason()).prop_map(|(at, reason)| Mark::Waits { at, reason }),
        1 => (time(), bound).prop_map(|(at, bound)| Mark::Deregistered { at, bound }),
        1 => (time(), reason()).prop_map(|(at, reason)| Mark::MayGo { at, reason }),
        1 => Just(Mark::Undone),
    ]
}

#[test]
fn what_is_written_in_any_order_is_read_back_by_the_pod_it_is_about_and_by_no_other() {
    holds((prop::collection::vec(mark(), 1..6), text("[-0-9a-f]{1,36}")), |(marks, uid)| {
        let (uid, mut written, mut meant) = (Uid::new(uid), Map::new(), Annotations::default());
        for mark in &marks {
            written.extend(annotations(&uid, *mark));
            meant.write(*mark);
        }
        let get = |name: &str| written.get(name)?.as_str();
        prop_assert_eq!(read(&uid, get), meant);
        prop_assert_eq!(read(&Uid::new("another"), get), Annotations::default());
        Ok(())
    });
}

/// A value that any user with permission to patch pods could write.
fn forged() -> impl Strategy<Value = String> {
    let time = || {
        prop_oneof![
            text("2027-01-15T08:0[0-9]:00(\\.[0-9]{1,3})?Z"),
            text("-?[0-9]{4,6}-01-01T00:00:00Z"),
            any_text()
        ]
    };
    let near = prop_oneof![
        (time(), time(), text("( held| early)?( begun 2027-01-15T07:00:00Z)?"))
            .prop_map(|(since, asked, more)| format!("u-1 since {since} asked {asked}{more}")),
        (time(), text("[0-9]{1,11}[smh]?")).prop_map(|(at, bound)| format!("u-1 {at} bound {bound}")),
        (text("[A-Z][a-zA-Z]{1,30}"), time()).prop_map(|(why, at)| format!("u-1 {why} at {at}")),
    ];
    prop_oneof![near, any_text()]
}

#[test]
fn whatever_is_written_on_a_pod_what_is_believed_of_it_ends_within_two_hours() {
    holds(prop::collection::vec((prop::sample::select(&ALL[..]), forged()), 0..6), |pairs| {
        let written: BTreeMap<&str, String> = pairs.into_iter().collect();
        let read = read(&Uid::new("u-1"), |name| written.get(name).map(String::as_str)).facts();
        let now = WallTime::since_1970(Duration::from_secs(1_800_000_000));
        if let Some(leaving) = read.and_then(|leaving| leaving.credible(now)) {
            let hour = Duration::from_secs(3600);
            prop_assert!(leaving.ask.begun.max(leaving.ask.since).max(leaving.ask.asked) <= now + hour);
            prop_assert!(leaving.deregistered.is_none_or(|(at, bound)| bound <= hour && at <= now + hour));
        }
        Ok(())
    });
}

#[test]
fn a_bound_of_more_than_an_hour_is_not_believed() {
    for forged in ["4294967295s", "2h", "1193046h"] {
        let text = |name: &str| match name {
            "headgate.dev/leaving" => {
                Some("u-1 since 2027-01-15T08:00:00Z asked 2027-01-15T08:00:00Z".to_owned())
            }
            "headgate.dev/deregistered-at" => Some(format!("u-1 2027-01-15T08:00:00Z bound {forged}")),
            _ => None,
        };
        let all: BTreeMap<&str, String> =
            ALL.into_iter().filter_map(|name| Some((name, text(name)?))).collect();
        let leaving = read(&Uid::new("u-1"), |name| all.get(name).map(String::as_str)).facts().unwrap();
        assert_ne!(leaving.deregistered, None, "{forged}");
        let now = leaving.ask.since;
        assert_eq!(leaving.credible(now).and_then(|leaving| leaving.deregistered), None, "{forged}");
    }
}
