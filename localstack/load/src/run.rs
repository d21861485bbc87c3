//! A run, which starts requests at their times and returns a report.
//!
//! A run has two kinds of tasks. One `pacer` starts the requests, and never waits for a request. Each `request` stops
//! at its timeout at the latest, so a stopped run always completes. If a task stops without a result, the counts do not
//! match. The run then returns [`RunError::Unaccounted`] instead of a report.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use thiserror::Error;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::client::{Client, Verdict};
use crate::ledger::{Counts, Ledger};
use crate::phases::Phases;
use crate::plan::{Plan, PlanError};
use crate::record::Record;
use crate::report::Report;
use crate::schedule::Schedule;

/// A run in progress. Dropping the run prevents further requests.
#[derive(Debug)]
pub struct Run {
    shared: Arc<Shared>,
    tasks: TaskTracker,
    stop: CancellationToken,
    _stop_with_this: DropGuard,
}

#[derive(Debug)]
struct Shared {
    plan: Plan,
    schedule: Schedule,
    clients: Vec<Client>,
    start: Instant,
    start_us: u64,
    /// The time after which no request is started.
    stopped_at: OnceLock<Instant>,
    /// Whether the run reached its limit of records.
    is_full: AtomicBool,
    books: Mutex<Books>,
}

#[derive(Debug)]
struct Books {
    ledger: Ledger,
    phases: Phases,
    /// The names of pods. Each name is stored once.
    pods: HashSet<Arc<str>>,
}

/// The reason why a run has no normal report.
#[derive(Debug, Error)]
pub enum RunError {
    /// The run had no duration, and was not stopped before it reached its limit of records.
    #[error(
        "all {limit} records that the plan allows were used up before the run was stopped, so it has offered \
         nothing since; stop sooner, or lower the rate"
    )]
    TooManyRecords {
        /// The limit of the plan.
        limit: u32,
        /// A complete report of all requests until the limit.
        report: Box<Report>,
    },
    /// The generator has a bug.
    #[error(
        "{offered} requests were offered, but {recorded} were recorded; this is a defect of the generator"
    )]
    Unaccounted {
        /// The number of started requests.
        offered: u64,
        /// The number of requests with an outcome.
        recorded: u64,
    },
}

impl Run {
    /// Starts a run.
    ///
    /// # Panics
    /// The caller is outside of a Tokio runtime with time and I/O.
    pub fn start(plan: Plan) -> Result<Self, PlanError> {
        let schedule = plan.schedule()?;
        let clients = plan.clients.iter().enumerate();
        let clients: Vec<Client> =
            clients.map(|(index, client)| Client::new(&plan, *client, index)).collect();
        let (start, wall) = (Instant::now(), SystemTime::now());
        let books =
            Books { ledger: Ledger::new(clients.len()), phases: Phases::new(start), pods: HashSet::new() };
        let shared = Arc::new(Shared {
            plan,
            schedule,
            clients,
            start,
            start_us: micros(wall.duration_since(UNIX_EPOCH).unwrap_or_default()),
            stopped_at: OnceLock::new(),
            is_full: AtomicBool::new(false),
            books: Mutex::new(books),
        });
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        tasks.spawn(pacer(Arc::clone(&shared), stop.clone(), Closing(tasks.clone())));
        Ok(Self { shared, tasks, stop: stop.clone(), _stop_with_this: stop.drop_guard() })
    }

    /// Returns the current counts.
    pub fn counts(&self) -> Counts {
        self.shared.books().ledger.total
    }

    /// Returns how many lookups of all clients have returned no address until now.
    pub fn dns_failures(&self) -> u64 {
        self.shared.clients.iter().map(|client| client.resolver().failures()).sum()
    }

    /// Starts the phase `label`. Requests with a later intended start belong to this phase. A label may be used again.
    /// The phase before the first mark is `run`.
    pub fn mark(&self, label: &str) {
        let mut books = self.shared.books();
        // The time is read under the lock, so that no request with a later intended start has been started yet.
        let now = Instant::now();
        books.phases.mark(label, now);
    }

    /// Waits until the planned duration is over and all requests are completed. A run without a duration stops when it
    /// reaches its limit of records.
    pub async fn finished(&self) {
        self.tasks.wait().await;
    }

    /// Stops the run now. First starts all requests that are already due, and then waits for all requests in flight, at
    /// most until their timeouts.
    pub async fn stop(self) -> Result<Report, RunError> {
        self.shared.stopped_at.get_or_init(Instant::now);
        self.stop.cancel();
        self.tasks.wait().await;
        let shared = &self.shared;
        let (ledger, labels) = {
            let mut books = shared.books();
            (std::mem::take(&mut books.ledger), books.phases.labels().to_vec())
        };
        let (offered, recorded) = (ledger.total.offered, ledger.records.len() as u64);
        if offered != recorded || ledger.total.in_flight() != 0 {
            return Err(RunError::Unaccounted { offered, recorded });
        }
        let report = Report::new(&shared.plan, ledger, labels, &shared.clients);
        if shared.is_full.load(Ordering::Acquire) {
            let limit = shared.plan.max_records;
            return Err(RunError::TooManyRecords { limit, report: Box::new(report) });
        }
        Ok(report)
    }
}

/// Closes the task tracker even if the pacer panics, so that the run completes after its last request.
struct Closing(TaskTracker);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Starts every request at its scheduled time.
async fn pacer(shared: Arc<Shared>, stop: CancellationToken, tasks: Closing) {
    let planned = shared.plan.duration;
    for index in 0..shared.plan.max_records {
        let offset = shared.schedule.offset(index);
        if planned.is_some_and(|planned| offset >= planned) {
            return;
        }
        let Some(intended) = shared.start.checked_add(offset) else { return };
        tokio::select! {
            biased;
            () = sleep_until(intended) => {}
            () = stop.cancelled() => {}
        }
        if stop.is_cancelled() && shared.stopped_at.get().is_none_or(|stopped| intended >= *stopped) {
            return;
        }
        shared.launch(index, intended, &tasks.0);
    }
    if planned.is_none_or(|planned| shared.schedule.offset(shared.plan.max_records) < planned) {
        shared.is_full.store(true, Ordering::Release);
    }
}

impl Shared {
    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn launch(self: &Arc<Self>, index: u32, intended: Instant, tasks: &TaskTracker) {
        // The index is at most `u32::MAX`, and there is at least one client.
        let client = index as usize % self.clients.len();
        let phase = {
            let mut books = self.books();
            let phase = books.phases.of(intended);
            books.ledger.offer(client, phase);
            phase
        };
        let shared = Arc::clone(self);
        tasks.spawn(async move { shared.request(index, intended, client, phase).await });
    }

    async fn request(&self, index: u32, intended: Instant, client: usize, phase: usize) {
        let late = Instant::now().saturating_duration_since(intended);
        if late > self.plan.tolerance {
            self.books().ledger.behind(client, phase);
        }
        let (Some(who), Some(what)) = (self.clients.get(client), self.plan.clients.get(client)) else {
            return;
        };
        let verdict = who.request(&self.plan, index).await;
        let Verdict { outcome, failure, node, local_port, pod, ended } = verdict;
        let mut books = self.books();
        let pod = pod.map(|name| books.pod(name));
        books.ledger.settle(Record {
            client,
            mode: what.mode,
            phase,
            intended_us: self.start_us.saturating_add(micros(intended.duration_since(self.start))),
            late,
            duration: ended.saturating_duration_since(intended),
            node,
            local_port,
            pod,
            outcome,
            failure,
        });
    }
}

impl Books {
    fn pod(&mut self, name: String) -> Arc<str> {
        if let Some(known) = self.pods.get(name.as_str()) {
            return Arc::clone(known);
        }
        let name: Arc<str> = name.into();
        self.pods.insert(Arc::clone(&name));
        name
    }
}

/// Converts a duration to whole microseconds.
fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
