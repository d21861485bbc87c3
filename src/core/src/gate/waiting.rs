//! A pod whose gate is not in its desired state, and the writes that the pod needs.

use std::{collections::BTreeSet, net::IpAddr, time::Duration};

use crate::{
    backoff::Backoff,
    model::{
        Cause, Moment, RequestId, TargetGroupArn, Uid,
        gate::{CLOSED_AGAIN, Condition, Shown, Verdict, ip_in},
    },
};

/// Headgate explains a closed gate after the gate was closed for this time.
const EXPLAIN_AFTER: Duration = Duration::from_secs(3);
const EXPLAIN_EVERY: Duration = Duration::from_secs(10);
/// The time within which the watch should show a write. If the watch does not show the write in time, Headgate writes
/// again.
const SEEN_WITHIN: Duration = Duration::from_secs(5);

#[derive(Clone, Debug)]
pub(super) struct Waiting {
    pub(super) uid: Uid,
    pub(super) shown: Shown,
    pub(super) ip: Option<IpAddr>,
    pub(super) open: Openness,
    /// Whether the pod's namespace was selected while the pod waited. If the namespace was never selected, another
    /// installation manages the gate.
    pub(super) ours: bool,
    /// The time at which the pod was first seen in this state.
    pub(super) since: Moment,
    /// Why Headgate must close a gate that is open for the pod's IP.
    pub(super) closing: Option<Cause>,
    /// The last verdict, and the time at which its reason began to apply.
    pub(super) verdict: Option<(Verdict, Moment)>,
    /// The last condition that was written in this term, and the time of the write.
    pub(super) said: Option<(Condition, Moment)>,
    pub(super) in_flight: Option<(RequestId, Condition)>,
    /// Whether the API server answered that the pod does not exist. The watch will report the deletion later.
    pub(super) gone: bool,
    pub(super) told: bool,
    pub(super) backoff: Backoff,
    pub(super) groups: BTreeSet<TargetGroupArn>,
}

/// Whether a gate is open without known health, and whether the gate was open before.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Openness {
    /// Whether the condition states that the gate is open although the health of its targets was unreadable.
    pub(super) unread: bool,
    /// Whether the gate was open before, as far as Headgate knows: for another IP, or for another registration.
    pub(super) before: bool,
}

/// The priority of a write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Urgency {
    #[default]
    Turn,
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

    /// Whether Headgate still tracks the pod although the condition is open for the pod's IP. Headgate tracks the pod
    /// while the gate must be closed and the condition has not changed.
    pub(super) fn stays(&self, shown: Shown) -> bool {
        self.closing.is_some() && (self.shown == shown || self.is_to_close())
    }

    /// Whether Headgate must still close the gate because it will register a target again.
    pub(super) fn is_to_close(&self) -> bool {
        self.closing == Some(Cause::RegisteredAgain) && !self.was_closed()
    }

    /// Whether the last write recorded that the gate is closed, and no write in flight opens the gate.
    pub(super) fn was_closed(&self) -> bool {
        let opens = self.in_flight.as_ref().is_some_and(|(_, condition)| condition.open);
        !opens && self.said.as_ref().is_some_and(|(said, _)| !said.open)
    }

    /// Whether a write has opened or may have opened the gate, although the watch may not show the write yet.
    pub(super) fn may_be_opened(&self) -> bool {
        let writes = self.in_flight.as_ref().map(|(_, condition)| condition);
        writes.into_iter().chain(self.said.as_ref().map(|(said, _)| said)).any(|condition| condition.open)
    }

    /// Clears `closing` if the gate is closed now and had to be closed because Headgate will register a target again.
    pub(super) fn see_closed(&mut self) {
        let may_be_open = matches!(self.shown, Shown::Open(_)) || self.may_be_opened();
        self.closing.take_if(|reason| *reason == Cause::RegisteredAgain && !may_be_open);
    }

    /// Whether the gate is open for the pod's IP, as far as Headgate knows. If the gate need not be closed, the status
    /// from the watch decides. A timed-out write may have opened the gate after another write only explained why the
    /// gate was closed.
    pub(super) fn is_open(&self) -> bool {
        let shown = self.shown.is_open_for(self.ip.as_slice());
        shown && (self.closing.is_none() || self.said.as_ref().is_none_or(|(said, _)| said.open))
    }

    /// Whether the gate is correctly open although the health of its targets was unreadable. Headgate still has to
    /// record when the targets are known to be healthy.
    pub(super) fn is_unread(&self) -> bool {
        self.open.unread && self.closing.is_none() && self.shown.is_open_for(self.ip.as_slice())
    }

    /// The condition for the pod's status, and the time at which its reason began to apply.
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

    /// The time and the priority of the next write.
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
            // Headgate has opened the gate, and the watch does not show the write yet. Write again only if an older
            // write has overwritten the condition.
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

/// Whether the gate should be open for a reason other than unreadable health.
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
