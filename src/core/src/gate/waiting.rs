//! One pod whose gate is not in its desired state: what is known of it, and when to write what.

use std::{collections::BTreeSet, net::IpAddr, time::Duration};

use crate::{
    backoff::Backoff,
    model::{
        Cause, Moment, RequestId, TargetGroupArn, Uid,
        gate::{CLOSED_AGAIN, Condition, Shown, Verdict, ip_in},
    },
};

/// Headgate writes why a gate is closed after it was closed for this time, and then at most once in the next interval.
const EXPLAIN_AFTER: Duration = Duration::from_secs(3);
const EXPLAIN_EVERY: Duration = Duration::from_secs(10);
/// The watch should show a write within this time. If it does not, Headgate writes again.
const SEEN_WITHIN: Duration = Duration::from_secs(5);

#[derive(Clone, Debug)]
pub(super) struct Waiting {
    pub(super) uid: Uid,
    pub(super) shown: Shown,
    pub(super) ip: Option<IpAddr>,
    pub(super) open: Openness,
    /// Whether its namespace was selected while the pod waited. If it never was, the gate is another installation's.
    pub(super) ours: bool,
    /// When the pod was first seen in this state.
    pub(super) since: Moment,
    /// Why a gate must be closed although it is open for the pod's IP.
    pub(super) closing: Option<Cause>,
    /// The last verdict, and since when it has this reason.
    pub(super) verdict: Option<(Verdict, Moment)>,
    /// The last condition that was written in this term, and when.
    pub(super) said: Option<(Condition, Moment)>,
    pub(super) in_flight: Option<(RequestId, Condition)>,
    /// The API server has answered that the pod does not exist. The watch will report it too.
    pub(super) gone: bool,
    pub(super) told: bool,
    pub(super) backoff: Backoff,
    pub(super) groups: BTreeSet<TargetGroupArn>,
}

/// How the gate is open, or was.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Openness {
    /// The condition shows that the gate is open although the health of its targets could not be read.
    pub(super) unread: bool,
    /// The gate was open before, as far as is known: for another IP, or another registration.
    pub(super) before: bool,
}

/// The order of writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Urgency {
    /// The write opens or closes the gate.
    #[default]
    Turn,
    /// The write only explains why the gate is closed.
    Explain,
}

impl Waiting {
    pub(super) fn new(uid: Uid, now: Moment, seed: u64) -> Self {
        Self {
            uid,
            shown: Shown::Missing,
            ip: None,
            open: Openness::default(),
            ours: false,
            since: now,
            closing: None,
            verdict: None,
            said: None,
            in_flight: None,
            gone: false,
            told: false,
            backoff: Backoff::new(Duration::from_millis(200), Duration::from_secs(5), seed),
            groups: BTreeSet::new(),
        }
    }

    /// Whether there is something to do although the condition is open for the pod's IP. The gate must still be closed,
    /// or the condition has not changed since Headgate found that the gate must be closed.
    pub(super) fn stays(&self, shown: Shown) -> bool {
        self.closing.is_some() && (self.shown == shown || self.is_to_close())
    }

    /// Whether the gate must be closed because a target will be registered again, and was not closed yet.
    pub(super) fn is_to_close(&self) -> bool {
        self.closing == Some(Cause::RegisteredAgain) && !self.was_closed()
    }

    /// Whether the last write has closed the gate, or recorded that it is closed, and no write in flight opens it.
    pub(super) fn was_closed(&self) -> bool {
        let opens = self.in_flight.as_ref().is_some_and(|(_, condition)| condition.open);
        !opens && self.said.as_ref().is_some_and(|(said, _)| !said.open)
    }

    /// Whether a write has opened the gate, or may have, although the watch does not show it yet.
    pub(super) fn may_be_opened(&self) -> bool {
        let writes = self.in_flight.as_ref().map(|(_, condition)| condition);
        writes.into_iter().chain(self.said.as_ref().map(|(said, _)| said)).any(|condition| condition.open)
    }

    /// Clears `closing` if the gate had to be closed because a target will be registered again, and is closed now.
    pub(super) fn see_closed(&mut self) {
        let may_be_open = matches!(self.shown, Shown::Open(_)) || self.may_be_opened();
        self.closing.take_if(|reason| *reason == Cause::RegisteredAgain && !may_be_open);
    }

    /// Whether the gate is open for the pod's IP, as far as is known. If it did not have to be closed, the status in
    /// the watch counts: a write that was given up may have opened the gate, after another write had only explained why
    /// it is closed.
    pub(super) fn is_open(&self) -> bool {
        let shown = self.shown.is_open_for(self.ip.as_slice());
        shown && (self.closing.is_none() || self.said.as_ref().is_none_or(|(said, _)| said.open))
    }

    /// Whether the gate is correctly open although the health of its targets could not be read. Headgate only has to
    /// record when the health is known to be good.
    pub(super) fn is_unread(&self) -> bool {
        self.open.unread && self.closing.is_none() && self.shown.is_open_for(self.ip.as_slice())
    }

    /// The condition for the pod's status, and since when it has this reason.
    pub(super) fn should_show(&self) -> Option<(Condition, Moment)> {
        let (verdict, since) = self.verdict.as_ref()?;
        if self.is_unread() && !is_proven(verdict) {
            return None;
        }
        let shown = matches!(self.shown, Shown::Open(_));
        let is_open = self.said.as_ref().map_or(shown, |(said, _)| said.open);
        let closes = self.closing.or(shown.then_some(Cause::IpChanged)).filter(|_| !verdict.open);
        let (reason, message) = match closes {
            Some(reason) => {
                (reason, format!("{CLOSED_AGAIN}: {}; {}", closed_because(reason), verdict.message))
            }
            None if self.open.before && !verdict.open => {
                (verdict.reason, format!("{CLOSED_AGAIN}; {}", verdict.message))
            }
            None => (verdict.reason, verdict.message.clone()),
        };
        let turns = verdict.open != is_open;
        Some((Condition { open: verdict.open, turns, reason, message }, *since))
    }

    /// When to write, and how urgent the write is.
    pub(super) fn next_write(&self, now: Moment) -> Option<(Moment, Urgency)> {
        if self.in_flight.is_some() || self.gone {
            return None;
        }
        let (verdict, since) = self.verdict.as_ref()?;
        let is_open = matches!(self.shown, Shown::Open(_));
        let not_before = self.backoff.until();
        let said = self.said.as_ref();
        if self.is_unread() {
            let same = said.filter(|(said, _)| said.open && said.reason == verdict.reason);
            let at = same.map_or(now, |(_, said)| *said + SEEN_WITHIN);
            return is_proven(verdict).then(|| (at.max(not_before), Urgency::Explain));
        }
        let opened = said.filter(|(said, _)| said.open);
        let opened_for = opened.map(|(said, _)| ip_in(&said.message));
        if let Some((_, at)) = opened.filter(|_| opened_for == Some(self.ip))
            && !verdict.open
            && self.closing.is_none()
        {
            // The gate is open, and the watch does not show it yet. Write only if an older write has landed over ours.
            let is_anothers = matches!(self.shown, Shown::Open(Some(ip)) if Some(ip) != self.ip);
            return is_anothers.then(|| ((*at + SEEN_WITHIN).max(not_before), Urgency::Turn));
        }
        // A gate that is open for another IP is wrong too.
        if verdict.open || is_open || opened_for.is_some() {
            let same = said.filter(|(said, _)| {
                said.open == verdict.open
                    && (!verdict.open || ip_in(&said.message) == ip_in(&verdict.message))
            });
            let at = same.map_or(now, |(_, at)| *at + SEEN_WITHIN);
            return Some((at.max(not_before), Urgency::Turn));
        }
        let at = match said {
            Some((said, _)) if said.reason == verdict.reason => return None,
            Some((_, at)) => (*since + EXPLAIN_AFTER).max(*at + EXPLAIN_EVERY),
            None => *since + EXPLAIN_AFTER,
        };
        Some((at.max(not_before), Urgency::Explain))
    }
}

/// Whether the gate may be open, and not only because no health could be read.
fn is_proven(verdict: &Verdict) -> bool {
    verdict.open && verdict.reason != Cause::HealthUnreadable
}

fn closed_because(reason: Cause) -> &'static str {
    match reason {
        Cause::RegisteredAgain => "Headgate deregisters the target",
        _ => "the pod has another IP",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::ip;

    fn said(open: bool) -> Condition {
        Condition { open, turns: true, reason: Cause::RegisteredAgain, message: String::new() }
    }

    fn waiting(shown: Shown) -> Waiting {
        let mut waiting = Waiting::new(Uid::new("u-1"), Moment::START, 1);
        (waiting.shown, waiting.ip) = (shown, Some(ip(1)));
        waiting
    }

    #[test]
    fn a_gate_is_to_be_closed_for_a_target_that_is_put_back_until_that_is_written() {
        let open = Shown::Open(Some(ip(1)));
        let mut gate = waiting(open);
        assert!(!gate.is_to_close() && !gate.stays(open));
        gate.closing = Some(Cause::IpChanged);
        assert!(!gate.is_to_close());
        assert!(gate.stays(open) && !gate.stays(Shown::Closed), "it shows something else by now");
        gate.closing = Some(Cause::RegisteredAgain);
        assert!(gate.is_to_close() && gate.stays(Shown::Closed));
        gate.said = Some((said(false), Moment::START));
        assert!(!gate.is_to_close() && !gate.stays(Shown::Closed));
    }

    #[test]
    fn a_gate_that_is_to_be_closed_is_open_until_that_is_written() {
        let mut gate = waiting(Shown::Open(Some(ip(1))));
        gate.said = Some((said(false), Moment::START));
        assert!(gate.is_open(), "it was opened all the same");
        gate.closing = Some(Cause::RegisteredAgain);
        assert!(!gate.is_open());
        gate.said = None;
        assert!(gate.is_open());
        gate.shown = Shown::Open(Some(ip(2)));
        assert!(!gate.is_open(), "for another IP");
    }
}
