//! Whether this replica may act right now. Written by the one that holds the Lease, asked by everybody who is about to
//! call AWS or to write to Kubernetes, immediately before they do.
//!
//! It is never told that it has ended: a reign has an end, and when nobody prolongs it, it is over.

use headgate_core::{Moment, lease::Reign};
use tokio::sync::watch;

use crate::app::clock::Clock;

/// What is known about who leads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// The present reign of this replica, if it has one; it may be over.
    pub reign: Option<Reign>,
    /// Who holds the Lease, as far as is known.
    pub holder: Option<Box<str>>,
}

/// The asking side.
#[derive(Clone, Debug)]
pub struct Authority {
    clock: Clock,
    standing: watch::Receiver<Standing>,
}

impl Authority {
    /// The authority that the sender gives; nobody leads until it says so.
    pub fn new(clock: Clock) -> (watch::Sender<Standing>, Self) {
        let (sender, standing) = watch::channel(Standing::default());
        (sender, Self { clock, standing })
    }

    /// The authority of one who is alone, and always leads.
    pub fn alone(clock: Clock) -> Self {
        let until = Moment::after_start(std::time::Duration::MAX);
        let (_, standing) =
            watch::channel(Standing { reign: Some(Reign { number: 1, until }), holder: None });
        Self { clock, standing }
    }

    /// The present reign of this replica, if it leads now.
    pub fn reign(&self) -> Option<Reign> {
        let now = self.clock.now();
        self.standing.borrow().reign.filter(|reign| now < reign.until)
    }

    /// Whether this replica leads, and has without a break since that reign began.
    pub fn permits(&self, reign: u64) -> bool {
        self.reign().is_some_and(|now| now.number == reign)
    }

    /// Who holds the Lease, as far as is known.
    pub fn holder(&self) -> Option<Box<str>> {
        self.standing.borrow().holder.clone()
    }

    /// Waits for the next word of the one that holds the Lease.
    pub async fn changed(&mut self) {
        if self.standing.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn told(until: Moment) -> Authority {
        let (tell, authority) = Authority::new(Clock::start());
        tell.send_replace(Standing { reign: Some(Reign { number: 2, until }), holder: None });
        authority
    }

    #[test]
    fn a_reign_permits_only_what_began_in_it() {
        let authority = told(Moment::after_start(Duration::from_secs(3600)));
        assert!(authority.permits(2) && !authority.permits(1));
    }

    #[test]
    fn a_reign_that_nobody_prolongs_is_over() {
        assert!(!told(Moment::START).permits(2));
    }

    #[test]
    fn nobody_leads_before_it_is_said_and_one_who_is_alone_always_does() {
        assert!(!Authority::new(Clock::start()).1.permits(1));
        assert!(Authority::alone(Clock::start()).permits(1));
    }
}
