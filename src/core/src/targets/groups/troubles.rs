//! Finds the problems of a target group, which last until they are solved. Each function returns or reports whether the
//! problems have changed.

use std::{collections::BTreeSet, time::Duration};

use super::{Group, News};
use crate::model::{
    Call, CallItem, Failure, FailureClass, HealthState, Moment, Target, TargetGroupArn, explanation::Word,
    troubles::Troubles,
};

/// A target that remains unused this long, while others are in use, is in a zone that the load balancer does not serve.
/// A new listener may take a moment to appear for all targets.
const ZONE_NOT_SERVED_FOR: Duration = Duration::from_secs(10);

/// How often Headgate reports again that deregistrations are held.
const SAID_EVERY: Duration = Duration::from_mins(10);

/// How many rejected targets Headgate reports per action.
const SAID: usize = 10;

impl Group {
    /// Records the end of a call of this action about these targets. A rejection and its report (from `said`) are kept
    /// until the problem is solved.
    pub fn call_ended(
        &mut self,
        action: &'static str,
        items: &[CallItem],
        failure: Option<&Failure>,
        said: impl FnOnce(&Failure, Option<&CallItem>) -> Option<Word>,
    ) -> bool {
        let Troubles { refusals, failing, quota, .. } = &mut self.troubles;
        if let Some(failure) = failure.filter(|failure| failure.class == FailureClass::Full) {
            *quota = Some(failure.clone());
        }
        match failure {
            Some(failure) => _ = failing.insert(action, failure.clone()),
            None => _ = failing.remove(action),
        }
        let before = refusals.clone();
        let registrations = &self.registrations;
        refusals.retain(|(action, target), _| {
            target.is_none_or(|target| match *action {
                Call::DEREGISTER => registrations.is_to_go(&target),
                _ => registrations.wants(&target),
            })
        });
        match (failure, items) {
            (None, items) => {
                refusals.remove(&(action, None));
                for item in items {
                    refusals.remove(&(action, Some(item.target)));
                }
            }
            // AWS rejects one of several targets. Halving the call finds it.
            (Some(Failure { class: FailureClass::Refused, .. }), [_, _, ..]) => {}
            (Some(failure), items) => {
                let item = items.first().filter(|_| failure.class == FailureClass::Refused);
                // If AWS rejects many targets, only a few are reported.
                let said_of = |(said, target): &&(&str, Option<Target>)| *said == action && target.is_some();
                let others =
                    refusals.keys().filter(said_of).filter(|key| key.1 != item.map(|item| item.target));
                if item.is_some() && others.count() >= SAID {
                    return *refusals != before;
                }
                if let Some(said) = said(failure, item) {
                    refusals.insert((action, item.map(|item| item.target)), said);
                }
            }
        }
        *refusals != before
    }

    /// Records the problem of the ledger, if it has one.
    pub fn ledger_trouble(&mut self, trouble: Option<Word>) -> bool {
        let changed = self.troubles.ledger != trouble;
        self.troubles.ledger = trouble;
        changed
    }

    /// Records the healthy targets of Headgate that another cluster may have by now.
    pub fn suspect(&mut self, suspects: BTreeSet<Target>) -> bool {
        let changed = self.troubles.suspects != suspects;
        self.troubles.suspects = suspects;
        changed
    }

    /// Checks whether deregistrations are held, and whether registrations do not fit.
    pub(super) fn note_waiting(&mut self, arn: &TargetGroupArn, now: Moment, news: &mut Vec<News>) {
        let since = self.troubles.holds.map_or(now, |(since, _)| since);
        let holds = self.registrations.held().next().is_some();
        let holds = holds.then(|| (since, now.since(since).as_secs() / SAID_EVERY.as_secs()));
        let unplaced = self.registrations.unplaced();
        let before = (self.troubles.holds, self.troubles.unplaced);
        (self.troubles.holds, self.troubles.unplaced) = (holds, unplaced);
        news.extend((before != (holds, unplaced)).then(|| News::Said(arn.clone())));
    }

    /// Records which targets are in a zone that is not served, after a read.
    pub(super) fn note_zones(&mut self, now: Moment) {
        let in_zone = |target: &&Target| self.observation.state(target) == Some(HealthState::ZoneNotServed);
        let before = std::mem::take(&mut self.troubles.zone_not_served);
        let since = |target: &Target| (*target, before.get(target).copied().unwrap_or(now));
        self.troubles.zone_not_served = self.registrations.wanted().filter(in_zone).map(since).collect();
        self.troubles.said_zone = match self.troubles.zone_not_served.values().min() {
            Some(since) => self.troubles.said_zone || now.since(*since) >= ZONE_NOT_SERVED_FOR,
            None => false,
        };
    }
}
