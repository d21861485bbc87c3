//! The Kubernetes of a world: the truth, and what the two watches of each replica have not said yet.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    net::IpAddr,
};

use crate::{
    input::{Change, Scope},
    object::{Labels, ObjectKey, Uid},
    pod::{PodFacts, Protocol},
    policy::Texts,
    readiness::Readiness,
    service::{ServiceFacts, ServicePort, TargetPort},
    testing::{NAMESPACE, ip},
};

/// How many replicas of Headgate there are.
pub const REPLICAS: usize = 2;
/// Names of pods; few, so that a name is used again.
const NAMES: [&str; 7] = ["a", "b", "c", "d", "e", "f", "g"];
/// Addresses; few, so that an IP is used again.
const IPS: u8 = 9;
/// Labels of pods and Services: each Service selects one.
pub const APPS: [&str; 2] = ["web", "api"];
const GOOD: [&str; 5] = ["http=blue", "http=green", "http=blue,http=green", "80=red", "blue"];
const BAD: [&str; 4] = ["", "http=", "http=no_name", "nothing=blue"];

/// One watch: what it has not said yet, and whether it is cut.
#[derive(Debug)]
pub struct Watch<T> {
    pub unsaid: VecDeque<Change<T>>,
    pub cut: bool,
}

impl<T: Clone> Watch<T> {
    fn new() -> Self {
        Self { unsaid: VecDeque::new(), cut: true }
    }

    fn say(&mut self, change: Change<T>) {
        if !self.cut {
            self.unsaid.push_back(change);
        }
    }

    /// What was not said yet is lost.
    pub fn cut(&mut self) {
        self.unsaid.clear();
        self.cut = true;
    }

    /// Lists all there is, and goes on from there.
    pub fn relist(&mut self, all: Vec<T>) {
        self.cut = false;
        self.unsaid.push_back(Change::Relisted(Scope::Cluster, all));
    }
}

/// The watches of one replica.
#[derive(Debug)]
pub struct Watches {
    pub pods: Watch<PodFacts>,
    pub services: Watch<ServiceFacts>,
}

impl Watches {
    pub fn new() -> Self {
        Self { pods: Watch::new(), services: Watch::new() }
    }
}

/// The cluster.
#[derive(Debug)]
pub struct Cluster {
    pub pods: BTreeMap<ObjectKey, PodFacts>,
    pub services: BTreeMap<ObjectKey, ServiceFacts>,
    pub watches: [Watches; REPLICAS],
    /// Addresses that pods of another cluster have now.
    pub elsewhere: BTreeSet<IpAddr>,
    /// Old pods whose successors are known already, and of whose end the watch has not said a word.
    ghosts: Vec<PodFacts>,
    uids: u64,
    clock: i64,
}

impl Cluster {
    pub fn new() -> Self {
        Self {
            pods: BTreeMap::new(),
            services: BTreeMap::new(),
            watches: std::array::from_fn(|_| Watches::new()),
            elsewhere: BTreeSet::new(),
            ghosts: Vec::new(),
            uids: 0,
            clock: 0,
        }
    }

    fn say_pod(&mut self, change: &Change<PodFacts>) {
        self.watches.iter_mut().for_each(|watches| watches.pods.say(change.clone()));
    }

    fn say_service(&mut self, change: &Change<ServiceFacts>) {
        self.watches.iter_mut().for_each(|watches| watches.services.say(change.clone()));
    }

    /// Whether a pod that has this address lives.
    pub fn lives_at(&self, ip: &IpAddr) -> bool {
        self.pods.values().any(|pod| !pod.terminating && !pod.finished && pod.ips.contains(ip))
    }

    /// Another cluster gets an address that no pod here has, or gives one back.
    pub fn elsewhere(&mut self, rng: &mut fastrand::Rng, left: &[IpAddr]) -> Option<&'static str> {
        // Most likely one that was given up just now.
        let given_up: Vec<&IpAddr> = left.iter().filter(|ip| !self.lives_at(ip)).collect();
        let address = match given_up.get(rng.usize(0..given_up.len().max(1))) {
            Some(ip) if rng.u8(0..4) > 0 => **ip,
            _ => ip(rng.u8(1..=IPS)),
        };
        if self.elsewhere.remove(&address) {
            return Some("event: another cluster gives an ip back");
        }
        let holds = |pod: &PodFacts| !pod.finished && pod.ips.contains(&address);
        if self.pods.values().any(holds) {
            return None;
        }
        self.elsewhere.insert(address);
        Some("event: another cluster gets an ip")
    }

    /// Users correct the annotations that cannot be read.
    pub fn correct_annotations(&mut self) {
        for service in self.services.values_mut() {
            if service.target_groups.as_deref().is_some_and(|value| BAD.contains(&value)) {
                service.target_groups = Some(GOOD[0].into());
            }
        }
    }

    /// Users change all ports: not every pod listens on the new one.
    pub fn change_ports(&mut self) {
        let mut changed = Vec::new();
        for service in self.services.values_mut() {
            let other = if service.ports[0].target_port == TargetPort::Number(8080) { 8081 } else { 8080 };
            service.ports[0].target_port = TargetPort::Number(other);
            changed.push(Change::Applied(service.clone()));
        }
        for change in &changed {
            self.say_service(change);
        }
    }

    /// Lets something happen; gives its name, or `None` if it could not.
    pub fn change(&mut self, rng: &mut fastrand::Rng) -> Option<&'static str> {
        self.clock += 1;
        match rng.u8(0..31) {
            30 => {
                let ghost = self.ghosts.pop()?;
                self.say_pod(&Change::Deleted(ghost));
                Some("event: late word of an old pod's end")
            }
            0..=5 => self.create_pod(rng),
            6..=12 => self.give_ip(rng),
            13..=15 => self.change_pod(rng, "event: pod terminating", |pod, _| pod.terminating = true),
            16..=18 => self.delete_pod(rng),
            19 => self.change_pod(rng, "event: pod finished", |pod, _| pod.finished = true),
            20 => self.change_pod(rng, "event: label changed", |pod, rng| {
                pod.labels = Labels::from_iter([("app", APPS[rng.usize(0..APPS.len())])]);
            }),
            21 => self.change_pod(rng, "event: ip changed", |pod, _| pod.ips.clear()),
            22 | 23 => self.create_service(rng),
            24 => self.change_service(rng, "event: annotation changed", |service, rng| {
                service.target_groups = Some(GOOD[rng.usize(0..GOOD.len())].into());
            }),
            25 => self.change_service(rng, "event: annotation bad", |service, rng| {
                service.target_groups = Some(BAD[rng.usize(0..BAD.len())].into());
            }),
            26 => self.change_service(rng, "event: port changed", |service, rng| {
                service.ports[0].target_port = TargetPort::Number(rng.u16(8080..8082));
            }),
            27 => {
                if rng.bool() {
                    return self.change_service(rng, "event: annotation taken away", |service, _| {
                        service.target_groups = None;
                    });
                }
                // A Service that selects nothing for a while; two never select one pod.
                self.change_service(rng, "event: selector changed", |service, rng| {
                    let app = if rng.bool() { service.key.name.to_string() } else { "nobody".to_owned() };
                    service.selector = Labels::from_iter([("app", app)]);
                })
            }
            28 => self.delete_service(rng),
            _ => {
                let _ = self.create_pod(rng)?;
                self.give_ip(rng)
            }
        }
    }

    fn uid(&mut self) -> Uid {
        self.uids += 1;
        Uid::new(self.uids.to_string())
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
            key: key.clone(),
            uid: self.uid(),
            labels: Labels::from_iter([("app", app)]),
            created: self.clock,
            terminating: false,
            finished: false,
            host_network: false,
            readiness: Readiness::default(),
            gate: None,
            ips: Vec::new(),
            ports: [].into(),
        };
        let old = self.pods.insert(key, pod.clone());
        self.say_pod(&Change::Applied(pod));
        if let Some(old) = old {
            self.ghosts.push(old);
            return Some("event: pod followed by another of its name");
        }
        Some("event: pod created")
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
        // The CNI gives no address that a living pod of the node has, but for one that its kubelet lost.
        if holders.iter().any(|pod| lives(pod)) && rng.u8(0..10) > 0 {
            return None;
        }
        let reused = !holders.is_empty();
        let pod = self.pods.get_mut(key)?;
        pod.ips = vec![address];
        let pod = pod.clone();
        self.say_pod(&Change::Applied(pod));
        Some(if reused { "event: ip reused" } else { "event: ip given" })
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

    fn create_service(&mut self, rng: &mut fastrand::Rng) -> Option<&'static str> {
        let app = APPS[rng.usize(0..APPS.len())];
        let key = ObjectKey::new(NAMESPACE, app);
        if self.services.contains_key(&key) {
            return None;
        }
        let service = ServiceFacts {
            key: key.clone(),
            uid: self.uid(),
            target_groups: Some(GOOD[rng.usize(0..GOOD.len())].into()),
            policy: Texts::default(),
            selector: Labels::from_iter([("app", app)]),
            ports: vec![ServicePort {
                name: "http".into(),
                port: 80,
                target_port: TargetPort::Number(8080),
                protocol: Protocol::Tcp,
            }],
        };
        self.services.insert(key, service.clone());
        self.say_service(&Change::Applied(service));
        Some("event: service created")
    }

    fn change_service(
        &mut self,
        rng: &mut fastrand::Rng,
        name: &'static str,
        change: fn(&mut ServiceFacts, &mut fastrand::Rng),
    ) -> Option<&'static str> {
        let at = rng.usize(0..self.services.len().max(1));
        let service = self.services.values_mut().nth(at)?;
        let before = service.clone();
        change(service, rng);
        let service = service.clone();
        (service != before).then(|| {
            self.say_service(&Change::Applied(service));
            name
        })
    }

    fn delete_service(&mut self, rng: &mut fastrand::Rng) -> Option<&'static str> {
        let at = rng.usize(0..self.services.len().max(1));
        let key = self.services.keys().nth(at)?.clone();
        let service = self.services.remove(&key)?;
        self.say_service(&Change::Deleted(service));
        Some("event: service deleted")
    }
}
