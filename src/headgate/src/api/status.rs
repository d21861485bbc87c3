//! Computes the status of a TargetBinding, and the content of a generated TargetBinding. All functions are pure
//! functions of the engine's views.

use headgate_core::model::{BindingKey, health::HealthState, object::Uid};
use k8s_openapi::apimachinery::pkg::{
    apis::meta::v1::{Condition, ObjectMeta, OwnerReference, Time},
    util::intstr::IntOrString,
};

use crate::api::{
    TargetBinding, TargetBindingSpec, TargetBindingStatus,
    conditions::{About, Says},
    known::Known,
    target_binding::{FROM_SERVICE, MADE_FROM, ServiceRef, TargetGroupRef},
};

/// Computes the status. Unchanged conditions keep their transition time from `before`.
pub fn status(known: &Known<'_>, before: Option<&TargetBindingStatus>, now: &Time) -> TargetBindingStatus {
    let targets = known.binding.map(|binding| &binding.targets[..]).unwrap_or_default();
    let count = |is: fn(&HealthState) -> bool| {
        let seen = targets.iter().filter_map(|target| target.state);
        number(seen.filter(is).count())
    };
    let of_group = |state| known.group.map(|group| group.in_state(state)).unwrap_or_default();
    let wanted = number(targets.len());
    let healthy = count(|state| *state == HealthState::Healthy);
    let name = known.binding.map_or_else(|| name_of(known.named), |binding| binding.key.group.name());
    let about = About { known, wanted, healthy };
    let conditions = about.all().map(|(kind, says)| condition(kind, says, known, before, now)).collect();
    TargetBindingStatus {
        observed_generation: known.generation,
        target_group: Some(name.to_owned()),
        target_group_arn: known.binding.map(|binding| binding.key.group.as_str().to_owned()),
        wanted,
        registered: number(targets.iter().filter(|target| target.registered).count()),
        healthy,
        initial: count(|state| *state == HealthState::Initial),
        unhealthy: count(|state| *state == HealthState::Unhealthy),
        draining: number(of_group(HealthState::Draining)),
        foreign: number(known.group.map_or(0, |group| group.foreign)),
        last_read: known.last_read.clone(),
        conditions,
    }
}

fn condition(
    kind: &str,
    (status, reason, message): Says,
    known: &Known<'_>,
    before: Option<&TargetBindingStatus>,
    now: &Time,
) -> Condition {
    let before = before.and_then(|before| before.conditions.iter().find(|condition| condition.type_ == kind));
    let since = before.filter(|before| before.status == status).map(|before| &before.last_transition_time);
    Condition {
        type_: kind.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message,
        last_transition_time: since.unwrap_or(now).clone(),
        observed_generation: known.generation,
    }
}

/// Whether two statuses are equal, except for the time of the last `DescribeTargetHealth` request.
pub fn same_but_for_reading(one: &TargetBindingStatus, other: &TargetBindingStatus) -> bool {
    let unread = |status: &TargetBindingStatus| TargetBindingStatus { last_read: None, ..status.clone() };
    unread(one) == unread(other)
}

/// The name of the TargetBinding that is generated for a binding of a Service. The name is readable and unique.
pub fn made_name(key: &BindingKey) -> String {
    let text = format!("{}\0{}\0{}", key.origin.key().name, key.port, key.group);
    // The name contains an FNV-1a hash, because the result must never change.
    let mix = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    let mark = text.bytes().fold(0x811c_9dc5, mix);
    let (service, port, group) = (&key.origin.key().name, &key.port, key.group.name());
    format!("{service}-{port}-{group}-{mark:08x}").to_ascii_lowercase()
}

/// The TargetBinding that is generated for a binding of the Service with the UID `service`.
pub fn made(key: &BindingKey, service: &Uid) -> TargetBinding {
    let port = key.port.parse().map_or_else(|_| IntOrString::String(key.port.to_string()), IntOrString::Int);
    let (namespace, name) = (&key.origin.key().namespace, &key.origin.key().name);
    let owner = OwnerReference {
        api_version: "v1".into(),
        kind: "Service".into(),
        name: name.to_string(),
        uid: service.to_string(),
        controller: Some(true),
        block_owner_deletion: None,
    };
    let spec = TargetBindingSpec {
        target_group: TargetGroupRef { arn: Some(key.group.as_str().to_owned()), name: None },
        service_ref: Some(ServiceRef { name: name.to_string(), port: Some(port) }),
        ..TargetBindingSpec::default()
    };
    let metadata = ObjectMeta {
        name: Some(made_name(key)),
        namespace: Some(namespace.to_string()),
        labels: Some([(MADE_FROM.to_owned(), FROM_SERVICE.to_owned())].into()),
        owner_references: Some(vec![owner]),
        ..ObjectMeta::default()
    };
    TargetBinding { metadata, spec, status: None }
}

/// Whether the stored object equals the generated one.
pub fn is_as_made(there: &TargetBinding, made: &TargetBinding) -> bool {
    let label = |object: &TargetBinding| object.metadata.labels.as_ref()?.get(MADE_FROM).cloned();
    let owner = |object: &TargetBinding| {
        object.metadata.owner_references.as_ref()?.first().map(|owner| owner.uid.clone())
    };
    there.spec == made.spec && label(there) == label(made) && owner(there) == owner(made)
}

/// The name of a target group, extracted from an ARN if necessary.
fn name_of(named: &str) -> &str {
    named.split('/').nth(1).unwrap_or(named)
}

fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use headgate_core::{
        Origin, Reason, Target,
        model::{hold::HoldWanted, object::ObjectKey, target_group::TargetGroupArn},
        view::{BindingView, GateView, TargetView},
    };
    use k8s_openapi::jiff::Timestamp;

    use super::*;

    fn at(second: i64) -> Time {
        Time(Timestamp::from_second(second).unwrap())
    }

    fn key(service: &str, port: &str) -> BindingKey {
        let arn = "arn:aws:elasticloadbalancing:us-east-1:123456789012:targetgroup/Web/73e2d6bc24d8a067";
        BindingKey {
            origin: Origin::Service(ObjectKey::new("shop", service)),
            port: port.into(),
            group: TargetGroupArn::parse(arn).unwrap(),
        }
    }

    fn view(states: &[HealthState]) -> BindingView {
        let targets = states.iter().enumerate().map(|(at, state)| TargetView {
            target: Target::new(format!("10.0.0.{at}").parse().unwrap(), 80),
            pod: ObjectKey::new("shop", format!("web-{at}")),
            node: None,
            why: "",
            registered: true,
            state: Some(*state),
            gate: GateView::None,
        });
        BindingView {
            key: key("web", "http"),
            targets: targets.collect(),
            ending: Vec::new(),
            hold: HoldWanted { seconds: 0, bound: 0 },
            said: Vec::new(),
        }
    }

    fn known<'a>(binding: Option<&'a BindingView>, said: &'a [(Reason, String)]) -> Known<'a> {
        let (group, last_read, generation, ending) = (None, None, Some(1), false);
        Known { named: "web", binding, group, last_read, said, generation, ending }
    }

    fn ready_of(status: &TargetBindingStatus) -> (&str, &str) {
        let ready = status.conditions.iter().find(|condition| condition.type_ == "Ready").unwrap();
        (&ready.status, &ready.reason)
    }

    #[test]
    fn a_binding_is_ready_when_every_target_is_healthy() {
        let all = view(&[HealthState::Healthy, HealthState::Healthy]);
        let some = view(&[HealthState::Healthy, HealthState::Initial]);
        let none = view(&[]);
        for (binding, says) in [
            (Some(&all), ("True", "AsExpected")),
            (Some(&some), ("False", "TargetUnhealthy")),
            (Some(&none), ("False", "NotSelected")),
            (None, ("Unknown", "NotListedYet")),
        ] {
            assert_eq!(ready_of(&status(&known(binding, &[]), None, &at(1))), says);
        }
        let counts = status(&known(Some(&some), &[]), None, &at(1));
        assert_eq!((counts.wanted, counts.healthy, counts.initial, counts.registered), (2, 1, 1, 2));
    }

    #[test]
    fn a_problem_is_the_reason_why_it_is_not_ready_and_why_the_group_was_not_found() {
        let problems = [(Reason::TargetGroupNotFound, "AWS knows none".to_owned())];
        let status = status(&known(None, &problems), None, &at(1));
        assert_eq!(ready_of(&status), ("False", "TargetGroupNotFound"));
        assert_eq!(
            (&*status.conditions[0].status, &*status.conditions[0].message),
            ("False", "AWS knows none")
        );
    }

    #[test]
    fn a_condition_keeps_its_time_while_its_status_stays() {
        let some = view(&[HealthState::Initial]);
        let first = status(&known(Some(&some), &[]), None, &at(1));
        let none = view(&[]);
        let second = status(&known(Some(&none), &[]), Some(&first), &at(2));
        assert_eq!(second.conditions[1].last_transition_time, at(1));
        let all = view(&[HealthState::Healthy]);
        let third = status(&known(Some(&all), &[]), Some(&second), &at(3));
        assert_eq!(third.conditions[1].last_transition_time, at(3));
    }

    #[test]
    fn the_name_of_a_made_binding_is_readable_and_of_no_other() {
        let name = made_name(&key("web", "http"));
        assert!(name.starts_with("web-http-web-"), "{name}");
        assert_ne!(made_name(&key("a-b", "c")), made_name(&key("a", "b-c")));
    }

    #[test]
    fn a_made_binding_is_owned_by_its_service_and_what_others_changed_is_seen() {
        let made = made(&key("web", "80"), &Uid::new("s-1"));
        assert_eq!(made.metadata.owner_references.as_ref().unwrap()[0].uid, "s-1");
        assert_eq!(made.spec.service_ref.as_ref().unwrap().port, Some(IntOrString::Int(80)));
        assert!(is_as_made(&made, &made));
        let mut other = made.clone();
        other.metadata.labels = None;
        assert!(!is_as_made(&other, &made));
    }
}
