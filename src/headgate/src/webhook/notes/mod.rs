//! The records on pods whose eviction is requested (`headgate.dev/leaving`), written after the answers.
//!
//! The API server waits 10 s for an answer about an eviction, and then allows it. No answer therefore waits for a write: the
//! answer is 429, and the record follows.
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
//! * A pod keeps its place in the queue when its eviction is requested again, so that every record is written at some time.
//! * The task writes what the pod needs at that time ([`OnPods`]): nothing, if another replica has written it. The record
//!   contains the time of the request, even if it waited.
//! * A failed write is retried, and delays no other. If it fails for longer than `--eviction-patience`, or Kubernetes
//!   rejects it permanently, the next request gets that result, and the eviction is allowed.
//! * There are never more than [`CAPACITY`](queue::CAPACITY) pending records. When that many are pending, Headgate
//!   records no other one and still answers 429: the client retries.
//! * The limit of writes in flight leaves room for the leader's writes at the API server.
//!
//! **Assumptions.** A client that got 429 retries. A record may therefore be lost, for example with the process: the next
//! request creates it again.

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

/// The maximum number of writes in flight. They delay no other write of Headgate.
pub const AT_ONCE: usize = 16;
/// With this many records, a new one waits for seconds.
const MANY: usize = 20 * AT_ONCE;
/// The timeout of a write, after which it is retried.
const PATIENCE: Duration = Duration::from_secs(5);
/// The timeout of the engine's decision what to write.
const ASKS_FOR: Duration = Duration::from_secs(1);

/// Writes one record.
pub trait Writer: Sync {
    /// Writes the record.
    fn write(&self, note: &Note) -> impl Future<Output = Result<(), Failure>> + Send;
}

/// The records that are still to be written.
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
    /// No records.
    pub fn new(limits: Limits, clock: Clock, metrics: Arc<Metrics>) -> Self {
        let (queue, asked) = (Mutex::new(Queue::new(limits)), Notify::new());
        Self { shared: Arc::new(Shared { queue, asked, clock, metrics }) }
    }

    /// Adds a record that a client requests the eviction of the pod with this UID.
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

    /// Writes the records. Does not end.
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

/// Writes records on pods, as the engine decides at that time.
pub struct OnPods {
    /// The engine.
    pub asking: Asking,
    /// The pods.
    pub evictions: Evictions,
    /// The time.
    pub clock: Clock,
}

impl Writer for OnPods {
    async fn write(&self, note: &Note) -> Result<(), Failure> {
        let ago = Ago { first: self.clock.since(note.first), last: self.clock.since(note.last) };
        let request = Request { uid: Some(note.uid.clone()), grace: None, ago };
        // The node was read when the record was requested. The watch may not show the result yet.
        let ruling = self.asking.may_evict(note.pod.clone(), request, ASKS_FOR).await;
        match ruling.map(|ruling| ruling.with_node(false)) {
            Some(Ruling::Wait { mark: Some(mark), .. }) => {
                self.evictions.mark(&note.pod, &note.uid, mark).await
            }
            // Another replica has written it, or the pod may be evicted.
            Some(_) => Ok(()),
            None => {
                let busy = format!("the engine did not answer within {ASKS_FOR:?}");
                Err(Failure::new(FailureClass::Unavailable, TIMEOUT, busy))
            }
        }
    }
}
