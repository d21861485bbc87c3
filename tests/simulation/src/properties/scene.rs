//! What is true in a world, and what is asked for in it.

use std::net::IpAddr;

use headgate_core::{
    Settings,
    model::{
        BindingFacts, Labels, Moment, ObjectKey, Origin, PodFacts, ServiceFacts, Target, TargetGroupArn,
        TargetPort, Texts, WallTime,
        policy::{GATE_WHEN_UNUSED, OWNERSHIP, PAUSED, REGISTER_WHEN, WHEN_NOT_READY},
        service::PortRef,
        signal::{DISRUPTED, DYING},
        target_binding::Pods,
    },
};

use crate::{
    aws::Aws,
    cluster::{Cluster, Part, Watches, lives, parts},
    store::Store,
    words::{APPLICATION, MANY_HEALTHY, NAMESPACE, Sender},
};

/// What annotations say that cannot be read.
const POLICIES: [&str; 5] = [REGISTER_WHEN, WHEN_NOT_READY, OWNERSHIP, GATE_WHEN_UNUSED, PAUSED];
/// A value of register-when that is none: what was written before stays in force.
pub const UNREADABLE_MOMENT: &str = "later";
const UNREADABLE: [&str; 5] = [UNREADABLE_MOMENT, "drop", "mine", "maybe", "yes"];

/// What is true in a world, and whether the replica that acts was told all of it.
pub struct Scene<'a> {
    pub now: Moment,
    pub cluster: &'a Cluster,
    pub aws: &'a Aws,
    pub store: &'a Store,
    pub settings: &'a Settings,
    /// Who acts.
    pub sender: Sender,
    pub told: &'a Watches,
    /// When its process has started.
    pub born: Moment,
    /// Since when it leads, has the ledgers, and was given a list of everything.
    pub leads: Option<Moment>,
    /// Whether its clock and those of the others are wrong by minutes.
    pub clocks_are_wrong: bool,
    /// The target groups that AWS has named to it.
    pub found: [Option<TargetGroupArn>; 3],
}

/// A binding that somebody has written, if all of it can be followed.
#[derive(Clone)]
pub struct Written<'a> {
    pub origin: Origin,
    pub group: &'a str,
    pub selector: &'a Labels,
    pub port: u16,
    pub policy: &'a Texts,
    /// Its Service was deleted a moment ago, and may be made again.
    pub is_deleted: bool,
}

impl Written<'_> {
    /// Whether it says this, or what cannot be read: then what was said before counts.
    pub fn may_say(&self, annotation: &str, value: &str) -> bool {
        self.policy.get(annotation).is_some_and(|said| said == value || UNREADABLE.contains(&said))
    }

    pub fn says(&self, annotation: &str, value: &str) -> bool {
        self.policy.get(annotation) == Some(value)
    }

    /// Whether it asks for this pod as this target.
    pub fn asks_for(&self, pod: &PodFacts, target: &Target) -> bool {
        self.port == target.port && pod.ips.contains(&target.ip) && self.selector.selects(&pod.labels)
    }

    /// Whether a pod is as ready as it has to be to be registered.
    pub fn is_content_with(&self, pod: &PodFacts) -> bool {
        let waits = self.group == MANY_HEALTHY;
        match self.policy.get(REGISTER_WHEN) {
            None | Some("ip") if !waits => true,
            Some("auto") if !waits && self.group != APPLICATION => true,
            Some("ready") => pod.readiness.is_ready(),
            Some(UNREADABLE_MOMENT) => true,
            _ => pod.readiness.containers,
        }
    }

    /// Whether a pod that is not ready for long is to be taken out.
    pub fn may_deregister(&self) -> bool {
        self.may_say(WHEN_NOT_READY, "deregister")
    }
}

/// A target that is asked for.
pub struct Wanted<'a> {
    pub target: Target,
    pub pod: &'a PodFacts,
    pub by: Written<'a>,
}

impl<'a> Scene<'a> {
    /// Whether the replica that acts was told all that is true.
    pub fn knows_all(&self) -> bool {
        self.told.are_right()
    }

    /// The same of a pod, of all that show this address, and of what is written.
    pub fn knows(&self, name: &ObjectKey, ip: Option<&IpAddr>) -> bool {
        self.told.are_right_about(name, ip)
    }

    pub fn knows_pod(&self, pod: &PodFacts) -> bool {
        self.knows(&pod.key, pod.ips.first())
    }

    /// The bindings of all Services and TargetBindings.
    pub(super) fn written(&self) -> Vec<Written<'a>> {
        let number = |port: &TargetPort| if let TargetPort::Number(port) = port { Some(*port) } else { None };
        let mut all = Vec::new();
        let now = self.cluster.services.values().map(|service| (service, false));
        let grace = self.settings.service_grace;
        let deleted = self.cluster.deleted_services(self.now, grace).map(|service| (service, true));
        for (service, is_deleted) in now.chain(deleted) {
            let parts = service.target_groups.as_deref().map(parts).unwrap_or_default();
            let Some(port) = number(&service.ports[0].target_port) else { continue };
            for part in parts {
                let Part::Group(group) = part else { continue };
                all.push(Written {
                    origin: Origin::Service(service.key.clone()),
                    group,
                    selector: &service.selector,
                    port,
                    policy: &service.policy,
                    is_deleted,
                });
            }
        }
        for binding in self.cluster.bindings.values().filter(|binding| !binding.ending) {
            let (selector, port) = match &binding.pods {
                Pods::Selected(selector, port, _) => (selector, number(port)),
                Pods::Unreadable(_) | Pods::OfService(_, PortRef::Name(_)) => continue,
                Pods::OfService(name, _) => {
                    let Some(service) = self.cluster.services.get(&ObjectKey::new(NAMESPACE, &**name)) else {
                        continue;
                    };
                    (&service.selector, number(&service.ports[0].target_port))
                }
            };
            let Some(port) = port else { continue };
            all.push(Written {
                origin: Origin::TargetBinding(binding.key.clone()),
                group: &binding.group,
                selector,
                port,
                policy: &binding.policy,
                is_deleted: false,
            });
        }
        all
    }

    /// What all objects say besides, also those whose target groups cannot be read.
    pub(super) fn policies(&self) -> impl Iterator<Item = &'a Texts> {
        let of_services = self.cluster.services.values().map(|service| &service.policy);
        of_services.chain(self.cluster.bindings.values().map(|binding| &binding.policy))
    }

    /// What was asked for by annotations that cannot be followed any more: it stays.
    pub(super) fn kept(&self, group: &TargetGroupArn, pod: &PodFacts, target: &Target) -> bool {
        let is_found = self.found.contains(&Some(group.clone()));
        let mut all = self.cluster.followed().filter(|_| is_found);
        all.any(|(before, now)| {
            let names = |part: &Part| matches!(part, Part::Group(name) if *name == group.name());
            let groups = before.target_groups.as_deref().map(parts).unwrap_or_default();
            before.ports[0].target_port == TargetPort::Number(target.port)
                && groups.iter().any(names)
                && [&before.selector, &now.selector].iter().all(|selector| selector.selects(&pod.labels))
                && now.policy.get(WHEN_NOT_READY).is_none_or(|said| said == "keep")
        })
    }

    /// What is asked for in a target group, by pods that live.
    pub fn asked(&self, group: &TargetGroupArn) -> Vec<Wanted<'a>> {
        let is_found = self.aws.arn(group.name()) == Some(group) && self.found.contains(&Some(group.clone()));
        let its = |by: &Written<'_>| is_found && *by.group == *group.name() && !by.selector.is_empty();
        let all = self.written().into_iter().filter(its).flat_map(|by| {
            let pods = self.cluster.pods.values();
            let selected = pods.filter(|pod| lives(pod) && by.selector.selects(&pod.labels));
            let wanted =
                |pod: &'a PodFacts| Wanted { target: Target::new(pod.ips[0], by.port), pod, by: by.clone() };
            selected.map(wanted).collect::<Vec<_>>()
        });
        all.collect()
    }

    /// The same, by those that have their address alone, and do not leave.
    pub fn wanted(&self, group: &TargetGroupArn) -> Vec<Wanted<'a>> {
        let mut all = self.asked(group);
        all.retain(|wanted| self.has_its_address(wanted.pod) && !self.leaves(wanted.pod));
        all
    }

    /// Whether a pod is alone at its address, as far as anybody shows.
    pub fn has_its_address(&self, pod: &PodFacts) -> bool {
        let shows = |other: &&PodFacts| other.uid != pod.uid && !other.finished && other.has_sandbox;
        let others = self.cluster.pods.values().filter(shows);
        !others.into_iter().any(|other| other.ips == pod.ips)
            && self.cluster.has_kept(&pod.ips[0], &pod.uid, self.now)
    }

    /// Whether a pod is to leave, or its node is about to go.
    pub fn leaves(&self, pod: &PodFacts) -> bool {
        pod.leaving.is_some() || pod.left_over.is_some() || self.node_goes(pod)
    }

    /// Whether all that is written can be followed, and so what is asked for does not depend on what was written before.
    pub fn is_clear(&self) -> bool {
        let is_whole = |text: &str| parts(text).iter().all(|part| matches!(part, Part::Group(_)));
        let can_be_read = |policy: &Texts| {
            !UNREADABLE.iter().any(|bad| POLICIES.iter().any(|name| policy.get(name) == Some(*bad)))
        };
        let of_service = |service: &ServiceFacts| {
            service.target_groups.as_deref().is_none_or(is_whole)
                && !service.selector.is_empty()
                && can_be_read(&service.policy)
        };
        let of_binding = |binding: &BindingFacts| {
            let is_there = |named| self.cluster.services.contains_key(&named);
            let names = !matches!(&binding.pods, Pods::OfService(_, PortRef::Name(_)));
            names && binding.service().is_none_or(is_there) && can_be_read(&binding.policy)
        };
        self.cluster.services.values().all(of_service) && self.cluster.bindings.values().all(of_binding)
    }

    /// What its clock should show at a moment, give or take [`SKEW`].
    pub fn wall(&self, at: Moment) -> WallTime {
        self.settings.started + at.elapsed()
    }

    pub fn node_goes(&self, pod: &PodFacts) -> bool {
        let Some(name) = &pod.node else { return false };
        let Some(node) = self.cluster.node(name) else { return true };
        let has = |keys: &[&str]| node.taints.iter().any(|taint| keys.contains(&&**taint));
        node.shuts_down || node.cordoned || node.not_ready || has(&DYING) || has(&DISRUPTED)
    }
}
