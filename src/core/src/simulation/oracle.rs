//! What should be, worked out the slow and simple way from what the engine was told.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    input::Change,
    object::{Labels, ObjectKey, Uid},
    pod::PodFacts,
    service::{ServiceFacts, TargetPort},
    target::Target,
};

/// What a Service binds: target groups by name, the port of the pods, and which pods.
#[derive(Clone, Debug)]
struct InForce {
    groups: Vec<&'static str>,
    port: u16,
    selector: Labels,
}

/// What the engine was told.
#[derive(Debug, Default)]
pub struct Oracle {
    pods: BTreeMap<ObjectKey, (PodFacts, u64)>,
    services: BTreeMap<ObjectKey, InForce>,
    /// The annotations as they were written last, and whether the engine has followed them once.
    written: BTreeMap<ObjectKey, (Box<str>, bool)>,
    order: u64,
}

/// What an annotation means; `None`: it cannot be read.
fn groups(text: &str) -> Option<Vec<&'static str>> {
    match text {
        "http=blue" | "blue" => Some(vec!["blue"]),
        "http=green" => Some(vec!["green"]),
        "80=red" => Some(vec!["red"]),
        "http=blue,http=green" => Some(vec!["blue", "green"]),
        _bad => None,
    }
}

fn lives(pod: &PodFacts) -> bool {
    !pod.terminating && !pod.finished && !pod.ips.is_empty()
}

impl Oracle {
    pub fn told_of_pods(&mut self, change: &Change<PodFacts>) {
        match change {
            Change::Applied(pod) => self.put(pod),
            Change::Deleted(pod) => {
                if self.pods.get(&pod.key).is_some_and(|(known, _)| known.uid == pod.uid) {
                    self.pods.remove(&pod.key);
                }
            }
            Change::Relisted(_, all) => {
                self.pods.retain(|key, _| all.iter().any(|pod| pod.key == *key));
                let mut all: Vec<&PodFacts> = all.iter().collect();
                all.sort_by_key(|pod| (pod.created, pod.uid.clone()));
                for pod in all {
                    self.put(pod);
                }
            }
        }
    }

    fn put(&mut self, pod: &PodFacts) {
        let order = match self.pods.get(&pod.key) {
            Some((known, order)) if known.uid == pod.uid && known.ips == pod.ips => *order,
            _ => {
                self.order += 1;
                self.order
            }
        };
        self.pods.insert(pod.key.clone(), (pod.clone(), order));
    }

    /// `known` says whether the engine knows a group of this name: what it did not know yet was never in force.
    pub fn told_of_services(&mut self, change: &Change<ServiceFacts>, known: impl Fn(&str) -> bool) {
        self.read(change);
        match change {
            Change::Applied(service) => self.settle(service, &known),
            Change::Deleted(service) => _ = self.services.remove(&service.key),
            Change::Relisted(_, all) => {
                self.services.retain(|key, _| all.iter().any(|service| service.key == *key));
                for service in all {
                    self.settle(service, &known);
                }
            }
        }
    }

    fn read(&mut self, change: &Change<ServiceFacts>) {
        let services = match change {
            Change::Applied(service) => std::slice::from_ref(service),
            Change::Deleted(service) => {
                self.written.remove(&service.key);
                return;
            }
            Change::Relisted(_, all) => {
                self.written.retain(|key, _| all.iter().any(|service| service.key == *key));
                &all[..]
            }
        };
        for service in services {
            match &service.target_groups {
                Some(text) if self.written.get(&service.key).is_some_and(|(known, _)| known == text) => {}
                Some(text) => _ = self.written.insert(service.key.clone(), (text.clone(), false)),
                None => _ = self.written.remove(&service.key),
            }
        }
    }

    /// A step is over; `known` says of which groups the engine knows.
    pub fn looks(&mut self, known: impl Fn(&str) -> bool) {
        for (text, followed) in self.written.values_mut() {
            *followed |= groups(text).is_some_and(|groups| groups.into_iter().all(&known));
        }
    }

    /// Whether an annotation cannot be followed, or not yet.
    pub fn is_in_doubt(&self) -> bool {
        self.written.values().any(|(_, followed)| !followed)
    }

    fn settle(&mut self, service: &ServiceFacts, known: &impl Fn(&str) -> bool) {
        let TargetPort::Number(port) = service.ports[0].target_port else {
            unreachable!("worlds use numbers")
        };
        let Some(text) = service.target_groups.as_deref() else {
            self.services.remove(&service.key);
            return;
        };
        let Some(groups) = groups(text) else {
            // What was valid before stays in force; the selector is the Service's own.
            if let Some(before) = self.services.get_mut(&service.key) {
                before.selector = service.selector.clone();
                before.groups.retain(|group| known(group));
            }
            return;
        };
        let now = InForce { groups, port, selector: service.selector.clone() };
        self.services.insert(service.key.clone(), now);
    }

    /// The targets that a group should have.
    pub fn wanted(&self, group: &str) -> BTreeSet<Target> {
        let bound = self.services.values().filter(|service| service.groups.contains(&group));
        let targets = bound.flat_map(|service| {
            let selected =
                self.pods.values().filter(|(pod, _)| lives(pod) && service.selector.selects(&pod.labels));
            selected.map(|(pod, _)| Target::new(pod.ips[0], service.port))
        });
        targets.collect()
    }

    /// Whether the pod of this UID lives at the target's IP, and no other pod does.
    pub fn lives_alone(&self, uid: &Uid, target: &Target) -> bool {
        let mut there = self.pods.values().filter(|(pod, _)| lives(pod) && pod.ips.contains(&target.ip));
        there.next().is_some_and(|(pod, _)| pod.uid == *uid) && there.next().is_none()
    }

    /// Whether no living pod has the target's IP.
    pub fn is_gone(&self, target: &Target) -> bool {
        !self.pods.values().any(|(pod, _)| lives(pod) && pod.ips.contains(&target.ip))
    }

    /// Whether a pod that is going, and has not ended, has the target's IP.
    pub fn is_going(&self, target: &Target) -> bool {
        let goes = |pod: &PodFacts| pod.terminating && !pod.finished && pod.ips.contains(&target.ip);
        self.is_gone(target) && self.pods.values().any(|(pod, _)| goes(pod))
    }

    /// Whether any pod that has not ended has the target's IP.
    pub fn is_held(&self, target: &Target) -> bool {
        self.pods.values().any(|(pod, _)| !pod.finished && pod.ips.contains(&target.ip))
    }

    /// The pod that got the target's IP last, among the living ones with the same labels as `pod`.
    pub fn last_to_get(&self, target: &Target, pod: &ObjectKey) -> Option<&PodFacts> {
        let labels = &self.pods.get(pod)?.0.labels;
        let holders = self
            .pods
            .values()
            .filter(|(pod, _)| lives(pod) && pod.ips.contains(&target.ip) && pod.labels == *labels);
        holders.max_by_key(|(_, order)| *order).map(|(pod, _)| pod)
    }
}
