//! Reports to users as Events. Each is emitted once, until it changes.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{
    object::{ObjectKey, Uid},
    reason::Reason,
};

/// The maximum length of an Event without a link, in characters.
pub const LONGEST: usize = 200;

/// The object an Event is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum About {
    /// A Service.
    Service(ObjectKey, Uid),
    /// A TargetBinding that a user wrote.
    TargetBinding(ObjectKey, Uid),
    /// A pod.
    Pod(ObjectKey, Uid),
    /// A TargetGroupGrant, by its name.
    Grant(Arc<str>, Uid),
    /// An IngressDaemonSet.
    IngressDaemonSet(ObjectKey, Uid),
}

/// An Event. It is a Warning, or Normal if its reason is good news.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The object.
    pub about: About,
    /// The reason word.
    pub reason: Reason,
    /// The problem, and what to do. At most [`LONGEST`] characters.
    pub note: String,
}

/// Remembers the reports about a subject. The same problem is reported once, and again only after it has ended or
/// changed.
///
/// Any ordered type can be a subject. Its owner reports all its problems at once.
#[derive(Clone, Debug)]
pub struct Notices<S> {
    said: BTreeMap<S, BTreeSet<(Reason, String)>>,
}

impl<S> Default for Notices<S> {
    fn default() -> Self {
        Self { said: BTreeMap::new() }
    }
}

impl<S: Ord + Clone> Notices<S> {
    /// Replaces the present problems of `subject`. Returns those that were not reported yet.
    pub fn set(
        &mut self,
        subject: &S,
        problems: impl IntoIterator<Item = (Reason, String)>,
    ) -> Vec<(Reason, String)> {
        let problems: BTreeSet<_> = problems.into_iter().collect();
        if problems.is_empty() {
            self.said.remove(subject);
            return Vec::new();
        }
        let before = self.said.insert(subject.clone(), problems.clone()).unwrap_or_default();
        problems.difference(&before).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_said_once_until_it_has_gone_or_changed() {
        let mut notices = Notices::default();
        let problem = |text: &str| (Reason::InvalidBinding, text.to_owned());
        assert_eq!(notices.set(&"web", [problem("a")]), [problem("a")]);
        assert_eq!(notices.set(&"web", [problem("a")]), []);
        assert_eq!(notices.set(&"web", [problem("a"), problem("b")]), [problem("b")]);
        assert_eq!(notices.set(&"web", []), []);
        assert_eq!(notices.set(&"web", [problem("a")]), [problem("a")]);
    }
}
