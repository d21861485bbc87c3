use super::*;
use crate::model::{
    Hold, Labels, LoadBalancerType,
    injection::{Container, Hook, MAX_GRACE, Obstacle, Place, Probe, Program, Wrapper},
    load_balancer::LoadBalancerType::{Application, Network},
    policy::HOLD,
};

/// Decides with the default settings.
fn decide(pod: &NewPod, known: &Known) -> Injection {
    super::decide(pod, known, TERMS)
}

const TERMS: Terms =
    Terms { probe_grace: 5, program: Program::Available, max_grace: None, is_refused: false };

/// A pod with these containers, no `preStop` hooks, and a grace period of 30 s.
fn pod(containers: &[&str]) -> NewPod {
    let container = |(at, name): (usize, &&str)| Container {
        name: (*name).into(),
        place: Place::Container(at),
        pre_stop: Hook::None,
        obstacle: None,
        ports: vec![8080],
        probes: Vec::new(),
    };
    NewPod {
        labels: Labels::from_iter([("app", "web")]),
        grace: Some(30),
        containers: containers.iter().enumerate().map(container).collect(),
        ..NewPod::default()
    }
}

fn bound(group: &str, balancer: LoadBalancerType, hold: Hold) -> Match {
    Match { group: group.into(), port: Some(8080), about: None, balancer, hold: hold.seconds(balancer) }
}

fn nlb() -> Known {
    Known::Bound(vec![bound("blue", Network, Hold::Auto)])
}

fn alb() -> Known {
    Known::Bound(vec![bound("green", Application, Hold::Auto)])
}

fn annotation<'a>(injection: &'a Injection, name: &str) -> Option<&'a str> {
    injection.annotations.iter().find(|(is, _)| *is == name).map(|(_, value)| value.as_str())
}

/// The pod after the injection.
fn injected(mut pod: NewPod, injection: &Injection) -> NewPod {
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
            !injection.probes.iter().any(|given| given.place == container.place && given.probe == *probe)
        });
    }
    pod.grace = injection.grace.or(pod.grace);
    pod.injected = annotation(injection, INJECTED).map(Box::from).or(pod.injected);
    pod.has_expectations |= annotation(injection, EXPECTED_BINDINGS).is_some();
    pod
}

#[test]
fn an_injection_is_empty_only_if_it_changes_nothing() {
    assert!(decide(&pod(&["web"]), &Known::NotServed).is_empty());
    for changes in [
        Injection { gate: true, ..Injection::default() },
        Injection { held: vec![Place::Container(0)], ..Injection::default() },
        Injection { wrapped: vec![(Place::Container(0), Wrapper::Shell)], ..Injection::default() },
        Injection { released: vec![Place::Container(0)], ..Injection::default() },
        Injection { grace: Some(30), ..Injection::default() },
        Injection {
            probes: vec![ProbeGrace { place: Place::Container(0), probe: Probe::Startup, seconds: 5 }],
            ..Injection::default()
        },
        Injection { annotations: vec![(INJECTED, String::new())], ..Injection::default() },
    ] {
        assert!(!changes.is_empty(), "{changes:?}");
    }
}

#[test]
fn a_bound_pod_gets_the_gate_the_hold_of_its_load_balancer_and_the_time_for_it() {
    for (known, seconds, group, said) in [
        (nlb(), 150, "blue:8080", "GateAdded; HoldAdded: 150s in web (NLB); GraceRaised: 180s"),
        (alb(), 45, "green:8080", "GateAdded; HoldAdded: 45s in web (ALB); GraceRaised: 75s"),
    ] {
        let injection = decide(&pod(&["web"]), &known);
        assert!(injection.gate);
        assert_eq!((injection.seconds, &injection.held[..]), (seconds, &[Place::Container(0)][..]));
        assert_eq!(injection.grace, Some(30 + i64::from(seconds)));
        assert_eq!(annotation(&injection, EXPECTED_BINDINGS), Some(group));
        assert_eq!(annotation(&injection, INJECTED), Some(said));
        assert_eq!(injection.decisions, [Decision::GateAdded, Decision::HoldAdded, Decision::GraceRaised]);
        assert_eq!(injection.news, injection.decisions);
    }
}

#[test]
fn how_long_is_said_by_the_pod_before_its_bindings_and_of_these_by_the_longest() {
    let both = |a, b| Known::Bound(vec![bound("green", Application, a), bound("blue", Network, b)]);
    use Hold::{Auto, For, Off};
    for (own, known, seconds, why) in [
        (None, both(Auto, Auto), 150, "NLB"),
        (None, both(Auto, For(20)), 45, "ALB"),
        (None, both(For(200), Auto), 200, HOLD),
        (None, both(Off, Auto), 150, "NLB"),
        (None, both(Off, Off), 0, HOLD),
        (None, Known::Bound(vec![]), 150, "no binding known, so as for an NLB"),
        (None, Known::Unknown { served: true }, 150, "no binding known, so as for an NLB"),
        (Some("90s"), both(Auto, Auto), 90, HOLD),
        (Some("off"), both(Auto, Auto), 0, HOLD),
        (Some("auto"), Known::Bound(vec![bound("green", Application, For(9))]), 45, "ALB"),
        (Some("auto"), Known::Bound(vec![]), 150, "no binding known, so as for an NLB"),
    ] {
        let pod = NewPod { hold: own.map(Box::from), ..pod(&["web"]) };
        let injection = decide(&pod, &known);
        assert_eq!(injection.seconds, seconds, "{own:?}, {known:?}");
        let said = annotation(&injection, INJECTED).unwrap();
        assert!(said.contains(why), "{said}");
        assert_eq!(injection.decisions.contains(&Decision::HoldOff), seconds == 0);
        assert_eq!((injection.held.is_empty(), injection.grace.is_none()), (seconds == 0, seconds == 0));
        assert!(injection.gate, "without a hold the gate is added all the same");
    }
}

#[test]
fn a_hold_that_cannot_be_read_is_said_to_whoever_creates_the_pod_and_counts_as_not_there() {
    let pod = NewPod { hold: Some("soon".into()), ..pod(&["web"]) };
    let injection = decide(&pod, &alb());
    assert_eq!(injection.seconds, 45);
    assert_eq!(
        injection.warnings,
        [
            "headgate.dev/hold: invalid value \"soon\" is ignored. Set auto, off, or a duration from 1s to 1h in whole \
             seconds, e.g. 45s or 2m30s."
        ]
    );
}

#[test]
fn a_pre_stop_of_its_own_stays_and_adds_no_grace() {
    let mut pod = pod(&["web", "shell"]);
    pod.containers[0].pre_stop = Hook::Other;
    let injection = decide(&pod, &nlb());
    assert_eq!(injection.held, [Place::Container(1)]);
    let said = annotation(&injection, INJECTED).unwrap();
    assert_eq!(said, "GateAdded; HoldAdded: 150s in shell (NLB); OwnPreStop: web; GraceRaised: 180s");
    pod.containers[1].pre_stop = Hook::Other;
    let injection = decide(&pod, &nlb());
    assert!(injection.held.is_empty() && injection.grace.is_none() && injection.gate);
    assert_eq!(annotation(&injection, INJECTED), Some("GateAdded; OwnPreStop: web, shell"));
}

#[test]
fn native_sidecars_are_held_too_since_one_of_them_may_be_the_one_that_serves() {
    let mut pod = pod(&["web"]);
    let sidecar = Container {
        name: "proxy".into(),
        place: Place::Sidecar(1),
        pre_stop: Hook::None,
        obstacle: None,
        ports: vec![8080],
        probes: Vec::new(),
    };
    pod.containers.push(sidecar);
    assert_eq!(decide(&pod, &nlb()).held, [Place::Container(0), Place::Sidecar(1)]);
}

#[test]
fn the_grace_period_is_raised_by_the_hold_whatever_it_was() {
    for (grace, raised) in
        [(None, 180), (Some(0), 150), (Some(-1), 150), (Some(600), 750), (Some(i64::MAX - 1), i64::MAX)]
    {
        let pod = NewPod { grace, ..pod(&["web"]) };
        assert_eq!(decide(&pod, &nlb()).grace, Some(raised), "{grace:?}");
    }
}

#[test]
fn a_gate_written_by_hand_stays_and_is_said() {
    let pod = NewPod { gates: vec!["example.com/x".into(), OWN_GATE.into()], ..pod(&["web"]) };
    let injection = decide(&pod, &nlb());
    assert!(!injection.gate);
    assert_eq!(injection.decisions[0], Decision::GatePresent);
    assert_eq!(annotation(&injection, EXPECTED_BINDINGS), Some("blue:8080"));
}

#[test]
fn a_pod_that_has_it_all_is_left_as_it_is_whatever_is_known_by_then() {
    for first in [nlb(), alb(), Known::Bound(vec![]), Known::Unknown { served: true }] {
        let first_pass = decide(&pod(&["web", "proxy"]), &first);
        let once = injected(pod(&["web", "proxy"]), &first_pass);
        for again in [alb(), Known::Unknown { served: true }, Known::Unknown { served: false }] {
            let mut injection = decide(&once, &again);
            // A later call may add the annotation for bindings that were unknown before.
            injection.annotations.retain(|(name, _)| *name != EXPECTED_BINDINGS || once.has_expectations);
            assert!(injection.is_empty(), "{first:?}, {again:?}: {injection:?}");
        }
    }
}

#[test]
fn a_container_that_another_webhook_adds_later_is_held_like_the_others_and_the_grace_is_not_raised_twice() {
    let once = injected(pod(&["web"]), &decide(&pod(&["web"]), &alb()));
    let mut with_proxy = once.clone();
    let proxy = Container {
        name: "proxy".into(),
        place: Place::Container(1),
        pre_stop: Hook::None,
        obstacle: None,
        ports: vec![8080],
        probes: Vec::new(),
    };
    with_proxy.containers.push(proxy);
    let injection = decide(&with_proxy, &alb());
    assert_eq!((injection.seconds, &injection.held[..]), (45, &[Place::Container(1)][..]));
    assert_eq!((injection.grace, injection.gate), (None, false));
    let said = annotation(&injection, INJECTED).unwrap();
    assert_eq!(said, "GateAdded; HoldAdded: 45s in web, proxy (ALB); GraceRaised: 75s");
    assert_eq!(injection.decisions, [Decision::GateAdded, Decision::HoldAdded, Decision::GraceRaised]);
    assert_eq!(injection.news, [], "all of it was said, and counted, before");
    assert!(decide(&injected(with_proxy, &injection), &alb()).is_empty());
}

#[test]
fn the_hold_is_shortened_to_a_grace_period_that_was_lowered_since_which_is_never_raised_again() {
    let once = injected(pod(&["web"]), &decide(&pod(&["web"]), &nlb()));
    let forged = NewPod { injected: Some("GraceRaised: 30s".into()), ..pod(&["web"]) };
    assert_eq!(decide(&forged, &nlb()).grace, Some(180), "nothing of it is in the spec");
    for (lowered, seconds) in [(179, 149), (120, 90), (31, 1), (30, 0), (10, 0)] {
        let lowered_pod = NewPod { grace: Some(lowered), ..once.clone() };
        let injection = decide(&lowered_pod, &nlb());
        assert_eq!((injection.seconds, injection.grace), (seconds, None), "{lowered}");
        let place = [Place::Container(0)];
        assert_eq!(injection.held, place[..usize::from(seconds > 0)], "{lowered}");
        assert_eq!(injection.released, place[..usize::from(seconds == 0)], "{lowered}");
        let said = annotation(&injection, INJECTED).unwrap();
        let why = format!(
            "HoldShortened: {seconds}s of 150s, because another webhook has lowered the grace period of the pod to \
             {lowered} s"
        );
        assert!(said.contains(&why), "{said}");
        assert!(injection.warnings[0].contains("Allow a terminationGracePeriodSeconds of 180 s."));
        let shortened = injected(lowered_pod, &injection);
        for known in [nlb(), alb(), Known::Unknown { served: true }] {
            let again = decide(&shortened, &known);
            assert!(again.is_empty() && again.grace.is_none(), "{lowered}: {again:?}");
        }
    }
}

#[test]
fn a_grace_period_that_was_raised_further_since_stays() {
    let once = injected(pod(&["web"]), &decide(&pod(&["web"]), &nlb()));
    let injection = decide(&NewPod { grace: Some(300), ..once }, &nlb());
    assert!(injection.is_empty(), "{injection:?}");
}

#[test]
fn a_limit_on_grace_periods_shortens_the_hold_and_that_is_said() {
    let flag = Terms { max_grace: Some((120, "--max-grace")), ..TERMS };
    for (own, terms, grace, seconds, raised, said) in [
        (None, flag, 30, 90, Some(120), Some("HoldShortened: 90s of 150s, because --max-grace says 120s")),
        (None, flag, 119, 1, Some(120), Some("HoldShortened: 1s of 150s")),
        (None, flag, 120, 0, None, None),
        (None, flag, 600, 0, None, None),
        (
            Some("100s"),
            flag,
            30,
            70,
            Some(100),
            Some("because the pod's annotation headgate.dev/max-grace says 100s"),
        ),
        (Some("10m"), flag, 30, 150, Some(180), None),
        (Some("3m"), TERMS, 30, 150, Some(180), None),
        (Some("179s"), TERMS, 30, 149, Some(179), Some("HoldShortened: 149s of 150s")),
    ] {
        let pod = NewPod { grace: Some(grace), max_grace: own.map(Box::from), ..pod(&["web"]) };
        let injection = super::decide(&pod, &nlb(), terms);
        assert_eq!((injection.seconds, injection.grace), (seconds, raised), "{own:?} {grace}");
        let note = annotation(&injection, INJECTED).unwrap();
        assert!(said.is_none_or(|said| note.contains(said)), "{note}");
        assert_eq!(note.contains("HoldShortened"), !injection.warnings.is_empty(), "{note}");
        let again = super::decide(&injected(pod, &injection), &nlb(), terms);
        assert!(again.is_empty(), "{own:?} {grace}: {again:?}");
    }
    let odd = NewPod { max_grace: Some("two minutes".into()), ..pod(&["web"]) };
    let injection = decide(&odd, &nlb());
    assert_eq!(injection.seconds, 150);
    assert_eq!(
        injection.warnings,
        [format!("{MAX_GRACE}: invalid value \"two minutes\" is ignored. Set {MAX_GRACE_EXPECTED}.")]
    );
}

#[test]
fn a_pod_whose_owner_gets_no_held_pod_created_is_not_held_and_that_is_said() {
    let terms = Terms { is_refused: true, ..TERMS };
    let injection = super::decide(&pod(&["web"]), &nlb(), terms);
    assert!(injection.gate && injection.held.is_empty() && injection.grace.is_none());
    let said = annotation(&injection, INJECTED).unwrap();
    assert_eq!(
        said,
        "GateAdded; HoldRefused: 0s of 150s, because pods of its owner that were given a hold were not created"
    );
    let once = injected(pod(&["web"]), &decide(&pod(&["web"]), &nlb()));
    assert!(super::decide(&once, &nlb(), terms).is_empty(), "what was given in the same request stays");
}

#[test]
fn a_pod_that_was_copied_with_what_was_written_on_it_gets_the_hold_that_it_needs_now() {
    let behind_alb = injected(pod(&["web", "log"]), &decide(&pod(&["web", "log"]), &alb()));
    // A user copies the pod to a Service behind an NLB, or the copy requests another length.
    for (own, seconds, grace) in [(None, 150, 180), (Some("200s"), 200, 230), (Some("20s"), 20, 50)] {
        let copy = NewPod { hold: own.map(Box::from), ..behind_alb.clone() };
        let injection = decide(&copy, &nlb());
        assert_eq!((injection.seconds, injection.grace), (seconds, Some(grace)), "{own:?}");
        assert_eq!(injection.held.len(), 2);
        let said = annotation(&injection, INJECTED).unwrap();
        assert!(
            said.contains(&format!("{seconds}s in web, log")) && !said.contains("OwnSleepRaised"),
            "{said}"
        );
        assert!(decide(&injected(copy, &injection), &nlb()).is_empty());
    }
    let off = NewPod { hold: Some("off".into()), ..behind_alb.clone() };
    let injection = decide(&off, &nlb());
    assert_eq!((injection.released.len(), injection.grace), (2, Some(30)));
    assert!(decide(&injected(off, &injection), &nlb()).is_empty());
    // The copy keeps only the annotation of the earlier pod.
    let noted = NewPod { injected: behind_alb.injected, ..pod(&["web", "log"]) };
    assert_eq!(decide(&noted, &nlb()).seconds, 150);
    assert_eq!(decide(&noted, &Known::Unknown { served: true }).seconds, 150);
}

#[test]
fn a_hook_that_was_wrapped_before_it_was_copied_holds_for_the_new_time() {
    let wrapped = injected(with_own(SCRIPT, "wrap"), &decide(&with_own(SCRIPT, "wrap"), &alb()));
    assert_eq!(wrapped.containers[0].pre_stop, Hook::Wrapped(45));
    let injection = decide(&wrapped, &nlb());
    assert_eq!(injection.wrapped, [(Place::Container(0), Wrapper::Present)]);
    assert_eq!((injection.seconds, injection.grace), (150, Some(180)));
    assert!(decide(&injected(wrapped, &injection), &nlb()).is_empty());
}

#[test]
fn whoever_creates_a_pod_is_told_of_a_hook_of_its_own_where_requests_come_to() {
    let warned = |pod: &NewPod, known: &Known| decide(pod, known).warnings.join(" ");
    let mut own = pod(&["web", "log"]);
    own.containers[1].ports = vec![9000];
    own.containers[0].pre_stop = SCRIPT;
    let said = warned(&own, &nlb());
    assert!(said.starts_with("container web has its own preStop and no hold"), "{said}");
    assert!(said.ends_with("or begin the command with sleep 150."), "{said}");
    assert_eq!(warned(&own, &Known::Unknown { served: true }), "");
    own.containers[0].pre_stop = Hook::Command { sleeps: 150, by_shell: true };
    assert_eq!(warned(&own, &nlb()), "", "it sleeps long enough");
    // The second container receives no requests, unless no container declares the port.
    own.containers[0].pre_stop = Hook::None;
    own.containers[1].pre_stop = Hook::Other;
    assert_eq!(warned(&own, &nlb()), "");
    own.containers[0].ports.clear();
    assert!(warned(&own, &nlb()).starts_with("container log has its own preStop"));
    // A native sidecar, such as a proxy of a service mesh.
    let mut mesh = pod(&["web", "proxy"]);
    mesh.containers[0].ports = vec![9000];
    mesh.containers[1].place = Place::Sidecar(0);
    mesh.containers[1].pre_stop = BINARY;
    assert!(warned(&mesh, &nlb()).starts_with("container proxy has its own preStop"));
}

#[test]
fn a_sleep_of_its_own_is_raised_to_the_hold_and_a_longer_one_stays() {
    for (own, known, held, said) in [
        (
            20,
            nlb(),
            true,
            "GateAdded; HoldAdded: 150s in web (NLB); OwnSleepRaised: web from 20s; GraceRaised: 180s",
        ),
        (
            149,
            nlb(),
            true,
            "GateAdded; HoldAdded: 150s in web (NLB); OwnSleepRaised: web from 149s; GraceRaised: 180s",
        ),
        (150, nlb(), false, "GateAdded; OwnPreStop: web"),
        (60, alb(), false, "GateAdded; OwnPreStop: web"),
    ] {
        let mut pod = pod(&["web"]);
        pod.containers[0].pre_stop = Hook::Sleep(own);
        let injection = decide(&pod, &known);
        assert_eq!(injection.held.len(), usize::from(held), "{own}");
        assert_eq!(annotation(&injection, INJECTED), Some(said));
        let again = decide(&injected(pod, &injection), &known);
        assert!(again.is_empty(), "{own}: {again:?}");
    }
    let mut off = NewPod { hold: Some("off".into()), ..pod(&["web"]) };
    off.containers[0].pre_stop = Hook::Sleep(20);
    assert!(decide(&off, &nlb()).held.is_empty(), "nobody wants it to be held");
}

#[test]
fn the_probes_of_a_held_container_end_it_about_as_soon_as_before() {
    for (grace, probe_grace, seconds) in [(None, 5, 5), (Some(60), 20, 20), (Some(3), 5, 3), (Some(0), 5, 1)]
    {
        let mut pod = NewPod { grace, ..pod(&["web", "log"]) };
        pod.containers[0].probes = Probe::ALL.to_vec();
        let terms = Terms { probe_grace, ..TERMS };
        let injection = super::decide(&pod, &nlb(), terms);
        let place = Place::Container(0);
        assert_eq!(injection.probes, Probe::ALL.map(|probe| ProbeGrace { place, probe, seconds }));
        let said = annotation(&injection, INJECTED).unwrap();
        let probes = format!(
            "ProbeGraceAdded: {seconds}s for livenessProbe of web, {seconds}s for startupProbe of web"
        );
        assert!(said.ends_with(&probes), "{said}");
        assert!(super::decide(&injected(pod, &injection), &nlb(), terms).is_empty());
    }
}

#[test]
fn a_probe_of_a_container_that_is_not_held_keeps_the_time_that_it_had() {
    let mut pod = pod(&["web", "own"]);
    pod.containers[1].pre_stop = Hook::Other;
    pod.containers[1].probes = vec![Probe::Liveness];
    let kept = [ProbeGrace { place: Place::Container(1), probe: Probe::Liveness, seconds: 30 }];
    assert_eq!(decide(&pod, &nlb()).probes, kept, "the pod's grace period is 180 s now");
    pod.containers[0].pre_stop = Hook::Other;
    assert_eq!(decide(&pod, &nlb()).probes, [], "nobody is held, so nothing has changed for it");
    let off = NewPod { hold: Some("off".into()), ..pod };
    assert_eq!(decide(&off, &nlb()).probes, []);
}

#[test]
fn the_probe_of_a_container_that_comes_later_is_given_what_the_first_ones_were() {
    let mut first = NewPod { grace: Some(20), ..pod(&["web"]) };
    first.containers[0].probes = vec![Probe::Liveness];
    let mut with_proxy = injected(first.clone(), &decide(&first, &nlb()));
    let proxy = |pre_stop| Container {
        name: "proxy".into(),
        place: Place::Container(1),
        pre_stop,
        obstacle: None,
        ports: vec![8080],
        probes: vec![Probe::Startup],
    };
    for (pre_stop, seconds) in [(Hook::None, 5), (Hook::Other, 20)] {
        with_proxy.containers.truncate(1);
        with_proxy.containers.push(proxy(pre_stop));
        let injection = decide(&with_proxy, &nlb());
        let given = ProbeGrace { place: Place::Container(1), probe: Probe::Startup, seconds };
        assert_eq!((&injection.probes[..], injection.grace), (&[given][..], None));
        let said = annotation(&injection, INJECTED).unwrap();
        let probes =
            format!("ProbeGraceAdded: 5s for livenessProbe of web, {seconds}s for startupProbe of proxy");
        assert!(said.ends_with(&probes), "{said}");
    }
}

#[test]
fn a_note_that_makes_no_sense_counts_as_none() {
    for note in [
        "",
        "yes",
        "HoldAdded",
        "HoldAdded: ",
        "HoldAdded: 0s in web (NLB)",
        "HoldAdded: x in y (z)",
        "; ; :",
    ] {
        let odd = NewPod { injected: Some(note.into()), ..pod(&["web"]) };
        let (odd, plain) = (decide(&odd, &nlb()), decide(&pod(&["web"]), &nlb()));
        assert_eq!(odd, plain, "{note}");
    }
}

#[test]
fn nothing_is_given_to_a_pod_that_says_no_or_that_this_headgate_does_not_look_after() {
    let no = NewPod { labels: Labels::from_iter([(INJECT, "false")]), ..pod(&["web"]) };
    for (pod, known, reason) in
        [(no, nlb(), Decision::InjectionOff), (pod(&["web"]), Known::NotServed, Decision::NamespaceNotServed)]
    {
        let injection = decide(&pod, &known);
        assert!(injection.is_empty());
        assert_eq!((&injection.decisions[..], &injection.news[..]), (&[reason][..], &[reason][..]));
    }
}

#[test]
fn while_it_is_not_known_whether_the_namespace_is_looked_after_only_the_hold_is_given() {
    let injection = decide(&pod(&["web"]), &Known::Unknown { served: false });
    assert!(!injection.gate && injection.held.len() == 1);
    assert_eq!(injection.decisions[0], Decision::BindingsUnknown);
}

#[test]
fn expected_bindings_are_each_said_once_and_those_that_somebody_wrote_stay() {
    let mut all = vec![bound("blue", Network, Hold::Auto), bound("blue", Network, Hold::Auto)];
    all.push(Match { port: None, ..bound("red", Network, Hold::Auto) });
    all.push(Match { port: Some(81), ..bound("amber", Application, Hold::Auto) });
    let injection = decide(&pod(&["web"]), &Known::Bound(all.clone()));
    assert_eq!(annotation(&injection, EXPECTED_BINDINGS), Some("amber:81,blue:8080"));
    let written = NewPod { has_expectations: true, ..pod(&["web"]) };
    assert_eq!(annotation(&decide(&written, &Known::Bound(all)), EXPECTED_BINDINGS), None);
}

#[test]
fn under_the_label_of_its_namespace_a_pod_of_a_job_or_that_no_binding_selects_is_given_nothing() {
    let job = NewPod { of_job: true, ..pod(&["web"]) };
    for (pod, known, said) in [
        (job.clone(), nlb(), "HoldNotNeeded: a Job made it"),
        (job.clone(), Known::Excluded, "HoldNotNeeded: a Job made it"),
        (job, Known::Unknown { served: true }, "HoldNotNeeded: a Job made it"),
        (pod(&["web"]), Known::Excluded, "HoldNotNeeded: no binding selects it"),
    ] {
        let injection = decide(&pod, &known);
        let expected = Injection {
            annotations: vec![(INJECTED, said.into())],
            ..Injection::nothing(Decision::HoldNotNeeded)
        };
        assert_eq!(injection, expected);
        assert!(decide(&injected(pod, &injection), &known).is_empty());
    }
}

#[test]
fn what_asks_for_it_itself_is_held_all_the_same() {
    let gate = vec![OWN_GATE.into()];
    for asks in [
        NewPod { labels: Labels::from_iter([(INJECT, "true")]), ..pod(&["web"]) },
        NewPod { hold: Some("auto".into()), ..pod(&["web"]) },
        NewPod { gates: gate, ..pod(&["web"]) },
    ] {
        for of_job in [true, false] {
            let injection = decide(&NewPod { of_job, ..asks.clone() }, &Known::Excluded);
            assert!(injection.seconds == 150 && injection.held.len() == 1, "{injection:?}");
        }
    }
}

#[test]
fn what_was_given_before_the_bindings_were_known_is_looked_after_still() {
    let first = decide(&pod(&["web"]), &Known::Unknown { served: true });
    let mut with_proxy = injected(pod(&["web"]), &first);
    assert!(decide(&with_proxy, &Known::Excluded).is_empty());
    let proxy = Container {
        name: "proxy".into(),
        place: Place::Container(1),
        pre_stop: Hook::None,
        obstacle: None,
        ports: vec![8080],
        probes: vec![],
    };
    with_proxy.containers.push(proxy);
    assert_eq!(decide(&with_proxy, &Known::Excluded).held, [Place::Container(1)]);
    // A pod without a binding at the first call gets the gate when a later call finds a binding.
    let none = injected(pod(&["web"]), &decide(&pod(&["web"]), &Known::Excluded));
    assert!(decide(&none, &nlb()).gate);
}

/// A command that a shell runs, and a command without a shell.
const SCRIPT: Hook = Hook::Command { sleeps: 15, by_shell: true };
const BINARY: Hook = Hook::Command { sleeps: 0, by_shell: false };

fn with_own(pre_stop: Hook, asks: &str) -> NewPod {
    let mut pod = pod(&["web", "log"]);
    pod.containers[0].pre_stop = pre_stop;
    NewPod { own_pre_stop: Some(asks.into()), ..pod }
}

#[test]
fn a_hook_of_its_own_is_run_after_the_hold_where_the_pod_asks_for_it() {
    for (hook, asks, wrapper, said) in [
        (SCRIPT, "wrap", Wrapper::Shell, "web by its shell"),
        (SCRIPT, "wrap-by-shell", Wrapper::Shell, "web by its shell"),
        (BINARY, "wrap", Wrapper::Program, "web by headgate-hold"),
        (BINARY, "wrap-by-shell", Wrapper::Shell, "web by its shell"),
        (Hook::Request, "wrap", Wrapper::Program, "web by headgate-hold"),
    ] {
        let pod = with_own(hook, asks);
        let injection = decide(&pod, &nlb());
        assert_eq!(injection.wrapped, [(Place::Container(0), wrapper)], "{hook:?} {asks}");
        assert_eq!(injection.held, [Place::Container(1)], "the other has a hold as always");
        assert_eq!(injection.grace, Some(180));
        assert_eq!(
            annotation(&injection, INJECTED).unwrap(),
            format!(
                "GateAdded; HoldAdded: 150s in web, log (NLB); OwnPreStopWrapped: {said}; GraceRaised: 180s"
            )
        );
        assert_eq!(injection.warnings, [""; 0]);
        let again = decide(&injected(pod, &injection), &nlb());
        assert!(again.is_empty(), "{again:?}");
    }
}

#[test]
fn what_cannot_be_run_after_the_hold_stays_and_that_is_said() {
    let old = Terms { program: Program::ServerTooOld, ..TERMS };
    let told = Terms { program: Program::NoImage, ..TERMS };
    let unknown = Terms { program: Program::ServerUnknown, ..TERMS };
    let obstructed = |hook, obstacle| {
        let mut pod = with_own(hook, "wrap");
        pod.containers[0].obstacle = Some(obstacle);
        pod
    };
    let crowded = obstructed(BINARY, Obstacle::Taken);
    for (pod, terms, why) in [
        (with_own(BINARY, "wrap"), old, "no image volumes before 1.35"),
        (with_own(Hook::Request, "wrap"), told, "--hold-image does not name"),
        (with_own(BINARY, "wrap"), unknown, "has not returned its version yet"),
        (with_own(Hook::Request, "wrap-by-shell"), TERMS, "no shell can send its request"),
        (with_own(Hook::Other, "wrap"), TERMS, "neither a command nor a plain HTTP request"),
        (with_own(Hook::Other, "wrap-by-shell"), TERMS, "neither a command nor a plain HTTP request"),
        (crowded, TERMS, "another volume has the required name or mount path"),
        (obstructed(BINARY, Obstacle::RuntimeClass), TERMS, "the pod has a RuntimeClass"),
        (obstructed(Hook::Other, Obstacle::Windows), TERMS, "the pod may run on Windows"),
    ] {
        let injection = super::decide(&pod, &nlb(), terms);
        assert_eq!((&injection.wrapped[..], &injection.held[..]), (&[][..], &[Place::Container(1)][..]));
        let said = annotation(&injection, INJECTED).unwrap();
        assert!(said.contains("OwnPreStop: web; OwnPreStopNotWrapped: web: "), "{said}");
        assert!(said.contains(why) && injection.warnings[0].contains(why), "{said} {:?}", injection.warnings);
        assert!(
            injection.warnings[0]
                .starts_with("headgate.dev/own-prestop: the preStop of container web is unchanged")
        );
        let again = super::decide(&injected(pod, &injection), &nlb(), terms);
        assert!(again.is_empty() && again.news.is_empty(), "{again:?}");
    }
    let script = super::decide(&with_own(SCRIPT, "wrap"), &nlb(), old);
    assert_eq!(script.wrapped, [(Place::Container(0), Wrapper::Shell)], "a shell needs no volume");
}

#[test]
fn a_hook_that_nobody_asks_about_or_that_sleeps_for_long_enough_stays() {
    for (hook, asks) in [
        (SCRIPT, "leave"),
        (BINARY, "leave"),
        (Hook::Command { sleeps: 150, by_shell: true }, "wrap"),
        (Hook::Command { sleeps: 400, by_shell: false }, "wrap-by-shell"),
    ] {
        let injection = decide(&with_own(hook, asks), &nlb());
        assert_eq!(injection.wrapped, [], "{hook:?} {asks}");
        let said = annotation(&injection, INJECTED).unwrap();
        assert!(said.contains("OwnPreStop: web;") && !said.contains("NotWrapped"), "{said}");
    }
    let off = NewPod { hold: Some("off".into()), ..with_own(BINARY, "wrap") };
    let injection = decide(&off, &nlb());
    assert_eq!((&injection.wrapped[..], injection.grace), (&[][..], None), "nobody wants it to be held");
    assert_eq!(injection.warnings, [""; 0]);
    let misspelt = decide(&with_own(SCRIPT, "wrapped"), &nlb());
    assert_eq!(misspelt.wrapped, []);
    assert_eq!(
        misspelt.warnings[0],
        "headgate.dev/own-prestop: invalid value \"wrapped\" is ignored. Set leave, wrap or wrap-by-shell."
    );
}
