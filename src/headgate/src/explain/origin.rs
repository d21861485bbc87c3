//! A Service or TargetBinding, and its targets: as they are sent, and for people.

use headgate_core::{
    Origin, Reason,
    model::{BindingKey, HealthState},
    view::{BindingView, EndingView, TargetView},
};
use serde::{Deserialize, Serialize};

use super::{report::Word, text::said};
use crate::runtime::views::Views;

/// All that there is to say of what an object binds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OriginReport {
    /// `Service` or `TargetBinding`.
    pub kind: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The replica that says so.
    pub answered_by: Option<String>,
    /// Whether it binds anything, or asks for it; a Service without the annotation does not.
    pub binds: bool,
    /// Whether the object exists, as far as Headgate knows: what a deleted Service binds stays in force for a while.
    pub exists: bool,
    /// What is wrong with what it asks for.
    pub problems: Vec<Word>,
    /// What is in force, by port and target group.
    pub bindings: Vec<InForce>,
}

/// A binding that is in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InForce {
    /// The port of the Service.
    pub port: String,
    /// The ARN of the target group.
    pub target_group: String,
    /// For how many seconds its pods should be held when they end.
    pub hold: u32,
    /// What is wrong with it or its target group.
    pub troubles: Vec<Word>,
    /// Its targets; those that are on their way out have a reason.
    pub targets: Vec<BoundTarget>,
}

/// A target of a binding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BoundTarget {
    /// `IP:PORT`.
    pub target: String,
    /// The pod's namespace.
    pub namespace: String,
    /// The pod.
    pub pod: String,
    /// Whether AWS has taken its registration, and not its removal.
    pub registered: bool,
    /// `TargetHealth.State`; none: it was not read yet, or is not there.
    pub health: Option<String>,
    /// `TargetHealth.Reason`, or nothing.
    pub health_reason: String,
    /// `open`, `closed` or `none`; none at all of one that goes.
    pub gate: Option<String>,
    /// Why it goes.
    pub goes: Option<String>,
}

impl OriginReport {
    /// What the views show of it.
    pub fn new(origin: &Origin, views: &Views, answered_by: Option<String>) -> Self {
        let shown = views.origins.get(origin).map(|view| view.value().clone());
        let words = |(reason, message): (Reason, String)| Word::from((reason, message));
        let bindings = views.all_bindings();
        let own = bindings.iter().filter(|view| view.key.origin == *origin);
        let bindings: Vec<InForce> = own.map(|view| in_force(view)).collect();
        let problems = shown.as_ref().map(|view| view.problems.clone()).unwrap_or_default();
        Self {
            kind: origin.kind().to_owned(),
            namespace: origin.key().namespace.to_string(),
            name: origin.key().name.to_string(),
            answered_by,
            binds: shown.is_some() || !bindings.is_empty(),
            exists: shown.is_some_and(|view| view.exists),
            problems: problems.into_iter().map(|problem| words((problem.reason, problem.said))).collect(),
            bindings,
        }
    }
}

/// The targets of a binding, those on their way out last.
pub fn bound_targets(view: &BindingView) -> Vec<BoundTarget> {
    let state = |state: HealthState| state.as_str().to_owned();
    let there = view.targets.iter().map(|target: &TargetView| BoundTarget {
        target: target.target.to_string(),
        namespace: target.pod.namespace.to_string(),
        pod: target.pod.name.to_string(),
        registered: target.registered,
        health: target.state.map(state),
        health_reason: target.why.to_owned(),
        gate: Some(target.gate.as_str().to_owned()),
        goes: None,
    });
    let ending = view.ending.iter().map(|target: &EndingView| BoundTarget {
        target: target.target.to_string(),
        namespace: target.pod.namespace.to_string(),
        pod: target.pod.name.to_string(),
        registered: target.registered,
        health: target.state.map(state),
        health_reason: String::new(),
        gate: None,
        goes: Some(target.reason.to_string()),
    });
    there.chain(ending).collect()
}

fn in_force(view: &BindingView) -> InForce {
    let BindingKey { port, group, .. } = &view.key;
    InForce {
        port: port.to_string(),
        target_group: group.to_string(),
        hold: view.hold.seconds,
        troubles: view.said.iter().cloned().map(Word::from).collect(),
        targets: bound_targets(view),
    }
}

/// The report as text.
pub fn render(report: &OriginReport) -> String {
    let OriginReport { kind, namespace, name, .. } = report;
    let mut lines = vec![format!("{kind}  {namespace}/{name}")];
    if !report.binds {
        lines.push(match &**kind {
            "Service" => {
                "Binds  nothing: expected the annotation headgate.dev/target-groups on it".to_owned()
            }
            _ => "Binds  nothing: Headgate knows no such object".to_owned(),
        });
    }
    if report.binds && !report.exists {
        lines.push("Exists  no: what it binds stays in force for a while".to_owned());
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
        (true, Some(reason)) => format!("to be deregistered: {reason}"),
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

    use headgate_core::{
        Target,
        model::{
            hold::HoldWanted,
            object::{ObjectKey, Uid},
            problem::Problem,
            target_group::TargetGroupArn,
        },
        view::{GateView, OriginView},
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
        let problem = Problem::of_all(Reason::NoSuchPort, "no port https".to_owned());
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
Beware  NoSuchPort: no port https
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
        assert!(said.contains("Binds  nothing: expected the annotation"), "{said}");
    }
}
