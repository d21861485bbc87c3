//! Stores only one copy of data that many pods have in common.
//!
//! Emptying the store is safe at any time and costs only memory. Each reader of objects has its own store, so that a
//! list of 100,000 pods uses little memory while Headgate reads it.

use std::{collections::BTreeSet, sync::Arc};

use crate::model::pod::{NamedPort, PodFacts};

/// The minimum size at which the store searches for unused entries.
const SMALL: usize = 256;

/// The namespaces, labels, nodes and ports of known pods.
#[derive(Debug, Default)]
pub struct Shared {
    texts: Pool<str>,
    ports: Pool<[NamedPort]>,
}

impl Shared {
    /// Returns the pod with the data that it shares with other pods.
    #[must_use]
    pub fn share(&mut self, mut pod: PodFacts) -> PodFacts {
        self.texts.share(&mut pod.key.namespace);
        self.texts.share(pod.labels.text());
        self.ports.share(&mut pod.ports);
        if let Some(node) = &mut pod.node {
            self.texts.share(node);
        }
        pod
    }
}

#[derive(Debug)]
struct Pool<T: ?Sized + Ord> {
    all: BTreeSet<Arc<T>>,
    /// The size at which the pool drops unused entries.
    sweep_at: usize,
}

impl<T: ?Sized + Ord> Default for Pool<T> {
    fn default() -> Self {
        Self { all: BTreeSet::new(), sweep_at: SMALL }
    }
}

impl<T: ?Sized + Ord> Pool<T> {
    fn share(&mut self, item: &mut Arc<T>) {
        if let Some(same) = self.all.get(&**item) {
            *item = same.clone();
            return;
        }
        if self.all.len() >= self.sweep_at {
            self.all.retain(|kept| Arc::strong_count(kept) > 1);
            self.sweep_at = (2 * self.all.len()).max(SMALL);
        }
        self.all.insert(item.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::pod;

    #[test]
    fn pods_that_are_alike_hold_the_same_namespace_labels_and_ports() {
        let mut shared = Shared::default();
        let a = shared.share(pod("a", "u-a").port("http", 8080).build());
        let b = shared.share(pod("b", "u-b").port("http", 8080).build());
        assert_eq!(a, PodFacts { ..pod("a", "u-a").port("http", 8080).build() });
        assert!(Arc::ptr_eq(&a.key.namespace, &b.key.namespace) && Arc::ptr_eq(&a.ports, &b.ports));
        assert!(std::ptr::eq(a.labels.get("app").unwrap(), b.labels.get("app").unwrap()));
    }

    #[test]
    fn what_many_pods_have_is_swept_when_there_is_twice_as_much() {
        let mut pool = Pool::default();
        let mut add = |kept: &mut Vec<Arc<str>>, count: usize| {
            for _ in 0..count {
                let mut text: Arc<str> = format!("app-{}", kept.len()).into();
                pool.share(&mut text);
                kept.push(text);
            }
            pool.sweep_at
        };
        let mut kept = Vec::new();
        assert_eq!(add(&mut kept, SMALL), SMALL);
        assert_eq!(add(&mut kept, 1), 2 * SMALL);
        assert_eq!(add(&mut kept, SMALL), 4 * SMALL);
    }

    #[test]
    fn what_no_pod_has_any_more_is_dropped() {
        let mut shared = Shared::default();
        let kept = shared.share(pod("kept", "u").labelled("kept").build());
        for at in 0..10 * SMALL {
            let _ = shared.share(pod("a", "u-a").labelled(&format!("app-{at}")).build());
        }
        assert!(shared.texts.all.len() <= SMALL, "{}", shared.texts.all.len());
        assert!(shared.texts.all.len() > 2, "it is not swept for each that comes");
        let again = shared.share(pod("again", "u-2").labelled("kept").build());
        assert!(std::ptr::eq(kept.labels.get("app").unwrap(), again.labels.get("app").unwrap()));
    }
}
