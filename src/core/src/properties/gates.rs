//! Properties of the gate data that Headgate reads back: the message of the condition, and the expected bindings of a
//! pod.

use std::net::IpAddr;

use proptest::prelude::*;

use super::{any_text, holds, is_a_good_message, target_group::name};
use crate::{
    gate::judge,
    model::{
        GateWhenUnused, HealthState, Moment, Target,
        expected::Expected,
        gate::{Bound, Case, GateFacts, Shown, Stands, Terms},
    },
    testing::arn,
};

#[test]
fn the_message_of_an_open_gate_says_for_which_ip_it_is_open() {
    holds((any::<IpAddr>(), any::<u16>(), name()), |(ip, port, name)| {
        let bound = Bound {
            group: arn(&name),
            target: Some(Target::new(ip, port)),
            stands: Stands::Read(HealthState::Healthy.into()),
            when_unused: GateWhenUnused::Open,
        };
        let case = Case { ip: Some(ip), bound: vec![bound], expected: None, doubt: None, runs: true };
        let verdict = judge(&case, &Terms { gives_up: Moment::START, unread_for: None }, Moment::START);
        prop_assert!(verdict.open);
        prop_assert_eq!(Shown::read(Some("True"), Some(&verdict.message)), Shown::Open(Some(ip)));
        Ok(())
    });
}

#[test]
fn any_condition_is_read_and_open_only_if_it_says_true() {
    let words = || {
        prop::option::of(prop_oneof![any_text(), Just("True".to_owned()), Just("pod IP ::1, ".to_owned())])
    };
    holds((words(), words()), |(status, message)| {
        let shown = Shown::read(status.as_deref(), message.as_deref());
        prop_assert_eq!(matches!(shown, Shown::Open(_)), status.as_deref() == Some("True"));
        let facts = GateFacts::read(status.as_deref(), Some("HealthUnread"), message.as_deref(), None);
        prop_assert_eq!((facts.shown, facts.unread), (shown, matches!(shown, Shown::Open(_))));
        Ok(())
    });
}

#[test]
fn what_is_expected_is_read_back_and_of_any_text_a_bounded_part() {
    let expected = (name(), 1..=u16::MAX).prop_map(|(group, port)| Expected { group: group.into(), port });
    holds((prop::collection::vec(expected, 0..50), any_text()), |(all, noise)| {
        let read = Expected::list(&Expected::write(&all));
        prop_assert_eq!(read.into_iter().collect::<Result<Vec<_>, _>>().unwrap(), all);
        let read = Expected::list(&noise);
        prop_assert!(read.len() <= 200);
        for entry in read {
            match entry {
                Ok(expected) => prop_assert!(expected.group.len() <= 32 && expected.port > 0),
                Err(error) => is_a_good_message(&error.to_string())?,
            }
        }
        Ok(())
    });
}

#[test]
fn whatever_is_expected_of_a_pod_the_message_of_its_gate_is_bounded() {
    holds(any_text(), |expected| {
        for now in [0, 60] {
            let now = Moment::after_start(std::time::Duration::from_secs(now));
            let gives_up = Moment::after_start(std::time::Duration::from_secs(30));
            let terms = Terms { gives_up, unread_for: None };
            let ip = Some(crate::testing::ip(1));
            let case = Case { ip, bound: vec![], expected: Some(&expected), doubt: None, runs: true };
            let said = judge(&case, &terms, now).message;
            prop_assert!(said.len() <= super::LONGEST_MESSAGE, "{} bytes", said.len());
        }
        Ok(())
    });
}
