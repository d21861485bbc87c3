//! Collects the problems, most severe first. The cause of a problem comes before the problem.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use headgate_core::{
    Moment, Origin, Reason,
    model::{HealthState, ZoneName, target_group::TargetGroupArn},
    view::GroupView,
};

use super::report::Problem;
use crate::{
    aws::reach::Trouble,
    runtime::{authority::Unable, times::Times, troubles::why, views::Views},
};

/// A deregistration that AWS has not accepted for this time is a problem. Usually AWS accepts a deregistration within
/// milliseconds, or within one second if AWS is slow.
const SLOW_REMOVAL: Duration = Duration::from_secs(30);
/// A hold that was too short counts as a problem for this time.
const SAID_FOR: Duration = Duration::from_secs(3600);

/// The data for a status.
#[derive(Debug)]
pub struct Known<'a> {
    /// The engine's views.
    pub views: &'a Views,
    /// The problem that prevents Headgate from reaching AWS, if there is one.
    pub aws: Option<Trouble>,
    /// The problem that prevents this replica from leading, if there is one.
    pub unable: Option<Unable>,
}

/// The reason and the object of each problem, for the metrics.
pub fn words(known: &Known<'_>, now: Moment) -> Vec<(String, String)> {
    let groups: Vec<_> = known.views.groups.iter().map(|group| group.value().clone()).collect();
    let all = problems(known, &groups, Times::at(now)).into_iter();
    all.map(|problem| (problem.reason, problem.about)).collect()
}

/// Returns all problems.
pub fn problems(known: &Known<'_>, groups: &[Arc<GroupView>], times: Times) -> Vec<Problem> {
    let mut all = Found::default();
    if let Some(Trouble { reason, sentence, since }) = &known.aws {
        all.add(*reason, "AWS", sentence.clone()).since = Some(times.time(*since));
    }
    if let Some(Unable { reason, since, .. }) = &known.unable {
        let message = format!("{reason}: {}", why(*reason));
        all.add(Reason::CannotLead, "this replica", message).since = Some(times.time(*since));
    }
    let bindings = known.views.all_bindings();
    let mut bound: BTreeMap<&Origin, BTreeSet<&TargetGroupArn>> = BTreeMap::new();
    for binding in &bindings {
        bound.entry(&binding.key.origin).or_default().insert(&binding.key.group);
    }
    for origin in known.views.all_origins() {
        for problem in &origin.problems {
            let found = all.add(problem.reason, &origin.origin.to_string(), problem.said.clone());
            let its = bound.get(&origin.origin).into_iter().flatten();
            found.target_groups = its.map(ToString::to_string).collect();
        }
    }
    let mut unhealthy: BTreeMap<TargetGroupArn, BTreeMap<&str, usize>> = BTreeMap::new();
    for binding in &bindings {
        for (reason, said) in &binding.said {
            all.add_to_group(*reason, &binding.key.group, said.clone());
        }
        for target in binding.targets.iter().filter(|target| target.state == Some(HealthState::Unhealthy)) {
            *unhealthy.entry(binding.key.group.clone()).or_default().entry(target.why).or_default() += 1;
        }
    }
    for view in groups {
        if let Some(reasons) = unhealthy.get(&view.group) {
            all.add_to_group(Reason::TargetUnhealthy, &view.group, unhealthy_said(reasons));
        }
        all.add_of_group(view, times);
    }
    for (key, set) in known.views.all_sets() {
        let about = format!("IngressDaemonSet {key}");
        let kinds = [("Progressing", Reason::ProgressDeadlineExceeded), ("PodsCreated", Reason::PodsRefused)];
        for (kind, reason) in kinds {
            let said = set.condition(kind).filter(|condition| condition.reason == reason.as_str());
            if let Some(condition) = said {
                all.add(reason, &about, condition.message.clone());
            }
        }
    }
    for short in known.views.too_short.iter().filter(|short| recent(short.last, times.now)) {
        let message = format!(
            "{} stopped before the load balancer had stopped sending to them, the last at {}; requests may have been \
             dropped; set a longer hold",
            if short.pods == 1 { "1 pod".to_owned() } else { format!("{} pods", short.pods) },
            times.time(short.last).0.strftime("%H:%M:%SZ")
        );
        all.add_to_group(Reason::HoldTooShort, short.key(), message);
    }
    all.0.into_values().collect()
}

/// The collected problems, most severe first, without duplicates.
#[derive(Default)]
struct Found(BTreeMap<(u8, &'static str, String, String), Problem>);

impl Found {
    fn add(&mut self, reason: Reason, about: &str, message: String) -> &mut Problem {
        let key = (rank(reason), reason.as_str(), about.to_owned(), message.clone());
        self.0.entry(key).or_insert_with(|| Problem {
            reason: reason.to_string(),
            about: about.to_owned(),
            message,
            since: None,
            target_groups: Vec::new(),
        })
    }

    fn add_to_group(&mut self, reason: Reason, group: &TargetGroupArn, message: String) -> &mut Problem {
        let found = self.add(reason, &format!("target group {}", group.name()), message);
        // Target groups in different accounts may have the same name.
        let arn = group.to_string();
        if !found.target_groups.contains(&arn) {
            found.target_groups.push(arn);
        }
        found
    }

    /// Adds the problems in the view of a target group.
    fn add_of_group(&mut self, view: &GroupView, times: Times) {
        if view.never_healthy > 0 {
            let message = format!(
                "{} targets were registered some time ago and were never healthy; check the containers, the port, path and \
                 codes of the health check, and the security groups",
                view.never_healthy
            );
            self.add_to_group(Reason::NeverHealthy, &view.group, message);
        }
        if let Some(since) = view.oldest_removal.filter(|since| times.now.since(*since) >= SLOW_REMOVAL) {
            let message = "AWS has not accepted a deregistration; the pod may stop before the load balancer \
                           stops sending; check AWS's answers in the log";
            let found = self.add_to_group(Reason::RemovalsFail, &view.group, message.to_owned());
            found.since = Some(times.time(since));
        }
        for zone in without_healthy(view) {
            let message = format!(
                "no target in zone {zone} is healthy, but targets in other zones are; run healthy pods there, or none: \
                 with cross-zone load balancing off, the zone's clients are not served"
            );
            self.add_to_group(Reason::ZoneWithoutHealthyTarget, &view.group, message);
        }
    }
}

fn recent(last: Moment, now: Moment) -> bool {
    now.since(last) < SAID_FOR
}

fn unhealthy_said(reasons: &BTreeMap<&str, usize>) -> String {
    let each = reasons.iter().map(|(why, count)| {
        let why = if why.is_empty() { "no reason given" } else { why };
        format!("{count} ({why})")
    });
    let each = each.collect::<Vec<_>>().join(", ");
    format!(
        "AWS reports unhealthy targets: {each}; check port, path and codes of the health check, and the security groups"
    )
}

/// The zones without a healthy target, if other zones have healthy targets. Zones that the load balancer does not serve
/// do not count.
fn without_healthy(view: &GroupView) -> Vec<ZoneName> {
    if view.in_state(HealthState::Healthy) == 0 {
        return Vec::new();
    }
    let zones = view.zones.iter().filter_map(|(zone, is)| Some((zone.as_ref()?, is)));
    let none = zones.filter(|(_, is)| {
        let of = |state| is.states.get(&state).copied().unwrap_or_default();
        of(HealthState::Healthy) == 0 && of(HealthState::ZoneNotServed) == 0
    });
    none.map(|(zone, _)| *zone).collect()
}

/// The rank of a problem in the list. Problems that stop Headgate come first, then problems that drop requests now,
/// then problems that wait for a user. The consequences of other problems come last.
const fn rank(reason: Reason) -> u8 {
    match reason {
        Reason::AwsUnreachable | Reason::NoAwsCredentials => 0,
        Reason::CannotLead => 1,
        Reason::AccessDenied | Reason::LedgerUnreadable => 2,
        Reason::HoldTooShort => 3,
        Reason::Throttled => 4,
        Reason::Paused | Reason::ReadOnly => 5,
        Reason::RemovalsPaused | Reason::RemovalsFail => 6,
        Reason::ZoneNotServed => 7,
        Reason::NeverHealthy => 8,
        Reason::TargetUnhealthy => 9,
        Reason::ZoneWithoutHealthyTarget => 10,
        Reason::PodsRefused => 11,
        Reason::ProgressDeadlineExceeded => 12,
        _ => 20,
    }
}

#[cfg(test)]
mod tests {
    use headgate_core::{
        model::{BindingKey, HoldWanted, ObjectKey, Problem as OfOrigin, Target, Uid},
        view::{BindingView, GateView, OriginView, TargetView, ZoneView},
    };

    use super::*;
    use crate::runtime::views::TooShort;
    use k8s_openapi::jiff::Timestamp;

    const NOW: Duration = Duration::from_secs(10_000);

    fn arn(name: &str) -> TargetGroupArn {
        let arn = format!(
            "arn:aws:elasticloadbalancing:us-east-1:123456789012:targetgroup/{name}/0123456789abcdef"
        );
        TargetGroupArn::parse(&arn).unwrap()
    }

    fn ago(seconds: u64) -> Moment {
        Moment::after_start(NOW.saturating_sub(Duration::from_secs(seconds)))
    }

    fn quiet(name: &str) -> GroupView {
        let zone = |healthy| ZoneView {
            wanted: healthy,
            serving: healthy,
            states: [(HealthState::Healthy, healthy)].into(),
        };
        GroupView {
            group: arn(name),
            zones: [(ZoneName::parse("a"), zone(2)), (ZoneName::parse("b"), zone(1))].into(),
            foreign: 0,
            suspects: 0,
            contested: 0,
            never_healthy: 0,
            paused: None,
            unplaced: 0,
            held: 0,
            held_until: None,
            last_read: Some(ago(3)),
            oldest_removal: Some(ago(2)),
        }
    }

    fn binding(views: &Views, name: &str, said: &[Reason], unhealthy: &[&'static str]) {
        let origin = Origin::Service(ObjectKey::new("shop", "web"));
        let key = BindingKey { origin, port: "http".into(), group: arn(name) };
        let target = |(at, why): (usize, &&'static str)| TargetView {
            target: Target::new([10, 0, 0, u8::try_from(at).unwrap()].into(), 80),
            pod: ObjectKey::new("shop", "web-0"),
            node: None,
            registered: true,
            state: Some(HealthState::Unhealthy),
            why,
            gate: GateView::None,
        };
        let view = BindingView {
            key: key.clone(),
            targets: unhealthy.iter().enumerate().map(target).collect(),
            ending: Vec::new(),
            hold: HoldWanted { seconds: 0, bound: 0 },
            said: said.iter().map(|reason| (*reason, "so it is".to_owned())).collect(),
        };
        views.bindings.insert(key, Arc::new(view));
    }

    fn found(known: &Known<'_>, groups: &[GroupView], later: Duration) -> Vec<Problem> {
        let groups: Vec<_> = groups.iter().cloned().map(Arc::new).collect();
        let time: Timestamp = "2026-03-04T05:06:07Z".parse().unwrap();
        problems(known, &groups, Times { now: Moment::after_start(NOW + later), time: time + later })
    }

    fn said(known: &Known<'_>, groups: &[GroupView]) -> Vec<String> {
        let all = found(known, groups, Duration::ZERO);
        all.into_iter()
            .map(|problem| format!("{} {}: {}", problem.reason, problem.about, problem.message))
            .collect()
    }

    #[test]
    fn where_nothing_is_wrong_nothing_is_said() {
        let views = Views::default();
        binding(&views, "blue", &[], &[]);
        views.too_short.insert(arn("blue"), TooShort { pods: 3, last: ago(3_600) });
        let mut scaled_to_nothing = quiet("red");
        scaled_to_nothing.zones.values_mut().for_each(|zone| *zone = ZoneView::default());
        let known = Known { views: &views, aws: None, unable: None };
        assert_eq!(said(&known, &[quiet("blue"), scaled_to_nothing]), [""; 0]);
    }

    #[test]
    fn what_keeps_headgate_from_working_is_said_before_what_follows_from_it() {
        let views = Views::default();
        binding(
            &views,
            "blue",
            &[Reason::UnknownWriter, Reason::Throttled],
            &["Target.Timeout", "Target.Timeout", ""],
        );
        let origin = Origin::Service(ObjectKey::new("shop", "other"));
        let problems = vec![OfOrigin::of_all(Reason::InvalidBinding, "it has none".to_owned())];
        let view = OriginView { origin: origin.clone(), uid: Uid::new("1"), exists: true, problems };
        views.origins.insert(origin, Arc::new(view));
        views.too_short.insert(arn("blue"), TooShort { pods: 3, last: ago(90) });
        let mut blue = quiet("blue");
        blue.never_healthy = 1;
        blue.oldest_removal = Some(ago(45));
        blue.zones.insert(ZoneName::parse("c"), ZoneView::default());
        let not_served = ZoneView { states: [(HealthState::ZoneNotServed, 1)].into(), ..ZoneView::default() };
        blue.zones.insert(ZoneName::parse("d"), not_served);
        let aws =
            Trouble { reason: Reason::AwsUnreachable, sentence: "nobody answers".to_owned(), since: ago(20) };
        let unable = Unable { reason: Reason::WatchesFail, since: ago(30), until: None };
        let known = Known { views: &views, aws: Some(aws), unable: Some(unable) };
        let said = said(&known, &[blue]);
        let words: Vec<&str> = said.iter().map(|line| line.split(' ').next().unwrap()).collect();
        assert_eq!(
            words,
            [
                "AwsUnreachable",
                "CannotLead",
                "HoldTooShort",
                "Throttled",
                "RemovalsFail",
                "NeverHealthy",
                "TargetUnhealthy",
                "ZoneWithoutHealthyTarget",
                "InvalidBinding",
                "UnknownWriter",
            ]
        );
        assert_eq!(said[0], "AwsUnreachable AWS: nobody answers");
        assert!(
            said[2].contains("3 pods stopped before") && said[2].contains("the last at 05:04:37Z"),
            "{}",
            said[2]
        );
        assert!(said[6].contains("1 (no reason given), 2 (Target.Timeout)"), "{}", said[6]);
        assert!(said[7].contains("no target in zone c is healthy"), "{}", said[7]);
        assert_eq!(said[8], "InvalidBinding Service shop/other: it has none");
    }

    #[test]
    fn a_problem_that_lasts_stays_as_it_is_and_names_when_it_began_and_its_target_groups() {
        let views = Views::default();
        binding(&views, "blue", &[Reason::Throttled], &[]);
        let origin = Origin::Service(ObjectKey::new("shop", "web"));
        let problems = vec![OfOrigin::of_all(Reason::InvalidBinding, "a part".to_owned())];
        let view = OriginView { origin: origin.clone(), uid: Uid::new("1"), exists: true, problems };
        views.origins.insert(origin, Arc::new(view));
        let mut blue = quiet("blue");
        blue.oldest_removal = Some(ago(45));
        let aws =
            Trouble { reason: Reason::AwsUnreachable, sentence: "nobody answers".to_owned(), since: ago(20) };
        let known = Known { views: &views, aws: Some(aws), unable: None };
        let first = found(&known, &[blue.clone()], Duration::ZERO);
        assert_eq!(first, found(&known, &[blue], Duration::from_secs(7)), "nothing in it counts seconds");
        let facts: Vec<(&str, Option<String>, Vec<String>)> = first
            .iter()
            .map(|problem| {
                let since = problem.since.as_ref().map(|since| since.0.to_string());
                (&*problem.reason, since, problem.target_groups.clone())
            })
            .collect();
        let of_blue = vec![arn("blue").to_string()];
        let began = |time: &str| Some(format!("2026-03-04T{time}Z"));
        let expected = [
            ("AwsUnreachable", began("05:05:47"), vec![]),
            ("Throttled", None, of_blue.clone()),
            ("RemovalsFail", began("05:05:22"), of_blue.clone()),
            ("InvalidBinding", None, of_blue),
        ];
        assert_eq!(facts, expected);
    }
}
