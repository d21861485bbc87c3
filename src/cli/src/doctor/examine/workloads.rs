//! Checks whether a rollout or a drain of the target pods' workloads can drop requests.
//!
//! The gate and the hold work for each pod separately. Deployments, StatefulSets, DaemonSets and PodDisruptionBudgets
//! determine which pods stop and how many stop simultaneously. The workloads also determine whether replacements start
//! first.

use std::collections::{BTreeMap, BTreeSet};

use headgate_core::Reason;
use k8s_openapi::{
    api::{
        apps::v1::{DaemonSet, Deployment, StatefulSet},
        core::v1::{Pod, PodTemplateSpec},
        policy::v1::PodDisruptionBudget,
    },
    apimachinery::pkg::{
        apis::meta::v1::{LabelSelector, ObjectMeta},
        util::intstr::IntOrString,
    },
};
use kube::core::{DynamicObject, Selector, SelectorExt};

use crate::doctor::{
    facts::{Bound, Facts, Workloads},
    finding::Finding,
};

/// The default of `scaleDownDelaySeconds` in Argo Rollouts, in seconds.
const ARGOS_DELAY: u64 = 30;
/// The default of `maxSurge` and `maxUnavailable` in a Deployment.
const QUARTER: &str = "25%";

pub fn examine(facts: &Facts) -> Vec<Finding> {
    let (Ok(shown), Ok(pods)) = (&facts.shown, &facts.pods) else { return Vec::new() };
    let workloads = match &facts.workloads {
        Ok(workloads) => workloads,
        Err(why) => return vec![Finding::unchecked("workloads", why)],
    };
    let mut holds: BTreeMap<(&str, &str), u32> = BTreeMap::new();
    for bound in &shown.bindings {
        for target in &bound.targets {
            let hold = holds.entry((&bound.namespace, &target.pod)).or_default();
            *hold = bound.hold.wanted.max(*hold);
        }
    }
    let targets = pods.iter().filter_map(|pod| {
        let (namespace, name) = (pod.metadata.namespace.as_deref()?, pod.metadata.name.as_deref()?);
        Some((pod, *holds.get(&(namespace, name))?))
    });
    let mut found = Targets(targets.collect()).examine(workloads);
    found.extend(workloads.rollouts.iter().filter_map(|rollout| blue_green(rollout, &shown.bindings)));
    found
}

/// Warns if Argo may terminate replaced pods too early. Replaced pods must run until the new pods are healthy and all
/// replaced pods are deregistered. A health check and a deregistration can each take the length of the hold.
fn blue_green(rollout: &DynamicObject, bindings: &[Bound]) -> Option<Finding> {
    let name = |name: &Option<String>| name.clone().unwrap_or_default();
    let (namespace, own) = (name(&rollout.metadata.namespace), name(&rollout.metadata.name));
    let how = rollout.data.pointer("/spec/strategy/blueGreen")?;
    let service = how["activeService"].as_str()?;
    let is_its =
        |bound: &&Bound| bound.namespace == namespace && bound.kind == "Service" && bound.name == service;
    let hold = bindings.iter().filter(is_its).map(|bound| bound.hold.wanted).max()?;
    let delay = how["scaleDownDelaySeconds"].as_u64().unwrap_or(ARGOS_DELAY);
    let expected = 2 * u64::from(hold);
    (delay < expected).then(|| {
        let said = format!(
            "after a blue/green swap Argo terminates the old pods {delay} s after it has switched Service \
             {service}, and the new pods may need longer to become healthy in the load balancer: until then \
             the target group has no healthy target. Set spec.strategy.blueGreen.scaleDownDelaySeconds: \
             {expected} or more"
        );
        Finding::warning(Reason::RiskyWorkload, format!("Rollout {namespace}/{own}"), said)
    })
}

/// The pods that are targets, each with its hold in seconds.
struct Targets<'a>(Vec<(&'a Pod, u32)>);

/// The number of a workload's pods that are targets, and their longest hold.
struct Its {
    count: u32,
    hold: u32,
}

struct Owner<'a> {
    kind: &'static str,
    metadata: &'a ObjectMeta,
    its: Its,
}

impl Owner<'_> {
    fn finds(&self, reason: Reason, message: impl Into<String>) -> Finding {
        let name = |name: &Option<String>| name.clone().unwrap_or_default();
        let (namespace, name) = (name(&self.metadata.namespace), name(&self.metadata.name));
        Finding::warning(reason, format!("{} {namespace}/{name}", self.kind), message)
    }
}

impl Targets<'_> {
    fn examine(&self, workloads: &Workloads) -> Vec<Finding> {
        let mut found = Vec::new();
        for all in &workloads.deployments {
            let selector = all.spec.as_ref().map(|spec| &spec.selector);
            let owner = self.owner("Deployment", &all.metadata, selector);
            found.extend(owner.into_iter().flat_map(|owner| deployment(all, &owner)));
        }
        for all in &workloads.stateful_sets {
            let selector = all.spec.as_ref().map(|spec| &spec.selector);
            let owner = self.owner("StatefulSet", &all.metadata, selector);
            found.extend(owner.map(|owner| stateful_set(all, &owner)));
        }
        for all in &workloads.daemon_sets {
            let selector = all.spec.as_ref().map(|spec| &spec.selector);
            let owner = self.owner("DaemonSet", &all.metadata, selector);
            found.extend(owner.into_iter().flat_map(|owner| daemon_set(all, &owner)));
        }
        for all in &workloads.budgets {
            let selector = all.spec.as_ref().and_then(|spec| spec.selector.as_ref());
            let owner = self.owner("PodDisruptionBudget", &all.metadata, selector);
            found.extend(owner.and_then(|owner| budget(all, &owner)));
        }
        found
    }

    /// Returns the workload if some of its pods are targets.
    fn owner<'o>(
        &self,
        kind: &'static str,
        metadata: &'o ObjectMeta,
        selector: Option<&LabelSelector>,
    ) -> Option<Owner<'o>> {
        let selector: Selector = selector?.clone().try_into().ok()?;
        let is_its = |pod: &Pod| {
            let labels = pod.metadata.labels.clone().unwrap_or_default();
            pod.metadata.namespace == metadata.namespace && selector.matches(&labels)
        };
        let holds: Vec<u32> = self.0.iter().filter(|(pod, _)| is_its(pod)).map(|(_, hold)| *hold).collect();
        let its = Its { count: u32::try_from(holds.len()).unwrap_or(u32::MAX), hold: *holds.iter().max()? };
        Some(Owner { kind, metadata, its })
    }
}

/// Resolves a number or a percentage of `of`. With `up`, a percentage rounds up, as `maxSurge` does in Kubernetes.
fn resolved(value: &IntOrString, of: u32, up: bool) -> u32 {
    match value {
        IntOrString::Int(count) => u32::try_from(*count).unwrap_or_default(),
        IntOrString::String(text) => {
            let percent: u64 = text.trim_end_matches('%').parse().unwrap_or_default();
            let share = percent * u64::from(of);
            let share = if up { share.div_ceil(100) } else { share / 100 };
            u32::try_from(share).unwrap_or(u32::MAX)
        }
    }
}

/// Returns the host ports that the pods of a template use.
fn host_ports(template: Option<&PodTemplateSpec>) -> BTreeSet<i32> {
    let spec = template.and_then(|template| template.spec.as_ref());
    let on_the_host = spec.is_some_and(|spec| spec.host_network.unwrap_or_default());
    let ports = spec
        .into_iter()
        .flat_map(|spec| &spec.containers)
        .flat_map(|container| container.ports.iter().flatten());
    let taken =
        ports.filter_map(|port| port.host_port.or_else(|| on_the_host.then_some(port.container_port)));
    taken.filter(|port| *port > 0).collect()
}

fn listed(ports: &BTreeSet<i32>) -> String {
    ports.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn deployment(it: &Deployment, owner: &Owner<'_>) -> Vec<Finding> {
    let Some(spec) = &it.spec else { return Vec::new() };
    let replicas = u32::try_from(spec.replicas.unwrap_or(1)).unwrap_or_default();
    let strategy = spec.strategy.as_ref();
    if strategy.and_then(|strategy| strategy.type_.as_deref()) == Some("Recreate") {
        let said = "a rollout stops all pods before the first new one starts, so the target group is empty \
                    for a while. Use the strategy RollingUpdate with maxUnavailable: 0";
        return vec![owner.finds(Reason::RiskyWorkload, said)];
    }
    let rolling = strategy.and_then(|strategy| strategy.rolling_update.as_ref());
    let quarter = IntOrString::String(QUARTER.into());
    let unavailable = rolling.and_then(|rolling| rolling.max_unavailable.as_ref()).unwrap_or(&quarter);
    let surge = rolling.and_then(|rolling| rolling.max_surge.as_ref()).unwrap_or(&quarter);
    let surges = resolved(surge, replicas, true);
    // If both values are zero, Kubernetes sets `maxUnavailable` to 1.
    let taken = resolved(unavailable, replicas, false).max(u32::from(surges == 0));
    let mut found = Vec::new();
    if taken > 0 && replicas > 0 {
        found.push(owner.finds(
            Reason::RiskyWorkload,
            format!(
                "a rollout stops {taken} of {replicas} pods before any new one serves, and with a version \
                 that never becomes healthy they remain missing. Set maxUnavailable: 0 and a maxSurge of 1 \
                 or more"
            ),
        ));
    }
    let ports = host_ports(Some(&spec.template));
    if !ports.is_empty() && surges > 0 {
        found.push(owner.finds(
            Reason::RiskyWorkload,
            format!(
                "its pods take port {} of their node: a new pod needs a node without one, and if there is \
                 none, a rollout hangs or stops an old pod first. Remove hostPort and hostNetwork: the load \
                 balancer sends to pod IPs",
                listed(&ports)
            ),
        ));
    }
    found
}

fn stateful_set(it: &StatefulSet, owner: &Owner<'_>) -> Finding {
    let Its { count, hold } = owner.its;
    let by_hand =
        it.spec.as_ref().and_then(|spec| spec.update_strategy.as_ref()?.type_.as_deref()) == Some("OnDelete");
    let how = if by_hand { "deleting a pod stops it" } else { "a rollout stops a pod" };
    owner.finds(
        Reason::RiskyWorkload,
        format!(
            "{how} before its successor starts, which has the same name: for the hold of {hold} s and until \
             the next one is healthy, one target is missing, and with a version that never becomes healthy \
             it remains missing; all {count} take {} at least. Use a Deployment with maxUnavailable: 0, \
             unless the pods need their names",
            lasts(u64::from(count) * u64::from(hold))
        ),
    )
}

fn daemon_set(it: &DaemonSet, owner: &Owner<'_>) -> Vec<Finding> {
    let Some(spec) = &it.spec else { return Vec::new() };
    let strategy = spec.update_strategy.as_ref();
    let Its { count, hold } = owner.its;
    let ports = host_ports(Some(&spec.template));
    let mut found = Vec::new();
    if strategy.and_then(|strategy| strategy.type_.as_deref()) == Some("OnDelete") {
        let said = format!(
            "deleting a pod leaves its node without one for the hold of {hold} s and until the next one is \
             healthy. Use the strategy RollingUpdate with maxSurge: 1 and maxUnavailable: 0"
        );
        return vec![owner.finds(Reason::RiskyWorkload, said)];
    }
    let rolling = strategy.and_then(|strategy| strategy.rolling_update.as_ref());
    let surge = rolling.and_then(|rolling| rolling.max_surge.as_ref());
    let surges = surge.map_or(0, |surge| resolved(surge, count, true));
    if surges == 0 {
        let one = IntOrString::Int(1);
        let unavailable = rolling.and_then(|rolling| rolling.max_unavailable.as_ref()).unwrap_or(&one);
        let at_once = resolved(unavailable, count, true).max(1);
        let rounds = u64::from(count.div_ceil(at_once));
        found.push(owner.finds(
            Reason::RiskyWorkload,
            format!(
                "a rollout stops the pod of a node before the next one starts there: {at_once} of {count} \
                 targets are missing for the hold of {hold} s and until the next ones are healthy, and with \
                 a version that never becomes healthy they remain missing; it takes {} at least. Set \
                 maxSurge: 1 and maxUnavailable: 0",
                lasts(rounds * u64::from(hold))
            ),
        ));
    }
    if !ports.is_empty() {
        found.push(owner.finds(
            Reason::RiskyWorkload,
            format!(
                "its pods take port {} of their node, so a node cannot run two of them, which maxSurge \
                 requires. Remove hostPort and hostNetwork: the load balancer sends to pod IPs",
                listed(&ports)
            ),
        ));
    }
    found
}

fn budget(it: &PodDisruptionBudget, owner: &Owner<'_>) -> Option<Finding> {
    let status = it.status.as_ref()?;
    let conditions = status.conditions.iter().flatten();
    let mut failed = conditions.filter(|one| {
        one.type_ == "DisruptionAllowed" && one.status == "False" && one.reason == "SyncFailed"
    });
    if failed.next().is_some() {
        let said = "Kubernetes cannot compute it (SyncFailed, for example maxUnavailable over pods of a \
                    DaemonSet), and rejects every eviction, so drains never finish. Set minAvailable to a \
                    number, or remove the budget of these pods";
        return Some(owner.finds(Reason::RiskyWorkload, said));
    }
    let (wants, there) = (status.desired_healthy, status.expected_pods);
    (there > 0 && wants >= there).then(|| {
        owner.finds(
            Reason::RiskyWorkload,
            format!(
                "it requires {wants} of {there} pods to be healthy, so it allows no eviction and drains never \
                 finish. Set maxUnavailable: 1, or a minAvailable below {there}"
            ),
        )
    })
}

/// Formats a duration in seconds or minutes.
fn lasts(seconds: u64) -> String {
    if seconds < 120 { format!("{seconds} s") } else { format!("{} min", seconds.div_ceil(60)) }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(name: &str) -> Pod {
        let metadata = json!({"namespace": "shop", "name": name, "labels": {"app": "web"}});
        serde_json::from_value(json!({"metadata": metadata})).unwrap()
    }

    /// Returns the findings about one workload with `count` pods, each with a hold of 150 s.
    fn found(count: usize, add: impl FnOnce(&mut Workloads)) -> Vec<(String, String)> {
        let pods: Vec<Pod> = (0..count).map(|at| pod(&format!("web-{at}"))).collect();
        let mut workloads = Workloads::default();
        add(&mut workloads);
        let targets = Targets(pods.iter().map(|pod| (pod, 150)).collect());
        targets.examine(&workloads).into_iter().map(|found| (found.reason, found.message)).collect()
    }

    fn of<T: serde::de::DeserializeOwned>(mut spec: Value) -> T {
        spec["selector"] = json!({"matchLabels": {"app": "web"}});
        if spec["template"].is_null() {
            spec["template"] = json!({"metadata": {"labels": {"app": "web"}}});
        }
        serde_json::from_value(json!({"metadata": {"namespace": "shop", "name": "web"}, "spec": spec}))
            .unwrap()
    }

    fn on_port(port: i32) -> Value {
        let container = json!({"name": "web", "ports": [{"containerPort": 80, "hostPort": port}]});
        json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}})
    }

    fn only(found: &[(String, String)], reason: Reason, said: &str) {
        let [(word, message)] = found else { panic!("{found:?}") };
        assert_eq!(word, reason.as_str());
        assert!(message.contains(said), "{message}");
    }

    #[test]
    fn a_deployment_keeps_its_healthy_pods_with_max_unavailable_zero_only() {
        let of_deployment = |replicas: u32, strategy: Value| {
            found(4, |all| all.deployments.push(of(json!({"replicas": replicas, "strategy": strategy}))))
        };
        let rolling = |unavailable: Value, surge: Value| json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": unavailable, "maxSurge": surge}});
        let reason = Reason::RiskyWorkload;
        only(&of_deployment(4, json!(null)), reason, "stops 1 of 4 pods");
        assert_eq!(of_deployment(3, json!(null)), [], "a quarter of three is none");
        only(&of_deployment(4, rolling(json!(2), json!(1))), reason, "stops 2 of 4 pods");
        only(&of_deployment(4, rolling(json!("0%"), json!("0%"))), reason, "stops 1 of 4 pods");
        assert_eq!(of_deployment(4, rolling(json!(0), json!("25%"))), []);
        assert_eq!(of_deployment(0, rolling(json!(1), json!(0))), []);
        only(&of_deployment(4, json!({"type": "Recreate"})), Reason::RiskyWorkload, "target group");
        let spec = json!({"strategy": rolling(json!(0), json!(1)), "template": on_port(8080)});
        only(&found(1, |all| all.deployments.push(of(spec))), Reason::RiskyWorkload, "take port 8080");
        assert_eq!(found(0, |all| all.deployments.push(of(json!({"replicas": 4})))), [], "it has no target");
    }

    #[test]
    fn a_daemon_set_needs_surge_and_no_port_of_its_node() {
        let rolling = |how: Value| json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": how}});
        let of_daemon_set = |spec: Value| found(12, |all| all.daemon_sets.push(of(spec)));
        only(&of_daemon_set(json!({})), Reason::RiskyWorkload, "1 of 12 targets are missing");
        only(&of_daemon_set(json!({})), Reason::RiskyWorkload, "it takes 30 min at least");
        only(&of_daemon_set(rolling(json!({"maxUnavailable": "25%"}))), Reason::RiskyWorkload, "3 of 12");
        only(
            &of_daemon_set(rolling(json!({"maxUnavailable": "25%"}))),
            Reason::RiskyWorkload,
            "10 min at least",
        );
        assert_eq!(of_daemon_set(rolling(json!({"maxSurge": 1, "maxUnavailable": 0}))), []);
        only(
            &of_daemon_set(json!({"updateStrategy": {"type": "OnDelete"}})),
            Reason::RiskyWorkload,
            "deleting",
        );
        let mut spec = rolling(json!({"maxSurge": "10%", "maxUnavailable": 0}));
        spec["template"] = on_port(443);
        only(&of_daemon_set(spec.clone()), Reason::RiskyWorkload, "take port 443");
        spec["template"] = json!({"metadata": {"labels": {"app": "web"}}, "spec": {
            "hostNetwork": true, "containers": [{"name": "web", "ports": [{"containerPort": 80}]}],
        }});
        only(&of_daemon_set(spec), Reason::RiskyWorkload, "take port 80");
    }

    #[test]
    fn a_stateful_set_replaces_its_pods_one_after_the_other_in_place() {
        let of_stateful_set = |spec: Value| found(3, |all| all.stateful_sets.push(of(spec)));
        only(&of_stateful_set(json!({})), Reason::RiskyWorkload, "all 3 take 8 min at least");
        let by_hand = json!({"updateStrategy": {"type": "OnDelete"}});
        only(&of_stateful_set(by_hand), Reason::RiskyWorkload, "deleting a pod");
    }

    #[test]
    fn argo_keeps_what_was_replaced_for_twice_the_hold_or_that_is_said() {
        let bound = |kind: &str, name: &str| {
            serde_json::from_value::<Bound>(json!({
                "namespace": "shop", "kind": kind, "name": name, "port": "http", "targetGroup": "x", "targets": [],
                "hold": {"wanted": 150, "bound": 120}, "troubles": [],
            }))
            .unwrap()
        };
        let rollout = |strategy: Value| {
            serde_json::from_value::<DynamicObject>(json!({
                "apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout",
                "metadata": {"namespace": "shop", "name": "web"}, "spec": {"strategy": strategy},
            }))
            .unwrap()
        };
        let swaps = |delay: Value| {
            rollout(json!({"blueGreen": {"activeService": "web", "scaleDownDelaySeconds": delay}}))
        };
        let found = blue_green(&swaps(json!(null)), &[bound("Service", "web")]).unwrap();
        assert_eq!((&*found.reason, &*found.about), (Reason::RiskyWorkload.as_str(), "Rollout shop/web"));
        assert!(
            found.message.contains("30 s after")
                && found.message.ends_with("scaleDownDelaySeconds: 300 or more")
        );
        assert!(blue_green(&swaps(json!(299)), &[bound("Service", "web")]).is_some());
        for (rollout, bound) in [
            (swaps(json!(300)), bound("Service", "web")),
            (swaps(json!(30)), bound("Service", "other")),
            (swaps(json!(30)), bound("TargetBinding", "web")),
            (rollout(json!({"canary": {}})), bound("Service", "web")),
        ] {
            assert!(blue_green(&rollout, &[bound]).is_none(), "{:?}", rollout.data);
        }
    }

    #[test]
    fn a_budget_that_allows_no_eviction_is_found() {
        let of_budget = |status: Value| {
            found(3, |all| {
                let mut budget: PodDisruptionBudget = of(json!({}));
                budget.status = serde_json::from_value(status).unwrap();
                all.budgets.push(budget);
            })
        };
        let status = |desired: i32, expected: i32| json!({"currentHealthy": 3, "desiredHealthy": desired, "disruptionsAllowed": 0, "expectedPods": expected});
        only(&of_budget(status(3, 3)), Reason::RiskyWorkload, "requires 3 of 3 pods to be healthy");
        assert_eq!(of_budget(status(2, 3)), [], "it allows none just now");
        assert_eq!(of_budget(status(1, 0)), []);
        let mut uncomputed = status(0, 0);
        uncomputed["conditions"] = json!([{
            "type": "DisruptionAllowed", "status": "False", "reason": "SyncFailed", "message": "",
            "lastTransitionTime": "2027-01-15T08:00:00Z",
        }]);
        only(&of_budget(uncomputed), Reason::RiskyWorkload, "SyncFailed");
    }
}
