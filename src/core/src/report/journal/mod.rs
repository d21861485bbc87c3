//! The journal of changes to targets, pods, nodes and this replica's leadership, in the order in which this replica
//! learned about the changes.
//!
//! * **Owns** the last entries, up to a maximum number.
//! * **Flow.** The engine emits changes ([`Transition`]). The owner of a journal records the changes and answers
//!   queries.
//! * **Guarantees.** The journal never exceeds its maximum size. A full journal drops the oldest entry of the namespace
//!   with the most entries. A namespace with many pods therefore does not displace the entries of other namespaces. The
//!   journal contains no entries about pods that were never targets.
//! * **Assumptions.** Each replica has its own journal, which begins when the replica starts. AWS's answers appear in
//!   the journal only while the replica is the leader.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use crate::model::{Entry, Moment, ObjectKey, Transition, Uid, notice::About, transition::PodStep};

/// The journal of one replica, as described in the module docs.
#[derive(Clone, Debug)]
pub struct Journal {
    most: usize,
    length: usize,
    last: u64,
    forgotten: u64,
    leads_since: Option<Moment>,
    /// The entries by namespace, with an empty key for entries without a namespace.
    rings: BTreeMap<Arc<str>, VecDeque<Entry>>,
    /// The number of entries about each pod.
    pods: BTreeMap<Uid, usize>,
}

impl Journal {
    /// Creates an empty journal for at most `most` entries.
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

    /// Records a change, and returns whether the journal keeps the entry.
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

    /// When this replica became the leader, or `None` if it is not the leader.
    pub const fn leads_since(&self) -> Option<Moment> {
        self.leads_since
    }

    /// The number of entries that the journal has dropped to make room.
    pub const fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// The number of entries.
    pub const fn len(&self) -> usize {
        self.length
    }

    /// Whether there are no entries.
    pub const fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The number of the last entry, or zero before the first entry.
    pub const fn last(&self) -> u64 {
        self.last
    }

    /// The last entries of one namespace or of all namespaces, at most `most`, with the oldest entry first.
    pub fn latest(&self, namespace: Option<&str>, most: usize) -> Vec<&Entry> {
        let mut found: Vec<&Entry> =
            self.rings_of(namespace).flat_map(|ring| ring.iter().rev().take(most)).collect();
        found.sort_unstable_by_key(|entry| entry.number);
        found.split_off(found.len().saturating_sub(most))
    }

    /// The first entries after this number, of one namespace or of all namespaces, at most `most`, with the oldest
    /// entry first.
    pub fn after(&self, number: u64, namespace: Option<&str>, most: usize) -> Vec<&Entry> {
        let new = |ring: &VecDeque<Entry>| ring.partition_point(|entry| entry.number <= number);
        let of = self.rings_of(namespace);
        let mut found: Vec<&Entry> = of.flat_map(|ring| ring.range(new(ring)..).take(most)).collect();
        found.sort_unstable_by_key(|entry| entry.number);
        found.truncate(most);
        found
    }

    /// The last entries about pods with this name, at most `most`, with the oldest entry first.
    pub fn of_pod(&self, key: &ObjectKey, most: usize) -> Vec<&Entry> {
        let is_its = |entry: &&Entry| pod(&entry.what).is_some_and(|(own, _)| own == key);
        let ring = self.rings.get(&key.namespace).into_iter();
        let mut found: Vec<&Entry> =
            ring.flat_map(|ring| ring.iter().rev().filter(is_its).take(most)).collect();
        found.reverse();
        found
    }

    /// The last entries about this node, at most `most`, with the oldest entry first.
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

/// The pod of an entry.
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
