//! Formats the report about a Service or TargetBinding and its targets as text.

use headgate::explain::origin::{BoundTarget, OriginReport};

use super::text::said;

pub fn render(report: &OriginReport) -> String {
    let OriginReport { kind, namespace, name, .. } = report;
    let mut lines = vec![format!("{kind}  {namespace}/{name}")];
    if !report.binds {
        lines.push(match &**kind {
            "Service" => "Binds  nothing: set the annotation headgate.dev/target-groups on it".to_owned(),
            _ => "Binds  nothing: Headgate does not know the object".to_owned(),
        });
    }
    if report.binds && !report.exists {
        lines.push("Exists  no: its bindings remain in effect for a while".to_owned());
    }
    lines.extend(report.problems.iter().map(|word| format!("Beware  {}", said(word))));
    for binding in &report.bindings {
        let group = binding.target_group.split('/').nth(1).unwrap_or(&binding.target_group);
        lines.push(format!("Target group  {group}, port {}, hold {} s", binding.port, binding.hold));
        lines.extend(binding.troubles.iter().map(|word| format!("  beware  {}", said(word))));
        if binding.targets.is_empty() {
            lines.push("  no targets".to_owned());
        }
        lines.extend(binding.targets.iter().map(|target| format!("  {}", line(target))));
    }
    let by = report.answered_by.as_deref().unwrap_or("a Headgate that leads alone");
    lines.push(format!("Answered by  {by}"));
    lines.join("\n") + "\n"
}

fn line(target: &BoundTarget) -> String {
    let told = match (target.registered, &target.goes) {
        (true, None) => "registered".to_owned(),
        (false, None) => "not registered yet".to_owned(),
        (true, Some(reason)) => format!("should be deregistered: {reason}"),
        (false, Some(reason)) => format!("deregistered: {reason}"),
    };
    let health = target.health.as_deref().unwrap_or("not read yet");
    let because =
        if target.health_reason.is_empty() { String::new() } else { format!(" ({})", target.health_reason) };
    let gate = target.gate.as_ref().map(|gate| format!(", readiness gate {gate}")).unwrap_or_default();
    format!("{}  {}  {told}; AWS says {health}{because}{gate}", target.target, target.pod)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use headgate::runtime::views::Views;
    use headgate_core::{
        Origin, Reason, Target,
        model::{
            BindingKey, HealthState,
            hold::HoldWanted,
            object::{ObjectKey, Uid},
            problem::Problem,
            target_group::TargetGroupArn,
        },
        view::{BindingView, EndingView, GateView, OriginView, TargetView},
    };

    use super::*;

    fn origin() -> Origin {
        Origin::Service(ObjectKey::new("shop", "web"))
    }

    fn views() -> Views {
        let views = Views::default();
        let arn = "arn:aws:elasticloadbalancing:us-east-1:123456789012:targetgroup/blue/0123456789abcdef";
        let key =
            BindingKey { origin: origin(), port: "http".into(), group: TargetGroupArn::parse(arn).unwrap() };
        let target = |last: u8| Target::new(format!("10.0.0.{last}").parse().unwrap(), 8080);
        let view = BindingView {
            key: key.clone(),
            targets: vec![TargetView {
                target: target(1),
                pod: ObjectKey::new("shop", "web-0"),
                node: None,
                registered: true,
                state: Some(HealthState::Unhealthy),
                why: "Target.Timeout",
                gate: GateView::Closed,
            }],
            ending: vec![EndingView {
                target: target(2),
                pod: ObjectKey::new("shop", "web-1"),
                reason: Reason::PodTerminating,
                registered: false,
                state: Some(HealthState::Draining),
            }],
            hold: HoldWanted { seconds: 150, bound: 120 },
            said: vec![(Reason::Throttled, "calls wait".to_owned())],
        };
        views.bindings.insert(key, Arc::new(view));
        let problem = Problem::of_all(Reason::InvalidBinding, "no port https".to_owned());
        let view =
            OriginView { origin: origin(), uid: Uid::new("s-1"), exists: true, problems: vec![problem] };
        views.origins.insert(origin(), Arc::new(view));
        views
    }

    #[test]
    fn a_service_says_what_it_binds_what_is_wrong_and_how_each_target_stands() {
        let report = OriginReport::new(&origin(), &views(), Some("headgate-0".to_owned()));
        let expected = "\
Service  shop/web
Beware  InvalidBinding: no port https
Target group  blue, port http, hold 150 s
  beware  Throttled: calls wait
  10.0.0.1:8080  web-0  registered; AWS says unhealthy (Target.Timeout), readiness gate closed
  10.0.0.2:8080  web-1  deregistered: PodTerminating; AWS says draining
Answered by  headgate-0
";
        assert_eq!(render(&report), expected);
        let json = serde_json::to_string(&report).unwrap();
        assert_eq!(serde_json::from_str::<OriginReport>(&json).unwrap(), report);
    }

    #[test]
    fn one_that_binds_nothing_is_told_what_was_expected() {
        let other = Origin::Service(ObjectKey::new("shop", "plain"));
        let said = render(&OriginReport::new(&other, &views(), None));
        assert!(said.contains("Binds  nothing: set the annotation"), "{said}");
    }
}
