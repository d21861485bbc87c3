//! Checks which settings can shorten the hold of a pod, and whether quotas have room for held pods.

use std::collections::{BTreeMap, BTreeSet};

use headgate_core::Reason;
use k8s_openapi::{
    api::core::v1::{Pod, ResourceQuota},
    apimachinery::pkg::api::resource::Quantity,
};

use crate::doctor::{
    facts::{Facts, Machine, Surroundings, Unseen},
    finding::Finding,
};

/// AWS sends an interruption notice this many seconds before it stops a spot instance.
const SPOT_NOTICE: u32 = 120;

pub fn examine(facts: &Facts) -> Vec<Finding> {
    let (Ok(shown), Ok(pods)) = (&facts.shown, &facts.pods) else { return Vec::new() };
    let mut holds: BTreeMap<(&str, &str), u32> = BTreeMap::new();
    for bound in &shown.bindings {
        for target in &bound.targets {
            let hold = holds.entry((&bound.namespace, &target.pod)).or_default();
            *hold = bound.hold.wanted.max(*hold);
        }
    }
    let held: Vec<Held<'_>> = pods.iter().filter_map(|pod| Held::of(pod, &holds)).collect();
    if held.is_empty() {
        return Vec::new();
    }
    let Surroundings { nodes, pools, autoscaler, quotas } = &facts.surroundings;
    let mut found = Vec::new();
    match nodes {
        Err(why) => found.push(Finding::unseen("nodes", why)),
        Ok(machines) => {
            found.extend(shut_down(&held, machines));
            found.extend(spot(&held, machines));
        }
    }
    match (pools, nodes) {
        (Err(why), _) => found.push(Finding::unseen("NodePools of Karpenter", why)),
        (Ok(pools), Ok(machines)) => {
            for (name, grace) in pools.iter().filter_map(|(name, pool)| Some((name, pool.grace?))) {
                let is_its = |held: &&Held<'_>| {
                    held.machine(machines).is_some_and(|it| it.pool.as_ref() == Some(name))
                };
                let Some(longest) = held.iter().filter(is_its).map(|held| held.grace).max() else { continue };
                if grace < longest {
                    let said = format!(
                        "its terminationGracePeriod of {grace} s kills pods that need {longest} s with their \
                         hold. Set more than {longest}s, or remove it"
                    );
                    found.push(Finding::warning(Reason::HoldTooShort, format!("NodePool {name}"), said));
                }
            }
        }
        (Ok(_), Err(_)) => {}
    }
    match autoscaler {
        Err(why) => found.push(Finding::unseen("cluster-autoscaler", why)),
        Ok(Some(autoscaler)) => {
            let longest = held.iter().map(|held| held.grace).max().unwrap_or_default();
            if autoscaler.grace < longest {
                let said = format!(
                    "its --max-graceful-termination-sec of {} kills pods that need {longest} s with their \
                     hold. Set {longest} or more",
                    autoscaler.grace
                );
                found.push(Finding::warning(Reason::HoldTooShort, "cluster-autoscaler", said));
            }
        }
        Ok(None) => {}
    }
    match quotas {
        Err(why) => found.push(Finding::unseen("ResourceQuotas", why)),
        Ok(quotas) => found.extend(quotas.iter().filter_map(|quota| tight(&held, quota))),
    }
    found
}

/// A pod that is a target and has a hold.
struct Held<'a> {
    pod: &'a Pod,
    hold: u32,
    /// The pod's `terminationGracePeriodSeconds`.
    grace: u32,
}

impl<'a> Held<'a> {
    fn of(pod: &'a Pod, holds: &BTreeMap<(&str, &str), u32>) -> Option<Self> {
        let (namespace, name) = (pod.metadata.namespace.as_deref()?, pod.metadata.name.as_deref()?);
        let hold = *holds.get(&(namespace, name)).filter(|hold| **hold > 0)?;
        let grace = pod.spec.as_ref()?.termination_grace_period_seconds.unwrap_or(30);
        Some(Self { pod, hold, grace: u32::try_from(grace).unwrap_or_default() })
    }

    fn node(&self) -> Option<&'a str> {
        self.pod.spec.as_ref()?.node_name.as_deref()
    }

    fn machine<'m>(&self, machines: &'m BTreeMap<String, Machine>) -> Option<&'m Machine> {
        machines.get(self.node()?)
    }
}

fn nodes(all: &BTreeSet<&str>) -> String {
    let first = all.first().copied().unwrap_or_default();
    if all.len() == 1 { format!("node {first}") } else { format!("{} nodes, such as {first}", all.len()) }
}

/// Returns one finding for all nodes whose kubelets have the same grace period for pods.
fn shut_down(pods: &[Held<'_>], machines: &BTreeMap<String, Machine>) -> Vec<Finding> {
    let mut short: BTreeMap<u32, (u32, BTreeSet<&str>)> = BTreeMap::new();
    let mut unseen = None;
    for (pod, node) in pods.iter().filter_map(|pod| Some((pod, pod.node()?))) {
        match machines.get(node).map(|machine| &machine.shutdown) {
            Some(Ok(seconds)) if *seconds < pod.hold => {
                let (longest, nodes) = short.entry(*seconds).or_default();
                *longest = pod.hold.max(*longest);
                nodes.insert(node);
            }
            Some(Err(why)) => unseen = Some(why),
            _ => {}
        }
    }
    let finding = |(seconds, (hold, all)): (u32, (u32, BTreeSet<&str>))| {
        let said = format!(
            "when the node shuts down, the kubelet gives pods {seconds} s (shutdownGracePeriod), and some \
             are held for {hold} s: drain nodes before they shut down, like Karpenter, cluster-autoscaler \
             and managed node groups do"
        );
        Finding::info(Reason::HoldTooShort, nodes(&all), said)
    };
    let unseen = unseen.map(|why| {
        let about = "the configuration of kubelets";
        match why {
            Unseen::Forbidden(_) => Finding::unseen(about, why),
            // Kubernetes itself reports a kubelet that does not answer.
            Unseen::Failed(why) => Finding::info(Reason::CheckFailed, about, format!("not checked: {why}")),
        }
    });
    short.into_iter().map(finding).chain(unseen).collect()
}

fn spot(pods: &[Held<'_>], machines: &BTreeMap<String, Machine>) -> Option<Finding> {
    let is_short =
        |held: &&Held<'_>| held.hold > SPOT_NOTICE && held.machine(machines).is_some_and(|it| it.is_spot);
    let short: Vec<&Held<'_>> = pods.iter().filter(is_short).collect();
    let hold = short.iter().map(|held| held.hold).max()?;
    let said = format!(
        "spot instances end {SPOT_NOTICE} s after AWS's notice, and pods are held for {hold} s. Taint nodes \
         at the notice, so that Headgate deregisters their pods immediately \
         (docs/concepts/evictions.md#early-signals)"
    );
    Some(Finding::info(
        Reason::HoldTooShort,
        nodes(&short.iter().filter_map(|held| held.node()).collect()),
        said,
    ))
}

/// Returns a finding if a quota has no room for the held pods of a rolling update, which may need twice the number of
/// pods.
fn tight(pods: &[Held<'_>], quota: &ResourceQuota) -> Option<Finding> {
    let (name, namespace) = (quota.metadata.name.as_deref()?, quota.metadata.namespace.as_deref()?);
    let status = quota.status.as_ref()?;
    let here: Vec<&Held<'_>> =
        pods.iter().filter(|held| held.pod.metadata.namespace.as_deref() == Some(namespace)).collect();
    let hold = here.iter().map(|held| held.hold).max()?;
    let of = |all: &Option<BTreeMap<String, Quantity>>, key: &str| amount(all.as_ref()?.get(key)?);
    let is_short = |key: &&String| {
        let needed: f64 = here.iter().map(|held| takes(held.pod, key)).sum();
        let (Some(hard), Some(used)) = (of(&status.hard, key), of(&status.used, key)) else { return false };
        needed > 0.0 && hard - used < needed
    };
    let short: Vec<&str> =
        status.hard.iter().flatten().map(|(key, _)| key).filter(is_short).map(String::as_str).collect();
    (!short.is_empty()).then(|| {
        let said = format!(
            "terminating pods count until they have stopped, {hold} s or more after their deletion: in {} \
             there is no room for a second set of this namespace's targets, so a rolling update may wait for \
             holds. Raise the quota, or lower maxSurge",
            short.join(", ")
        );
        Finding::info(Reason::RiskyWorkload, format!("ResourceQuota {namespace}/{name}"), said)
    })
}

/// Returns how much of a quota's resource a pod uses.
fn takes(pod: &Pod, resource: &str) -> f64 {
    if matches!(resource, "pods" | "count/pods") {
        return 1.0;
    }
    let (kind, name) = resource.split_once('.').unwrap_or(("requests", resource));
    if !matches!(name, "cpu" | "memory") {
        return 0.0;
    }
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let of = containers.filter_map(|container| {
        let resources = container.resources.as_ref()?;
        let all = if kind == "limits" { &resources.limits } else { &resources.requests };
        amount(all.as_ref()?.get(name)?)
    });
    of.sum()
}

/// Converts a Kubernetes quantity to a number.
/// <https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/>
fn amount(quantity: &Quantity) -> Option<f64> {
    let text = quantity.0.trim();
    let at = text.find(|character: char| character.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, suffix) = text.split_at(at);
    let factor = match suffix {
        "m" => 1e-3,
        "" => 1.0,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        "Ki" => 1024.0,
        "Mi" => 1024.0 * 1024.0,
        "Gi" => 1024.0 * 1024.0 * 1024.0,
        "Ti" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        // The number has no suffix, or has an exponent.
        _ => return text.parse().ok(),
    };
    Some(number.parse::<f64>().ok()? * factor)
}
