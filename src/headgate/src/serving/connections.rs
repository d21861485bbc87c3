//! Tracks the connections of one server: their phases, and which connection to close for a new one.
//!
//! This module does no I/O. A connection that must close receives a signal ([`Connection::closed`]) and then closes
//! itself.

use std::{
    collections::{BTreeMap, HashMap},
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use headgate_core::Moment;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::seldom::Seldom;
use crate::{metrics::Metrics, runtime::clock::Clock};

/// The limits of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The maximum number of connections.
    pub connections: usize,
    /// The maximum number of connections from one address. If the limit for one address equals `connections`, it has no
    /// effect.
    pub of_an_address: usize,
    /// The timeout of the TLS handshake.
    pub handshake: Duration,
    /// The timeout from the first byte of a request to the end of its header.
    pub header: Duration,
    /// The timeout from the end of a header to the answer. A server may set a shorter timeout.
    pub request: Duration,
    /// The timeout of a connection without a request.
    pub idle: Duration,
}

/// The phase of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The connection was accepted, and the TLS handshake may be in progress.
    Handshake,
    /// The client sends the header of a request.
    Header,
    /// The server reads or answers a request.
    Request,
    /// The connection waits for a request.
    Idle,
}

impl Phase {
    fn limit(self, limits: &Limits) -> Duration {
        match self {
            Self::Handshake => limits.handshake,
            Self::Header => limits.header,
            Self::Request => limits.request,
            Self::Idle => limits.idle,
        }
    }

    /// The metric label for connections that exceeded the timeout of this phase.
    fn word(self) -> &'static str {
        match self {
            Self::Handshake => "handshake",
            Self::Header => "header",
            Self::Request => "request",
            Self::Idle => "idle",
        }
    }
}

#[derive(Debug)]
struct Entry {
    peer: IpAddr,
    phase: Phase,
    since: Moment,
    trusted: bool,
    close: CancellationToken,
}

/// The present connections, in the order of their arrival.
#[derive(Debug, Default)]
struct Table {
    entries: BTreeMap<u64, Entry>,
    next: u64,
}

impl Table {
    fn enter(&mut self, peer: IpAddr, now: Moment) -> (u64, CancellationToken) {
        let (id, close) = (self.next, CancellationToken::new());
        self.next += 1;
        let entry = Entry { peer, phase: Phase::Handshake, since: now, trusted: false, close: close.clone() };
        self.entries.insert(id, entry);
        (id, close)
    }

    /// The connection to close if the connection `newest` exceeds the limit.
    fn to_close(&self, newest: u64) -> Option<u64> {
        let others = || self.entries.iter().filter(|(id, _)| **id != newest);
        let mut strangers: HashMap<IpAddr, (usize, u64)> = HashMap::new();
        for (id, entry) in others().filter(|(_, entry)| !entry.trusted) {
            strangers.entry(entry.peer).or_insert((0, *id)).0 += 1;
        }
        // The first candidate is the oldest untrusted connection from the address with the most untrusted connections.
        let stranger = strangers.values().max_by_key(|(count, oldest)| (*count, u64::MAX - oldest));
        let idle = || others().filter(|(_, entry)| entry.phase != Phase::Request);
        stranger
            .map(|(_, oldest)| *oldest)
            .or_else(|| idle().min_by_key(|(id, entry)| (entry.since, **id)).map(|(id, _)| *id))
            .or_else(|| self.entries.contains_key(&newest).then_some(newest))
    }

    /// The connection of an address to close if the connection `newest` exceeds the address's limit.
    fn to_close_of(&self, peer: IpAddr, newest: u64) -> u64 {
        let own = || self.entries.iter().filter(|(id, entry)| entry.peer == peer && **id != newest);
        let closable = own().filter(|(_, entry)| !entry.trusted || entry.phase != Phase::Request);
        closable.min_by_key(|(id, entry)| (entry.trusted, entry.since, **id)).map_or(newest, |(id, _)| *id)
    }

    fn overdue(&self, limits: &Limits, now: Moment) -> Vec<(u64, Phase)> {
        let late = |entry: &Entry| now.since(entry.since) > entry.phase.limit(limits);
        self.entries.iter().filter(|(_, entry)| late(entry)).map(|(id, entry)| (*id, entry.phase)).collect()
    }

    fn close(&mut self, id: u64) -> Option<IpAddr> {
        let entry = self.entries.remove(&id)?;
        entry.close.cancel();
        Some(entry.peer)
    }
}

/// The connections of one server.
#[derive(Clone)]
pub struct Connections {
    shared: Arc<Shared>,
}

struct Shared {
    server: &'static str,
    limits: Limits,
    metrics: Arc<Metrics>,
    clock: Clock,
    table: Mutex<Table>,
    crowd: Seldom,
}

impl Shared {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Connections {
    /// Creates an empty table of connections.
    pub fn new(server: &'static str, limits: Limits, metrics: Arc<Metrics>, clock: Clock) -> Self {
        let (table, crowd) = (Mutex::default(), Seldom::default());
        Self { shared: Arc::new(Shared { server, limits, metrics, clock, table, crowd }) }
    }

    /// Adds a connection. If the new connection exceeds a limit, another connection is closed.
    pub fn enter(&self, peer: IpAddr) -> Connection {
        let shared = &self.shared;
        let peer = peer.to_canonical();
        let mut table = shared.table();
        let (id, close) = table.enter(peer, shared.clock.now());
        let of_its_address = table.entries.values().filter(|entry| entry.peer == peer).count();
        let (all, part) = (shared.limits.connections, shared.limits.of_an_address);
        let to_close = if part < all && of_its_address > part {
            Some(table.to_close_of(peer, id))
        } else if table.entries.len() > all {
            table.to_close(id)
        } else {
            None
        };
        let closed = to_close.and_then(|id| table.close(id));
        drop(table);
        shared.metrics.connection_opened(shared.server);
        if let Some(peer) = closed {
            self.crowded(peer);
        }
        Connection { place: Arc::new(Place { id, peer, close, shared: shared.clone() }) }
    }

    /// Closes one connection, as if a new connection had exceeded the limit.
    pub fn close_one(&self) {
        let mut table = self.shared.table();
        let closed = table.to_close(u64::MAX).and_then(|id| table.close(id));
        drop(table);
        if let Some(peer) = closed {
            self.crowded(peer);
        }
    }

    fn crowded(&self, peer: IpAddr) {
        let Shared { server, limits, metrics, clock, crowd, .. } = &*self.shared;
        metrics.connection_closed(self.shared.server, "crowd");
        if let Some(others) = crowd.say(clock.now()) {
            warn!(
                server,
                limit = limits.connections,
                %peer,
                others,
                "too many connections: each new one closes another, first those without a valid request. \
                 Create a NetworkPolicy that excludes this client"
            );
        }
    }

    /// Closes the connections that exceed a timeout.
    pub fn close_overdue(&self) {
        let shared = &self.shared;
        let mut table = shared.table();
        let overdue = table.overdue(&shared.limits, shared.clock.now());
        for (id, _) in &overdue {
            table.close(*id);
        }
        drop(table);
        for (_, phase) in overdue {
            shared.metrics.connection_closed(shared.server, phase.word());
        }
    }

    /// Closes all connections without a request in progress.
    pub fn close_all_but_requests(&self) {
        let mut table = self.shared.table();
        let idle = table.entries.iter().filter(|(_, entry)| entry.phase != Phase::Request);
        let idle: Vec<u64> = idle.map(|(id, _)| *id).collect();
        for id in idle {
            table.close(id);
        }
    }
}

/// A handle to one connection.
#[derive(Clone)]
pub struct Connection {
    place: Arc<Place>,
}

/// The table entry of a connection, which is removed when the last handle is dropped.
struct Place {
    id: u64,
    peer: IpAddr,
    close: CancellationToken,
    shared: Arc<Shared>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.shared.table().entries.remove(&self.id);
        self.shared.metrics.connection_ended(self.shared.server);
    }
}

impl Connection {
    /// The client's address.
    pub fn peer(&self) -> IpAddr {
        self.place.peer
    }

    /// Records that the connection has sent a valid request. Untrusted connections are closed first.
    pub fn trust(&self) {
        self.change(|entry, _| entry.trusted = true);
    }

    /// Whether the connection has sent a valid request.
    pub fn is_trusted(&self) -> bool {
        self.place.shared.table().entries.get(&self.place.id).is_some_and(|entry| entry.trusted)
    }

    /// Sets the phase of the connection.
    pub fn is(&self, phase: Phase) {
        self.change(|entry, now| (entry.phase, entry.since) = (phase, now));
    }

    /// Records that the connection has sent data.
    pub fn reads(&self) {
        self.change(|entry, now| {
            if entry.phase == Phase::Idle {
                (entry.phase, entry.since) = (Phase::Header, now);
            }
        });
    }

    /// Waits until the connection should close.
    pub async fn closed(&self) {
        self.place.close.cancelled().await;
    }

    fn change(&self, change: impl FnOnce(&mut Entry, Moment)) {
        let shared = &self.place.shared;
        let now = shared.clock.now();
        if let Some(entry) = shared.table().entries.get_mut(&self.place.id) {
            change(entry, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        connections: 4,
        of_an_address: 4,
        handshake: Duration::from_secs(5),
        header: Duration::from_secs(3),
        request: Duration::from_secs(10),
        idle: Duration::from_secs(120),
    };

    fn at(seconds: u64) -> Moment {
        Moment::after_start(Duration::from_secs(seconds))
    }

    fn ip(last: u8) -> IpAddr {
        [10, 0, 0, last].into()
    }

    /// A table with connections: address, trust, phase, and start of the phase in seconds.
    fn table(all: &[(u8, bool, Phase, u64)]) -> Table {
        let mut table = Table::default();
        for (peer, trusted, phase, since) in all {
            let (id, _) = table.enter(ip(*peer), at(0));
            let entry = table.entries.get_mut(&id).unwrap();
            (entry.trusted, entry.phase, entry.since) = (*trusted, *phase, at(*since));
        }
        table
    }

    #[test]
    fn one_that_never_sent_a_valid_request_goes_before_one_that_has_been_idle_for_long() {
        let table = table(&[
            (1, true, Phase::Idle, 1),
            (2, false, Phase::Request, 50),
            (1, false, Phase::Handshake, 60),
        ]);
        assert_eq!(table.to_close(2), Some(1));
    }

    #[test]
    fn the_address_with_most_connections_that_proved_nothing_loses_its_oldest() {
        let header = |peer| (peer, false, Phase::Header, 9);
        let table = table(&[header(1), header(2), header(2), header(2), header(1), header(3)]);
        assert_eq!(table.to_close(5), Some(1));
        let newest_of_many = table.to_close(3);
        assert_eq!(newest_of_many, Some(0), "both have two without the newest; the oldest of them goes");
    }

    #[test]
    fn among_those_that_sent_a_valid_request_the_longest_idle_goes_and_never_one_that_is_answered() {
        let table = table(&[
            (1, true, Phase::Request, 1),
            (1, true, Phase::Idle, 30),
            (1, true, Phase::Idle, 20),
            (1, false, Phase::Handshake, 40),
        ]);
        assert_eq!(table.to_close(3), Some(2));
    }

    #[test]
    fn an_address_that_has_its_part_loses_one_of_its_own() {
        let table = table(&[
            (2, false, Phase::Handshake, 1),
            (1, true, Phase::Idle, 20),
            (1, true, Phase::Request, 1),
            (1, false, Phase::Idle, 30),
            (1, true, Phase::Handshake, 40),
        ]);
        assert_eq!(table.to_close_of(ip(1), 4), 3, "one that never sent a valid request");
        assert_eq!(table.to_close_of(ip(1), 3), 1);
        assert_eq!(table.to_close_of(ip(2), 0), 0, "it has no other");
        let slow = table_of_slow();
        assert_eq!(slow.to_close_of(ip(1), 2), 1, "a request that it never ends protects nobody");
    }

    fn table_of_slow() -> Table {
        table(&[(1, true, Phase::Request, 1), (1, false, Phase::Request, 2), (1, false, Phase::Handshake, 3)])
    }

    #[test]
    fn if_all_others_are_being_answered_the_newest_goes() {
        let table = table(&[(1, true, Phase::Request, 1), (2, false, Phase::Handshake, 2)]);
        assert_eq!(table.to_close(1), Some(1));
        assert_eq!(table.to_close(u64::MAX), Some(1));
    }

    #[test]
    fn each_phase_has_a_time_of_its_own() {
        let table = table(&[
            (1, false, Phase::Handshake, 10),
            (1, false, Phase::Header, 11),
            (1, true, Phase::Request, 6),
            (1, true, Phase::Idle, 0),
        ]);
        let overdue =
            |seconds| table.overdue(&LIMITS, at(seconds)).iter().map(|(id, _)| *id).collect::<Vec<_>>();
        assert_eq!(overdue(14), [0; 0]);
        assert_eq!(overdue(15), [1]);
        assert_eq!(overdue(16), [0, 1]);
        assert_eq!(overdue(17), [0, 1, 2]);
        assert_eq!(overdue(121), [0, 1, 2, 3]);
    }
}
