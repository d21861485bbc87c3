//! Reports to users as Events. Headgate emits each report once, and again only after the report has changed.

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

/// The object that an Event is about.
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

/// An Event, of type Normal for a positive reason and of type Warning for any other reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The object.
    pub about: About,
    /// The reason.
    pub reason: Reason,
    /// The problem and the remedy, in at most [`LONGEST`] characters.
    pub note: String,
}

/// The reports that were already emitted for each subject. Headgate reports a problem again only after the problem was
/// resolved or has changed.
///
/// Any ordered type can be a subject. The owner of a subject reports all problems of the subject in one call.
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
    /// Replaces the current problems of `subject`, and returns the problems that were not reported yet.
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
