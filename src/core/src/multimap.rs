//! A map from keys to non-empty sets of values.

use std::collections::{BTreeMap, BTreeSet};

/// The values of each key. A key without values is not in the map.
#[derive(Clone, Debug)]
pub struct Multimap<K, V>(BTreeMap<K, BTreeSet<V>>);

impl<K, V> Default for Multimap<K, V> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Clone + Ord, V: Clone + Ord> Multimap<K, V> {
    pub fn put(&mut self, key: &K, value: &V) {
        self.0.entry(key.clone()).or_default().insert(value.clone());
    }

    /// Removes a value from the set of a key.
    pub fn take(&mut self, key: &K, value: &V) {
        let Some(values) = self.0.get_mut(key) else { return };
        values.remove(value);
        if values.is_empty() {
            self.0.remove(key);
        }
    }

    pub fn of<'a>(&'a self, key: &K) -> impl Iterator<Item = &'a V> + use<'a, K, V> {
        self.0.get(key).into_iter().flatten()
    }

    /// Whether the key has at least one value.
    pub fn has(&self, key: &K) -> bool {
        self.0.contains_key(key)
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_there_while_it_has_any_value() {
        let mut map = Multimap::default();
        for (key, value) in [(1, 'a'), (1, 'b'), (2, 'a')] {
            map.put(&key, &value);
        }
        assert_eq!((map.of(&1).collect::<String>(), map.len()), ("ab".into(), 2));
        map.take(&1, &'a');
        map.take(&2, &'a');
        map.take(&3, &'a');
        assert_eq!((map.of(&1).collect::<String>(), map.of(&2).count()), ("b".into(), 0));
        assert_eq!((map.has(&1), map.has(&2), map.len()), (true, false, 1));
    }
}
