//! Properties of the active bindings when the annotation of a Service becomes invalid, as a whole or in part.

use std::{collections::BTreeSet, sync::Arc};

use proptest::prelude::*;

use super::{any_text, holds, is_a_good_message, text};
use crate::{
    binding::{
        annotation::{find, parse},
        settle,
    },
    model::{GroupRef, Origin, Resolution, Settled},
    testing::{ServiceBuilder, group, service},
};

/// The ports of the Service, by name and number.
const PORTS: [(&str, u16); 4] = [("web", 80), ("websecure", 443), ("admin", 8080), ("grpc", 50051)];

fn annotated(value: &str) -> ServiceBuilder {
    PORTS.iter().fold(service("web"), |service, (name, port)| service.port(name, *port)).annotated(value)
}

fn settled(value: &str, before: &Settled) -> Settled {
    let origin = Origin::Service(service("web").build().key);
    settle(&origin, &annotated(value).build(), before, |reference| match reference {
        GroupRef::Name(name) => Resolution::Found(Arc::new(group(name))),
        GroupRef::Arn(_) => Resolution::Pending,
    })
}

fn in_force(settled: &Settled) -> BTreeSet<(String, String)> {
    settled.bindings.keys().map(|key| (key.port.to_string(), key.group.name().to_owned())).collect()
}

/// Ports of the Service, each with a target group.
fn bound() -> impl Strategy<Value = Vec<(usize, String)>> {
    prop::collection::vec((0..PORTS.len(), text("(blue|green|red)-[0-9]")), 1..6)
}

fn written(bound: &[(usize, String)]) -> Vec<String> {
    let part = |(port, group): &(usize, String)| format!("{}={group}", PORTS[*port].0);
    bound.iter().map(part).collect()
}

/// An invalid part, with no port, an unknown port or no target group.
fn garbage() -> impl Strategy<Value = String> {
    let left = prop_oneof![
        text("[a-z]{1,3}x=?"),
        text("[0-9]{1,9}="),
        prop::sample::select(&PORTS[..]).prop_map(|(name, _)| format!("{name}=")),
        Just(String::new()),
    ];
    let nothing = text("[-_!?/:. ]{0,9}");
    prop_oneof![3 => (left, nothing).prop_map(|(left, right)| left + &right), 1 => any_text()]
        .prop_map(|part| part.replace([',', '\n'], ";"))
        .prop_filter("it is a part", |part| !part.trim().is_empty())
        .prop_filter("it can be followed", |part| {
            let parts = parse(part);
            let [one] = &parts[..] else { return false };
            let known = annotated("").build().ports;
            one.as_ref().is_err() || one.as_ref().is_ok_and(|part| find(&part.port, &known).is_err())
        })
}

#[test]
fn a_part_that_cannot_be_followed_ends_nothing_and_keeps_none_of_the_others_out() {
    let more = prop::collection::vec((garbage(), any::<prop::sample::Index>()), 1..4);
    holds((bound(), bound(), more), |(before, now, more)| {
        let before = settled(&written(&before).join(","), &Settled::default());
        let mut parts = written(&now);
        for (garbage, at) in more {
            parts.insert(at.index(parts.len() + 1), garbage);
        }
        let good = in_force(&settled(&written(&now).join(","), &Settled::default()));
        let spoilt = settled(&parts.join(","), &before);
        prop_assert!(
            in_force(&spoilt).is_superset(&good),
            "{parts:?}: {:?}, not all of {good:?}",
            in_force(&spoilt)
        );
        prop_assert!(spoilt.doubtful && !spoilt.problems.is_empty());
        for problem in &spoilt.problems {
            is_a_good_message(&problem.said)?;
        }
        Ok(())
    });
}

#[test]
fn what_was_in_force_stays_so_while_a_part_cannot_be_followed_that_may_be_about_it() {
    let slip = (any::<prop::sample::Index>(), text("[a-z]"), text("[-_!?/:. ]{0,9}"));
    holds((bound(), any::<prop::sample::Index>(), slip), |(bound, at, (letter, slip, garbage))| {
        let before = settled(&written(&bound).join(","), &Settled::default());
        let mut parts = written(&bound);
        let slipped = at.index(parts.len());
        let port = bound[slipped].0;
        let mut name = PORTS[port].0.to_owned();
        name.insert_str(letter.index(name.len() + 1), &slip);
        parts[slipped] = format!("{name}={garbage}");
        let is_written_once = bound.iter().filter(|(other, _)| *other == port).count() == 1;
        let after = settled(&parts.join(","), &before);
        if is_written_once {
            prop_assert_eq!(in_force(&after), in_force(&before), "{:?}", parts);
        }
        Ok(())
    });
}

#[test]
fn an_annotation_that_cannot_be_read_at_all_changes_nothing() {
    let noise =
        any_text().prop_filter("something in it can be read", |text| parse(text).iter().all(Result::is_err));
    holds((bound(), noise), |(bound, noise)| {
        let before = settled(&written(&bound).join(","), &Settled::default());
        let named =
            PORTS.iter().any(|(name, port)| noise.contains(name) || noise.contains(&port.to_string()));
        if !named {
            prop_assert_eq!(in_force(&settled(&noise, &before)), in_force(&before));
        }
        Ok(())
    });
}

#[test]
fn an_unknown_port_with_an_unreadable_target_group_ends_no_binding_of_another_port() {
    let before = settled("web=blue-1,websecure=green-1", &Settled::default());
    for slip in ["wbsecure=green_1", "wbsecure=", "444=", "wbsecure=tag:a=b", "wbsecure=arn:aws:x"] {
        let after = settled(&format!("web=red-1,{slip}"), &before);
        let kept = in_force(&after);
        assert!(kept.contains(&("websecure".into(), "green-1".into())), "{slip}: {kept:?}");
        assert!(kept.contains(&("web".into(), "red-1".into())) && kept.len() == 2, "{slip}: {kept:?}");
    }
}
