//! The next step for a target, with its time and the reason for the wait.

use crate::{
    explanation::{Next, Progress, Step, Word},
    model::{
        FailureClass, Moment, Reason, TargetGroupArn,
        account::{Account, Under},
    },
    report::sayings,
    targets::groups::Group,
};

use super::words;

/// The state of a group that determines the next step for all its targets.
pub struct Due<'a> {
    pub(super) group: &'a Group,
    pub(super) arn: &'a TargetGroupArn,
    /// Why Headgate does not act yet. `None`: Headgate acts.
    pub(super) listed: Option<Word>,
    /// The kinds of calls that AWS throttles.
    pub(super) throttled: Option<&'static str>,
    pub(super) now: Moment,
}

impl Due<'_> {
    /// The next step for a target that should be registered. `turn`: the time at which a rate-limit token is available.
    pub fn registers(&self, account: &Account<'_>, turn: Moment) -> Next {
        let group = self.group;
        let (at, waits) = match account.under {
            Under::Registering => (None, Some((Reason::TargetPending, words::in_flight(Step::Register)))),
            Under::AfterRemoval => (None, Some((account.cause.reason(), words::in_flight(Step::Deregister)))),
            _ if self.listed.is_some() => (None, self.listed.clone()),
            _ if account.paused => (None, Some(self.pause(account))),
            Under::SetAside(until) => {
                (Some(until), Some(self.refused(Step::Register, Reason::TargetRefused)))
            }
            Under::Contested(until) => {
                (Some(until), Some((Reason::UnknownWriter, sayings::unknown_writer(self.arn))))
            }
            _ if group.troubles().ledger.is_some() => {
                (group.next_ledger(self.now), group.troubles().ledger.clone())
            }
            Under::ToNote => (group.next_ledger(self.now), Some((Reason::TargetPending, words::unnoted()))),
            _ => match (group.registrations().unplaced(), &group.troubles().quota) {
                (waiting @ 1.., Some(failure)) => {
                    let word = (Reason::QuotaExceeded, sayings::full(self.arn, waiting, failure));
                    (group.next_addition(), Some(word))
                }
                _ => (Some(group.next_addition().unwrap_or(turn).max(turn)), self.failing(Step::Register)),
            },
        };
        Next { step: Step::Register, at: at.map(|at| at.max(self.now)), waits }
    }

    /// The next step for a target that should be deregistered.
    pub fn deregisters(&self, account: &Account<'_>) -> Option<Next> {
        let group = self.group;
        let (at, waits) = match account.under {
            Under::Removing => (None, Some((account.cause.reason(), words::in_flight(Step::Deregister)))),
            _ if self.listed.is_some() => (None, self.listed.clone()),
            _ if account.paused => (None, Some((Reason::RemovalsPaused, sayings::removals_paused(self.arn)))),
            Under::Held => {
                let word = (Reason::RemovalHeld, sayings::removal_held(self.arn, 0));
                (group.registrations().held_until(), Some(word))
            }
            Under::AfterGate => (None, Some((account.cause.reason(), words::AFTER_GATE.to_owned()))),
            Under::AfterTerm(until) => {
                (Some(until), Some((account.cause.reason(), words::AFTER_TERM.to_owned())))
            }
            Under::SetAside(until) => {
                (Some(until), Some(self.refused(Step::Deregister, Reason::TargetRefused)))
            }
            // Headgate takes no step for the target. The reason of the place explains why.
            Under::Doubted | Under::Suspect => return None,
            _ => (group.next_removal(), self.failing(Step::Deregister)),
        };
        Some(Next { step: Step::Deregister, at: at.map(|at| at.max(self.now)), waits })
    }

    /// The next `DescribeTargetHealth` call, for a registered target. Each argument is the time at which a rate-limit
    /// token is available: for an urgent call, and for a periodic call.
    pub fn reads(&self, (awaited, other): (Moment, Moment)) -> Next {
        let awaited = self.group.next_awaited_read().map(|at| at.max(awaited));
        let other = self.group.next_read().map(|at| at.max(other));
        let at = awaited.into_iter().chain(other).min().map(|at| at.max(self.now));
        let waits = self.listed.clone().or_else(|| self.failing(Step::Read));
        Next { step: Step::Read, at: at.filter(|_| self.listed.is_none()), waits }
    }

    /// The reason why the target is paused: a paused object, or read-only mode.
    fn pause(&self, account: &Account<'_>) -> Word {
        match account.paused_by {
            Some(origin) => (Reason::Paused, sayings::paused(self.arn, origin)),
            None => (Reason::ReadOnly, sayings::read_only(self.arn)),
        }
    }

    /// The last failure of this kind of call, or the fact that AWS throttles such calls.
    fn failing(&self, step: Step) -> Option<Word> {
        let failure = self.group.troubles().failing.get(step.as_str());
        let passing = |class| matches!(class, FailureClass::Throttled | FailureClass::Unavailable);
        match failure {
            Some(failure) if passing(failure.class) => {
                Some((failure.class.reason(), words::failed(step, failure)))
            }
            Some(failure) => Some(self.refused(step, failure.class.reason())),
            None => self.throttled.map(|calls| (Reason::Throttled, sayings::throttled(calls))),
        }
    }

    /// The rejection by AWS, as reported on the Services.
    fn refused(&self, step: Step, reason: Reason) -> Word {
        let all = self.group.troubles().refusals.iter();
        let mut said = all.filter(|((action, _), (said, _))| *action == step.as_str() && *said == reason);
        said.next().map_or_else(|| (reason, words::refused(self.arn)), |(_, word)| word.clone())
    }
}

/// The state of a pod in a target group: the progress, the reason, and the time at which the state began.
pub type Stands = (Progress, Word, Option<Moment>);

/// The state of a former target of the pod that should be deregistered.
pub fn left(account: &Account<'_>) -> Stands {
    let reason = match account.under {
        Under::Suspect => Reason::ForeignTarget,
        _ => account.cause.reason(),
    };
    let word = (reason, words::standing(account));
    match account.under {
        Under::Removed => (Progress::Deregistered, word, Some(account.ended.unwrap_or(account.since))),
        _ => (Progress::Deregistering, word, Some(account.since)),
    }
}
