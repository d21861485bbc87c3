//! Which account a target group belongs to.

use std::sync::Arc;

use crate::model::TargetGroupArn;

/// What tells an account from others. AWS limits calls, and names target groups, by account and region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountKey {
    /// Its 12 digits.
    pub id: Box<str>,
    /// The region.
    pub region: Box<str>,
    /// The ARN of the role that is taken on there.
    pub role: Box<str>,
}

/// Where the account of a target group is, of the first one and one for each key; the first, if the group is none of
/// theirs or is meant by its name.
pub(super) fn place(keys: &[AccountKey], group: Option<&TargetGroupArn>) -> usize {
    let is_of = |key: &AccountKey| {
        group.is_some_and(|group| group.account() == &*key.id && group.region() == &*key.region)
    };
    keys.iter().position(is_of).map_or(0, |at| at + 1)
}

/// The calls that AWS throttles, of each account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Throttled {
    pub(super) keys: Arc<[AccountKey]>,
    pub(super) calls: Vec<Option<&'static str>>,
}

impl Throttled {
    /// Those of the account of this group.
    pub fn of(&self, group: &TargetGroupArn) -> Option<&'static str> {
        self.calls.get(place(&self.keys, Some(group))).copied().flatten()
    }
}
