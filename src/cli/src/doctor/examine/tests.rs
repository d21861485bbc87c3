//! Tests which findings follow from which facts.

use std::time::Duration;

use headgate_core::model::target_group::{TargetGroupArn, TargetType};
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::examine;
use crate::{
    doctor::{
        facts::{
            Autoscaler, Entry, Facts, Fence, Machine, Path, Policy, Pool, Surroundings, Tried, Unseen,
            Webhook, Workloads,
        },
        finding::Level,
        inspect::{Attributes, Inspected},
    },
    explain::reach::Holder,
};

const ARN: &str = "arn:aws:elasticloadbalancing:us-east-1:123456789012:targetgroup/blue/0123456789abcdef";

fn pod(spec: &Value) -> Pod {
    serde_json::from_value(json!({"metadata": {"namespace": "shop", "name": "web-0"}, "spec": spec})).unwrap()
}

fn held() -> Value {
    json!({
        "nodeName": "n1",
        "terminationGracePeriodSeconds": 180,
        "readinessGates": [{"conditionType": "headgate.dev/target-health"}],
        "containers": [{"name": "web", "lifecycle": {"preStop": {"sleep": {"seconds": 150}}}}],
    })
}

fn entries(name: &str, bundle: &str, ignores_failures: bool) -> Vec<Entry> {
    let others = Entry {
        name: "another.example.com".into(),
        bundle: vec![],
        ignores_failures: false,
        path: Path::Other,
    };
    let path = Path::Right;
    vec![Entry { name: name.into(), bundle: bundle.into(), ignores_failures, path }, others]
}

const NEW_PODS: &str = "namespaces.inject.headgate.dev";
const EVICTIONS: &str = "pods.evict.headgate.dev";

fn group() -> Inspected {
    Inspected {
        target_type: Some(TargetType::Ip),
        protocol: "TCP".into(),
        load_balancers: 1,
        checks_health: true,
        health_protocol: "HTTP".into(),
        attributes: attributes(&[("deregistration_delay.timeout_seconds", "300")]),
        cross_zone: Some(true),
        zones: [("us-east-1a".to_owned(), 1), ("us-east-1b".to_owned(), 2)].into(),
    }
}

fn attributes(all: &[(&str, &str)]) -> Attributes {
    Attributes(all.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect())
}

fn machine() -> Machine {
    Machine { is_spot: false, pool: None, shutdown: Ok(200) }
}

fn policy(fence: Fence) -> Policy {
    Policy { fence, name: format!("headgate-{}", fence.name()), is_there: true, denies: true }
}

/// Returns facts that cause no finding.
fn sane() -> Facts {
    let binding = json!({
        "namespace": "shop", "kind": "Service", "name": "web", "port": "http", "targetGroup": ARN,
        "targets": [{"pod": "web-0", "ending": null}], "hold": {"wanted": 150, "bound": 120}, "troubles": [],
    });
    let origin = json!({"namespace": "shop", "kind": "Service", "name": "web", "problems": []});
    Facts {
        missing_kinds: Ok(vec![]),
        missing_namespaces: vec![],
        leader: Ok(Holder {
            identity: "headgate-a_1".into(),
            silent_for: None,
            serves: None,
            served_before: None,
        }),
        missing_rights: Ok(vec![]),
        policies: Ok([Fence::OwnWrites, Fence::OwnWritesOnNodes, Fence::Marks].map(policy).into()),
        webhook: Webhook {
            name: "headgate".into(),
            secret: "headgate/tls".into(),
            mutating: Ok(Some(entries(NEW_PODS, "ca", true))),
            validating: Ok(Some(entries(EVICTIONS, "ca", true))),
            authorities: Ok(Some(b"ca".to_vec())),
            tried: Ok(Tried::Asked),
        },
        shown: Ok(serde_json::from_value(json!({"bindings": [binding], "origins": [origin]})).unwrap()),
        pods: Ok(vec![pod(&held())]),
        workloads: Ok(Workloads::default()),
        surroundings: Surroundings {
            nodes: Ok([("n1".to_owned(), machine())].into()),
            pools: Ok([].into()),
            autoscaler: Ok(None),
            quotas: Ok(vec![]),
        },
        sets: Ok(vec![]),
        asking: Ok(["shop".to_owned()].into()),
        groups: Ok([(TargetGroupArn::parse(ARN).unwrap(), Ok(group()))].into()),
        holders: Ok([].into()),
        narrowed: false,
    }
}

/// Returns the level and the reason of each finding after a change of the facts, and the text of the first finding.
fn found(change: impl FnOnce(&mut Facts)) -> (Vec<(Level, String)>, String) {
    let mut facts = sane();
    change(&mut facts);
    let found = examine(&facts);
    let line = found.first().map(crate::doctor::finding::Finding::line).unwrap_or_default();
    (found.into_iter().map(|finding| (finding.level, finding.reason)).collect(), line)
}

/// Asserts that a change of the facts causes exactly one finding.
fn finds(level: Level, reason: &str, said: &str, change: impl FnOnce(&mut Facts)) {
    let (found, line) = found(change);
    assert_eq!(found, [(level, reason.to_owned())], "{line}");
    assert!(line.contains(said), "{line}");
}

use Level::{Error, Info, Warning};

#[test]
fn a_sane_installation_has_no_findings() {
    assert_eq!(found(|_| {}).0, []);
}

#[test]
fn what_is_wrong_with_headgate_itself_is_found() {
    finds(Error, "NotInstalled", "targetledgers", |facts| {
        facts.missing_kinds = Ok(vec!["targetledgers.headgate.dev".into()]);
    });
    finds(Error, "NoLeader", "there is no Lease", |facts| facts.leader = Err("there is no Lease".into()));
    finds(Error, "NoLeader", "for 99 s", |facts| {
        let silent_for = Some(Duration::from_secs(99));
        facts.leader = facts.leader.clone().map(|leader| Holder { silent_for, ..leader });
    });
    finds(Warning, "NamespaceNotServed", "it managed all namespaces before", |facts| {
        let served_before = Some("all namespaces".into());
        facts.leader = facts.leader.clone().map(|leader| Holder { served_before, ..leader });
    });
    finds(Error, "CheckFailed", "the leader: not checked: no route", |facts| {
        facts.shown = Err("no route".into());
    });
    finds(Error, "RightMissing", "it may not list pods", |facts| {
        facts.missing_rights = Ok(vec!["list pods".into()]);
    });
    finds(Warning, "NamespaceNotServed", "namespace nope", |facts| {
        facts.missing_namespaces = vec!["nope".into()];
    });
    finds(Error, "AwsUnreachable", "refuses the connection", |facts| {
        let word = json!({"reason": "AwsUnreachable", "message": "it refuses the connection"});
        facts.shown.as_mut().unwrap().aws = Some(serde_json::from_value(word).unwrap());
    });
    let (found, _) = found(|facts| (facts.leader, facts.shown) = (Err("gone".into()), Err("gone".into())));
    assert_eq!(found, [(Error, "NoLeader".to_owned())], "nobody could have answered");
}

#[test]
fn an_admission_policy_that_is_missing_or_refuses_nothing_is_found() {
    for (fence, without) in [
        (Fence::OwnWrites, "every mutable field of a pod"),
        (Fence::OwnWritesOnNodes, "can patch nodes"),
        (Fence::Marks, "anyone who can patch pods"),
    ] {
        let is = |is_there, denies| {
            move |facts: &mut Facts| {
                for policy in facts.policies.as_mut().unwrap().iter_mut().filter(|one| one.fence == fence) {
                    (policy.is_there, policy.denies) = (is_there, denies);
                }
            }
        };
        let (missing, unbound) = (is(false, false), is(true, false));
        finds(Warning, "NotInstalled", without, missing);
        finds(Warning, "NotInstalled", &format!("config/admission/{}.yaml", fence.name()), missing);
        finds(Warning, "NotInstalled", without, unbound);
        finds(Warning, "NotInstalled", "ValidatingAdmissionPolicyBinding with the action Deny", unbound);
    }
}

#[test]
fn what_is_wrong_with_the_webhook_is_found_and_entries_of_others_are_left_out() {
    let none = "no new pod gets the readiness gate";
    finds(Warning, "NotInstalled", none, |facts| facts.webhook.mutating = Ok(None));
    finds(Warning, "NotInstalled", "no eviction waits", |facts| facts.webhook.validating = Ok(None));
    finds(Error, "NotInstalled", "none of its entries", |facts| facts.webhook.validating = Ok(Some(vec![])));
    finds(Error, "WebhookFails", "differs from ca.crt in the Secret", |facts| {
        facts.webhook.mutating = Ok(Some(entries(NEW_PODS, "old", true)));
    });
    finds(Error, "WebhookFails", "evict.headgate.dev: its caBundle is empty", |facts| {
        facts.webhook.validating = Ok(Some(entries(EVICTIONS, "", true)));
        facts.webhook.authorities = Ok(None);
    });
    finds(Error, "WebhookFails", "shows the secret path. Set Ignore", |facts| {
        facts.webhook.mutating = Ok(Some(entries(NEW_PODS, "ca", false)));
    });
    finds(Error, "WebhookFails", "another path than the served one", |facts| {
        let mut entries = entries(NEW_PODS, "ca", true);
        entries[0].path = Path::Other;
        facts.webhook.mutating = Ok(Some(entries));
    });
    finds(Error, "WebhookFails", "in namespace shop", |facts| {
        facts.webhook.tried = Ok(Tried::Silent { namespace: "shop".into() });
    });
}

#[test]
fn pods_that_lack_the_gate_or_time_are_found_once_for_all_of_a_binding() {
    let with = |place: &str, value: Value| {
        let mut spec = held();
        *spec.pointer_mut(place).unwrap() = value;
        move |facts: &mut Facts| facts.pods = Ok(vec![pod(&spec)])
    };
    finds(
        Error,
        "RiskyWorkload",
        "Service shop/web, pod web-0: no readiness gate, although",
        with("/readinessGates", json!([])),
    );
    let ungated = with("/readinessGates", json!([]));
    finds(Warning, "RiskyWorkload", "Set the label headgate.dev/inject", |facts| {
        ungated(facts);
        facts.asking = Ok([].into());
    });
    finds(Error, "HoldMissing", "no preStop keeps web alive", with("/containers/0/lifecycle", Value::Null));
    finds(
        Error,
        "HoldTooShort",
        "takes 9 s",
        with("/containers/0/lifecycle/preStop/sleep/seconds", json!(9)),
    );
    finds(Error, "HoldTooShort", "is 150", with("/terminationGracePeriodSeconds", json!(150)));
    let own = json!({"exec": {"command": ["stop"]}});
    finds(Warning, "HoldMissing", "unknown duration", with("/containers/0/lifecycle/preStop", own));
    let (found, line) = found(|facts| {
        let shown = facts.shown.as_mut().unwrap();
        let mut second = shown.bindings[0].targets[0].clone();
        second.pod = "web-1".into();
        shown.bindings[0].targets.push(second);
        let mut spec = held();
        spec["containers"][0]["lifecycle"] = Value::Null;
        let first = pod(&spec);
        let mut other = first.clone();
        other.metadata.name = Some("web-1".into());
        facts.pods = Ok(vec![first, other]);
    });
    assert_eq!(found.len(), 1, "{line}");
    assert!(line.contains("2 pods, such as web-0"), "{line}");
}

#[test]
fn pods_that_end_or_say_themselves_that_they_are_not_held_are_left_out() {
    let bare = || pod(&json!({"containers": [{"name": "web"}]}));
    let (found_ending, _) = found(|facts| {
        facts.shown.as_mut().unwrap().bindings[0].targets[0].ending = Some("PodTerminating".into());
        facts.pods = Ok(vec![bare()]);
    });
    assert_eq!(found_ending, []);
    let (off, _) = found(|facts| {
        let mut pod = bare();
        pod.metadata.annotations = Some([("headgate.dev/hold".to_owned(), "off".to_owned())].into());
        pod.spec.as_mut().unwrap().readiness_gates =
            serde_json::from_value(held()["readinessGates"].clone()).unwrap();
        facts.pods = Ok(vec![pod]);
    });
    assert_eq!(off, []);
}

#[test]
fn what_headgate_has_met_and_what_aws_says_of_target_groups_is_found() {
    let met = |reason: &str| json!([{"reason": reason, "message": "because"}]);
    for (level, reason) in [(Error, "AccessDenied"), (Warning, "Paused"), (Error, "QuotaExceeded")] {
        finds(level, reason, "Service shop/web: because", |facts| {
            let shown = facts.shown.as_mut().unwrap();
            shown.bindings[0].troubles = serde_json::from_value(met(reason)).unwrap();
        });
    }
    finds(Error, "InvalidBinding", "Service shop/web: because", |facts| {
        let shown = facts.shown.as_mut().unwrap();
        shown.origins[0].problems = serde_json::from_value(met("InvalidBinding")).unwrap();
    });
    let is = |group: Inspected| {
        move |facts: &mut Facts| {
            facts.groups = Ok([(TargetGroupArn::parse(ARN).unwrap(), Ok(group))].into());
        }
    };
    let named = "target group blue, bound by Service shop/web";
    finds(
        Error,
        "TargetGroupUnsupported",
        named,
        is(Inspected { target_type: Some(TargetType::parse("instance")), ..group() }),
    );
    finds(Warning, "TargetUnused", "Create a listener", is(Inspected { load_balancers: 0, ..group() }));
    finds(Warning, "RiskyTargetGroup", named, is(Inspected { checks_health: false, ..group() }));
    let with = |all: &[(&str, &str)]| Inspected { attributes: attributes(all), ..group() };
    let delay = "deregistration_delay.timeout_seconds";
    finds(Warning, "RiskyTargetGroup", "is 0 s", is(with(&[(delay, "0")])));
    assert_eq!(found(is(with(&[]))).0, []);
    let closes = ("deregistration_delay.connection_termination.enabled", "true");
    finds(Warning, "RiskyTargetGroup", "60 s after", is(with(&[(delay, "60"), closes])));
    assert_eq!(found(is(with(&[(delay, "150"), closes]))).0, []);
    let preserves = with(&[("preserve_client_ip.enabled", "true")]);
    finds(Warning, "RiskyTargetGroup", "reaches itself", is(preserves.clone()));
    assert_eq!(found(is(Inspected { protocol: "UDP".into(), ..preserves })).0, [], "it cannot be off");
    let udp = |all: &[(&str, &str)]| Inspected { protocol: "UDP".into(), ..with(all) };
    finds(Warning, "RiskyTargetGroup", "for 300 s", is(udp(&[(delay, "300"), closes])));
    finds(Warning, "RiskyTargetGroup", "not idle for two minutes", is(udp(&[(delay, "60")])));
    assert_eq!(found(is(udp(&[(delay, "150"), closes]))).0, []);
    let alone = Inspected { cross_zone: Some(false), ..group() };
    finds(Warning, "RiskyTargetGroup", "zone us-east-1a has one target", is(alone.clone()));
    assert_eq!(found(is(Inspected { cross_zone: None, ..alone.clone() })).0, [], "nobody may look");
    assert_eq!(found(is(Inspected { zones: [("us-east-1a".to_owned(), 2)].into(), ..alone })).0, []);
    finds(
        Info,
        "RiskyTargetGroup",
        "only opens a TCP connection",
        is(Inspected { health_protocol: "TCP".into(), ..group() }),
    );
    let least = |of: &str| format!("target_group_health.{of}");
    let (count, percent) = (
        least("dns_failover.minimum_healthy_targets.count"),
        least("unhealthy_state_routing.minimum_healthy_targets.percentage"),
    );
    finds(
        Info,
        "RiskyTargetGroup",
        "removes a zone from DNS while fewer than 2 targets",
        is(with(&[(&count, "2")])),
    );
    finds(Info, "RiskyTargetGroup", "fewer than 50 % of its targets", is(with(&[(&percent, "50")])));
    assert_eq!(found(is(with(&[(&count, "1"), (&percent, "off")]))).0, []);
    finds(Warning, "HoldTooShort", "gives up after 120 s", |facts| {
        facts.shown.as_mut().unwrap().bindings[0].hold.bound = 121;
    });
}

fn grants(required: bool, all: &Value) -> impl Fn(&mut Facts) + use<> {
    let granted = json!({"required": required, "unread": [], "problems": [], "all": all});
    move |facts| facts.shown.as_mut().unwrap().grants = serde_json::from_value(granted.clone()).unwrap()
}

fn grant(groups: &[&str], namespaces: &[&str], exclusive: bool) -> Value {
    json!({"name": "front", "targetGroups": groups, "namespaces": namespaces, "exclusive": exclusive})
}

fn held_by(facts: &mut Facts, namespaces: &[&str]) {
    let namespaces = namespaces.iter().map(ToString::to_string).collect();
    facts.holders = Ok([(TargetGroupArn::parse(ARN).unwrap(), namespaces)].into());
}

#[test]
fn who_may_bind_a_target_group_is_said() {
    let named = grants(false, &json!([grant(&["bl*"], &["pay", "shop"], true)]));
    finds(
        Info,
        "AsExpected",
        "front name it: these namespaces may bind it: the namespaces pay, shop, and",
        &named,
    );
    finds(Info, "AsExpected", "deregistered for the namespaces pay, shop", &named);
    let none = json!([]);
    let optional = grants(false, &none);
    finds(Info, "NoGrant", "namespace shop holds it", &optional);
    finds(Info, "NoGrant", "namespace pay holds it", |facts| {
        optional(facts);
        held_by(facts, &["pay"]);
    });
    finds(Info, "NoGrant", "no namespace has a target in it", |facts| {
        optional(facts);
        held_by(facts, &[]);
    });
    finds(Error, "NoGrant", "    targetGroups: [\"blue\"]", grants(true, &none));
}

#[test]
fn several_namespaces_without_a_grant_are_found_once_with_the_grant_that_would_be_needed() {
    let optional = grants(false, &json!([]));
    let shared = |facts: &mut Facts| {
        optional(facts);
        held_by(facts, &["pay", "shop"]);
        let word = json!([{"reason": "NoGrant", "message": "so it is"}]);
        let shown = facts.shown.as_mut().unwrap();
        shown.bindings[0].troubles = serde_json::from_value(word.clone()).unwrap();
        shown.origins[0].problems = serde_json::from_value(word).unwrap();
    };
    for part in [
        "the namespaces pay, shop have targets in it",
        "kind: TargetGroupGrant\n  metadata:\n    name: blue\n",
        "    namespaces: {names: [pay, shop]}",
    ] {
        finds(Warning, "NoGrant", part, shared);
    }
}

#[test]
fn grants_that_do_not_count_are_found() {
    let both = json!([grant(&["blue"], &["shop"], false), grant(&["green"], &["shop"], false)]);
    let with_unused = grants(false, &both);
    let (found_unused, _) = found(&with_unused);
    assert_eq!(found_unused, [(Info, "AsExpected".to_owned()), (Info, "InvalidGrant".to_owned())]);
    finds(Info, "AsExpected", "front", |facts| {
        with_unused(facts);
        facts.narrowed = true;
    });
    for (required, level) in [(false, Warning), (true, Error)] {
        finds(level, "RightMissing", "the kind is not there; until then", |facts| {
            grants(required, &Value::Null)(facts);
            let shown = facts.shown.as_mut().unwrap();
            shown.grants.as_mut().unwrap().unread = vec!["the kind is not there".into()];
        });
    }
    finds(Error, "InvalidGrant", "TargetGroupGrant front: expected", |facts| {
        let problem = json!([{"object": "TargetGroupGrant front", "said": "expected something"}]);
        let granted = json!({"required": false, "unread": [], "problems": problem, "all": null});
        facts.shown.as_mut().unwrap().grants = serde_json::from_value(granted).unwrap();
    });
}

#[test]
fn what_could_not_be_looked_at_is_a_warning() {
    let why = || "forbidden".to_owned();
    finds(Warning, "CheckFailed", "the CRDs: not checked: forbidden", |facts| {
        facts.missing_kinds = Err(why());
    });
    finds(Warning, "CheckFailed", "the permissions of Headgate: not checked: forbidden", |facts| {
        facts.missing_rights = Err(why());
    });
    finds(Warning, "CheckFailed", "pods: not checked: forbidden", |facts| facts.pods = Err(why()));
    finds(Warning, "CheckFailed", "namespaces: not checked: forbidden", |facts| facts.asking = Err(why()));
    finds(Warning, "CheckFailed", "workloads: not checked: forbidden", |facts| facts.workloads = Err(why()));
    finds(Warning, "CheckFailed", "IngressDaemonSets: not checked: forbidden", |facts| {
        facts.sets = Err(why());
    });
    finds(Warning, "CheckFailed", "target groups: not checked: forbidden", |facts| facts.groups = Err(why()));
    finds(Warning, "CheckFailed", "forbidden", |facts| {
        facts.groups = Ok([(TargetGroupArn::parse(ARN).unwrap(), Err(why()))].into());
    });
}

#[test]
fn what_only_administrators_may_see_is_a_warning_if_it_fails_and_nothing_wrong_if_it_is_forbidden() {
    for (why, level, said) in [
        (Unseen::Failed("no answer".into()), Warning, "not checked: no answer"),
        (
            Unseen::Forbidden("may not".into()),
            Info,
            "not checked (may not): ask an administrator to run `headgate doctor`",
        ),
    ] {
        finds(level, "CheckFailed", said, |facts| facts.policies = Err(why.clone()));
        finds(level, "CheckFailed", said, |facts| facts.webhook.validating = Err(why.clone()));
        finds(level, "CheckFailed", "Secret headgate/tls", |facts| {
            facts.webhook.authorities = Err(why.clone());
        });
        finds(level, "CheckFailed", said, |facts| facts.webhook.tried = Err(why.clone()));
    }
    let forbidden = || Unseen::Forbidden("may not".into());
    let (found, _) = found(|facts| {
        (facts.webhook.mutating, facts.webhook.authorities) = (Err(forbidden()), Err(forbidden()));
    });
    assert_eq!(found, [(Info, "CheckFailed".to_owned())], "said once");
}

#[test]
fn where_ledgers_cannot_be_read_who_binds_a_target_group_holds_it_as_far_as_is_known() {
    let (found, _) = found(|facts| {
        grants(false, &json!([]))(facts);
        facts.holders = Err("forbidden".into());
    });
    let both = [(Warning, "CheckFailed".to_owned()), (Info, "NoGrant".to_owned())];
    assert_eq!(found, both, "who binds it now holds it as far as is known");
}

#[test]
fn whoever_may_end_a_held_pod_early_and_what_has_no_room_for_it_is_named() {
    let on = |machine: Machine| {
        move |facts: &mut Facts| facts.surroundings.nodes = Ok([("n1".to_owned(), machine)].into())
    };
    finds(Info, "HoldTooShort", "gives pods 120 s", on(Machine { shutdown: Ok(120), ..machine() }));
    assert_eq!(found(on(Machine { shutdown: Ok(150), ..machine() })).0, []);
    let forbidden = || Unseen::Forbidden("nodes/proxy is forbidden".into());
    let unseen = Machine { shutdown: Err(forbidden()), ..machine() };
    finds(Info, "CheckFailed", "ask an administrator", on(unseen));
    finds(Info, "HoldTooShort", "120 s after AWS's notice", on(Machine { is_spot: true, ..machine() }));

    let pool = |grace: Option<u32>| {
        move |facts: &mut Facts| {
            on(Machine { pool: Some("edge".into()), ..machine() })(facts);
            facts.surroundings.pools = Ok([("edge".to_owned(), Pool { grace })].into());
        }
    };
    finds(Warning, "HoldTooShort", "NodePool edge: its terminationGracePeriod of 60 s", pool(Some(60)));
    assert_eq!(found(pool(None)).0, []);
    assert_eq!(found(pool(Some(180))).0, []);
    let autoscaler = |grace, eviction| {
        move |facts: &mut Facts| facts.surroundings.autoscaler = Ok(Some(Autoscaler { grace, eviction }))
    };
    finds(Warning, "HoldTooShort", "--max-graceful-termination-sec of 60", autoscaler(60, 120));
    assert_eq!(found(autoscaler(180, 120)).0, []);
    finds(Warning, "HoldTooShort", "gives up after 60 s", autoscaler(600, 60));

    let quota = |hard: Value, used: Value| {
        move |facts: &mut Facts| {
            let quota = json!({
                "metadata": {"namespace": "shop", "name": "few"}, "status": {"hard": hard, "used": used},
            });
            facts.surroundings.quotas = Ok(vec![serde_json::from_value(quota).unwrap()]);
            let mut spec = held();
            spec["containers"][0]["resources"] = json!({"requests": {"cpu": "500m", "memory": "1Gi"}});
            facts.pods = Ok(vec![pod(&spec)]);
        }
    };
    finds(
        Info,
        "RiskyWorkload",
        "in pods there is no room",
        quota(json!({"pods": "1"}), json!({"pods": "1"})),
    );
    let (hard, used) =
        (json!({"requests.cpu": "1", "memory": "4Gi"}), json!({"requests.cpu": "600m", "memory": "1Gi"}));
    finds(Info, "RiskyWorkload", "in requests.cpu there", quota(hard, used));
    let (hard, used) = (json!({"cpu": "1", "limits.cpu": "1"}), json!({"cpu": "500m", "limits.cpu": "1"}));
    assert_eq!(found(quota(hard, used)).0, []);
}
