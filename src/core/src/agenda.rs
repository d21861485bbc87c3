//! What of many pods is due in which order: most often when each is looked at next.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{Moment, ObjectKey};

/// Pods in the order of what is kept of each.
#[derive(Debug, Default)]
pub struct Agenda<T = Moment> {
    due: BTreeMap<ObjectKey, T>,
    in_order: BTreeSet<(T, ObjectKey)>,
}

impl<T: Copy + Ord> Agenda<T> {
    /// A pod is due then; `None`: not before something happens to it.
    pub fn put(&mut self, pod: &ObjectKey, due: Option<T>) {
        if let Some(before) = self.due.remove(pod) {
            self.in_order.remove(&(before, pod.clone()));
        }
        if let Some(due) = due {
            self.due.insert(pod.clone(), due);
            self.in_order.insert((due, pod.clone()));
        }
    }

    /// A pod is due then, if not before.
    pub fn hasten(&mut self, pod: &ObjectKey, due: T) {
        if self.due.get(pod).is_none_or(|before| *before > due) {
            self.put(pod, Some(due));
        }
    }

    /// When the first one is due.
    pub fn next_due(&self) -> Option<T> {
        self.in_order.first().map(|(due, _)| *due)
    }

    /// The first one.
    pub fn pop(&mut self) -> Option<ObjectKey> {
        let (_, pod) = self.in_order.pop_first()?;
        self.due.remove(&pod);
        Some(pod)
    }

    /// The first one that is due by now.
    pub fn take(&mut self, now: T) -> Option<ObjectKey> {
        self.next_due().filter(|due| *due <= now).and_then(|_| self.pop())
    }
}
