//! Properties of the injection into a new pod when the API server calls the webhook again.

use proptest::prelude::*;

use super::{any_text, holds, is_a_good_message, label, text};
use crate::{
    inject::{INJECTED, decide},
    model::{
        Hold, Labels, LoadBalancerType,
        expected::EXPECTED_BINDINGS,
        injection::{
            Container, Hook, Injection, Known, Match, NewPod, Obstacle, Place, Probe, Program, Terms,
        },
        readiness::OWN_GATE,
    },
};

const TERMS: Terms =
    Terms { probe_grace: 5, program: Program::Available, max_grace: None, is_refused: false };

fn containers() -> impl Strategy<Value = Vec<Container>> {
    let command = (0..4000_u32, any::<bool>());
    let hook = prop_oneof![
        Just(Hook::None),
        Just(Hook::Request),
        Just(Hook::Other),
        (0..4000_u32).prop_map(Hook::Sleep),
        (0..4000_u32).prop_map(Hook::Wrapped),
        command.prop_map(|(sleeps, by_shell)| Hook::Command { sleeps, by_shell }),
    ];
    let probes = prop::sample::subsequence(&Probe::ALL[..], 0..=2);
    prop::collection::btree_map(label(), (any::<bool>(), hook, any::<bool>(), probes), 1..5).prop_map(|all| {
        let all = all.into_iter().enumerate();
        all.map(|(at, (name, (is_sidecar, pre_stop, is_taken, probes)))| {
            let place = if is_sidecar { Place::Sidecar(at) } else { Place::Container(at) };
            let obstacle = is_taken.then_some(Obstacle::Taken);
            Container { name: name.into(), place, pre_stop, obstacle, ports: Vec::new(), probes }
        })
        .collect()
    })
}

/// Seconds in usual and unusual forms.
fn grace() -> impl Strategy<Value = Option<i64>> {
    prop::option::of(prop_oneof![0..700_i64, any::<i64>(), Just(1_i64 << 32), Just(i64::MAX)])
}

/// A value of an annotation that another writer set.
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
        Match { group: group.into(), port, about: None, balancer, hold: hold.seconds(balancer) }
    });
    prop_oneof![
        1 => Just(Known::NotServed),
        1 => any::<bool>().prop_map(|served| Known::Unknown { served }),
        1 => Just(Known::Excluded),
        4 => prop::collection::vec(bound, 0..4).prop_map(Known::Bound),
    ]
}

/// The pod after the injection.
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
        if injection.released.contains(&container.place) {
            container.pre_stop = Hook::None;
        }
        if injection.wrapped.iter().any(|(place, _)| *place == container.place) {
            container.pre_stop = Hook::Wrapped(injection.seconds);
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

/// Possible changes between two webhook calls for a pod.
fn later() -> impl Strategy<Value = (Known, Option<i64>, Option<Box<str>>, Terms)> {
    let hold = prop::option::of(text("auto|off|[0-9]{1,4}s").prop_map(Into::into));
    let limit = prop::option::of(1..700_u32);
    (known(), prop::option::of(0..700_i64), hold, limit, any::<bool>()).prop_map(
        |(known, grace, hold, limit, is_refused)| {
            let max_grace = limit.map(|limit| (limit, "--max-grace"));
            (known, grace, hold, Terms { max_grace, is_refused, ..TERMS })
        },
    )
}

#[test]
fn whatever_changed_after_the_first_look_the_second_settles_it_within_the_limits() {
    holds((pod(), known(), later()), |(pod, at_first, (known, grace, hold, terms))| {
        let pod = NewPod { injected: None, ..pod };
        let first = decide(&pod, &at_first, TERMS);
        let once = given(pod.clone(), &first);
        let changed = NewPod { grace: grace.or(once.grace), hold: hold.or(once.hold.clone()), ..once };
        let second = decide(&changed, &known, terms);
        let twice = given(changed.clone(), &second);
        let most = twice.grace.unwrap_or(30).max(0);
        if let Some(raised) = second.grace.filter(|raised| *raised > changed.grace.unwrap_or(30)) {
            prop_assert!(terms.max_grace.is_none_or(|(limit, _)| raised <= i64::from(limit)), "{second:?}");
            prop_assert!(first.grace.is_none_or(|first| changed.grace.unwrap_or(30) >= first), "{second:?}");
        }
        for container in twice.containers.iter().filter(|_| known != Known::NotServed) {
            let is_ours = first.held.contains(&container.place) || second.held.contains(&container.place);
            if let Hook::Sleep(seconds) = container.pre_stop {
                prop_assert!(!is_ours || i64::from(seconds) <= most, "Kubernetes refuses {twice:?}");
            }
        }
        let third = decide(&twice, &known, terms);
        prop_assert!(third.is_empty(), "{twice:?} is given {third:?}");
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
                Hook::Wrapped(_) | Hook::Command { .. } | Hook::Request | Hook::Other => false,
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
            obstacle: None,
            ports: Vec::new(),
            probes: Vec::new(),
        };
        let pod = NewPod { grace: Some(grace), containers: vec![web], ..NewPod::default() };
        let known = Known::Bound(Vec::new());
        let first = decide(&pod, &known, TERMS);
        assert_eq!(first.grace.unwrap_or(grace), grace.saturating_add(150));
        assert!(decide(&given(pod, &first), &known, TERMS).is_empty(), "{grace}");
    }
}
