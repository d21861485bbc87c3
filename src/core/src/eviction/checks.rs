//! Which pods are checked, and which wait for that: one at a time of each namespace. Two that are answered side by side
//! would both be allowed.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::model::{ObjectKey, WallTime};

/// See the module.
#[derive(Debug, Default)]
pub struct Checks {
    /// The namespaces in which one is under way.
    open: BTreeSet<Arc<str>>,
    /// Those that wait for it to end, by namespace: who was asked to leave first is first.
    queues: BTreeMap<Arc<str>, BTreeSet<(WallTime, ObjectKey)>>,
}

impl Checks {
    /// Whether another check of the namespace of this pod is under way. Then the pod, which is asked to leave since then,
    /// has its turn later.
    pub fn waits(&mut self, pod: &ObjectKey, since: WallTime) -> bool {
        let waits = self.open.contains(&pod.namespace);
        if waits {
            self.queues.entry(pod.namespace.clone()).or_default().insert((since, pod.clone()));
        }
        waits
    }

    /// A pod is checked.
    pub fn begin(&mut self, pod: &ObjectKey) {
        self.open.insert(pod.namespace.clone());
    }

    /// That has ended.
    pub fn end(&mut self, pod: &ObjectKey) {
        self.open.remove(&pod.namespace);
    }

    /// A pod does not leave any more.
    pub fn forget(&mut self, pod: &ObjectKey) {
        if let Some(queue) = self.queues.get_mut(&pod.namespace) {
            queue.retain(|(_, waits)| waits != pod);
        }
    }

    /// Those that have their turn now. If one does not check after all, the next one may.
    pub fn take(&mut self) -> Vec<ObjectKey> {
        let mut turns = Vec::new();
        self.queues.retain(|namespace, queue| {
            if !self.open.contains(namespace) {
                turns.extend(queue.pop_first().map(|(_, pod)| pod));
            }
            !queue.is_empty()
        });
        turns
    }
}
