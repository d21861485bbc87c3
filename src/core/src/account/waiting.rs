//! For how long calls that are due wait for a token of AWS's limits, or for their turn in a burst.

use std::{collections::BTreeMap, time::Duration};

use crate::model::{Moment, TargetGroupArn};

/// Since when the calls of an action wait, by target group.
#[derive(Debug, Default)]
pub struct Waiting(BTreeMap<TargetGroupArn, Moment>);

impl Waiting {
    /// A call about this group goes now: for how long it has waited.
    pub fn goes(&mut self, group: &TargetGroupArn, now: Moment) -> Duration {
        self.0.remove(group).map_or(Duration::ZERO, |since| now.since(since))
    }

    /// Calls about these groups, and no others, are due and have to wait.
    pub fn stay(&mut self, groups: impl Iterator<Item = TargetGroupArn>, now: Moment) {
        let before = std::mem::take(&mut self.0);
        self.0.extend(groups.map(|group| {
            let since = before.get(&group).copied().unwrap_or(now);
            (group, since)
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::arn;

    fn at(ms: u64) -> Moment {
        Moment::after_start(Duration::from_millis(ms))
    }

    #[test]
    fn a_call_has_waited_since_it_first_had_to() {
        let mut waiting = Waiting::default();
        assert_eq!(waiting.goes(&arn("blue"), at(5)), Duration::ZERO);
        waiting.stay([arn("blue")].into_iter(), at(10));
        waiting.stay([arn("blue"), arn("green")].into_iter(), at(20));
        assert_eq!(waiting.goes(&arn("blue"), at(40)), Duration::from_millis(30));
        assert_eq!(waiting.goes(&arn("blue"), at(50)), Duration::ZERO);
    }

    #[test]
    fn what_is_no_longer_due_has_not_waited() {
        let mut waiting = Waiting::default();
        waiting.stay([arn("blue")].into_iter(), at(10));
        waiting.stay([].into_iter(), at(20));
        waiting.stay([arn("blue")].into_iter(), at(30));
        assert_eq!(waiting.goes(&arn("blue"), at(40)), Duration::from_millis(10));
    }
}
