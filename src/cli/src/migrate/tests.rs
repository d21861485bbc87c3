//! Tests which steps follow from which facts, and which effect the migration has on each target.

use std::{collections::BTreeMap, time::Duration};

use headgate::kube::slim::{SlimPod, SlimService};
use headgate_core::{
    Target,
    model::{
        health::HealthState,
        object::ObjectKey,
        target_group::{IpFamily, LeastHealthy, TargetGroupArn, TargetGroupFacts, TargetType},
    },
};
use serde_json::{Value, json};

use super::{
    back,
    diff::{Then, diff},
    facts::{Binding, Deployment, Facts, Group, Headgate, Lbc, Place, Pod, Service, Told, Webhooks},
    lbc::{FINALIZER, Tgb, gate_of},
    over,
    record::Record,
    steps::{Action, State, Step, Wish, Wishes, current},
};
use crate::doctor::facts::Shown;

const ARN: &str = "arn:aws:elasticloadbalancing:us-east-1:123456789012:targetgroup/web/73e2d6bc24d8a067";

fn tgb(more: &Value) -> Tgb {
    let mut object = json!({
        "apiVersion": "elbv2.k8s.aws/v1beta1", "kind": "TargetGroupBinding",
        "metadata": {"name": "web", "namespace": "shop", "uid": "t-1", "resourceVersion": "7", "generation": 1,
            "finalizers": [FINALIZER], "annotations": {"elbv2.k8s.aws/checkpoint": "abc"}},
        "spec": {"targetGroupARN": ARN, "targetType": "ip", "serviceRef": {"name": "web", "port": 80}},
    });
    json_patch::merge(&mut object, more);
    Tgb::read(&serde_json::from_value(object).unwrap()).unwrap()
}

fn service(annotations: &Value) -> Service {
    let object = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "web", "namespace": "shop", "uid": "s-1", "annotations": annotations},
        "spec": {"selector": {"app": "web"}, "ports": [{"name": "http", "port": 80, "targetPort": 8080}]},
    });
    let slim: SlimService = serde_json::from_value(object).unwrap();
    let is_paused = annotations["headgate.dev/paused"] == "true";
    Service { facts: slim.into_facts().unwrap(), version: "1".into(), is_paused, records: Ok(Vec::new()) }
}

/// Returns a ready pod `web-N` at `10.0.0.N`. `gate`: whether LBC's readiness gate on the pod is open; `None`: the pod
/// has no readiness gate.
fn pod(n: u8, gate: Option<bool>, more: &Value) -> Pod {
    let mut object = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("web-{n}"), "namespace": "shop", "uid": format!("p-{n}"), "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "web"}]},
        "status": {"phase": "Running", "podIP": format!("10.0.0.{n}"), "podIPs": [{"ip": format!("10.0.0.{n}")}],
            "conditions": [{"type": "ContainersReady", "status": "True"}, {"type": "Ready", "status": "True"}]},
    });
    json_patch::merge(&mut object, more);
    let facts = serde_json::from_value::<SlimPod>(object).unwrap().into_facts().unwrap();
    Pod { facts, gates: gate.map(|open| (gate_of("web"), open)).into_iter().collect() }
}

fn target(n: u8) -> Target {
    Target::new([10, 0, 0, n].into(), 8080)
}

fn group(targets: &[(u8, HealthState)]) -> Group {
    Group {
        facts: TargetGroupFacts {
            arn: TargetGroupArn::parse(ARN).unwrap(),
            target_type: TargetType::Ip,
            protocol: "TCP".into(),
            ip_family: IpFamily::V4,
            least_healthy: Some(LeastHealthy::DEFAULT),
        },
        targets: targets.iter().map(|(n, state)| (target(*n), *state)).collect(),
    }
}

fn binding() -> Binding {
    let tgb = tgb(&json!({}));
    Binding {
        key: ObjectKey::new("shop", "web"),
        spec: tgb.spec.clone(),
        tgb: Some(tgb),
        record: None,
        service: Some(service(&json!({}))),
        written: None,
        told: Told::Nothing,
        group: Some(Ok(group(&[(1, HealthState::Healthy), (2, HealthState::Healthy)]))),
        pods: vec![pod(1, Some(true), &json!({})), pod(2, Some(true), &json!({}))],
        templates: Vec::new(),
        others: Vec::new(),
        has_ledger: false,
    }
}

/// Returns the binding as the leader reports it.
fn shown(paused: bool, registered: bool) -> Shown {
    let troubles = if paused { json!([{"reason": "Paused", "message": "so it is"}]) } else { json!([]) };
    let target = |n: u8| {
        json!({"target": target(n).to_string(), "pod": format!("web-{n}"), "registered": registered, "state": "healthy",
            "gate": null, "ending": null})
    };
    serde_json::from_value(json!({"origins": [], "bindings": [{
        "namespace": "shop", "kind": "Service", "name": "web", "port": "http", "targetGroup": ARN,
        "targets": [target(1), target(2)], "hold": {"wanted": 0, "bound": 0}, "troubles": troubles,
    }]}))
    .unwrap()
}

/// Returns facts in which LBC runs and binds the Service, and Headgate runs without a binding.
fn facts() -> Facts {
    Facts {
        lbc: Lbc {
            name: "kube-system/lbc".into(),
            deployment: Some(Deployment { wanted: 2, pods: 2, ready: 2, before: None }),
            lease_rests: Some(Duration::ZERO),
            webhooks: vec![Webhooks {
                name: "ValidatingWebhookConfiguration lbc".into(),
                strict: ["bindings".to_owned()].into(),
                relaxed: [].into(),
            }],
        },
        headgate: Headgate {
            holder: Ok(Some("headgate-0".into())),
            shown: Ok(serde_json::from_value(json!({"bindings": [], "origins": []})).unwrap()),
            read: BTreeMap::new(),
            deployment: None,
        },
        bindings: vec![binding()],
    }
}

/// Returns facts after the paused binding was written and Headgate has read it.
fn written() -> Facts {
    let mut facts = facts();
    facts.bindings[0].told = Told::Paused(Place::Annotation);
    facts.bindings[0].record = Some(Record { name: "web".into(), object: tgb(&json!({})).again });
    facts.headgate.shown = Ok(shown(true, false));
    facts.headgate.read.insert(ARN.into(), 0);
    facts
}

/// Returns facts after LBC was stopped.
fn stopped() -> Facts {
    let mut facts = written();
    facts.lbc.deployment = Some(Deployment { wanted: 0, pods: 0, ready: 0, before: Some(2) });
    facts.lbc.lease_rests = Some(over::LEASE_RESTS);
    facts.lbc.webhooks[0].relaxed = std::mem::take(&mut facts.lbc.webhooks[0].strict);
    facts
}

/// Returns facts after the TargetGroupBinding was deleted.
fn gone() -> Facts {
    let mut facts = stopped();
    facts.bindings[0].tgb = None;
    facts
}

fn wishes(all: &[Wish]) -> Wishes {
    all.iter().copied().collect()
}

/// Returns the current action, the name of its state, and the first reason why the action is not done.
fn now(steps: &[Step]) -> Option<(Action, &'static str, String)> {
    let step = current(steps).next()?;
    Some((step.action, step.state.word(), step.state.why().unwrap_or_default().to_owned()))
}

fn over_with(facts: &Facts, with: &[Wish]) -> Vec<Step> {
    over::plan(facts, &wishes(with), Place::Annotation)
}

fn now_over(facts: &Facts, with: &[Wish]) -> (Action, &'static str, String) {
    now(&over_with(facts, with)).expect("a step is left")
}

fn now_back(facts: &Facts) -> (Action, &'static str, String) {
    now(&back::plan(facts, &wishes(&[]))).expect("a step is left")
}

#[test]
fn the_steps_over_come_in_the_only_safe_order() {
    let steps = over_with(&facts(), &[]);
    let order: Vec<Action> = steps.iter().map(|step| step.action).collect();
    assert_eq!(
        order,
        [
            Action::Check,
            Action::Write,
            Action::Compare,
            Action::RelaxWebhooks,
            Action::Quiet,
            Action::StopLbc,
            Action::TakeFinalizer,
            Action::Delete,
            Action::Unpause,
            Action::Settle,
            Action::OpenGates,
            Action::StartLbc,
            Action::RestoreWebhooks,
        ]
    );
    let states: Vec<&str> = steps.iter().map(|step| step.state.word()).collect();
    assert_eq!(states[..2], ["done", "next"]);
    assert!(states[2..].iter().all(|word| *word == "later" || *word == "done"), "{states:?}");
}

#[test]
fn each_look_finds_the_next_step_whatever_was_done_by_whom() {
    let is = |facts: &Facts, with: &[Wish]| {
        let (action, word, why) = now_over(facts, with);
        assert!(word != "refused", "{action:?}: {why}");
        (action, word)
    };
    let stop = [Wish::StopLbc];
    assert_eq!(is(&facts(), &stop), (Action::Write, "next"));
    assert_eq!(is(&written(), &stop), (Action::RelaxWebhooks, "next"));
    let mut relaxed = written();
    relaxed.lbc.webhooks.clear();
    assert_eq!(is(&relaxed, &stop), (Action::StopLbc, "next"));
    assert_eq!(is(&stopped(), &[]), (Action::TakeFinalizer, "next"));
    let mut bare = stopped();
    bare.bindings[0].tgb.as_mut().unwrap().is_kept = false;
    assert_eq!(is(&bare, &[]), (Action::Delete, "next"));
    assert_eq!(is(&gone(), &[]), (Action::Unpause, "next"));
    let mut unpaused = gone();
    unpaused.bindings[0].told = Told::InForce(Place::Annotation);
    assert_eq!(is(&unpaused, &[]), (Action::Settle, "waits"));
    unpaused.headgate.shown = Ok(shown(false, true));
    assert_eq!(is(&unpaused, &[]), (Action::StartLbc, "next"));
    unpaused.lbc.deployment = Some(Deployment { wanted: 2, pods: 2, ready: 0, before: None });
    assert_eq!(is(&unpaused, &[]), (Action::RestoreWebhooks, "waits"));
    unpaused.lbc.deployment = Some(Deployment { wanted: 2, pods: 2, ready: 1, before: None });
    assert_eq!(is(&unpaused, &[]), (Action::RestoreWebhooks, "next"));
    unpaused.lbc.webhooks.clear();
    assert_eq!(now(&over_with(&unpaused, &[])), None, "all of it is done");
}

#[test]
fn nothing_of_lbcs_is_touched_while_any_lbc_may_run() {
    let (action, word, _) = now_over(&written(), &[]);
    assert_eq!((action, word), (Action::RelaxWebhooks, "refused"), "its webhooks are not touched either");
    let mut runs = written();
    runs.lbc.webhooks.clear();
    let (action, word, why) = now_over(&runs, &[]);
    assert_eq!((action, word), (Action::StopLbc, "refused"));
    assert!(why.contains("would deregister all targets") && why.contains("--stop-lbc"), "{why}");

    let mut ends = stopped();
    ends.lbc.deployment = Some(Deployment { wanted: 0, pods: 1, ready: 0, before: Some(2) });
    assert_eq!(now_over(&ends, &[]).1, "waits", "a pod of it is left");

    let mut elsewhere = stopped();
    elsewhere.lbc.lease_rests = Some(Duration::from_secs(1));
    for with in [&[][..], &[Wish::LbcIsStopped]] {
        let (action, word, why) = now_over(&elsewhere, with);
        assert_eq!((action, word), (Action::StopLbc, "waits"), "{why}");
        assert!(why.contains("every LBC replica"), "{why}");
    }

    let mut unseen = stopped();
    unseen.lbc.deployment = None;
    let (action, word, why) = now_over(&unseen, &[]);
    assert_eq!((action, word), (Action::StopLbc, "refused"));
    assert!(why.contains("--lbc-deployment") && why.contains("--lbc-is-stopped"), "{why}");
    assert_eq!(now_over(&unseen, &[Wish::LbcIsStopped]).0, Action::TakeFinalizer);

    // A user started LBC again during the migration.
    let mut again = gone();
    again.bindings[0].tgb = Some(tgb(&json!({"metadata": {"finalizers": []}})));
    again.lbc.deployment = Some(Deployment { wanted: 2, pods: 2, ready: 2, before: Some(2) });
    again.lbc.webhooks.clear();
    assert_eq!(now_over(&again, &[]).0, Action::StopLbc);
}

#[test]
fn headgate_has_to_have_it_before_lbc_lets_go() {
    let said = |change: &dyn Fn(&mut Facts)| {
        let mut facts = written();
        change(&mut facts);
        now_over(&facts, &[Wish::StopLbc])
    };
    let (action, word, why) = said(&|facts| facts.headgate.shown = Err("nobody leads".into()));
    assert_eq!((action, word), (Action::Compare, "refused"));
    assert!(why.contains("nobody leads"), "{why}");
    let (action, word, why) = said(&|facts| facts.headgate.read.clear());
    assert_eq!((action, word), (Action::Compare, "waits"), "{why}");
    let (action, word, why) = said(&|facts| facts.headgate.shown.as_mut().unwrap().bindings.clear());
    assert_eq!((action, word), (Action::Compare, "waits"));
    assert!(why.contains("manages namespace shop"), "{why}");
    let problem = json!({"namespace": "shop", "kind": "Service", "name": "web",
        "problems": [{"reason": "NotGranted", "message": "no grant"}]});
    let (action, word, why) = said(&|facts| {
        let origin = serde_json::from_value(problem.clone()).unwrap();
        facts.headgate.shown.as_mut().unwrap().origins.push(origin);
    });
    assert_eq!((action, word), (Action::Compare, "refused"));
    assert!(why.contains("NotGranted: no grant"), "{why}");
    let (_, word, why) = said(&|facts| {
        let read_only = serde_json::from_value(json!({"reason": "ReadOnly", "message": "so it is"})).unwrap();
        facts.headgate.shown.as_mut().unwrap().bindings[0].troubles = vec![read_only];
    });
    assert!(word == "refused" && why.contains("--read-only"), "{why}");
}

#[test]
fn lbc_is_stopped_only_while_no_pod_comes_or_goes() {
    let leaving = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    let starting = json!({"status": {"conditions": [{"type": "ContainersReady", "status": "False"}]}});
    for (pod, part) in [
        (pod(3, Some(true), &leaving), "web-3 of Service shop/web is terminating"),
        (pod(3, None, &starting), "web-3 of Service shop/web is starting"),
        (pod(3, Some(false), &json!({})), "target-health.elbv2.k8s.aws/web of pod web-3 is closed"),
    ] {
        let mut facts = written();
        facts.lbc.webhooks.clear();
        facts.bindings[0].pods.push(pod);
        let (action, word, why) = now_over(&facts, &[Wish::StopLbc]);
        assert_eq!((action, word), (Action::Quiet, "waits"));
        assert!(why.contains(part), "{why}");
        // If LBC is already stopped, the migration does not wait for quiet pods.
        facts.lbc = stopped().lbc;
        assert_eq!(now_over(&facts, &[]).0, Action::TakeFinalizer);
    }
}

#[test]
fn a_gate_of_lbcs_that_nobody_opens_any_more_is_opened_when_the_pod_is_healthy() {
    let mut facts = gone();
    facts.bindings[0].told = Told::InForce(Place::Annotation);
    facts.headgate.shown = Ok(shown(false, true));
    facts.bindings[0].pods[1] = pod(2, Some(false), &json!({}));
    assert_eq!(now_over(&facts, &[]).0, Action::OpenGates);
    let open: Vec<&str> =
        over::may_open(&facts.bindings[0], &facts).map(|pod| &*pod.facts.key.name).collect();
    assert_eq!(open, ["web-2"]);
    facts.headgate.shown.as_mut().unwrap().bindings[0].targets[1].state = Some("initial".into());
    let (action, word, why) = now_over(&facts, &[]);
    assert_eq!((action, word), (Action::OpenGates, "waits"), "{why}");
}

#[test]
fn what_cannot_be_moved_is_refused_before_anything_is_written() {
    let refused = |change: &dyn Fn(&mut Binding), with: &[Wish]| {
        let mut facts = facts();
        change(&mut facts.bindings[0]);
        now_over(&facts, with)
    };
    let spec = |more: Value| {
        move |binding: &mut Binding| {
            let tgb = tgb(&json!({"spec": more.clone()}));
            (binding.spec, binding.tgb) = (tgb.spec.clone(), Some(tgb));
        }
    };
    type Change = Box<dyn Fn(&mut Binding)>;
    let cases: [(Change, &str); 10] = [
        (Box::new(spec(json!({"targetType": "instance"}))), "target type instance"),
        (Box::new(spec(json!({"targetGroupProtocol": "TCP_QUIC"}))), "QUIC"),
        (Box::new(spec(json!({"iamRoleArnToAssume": "arn:aws:iam::1:role/x"}))), "another account"),
        (Box::new(spec(json!({"targetGroupARN": null}))), "names a target group that cannot be bound"),
        (Box::new(spec(json!({"serviceRef": {"name": "web", "port": 81}}))), "names port 81"),
        (Box::new(spec(json!({"networking": {"ingress": []}}))), "--accept-networking"),
        (Box::new(|binding| binding.service = None), "which does not exist"),
        (
            Box::new(|binding| {
                let made = json!({"metadata": {"labels": {"service.k8s.aws/stack-name": "web"}}});
                binding.tgb = Some(tgb(&made));
            }),
            "created by LBC itself",
        ),
        (
            Box::new(|binding| binding.templates.push("Deployment web".into())),
            "the pod template of Deployment web",
        ),
        (
            Box::new(|binding| {
                binding.service = Some(service(&json!({"headgate.dev/target-groups": "http=other"})));
            }),
            "--to targetbinding",
        ),
    ];
    for (change, part) in cases {
        let (action, word, why) = refused(&*change, &[Wish::StopLbc]);
        assert_eq!((action, word), (Action::Check, "refused"), "{part}");
        assert!(why.contains(part), "{why}");
    }
    let networking = spec(json!({"networking": {"ingress": []}}));
    assert_eq!(refused(&networking, &[Wish::AcceptNetworking]).0, Action::Write);
}

#[test]
fn each_target_is_told_what_becomes_of_it_and_why() {
    let mut binding = binding();
    let leaving = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    let other = json!({"metadata": {"labels": {"app": "other"}}});
    let without_ip = json!({"status": {"podIP": null, "podIPs": null}});
    binding.pods.extend([pod(3, None, &leaving), pod(4, None, &other), pod(5, None, &json!({}))]);
    binding.pods.push(pod(6, None, &without_ip));
    let healthy = |n: u8| (n, HealthState::Healthy);
    let all = [
        healthy(1),
        (2, HealthState::Unhealthy),
        healthy(3),
        healthy(4),
        healthy(9),
        (8, HealthState::Draining),
    ];
    binding.group = Some(Ok(group(&all)));
    let rows = diff(&binding, None).unwrap();
    let told: BTreeMap<String, (Then, &str)> = rows
        .iter()
        .map(|row| (row.target.clone().or(row.pod.clone()).unwrap(), (row.then, &*row.reason)))
        .collect();
    let expected = [
        ("10.0.0.1:8080", (Then::Adopted, "PodSelected")),
        ("10.0.0.2:8080", (Then::Adopted, "PodSelected")),
        ("10.0.0.3:8080", (Then::LeftAlone, "PodTerminating")),
        ("10.0.0.4:8080", (Then::LeftAlone, "NotSelected")),
        ("10.0.0.5:8080", (Then::Registered, "PodSelected")),
        ("10.0.0.8:8080", (Then::Drains, "TargetPending")),
        ("10.0.0.9:8080", (Then::LeftAlone, "ForeignTarget")),
        ("web-6", (Then::NotYet, "NotReady")),
    ];
    let expected: BTreeMap<_, _> = expected.into_iter().map(|(who, told)| (who.to_owned(), told)).collect();
    assert_eq!(told, expected);
}

#[test]
fn without_rights_at_aws_the_leaders_word_counts_and_without_both_nothing_is_said() {
    let mut binding = binding();
    binding.group = Some(Err("no credentials".into()));
    assert_eq!(diff(&binding, None), None);
    let rows = diff(&binding, Some(&shown(true, false))).unwrap();
    assert!(rows.len() == 2 && rows.iter().all(|row| row.then == Then::Adopted), "{rows:?}");
}

/// Returns facts after the migration: LBC runs again, and Headgate's binding is active.
fn moved() -> Facts {
    let mut facts = gone();
    facts.bindings[0].told = Told::InForce(Place::Annotation);
    facts.bindings[0].has_ledger = true;
    facts.lbc = self::facts().lbc;
    facts.headgate.shown = Ok(shown(false, true));
    facts
}

#[test]
fn the_way_back_gives_to_lbc_first_and_takes_from_headgate_only_while_that_does_not_run() {
    let mut facts = moved();
    assert_eq!(now_back(&facts).0, Action::Create);
    facts.bindings[0].tgb = Some(tgb(&json!({"metadata": {"finalizers": []}})));
    assert_eq!((now_back(&facts).0, now_back(&facts).1), (Action::Taken, "waits"));
    facts.bindings[0].tgb = Some(tgb(&json!({})));
    assert_eq!(now_back(&facts).0, Action::Pause);
    facts.bindings[0].told = Told::Paused(Place::Annotation);
    let (action, word, why) = now_back(&facts);
    assert_eq!((action, word), (Action::StopHeadgate, "refused"));
    assert!(why.contains("headgate-0 holds") && why.contains("--stop-headgate"), "{why}");
    facts.headgate.deployment =
        Some(("headgate/headgate".into(), Some(Deployment { wanted: 2, pods: 2, ready: 2, before: None })));
    assert_eq!((now_back(&facts).0, now_back(&facts).1), (Action::StopHeadgate, "next"));
    facts.headgate.deployment = Some((
        "headgate/headgate".into(),
        Some(Deployment { wanted: 0, pods: 0, ready: 0, before: Some(2) }),
    ));
    facts.headgate.holder = Ok(None);
    assert_eq!(now_back(&facts).0, Action::Forget, "the ledger goes before the annotation");
    facts.bindings[0].has_ledger = false;
    assert_eq!(now_back(&facts).0, Action::Unwrite);
    facts.bindings[0].told = Told::Nothing;
    assert_eq!(now_back(&facts).0, Action::StartHeadgate);
    facts.headgate.deployment = None;
    assert_eq!(now(&back::plan(&facts, &wishes(&[]))), None);
}

#[test]
fn nothing_is_given_back_to_an_lbc_that_would_remove_anything() {
    let said = |change: &dyn Fn(&mut Facts)| {
        let mut facts = moved();
        change(&mut facts);
        now_back(&facts)
    };
    let (action, word, why) = said(&|facts| facts.lbc.deployment = None);
    assert_eq!((action, word), (Action::LbcRuns, "refused"), "{why}");
    let foreign = group(&[(1, HealthState::Healthy), (2, HealthState::Healthy), (9, HealthState::Healthy)]);
    let (action, word, why) = said(&|facts| facts.bindings[0].group = Some(Ok(foreign.clone())));
    assert_eq!((action, word), (Action::Quiet, "refused"));
    assert!(why.contains("10.0.0.9:8080") && why.contains("--lbc-may-remove"), "{why}");
    let starting = json!({"status": {"conditions": [{"type": "ContainersReady", "status": "False"}]}});
    let (action, word, why) = said(&|facts| facts.bindings[0].pods.push(pod(3, None, &starting)));
    assert_eq!((action, word), (Action::Quiet, "waits"), "{why}");
    let (action, word, why) = said(&|facts| {
        facts.bindings[0].group = Some(Err("no credentials".into()));
        facts.headgate.read.insert(ARN.into(), 1);
    });
    assert!(action == Action::Quiet && word == "refused" && why.contains("has 1 targets"), "{why}");
    let (action, word, why) = said(&|facts| facts.bindings[0].others.push("TargetBinding shop/other".into()));
    assert_eq!((action, word), (Action::Check, "refused"));
    assert!(why.contains("TargetBinding shop/other"), "{why}");
    let mut facts = moved();
    facts.bindings[0].group = Some(Ok(foreign));
    let steps = back::plan(&facts, &wishes(&[Wish::LbcMayRemove]));
    assert_eq!(current(&steps).next().unwrap().action, Action::Create);
    assert!(current(&steps).all(|step| step.state == State::Due));
}
