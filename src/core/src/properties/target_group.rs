//! Properties of target groups by name and by ARN, in annotations and in AWS's answers.

use proptest::prelude::*;

use super::{any_text, holds, is_a_good_message, text};
use crate::model::{
    GroupRef, Health, HealthState, IpFamily, Protocol, TargetGroupFacts, TargetType, health::REASONS,
};

/// The name of a target group.
pub(super) fn name() -> impl Strategy<Value = String> {
    text("[A-Za-z0-9]([-A-Za-z0-9]{0,30}[A-Za-z0-9])?")
}

/// The ARN of a target group.
pub(super) fn arn() -> impl Strategy<Value = String> {
    let region = text("(us|eu|ap|us-gov|cn)-(east|west|south|north)-[1-9]");
    (text("aws(-cn|-us-gov)?"), region, text("[0-9]{12}"), name(), text("[0-9a-f]{16}")).prop_map(
        |(partition, region, account, name, id)| {
            format!("arn:{partition}:elasticloadbalancing:{region}:{account}:targetgroup/{name}/{id}")
        },
    )
}

/// A user's reference to a target group.
pub(super) fn reference() -> impl Strategy<Value = String> {
    prop_oneof![name(), arn()]
}

#[test]
fn a_name_or_an_arn_is_read_and_printed_as_it_was_written() {
    holds(reference(), |written| {
        let read = GroupRef::parse(&written).unwrap();
        prop_assert_eq!(read.to_string(), written);
        if let GroupRef::Arn(arn) = &read {
            prop_assert!(arn.account().len() == 12 && !arn.region().is_empty() && arn.name().len() <= 32);
        }
        Ok(())
    });
}

#[test]
fn any_text_is_a_target_group_of_bounded_length_or_refused_in_a_bounded_message() {
    let near = (arn(), any_text(), any::<prop::sample::Index>()).prop_map(|(mut arn, more, at)| {
        arn.insert_str(at.index(arn.len()), &more);
        arn
    });
    holds(prop_oneof![any_text(), near], |written| {
        match GroupRef::parse(&written) {
            Ok(GroupRef::Name(name)) => prop_assert!(name.len() <= 32),
            Ok(GroupRef::Arn(arn)) => prop_assert_eq!(arn.as_str(), written),
            Err(error) => is_a_good_message(&error.to_string())?,
        }
        Ok(())
    });
}

#[test]
fn any_words_of_aws_are_health_and_those_it_has_now_are_read_back() {
    let words = || prop_oneof![any_text(), prop::sample::select(&REASONS[..]).prop_map(str::to_owned)];
    let states = prop::sample::select(HealthState::ALL).prop_map(|state| state.as_str().to_owned());
    let maybe = || prop::option::of(words());
    holds((prop_oneof![states, any_text()], maybe(), maybe(), maybe()), |(state, reason, said, shift)| {
        let health = Health::read(&state, reason.as_deref(), said.as_deref(), shift.as_deref());
        let zone = health.state == HealthState::ZoneNotServed;
        prop_assert!(zone || health.state == HealthState::parse(&state));
        prop_assert_eq!(HealthState::parse(health.state.as_str()), health.state);
        prop_assert!(health.reason.is_empty() || Some(health.reason) == reason.as_deref());
        Ok(())
    });
}

#[test]
fn whatever_aws_says_of_a_target_group_it_is_served_or_refused_in_a_bounded_message() {
    let described =
        (arn(), text("ip|instance|lambda|alb|[a-z]{0,8}"), text("(TCP|UDP|TLS|HTTPS?)(_UDP)?|[A-Z]{0,9}"));
    let port = prop::option::of(text("TCP|UDP|SCTP|[a-z]{0,4}"));
    holds((described, port), |((arn, kind, protocol), port)| {
        let Ok(GroupRef::Arn(arn)) = GroupRef::parse(&arn) else { panic!("{arn} is an ARN") };
        let target_type = TargetType::parse(&kind);
        prop_assert!(target_type == TargetType::Unknown || target_type.as_str() == kind);
        let ip_family = IpFamily::V4;
        let least_healthy = None;
        let facts =
            TargetGroupFacts { arn, target_type, protocol: protocol.into(), ip_family, least_healthy };
        if let Err(refused) = facts.serves(Protocol::parse(port.as_deref())) {
            is_a_good_message(&refused.to_string())?;
        }
        Ok(())
    });
}
