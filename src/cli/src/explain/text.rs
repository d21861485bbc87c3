//! Formats the report about a pod as text.

use std::fmt::Write;

use headgate::explain::report::{Report, Target, Word};
use headgate_core::model::health::HealthState;
use k8s_openapi::{apimachinery::pkg::apis::meta::v1::MicroTime, jiff::Timestamp};

use crate::journal::past;

/// Formats the report. Ages are relative to `now`.
pub fn render(report: &Report, now: Timestamp) -> String {
    let mut lines = vec![head(report)];
    if let Some(word) = &report.nowhere {
        lines.push(format!("Target group  none: {}", said(word)));
    }
    for target in &report.targets {
        lines.extend(place(target, now));
    }
    if let Some(gate) = &report.gate {
        let since = gate.since.as_ref().map(|since| format!(" since {}", when(since, now)));
        let word = gate.word.as_ref().map(|word| format!(": {}", said(word)));
        let none = if gate.state == "none" { " (readiness does not wait for the load balancer)" } else { "" };
        let (since, word) = (since.unwrap_or_default(), word.unwrap_or_default());
        lines.push(format!("Readiness gate  {}{none}{since}{word}", gate.state));
    }
    if let Some(hold) = &report.hold {
        lines.push(match &hold.word {
            Some(word) => format!("Hold  {}", said(word)),
            None => format!("Hold  {} s wanted; cannot read the pod itself", hold.wanted),
        });
    }
    // For an existing pod, the history adds a few lines. For a deleted pod, the history is the whole output.
    let told = past(&report.past);
    if !report.past.entries.is_empty() || report.pod.is_none() {
        lines.push("Past".to_owned());
        let none = told.is_empty().then(|| "  no history of a pod with this name".to_owned());
        lines.extend(told.into_iter().chain(none));
    }
    lines.push(format!(
        "Answered by  {}",
        report.answered_by.as_deref().unwrap_or("a Headgate that leads alone")
    ));
    let mut text = lines.join("\n");
    text.push('\n');
    text
}

fn head(report: &Report) -> String {
    let mut head = format!("Pod  {}/{}", report.namespace, report.name);
    let Some(pod) = &report.pod else { return head + ", not known" };
    let ips = if pod.ips.is_empty() { "no IP".to_owned() } else { pod.ips.join(", ") };
    // A write to a String cannot fail.
    let _ = write!(head, ", {ips}");
    let host = if pod.host_network { ", host network" } else { "" };
    let ready = if pod.ready { "ready apart from Headgate's gate" } else { "not ready" };
    let _ = write!(head, "{host}, {}, {ready}", pod.life);
    head
}

fn place(target: &Target, now: Timestamp) -> Vec<String> {
    let group = target.target_group.split('/').nth(1).unwrap_or(&target.target_group);
    let binding = target.binding.as_ref();
    let binding = binding.map(|by| format!(", {} {} port {}", by.kind, by.name, by.port)).unwrap_or_default();
    let mut lines = vec![format!("Target group  {group}{binding}")];
    let mut add = |label: &str, text: String| lines.push(format!("  {label:<9} {text}"));
    if let Some(target) = &target.target {
        add("target", target.clone());
    }
    let since = target.since.as_ref().map(|since| format!(" since {}", when(since, now))).unwrap_or_default();
    add("state", format!("{}{since}: {}", target.state, said(&target.word)));
    match (&target.health, &target.last_read) {
        (Some(health), Some(read)) => {
            let because =
                if health.reason.is_empty() { String::new() } else { format!(" ({})", health.reason) };
            let shift = if health.state == HealthState::ZonalShift.as_str() {
                ", a zonal shift keeps new traffic away"
            } else {
                ""
            };
            add("AWS says", format!("{}{because}{shift}, read {}", health.state, when(read, now)));
        }
        (None, Some(read)) if target.target.is_some() => {
            add("AWS says", format!("no such target, read {}", when(read, now)));
        }
        (_, None) if target.target.is_some() => add("AWS says", "nothing: not read yet".to_owned()),
        _ => {}
    }
    if let Some(next) = &target.next {
        let at = next.at.as_ref().map(|at| format!(" {}", when(at, now))).unwrap_or_default();
        let waits = next.waits.as_ref().map(|word| format!("; {}", said(word))).unwrap_or_default();
        add("next", format!("{}{at}{waits}", next.action));
    }
    for word in &target.troubles {
        add("beware", said(word));
    }
    lines
}

/// Formats a target as one line.
pub fn place_line(target: &Target, now: Timestamp) -> String {
    let group = target.target_group.split('/').nth(1).unwrap_or(&target.target_group);
    let at = target.target.as_ref().map(|at| format!(" {at}")).unwrap_or_default();
    let since = target.since.as_ref().map(|since| format!(" since {}", when(since, now))).unwrap_or_default();
    let health =
        target.health.as_ref().map(|health| format!("; AWS says {}", health.state)).unwrap_or_default();
    format!("{group}{at}  {}{since}: {}{health}", target.state, said(&target.word))
}

/// Formats a reason and its message.
pub fn said(word: &Word) -> String {
    format!("{}: {}", word.reason, word.message)
}

/// Formats a time as the time of day in UTC and as the distance from now.
pub fn when(time: &MicroTime, now: Timestamp) -> String {
    let away = time.0.duration_since(now);
    let distance = span(away.unsigned_abs().as_secs());
    let away = if away.is_positive() { format!("in {distance}") } else { format!("{distance} ago") };
    format!("{} ({away})", time.0.strftime("%H:%M:%SZ"))
}

fn span(seconds: u64) -> String {
    match seconds {
        0..=119 => format!("{seconds}s"),
        120..=7199 => format!("{}m", seconds / 60),
        7200..=172_799 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use headgate::{journal::report::Past, runtime::times::Times};
    use headgate_core::{
        Moment, Reason, Target,
        explanation::{Explanation, Gate, Life, Next, Place, Progress, Seen, Step},
        model::{
            BindingKey,
            health::Health,
            hold::HoldWanted,
            object::{ObjectKey, Uid},
            origin::Origin,
            target_group::TargetGroupArn,
        },
        view::GateView,
    };

    use super::{super::pod, *};

    fn report(explanation: Explanation) -> Report {
        let now = Moment::after_start(Duration::from_secs(1000));
        let time = "2026-03-04T05:06:07Z".parse().unwrap();
        Report::new(explanation, Some("headgate-a_1".into()), Past::default(), Times { now, time })
    }

    fn text(report: &Report) -> String {
        render(report, "2026-03-04T05:06:07Z".parse().unwrap())
    }

    fn at(seconds: u64) -> Moment {
        Moment::after_start(Duration::from_secs(seconds))
    }

    fn explanation() -> Explanation {
        let arn = "arn:aws:elasticloadbalancing:us-east-1:123456789012:targetgroup/blue/0123456789abcdef";
        let group = TargetGroupArn::parse(arn).unwrap();
        let origin = Origin::Service(ObjectKey::new("shop", "web"));
        Explanation {
            pod: ObjectKey::new("shop", "web-0"),
            seen: Some(Seen {
                uid: Uid::new("u-1"),
                ips: vec!["10.0.0.1".parse().unwrap()],
                host_network: false,
                ready: true,
                life: Life::Lives,
            }),
            places: vec![Place {
                binding: Some(BindingKey { origin, port: "http".into(), group: group.clone() }),
                group,
                target: Some(Target::new("10.0.0.1".parse().unwrap(), 8080)),
                progress: Progress::Registered,
                word: (Reason::PodSelected, "AWS has accepted the registration".into()),
                since: Some(at(400)),
                health: Some(Health::read("initial", Some("Elb.InitialHealthChecking"), None, None)),
                read: Some(at(998)),
                next: Some(Next { step: Step::Read, at: Some(at(1001)), waits: None }),
                troubles: vec![(Reason::Throttled, "AWS throttles".into())],
            }],
            nowhere: None,
            gate: Some(Gate {
                shown: GateView::Closed,
                verdict: Some((
                    (Reason::TargetPending, "target 10.0.0.1:8080: initial".into()),
                    Moment::START,
                )),
            }),
            hold: Some(HoldWanted { seconds: 150, bound: 120 }),
        }
    }

    #[test]
    fn people_read_a_line_for_each_thing_that_there_is_to_say() {
        let expected = "\
Pod  shop/web-0, 10.0.0.1, living, ready apart from Headgate's gate
Target group  blue, Service web port http
  target    10.0.0.1:8080
  state     registered since 04:56:07Z (10m ago): PodSelected: AWS has accepted the registration
  AWS says  initial (Elb.InitialHealthChecking), read 05:06:05Z (2s ago)
  next      DescribeTargetHealth 05:06:08Z (in 1s)
  beware    Throttled: AWS throttles
Readiness gate  closed since 04:49:27Z (16m ago): TargetPending: target 10.0.0.1:8080: initial
Hold  150 s wanted; cannot read the pod itself
Answered by  headgate-a_1
";
        assert_eq!(text(&report(explanation())), expected);
    }

    #[test]
    fn a_pod_that_is_nowhere_is_told_why() {
        let nowhere = Some((Reason::PodDeleted, "there is no pod".into()));
        let none =
            Explanation { seen: None, places: vec![], nowhere, gate: None, hold: None, ..explanation() };
        let text = text(&report(none));
        assert!(
            text.starts_with("Pod  shop/web-0, not known\nTarget group  none: PodDeleted: there is no pod\n"),
            "{text}"
        );
    }

    #[test]
    fn what_the_pod_says_of_itself_is_added_and_all_of_it_is_read_back_from_json() {
        let open = Some(Gate { shown: GateView::Open, verdict: None });
        let mut report = report(Explanation { gate: open, ..explanation() });
        let pod = serde_json::from_value(serde_json::json!({
            "metadata": {},
            "spec": {"containers": [{"name": "web"}]},
            "status": {"conditions": [{"type": "headgate.dev/target-health", "status": "True",
                "reason": "TargetsHealthy", "message": "fine", "lastTransitionTime": "2026-03-04T05:00:00Z"}]},
        }));
        pod::look_at(&mut report, &pod.unwrap());
        let text = text(&report);
        assert!(
            text.contains("Readiness gate  open since 05:00:00Z (6m ago): TargetsHealthy: fine"),
            "{text}"
        );
        assert!(text.contains("Hold  HoldMissing: no preStop keeps web alive"), "{text}");
        let json = serde_json::to_string(&report).unwrap();
        assert_eq!(serde_json::from_str::<Report>(&json).unwrap(), report);
        assert!(json.contains("\"state\":\"registered\",\"reason\":\"PodSelected\""), "{json}");
    }
}
