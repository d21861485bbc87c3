//! The names of Kubernetes objects.

use std::{borrow::Cow, collections::BTreeMap, fmt, sync::Arc};

/// The namespace and name of an object. Two objects that had the same name at different times have different UIDs
/// ([`Uid`]).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// The namespace.
    pub namespace: Arc<str>,
    /// The name within the namespace.
    pub name: Arc<str>,
}

impl ObjectKey {
    /// Creates the key for `namespace`/`name`.
    pub fn new(namespace: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

/// Iterates over the entries of a namespace.
pub fn within<'a, T>(
    all: &'a BTreeMap<ObjectKey, T>,
    namespace: &str,
) -> impl Iterator<Item = (&'a ObjectKey, &'a T)> {
    let from = all.range(ObjectKey::new(namespace, "")..);
    from.take_while(move |(key, _)| &*key.namespace == namespace)
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// `metadata.uid`. Headgate tracks pods by UID, never by name or IP.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uid(Arc<str>);

impl Uid {
    /// The UID as the API server writes it.
    pub fn new(uid: impl Into<Arc<str>>) -> Self {
        Self(uid.into())
    }

    /// The UID as the API server writes it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Labels or a selector, as pairs that are sorted by key and have unique keys.
///
/// One string contains all pairs, in the form `key NUL value NUL`. In a cluster with 100,000 pods, separate strings
/// would take most of the memory for pods. Pods of one owner share the string (see
/// [`Shared`](crate::model::shared::Shared)).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Labels(Arc<str>);

/// The API server accepts no key or value that contains this character.
const END: char = '\0';

/// Replaces NUL in a text, so that an invalid value still counts as one label.
fn printed(text: &str) -> Cow<'_, str> {
    if text.contains(END) { text.replace(END, "\u{fffd}").into() } else { text.into() }
}

impl Labels {
    /// Whether there are no labels.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The value of `key`.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.pairs().find(|(own, _)| *own == key).map(|(_, value)| value)
    }

    /// Whether `self`, as the selector of a Service, selects `labels`.
    ///
    /// An empty selector selects nothing, because Kubernetes manages no endpoints for a Service without a selector.
    ///
    /// The pairs are sorted, so one pass is enough, even if a tenant writes ten thousand labels.
    pub fn selects(&self, labels: &Self) -> bool {
        self.compare(labels, || ())
    }

    fn compare(&self, labels: &Self, mut step: impl FnMut()) -> bool {
        let mut there = labels.pairs();
        let mut is_there = |wanted: (&str, &str)| {
            let reaches = |(key, _): &(&str, &str)| {
                step();
                *key >= wanted.0
            };
            there.find(reaches) == Some(wanted)
        };
        !self.is_empty() && self.pairs().all(&mut is_there)
    }

    /// The pairs, sorted by key.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        let mut parts = self.0.split_terminator(END);
        std::iter::from_fn(move || Some((parts.next()?, parts.next()?)))
    }

    pub(crate) fn text(&mut self) -> &mut Arc<str> {
        &mut self.0
    }
}

impl Default for Labels {
    fn default() -> Self {
        Self("".into())
    }
}

impl<K: AsRef<str>, V: AsRef<str>> FromIterator<(K, V)> for Labels {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        let pairs: Vec<(K, V)> = pairs.into_iter().collect();
        let pairs = pairs.iter().map(|(key, value)| (printed(key.as_ref()), printed(value.as_ref())));
        let mut pairs: Vec<(Cow<str>, Cow<str>)> = pairs.collect();
        pairs.sort();
        pairs.dedup_by(|a, b| a.0 == b.0);
        let mut text = String::new();
        for part in pairs.iter().flat_map(|(key, value)| [key, value]) {
            text.push_str(part);
            text.push(END);
        }
        Self(text.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selector_selects_pods_that_carry_all_its_pairs() {
        let labels = Labels::from_iter([("app", "web"), ("zone", "a")]);
        assert!(Labels::from_iter([("app", "web")]).selects(&labels));
        assert!(Labels::from_iter([("zone", "a"), ("app", "web")]).selects(&labels));
        assert!(!Labels::from_iter([("app", "api")]).selects(&labels));
        assert!(!Labels::from_iter([("app", "web"), ("tier", "front")]).selects(&labels));
    }

    #[test]
    fn a_selector_is_compared_with_labels_in_as_many_steps_as_both_have_pairs() {
        let many = |from: u32, to: u32| {
            (from..to).map(|at| (format!("key-{at:06}"), "x".to_owned())).collect::<Labels>()
        };
        let (all, half, beyond) = (many(0, 50_000), many(25_000, 50_000), many(49_999, 50_001));
        for (selector, labels, selects) in [
            (&all, &all, true),
            (&half, &all, true),
            (&all, &half, false),
            (&beyond, &all, false),
            (&all, &Labels::default(), false),
        ] {
            let mut steps = 0;
            assert_eq!(selector.compare(labels, || steps += 1), selects);
            assert!(steps <= selector.pairs().count() + labels.pairs().count(), "{steps}");
        }
    }

    #[test]
    fn a_uid_is_written_as_it_is() {
        assert_eq!(Uid::new("75248c45").to_string(), "75248c45");
    }

    #[test]
    fn labels_keep_empty_values_and_are_told_apart_by_what_follows_a_key() {
        let labels = Labels::from_iter([("b", ""), ("a", "b"), ("c", "")]);
        assert_eq!(labels.pairs().collect::<Vec<_>>(), [("a", "b"), ("b", ""), ("c", "")]);
        assert_eq!((labels.get("b"), labels.get(""), labels.get("d")), (Some(""), None, None));
        assert!(Labels::from_iter([("c", "")]).selects(&labels));
        assert!(!Labels::from_iter([("b", "c")]).selects(&labels));
        assert!(!Labels::from_iter([("", "")]).selects(&labels));
    }

    #[test]
    fn of_two_values_of_a_key_one_stays_and_an_end_mark_within_makes_no_pair() {
        let labels = Labels::from_iter([("a", "2"), ("a", "1"), ("b", "x\0c\0y")]);
        assert_eq!(labels.pairs().count(), 2);
        assert_eq!((labels.get("a"), labels.get("c")), (Some("1"), None));
        let sorted = Labels::from_iter([("a\0", "1"), ("a ", "2")]);
        assert!(sorted.selects(&sorted) && sorted.pairs().is_sorted());
    }

    #[test]
    fn an_empty_selector_selects_nothing() {
        assert!(!Labels::default().selects(&Labels::from_iter([("app", "web")])));
    }
}
