//! What a new pod is given, when the API server asks about it once more.

use proptest::prelude::*;

use super::{any_text, holds, is_a_good_message, label, text};
use crate::{
    inject::{INJECTED, decide},
    model::{
        Hold, Labels, LoadBalancerType,
        expected::EXPECTED_BINDINGS,
        injection::{
            Container, Hook, Injection, Known, Match, NewPod, Place, Probe, Program, Terms, Wrapper,
        },
        readiness::OWN_GATE,
    },
};

const TERMS: Terms = Terms { probe_grace: 5, program: Program::Available };

fn containers() -> impl Strategy<Value = Vec<Container>> {
    let command = (0..4000_u32, any::<bool>());
    let hook = prop_oneof![
        Just(Hook::None),
        Just(Hook::Request),
        Just(Hook::Other),
        (0..4000_u32).prop_map(Hook::Sleep),
        command.prop_map(|(sleeps, by_shell)| Hook::Command { sleeps, by_shell }),
    ];
    let probes = prop::sample::subsequence(&Probe::ALL[..], 0..=2);
    prop::collection::btree_map(label(), (any::<bool>(), hook, any::<bool>(), probes), 1..5).prop_map(|all| {
        let all = all.into_iter().enumerate();
        all.map(|(at, (name, (is_sidecar, pre_stop, has_room, probes)))| {
            let place = if is_sidecar { Place::Sidecar(at) } else { Place::Container(at) };
            Container { name: name.into(), place, pre_stop, has_room, probes }
        })
        .collect()
    })
}

/// Seconds as people write them, and as nobody does.
fn grace() -> impl Strategy<Value = Option<i64>> {
    prop::option::of(prop_oneof![0..700_i64, any::<i64>(), Just(1_i64 << 32), Just(i64::MAX)])
}

/// A value of an annotation that somebody wrote.
fn noted() -> impl Strategy<Value = Option<Box<str>>> {
    let near = text(
        "(GateAdded; )?(HoldAdded: [0-9]{1,6}s in [a-z, ]{1,9} \\(NLB\\); )?(GraceRaised: [0-9]{1,22}s)?",
    );
    prop::option::of(prop_oneof![near, any_text()].prop_map(Into::into))
}

fn pod() -> impl Strategy<Value = NewPod> {
    let hold = prop::option::of(prop_oneof![text("auto|off|[0-9]{1,4}s"), any_text()].prop_map(Into::into));
    let own =
        prop::option::of(prop_oneof![text("leave|wrap|wrap-by-shell"), any_text()].prop_map(Into::into));
    (containers(), grace(), hold, own, any::<bool>(), any::<bool>(), noted()).prop_map(
        |(containers, grace, hold, own_pre_stop, gated, of_job, injected)| NewPod {
            labels: Labels::from_iter([("app", "web")]),
            hold,
            own_pre_stop,
            of_job,
            injected,
            gates: if gated { vec![OWN_GATE.into()] } else { Vec::new() },
            grace,
            containers,
            ..NewPod::default()
        },
    )
}

fn known() -> impl Strategy<Value = Known> {
    let hold = prop_oneof![Just(Hold::Auto), Just(Hold::Off), (1..=3600_u32).prop_map(Hold::For)];
    let bound = (text("[a-z]{1,9}"), prop::option::of(1..=u16::MAX), any::<bool>(), hold);
    let bound = bound.prop_map(|(group, port, application, hold)| {
        let balancer = if application { LoadBalancerType::Application } else { LoadBalancerType::Network };
        Match { group: group.into(), port, balancer, hold: hold.seconds(balancer) }
    });
    prop_oneof![
        1 => Just(Known::NotServed),
        1 => any::<bool>().prop_map(|served| Known::Unknown { served }),
        1 => Just(Known::Excluded),
        4 => prop::collection::vec(bound, 0..4).prop_map(Known::Bound),
    ]
}

/// The pod with what it was given.
fn given(mut pod: NewPod, injection: &Injection) -> NewPod {
    let annotation =
        |name| injection.annotations.iter().find(|(is, _)| *is == name).map(|(_, value)| &**value);
    if injection.gate {
        pod.gates.push(OWN_GATE.into());
    }
    for container in &mut pod.containers {
        if injection.held.contains(&container.place) {
            container.pre_stop = Hook::Sleep(injection.seconds);
        }
        if let Some((_, wrapper)) = injection.wrapped.iter().find(|(place, _)| *place == container.place) {
            let by_shell = *wrapper == Wrapper::Shell;
            container.pre_stop = Hook::Command { sleeps: injection.seconds, by_shell };
        }
        container.probes.retain(|probe| {
            !injection.probes.iter().any(|given| (given.place, given.probe) == (container.place, *probe))
        });
    }
    pod.grace = injection.grace.or(pod.grace);
    pod.injected = annotation(INJECTED).map(Box::from).or(pod.injected);
    pod.has_expectations |= annotation(EXPECTED_BINDINGS).is_some();
    pod
}

#[test]
fn a_pod_that_was_given_all_is_given_nothing_more() {
    holds((pod(), known()), |(pod, known)| {
        let first = decide(&pod, &known, TERMS);
        for said in &first.warnings {
            is_a_good_message(said)?;
        }
        let once = given(pod, &first);
        let again = decide(&once, &known, TERMS);
        prop_assert!(again.is_empty(), "{once:?} is given {again:?}");
        Ok(())
    });
}

#[test]
fn what_is_given_is_bounded_and_takes_nothing_away() {
    holds((pod(), known()), |(pod, known)| {
        let injection = decide(&pod, &known, TERMS);
        prop_assert!(injection.seconds <= 3600, "{injection:?}");
        if let Some(raised) = injection.grace {
            prop_assert!(raised >= pod.grace.unwrap_or(30) && raised >= i64::from(injection.seconds));
        }
        for container in pod.containers.iter().filter(|one| injection.held.contains(&one.place)) {
            let is_longer = match container.pre_stop {
                Hook::None => true,
                Hook::Sleep(own) => own < injection.seconds,
                Hook::Command { .. } | Hook::Request | Hook::Other => false,
            };
            prop_assert!(
                is_longer,
                "a preStop of its own stays, and a sleep becomes no shorter: {container:?}"
            );
        }
        for given in &injection.probes {
            let before = pod.grace.unwrap_or(30).max(1);
            prop_assert!((1..=before).contains(&given.seconds), "{given:?} of {pod:?}");
        }
        Ok(())
    });
}

#[test]
fn a_grace_period_of_more_than_a_hundred_years_is_raised_once() {
    for grace in [u32::MAX.into(), 1_i64 << 32, (1 << 32) + 1, 1 << 40, i64::MAX - 1, i64::MAX] {
        let web = Container {
            name: "web".into(),
            place: Place::Container(0),
            pre_stop: Hook::None,
            has_room: true,
            probes: Vec::new(),
        };
        let pod = NewPod { grace: Some(grace), containers: vec![web], ..NewPod::default() };
        let known = Known::Bound(Vec::new());
        let first = decide(&pod, &known, TERMS);
        assert_eq!(first.grace, Some(grace.saturating_add(150)));
        assert!(decide(&given(pod, &first), &known, TERMS).is_empty(), "{grace}");
    }
}
