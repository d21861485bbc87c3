//! Properties of the annotation that names target groups.

use proptest::prelude::*;

use super::{any_text, holds, is_a_good_message, label, target_group::reference};
use crate::{
    binding::annotation::{MOST_PARTS, PartError, find, parse, unknown},
    model::{Protocol, ServicePort, TargetPort, service::PortRef},
};

/// The left side of a part, with its "=".
fn port() -> impl Strategy<Value = String> {
    prop_oneof![
        label().prop_map(|name| format!("{name}=")),
        any::<u16>().prop_map(|number| format!("{number}=")),
        Just(String::new()),
    ]
}

#[test]
fn what_is_printed_is_read_back() {
    holds(prop::collection::vec((port(), reference()), 1..20), |parts| {
        let written: Vec<String> = parts.iter().map(|(port, group)| format!("{port}{group}")).collect();
        for (part, (port, group)) in parse(&written.join(", ")).iter().zip(&parts) {
            if port == "0=" {
                prop_assert!(part.is_err());
                continue;
            }
            let part = part.as_ref().unwrap();
            prop_assert_eq!(part.group.to_string(), group.as_str());
            match &part.port {
                PortRef::Only => prop_assert!(port.is_empty()),
                named => prop_assert_eq!(format!("{named}="), port.as_str()),
            }
        }
        Ok(())
    });
}

#[test]
fn any_text_is_read_as_a_bounded_number_of_parts_and_what_is_said_of_each_is_bounded() {
    let ports = prop::collection::vec((label(), 1..=u16::MAX), 0..400);
    let long =
        (prop::sample::select(vec![",", "a", "=", "a=b,", "arn:", "ä", "99", "tag:"]), 0..260_000_usize)
            .prop_map(|(part, bytes)| part.repeat(bytes / part.len()));
    holds((prop_oneof![9 => any_text(), 1 => long], ports), |(value, ports)| {
        let ports: Vec<ServicePort> = ports
            .into_iter()
            .map(|(name, port)| ServicePort {
                name: name.into(),
                port,
                target_port: TargetPort::Number(port),
                protocol: Protocol::Tcp,
            })
            .collect();
        let read = parse(&value);
        prop_assert!(!read.is_empty() && read.len() <= MOST_PARTS + 1);
        for part in read {
            match part {
                Err(bad) => is_a_good_message(&bad.to_string())?,
                Ok(part) => {
                    if let Err(error) = find(&part.port, &ports) {
                        is_a_good_message(&error.to_string())?;
                    }
                }
            }
        }
        Ok(())
    });
}

#[test]
fn a_quarter_megabyte_of_parts_is_two_hundred_of_them_and_one_message_that_says_so() {
    let parts = parse(&"x,".repeat(125_000));
    assert_eq!(parts.len(), MOST_PARTS + 1);
    let last = parts.last().unwrap().as_ref().unwrap_err();
    assert_eq!(last.error, PartError::TooMany { count: 125_000 });
    let said = last.to_string();
    assert!(said.contains("125000 parts, limit 200"), "{said}");
    assert_eq!(
        parse(&vec!["a=b"; MOST_PARTS].join(",")).iter().filter(|part| part.is_ok()).count(),
        MOST_PARTS
    );
}

#[test]
fn any_name_of_an_annotation_that_is_not_known_is_answered_in_a_bounded_message() {
    holds(prop_oneof![any_text(), label().prop_map(|name| format!("headgate.dev/{name}"))], |name| {
        is_a_good_message(&unknown(&name))
    });
}
