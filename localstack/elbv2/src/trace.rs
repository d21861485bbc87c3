//! The record of events: API calls, state changes of targets, routing changes of single nodes, and connections.
//!
//! The trace is a bounded ring in memory. A writer waits only for the time of a push. When the ring is full, the ring
//! drops and counts the oldest entries. Sequence numbers increase by one, and start again at 1 after a reset.

use std::collections::{BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use serde::{Serialize, Serializer};
use tokio::sync::watch;

/// One event.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Event {
    /// A call of the AWS API, recorded at the time of the answer.
    Call {
        /// The `Action` parameter of the request.
        action: String,
        /// The name of the target group in the call.
        target_group: Option<String>,
        /// The `id:port` of each target in the call, or only `id` if the call has no port.
        targets: Vec<String>,
        /// `ok` or the error code.
        outcome: String,
        /// The time at which the request was received completely.
        #[serde(serialize_with = "micros")]
        arrived: Timestamp,
        /// The time at which the answer was passed to the socket.
        #[serde(serialize_with = "micros")]
        answered: Timestamp,
    },
    /// The API shows another state of a target.
    Target {
        /// The name of the target group.
        target_group: String,
        /// The target.
        target: SocketAddr,
        /// The previous state. A target that was not registered has the state `unused` with the reason
        /// `Target.NotRegistered`.
        from: &'static str,
        /// The new state.
        to: &'static str,
        /// The reason code of the new state in DescribeTargetHealth.
        reason: Option<&'static str>,
    },
    /// A node started or stopped sending new connections to a target.
    Route {
        /// The name of the load balancer.
        load_balancer: String,
        /// The name of the target group.
        target_group: String,
        /// The address of the node.
        node: IpAddr,
        /// The zone of the node.
        zone: String,
        /// The target.
        target: SocketAddr,
        /// Whether the node now sends to the target.
        routing: bool,
    },
    /// A connection (Network Load Balancer) or a request (Application Load Balancer) was completed or aborted.
    Connection {
        /// The name of the load balancer.
        load_balancer: String,
        /// The name of the chosen target group.
        target_group: Option<String>,
        /// The address of the node.
        node: IpAddr,
        /// The port of the listener.
        port: u16,
        /// The address of the client.
        client: SocketAddr,
        /// The chosen target. `None`: the node had no target.
        target: Option<SocketAddr>,
        /// The time at which the target was chosen.
        #[serde(serialize_with = "micros")]
        opened: Timestamp,
        /// The time at which the connection or request was closed.
        #[serde(serialize_with = "micros")]
        closed: Timestamp,
        /// The number of payload bytes in both directions.
        bytes: u64,
        /// The outcome of the connection or request.
        outcome: Outcome,
        /// The HTTP status that the client of an Application Load Balancer received.
        status: Option<u16>,
    },
}

/// The outcome of a connection or request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Both sides of the connection finished.
    Ok,
    /// The target refused the connection.
    Refused,
    /// The target did not accept the connection in time, or did not answer in time.
    Timeout,
    /// The connection to the target broke.
    Reset,
    /// The client closed the connection, stopped sending the body, or sent invalid data.
    ClientGone,
    /// The node had no target.
    NoTarget,
    /// The node closed the connection: the target became unhealthy, the draining is over, or the address has another
    /// owner.
    Terminated,
    /// No data moved for longer than the idle timeout.
    Idle,
    /// The stand-in stopped or was reset.
    Cut,
}

/// An event with its sequence number.
#[derive(Debug, Clone, Serialize)]
pub struct Entry {
    /// The sequence number, which starts at 1 and has no gaps.
    pub seq: u64,
    /// The time of the record.
    #[serde(serialize_with = "micros")]
    pub at: Timestamp,
    #[serde(flatten)]
    pub event: Event,
}

/// A part of the trace.
#[derive(Debug, Serialize)]
pub struct Page {
    /// The value of `since` for the next page.
    pub next: u64,
    /// The number of entries after `since` that were dropped before this request.
    pub dropped: u64,
    /// The entries, oldest first.
    pub entries: Vec<Entry>,
}

/// The trace, stored in a ring.
#[derive(Debug)]
pub struct Trace {
    capacity: usize,
    ring: Mutex<Ring>,
    underway: watch::Sender<Underway>,
}

/// The calls that may have changed the state but are not recorded in the trace yet.
#[derive(Debug, Default)]
struct Underway {
    calls: BTreeSet<u64>,
    last: u64,
}

/// A call that is not recorded yet. Dropping the value means that the call was recorded.
#[derive(Debug)]
pub struct Call<'a> {
    trace: &'a Trace,
    number: u64,
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.trace.underway.send_modify(|underway| {
            underway.calls.remove(&self.number);
        });
    }
}

#[derive(Debug, Default)]
struct Ring {
    entries: VecDeque<Entry>,
    last: u64,
}

impl Trace {
    /// Creates an empty trace that keeps at most `capacity` entries, and at least one entry.
    pub fn new(capacity: usize) -> Self {
        Self { capacity: capacity.max(1), ring: Mutex::default(), underway: watch::Sender::default() }
    }

    /// Reports the start of a call that may change the state. The caller drops the returned value after the call is
    /// recorded.
    pub fn begin(&self) -> Call<'_> {
        let mut number = 0;
        self.underway.send_modify(|underway| {
            underway.last += 1;
            number = underway.last;
            underway.calls.insert(number);
        });
        Call { trace: self, number }
    }

    /// Waits until all current calls are recorded.
    pub async fn settled(&self) {
        let mut underway = self.underway.subscribe();
        let last = underway.borrow().last;
        // The wait fails only if the trace was dropped.
        let _ = underway.wait_for(|underway| underway.calls.range(..=last).next().is_none()).await;
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records events that happened at the same time.
    pub fn record(&self, at: Timestamp, events: impl IntoIterator<Item = Event>) {
        let mut ring = self.ring();
        for event in events {
            if ring.entries.len() == self.capacity {
                ring.entries.pop_front();
            }
            ring.last += 1;
            let seq = ring.last;
            ring.entries.push_back(Entry { seq, at, event });
        }
    }

    /// Returns at most `limit` entries after `since`.
    pub fn page(&self, since: u64, limit: usize) -> Page {
        let ring = self.ring();
        let first = ring.entries.front().map_or(ring.last + 1, |entry| entry.seq);
        let dropped = first.saturating_sub(since + 1);
        let skip = usize::try_from((since + 1).saturating_sub(first)).unwrap_or(usize::MAX);
        let entries: Vec<Entry> = ring.entries.iter().skip(skip).take(limit).cloned().collect();
        let next = entries.last().map_or(since.max(first - 1), |entry| entry.seq);
        Page { next, dropped, entries }
    }

    /// Deletes all entries. Sequence numbers start again at 1.
    pub fn clear(&self) {
        *self.ring() = Ring::default();
    }
}

fn micros<S: Serializer>(at: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{at:.6}"))
}

#[cfg(test)]
mod tests {
    use futures::future::poll_immediate;

    use super::*;

    fn route(target: &str) -> Event {
        Event::Route {
            load_balancer: "lb".into(),
            target_group: "web".into(),
            node: "127.101.224.1".parse().unwrap(),
            zone: "us-east-1a".into(),
            target: target.parse().unwrap(),
            routing: true,
        }
    }

    #[test]
    fn a_full_ring_drops_the_oldest_and_counts_them() {
        let trace = Trace::new(2);
        for port in 1..=5 {
            trace.record(Timestamp::UNIX_EPOCH, [route(&format!("127.0.0.1:{port}"))]);
        }
        let page = trace.page(1, 100);
        assert_eq!((page.dropped, page.next), (2, 5));
        assert_eq!(page.entries.iter().map(|e| e.seq).collect::<Vec<_>>(), [4, 5]);
    }

    #[test]
    fn a_reader_that_goes_on_from_next_sees_each_entry_once() {
        let trace = Trace::new(100);
        trace.record(Timestamp::UNIX_EPOCH, (1..=5).map(|port| route(&format!("127.0.0.1:{port}"))));
        let first = trace.page(0, 3);
        let rest = trace.page(first.next, 3);
        assert_eq!((first.entries.len(), rest.entries.len(), rest.next), (3, 2, 5));
        assert_eq!(trace.page(rest.next, 3).next, 5);
    }

    #[tokio::test]
    async fn it_is_settled_when_the_calls_that_had_begun_are_recorded() {
        let trace = Trace::new(1);
        trace.settled().await;
        let first = trace.begin();
        let mut settled = std::pin::pin!(trace.settled());
        assert_eq!(poll_immediate(&mut settled).await, None);
        let second = trace.begin();
        drop(first);
        assert_eq!(poll_immediate(&mut settled).await, Some(()), "a call that began later is not waited for");
        drop(second);
    }

    #[test]
    fn times_have_microseconds_even_when_they_are_round() {
        let trace = Trace::new(1);
        trace.record(Timestamp::UNIX_EPOCH, [route("127.0.0.1:1")]);
        let json = serde_json::to_value(trace.page(0, 1)).unwrap();
        assert_eq!(json["entries"][0]["at"], "1970-01-01T00:00:00.000000Z");
        assert_eq!(json["entries"][0]["kind"], "route");
    }
}
