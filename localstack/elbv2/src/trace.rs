//! What happened: API calls, target transitions, routing changes of single nodes, connections.
//!
//! A bounded ring in memory. Never blocks its writers for longer than a push; when full it drops the oldest
//! entries and says how many. Sequence numbers grow by one and start again at 1 after a reset.

use std::collections::{BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use serde::{Serialize, Serializer};
use tokio::sync::watch;

/// One thing that happened.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Event {
    /// A call of the AWS API, recorded when it was answered.
    Call {
        /// `Action` of the request.
        action: String,
        /// Name of the target group it concerned, if one.
        target_group: Option<String>,
        /// `id:port` of each target it named, or `id` where no port was given.
        targets: Vec<String>,
        /// `ok` or the error code.
        outcome: String,
        /// When the request had been read.
        #[serde(serialize_with = "micros")]
        arrived: Timestamp,
        /// When the answer was handed to the socket.
        #[serde(serialize_with = "micros")]
        answered: Timestamp,
    },
    /// The API now shows another state of a target.
    Target {
        /// Name of the target group.
        target_group: String,
        /// The target.
        target: SocketAddr,
        /// State before; `unused` with reason `Target.NotRegistered` for a target that was not there.
        from: &'static str,
        /// State now.
        to: &'static str,
        /// Reason code of the new state, as DescribeTargetHealth shows it.
        reason: Option<&'static str>,
    },
    /// A node began or stopped to send new connections to a target.
    Route {
        /// Name of the load balancer.
        load_balancer: String,
        /// Name of the target group.
        target_group: String,
        /// Address of the node.
        node: IpAddr,
        /// Zone of the node.
        zone: String,
        /// The target.
        target: SocketAddr,
        /// Whether the node sends there now.
        routing: bool,
    },
    /// A connection (Network Load Balancer) or request (Application Load Balancer) ended.
    Connection {
        /// Name of the load balancer.
        load_balancer: String,
        /// Name of the target group that was chosen.
        target_group: Option<String>,
        /// Address of the node.
        node: IpAddr,
        /// Listener port.
        port: u16,
        /// The client.
        client: SocketAddr,
        /// Where it was sent; none if there was no target.
        target: Option<SocketAddr>,
        /// When the target was chosen.
        #[serde(serialize_with = "micros")]
        opened: Timestamp,
        /// When it ended.
        #[serde(serialize_with = "micros")]
        closed: Timestamp,
        /// Payload both ways.
        bytes: u64,
        /// How it ended.
        outcome: Outcome,
        /// Status that the client of an Application Load Balancer got.
        status: Option<u16>,
    },
}

/// How a connection or request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Both sides finished.
    Ok,
    /// The target refused the connection.
    Refused,
    /// The target did not accept, or did not answer, in time.
    Timeout,
    /// The connection to the target broke.
    Reset,
    /// The client went away first, sent no more of its body in time, or sent something that is none.
    ClientGone,
    /// The node had no target to send to.
    NoTarget,
    /// The node ended it: the target became unhealthy, its draining ended, or its address has another owner.
    Terminated,
    /// Nothing moved for longer than the idle time-out.
    Idle,
    /// The stand-in went down or was reset.
    Cut,
}

/// An event with its place in the order of events.
#[derive(Debug, Clone, Serialize)]
pub struct Entry {
    /// Counts from 1 without gaps.
    pub seq: u64,
    /// When it was recorded.
    #[serde(serialize_with = "micros")]
    pub at: Timestamp,
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
}

/// Part of the trace.
#[derive(Debug, Serialize)]
pub struct Page {
    /// Give this as `since` to go on.
    pub next: u64,
    /// Entries after `since` that had been dropped before they were asked for.
    pub dropped: u64,
    /// The entries, oldest first.
    pub entries: Vec<Entry>,
}

/// The ring.
#[derive(Debug)]
pub struct Trace {
    capacity: usize,
    ring: Mutex<Ring>,
    underway: watch::Sender<Underway>,
}

/// The calls that have begun to change something and are not in the trace yet.
#[derive(Debug, Default)]
struct Underway {
    calls: BTreeSet<u64>,
    last: u64,
}

/// One call that is under way, until it is dropped.
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
    /// An empty trace that keeps `capacity` entries (at least one).
    pub fn new(capacity: usize) -> Self {
        Self { capacity: capacity.max(1), ring: Mutex::default(), underway: watch::Sender::default() }
    }

    /// A call begins to change something. It is dropped when the call has been recorded.
    pub fn begin(&self) -> Call<'_> {
        let mut number = 0;
        self.underway.send_modify(|underway| {
            underway.last += 1;
            number = underway.last;
            underway.calls.insert(number);
        });
        Call { trace: self, number }
    }

    /// Waits until the calls that are under way now have been recorded.
    pub async fn settled(&self) {
        let mut underway = self.underway.subscribe();
        let last = underway.borrow().last;
        // It fails only if the trace is gone.
        let _ = underway.wait_for(|underway| underway.calls.range(..=last).next().is_none()).await;
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds events that happened at one moment.
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

    /// The entries after `since`, at most `limit`.
    pub fn page(&self, since: u64, limit: usize) -> Page {
        let ring = self.ring();
        let first = ring.entries.front().map_or(ring.last + 1, |entry| entry.seq);
        let dropped = first.saturating_sub(since + 1);
        let skip = usize::try_from((since + 1).saturating_sub(first)).unwrap_or(usize::MAX);
        let entries: Vec<Entry> = ring.entries.iter().skip(skip).take(limit).cloned().collect();
        let next = entries.last().map_or(since.max(first - 1), |entry| entry.seq);
        Page { next, dropped, entries }
    }

    /// Forgets everything; numbers start again at 1.
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
