//! The Kubernetes of a world: the truth, and what the watches of each replica have not said yet.

mod bindings;
mod evictions;
mod gates;
mod nodes;
mod pods;
mod services;
mod watches;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
    time::Duration,
};

pub use self::evictions::Evicted;
pub use self::nodes::any as any_node;
use self::services::Deleted;
pub use self::services::{Part, parts};
pub use self::watches::Watches;
use self::watches::leave_out;
use crate::words::ip;
use headgate_core::model::{
    BindingFacts, Change, Labels, Moment, NodeFacts, ObjectKey, PodFacts, Readiness, ServiceFacts, Target,
    TargetPort, Uid, WallTime, leaving::Annotations, policy::WHEN_NOT_READY, target_binding::Pods,
};

/// How many replicas of Headgate there are.
pub const REPLICAS: usize = 2;
/// Addresses; few, so that an IP is used again.
const IPS: u8 = 9;
/// From this last byte on addresses are those of foreign targets.
const FOREIGN: u8 = 100;
/// Labels of pods and Services: each Service selects one.
pub const APPS: [&str; 2] = ["web", "api"];

/// The cluster.
#[derive(Debug)]
pub struct Cluster {
    pub pods: BTreeMap<ObjectKey, PodFacts>,
    pub services: BTreeMap<ObjectKey, ServiceFacts>,
    pub bindings: BTreeMap<ObjectKey, BindingFacts>,
    pub nodes: BTreeMap<Arc<str>, NodeFacts>,
    /// Since when nodes are not ready.
    not_ready: BTreeMap<Arc<str>, Moment>,
    /// Whether the replicas may watch nodes.
    nodes_are_watched: bool,
    /// How many ready pods of each app its PodDisruptionBudget keeps.
    budgets: BTreeMap<&'static str, usize>,
    /// Of three pods so many have their hold.
    holds: u8,
    /// What is written on pods about their leaving.
    annotations: BTreeMap<Uid, Annotations>,
    pub watches: [Watches; REPLICAS],
    /// Addresses that pods of another cluster have now.
    pub elsewhere: BTreeSet<IpAddr>,
    /// Old pods whose successors are known already, and of whose end the watch has not said a word.
    ghosts: Vec<PodFacts>,
    uids: u64,
    started: WallTime,
    now: Moment,
    /// The Services that were deleted, and when.
    deleted: Vec<Deleted>,
    /// When each pod was asked to leave first, and last.
    asked_to_leave: BTreeMap<Uid, (Moment, Moment)>,
    /// When a Service or a TargetBinding changed last, and the pods whose containers ever were ready.
    written: Moment,
    writings: u64,
    were_ready: BTreeSet<Uid>,
    /// What Services said before that cannot be followed any more, and all replicas were told.
    followed: BTreeMap<ObjectKey, ServiceFacts>,
    /// When each pod got the address that it has, and how many had got theirs by then.
    got_ip: BTreeMap<Uid, (usize, Moment)>,
    given: usize,
    /// Which pod got each address last, whether it lives or not.
    last_at: BTreeMap<IpAddr, Uid>,
    /// The pods whose status shows an address that they never had.
    forged: BTreeSet<Uid>,
}

/// Who answers at a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Voice<'a> {
    Nobody,
    Pod(&'a Uid),
    /// Another cluster, or somebody else.
    Another,
}

impl Cluster {
    pub fn new(nodes_are_watched: bool, holds: u8, started: WallTime) -> Self {
        Self {
            holds,
            nodes: nodes::all(),
            not_ready: BTreeMap::new(),
            nodes_are_watched,
            budgets: BTreeMap::new(),
            annotations: BTreeMap::new(),
            started,
            pods: BTreeMap::new(),
            services: BTreeMap::new(),
            bindings: BTreeMap::new(),
            watches: std::array::from_fn(|_| Watches::new(nodes_are_watched)),
            elsewhere: BTreeSet::new(),
            ghosts: Vec::new(),
            uids: 0,
            now: Moment::START,
            writings: 0,
            deleted: Vec::new(),
            followed: BTreeMap::new(),
            asked_to_leave: BTreeMap::new(),
            written: Moment::START,
            were_ready: BTreeSet::new(),
            got_ip: BTreeMap::new(),
            given: 0,
            last_at: BTreeMap::new(),
            forged: BTreeSet::new(),
        }
    }

    /// Time has passed.
    pub fn pass(&mut self, now: Moment) {
        self.now = now;
    }

    /// Lets something happen; gives its name, or `None` if it could not.
    pub fn change(&mut self, rng: &mut fastrand::Rng) -> Option<&'static str> {
        match rng.u8(0..100) {
            0..=59 => self.change_pods(rng),
            60..=63 => self.change_nodes(rng),
            64 => self.change_budgets(rng),
            65..=89 => self.change_services(rng),
            _ => self.change_bindings(rng),
        }
    }

    /// The process of a replica starts anew: it knows nothing.
    pub fn restarts(&mut self, replica: usize) {
        self.watches[replica] = Watches::new(self.nodes_are_watched);
    }

    /// Lists what is to be listed; `wrong`: the API server leaves some of it out. Gives what happened.
    pub fn relist(&mut self, replica: usize, wrong: bool, rng: &mut fastrand::Rng) -> Vec<&'static str> {
        let Watches { pods, services, bindings, nodes } = &mut self.watches[replica];
        let mut events = Vec::new();
        if pods.is_to_list() {
            let mut list: Vec<PodFacts> = self.pods.values().cloned().collect();
            let wrong = wrong && !list.is_empty();
            if wrong {
                let app = APPS[rng.usize(0..APPS.len())];
                list = leave_out(&list, rng, |pod| pod.labels.get("app") == Some(app));
            }
            pods.relist(list, wrong);
            events.push(if wrong { "event: pods left out of a list" } else { "event: relist" });
        }
        if services.is_to_list() {
            let mut list: Vec<ServiceFacts> = self.services.values().cloned().collect();
            let wrong = wrong && !list.is_empty();
            if wrong {
                list = leave_out(&list, rng, |service| &*service.key.name == APPS[0]);
            }
            services.relist(list, wrong);
            if wrong {
                self.followed.clear();
            }
            events.push(if wrong { "event: services left out of a list" } else { "event: relist" });
        }
        if bindings.is_to_list() {
            let mut list: Vec<BindingFacts> = self.bindings.values().cloned().collect();
            let wrong = wrong && !list.is_empty();
            if wrong {
                list = leave_out(&list, rng, |binding| binding.ending);
            }
            bindings.relist(list, wrong);
            events.push(if wrong { "event: bindings left out of a list" } else { "event: relist" });
        }
        if nodes.is_to_list() {
            let mut list: Vec<NodeFacts> = self.nodes.values().cloned().collect();
            let wrong = wrong && !list.is_empty();
            if wrong {
                list = leave_out(&list, rng, |node| node.zone.as_deref() == Some("a"));
            }
            nodes.relist(list, wrong);
            events.push(if wrong { "event: nodes left out of a list" } else { "event: relist" });
        }
        events
    }

    /// A watch of a replica says that objects are gone which are there: all of one kind, or some.
    pub fn say_gone(&mut self, replica: usize, rng: &mut fastrand::Rng) -> &'static str {
        let Watches { services, bindings, nodes, .. } = &mut self.watches[replica];
        match rng.u8(0..3) {
            0 => {
                let all: Vec<ServiceFacts> = self.services.values().cloned().collect();
                services.says_gone(leave_out(&all, rng, |_| false));
                self.followed.clear();
                "event: a watch says that services are gone"
            }
            1 => {
                let all: Vec<BindingFacts> = self.bindings.values().cloned().collect();
                bindings.says_gone(leave_out(&all, rng, |binding| binding.ending));
                "event: a watch says that bindings are gone"
            }
            _ => {
                let all: Vec<NodeFacts> = self.nodes.values().cloned().collect();
                nodes.says_gone(leave_out(&all, rng, |_| false));
                "event: a watch says that nodes are gone"
            }
        }
    }

    /// One of the watches of a replica is interrupted.
    pub fn cut(&mut self, replica: usize, rng: &mut fastrand::Rng) {
        let Watches { pods, services, bindings, nodes } = &mut self.watches[replica];
        match rng.u8(0..6) {
            0..=1 => pods.cut(),
            2..=3 => services.cut(),
            4 => bindings.cut(),
            _ => nodes.cut(),
        }
    }

    /// All of them are.
    pub fn cut_all(&mut self, replica: usize) {
        let Watches { pods, services, bindings, nodes } = &mut self.watches[replica];
        pods.cut();
        services.cut();
        bindings.cut();
        nodes.cut();
    }

    /// Users correct what cannot be followed, and end what is paused.
    pub fn correct(&mut self) {
        self.writings += 1;
        self.correct_services();
        self.correct_bindings();
        self.nodes_are_well();
        self.statuses_are_true();
    }

    /// Users change all ports: not every pod listens on the new one.
    pub fn change_ports(&mut self) {
        let other = |port: &TargetPort| {
            TargetPort::Number(if *port == TargetPort::Number(8080) { 8081 } else { 8080 })
        };
        for service in self.services.values_mut() {
            service.ports[0].target_port = other(&service.ports[0].target_port);
        }
        for binding in self.bindings.values_mut() {
            if let Pods::Selected(_, port, _) = &mut binding.pods {
                *port = other(port);
            }
        }
        for service in self.services.values().cloned().collect::<Vec<_>>() {
            self.say_service(&Change::Applied(service));
        }
        for binding in self.bindings.values().cloned().collect::<Vec<_>>() {
            self.say_binding(&Change::Applied(binding));
        }
    }

    /// Users ask for the removal of pods that are not ready. Then all pods are not ready any more, or not selected.
    pub fn pods_leave(&mut self, rng: &mut fastrand::Rng) -> &'static str {
        for service in self.services.values_mut() {
            service.policy.set(WHEN_NOT_READY, "deregister");
        }
        for service in self.services.values().cloned().collect::<Vec<_>>() {
            self.say_service(&Change::Applied(service));
        }
        self.pods_come_back();
        if rng.bool() {
            self.change_all_pods(|pod| pod.readiness = Readiness::default());
            return "event: pods are not ready for long";
        }
        self.change_all_pods(|pod| {
            let labels = pod.labels.get("app").map(|app| ("was", app)).into_iter().collect();
            pod.labels = labels;
        });
        "event: pods are not selected for long"
    }

    /// No pod is ready any more.
    pub fn nobody_is_ready(&mut self) {
        self.change_all_pods(|pod| pod.readiness = Readiness::default());
    }

    /// All pods are ready, and selected again.
    pub fn pods_come_back(&mut self) {
        self.change_all_pods(|pod| {
            pod.readiness = Readiness { containers: true, gates: true };
            if let Some(app) = pod.labels.get("was") {
                pod.labels = Labels::from_iter([("app", app)]);
            }
        });
    }

    fn change_all_pods(&mut self, change: fn(&mut PodFacts)) {
        self.pods.values_mut().filter(|pod| lives(pod)).for_each(change);
        for pod in self.pods.values().cloned().collect::<Vec<_>>() {
            self.say_pod(&Change::Applied(pod));
        }
    }

    fn say_pod(&mut self, change: &Change<PodFacts>) {
        if let Change::Applied(pod) = change
            && pod.readiness.containers
        {
            self.were_ready.insert(pod.uid.clone());
        }
        self.watches.iter_mut().for_each(|watches| watches.pods.say(change.clone()));
    }

    /// Whether the containers of a pod ever were ready.
    pub fn was_ready(&self, pod: &Uid) -> bool {
        self.were_ready.contains(pod)
    }

    /// Whether no Service and no TargetBinding has changed for so long.
    pub fn writings_are_older(&self, now: Moment, than: Duration) -> bool {
        now.since(self.written) >= than
    }

    /// Whether a Service or a TargetBinding has changed since this pod got its address.
    pub fn was_written_since(&self, pod: &Uid) -> bool {
        self.got_ip.get(pod).is_some_and(|(_, at)| self.written >= *at)
    }

    /// How often Services and TargetBindings have changed.
    pub fn writings(&self) -> u64 {
        self.writings
    }

    fn say_service(&mut self, change: &Change<ServiceFacts>) {
        (self.written, self.writings) = (self.now, self.writings + 1);
        self.watches.iter_mut().for_each(|watches| watches.services.say(change.clone()));
    }

    fn say_binding(&mut self, change: &Change<BindingFacts>) {
        (self.written, self.writings) = (self.now, self.writings + 1);
        self.watches.iter_mut().for_each(|watches| watches.bindings.say(change.clone()));
    }

    fn uid(&mut self) -> Uid {
        self.uids += 1;
        Uid::new(self.uids.to_string())
    }

    /// Whether a pod that has this address lives.
    pub fn lives_at(&self, ip: &IpAddr) -> bool {
        self.pods.values().any(|pod| lives(pod) && pod.ips.contains(ip))
    }

    /// Who answers at a target: of the pods that have the address the one that got it last, once it has started.
    pub fn voice(&self, target: &Target) -> Voice<'_> {
        if self.elsewhere.contains(&target.ip) || last_byte(&target.ip) >= FOREIGN {
            return Voice::Another;
        }
        let Some((uid, since)) = self.holder(&target.ip) else { return Voice::Nobody };
        if is_deaf(target) || self.now < since + starts_in(uid) { Voice::Nobody } else { Voice::Pod(uid) }
    }

    /// The living pod that got an address last, and when.
    pub fn holder(&self, ip: &IpAddr) -> Option<(&Uid, Moment)> {
        let here = self.pods.values().filter(|pod| lives(pod) && pod.ips.contains(ip));
        let got = here.filter_map(|pod| Some((self.got_ip.get(&pod.uid)?, &pod.uid)));
        got.max_by_key(|(got, _)| *got).map(|((_, since), uid)| (uid, *since))
    }

    /// Whether a living pod has the address that it had at `told`, and no other one has got it since, for however short a
    /// time.
    pub fn has_kept(&self, ip: &IpAddr, uid: &Uid, told: Moment) -> bool {
        self.holder(ip).is_some_and(|(holder, got)| holder == uid && got <= told)
            && self.last_at.get(ip) == Some(uid)
    }

    /// Whether a pod, also one that ends, is the only one that shows its address, and has it.
    pub fn is_alone(&self, pod: &PodFacts) -> bool {
        let shows = |other: &PodFacts| other.uid != pod.uid && !other.finished && other.ips == pod.ips;
        !self.pods.values().any(shows) && pod.ips.iter().all(|ip| self.last_at.get(ip) == Some(&pod.uid))
    }

    fn gets_ip(&mut self, pod: &PodFacts) {
        self.given += 1;
        self.got_ip.insert(pod.uid.clone(), (self.given, self.now));
        self.last_at.extend(pod.ips.iter().map(|ip| (*ip, pod.uid.clone())));
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
}

fn last_byte(ip: &IpAddr) -> u8 {
    if let IpAddr::V4(ip) = ip { ip.octets()[3] } else { 0 }
}

/// Some pods do not listen on one of the ports.
pub fn is_deaf(target: &Target) -> bool {
    let last = last_byte(&target.ip);
    target.port == 8081 && last.is_multiple_of(2) && last < FOREIGN
}

/// Some pods take a while until they answer.
fn starts_in(uid: &Uid) -> Duration {
    let number: u64 = uid.as_str().parse().unwrap_or_default();
    Duration::from_secs(match number % 8 {
        0 => 15,
        1..=3 => 2,
        _ => 0,
    })
}

/// Whether a pod can be a target at all.
pub fn lives(pod: &PodFacts) -> bool {
    !pod.terminating && !pod.finished && !pod.ips.is_empty()
}
