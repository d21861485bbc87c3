//! Formats the differences as text.

use headgate::diff::report::{Difference, Differences, TargetGroup};
use k8s_openapi::jiff::Timestamp;

use crate::explain::text::{said, when};

/// Formats the differences. Ages are relative to `now`.
pub fn render(all: &Differences, now: Timestamp) -> String {
    let mut lines = Vec::new();
    for group in &all.target_groups {
        lines.push(head(group, now));
        lines.extend(group.differences.iter().flat_map(|it| difference(it, now)));
    }
    if lines.is_empty() {
        lines.push("no binding uses a target group".to_owned());
    }
    let by = all.answered_by.as_deref().unwrap_or("a Headgate that leads alone");
    lines.push(format!("\nAnswered by  {by}"));
    lines.join("\n") + "\n"
}

fn head(group: &TargetGroup, now: Timestamp) -> String {
    let TargetGroup { name, wanted, there, differences, .. } = group;
    let Some(read) = &group.last_read else {
        return format!("{name}  not read yet: {wanted} wanted, so nothing is compared");
    };
    let same = if differences.is_empty() { ": as it should be" } else { "" };
    format!("{name}  {wanted} wanted, {there} there, read {}{same}", when(read, now))
}

fn difference(it: &Difference, now: Timestamp) -> Vec<String> {
    let sign = match &*it.side {
        "missing" => '+',
        "left-over" => '-',
        _ => '?',
    };
    let pod = it.pod.as_ref().map(|pod| format!("  {pod}")).unwrap_or_default();
    let health = it.health.as_ref().map(|health| format!(", {health}")).unwrap_or_default();
    let since = it.since.as_ref().map(|since| format!(" since {}", when(since, now))).unwrap_or_default();
    let mut lines =
        vec![format!("{sign} {}{pod}  {}{health}{since}: {}", it.target, it.side, said(&it.word))];
    if let Some(next) = &it.next {
        let at = next.at.as_ref().map(|at| format!(" {}", when(at, now))).unwrap_or_default();
        let waits = next.waits.as_ref().map(|word| format!("; {}", said(word))).unwrap_or_default();
        lines.push(format!("    next {}{at}{waits}", next.action));
    }
    lines
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use headgate::runtime::times::Times;
    use headgate_core::{
        Moment, Reason, Target,
        explanation::{Comparison, Difference, Next, Side, Step},
        model::{HealthState, object::ObjectKey, target_group::TargetGroupArn},
    };

    use super::*;

    #[test]
    fn each_target_that_is_otherwise_has_its_reason_and_what_comes_next() {
        let at = |seconds| Moment::after_start(Duration::from_secs(seconds));
        let times = Times { now: at(1000), time: "2026-03-04T05:06:07Z".parse().unwrap() };
        let arn = |name: &str| {
            let of = "arn:aws:elasticloadbalancing:us-east-1:123456789012:targetgroup";
            TargetGroupArn::parse(&format!("{of}/{name}/0123456789abcdef")).unwrap()
        };
        let target = |last: u8| Target::new(format!("10.0.0.{last}").parse().unwrap(), 80);
        let missing = Difference {
            target: target(1),
            side: Side::Missing,
            pod: Some(ObjectKey::new("shop", "web-0")),
            health: None,
            word: (Reason::PodSelected, "should be registered".to_owned()),
            since: Some(at(990)),
            next: Some(Next {
                step: Step::Register,
                at: None,
                waits: Some((Reason::Throttled, "calls wait".to_owned())),
            }),
        };
        let foreign = Difference {
            target: target(9),
            side: Side::Foreign,
            pod: None,
            health: Some(HealthState::Healthy.into()),
            word: (Reason::ForeignTarget, "it remains".to_owned()),
            since: None,
            next: None,
        };
        let one = |name, wanted, there, read, differences| Comparison {
            group: arn(name),
            wanted,
            there,
            read,
            differences,
        };
        let all = vec![
            one("blue", 1, 1, Some(at(998)), vec![missing, foreign]),
            one("green", 3, 3, Some(at(998)), vec![]),
            one("red", 3, 0, None, vec![]),
        ];
        let all = Differences::new(all, Some("headgate-0".to_owned()), times);
        let expected = "\
blue  1 wanted, 1 there, read 05:06:05Z (2s ago)
+ 10.0.0.1:80  shop/web-0  missing since 05:05:57Z (10s ago): PodSelected: should be registered
    next RegisterTargets; Throttled: calls wait
? 10.0.0.9:80  foreign, healthy: ForeignTarget: it remains
green  3 wanted, 3 there, read 05:06:05Z (2s ago): as it should be
red  not read yet: 3 wanted, so nothing is compared

Answered by  headgate-0
";
        assert_eq!(render(&all, times.time), expected);
        let json = serde_json::to_string(&all).unwrap();
        assert_eq!(serde_json::from_str::<Differences>(&json).unwrap(), all);
    }
}
