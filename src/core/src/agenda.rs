//! A queue of items with due times. Most queues hold pods, each with the time of its next check.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{Moment, ObjectKey};

/// A queue of items in the order of their due times.
#[derive(Clone, Debug)]
pub struct Agenda<T = Moment, K = ObjectKey> {
    due: BTreeMap<K, T>,
    in_order: BTreeSet<(T, K)>,
}

impl<T, K> Default for Agenda<T, K> {
    fn default() -> Self {
        Self { due: BTreeMap::new(), in_order: BTreeSet::new() }
    }
}

impl<T: Copy + Ord, K: Clone + Ord> Agenda<T, K> {
    /// Sets the due time of an item. `None`: removes the item from the queue.
    pub fn put(&mut self, what: &K, due: Option<T>) {
        if let Some(before) = self.due.remove(what) {
            self.in_order.remove(&(before, what.clone()));
        }
        if let Some(due) = due {
            self.due.insert(what.clone(), due);
            self.in_order.insert((due, what.clone()));
        }
    }

    /// Makes the item due at this time, unless the item is already due earlier.
    pub fn hasten(&mut self, what: &K, due: T) {
        if self.when(what).is_none_or(|before| before > due) {
            self.put(what, Some(due));
        }
    }

    /// The due time of this item.
    pub fn when(&self, what: &K) -> Option<T> {
        self.due.get(what).copied()
    }

    /// The due time of the first item.
    pub fn next_due(&self) -> Option<T> {
        self.in_order.first().map(|(due, _)| *due)
    }

    /// Removes and returns the first item.
    pub fn pop(&mut self) -> Option<K> {
        let (_, first) = self.in_order.pop_first()?;
        self.due.remove(&first);
        Some(first)
    }

    /// Removes and returns the first item if it is due at `now`.
    pub fn take(&mut self, now: T) -> Option<K> {
        self.next_due().filter(|due| *due <= now).and_then(|_| self.pop())
    }
}
