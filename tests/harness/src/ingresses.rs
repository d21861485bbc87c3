//! The ingresses of `docs/guides/proxies` as shown on their page, on real nodes.

use headgate_core::model::lifespan::hold_of_command;
use k8s_openapi::api::core::v1::{Container, Pod};
use localstack_world::ingresses::Ingress;
use serde_json::Value;

use crate::root;

/// Timeouts in the manifests, with their values in seconds. They follow the time scale of the load balancer.
const TIMES: [(&str, f64); 5] = [
    ("-wait-for-healthcheck-interval=5s", 5.0),
    ("requestAcceptGraceTimeout=5s", 5.0),
    ("graceTimeOut=10s", 10.0),
    ("worker_shutdown_timeout 20s", 20.0),
    ("hard-stop-after 20s", 20.0),
];

/// The documents of an ingress's manifest: `deployment`, `daemonset` or `ingressdaemonset`.
#[must_use]
pub fn manifest(ingress: Ingress, kind: &str, time_scale: f64) -> Vec<Value> {
    let path = root().join(format!("docs/guides/proxies/{}-{kind}.yaml", ingress.name()));
    let mut text =
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    for (time, seconds) in TIMES {
        let (named, _) = time.rsplit_once(['=', ' ']).expect("a name and a time");
        let separator = &time[named.len()..=named.len()];
        // In milliseconds, which all ingresses accept, and never zero.
        let scaled = format!("{named}{separator}{:.0}ms", (seconds * time_scale * 1000.0).max(1.0));
        text = text.replace(time, &scaled);
    }
    text.split("\n---\n").map(|document| serde_saphyr::from_str(document).unwrap()).collect()
}

/// The hold of a pod's first container, in seconds.
#[must_use]
pub fn hold(pod: &Pod) -> Option<u64> {
    let hook = |container: &Container| container.lifecycle.clone()?.pre_stop;
    let hook = hook(pod.spec.as_ref()?.containers.first()?)?;
    if let Some(sleep) = hook.sleep {
        return u64::try_from(sleep.seconds).ok();
    }
    let command = hook.exec?.command?;
    hold_of_command(&command.iter().map(String::as_str).collect::<Vec<_>>()).map(u64::from)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_ingress_has_all_manifests_with_what_the_page_promises() {
        let mut times: Vec<(&str, f64)> = Vec::new();
        for ingress in Ingress::ALL {
            for kind in ["deployment", "daemonset", "ingressdaemonset"] {
                let documents = manifest(ingress, kind, 0.1);
                let of = |kind: &str| {
                    let found = documents
                        .iter()
                        .find(|one| one["kind"].as_str().is_some_and(|is| is.eq_ignore_ascii_case(kind)));
                    found.unwrap_or_else(|| panic!("{} has no {kind}", ingress.name()))
                };
                let template = &of(kind)["spec"]["template"];
                assert_eq!(template["metadata"]["labels"]["headgate.dev/inject"], "true");
                assert_eq!(
                    of("service")["metadata"]["annotations"]["headgate.dev/target-groups"],
                    "http=web"
                );
                let unavailable = match kind {
                    "deployment" => "/spec/strategy/rollingUpdate/maxUnavailable",
                    "daemonset" => "/spec/updateStrategy/rollingUpdate/maxUnavailable",
                    _ => "/spec/updateStrategy/maxUnavailablePerNode",
                };
                assert_eq!(of(kind).pointer(unavailable), Some(&json!(0)), "{kind}");
                let text = format!("{documents:?}");
                assert!(TIMES.iter().all(|(time, _)| !text.contains(time)), "{text}");
                let whole = format!("{:?}", manifest(ingress, kind, 1.0));
                times.extend(TIMES.into_iter().filter(|(time, seconds)| {
                    let (named, _) = time.rsplit_once(['=', ' ']).unwrap();
                    whole.contains(named) && whole.contains(&format!("{:.0}ms", seconds * 1000.0))
                }));
            }
        }
        for time in TIMES {
            assert_eq!(
                times.iter().filter(|found| found.0 == time.0).count(),
                3,
                "{time:?} is in all manifests"
            );
        }
    }

    #[test]
    fn a_hold_is_a_sleep_or_what_was_put_before_a_command() {
        let pod = |hook: Value| {
            let container = json!({"name": "web", "lifecycle": {"preStop": hook}});
            serde_json::from_value::<Pod>(json!({"spec": {"containers": [container]}})).unwrap()
        };
        assert_eq!(hold(&pod(json!({"sleep": {"seconds": 14}}))), Some(14));
        let wrapped = ["sh", "-c", "sleep 14; exec \"$@\"", "headgate-hold", "nginx"];
        assert_eq!(hold(&pod(json!({"exec": {"command": wrapped}}))), Some(14));
        assert_eq!(hold(&pod(json!({"exec": {"command": ["nginx"]}}))), None);
        assert_eq!(hold(&pod(json!(null))), None);
    }
}
