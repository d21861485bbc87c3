//! This task owns the core, passes messages to the core, and sends the core's requests. The task never waits for the
//! API server.
//!
//! The task starts every term with an empty state.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use dashmap::DashMap;
use headgate_core::{
    Moment, Scope, WallTime,
    leadership::lease::LeaseTerm,
    model::object::{ObjectKey, Uid},
};
use headgate_daemonset::{
    Daemonsets, Input,
    model::{
        ask::{Ask, Asked, Outcome},
        status::Status,
    },
};
use kube::Client;
use tokio::{
    sync::{Notify, Semaphore, mpsc},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::{memory::Memory, telling::Telling};
use crate::{
    kube::{
        daemonsets::{
            requests::{PATIENCE, Requests},
            watches::{News, Watches},
        },
        events,
        watch::{Closed, Following},
    },
    metrics::Metrics,
    runtime::{authority::Authority, clock, pulse::Pulse},
};

/// The maximum number of messages in the queue. If the queue is full, the watches wait.
const INBOX: usize = 4096;
/// The maximum number of requests in flight.
const AT_ONCE: usize = 64;
/// The minimum interval between updates of the statuses for readers.
const SHOWN: Duration = Duration::from_secs(1);
/// The maximum interval between two heartbeats.
const IDLE: Duration = Duration::from_secs(5);
/// The timeout for requests in flight after the signal to stop.
const FAREWELL: Duration = PATIENCE;

/// The status of each set, for the metrics.
pub type Statuses = DashMap<ObjectKey, Arc<Status>>;

/// The owner of the core, as the module docs describe.
pub struct Owner {
    /// The API server.
    pub client: Client,
    /// The clock, the metrics and the watch failures.
    pub following: Following,
    /// The namespaces whose sets are managed.
    pub scopes: Vec<Scope>,
    /// The annotation keys that sets may set on nodes.
    pub node_annotations: Arc<[String]>,
    /// Whether this replica is the leader.
    pub authority: Authority,
    /// The queue of Events.
    pub notices: events::Sender,
    /// The status of each set, for the metrics.
    pub statuses: Arc<Statuses>,
    /// The metrics.
    pub metrics: Arc<Metrics>,
    /// The pulse for the probes.
    pub pulse: Arc<Pulse>,
}

/// A completed request.
struct Ended {
    asked: Asked,
    outcome: Outcome,
    sent: Moment,
}

/// The data of a leader's term.
struct Term {
    number: u64,
    core: Daemonsets,
    memory: Memory,
    telling: Telling,
    calls: JoinSet<Ended>,
    places: Arc<Semaphore>,
    /// Requests that the watch lists the nodes again.
    relist: Arc<Notify>,
    requests: Requests,
}

impl Owner {
    /// Runs until `stop`, and then waits at most [`FAREWELL`] for the requests in flight.
    pub async fn run(mut self, stop: CancellationToken) -> Result<(), String> {
        while let Some(term) = self.stand_by(&stop).await {
            self.metrics.leads(true);
            let ended = self.lead(term, &stop).await;
            self.metrics.leads(false);
            self.statuses.clear();
            ended?;
        }
        Ok(())
    }

    fn now(&self) -> Moment {
        self.following.clock.now()
    }

    /// Waits until this replica becomes the leader. `None`: the program is stopping.
    async fn stand_by(&mut self, stop: &CancellationToken) -> Option<LeaseTerm> {
        loop {
            self.pulse.beat(true);
            if stop.is_cancelled() {
                return None;
            }
            if let Some(term) = self.authority.term() {
                return Some(term);
            }
            self.pause(IDLE, stop).await;
        }
    }

    /// Waits for at most `at_most`. A change of leadership or the signal to stop ends the wait early.
    async fn pause(&mut self, at_most: Duration, stop: &CancellationToken) {
        let until = self.now() + at_most;
        tokio::select! {
            () = self.authority.changed() => {}
            () = stop.cancelled() => {}
            () = self.following.clock.sleep_until(until) => {}
        }
    }

    /// Acts as the leader until the term ends or the program stops.
    async fn lead(&mut self, term: LeaseTerm, stop: &CancellationToken) -> Result<(), String> {
        let begins = self.now() + PATIENCE;
        while self.now() < begins {
            // Requests of the previous leader may still take effect.
            self.pulse.beat(false);
            if stop.is_cancelled() || !self.authority.permits(term.number) {
                return Ok(());
            }
            let rest = begins.since(self.now());
            self.pause(rest, stop).await;
        }
        let (into, mut news) = mpsc::channel(INBOX);
        let relist = Arc::new(Notify::new());
        let mut watches = self.watch(into, &relist);
        let mut its = Term {
            number: term.number,
            core: Daemonsets::new(&self.scopes),
            memory: Memory::default(),
            telling: Telling::default(),
            calls: JoinSet::new(),
            places: Arc::new(Semaphore::new(AT_ONCE)),
            relist,
            requests: Requests::new(self.client.clone(), self.node_annotations.clone()),
        };
        let mut leave_by: Option<Moment> = None;
        let mut was_synced = false;
        let mut shows = self.now();
        loop {
            let now = self.now();
            if !self.authority.permits(term.number) {
                info!("this replica no longer leads, so it sends no requests");
                return Ok(());
            }
            if leave_by.is_some_and(|by| by <= now || its.calls.is_empty()) {
                return Ok(());
            }
            let synced = its.core.is_synced();
            if synced && !was_synced {
                info!("initial cache sync complete");
            }
            was_synced = synced;
            self.pulse.beat(synced);
            self.metrics.known(its.core.pod_count(), synced);
            let wakeup = wakeup(&its.core, now);
            let input = tokio::select! {
                Some(said) = news.recv() => its.memory.take(said),
                Some(ended) = its.calls.join_next() => match ended {
                    Ok(ended) => {
                        self.tell(&ended);
                        Input::Answered(ended.asked.id, ended.outcome)
                    }
                    Err(error) => return Err(format!("a request failed unexpectedly: {error}")),
                },
                Some(ended) = watches.join_next() => {
                    return Err(match ended {
                        Ok(Ok(()) | Err(Closed)) => "a watch has ended".to_owned(),
                        Err(error) => format!("a watch failed unexpectedly: {error}"),
                    });
                }
                () = self.authority.changed() => continue,
                () = stop.cancelled(), if leave_by.is_none() => {
                    leave_by = Some(now + FAREWELL);
                    continue;
                }
                () = self.following.clock.sleep_until(wakeup.min(leave_by.unwrap_or(wakeup))) => Input::Passed,
            };
            let asked = its.core.step(input, self.now(), wall());
            if leave_by.is_some() {
                continue;
            }
            if its.core.take_relist() {
                warn!(kind = "nodes", "most objects are reported as deleted: listing once more to confirm");
                its.relist.notify_one();
            }
            for asked in asked {
                self.send(asked, &mut its);
            }
            self.tell_of_sets(&its.core, &mut its.telling);
            if self.now() >= shows {
                shows = self.now() + SHOWN;
                self.show(&its.core, &mut its.telling);
            }
        }
    }

    fn watch(&self, into: mpsc::Sender<News>, relist: &Arc<Notify>) -> JoinSet<Result<(), Closed>> {
        let watches = Watches { client: self.client.clone(), following: self.following.clone(), into };
        let mut tasks = JoinSet::new();
        for scope in &self.scopes {
            tasks.spawn(watches.clone().sets(scope.clone()));
            tasks.spawn(watches.clone().pods(scope.clone()));
            tasks.spawn(watches.clone().revisions(scope.clone()));
            tasks.spawn(watches.clone().budgets(scope.clone()));
        }
        tasks.spawn(watches.nodes(relist.clone()));
        tasks
    }

    /// Sends a request as soon as fewer than [`AT_ONCE`] are in flight, if this replica is still the leader.
    fn send(&self, asked: Asked, its: &mut Term) {
        let with = its.memory.of(&asked);
        let (requests, places, authority) =
            (its.requests.clone(), its.places.clone(), self.authority.clone());
        let (number, clock) = (its.number, self.following.clock);
        said(&asked);
        its.calls.spawn(async move {
            let _place = places.acquire_owned().await;
            let sent = clock.now();
            let outcome = if authority.permits(number) {
                requests.ask(&asked, with, wall()).await
            } else {
                Outcome::Unknown("this replica no longer leads, so nothing was sent".into())
            };
            Ended { asked, outcome, sent }
        });
    }

    fn tell(&self, Ended { asked, outcome, sent }: &Ended) {
        let verb = verb(&asked.ask);
        self.metrics.set_asked(verb, word(outcome), self.following.clock.since(*sent));
        let set = &asked.set;
        match outcome {
            Outcome::Done(_) | Outcome::Gone | Outcome::Exists | Outcome::Conflict => {
                debug!(%set, verb, outcome = word(outcome), "answered");
            }
            Outcome::NotNow(why) => {
                info!(%set, verb, pod = named(&asked.ask), why = &**why, "rejected for now, retrying");
            }
            Outcome::Refused(why) => {
                warn!(%set, verb, pod = named(&asked.ask), why = &**why, "rejected, retrying later");
            }
            Outcome::Unknown(why) => {
                warn!(%set, verb, pod = named(&asked.ask), why = &**why, "no answer, retrying");
            }
        }
    }

    /// Reports changes of sets as Events and log lines.
    fn tell_of_sets(&self, core: &Daemonsets, telling: &mut Telling) {
        for (key, uid, status) in core.statuses() {
            for notice in telling.news(key, uid, status) {
                self.metrics.noticed(notice.reason);
                // The log contains the notice even if the Event is dropped.
                if !self.notices.send(notice) {
                    self.metrics.event_dropped();
                }
            }
        }
    }

    fn show(&self, core: &Daemonsets, telling: &mut Telling) {
        let now: BTreeMap<&ObjectKey, (&Uid, &Status)> =
            core.statuses().map(|(key, uid, status)| (key, (uid, status))).collect();
        self.statuses.retain(|key, _| now.contains_key(key));
        telling.retain(|key, uid| now.get(key).is_some_and(|(of, _)| *of == uid));
        for (key, (_, status)) in now {
            if self.statuses.get(key).is_none_or(|shown| **shown != *status) {
                self.statuses.insert(key.clone(), Arc::new(status.clone()));
            }
        }
    }
}

/// The wall clock's time in milliseconds, which is the precision of stored times.
fn wall() -> WallTime {
    let millis = u64::try_from(clock::wall().elapsed().as_millis()).unwrap_or(u64::MAX);
    WallTime::since_1970(Duration::from_millis(millis))
}

/// The time at which the core must run again or the pulse must be updated.
fn wakeup(core: &Daemonsets, now: Moment) -> Moment {
    let (moment, at) = core.due();
    // The wall clock value is cut to milliseconds, so the wait is rounded up.
    let at = at.map(|at| now + at.since(wall()) + Duration::from_millis(1));
    moment.into_iter().chain(at).fold(now + IDLE, Moment::min)
}

/// Logs a decision about a pod.
fn said(Asked { set, ask, .. }: &Asked) {
    match ask {
        Ask::Make { name, node, revision } => {
            info!(%set, pod = &**name, node = &**node, revision = &**revision, "making a pod");
        }
        Ask::Delete { name, why, .. } => info!(%set, pod = &**name, reason = why.as_str(), "deleting a pod"),
        Ask::Evict { name, why, .. } => info!(%set, pod = &**name, reason = why.as_str(), "evicting a pod"),
        Ask::Adopt { name, .. } => info!(%set, pod = &**name, "adopting a pod without a controller"),
        Ask::Annotate { node, key, value } => {
            info!(%set, node = &**node, key = &**key, value = value.as_deref(), "updating node annotation");
        }
        Ask::Release { name, .. } => {
            info!(%set, pod = &**name, "releasing a pod that has lost its label");
        }
        Ask::Write { status, .. } => {
            debug!(%set, roll = status.roll.as_str(), nodes = status.nodes, updated = status.updated_nodes, "writing the status");
        }
        other => debug!(%set, verb = verb(other), "asking"),
    }
}

const fn verb(ask: &Ask) -> &'static str {
    match ask {
        Ask::Make { .. } => "make",
        Ask::Delete { .. } => "delete",
        Ask::Evict { .. } => "evict",
        Ask::Adopt { .. } => "adopt",
        Ask::Release { .. } => "release",
        Ask::KeepRevision { .. } => "keep_revision",
        Ask::RenumberRevision { .. } => "renumber_revision",
        Ask::AdoptRevision { .. } => "adopt_revision",
        Ask::DropRevision { .. } => "drop_revision",
        Ask::KeepBudget { .. } => "keep_budget",
        Ask::AdoptBudget { .. } => "adopt_budget",
        Ask::DropBudget(_) => "drop_budget",
        Ask::Annotate { .. } => "annotate_node",
        Ask::Write { .. } => "write_status",
    }
}

const fn word(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Done(_) => "ok",
        Outcome::Exists => "Exists",
        Outcome::Gone => "Gone",
        Outcome::Conflict => "Conflict",
        Outcome::Refused(_) => "Refused",
        Outcome::NotNow(_) => "NotNow",
        Outcome::Unknown(_) => "Unknown",
    }
}

fn named(ask: &Ask) -> Option<&str> {
    match ask {
        Ask::Make { name, .. }
        | Ask::Delete { name, .. }
        | Ask::Evict { name, .. }
        | Ask::Adopt { name, .. }
        | Ask::Release { name, .. } => Some(name),
        _ => None,
    }
}
