//! Whether this replica is the leader and may write now. The task that holds the Lease writes the [`Standing`]. Every
//! task checks the `Standing` immediately before it calls AWS or writes to Kubernetes.
//!
//! Without a renewal, a term ends at its end time, even if no message arrives.

use std::time::Duration;

use headgate_core::{Moment, Reason, leadership::lease::LeaseTerm};
use tokio::sync::watch;

use crate::runtime::clock::Clock;

/// The known state of the leader election.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// The last term of this replica, which may be over.
    pub term: Option<LeaseTerm>,
    /// The holder of the Lease, if it is known.
    pub holder: Option<Box<str>>,
    /// Set if the holder has other settings than this replica.
    pub stranger: Option<Stranger>,
    /// Set if this replica cannot lead, or is in backoff.
    pub unable: Option<Unable>,
}

/// The reason why a replica cannot lead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unable {
    /// The reason.
    pub reason: Reason,
    /// The time when the failures began.
    pub since: Moment,
    /// The end of the replica's backoff. `None`: the replica remains the leader, because no other replica can lead.
    pub until: Option<Moment>,
}

/// A holder of the Lease with other settings than this replica. During an upgrade, different settings are normal. If
/// the settings differ for longer, two installations share one Lease, and one installation does nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stranger {
    /// The namespaces that the holder manages, as text.
    pub serves: Box<str>,
    /// A sentence that explains the conflict and states what to do.
    pub said: Box<str>,
    /// The time when a holder with other settings was first seen.
    pub since: Moment,
}

impl Stranger {
    /// Describes a holder with the settings `serves`, for a replica with the settings `own`.
    pub fn new(serves: &str, own: &str, since: Moment) -> Self {
        let said = format!(
            "a Headgate that manages {serves} holds the Lease, and this one manages {own}: only one of them \
             works at a time. During an upgrade, this ends automatically. If these are two installations, \
             give each its own --lease-name"
        );
        Self { serves: serves.into(), said: said.into(), since }
    }
}

impl Standing {
    /// The other installation that holds the Lease, if it has held the Lease for longer than a rollout takes.
    fn shut_out(&self, now: Moment) -> Option<&Stranger> {
        self.stranger.as_ref().filter(|stranger| now.since(stranger.since) >= ROLLOUT)
    }
}

/// The longest rollout of all replicas.
const ROLLOUT: Duration = Duration::from_secs(10 * 60);

/// What the engine reports to the task that holds the Lease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ledgers {
    /// The latest term that has written a ledger although this replica leads with an earlier one. 0: none.
    pub later_term: u64,
    /// Whether no call of this replica, and no write of a ledger, can take effect any more.
    pub are_settled: bool,
}

/// The reading side.
#[derive(Clone, Debug)]
pub struct Authority {
    clock: Clock,
    standing: watch::Receiver<Standing>,
    ledgers: watch::Sender<Ledgers>,
}

impl Authority {
    /// The authority that the sender sets. At first no replica leads. The receiver gets the engine's reports.
    pub fn new(clock: Clock) -> ((watch::Sender<Standing>, watch::Receiver<Ledgers>), Self) {
        let (sender, standing) = watch::channel(Standing::default());
        let (ledgers, reports) = watch::channel(Ledgers::default());
        ((sender, reports), Self { clock, standing, ledgers })
    }

    /// The authority of a single replica, which is always the leader.
    pub fn alone(clock: Clock) -> Self {
        let term = LeaseTerm {
            number: 1,
            transitions: 1,
            is_settled: false,
            until: Moment::after_start(Duration::MAX),
        };
        let (_, standing) = watch::channel(Standing { term: Some(term), ..Standing::default() });
        Self { clock, standing, ledgers: watch::Sender::new(Ledgers::default()) }
    }

    /// The present term of this replica, if it is the leader.
    pub fn term(&self) -> Option<LeaseTerm> {
        let now = self.clock.now();
        self.standing.borrow().term.filter(|term| now < term.until)
    }

    /// Whether this replica has been the leader without interruption since the term `term` began.
    pub fn permits(&self, term: u64) -> bool {
        self.term().is_some_and(|now| now.number == term)
    }

    /// Reports that a leader of this later term has written a ledger.
    pub fn is_outdated(&self, later: u64) {
        self.ledgers.send_modify(|ledgers| ledgers.later_term = ledgers.later_term.max(later));
    }

    /// Reports whether nothing that this replica has sent can take effect any more.
    pub fn ends(&self, are_settled: bool) {
        self.ledgers.send_modify(|ledgers| ledgers.are_settled = are_settled);
    }

    /// The holder of the Lease, if it is known.
    pub fn holder(&self) -> Option<Box<str>> {
        self.standing.borrow().holder.clone()
    }

    /// The other installation that holds the Lease, if it has held the Lease for longer than a rollout takes.
    pub fn shut_out(&self) -> Option<Stranger> {
        self.standing.borrow().shut_out(self.clock.now()).cloned()
    }

    /// The settings of a holder that belongs to another installation or has another version.
    pub fn stranger(&self) -> Option<Stranger> {
        self.standing.borrow().stranger.clone()
    }

    /// The problem that prevents this replica from leading, if there is one.
    pub fn unable(&self) -> Option<Unable> {
        self.standing.borrow().unable.clone()
    }

    /// Waits for the next change.
    pub async fn changed(&mut self) {
        if self.standing.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(until: Moment) -> Authority {
        let ((tell, _), authority) = Authority::new(Clock::start());
        let term = LeaseTerm { number: 2, transitions: 5, is_settled: false, until };
        tell.send_replace(Standing { term: Some(term), ..Standing::default() });
        authority
    }

    #[test]
    fn a_term_permits_only_what_began_in_it() {
        let authority = told(Moment::after_start(Duration::from_secs(3600)));
        assert!(authority.permits(2) && !authority.permits(1));
    }

    #[test]
    fn a_term_that_nobody_prolongs_is_over() {
        assert!(!told(Moment::START).permits(2));
    }

    #[test]
    fn a_replica_is_shut_out_when_another_installation_holds_the_lease_for_longer_than_a_rollout_takes() {
        let at = |seconds| Moment::after_start(Duration::from_secs(seconds));
        let stranger = Stranger::new("the namespaces a", "all namespaces", at(60));
        let standing = Standing { stranger: Some(stranger), ..Standing::default() };
        assert_eq!(standing.shut_out(at(659)), None);
        let said = &standing.shut_out(at(660)).unwrap().said;
        assert!(
            said.contains("manages the namespaces a holds the Lease, and this one manages all namespaces"),
            "{said}"
        );
        assert!(said.contains("give each its own --lease-name"), "{said}");
        assert_eq!(Standing::default().shut_out(at(9999)), None);
    }

    #[test]
    fn nobody_leads_before_it_is_said_and_one_who_is_alone_always_does() {
        assert!(!Authority::new(Clock::start()).1.permits(1));
        assert!(Authority::alone(Clock::start()).permits(1));
    }
}
