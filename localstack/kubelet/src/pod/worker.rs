//! The task of one pod.
//!
//! Owns the pod's state machine, its processes and probes, and the order of its writes: one at a time, each
//! built from the state of that moment, so that what the API server was too slow for is skipped, never
//! queued. It never waits for the API server while something else is due, and shares nothing with other pods
//! but the address pool and the writer. A write that fails is repeated with a growing pause; a pod whose
//! object is gone is stopped all the same.

use crate::address::IpPool;
use crate::clock::Moment;
use crate::pod::lifecycle::{Action, ContainerEvent, Input, Lifecycle};
use crate::pod::object::Pod;
use crate::pod::registry::{Command, Entry};
use crate::pod::run::{self, Report, Run};
use crate::pod::write::{Outcome, Writer};
use crate::pod::{patch, status};
use futures::FutureExt;
use futures::future::BoxFuture;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

/// How often a pod asks again for an address when its zone has none left.
const ADDRESS_RETRY: Duration = Duration::from_secs(1);
/// The pause after the first failed write, doubled up to [`LONGEST_PAUSE`].
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Reports of processes and probes that may wait for the task.
const MAILBOX: usize = 16;

/// What the watch says about a pod. Only the newest matters.
#[derive(Clone, Debug)]
pub enum Seen {
    /// The object as of its last event.
    Present(Arc<Pod>),
    /// The object is gone, or another one has its name.
    Gone,
}

/// Where a pod runs.
#[derive(Clone, Debug)]
pub struct Place {
    /// The node's own address.
    pub node: Ipv4Addr,
    /// The addresses of its zone.
    pub pool: Arc<Mutex<IpPool>>,
    /// An address of an earlier run, already claimed from the pool.
    pub kept: Option<Ipv4Addr>,
}

/// The task of one pod.
pub struct Worker {
    pod: Arc<Pod>,
    place: Place,
    entry: Arc<Entry>,
    writer: Writer,
    lifecycle: Lifecycle,
    runs: Vec<Option<Run>>,
    reports: mpsc::Sender<Report>,
    inbox: mpsc::Receiver<Report>,
    /// When this kubelet first saw the pod.
    began: Time,
    /// The pool was dry: ask again then.
    ask_again: Option<Instant>,
    /// Something has changed since the last write was built.
    stale: bool,
    /// The last write failed: not before then.
    pause_until: Option<Instant>,
    pause: Duration,
    object: Object,
}

/// What is known about the object.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Object {
    Present,
    /// A write says that it is gone; the watch has not said so yet, and late events may still come.
    Deleted,
    /// The watch says that it is gone.
    Vanished,
}

impl Worker {
    /// A worker for a pod as first seen; nothing runs before [`Worker::run`].
    pub fn new(pod: Arc<Pod>, place: Place, entry: Arc<Entry>, writer: Writer) -> (Self, Vec<Action>) {
        let now = Moment::now();
        let (lifecycle, actions) = Lifecycle::begin(&pod, now);
        let (reports, inbox) = mpsc::channel(MAILBOX);
        let count = pod.spec.containers.len();
        let worker = Self {
            pod,
            place,
            entry,
            writer,
            lifecycle,
            runs: std::iter::repeat_with(|| None).take(count).collect(),
            reports,
            inbox,
            began: now.timestamp(),
            ask_again: None,
            stale: true,
            pause_until: None,
            pause: SHORTEST_PAUSE,
            object: Object::Present,
        };
        (worker, actions)
    }

    /// Drives the pod until its object is gone and its last process has ended.
    pub async fn run(
        mut self,
        first: Vec<Action>,
        mut seen: watch::Receiver<Seen>,
        mut commands: mpsc::Receiver<Command>,
    ) {
        // The first status is that of a pod without a sandbox, as on a real node.
        let mut write = self.next_write();
        self.perform(first);
        while self.object != Object::Vanished || !self.lifecycle.has_ended() {
            if write.is_none() {
                write = self.next_write();
            }
            self.entry.show(self.lifecycle.ip(), self.lifecycle.stage_name());
            let wake = [self.lifecycle.wake(), self.ask_again, self.pause_until].into_iter().flatten().min();
            tokio::select! {
                changed = seen.changed() => {
                    let newest = if changed.is_ok() { seen.borrow_and_update().clone() } else { Seen::Gone };
                    self.observe(newest);
                }
                Some(report) = self.inbox.recv() => {
                    let Report { index, run, event } = report;
                    self.step(Input::Container { index, run, event });
                }
                Some(command) = commands.recv() => self.obey(command),
                outcome = pending(&mut write) => {
                    write = None;
                    self.learn(outcome);
                }
                () = sleep_until(wake) => self.wake(),
            }
        }
    }

    fn wake(&mut self) {
        let now = Instant::now();
        if self.pause_until.is_some_and(|until| until <= now) {
            self.pause_until = None;
        }
        if self.ask_again.is_some_and(|until| until <= now) {
            self.ask_again = None;
            self.prepare();
        }
        self.step(Input::Elapsed);
    }

    fn observe(&mut self, seen: Seen) {
        match seen {
            Seen::Present(pod) => {
                if pod.version() > self.pod.version() {
                    self.pod = pod;
                    self.stale = true;
                    self.heed_deletion();
                }
            }
            Seen::Gone => {
                self.object = Object::Vanished;
                self.step(Input::Vanished);
            }
        }
    }

    fn heed_deletion(&mut self) {
        if let Some(grace) = self.pod.deletion_grace() {
            self.step(Input::Deleting(grace));
        }
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Finish { exit_code } => {
                for run in self.runs.iter().flatten() {
                    run.process.exit(exit_code);
                }
            }
        }
    }

    fn step(&mut self, input: Input) {
        let exited = match &input {
            Input::Container { index, run, event: ContainerEvent::Exited { .. } } => Some((*index, *run)),
            _ => None,
        };
        if !matches!(input, Input::Elapsed) {
            self.stale = true;
        }
        if let Some((index, run)) = exited
            && self.lifecycle.containers().get(index).is_some_and(|container| container.run() == run)
        {
            self.runs[index] = None;
        }
        let actions = self.lifecycle.step(input, Moment::now());
        self.perform(actions);
    }

    fn perform(&mut self, actions: Vec<Action>) {
        for action in actions {
            self.stale = true;
            match action {
                Action::Prepare => self.prepare(),
                Action::Start { index, run } => self.start(index, run),
                Action::CallHook { index, run } => self.call_hook(index, run),
                Action::Terminate { index } => {
                    if let Some(Some(run)) = self.runs.get(index) {
                        run.process.terminate();
                    }
                }
                Action::Kill { index } => {
                    if let Some(Some(run)) = self.runs.get(index) {
                        run.process.kill();
                    }
                }
                Action::Release => self.release(),
            }
        }
    }

    fn prepare(&mut self) {
        if self.lifecycle.has_ended() {
            return;
        }
        let address = if self.pod.spec.uses_host_network() {
            Some(self.place.node)
        } else if let Some(kept) = self.place.kept {
            Some(kept)
        } else {
            self.place.pool.lock().unwrap_or_else(PoisonError::into_inner).allocate(Instant::now())
        };
        if let Some(ip) = address {
            if !self.pod.spec.uses_host_network() {
                self.place.kept = Some(ip);
            }
            self.step(Input::Sandbox(ip));
        } else {
            tracing::warn!("the zone has no free address; the pod waits in ContainerCreating");
            self.ask_again = Some(Instant::now() + ADDRESS_RETRY);
        }
    }

    fn release(&mut self) {
        self.ask_again = None;
        if let Some(ip) = self.place.kept.take() {
            self.place.pool.lock().unwrap_or_else(PoisonError::into_inner).release(ip, Instant::now());
        }
    }

    fn start(&mut self, index: usize, run: u32) {
        if let Some(ip) = self.lifecycle.ip() {
            self.runs[index] = run::start(&self.pod, (index, run), ip, &self.entry, self.reports.clone());
        }
    }

    fn call_hook(&self, index: usize, run: u32) {
        if let (Some(ip), Some(spec)) = (self.lifecycle.ip(), self.pod.spec.containers.get(index)) {
            run::call_hook(spec, (index, run), ip, self.reports.clone());
        }
    }

    fn forsake(&mut self) {
        if self.object == Object::Present {
            self.object = Object::Deleted;
        }
    }

    /// The write that is due now, if any.
    fn next_write(&mut self) -> Option<BoxFuture<'static, Outcome>> {
        if self.object != Object::Present || self.pause_until.is_some() {
            return None;
        }
        let (namespace, name) = (self.pod.namespace().to_owned(), self.pod.name().to_owned());
        if self.stale && !self.lifecycle.is_settled() {
            let wanted = status::desired(&self.pod, &self.lifecycle, self.place.node, &self.began);
            self.stale = false;
            let now = Moment::now().timestamp();
            if let Some(patch) = patch::between(self.pod.uid(), &self.pod.status, &wanted, &now) {
                return Some(self.writer.clone().patch(namespace, name, patch).boxed());
            }
        }
        // The last status is stored and nothing runs: the object may go.
        if self.lifecycle.has_ended() && self.pod.metadata.deletion_timestamp.is_some() {
            let uid = self.pod.uid().to_owned();
            return Some(self.writer.clone().delete(namespace, name, uid).boxed());
        }
        None
    }

    fn learn(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Written(mut pod) => {
                self.pause = SHORTEST_PAUSE;
                if pod.version() > self.pod.version() {
                    pod.metadata.managed_fields = None;
                    self.pod = Arc::from(pod);
                    self.heed_deletion();
                }
            }
            Outcome::Deleted => self.forsake(),
            Outcome::Gone => {
                self.forsake();
                self.step(Input::Vanished);
            }
            Outcome::Refused(message) => {
                tracing::error!(message, "the API server refuses this status; it is not sent again");
                self.pause_until = Some(Instant::now() + LONGEST_PAUSE);
            }
            Outcome::Failed(message) => {
                tracing::debug!(message, pause = ?self.pause, "a write failed and is repeated");
                self.stale = true;
                self.pause_until = Some(Instant::now() + self.pause);
                self.pause = (self.pause * 2).min(LONGEST_PAUSE);
            }
        }
    }
}

async fn pending(write: &mut Option<BoxFuture<'static, Outcome>>) -> Outcome {
    match write {
        Some(write) => write.await,
        None => std::future::pending().await,
    }
}

async fn sleep_until(wake: Option<Instant>) {
    match wake {
        Some(wake) => tokio::time::sleep_until(wake).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
