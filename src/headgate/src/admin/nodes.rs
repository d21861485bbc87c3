//! `GET /nodes/NAME` reports whether load balancers can send to all targets of a node. Scripts and programs that detach
//! and attach nodes use `GET /nodes/NAME`. A target group's health checks cannot use the endpoint, because load
//! balancers send health checks to the pod.

use axum::{
    extract::{Path, State},
    http::StatusCode,
    response::{IntoResponse, Response},
};

use super::server::{Shown, misdirected};
use crate::{explain::node::NodeReport, journal::report::Past, runtime::times::Times};

/// The maximum number of reasons in an answer.
const MOST: usize = 20;

/// Returns 200 if all bound pods of the node are healthy targets and no target is being deregistered. Returns 404 if
/// the node does not exist, and 503 with reasons in all other cases.
pub async fn node(State(shown): State<Shown>, Path(name): Path<String>) -> Response {
    if let Some(elsewhere) = misdirected(&shown) {
        return elsewhere;
    }
    let Some(explanation) = shown.asking.node(name).await else {
        let text = "the engine is too busy to answer within 2 s. Try again\n";
        return (StatusCode::SERVICE_UNAVAILABLE, text).into_response();
    };
    let times = Times::at(shown.clock.now());
    let report = NodeReport::new(explanation, None, Past::default(), |_| Past::default(), times);
    verdict(&report).into_response()
}

fn verdict(report: &NodeReport) -> (StatusCode, String) {
    let name = &report.name;
    if report.node.is_none() && report.pods.is_empty() {
        let said = format!("there is no node {name}. Name one that Headgate knows, or that has its pods\n");
        return (StatusCode::NOT_FOUND, said);
    }
    let mut why = Vec::new();
    why.extend(
        report
            .goes
            .as_ref()
            .map(|word| format!("the node will be removed: {}: {}", word.reason, word.message)),
    );
    let mut serving = 0;
    for pod in &report.pods {
        let lives = pod.pod.is_some();
        for target in &pod.targets {
            let health = target.health.as_ref().map_or("not read yet", |health| &*health.state);
            match &*target.state {
                "registered" if health == "healthy" => serving += 1,
                // For a deleted or unbound pod, the check is complete when the load balancer no longer sends to the
                // pod.
                "deregistered" | "not a target"
                    if health != "draining" && (!lives || target.binding.is_none()) => {}
                state => why.push(format!(
                    "pod {}/{} {}: {state}, AWS says {health}: {}: {}",
                    pod.namespace,
                    pod.name,
                    target.target.as_deref().unwrap_or("without a target"),
                    target.word.reason,
                    target.word.message
                )),
            }
        }
    }
    if why.is_empty() && serving == 0 {
        why.push("none of its pods is a target".to_owned());
    }
    if why.is_empty() {
        return (
            StatusCode::OK,
            format!("all {serving} targets of node {name} are healthy, and none is being deregistered\n"),
        );
    }
    let more = why.len().saturating_sub(MOST);
    why.truncate(MOST);
    why.extend((more > 0).then(|| format!("and {more} more")));
    (StatusCode::SERVICE_UNAVAILABLE, why.join("\n") + "\n")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// The state of a target and its health.
    type Target<'a> = (&'a str, Option<&'a str>);
    /// The name of a pod, whether it runs, and its targets.
    type Pod<'a> = (&'a str, bool, &'a [Target<'a>]);

    fn answer(goes: &Value, pods: &[Pod<'_>]) -> (u16, String) {
        let target = |(state, health): &Target<'_>| {
            json!({
                "targetGroup": "arn", "binding": null, "target": "10.0.0.1:80", "state": state, "reason": "PodSelected",
                "message": "it has one", "since": null, "lastRead": null, "next": null, "troubles": [],
                "health": health.map(|state| json!({"state": state, "reason": ""})),
            })
        };
        let pod = |(name, lives, targets): &Pod<'_>| {
            let seen = json!({"uid": "u", "ips": [], "hostNetwork": false, "ready": true, "life": "living"});
            json!({
                "namespace": "shop", "name": name, "answeredBy": null, "pod": lives.then_some(seen), "nowhere": null,
                "targets": targets.iter().map(target).collect::<Vec<_>>(), "gate": null, "hold": null,
            })
        };
        let report = json!({
            "name": "n1", "answeredBy": null, "goes": goes, "since": null,
            "node": {"zone": null, "takesPods": true, "cordoned": false, "detached": false},
            "pods": pods.iter().map(pod).collect::<Vec<_>>(),
        });
        let (status, said) = verdict(&serde_json::from_value(report).unwrap());
        (status.as_u16(), said)
    }

    #[test]
    fn a_node_serves_while_all_its_targets_are_healthy_and_none_is_leaving() {
        let healthy = [("registered", Some("healthy"))];
        let none = Value::Null;
        assert_eq!(answer(&none, &[("a", true, &healthy), ("b", true, &healthy)]).0, 200);
        let gone = [("deregistered", None)];
        assert_eq!(answer(&none, &[("a", true, &healthy), ("b", false, &gone)]).0, 200, "it is over");
        for (other, lives, said) in [
            (("registered", Some("initial")), true, "AWS says initial"),
            (("registered", None), true, "not read yet"),
            (("deregistering", Some("healthy")), true, "deregistering"),
            (("deregistered", Some("draining")), false, "draining"),
            (("deregistered", Some("draining")), true, "draining"),
        ] {
            let (code, why) = answer(&none, &[("a", true, &healthy), ("b", lives, &[other])]);
            assert_eq!(code, 503, "{other:?}");
            assert!(why.starts_with("pod shop/b 10.0.0.1:80: ") && why.contains(said), "{why}");
        }
        let goes = json!({"reason": "NodeDisrupted", "message": "it is to be drained"});
        let (code, why) = answer(&goes, &[("a", true, &healthy)]);
        assert!(code == 503 && why.starts_with("the node will be removed: NodeDisrupted"), "{why}");
        let (code, why) = answer(&none, &[]);
        assert_eq!((code, &*why), (503, "none of its pods is a target\n"));
    }

    #[test]
    fn of_many_targets_that_do_not_serve_some_are_named() {
        let bad = [("registered", Some("unhealthy")); 30];
        let (code, why) = answer(&Value::Null, &[("a", true, &bad)]);
        assert_eq!(code, 503);
        assert!(why.lines().count() == MOST + 1 && why.ends_with("and 10 more\n"), "{why}");
    }
}
