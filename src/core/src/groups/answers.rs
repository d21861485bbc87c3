//! How calls about a target group have ended.

use super::Group;
use crate::{
    model::{CallItem, Failure, FailureClass, Moment, RequestId},
    registration::Ended,
};

impl Group {
    /// A `RegisterTargets` has ended.
    pub fn registered(&mut self, id: RequestId, items: &[CallItem], failure: Option<&Failure>, now: Moment) {
        let ended = match failure.map(|failure| failure.class) {
            None => Ended::Well,
            Some(FailureClass::Refused) => Ended::Refused,
            Some(FailureClass::Full) => Ended::Full,
            Some(_) => Ended::Badly,
        };
        self.registrations.registered(id, items, ended, now);
        // What is wrong with a target is not the group's fault: the others do not wait. Neither does what fits.
        match ended {
            Ended::Well | Ended::Refused | Ended::Full => self.additions.succeeded(),
            Ended::Badly => self.additions.failed(now),
        }
        self.changed(now);
    }

    /// A `DeregisterTargets` has ended. Says whether AWS has taken it: a group that does not exist has no targets.
    pub fn deregistered(
        &mut self,
        id: RequestId,
        items: &[CallItem],
        failure: Option<&Failure>,
        now: Moment,
    ) -> bool {
        let gone = failure.is_some_and(|failure| failure.class == FailureClass::Gone);
        let taken = gone || failure.is_none();
        self.registrations.deregistered(id, items, taken, now);
        if gone {
            self.is_gone();
        }
        if taken {
            self.removals.succeeded();
        } else {
            self.removals.failed(now);
        }
        self.changed(now);
        taken
    }

    /// A read has failed.
    pub fn unread(&mut self, failure: &Failure, now: Moment) {
        self.observation.failed();
        self.reads.failed(now);
        if failure.class == FailureClass::Gone {
            self.is_gone();
        }
    }

    fn is_gone(&mut self) {
        self.registrations.group_is_gone();
        self.gone = true;
    }
}
