//! The rule that decides whether the gate of a pod should be open. The rule is pure, and returns a reason and a
//! sentence.

use std::{borrow::Cow, time::Duration};

use crate::model::{
    Cause, GateWhenUnused, Health, HealthState, Moment,
    expected::Expected,
    gate::{Bound, Case, Doubt, Stands, Terms, Verdict, open_for},
    health::NOT_IN_USE,
};

/// Headgate decides again after this time if the wait for the health of a target is over but no `DescribeTargetHealth`
/// call was tried.
const NOT_TRIED: Duration = Duration::from_secs(5);

const LEFT_TO_ITS_NODE: &str = "not registered, because drains of its node skip the pod";

fn wait(reason: Cause, message: impl Into<String>) -> Verdict {
    Verdict { open: false, reason, message: message.into(), look_again: None }
}

/// Decides whether the gate should be open.
pub fn judge(case: &Case<'_>, terms: &Terms, now: Moment) -> Verdict {
    let Some(ip) = case.ip else { return wait(Cause::NoIp, "the pod has no IP yet") };
    let told: Vec<(bool, Cause, String)> = case.bound.iter().map(|bound| tell(bound, terms, now)).collect();
    let waits: Vec<_> = told.iter().filter(|(open, ..)| !open).collect();
    if let Some((_, reason, _)) = waits.first() {
        let all: Vec<&str> = waits.iter().map(|(.., said)| said.as_str()).collect();
        return Verdict { look_again: unreadable_from(case, terms, now), ..wait(*reason, all.join("; ")) };
    }
    match &case.doubt {
        Some(Doubt::Pending(origin)) => {
            let said = format!("{origin} names a target group that Headgate has not looked up yet");
            return wait(Cause::BindingMissing, said);
        }
        Some(Doubt::Unreadable(origin)) => {
            let said = format!(
                "{origin} selects this pod, but its target groups cannot be read. See the Events of {origin}"
            );
            return wait(Cause::BindingUnreadable, said);
        }
        Some(Doubt::Refused(origin)) => {
            let said = format!(
                "{origin} selects this pod, but its namespace may not bind the target group. See the Events of {origin}"
            );
            return wait(Cause::NotGranted, said);
        }
        None => {}
    }
    let missing = missing(case);
    if let Some(what) = &missing
        && now < terms.gives_up
    {
        let verdict = wait(Cause::BindingMissing, format!("{what} yet"));
        return Verdict { look_again: Some(terms.gives_up), ..verdict };
    }
    let given_up = missing.map(|what| what.replacen("selects", "selected", 1) + " in time");
    let is_told = |reason: &Cause| told.iter().any(|(_, told, _)| told == reason);
    let (reason, said) = match given_up {
        Some(given_up) if !is_told(&Cause::HealthUnreadable) => (Cause::NothingBound, given_up),
        given_up => {
            // The most important of these reasons that applies.
            let remarkable =
                [Cause::HealthUnreadable, Cause::NodeDisrupted, Cause::TargetGroupUnused, Cause::ZonalShift];
            let reason = remarkable.into_iter().find(is_told).unwrap_or(Cause::TargetsHealthy);
            let said = told.iter().map(|(.., said)| said.as_str()).chain(given_up.as_deref());
            (reason, said.collect::<Vec<_>>().join("; "))
        }
    };
    Verdict { open: true, reason, message: open_for(ip) + &said, look_again: None }
}

/// Describes the binding that the pod should have but does not have.
fn missing(case: &Case<'_>) -> Option<String> {
    // The pod will not get another binding.
    if case.bound.iter().any(|bound| bound.stands == Stands::LeftToItsNode) {
        return None;
    }
    let is_bound = |expected: &Expected| {
        let mut bound = case.bound.iter();
        bound.any(|bound| bound.target.is_some_and(|target| expected.is(bound.group.name(), &target)))
    };
    for entry in Expected::list(case.expected.unwrap_or_default()) {
        match entry {
            Ok(expected) if is_bound(&expected) => {}
            Ok(expected) => {
                return Some(format!(
                    "no binding selects the pod for target group {} on port {}",
                    expected.group, expected.port
                ));
            }
            Err(error) => {
                let said = error.to_string();
                return Some(said.split(". ").next().unwrap_or_default().to_owned());
            }
        }
    }
    case.bound.is_empty().then(|| "no Service or TargetBinding selects the pod".to_owned())
}

/// The time at which the health of all targets that keep the gate closed has been unreadable for the timeout. `None`:
/// the gate also waits for something else.
fn unreadable_from(case: &Case<'_>, terms: &Terms, now: Moment) -> Option<Moment> {
    let unread_for = terms.unread_for?;
    let mut latest = None;
    for bound in case.bound.iter().filter(|bound| !tell(bound, terms, now).0) {
        let Stands::Unread(Some(unread)) = bound.stands else { return None };
        let due = Some(unread.since + unread_for).filter(|due| *due > now).unwrap_or(now + NOT_TRIED);
        latest = latest.max(Some(due));
    }
    latest
}

/// Decides for one binding whether the gate should be open, and returns the reason and a sentence.
fn tell(bound: &Bound, terms: &Terms, now: Moment) -> (bool, Cause, String) {
    let group = bound.group.name();
    let place = match bound.target {
        Some(target) => format!("target {target} of target group {group}"),
        None => format!("target group {group}"),
    };
    let (open, reason, said) = match bound.stands {
        Stands::NoTarget(reason) => (false, reason, no_target(reason).into()),
        Stands::Unregistered => (false, Cause::NotRegisteredYet, "not registered yet".into()),
        Stands::LeftToItsNode => (true, Cause::NodeDisrupted, LEFT_TO_ITS_NODE.into()),
        Stands::Paused => {
            (false, Cause::RegistrationPaused, "not registered, because the binding is paused".into())
        }
        Stands::Unread(unread) => match (unread, terms.unread_for) {
            (Some(unread), Some(long)) if unread.tried && now.since(unread.since) >= long => {
                let waited = now.since(unread.since).as_secs();
                let said = format!("registered, but its health was unreadable for {waited} s");
                (true, Cause::HealthUnreadable, said.into())
            }
            (Some(_), Some(long)) => {
                let said = format!("registered, health not read yet (--gate-patience {} s)", long.as_secs());
                (false, Cause::HealthUnread, said.into())
            }
            _ => (false, Cause::HealthUnread, "registered, health not read yet".into()),
        },
        Stands::Read(health) => read(health, bound.when_unused),
    };
    (open, reason, format!("{place}: {said}"))
}

/// Decides for this health whether the gate should be open, and returns the reason and a sentence.
fn read(health: Health, when_unused: GateWhenUnused) -> (bool, Cause, Cow<'static, str>) {
    let reason = match health.state {
        HealthState::ZonalShift => {
            return (true, Cause::ZonalShift, "healthy, but a zonal shift keeps new traffic away".into());
        }
        HealthState::Healthy => return (true, Cause::TargetsHealthy, "healthy".into()),
        HealthState::Unused if health.reason == NOT_IN_USE && when_unused == GateWhenUnused::Open => {
            return (true, Cause::TargetGroupUnused, "no listener forwards to it".into());
        }
        HealthState::ZoneNotServed => return (false, Cause::ZoneNotServed, ZONE_NOT_SERVED.into()),
        HealthState::Initial => Cause::TargetInitial,
        HealthState::Unhealthy | HealthState::UnhealthyDraining => Cause::TargetUnhealthy,
        // AWS has not accepted the new registration of the address.
        HealthState::Draining => Cause::NotRegisteredYet,
        HealthState::Unused => Cause::TargetUnused,
        HealthState::Unavailable => Cause::TargetUnavailable,
    };
    let because = if health.reason.is_empty() { String::new() } else { format!(" ({})", health.reason) };
    (false, reason, format!("{}{because}", health.state.as_str()).into())
}

const ZONE_NOT_SERVED: &str = "its zone is not enabled for the load balancer";

fn no_target(reason: Cause) -> &'static str {
    match reason {
        Cause::NotReadyYet => "the pod is less ready than register-when or the target group requires",
        Cause::NotReady => "deregistered, because it was not ready for too long",
        Cause::PodEvicting => "deregistered before its eviction",
        Cause::NodeDying | Cause::NodeDeleted | Cause::NodeDisrupted => {
            "deregistered, because its node is being removed"
        }
        Cause::NoSuchPort => "no container port with the name of targetPort",
        Cause::WrongIpFamily => "no address of the target group's address family",
        Cause::IpChanged => "another pod now has the address",
        Cause::AddressContested => "a pod on another node has the address",
        Cause::WaitsForHostNetworkPod => "another pod of the host network has the address",
        Cause::NotGranted => "its namespace may not bind the target group",
        Cause::NoSelector => "the Service no longer selects pods",
        _ => "not a target",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        model::{Origin, gate::Unread},
        testing::{arn, ip, service, target},
    };

    fn bound(group: &str, stands: Stands) -> Bound {
        Bound { group: arn(group), target: Some(target(1, 80)), stands, when_unused: GateWhenUnused::Open }
    }

    /// The time at which Headgate stops waiting for a missing binding.
    fn given_up() -> Moment {
        Moment::START + std::time::Duration::from_secs(30)
    }

    fn case(bound: &[Bound]) -> Case<'_> {
        Case { ip: Some(ip(1)), bound: bound.to_vec(), expected: None, doubt: None, runs: true }
    }

    fn terms() -> Terms {
        Terms { gives_up: given_up(), unread_for: None }
    }

    fn judged(case: &Case<'_>) -> Verdict {
        judge(case, &terms(), Moment::START)
    }

    fn read(state: HealthState) -> Stands {
        Stands::Read(state.into())
    }

    #[test]
    fn it_opens_for_every_way_a_target_can_stand_or_says_why_not() {
        use HealthState::{
            Draining, Healthy, Initial, Unavailable, Unhealthy, UnhealthyDraining, Unused, ZoneNotServed,
        };
        let shifted = Stands::Read(HealthState::ZonalShift.into());
        let unusable = Stands::Read(Health { reason: "Target.IpUnusable", ..Unused.into() });
        let not_in_use = Stands::Read(Health { reason: NOT_IN_USE, ..Unused.into() });
        let checked = Stands::Read(Health { reason: "Elb.InitialHealthChecking", ..Initial.into() });
        for (stands, open, reason, said) in [
            (read(Healthy), true, Cause::TargetsHealthy, "blue: healthy"),
            (shifted, true, Cause::ZonalShift, "zonal shift"),
            (not_in_use, true, Cause::TargetGroupUnused, "no listener forwards to it"),
            (unusable, false, Cause::TargetUnused, "unused (Target.IpUnusable)"),
            (read(ZoneNotServed), false, Cause::ZoneNotServed, "not enabled for the load balancer"),
            (checked, false, Cause::TargetInitial, "initial (Elb.InitialHealthChecking)"),
            (read(Unhealthy), false, Cause::TargetUnhealthy, "blue: unhealthy"),
            (read(UnhealthyDraining), false, Cause::TargetUnhealthy, "unhealthy.draining"),
            (read(Draining), false, Cause::NotRegisteredYet, "draining"),
            (read(Unavailable), false, Cause::TargetUnavailable, "unavailable"),
            (Stands::Unread(None), false, Cause::HealthUnread, "not read yet"),
            (Stands::Unregistered, false, Cause::NotRegisteredYet, "not registered"),
            (Stands::Paused, false, Cause::RegistrationPaused, "paused"),
            (Stands::LeftToItsNode, true, Cause::NodeDisrupted, "drains of its node"),
            (Stands::NoTarget(Cause::NotReadyYet), false, Cause::NotReadyYet, "register-when"),
            (Stands::NoTarget(Cause::PodEvicting), false, Cause::PodEvicting, "before its eviction"),
            (Stands::NoTarget(Cause::NodeDying), false, Cause::NodeDying, "node is being removed"),
            (Stands::NoTarget(Cause::NotReady), false, Cause::NotReady, "too long"),
            (Stands::NoTarget(Cause::NoSuchPort), false, Cause::NoSuchPort, "container port"),
            (Stands::NoTarget(Cause::WrongIpFamily), false, Cause::WrongIpFamily, "family"),
            (Stands::NoTarget(Cause::IpChanged), false, Cause::IpChanged, "another pod"),
            (Stands::NoTarget(Cause::NotGranted), false, Cause::NotGranted, "may not bind"),
            (
                Stands::NoTarget(Cause::WaitsForHostNetworkPod),
                false,
                Cause::WaitsForHostNetworkPod,
                "another pod",
            ),
        ] {
            let verdict = judged(&case(&[bound("blue", stands)]));
            assert_eq!((verdict.open, verdict.reason), (open, reason), "{stands:?}");
            assert!(verdict.message.contains(said), "{}", verdict.message);
            assert_eq!(verdict.message.starts_with("pod IP 10.0.0.1, "), open, "{}", verdict.message);
        }
    }

    #[test]
    fn of_two_bindings_both_count_and_the_message_names_all_that_are_waited_for() {
        let healthy = || bound("blue", read(HealthState::Healthy));
        let waits = judged(&case(&[healthy(), bound("green", read(HealthState::Initial))]));
        assert_eq!((waits.open, waits.reason), (false, Cause::TargetInitial));
        assert_eq!(waits.message, "target 10.0.0.1:80 of target group green: initial");
        let both =
            judged(&case(&[bound("blue", Stands::Unread(None)), bound("green", Stands::Unregistered)]));
        assert!(both.message.contains("blue") && both.message.contains("green"), "{}", both.message);
        assert!(judged(&case(&[healthy(), bound("green", read(HealthState::Healthy))])).open);
    }

    #[test]
    fn a_target_whose_health_could_not_be_read_for_long_enough_opens_it_beside_others_that_are_healthy() {
        let at = |seconds| Moment::after_start(Duration::from_secs(seconds));
        let terms = Terms { unread_for: Some(Duration::from_secs(60)), ..terms() };
        let unread = |since, tried| Stands::Unread(Some(Unread { since: at(since), tried }));
        let both = |other| [bound("blue", unread(10, true)), bound("green", other)];
        let judged = |bound: &[Bound], terms, seconds| {
            let verdict = judge(&case(bound), terms, at(seconds));
            (verdict.open, verdict.reason, verdict.look_again)
        };
        let healthy = both(read(HealthState::Healthy));
        let (opens, waits) = (Cause::HealthUnreadable, Cause::HealthUnread);
        assert_eq!(judged(&healthy, &terms, 69), (false, waits, Some(at(70))));
        assert_eq!(judged(&healthy, &terms, 70), (true, opens, None));
        assert_eq!(judged(&both(unread(20, true)), &terms, 70), (false, waits, Some(at(80))), "each of them");
        assert_eq!(judged(&both(unread(20, true)), &terms, 80), (true, opens, None));
        let initial = both(read(HealthState::Initial));
        assert_eq!(judged(&initial, &terms, 300), (false, Cause::TargetInitial, None), "that is an answer");
        assert_eq!(judged(&both(Stands::Unread(None)), &terms, 300), (false, waits, None));
        let unregistered = both(Stands::Unregistered);
        assert_eq!(judged(&unregistered, &terms, 300), (false, Cause::NotRegisteredYet, None));
        let not_tried = [bound("blue", unread(10, false))];
        assert_eq!(judged(&not_tried, &terms, 300), (false, waits, Some(at(305))), "no read was sent");
        let never = Terms { unread_for: None, ..terms };
        assert_eq!(judged(&healthy, &never, 300), (false, waits, None));
        let said = judge(&case(&healthy), &terms, at(71)).message;
        assert!(said.contains("blue: registered, but its health was unreadable for 61 s"), "{said}");
    }

    #[test]
    fn what_may_yet_bind_the_pod_keeps_it_closed_though_nothing_can_be_read() {
        let terms = Terms { unread_for: Some(Duration::from_secs(1)), ..terms() };
        let unread = [bound("blue", Stands::Unread(Some(Unread { since: Moment::START, tried: true })))];
        let late = Moment::after_start(Duration::from_secs(29));
        let missing = judge(&Case { expected: Some("blue:80,green:80"), ..case(&unread) }, &terms, late);
        assert_eq!((missing.open, missing.reason), (false, Cause::BindingMissing));
        let given_up = Moment::after_start(Duration::from_secs(31));
        let both = judge(&Case { expected: Some("blue:80,green:80"), ..case(&unread) }, &terms, given_up);
        assert_eq!((both.open, both.reason), (true, Cause::HealthUnreadable), "{}", both.message);
        assert!(both.message.contains("blue: registered") && both.message.contains("green on port 80"));
        let doubt = Some(Doubt::Pending(Origin::Service(service("web").build().key)));
        assert!(!judge(&Case { doubt, ..case(&unread) }, &terms, late).open);
    }

    #[test]
    fn a_target_group_that_nothing_uses_is_waited_for_where_that_is_asked_for() {
        let health = Health { reason: NOT_IN_USE, ..HealthState::Unused.into() };
        let unused = Bound { when_unused: GateWhenUnused::Wait, ..bound("blue", Stands::Read(health)) };
        let verdict = judged(&case(&[unused]));
        assert_eq!((verdict.open, verdict.reason), (false, Cause::TargetUnused));
    }

    #[test]
    fn without_an_ip_it_never_opens() {
        let healthy = [bound("blue", read(HealthState::Healthy))];
        assert_eq!(judged(&Case { ip: None, ..case(&healthy) }).reason, Cause::NoIp);
    }

    #[test]
    fn a_missing_binding_is_waited_for_and_then_given_up() {
        let healthy = [bound("blue", read(HealthState::Healthy))];
        for (bound, expected, said) in [
            (&healthy[..0], None, "no Service or TargetBinding select"),
            (&healthy[..0], Some("blue:80"), "target group blue on port 80"),
            (&healthy[..], Some("blue:80,green:80"), "target group green on port 80"),
            (&healthy[..], Some("blue:81"), "on port 81"),
            (&healthy[..], Some("oops"), "\"oops\" cannot be read"),
        ] {
            let case = Case { expected, ..case(bound) };
            let waits = judged(&case);
            assert_eq!((waits.open, waits.reason), (false, Cause::BindingMissing), "{expected:?}");
            assert!(waits.message.contains(said), "{}", waits.message);
            assert_eq!(waits.look_again, Some(given_up()));
            let gives_up = judge(&case, &terms(), given_up());
            assert_eq!((gives_up.open, gives_up.reason), (true, Cause::NothingBound), "{expected:?}");
            assert!(gives_up.message.contains(said), "{}", gives_up.message);
        }
        assert!(judged(&Case { expected: Some("blue:80"), ..case(&healthy) }).open);
    }

    #[test]
    fn what_cannot_be_followed_keeps_it_closed_for_ever() {
        let origin = Origin::Service(service("web").build().key);
        let late = Moment::START + std::time::Duration::from_secs(3600);
        for (doubt, reason) in [
            (Doubt::Pending(origin.clone()), Cause::BindingMissing),
            (Doubt::Unreadable(origin.clone()), Cause::BindingUnreadable),
            (Doubt::Refused(origin), Cause::NotGranted),
        ] {
            let verdict = judge(&Case { doubt: Some(doubt), ..case(&[]) }, &terms(), late);
            assert_eq!((verdict.open, verdict.reason), (false, reason));
            assert!(verdict.message.contains("shop/web"), "{}", verdict.message);
        }
    }
}
