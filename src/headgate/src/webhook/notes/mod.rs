//! Records requested evictions on pods (`headgate.dev/leaving`). Headgate writes a record after it has answered the
//! request.
//!
//! The API server waits 10 s for an answer about an eviction, and then allows the eviction. Therefore, no answer waits
//! for a write: the answer is 429, and the write follows.
//!
//! ```text
//!  evict ──► Notes::ask ──► queue: one record per pod, in the order of first requests
//!              │               │
//!              ▼               ▼
//!        429, retry         Notes::write: at most [`AT_ONCE`] in flight ──► OnPods ──► PATCH
//! ```
//!
//! **Owns** the records that this replica still has to write.
//!
//! **Guarantees.**
//! * If a client requests the eviction again, the pod keeps its place in the queue, so every record is eventually
//!   written.
//! * The engine decides before each write whether the record is still necessary ([`OnPods`]), because another replica
//!   may have written it. The record contains the time of the request, even if the write was delayed.
//! * A failed write is retried, and does not delay other writes. If the write fails for longer than
//!   `--eviction-patience`, or Kubernetes rejects it permanently, Headgate allows the eviction at the next request.
//! * There are at most [`CAPACITY`](queue::CAPACITY) pending records. If the queue is full, Headgate does not record a
//!   new request and still answers 429, so the client retries.
//! * The limit on writes in flight keeps capacity of the API server free for the leader's writes.
//!
//! **Assumptions.** A client that receives 429 retries. Therefore, a record may be lost, for example if the process
//! stops: the next request creates the record again.

pub mod queue;
#[cfg(test)]
mod tests;

use std::{
    future::{Future, pending},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::{StreamExt, stream::FuturesUnordered};
use headgate_core::{
    Failure, FailureClass,
    model::{
        eviction::{Ago, Limits, Request, Ruling},
        object::{ObjectKey, Uid},
    },
};
use tokio::sync::Notify;

use self::queue::{Asked, Note, Queue};
use super::ask::Asking;
use crate::{
    kube::evictions::Evictions,
    metrics::Metrics,
    runtime::{
        clock::Clock,
        within::{TIMEOUT, within},
    },
};

/// The maximum number of writes in flight. The limit prevents writes of records from delaying other writes of Headgate.
pub const AT_ONCE: usize = 16;
/// If more records are pending, a new record waits for seconds.
const MANY: usize = 20 * AT_ONCE;
/// The timeout of a write, after which it is retried.
const PATIENCE: Duration = Duration::from_secs(5);
/// The timeout of the engine's decision whether to write a record.
const ASKS_FOR: Duration = Duration::from_secs(1);

/// Writes records.
pub trait Writer: Sync {
    /// Writes a record.
    fn write(&self, note: &Note) -> impl Future<Output = Result<(), Failure>> + Send;
}

/// The records that must still be written.
#[derive(Clone)]
pub struct Notes {
    shared: Arc<Shared>,
}

struct Shared {
    queue: Mutex<Queue>,
    asked: Notify,
    clock: Clock,
    metrics: Arc<Metrics>,
}

impl Notes {
    /// Creates an empty queue of records.
    pub fn new(limits: Limits, clock: Clock, metrics: Arc<Metrics>) -> Self {
        let (queue, asked) = (Mutex::new(Queue::new(limits)), Notify::new());
        Self { shared: Arc::new(Shared { queue, asked, clock, metrics }) }
    }

    /// Queues a record of a client's request to evict a pod.
    pub fn ask(&self, pod: &ObjectKey, uid: &Uid) -> Asked {
        let now = self.shared.clock.now();
        let asked = self.change(|queue| queue.ask(pod, uid, now));
        match asked {
            Asked::Waits => self.shared.asked.notify_one(),
            Asked::Full => self.shared.metrics.note_ended("full"),
            Asked::Refused(_) => {}
        }
        asked
    }

    /// Whether a new record would wait for seconds.
    pub fn are_many(&self) -> bool {
        self.queue().count() > MANY
    }

    /// Writes the queued records. Does not return.
    pub async fn write(self, writer: impl Writer) -> Result<(), String> {
        let clock = self.shared.clock;
        let writer = &writer;
        let mut under_way = FuturesUnordered::new();
        loop {
            while under_way.len() < AT_ONCE
                && let Some(note) = self.change(|queue| queue.next(clock.now()))
            {
                under_way.push(async move { (within(PATIENCE, writer.write(&note)).await, note) });
            }
            let due = if under_way.len() < AT_ONCE { self.queue().next_due() } else { None };
            let turn = async {
                match due {
                    Some(due) => clock.sleep_until(due).await,
                    None => pending().await,
                }
            };
            tokio::select! {
                Some((result, note)) = under_way.next() => self.ended(&note, result),
                () = self.shared.asked.notified() => {}
                () = turn => {}
            }
        }
    }

    fn ended(&self, note: &Note, result: Result<(), Failure>) {
        let outcome = result.as_ref().map_or_else(|failure| failure.class.as_str(), |()| "ok");
        self.shared.metrics.note_ended(outcome);
        let now = self.shared.clock.now();
        self.change(|queue| queue.ended(note, result, now));
    }

    fn change<T>(&self, change: impl FnOnce(&mut Queue) -> T) -> T {
        let mut queue = self.queue();
        let changed = change(&mut queue);
        self.shared.metrics.notes_wait(queue.count());
        changed
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.shared.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes a record to its pod, if the engine still requires the record.
pub struct OnPods {
    /// Sends queries to the engine.
    pub asking: Asking,
    /// Writes annotations to pods.
    pub evictions: Evictions,
    /// The time.
    pub clock: Clock,
}

impl Writer for OnPods {
    async fn write(&self, note: &Note) -> Result<(), Failure> {
        let ago = Ago { first: self.clock.since(note.first), last: self.clock.since(note.last) };
        let request = Request { uid: Some(note.uid.clone()), grace: None, ago };
        // The node was read when the record was queued. The watch may not show the node's present state yet.
        let ruling = self.asking.may_evict(note.pod.clone(), request, ASKS_FOR).await;
        match ruling.map(|ruling| ruling.with_node(false)) {
            Some(Ruling::Wait { mark: Some(mark), .. }) => {
                self.evictions.mark(&note.pod, &note.uid, mark).await
            }
            // Another replica has written the record, or the pod may be evicted.
            Some(_) => Ok(()),
            None => {
                let busy = format!("the engine did not answer within {ASKS_FOR:?}");
                Err(Failure::new(FailureClass::Unavailable, TIMEOUT, busy))
            }
        }
    }
}
