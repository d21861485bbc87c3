//! The pods that the engine was told of.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    time::Duration,
};

use super::addresses::Addresses;
use crate::cluster::lives;
use headgate_core::model::{Change, Moment, ObjectKey, PodFacts, gate::Shown};

/// A pod as the engine was told of it.
#[allow(clippy::struct_excessive_bools)] // each is one thing that was seen of it
#[derive(Clone, Debug)]
pub struct Told {
    pub facts: PodFacts,
    /// Grows with each IP that any pod gets; 0 of one that was terminating when it was seen with its IP first.
    pub order: u64,
    /// Whether it was ready and has not been for too long; and since when it has not been.
    pub is_lost: bool,
    not_ready: Option<Moment>,
    lost_since: Option<Moment>,
    was_ready: bool,
    /// A list did not have it, and is doubted until then.
    doubted: Option<Moment>,
    /// When the engine was first told of it.
    pub first: Moment,
    /// When the engine was first told of the address that it has.
    pub ip_since: Moment,
    /// Whether it had another address before.
    pub had_another_ip: bool,
    /// All addresses that it has had.
    had: BTreeSet<IpAddr>,
    /// Since when its gate is open for an address that it does not have.
    pub wrongly_open: Option<Moment>,
    /// Its node has gone since it was there.
    pub node_gone: bool,
}

impl Told {
    pub fn lives(&self) -> bool {
        lives(&self.facts)
    }

    /// When it began to have been not ready for too long, if it has.
    pub fn lost_since(&self) -> Option<Moment> {
        self.lost_since.filter(|_| self.is_lost)
    }

    /// Whether it had this address, and has it no more.
    pub fn has_lost(&self, ip: &IpAddr) -> bool {
        self.had.contains(ip) && !self.facts.ips.contains(ip)
    }

    pub fn is_doubted(&self) -> bool {
        self.doubted.is_some()
    }
}

/// See the module.
#[derive(Debug)]
pub struct Pods {
    pub all: BTreeMap<ObjectKey, Told>,
    /// How long a pod may be not ready, and how long a list may be doubted.
    not_ready_for: Duration,
    relist_patience: Duration,
    order: u64,
    pub(super) addresses: Addresses,
}

impl Pods {
    pub fn new(not_ready_for: Duration, relist_patience: Duration) -> Self {
        Self {
            all: BTreeMap::new(),
            not_ready_for,
            relist_patience,
            order: 0,
            addresses: Addresses::default(),
        }
    }

    /// Time has passed; says whether anything follows, and what occurred.
    pub fn pass(&mut self, now: Moment, seen: &mut Vec<&'static str>) -> bool {
        let before = self.all.len();
        self.all.retain(|_, pod| pod.doubted.is_none_or(|until| until > now));
        let mut changed = self.all.len() < before;
        if changed {
            seen.push("list: believed after a while");
        }
        changed |= self.judge_addresses(now);
        for pod in self.all.values_mut().filter(|pod| !pod.is_lost) {
            if pod.not_ready.is_some_and(|since| since + self.not_ready_for <= now) {
                (pod.is_lost, pod.lost_since, changed) = (true, Some(now), true);
            }
        }
        changed
    }

    /// When [`Pods::pass`] has something to do.
    pub fn next_due(&self) -> Option<Moment> {
        let lost =
            |pod: &Told| pod.not_ready.filter(|_| !pod.is_lost).map(|since| since + self.not_ready_for);
        self.all.values().flat_map(|pod| lost(pod).into_iter().chain(pod.doubted)).min()
    }

    pub fn told(&mut self, change: &Change<PodFacts>, now: Moment) {
        match change {
            Change::Applied(pod) => self.put(pod, now),
            Change::Deleted(pod) => {
                if self.all.get(&pod.key).is_some_and(|known| known.facts.uid == pod.uid) {
                    self.all.remove(&pod.key);
                    self.judge_addresses(now);
                }
            }
            Change::Relisted(..) => unreachable!("a list is for `listed`"),
        }
    }

    /// The engine was given a list. Of the pods that are missing in it, those that `most` names are doubted, but for
    /// those that were missing in the list before; says whether there are any.
    pub fn listed(
        &mut self,
        list: &[PodFacts],
        most: &BTreeSet<ObjectKey>,
        now: Moment,
        seen: &mut Vec<&'static str>,
    ) -> bool {
        let mut doubted = false;
        let patience = self.relist_patience;
        self.all.retain(|key, pod| {
            let there = list.iter().any(|listed| listed.key == *key);
            match (there, pod.doubted.take()) {
                (true, None) => true,
                (true, Some(_)) => {
                    seen.push("list: contradicted by a second");
                    true
                }
                (false, Some(_)) => {
                    seen.push("list: confirmed by a second");
                    false
                }
                (false, None) if !patience.is_zero() && most.contains(key) => {
                    seen.push("list: doubted");
                    pod.doubted = Some(now + patience);
                    doubted = true;
                    true
                }
                (false, None) => false,
            }
        });
        self.judge_addresses(now);
        let mut list: Vec<&PodFacts> = list.iter().collect();
        list.sort_by_key(|pod| (pod.created, pod.uid.clone()));
        for pod in list {
            self.put(pod, now);
        }
        doubted
    }

    fn put(&mut self, pod: &PodFacts, now: Moment) {
        let known = self.all.remove(&pod.key).filter(|known| known.facts.uid == pod.uid);
        let same_ips = known.as_ref().is_some_and(|known| known.facts.ips == pod.ips);
        let mut told = known.unwrap_or_else(|| Told {
            facts: pod.clone(),
            order: 0,
            is_lost: false,
            not_ready: None,
            lost_since: None,
            was_ready: false,
            doubted: None,
            first: now,
            ip_since: now,
            had_another_ip: false,
            had: BTreeSet::new(),
            wrongly_open: None,
            node_gone: false,
        });
        told.had_another_ip |= !told.facts.ips.is_empty() && told.facts.ips != pod.ips;
        told.had.extend(&pod.ips);
        let open = pod.gate.as_deref().map(|gate| gate.shown);
        let is_wrong = matches!(open, Some(Shown::Open(Some(ip))) if !pod.ips.contains(&ip));
        told.wrongly_open = is_wrong.then(|| told.wrongly_open.unwrap_or(now));
        if !same_ips {
            self.order += 1;
            (told.ip_since, told.node_gone) = (now, false);
            told.order = if pod.terminating { 0 } else { self.order };
        }
        if pod.readiness.is_ready() {
            (told.was_ready, told.not_ready, told.is_lost) = (true, None, false);
        } else if told.was_ready {
            told.not_ready = told.not_ready.or(Some(now));
        }
        (told.facts, told.doubted) = (pod.clone(), None);
        self.all.insert(pod.key.clone(), told);
        self.judge_addresses(now);
    }
}
