//! What should be, worked out the slow and simple way from what the engine was told.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    input::Change,
    object::{Labels, ObjectKey},
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
    order: u64,
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

    fn settle(&mut self, service: &ServiceFacts, known: &impl Fn(&str) -> bool) {
        let TargetPort::Number(port) = service.ports[0].target_port else {
            unreachable!("worlds use numbers")
        };
        let groups = match service.target_groups.as_deref() {
            None => {
                self.services.remove(&service.key);
                return;
            }
            Some("http=blue" | "blue") => vec!["blue"],
            Some("http=green") => vec!["green"],
            Some("80=red") => vec!["red"],
            Some("http=blue,http=green") => vec!["blue", "green"],
            Some(_bad) => {
                // What was valid before stays in force; the selector is the Service's own.
                if let Some(before) = self.services.get_mut(&service.key) {
                    before.selector = service.selector.clone();
                    before.groups.retain(|group| known(group));
                }
                return;
            }
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

    /// Whether no living pod has the target's IP.
    pub fn is_gone(&self, target: &Target) -> bool {
        !self.pods.values().any(|(pod, _)| lives(pod) && pod.ips.contains(&target.ip))
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
