//! The DNS lookups of a client for the load balancer's name.
//!
//! The client looks up the name when it needs an address and the TTL of the last answer is over, and never in the
//! background. After a failed lookup, the client keeps using the last addresses. The failure is counted, and the next
//! lookup follows after at least one second. If no lookup has returned an address yet, the request is lost.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::dns;
use crate::plan::{ClientKind, Target};

/// The pause after a failed lookup.
const FAILURE_REST: Duration = Duration::from_secs(1);

/// Returns the addresses of the name round robin.
#[derive(Debug)]
pub struct Resolver {
    source: Option<Source>,
    view: Mutex<View>,
    queries: AtomicU64,
    failures: AtomicU64,
}

#[derive(Debug)]
struct Source {
    server: SocketAddr,
    name: String,
    pinned: bool,
}

#[derive(Debug, Default)]
struct View {
    addresses: Vec<IpAddr>,
    /// The time of the next lookup. `None`: no further lookup.
    ask: Option<Instant>,
    turn: usize,
}

impl Resolver {
    /// Creates the resolver of one client for `target`. Clients begin at different addresses, according to `index`.
    pub fn new(target: &Target, kind: ClientKind, index: usize) -> Self {
        let (source, view) = match target {
            Target::Address(address) => (None, View { addresses: vec![*address], ask: None, turn: index }),
            Target::Name { name, dns } => {
                let pinned = kind == ClientKind::Pinned;
                let source = Source { server: *dns, name: name.clone(), pinned };
                (Some(source), View { addresses: Vec::new(), ask: Some(Instant::now()), turn: index })
            }
        };
        Self { source, view: Mutex::new(view), queries: AtomicU64::new(0), failures: AtomicU64::new(0) }
    }

    /// Returns the next address. If a lookup is in progress, the call waits for the lookup.
    pub async fn next(&self) -> Option<IpAddr> {
        let mut view = self.view.lock().await;
        if let Some(source) = &self.source
            && view.ask.is_some_and(|ask| ask <= Instant::now())
        {
            self.refresh(source, &mut view).await;
        }
        let turn = view.turn;
        view.turn = turn.wrapping_add(1);
        let index = turn.checked_rem(view.addresses.len())?;
        view.addresses.get(index).copied()
    }

    async fn refresh(&self, source: &Source, view: &mut View) {
        self.queries.fetch_add(1, Ordering::Relaxed);
        let found = dns::look_up(source.server, &source.name).await;
        let now = Instant::now();
        if let Some(found) = found {
            view.addresses = found.addresses;
            view.ask = if source.pinned { None } else { Some(now + found.ttl) };
        } else {
            self.failures.fetch_add(1, Ordering::Relaxed);
            view.ask = Some(now + FAILURE_REST);
        }
    }

    /// Returns the number of lookups.
    pub fn queries(&self) -> u64 {
        self.queries.load(Ordering::Relaxed)
    }

    /// Returns the number of lookups that returned no address.
    pub fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_fixed_address_is_never_looked_up() {
        let address = IpAddr::from([127, 0, 0, 9]);
        let resolver = Resolver::new(&Target::Address(address), ClientKind::Following, 7);
        assert_eq!(resolver.next().await, Some(address));
        assert_eq!(resolver.next().await, Some(address));
        assert_eq!(resolver.queries(), 0);
    }
}
