use std::{collections::BTreeMap, sync::Arc, time::Duration};

use headgate_core::{
    Moment, Origin, Reason, Span,
    model::{
        BindingKey, Fate, Problem, ZoneName,
        health::HealthState,
        hold::HoldWanted,
        injection::Decision,
        object::{ObjectKey, Uid},
        target::Target,
        target_group::TargetGroupArn,
    },
    view::{BindingView, GateView, GroupView, OriginView, TargetView, ZoneView},
};

use super::{Declared, Format, Level, Metrics};
use crate::runtime::{clock::Clock, views::Views};

fn group(name: &str) -> TargetGroupArn {
    let arn =
        format!("arn:aws:elasticloadbalancing:us-east-1:123456789012:targetgroup/{name}/0123456789abcdef");
    TargetGroupArn::parse(&arn).unwrap()
}

fn web() -> ObjectKey {
    ObjectKey::new("shop", "web")
}

fn zone(wanted: usize, states: &[(HealthState, usize)]) -> ZoneView {
    ZoneView { wanted, serving: 0, states: states.iter().copied().collect() }
}

/// The views of a target group with one binding, for tests.
fn views(origin: Origin) -> Views {
    let views = Views::default();
    let group = group("blue");
    let view = GroupView {
        group: group.clone(),
        zones: BTreeMap::from([
            (ZoneName::parse("a"), zone(3, &[(HealthState::Healthy, 2), (HealthState::Initial, 1)])),
            (None, zone(0, &[(HealthState::Draining, 1)])),
        ]),
        foreign: 1,
        suspects: 0,
        contested: 2,
        never_healthy: 3,
        paused: Some((4, 5)),
        unplaced: 6,
        held: 7,
        held_until: None,
        last_read: Some(Moment::START),
        oldest_removal: None,
    };
    views.groups.insert(group.clone(), view.into());
    let key = BindingKey { origin, port: "http".into(), group };
    let target = |at: u8, state, gate| TargetView {
        target: Target::new([10, 0, 0, at].into(), 80),
        pod: ObjectKey::new("shop", format!("web-{at}")),
        node: None,
        why: if state == Some(HealthState::Unhealthy) { "Target.Timeout" } else { "" },
        registered: at < 3,
        state,
        gate,
    };
    let targets = vec![
        target(1, Some(HealthState::Healthy), GateView::Open),
        target(2, Some(HealthState::Initial), GateView::Closed),
        target(3, Some(HealthState::Unhealthy), GateView::None),
    ];
    let hold = HoldWanted { seconds: 0, bound: 0 };
    let view = BindingView { key: key.clone(), targets, ending: Vec::new(), hold, said: Vec::new() };
    views.bindings.insert(key.clone(), view.into());
    let problem = Problem::of_all(Reason::InvalidBinding, String::new());
    let view =
        OriginView { origin: key.origin.clone(), uid: Uid::new("1"), exists: true, problems: vec![problem] };
    views.origins.insert(key.origin, view.into());
    views
}

/// Metrics that all have a sample.
fn filled() -> Metrics {
    filled_at(Level::Debug)
}

fn filled_at(level: Level) -> Metrics {
    let metrics = Metrics::new(Arc::new(views(Origin::Service(web()))), Clock::start(), level);
    metrics.registering(Duration::from_millis(3));
    metrics.deregistering(Duration::from_millis(3));
    metrics.called("RegisterTargets", "ok", Duration::from_millis(40));
    metrics.waited("RegisterTargets", Duration::ZERO);
    metrics.aws_out_of_reach("ConnectionRefused");
    metrics.watch_failed("pods");
    metrics.noticed(Reason::InvalidBinding);
    metrics.event_written(true);
    metrics.event_dropped();
    metrics.clock_stepped("back");
    metrics.known(3, true);
    metrics.contested(1);
    metrics.leads(true);
    metrics.lease_is_anothers(true);
    metrics.lease_failed("update");
    metrics.cannot_lead(true);
    metrics.gives_lease_back(Reason::WatchesFail);
    metrics.webhook_answered(200, Duration::from_millis(2));
    metrics.injected(&[Decision::HoldAdded]);
    metrics.certificate_ends(1_800_000_000);
    metrics.ledger_answered("create", "ok", Duration::from_millis(4));
    metrics.took(Span::RegisterToHealthy, Duration::from_secs(40));
    metrics.took(Span::HealthyToGate, Duration::from_millis(9));
    metrics.gate_written("ok");
    for group in ["blue", "green", "red"].map(group) {
        metrics.serves(&group);
    }
    metrics.hold_too_short(&group("blue"));
    metrics.serves_no_more(&group("red"));
    metrics.eviction_asked(false, Reason::EvictionWaits);
    metrics.note_ended("full");
    metrics.notes_wait(7);
    metrics.took(Span::Departure, Duration::from_secs(119));
    metrics.nodes_go(|fate| usize::from(fate == Fate::Dying));
    metrics.connection_opened("admin");
    metrics.connection_closed("admin", "idle");
    let paused = ("Paused".to_owned(), "target group blue".to_owned());
    metrics.asks_what_is_wrong(move || {
        vec![paused.clone(), ("AwsUnreachable".into(), "AWS".into()), paused.clone()]
    });
    metrics
}

#[test]
fn the_page_names_every_metric_with_its_unit() {
    let page = filled().page(Format::OpenMetrics).unwrap();
    for line in [
        "headgate_clock_steps_total{direction=\"back\"} 1",
        "headgate_register_to_healthy_seconds_bucket{le=\"45.0\"} 1",
        "headgate_healthy_to_gate_seconds_bucket{le=\"0.01\"} 1",
        "headgate_gate_writes_total{outcome=\"ok\"} 1",
        "headgate_holds_too_short_total{target_group=\"blue\"} 1",
        "headgate_holds_too_short_total{target_group=\"green\"} 0",
        "headgate_eviction_requests_total{answer=\"wait\",reason=\"EvictionWaits\"} 1",
        "headgate_leaving_notes_total{outcome=\"full\"} 1",
        "headgate_leaving_notes_waiting 7",
        "headgate_departure_seconds_bucket{le=\"120.0\"} 1",
        "headgate_pod_ip_to_register_seconds_count 1",
        "headgate_deletion_to_deregister_seconds_bucket{le=\"0.003\"} 1",
        "headgate_aws_calls_total{action=\"RegisterTargets\",outcome=\"ok\"} 1",
        "headgate_aws_call_duration_seconds_count{action=\"RegisterTargets\"} 1",
        "headgate_aws_throttle_wait_seconds_count{action=\"RegisterTargets\"} 1",
        "headgate_aws_reachable 1",
        "headgate_aws_unreachable_total{cause=\"ConnectionRefused\"} 1",
        "headgate_watch_failures_total{kind=\"pods\"} 1",
        "headgate_notices_total{reason=\"InvalidBinding\"} 1",
        "headgate_events_total{outcome=\"written\"} 1",
        "headgate_pods 3",
        "headgate_synced 1",
        "headgate_leader 1",
        "headgate_lease_conflict 1",
        "headgate_lease_failures_total{verb=\"update\"} 1",
        "headgate_cannot_lead 1",
        "headgate_lease_given_back_total{reason=\"WatchesFail\"} 1",
        "headgate_ledger_requests_total{verb=\"create\",outcome=\"ok\"} 1",
        "headgate_ledger_request_duration_seconds_count{verb=\"create\"} 1",
        "headgate_targets{target_group=\"blue\",zone=\"a\",state=\"healthy\"} 2",
        "headgate_targets{target_group=\"blue\",zone=\"\",state=\"draining\"} 1",
        "headgate_wanted_targets{target_group=\"blue\",zone=\"a\"} 3",
        "headgate_oldest_removal_age_seconds{target_group=\"blue\"} 0",
        "headgate_last_read_age_seconds{target_group=\"blue\"} ",
        "headgate_unresolved_bindings{reason=\"InvalidBinding\"} 1",
        "headgate_problems{reason=\"AwsUnreachable\",about=\"AWS\"} 1",
        "headgate_problems{reason=\"Paused\",about=\"target group blue\"} 2",
        "headgate_unhealthy_targets{target_group=\"blue\",aws_reason=\"Target.Timeout\"} 1",
        concat!("headgate_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\"} 1"),
        "process_open_fds ",
        "process_cpu_seconds_total ",
        "headgate_paused_changes{target_group=\"blue\",kind=\"removals\"} 5",
        "headgate_binding_targets{namespace=\"shop\",service=\"web\",port=\"http\",target_group=\"blue\",\
         kind=\"gate_closed\"} 1",
    ] {
        assert!(page.contains(line), "{line} is not in\n{page}");
    }
    assert!(!page.contains("=\"red\""), "{page}");
}

#[test]
fn a_binding_is_named_after_the_targetbinding_that_makes_it() {
    let metrics = Metrics::new(Arc::new(views(Origin::TargetBinding(web()))), Clock::start(), Level::Debug);
    metrics.leads(true);
    let page = metrics.page(Format::OpenMetrics).unwrap();
    let labels =
        "namespace=\"shop\",target_binding=\"web\",port=\"http\",target_group=\"blue\",kind=\"wanted\"";
    assert!(page.contains(&format!("headgate_binding_targets{{{labels}}} 3")), "{page}");
    assert!(!page.contains("service=\""), "{page}");
}

/// The label names of a sample, without the bucket label of a histogram.
fn labels_of(sample: &str) -> Vec<&str> {
    let Some((_, labels)) = sample.split_once('{') else { return Vec::new() };
    let (labels, _) = labels.split_once('}').unwrap();
    let names = labels.split(',').map(|label| label.split_once('=').unwrap().0);
    names.filter(|name| *name != "le").collect()
}

#[test]
fn the_page_shows_each_metric_as_it_is_declared_and_no_other() {
    let metrics = filled();
    let page = metrics.page(Format::OpenMetrics).unwrap();
    for Declared { name, labels, kind, help, .. } in metrics.declared() {
        let family = name.strip_suffix("_total").unwrap_or(name);
        let found = page.split_once(&format!("# HELP {family} {help}.\n"));
        let (_, rest) = found.unwrap_or_else(|| panic!("{family}: {help} is not in\n{page}"));
        let mut lines = rest.lines();
        assert_eq!(lines.next(), Some(&*format!("# TYPE {family} {}", kind.as_str())));
        let sample = lines.find(|line| !line.starts_with('#')).unwrap();
        assert!(sample.starts_with(&**name), "{sample}");
        assert_eq!(labels_of(sample), *labels, "{name}");
    }
    assert_eq!(page.matches("# TYPE ").count(), metrics.declared().len());
}

#[test]
fn by_default_the_page_has_few_metrics_and_none_of_the_level_debug() {
    let metrics = filled_at(Level::Default);
    let page = metrics.page(Format::Prometheus).unwrap();
    let by_default: Vec<_> =
        metrics.declared().iter().filter(|metric| metric.level == Level::Default).collect();
    assert_eq!(page.matches("# TYPE ").count(), by_default.len());
    assert!(by_default.len() <= 39, "{}", by_default.len());
    for metric in metrics.declared() {
        let is_served = page.contains(&format!("# TYPE {} ", metric.name));
        assert_eq!(is_served, metric.level == Level::Default, "{}", metric.name);
    }
}

#[test]
fn in_the_older_format_each_sample_is_under_its_own_help_and_type() {
    let page = filled().page(Format::Prometheus).unwrap();
    assert!(
        page.contains("# TYPE headgate_clock_steps_total counter\nheadgate_clock_steps_total{"),
        "{page}"
    );
    assert!(page.contains(
        "# HELP headgate_leader 1 while this replica is the leader.\n# TYPE headgate_leader gauge\n"
    ));
    assert!(!page.contains("# EOF") && !page.contains("# UNIT"), "{page}");
    let mut family = "";
    for line in page.lines() {
        if let Some(of) = line.strip_prefix("# TYPE ") {
            family = of.split(' ').next().unwrap();
        } else if !line.starts_with('#') {
            let name = line.split(['{', ' ']).next().unwrap();
            let of_histogram =
                ["_bucket", "_sum", "_count"].iter().any(|part| name.strip_suffix(part) == Some(family));
            assert!(name == family || of_histogram, "{line} is under {family}");
        }
    }
    assert_eq!(filled().page(Format::OpenMetrics).unwrap().lines().last(), Some("# EOF"));
}

#[test]
fn what_only_the_leader_knows_is_on_no_other_page() {
    let metrics = filled();
    metrics.leads(false);
    metrics.nodes_go(|_| 1);
    let page = metrics.page(Format::Prometheus).unwrap();
    for of_the_leader in [
        "headgate_targets",
        "headgate_binding_targets{",
        "headgate_nodes_leaving{",
        "headgate_unresolved",
        "headgate_problems",
    ] {
        assert!(!page.contains(of_the_leader), "{of_the_leader} is in\n{page}");
    }
    assert!(page.contains("headgate_pods 3") && page.contains("headgate_leader 0"), "{page}");
}

#[test]
fn all_who_read_the_page_within_a_second_share_one() {
    let metrics = filled();
    let pages: Vec<_> = (0..3).map(|_| metrics.shared_page(Format::Prometheus).unwrap()).collect();
    metrics.noticed(Reason::InvalidBinding);
    let after = metrics.shared_page(Format::Prometheus).unwrap();
    assert!(pages.iter().all(|page| page.as_ptr() == after.as_ptr()));
    assert_ne!(metrics.shared_page(Format::OpenMetrics).unwrap(), after);
    assert_ne!(metrics.page(Format::Prometheus).unwrap().as_bytes(), &*after);
}
