//! Properties of the other annotations of a Service.

use proptest::prelude::*;

use super::{any_text, holds, is_a_good_message, text};
use crate::model::{Hold, LoadBalancerType, Policy, Texts, policy::ALL};

/// A valid or almost valid value of an annotation.
fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        text(
            " ?(ip|containers-ready|ready|auto|keep|deregister|shared|exclusive|true|false|open|wait|off) ?"
        ),
        text("[0-9]{1,5}[hms]?([0-9]{1,3}[ms])?"),
        any_text(),
    ]
}

fn texts() -> impl Strategy<Value = Texts> {
    prop::collection::vec((prop::sample::select(&ALL[..]), value()), 0..10).prop_map(|pairs| {
        let mut texts = Texts::default();
        for (name, value) in &pairs {
            texts.set(name, value);
        }
        texts
    })
}

fn is_bounded(policy: &Policy) -> bool {
    policy.min_healthy_per_zone.0 <= 1000 && policy.hold.seconds(LoadBalancerType::Network) <= 3600
}

#[test]
fn any_values_are_a_policy_in_bounds_and_each_that_cannot_be_read_leaves_the_one_before() {
    holds((texts(), texts()), |(before, now)| {
        let (before, _) = Policy::read(&before, Policy::default());
        let (policy, bad) = Policy::read(&now, before);
        prop_assert!(is_bounded(&policy), "{policy:?}");
        for said in &bad {
            let said = said.to_string();
            is_a_good_message(&said)?;
            prop_assert!(said.contains("is in effect."), "{said}");
        }
        // If all values are valid, the earlier policy has no effect.
        let (alone, _) = Policy::read(&now, Policy::default());
        if bad.is_empty() {
            prop_assert_eq!(alone, policy);
        }
        Ok(())
    });
}

#[test]
fn one_value_that_cannot_be_read_changes_none_of_the_others() {
    holds((texts(), prop::sample::select(&ALL[..]), text("[!?#]{1,9}")), |(texts, name, garbage)| {
        let (before, _) = Policy::read(&texts, Policy::default());
        let mut spoilt = texts.clone();
        spoilt.set(name, &garbage);
        let (after, bad) = Policy::read(&spoilt, before);
        prop_assert_eq!(after, before);
        prop_assert!(bad.iter().any(|bad| bad.to_string().starts_with(name)));
        Ok(())
    });
}

#[test]
fn a_hold_is_read_back_as_it_is_shown() {
    let holds_of = prop_oneof![Just(Hold::Auto), Just(Hold::Off), (1..=3600_u32).prop_map(Hold::For)];
    holds(holds_of, |hold| {
        prop_assert_eq!(Hold::parse(&hold.to_string()), Some(hold));
        Ok(())
    });
}

#[test]
fn no_more_than_some_names_that_nobody_knows_are_kept() {
    holds(prop::collection::vec(any_text(), 0..40), |names| {
        let mut texts = Texts::default();
        for name in &names {
            texts.add_unknown(name);
        }
        prop_assert!(texts.unknown().len() <= 8);
        Ok(())
    });
}
