//! What happens to pods.

use std::sync::Arc;

use super::{APPS, Cluster, IPS, any_node};
use crate::{words::NAMESPACE, words::ip};
use headgate_core::model::{
    Change, Labels, NodeFacts, ObjectKey, PodFacts, Readiness,
    pod::{Ending, PassedOver},
};

/// Names of pods; few, so that a name is used again.
const NAMES: [&str; 7] = ["a", "b", "c", "d", "e", "f", "g"];

/// Some are of DaemonSets, one says that it is as one, and one tolerates everything. Chance is left as it is.
fn passed_over(pod: &ObjectKey) -> PassedOver {
    match &*pod.name {
        "c" | "f" => PassedOver { by_all: true, by_cluster_api: true, ..PassedOver::default() },
        "e" => PassedOver { by_cluster_autoscaler: true, ..PassedOver::default() },
        "g" => PassedOver { by_karpenter: true, ..PassedOver::default() },
        _ => PassedOver::default(),
    }
}

impl Cluster {
    pub(super) fn change_pods(&mut self, rng: &mut fastrand::Rng) -> Option<&'static str> {
        match rng.u8(0..36) {
            0..=5 => self.create_pod(rng),
            6..=11 => self.give_ip(rng),
            12..=14 => self.change_pod(rng, "event: pod terminating", |pod, _| pod.terminating = true),
            15..=17 => self.delete_pod(rng),
            18 => self.change_pod(rng, "event: pod finished", |pod, _| pod.finished = true),
            19 => self.change_pod(rng, "event: label changed", |pod, rng| {
                pod.labels = Labels::from_iter([("app", APPS[rng.usize(0..APPS.len())])]);
            }),
            20 => self.change_pod(rng, "event: ip changed", |pod, _| pod.ips.clear()),
            21..=26 => self.change_readiness(rng),
            27 => {
                let ghost = self.ghosts.pop()?;
                self.say_pod(&Change::Deleted(ghost));
                Some("event: late word of an old pod's end")
            }
            28..=29 => self.change_sandbox(rng),
            30..=31 => self.overwrite_gate(rng),
            32..=33 => self.change_pod(rng, "event: sandbox gone", |pod, _| {
                pod.has_sandbox &= !pod.terminating || pod.ips.is_empty();
            }),
            _ => {
                let _ = self.create_pod(rng)?;
                self.give_ip(rng)
            }
        }
    }

    fn create_pod(&mut self, rng: &mut fastrand::Rng) -> Option<&'static str> {
        let key = ObjectKey::new(NAMESPACE, NAMES[rng.usize(0..NAMES.len())]);
        let there = self.pods.contains_key(&key);
        if there && !rng.u8(0..4).eq(&0) {
            return None;
        }
        // Deleted and created between two looks of a watch: one MODIFIED-like event shows the successor.
        let app = APPS[rng.usize(0..APPS.len())];
        let pod = PodFacts {
            passed_over: passed_over(&key),
            is_evicted: false,
            key: key.clone(),
            uid: self.uid(),
            labels: Labels::from_iter([("app", app)]),
            created: self.seconds(),
            terminating: false,
            finished: false,
            stopped: false,
            has_sandbox: true,
            host_network: false,
            readiness: Readiness::default(),
            gate: self.gate(app, rng),
            owner: None,
            hold: None,
            node: None,
            ending: if rng.u8(0..3) < self.holds {
                Ending { sleeps: 150, grace: 180 }
            } else {
                Ending::default()
            },
            leaving: None,
            left_over: None,
            ips: Vec::new(),
            ports: [].into(),
            beyond: [].into(),
        };
        let old = self.pods.insert(key, pod.clone());
        self.say_pod(&Change::Applied(pod));
        if let Some(old) = old {
            self.ghosts.push(old);
            return Some("event: pod followed by another of its name");
        }
        Some("event: pod created")
    }

    /// The time as the API server writes it.
    pub(super) fn seconds(&self) -> i64 {
        i64::try_from((self.started + self.now.elapsed()).elapsed().as_secs()).unwrap()
    }

    /// Where a pod is put: as a rule on a node that takes pods.
    fn a_node(&self, rng: &mut fastrand::Rng) -> Arc<str> {
        let takes = |node: &&NodeFacts| node.takes_pods;
        let open: Vec<&NodeFacts> = self.nodes.values().filter(takes).collect();
        match open.get(rng.usize(0..open.len().max(1))) {
            Some(node) if rng.u8(0..8) > 0 => node.name.clone(),
            _ => any_node(rng),
        }
    }

    fn give_ip(&mut self, rng: &mut fastrand::Rng) -> Option<&'static str> {
        let lives = |pod: &PodFacts| !pod.terminating && !pod.finished;
        let waiting: Vec<ObjectKey> = self
            .pods
            .values()
            .filter(|pod| pod.ips.is_empty() && lives(pod))
            .map(|pod| pod.key.clone())
            .collect();
        let key = waiting.get(rng.usize(0..waiting.len().max(1)))?;
        let address = ip(rng.u8(1..=IPS));
        if self.elsewhere.contains(&address) {
            return None;
        }
        let holders: Vec<&PodFacts> = self.pods.values().filter(|pod| pod.ips.contains(&address)).collect();
        let there = holders.iter().find_map(|pod| pod.node.clone()).filter(|_| rng.bool());
        let node = self.pods[key].node.clone().or(there).unwrap_or_else(|| self.a_node(rng));
        let (here, elsewhere): (Vec<&PodFacts>, Vec<&PodFacts>) =
            holders.iter().partition(|pod| pod.node.as_ref() == Some(&node));
        // The CNI gives no address that a living pod of the node has, but for one that its kubelet lost.
        if here.iter().any(|pod| lives(pod)) && rng.u8(0..10) > 0 {
            return None;
        }
        // Nor does the VPC give one that is in use on another node: then whoever writes this status is wrong, or lies.
        let is_forged = !elsewhere.iter().all(|pod| self.has_lost_its_address(pod));
        if is_forged && rng.bool() {
            return None;
        }
        let reused = !holders.is_empty();
        let pod = self.pods.get_mut(key)?;
        pod.ips = vec![address];
        pod.node.get_or_insert(node);
        let pod = pod.clone();
        if is_forged {
            self.forged.insert(pod.uid.clone());
        } else {
            self.gets_ip(&pod);
        }
        self.say_pod(&Change::Applied(pod));
        Some(match (is_forged, reused) {
            (true, _) => "event: status shows the address of a pod on another node",
            (_, true) => "event: ip reused",
            _ => "event: ip given",
        })
    }

    /// No status shows an address that its pod never had.
    pub(super) fn statuses_are_true(&mut self) {
        let forged = std::mem::take(&mut self.forged);
        for pod in self.pods.values_mut().filter(|pod| forged.contains(&pod.uid)) {
            pod.ips.clear();
            let change = Change::Applied(pod.clone());
            self.watches.iter_mut().for_each(|watches| watches.pods.say(change.clone()));
        }
    }

    /// Whether nothing is there of a pod that could have its address.
    fn has_lost_its_address(&self, pod: &PodFacts) -> bool {
        let node = pod.node.as_ref();
        pod.finished || !pod.has_sandbox || node.is_some_and(|node| self.is_lost(node))
    }

    /// A pod that runs becomes readier; or, for a moment or for good, it is not ready any more.
    fn change_readiness(&mut self, rng: &mut fastrand::Rng) -> Option<&'static str> {
        let running: Vec<ObjectKey> =
            self.pods.values().filter(|pod| super::lives(pod)).map(|pod| pod.key.clone()).collect();
        let pod = self.pods.get_mut(running.get(rng.usize(0..running.len().max(1)))?)?;
        let was = pod.readiness;
        pod.readiness = match rng.u8(0..5) {
            0..=1 if was.is_ready() => Readiness { containers: rng.bool(), gates: false },
            0..=1 => Readiness { containers: true, gates: false },
            _ => Readiness { containers: true, gates: true },
        };
        let now = pod.readiness;
        if now == was {
            return None;
        }
        let pod = pod.clone();
        self.say_pod(&Change::Applied(pod));
        Some(match (was.is_ready(), now.is_ready()) {
            (true, _) => "event: pod not ready any more",
            (_, true) => "event: pod ready",
            _ => "event: containers ready",
        })
    }

    fn change_pod(
        &mut self,
        rng: &mut fastrand::Rng,
        name: &'static str,
        change: fn(&mut PodFacts, &mut fastrand::Rng),
    ) -> Option<&'static str> {
        let at = rng.usize(0..self.pods.len().max(1));
        let pod = self.pods.values_mut().nth(at)?;
        let before = pod.clone();
        change(pod, rng);
        let pod = pod.clone();
        (pod != before).then(|| {
            self.say_pod(&Change::Applied(pod));
            name
        })
    }

    fn delete_pod(&mut self, rng: &mut fastrand::Rng) -> Option<&'static str> {
        let at = rng.usize(0..self.pods.len().max(1));
        let key = self.pods.keys().nth(at)?.clone();
        let pod = self.pods.remove(&key)?;
        self.say_pod(&Change::Deleted(pod));
        Some("event: pod deleted")
    }
}
