//! When each of many pods is looked at next, and what it is looked at for before.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{Moment, ObjectKey, TargetGroupArn};

/// What has happened.
#[derive(Clone, Copy, Debug)]
pub enum Touched<'a> {
    /// Something about this pod.
    Pod(&'a ObjectKey),
    /// The removal of a target at an address of this pod is sent.
    Removal(&'a ObjectKey),
    /// Something about this target group.
    Group(&'a TargetGroupArn),
    /// What binds the pods of this namespace was decided anew.
    Namespace(&'a str),
    /// Something that may matter to any: nodes, or which namespaces are selected.
    All,
}

/// Those of a namespace.
pub fn within<'a, T>(
    pods: &'a BTreeMap<ObjectKey, T>,
    namespace: &str,
) -> impl Iterator<Item = (&'a ObjectKey, &'a T)> {
    let from = pods.range(ObjectKey::new(namespace, "")..);
    from.take_while(move |(pod, _)| &*pod.namespace == namespace)
}

/// The pods that something is about which names no target group.
pub fn these<T>(pods: &BTreeMap<ObjectKey, T>, touched: Touched<'_>) -> Vec<ObjectKey> {
    match touched {
        Touched::Pod(pod) => pods.contains_key(pod).then(|| pod.clone()).into_iter().collect(),
        Touched::Namespace(namespace) => within(pods, namespace).map(|(pod, _)| pod.clone()).collect(),
        Touched::All => pods.keys().cloned().collect(),
        Touched::Removal(_) | Touched::Group(_) => Vec::new(),
    }
}

/// See the module.
#[derive(Debug, Default)]
pub struct Agenda {
    due: BTreeMap<ObjectKey, Moment>,
    in_order: BTreeSet<(Moment, ObjectKey)>,
}

impl Agenda {
    /// A pod is looked at then; `None`: not before something happens to it.
    pub fn put(&mut self, pod: &ObjectKey, due: Option<Moment>) {
        if let Some(before) = self.due.remove(pod) {
            self.in_order.remove(&(before, pod.clone()));
        }
        if let Some(due) = due {
            self.due.insert(pod.clone(), due);
            self.in_order.insert((due, pod.clone()));
        }
    }

    /// A pod is looked at then, if not before.
    pub fn hasten(&mut self, pod: &ObjectKey, due: Moment) {
        if self.due.get(pod).is_none_or(|before| *before > due) {
            self.put(pod, Some(due));
        }
    }

    /// When the first one is looked at.
    pub fn next_due(&self) -> Option<Moment> {
        self.in_order.first().map(|(due, _)| *due)
    }

    /// The first one that is looked at now.
    pub fn take(&mut self, now: Moment) -> Option<ObjectKey> {
        let (_, pod) = self.in_order.first().filter(|(due, _)| *due <= now).cloned()?;
        self.put(&pod, None);
        Some(pod)
    }
}
