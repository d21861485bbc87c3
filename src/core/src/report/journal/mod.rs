//! The journal: what became of targets, pods, nodes and this replica's lead, in the order in which it came to be known here.
//!
//! * **Owns** the last entries, up to a number of them.
//! * **Flow.** The engine emits changes ([`Transition`]); the owner of a journal records them, and answers questions.
//! * **Guarantees.** It never holds more than that number. When it is full, the namespace with the most entries loses
//!   its oldest one, so a namespace with endless pods takes nothing from others. Pods that were never targets are not
//!   kept.
//! * **Assumptions.** Each replica has its own, from the moment it began. What only a leader knows (what AWS answered
//!   and showed) is in it from the moment when it led.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use crate::model::{Entry, Moment, ObjectKey, Transition, Uid, notice::About, transition::PodStep};

/// See the module.
#[derive(Clone, Debug)]
pub struct Journal {
    most: usize,
    length: usize,
    last: u64,
    forgotten: u64,
    leads_since: Option<Moment>,
    /// By namespace; what is of none has the empty one.
    rings: BTreeMap<Arc<str>, VecDeque<Entry>>,
    /// How many entries there are of each pod.
    pods: BTreeMap<Uid, usize>,
}

impl Journal {
    /// An empty one that holds `most` entries at most.
    pub const fn new(most: usize) -> Self {
        Self {
            most,
            length: 0,
            last: 0,
            forgotten: 0,
            leads_since: None,
            rings: BTreeMap::new(),
            pods: BTreeMap::new(),
        }
    }

    /// Records a change. Returns whether it was worth an entry.
    pub fn record(&mut self, what: Transition, at: Moment) -> bool {
        if let Transition::Leads(leads) = what {
            self.leads_since = leads.then_some(at);
        }
        // Most pods of a cluster are never targets.
        if let Transition::Pod(pod, PodStep::Ended | PodStep::Gone | PodStep::Gate(_)) = &what
            && !self.pods.contains_key(&pod.uid)
        {
            return false;
        }
        if let Some((_, uid)) = pod(&what) {
            *self.pods.entry(uid.clone()).or_default() += 1;
        }
        self.last += 1;
        let (number, namespace) = (self.last, namespace(&what));
        self.rings.entry(namespace).or_default().push_back(Entry { number, at, what });
        self.length += 1;
        if self.length > self.most {
            self.forget_one();
        }
        true
    }

    fn forget_one(&mut self) {
        let fullest = self.rings.iter_mut().max_by_key(|(_, ring)| ring.len());
        let Some((namespace, ring)) = fullest else { return };
        let Some(oldest) = ring.pop_front() else { return };
        if ring.is_empty() {
            let namespace = namespace.clone();
            self.rings.remove(&namespace);
        }
        (self.length, self.forgotten) = (self.length - 1, self.forgotten + 1);
        let Some((_, uid)) = pod(&oldest.what) else { return };
        if let Some(left) = self.pods.get_mut(uid) {
            *left -= 1;
            if *left == 0 {
                self.pods.remove(uid);
            }
        }
    }

    /// Since when this replica leads; `None`: it does not.
    pub const fn leads_since(&self) -> Option<Moment> {
        self.leads_since
    }

    /// How many entries were dropped to make room.
    pub const fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// How many entries there are.
    pub const fn len(&self) -> usize {
        self.length
    }

    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The number of the last entry; zero: there was none.
    pub const fn last(&self) -> u64 {
        self.last
    }

    /// The last entries, up to `most`, the oldest first: of one namespace, or of all.
    pub fn latest(&self, namespace: Option<&str>, most: usize) -> Vec<&Entry> {
        let mut found: Vec<&Entry> =
            self.rings_of(namespace).flat_map(|ring| ring.iter().rev().take(most)).collect();
        found.sort_unstable_by_key(|entry| entry.number);
        found.split_off(found.len().saturating_sub(most))
    }

    /// The first entries after that of this number, up to `most`, the oldest first: of one namespace, or of all.
    pub fn after(&self, number: u64, namespace: Option<&str>, most: usize) -> Vec<&Entry> {
        let new = |ring: &VecDeque<Entry>| ring.partition_point(|entry| entry.number <= number);
        let of = self.rings_of(namespace);
        let mut found: Vec<&Entry> = of.flat_map(|ring| ring.range(new(ring)..).take(most)).collect();
        found.sort_unstable_by_key(|entry| entry.number);
        found.truncate(most);
        found
    }

    /// The last entries about pods of this name, up to `most`, the oldest first.
    pub fn of_pod(&self, key: &ObjectKey, most: usize) -> Vec<&Entry> {
        let is_its = |entry: &&Entry| pod(&entry.what).is_some_and(|(own, _)| own == key);
        let ring = self.rings.get(&key.namespace).into_iter();
        let mut found: Vec<&Entry> =
            ring.flat_map(|ring| ring.iter().rev().filter(is_its).take(most)).collect();
        found.reverse();
        found
    }

    /// The last entries about this node, up to `most`, the oldest first.
    pub fn of_node(&self, name: &str, most: usize) -> Vec<&Entry> {
        let is_its = |entry: &&Entry| matches!(&entry.what, Transition::Node(node, _) if &**node == name);
        let ring = self.rings.get("").into_iter();
        let mut found: Vec<&Entry> =
            ring.flat_map(|ring| ring.iter().rev().filter(is_its).take(most)).collect();
        found.reverse();
        found
    }

    fn rings_of(&self, namespace: Option<&str>) -> impl Iterator<Item = &VecDeque<Entry>> {
        let is_asked = move |own: &str| namespace.is_none_or(|asked| asked == own);
        self.rings.iter().filter(move |(own, _)| is_asked(own)).map(|(_, ring)| ring)
    }
}

/// The pod that it is about.
fn pod(what: &Transition) -> Option<(&ObjectKey, &Uid)> {
    match what {
        Transition::Target(_, _, owner, _) | Transition::Pod(owner, _) => Some((&owner.pod, &owner.uid)),
        Transition::Said(notice) => match &notice.about {
            About::Pod(key, uid) => Some((key, uid)),
            _ => None,
        },
        Transition::Node(..) | Transition::Leads(_) => None,
    }
}

fn namespace(what: &Transition) -> Arc<str> {
    match what {
        Transition::Target(_, _, owner, _) | Transition::Pod(owner, _) => owner.pod.namespace.clone(),
        Transition::Said(notice) => match &notice.about {
            About::Service(key, _)
            | About::TargetBinding(key, _)
            | About::Pod(key, _)
            | About::IngressDaemonSet(key, _) => key.namespace.clone(),
            About::Grant(..) => "".into(),
        },
        Transition::Node(..) | Transition::Leads(_) => "".into(),
    }
}

#[cfg(test)]
mod tests;
