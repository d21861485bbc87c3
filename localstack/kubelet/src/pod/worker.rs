//! The task of one pod.
//!
//! The task manages the pod's state machine, processes and probes, and the order of its writes. The task sends one
//! write at a time, built from the current state. Slow answers therefore cause skipped states instead of a queue. The
//! task never waits for the API server while another event is due. The task shares only the address pool and the writer
//! with other pods.
//!
//! A failed write is retried after an increasing pause. If the object was deleted, the pod is stopped even if a write
//! fails. When the node is lost, the processes stop immediately, and the task writes nothing. When the node is
//! restored, the pod starts again. A pod behaves in the same way after a reboot.

mod node;
mod place;
#[cfg(test)]
mod tests;
mod writes;

pub use place::Place;

use crate::clock::Moment;
use crate::container::event::ContainerEvent;
use crate::node::state::NodeState;
use crate::object::{Pod, Role};
use crate::pod::behaviour::Behaviour;
use crate::pod::lifecycle::{Action, Ending, Input, Lifecycle};
use crate::pod::registry::{Command, Entry, Shown};
use crate::pod::run::{self, Report, Run};
use crate::pod::write::Writer;
use futures::future::BoxFuture;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use place::Annotated;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

/// The pause after the first failed write. The pause doubles up to [`LONGEST_PAUSE`].
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// The capacity of the channel for reports from processes and probes.
const MAILBOX: usize = 16;

/// The state of a pod in the watch. Only the latest value matters.
#[derive(Clone, Debug)]
pub enum Seen {
    /// The pod exists. Contains the object of the last event.
    Present(Arc<Pod>),
    /// The object was deleted, or another object has its name.
    Gone,
}

/// The task of one pod.
pub struct Worker {
    pod: Arc<Pod>,
    place: Place,
    entry: Arc<Entry>,
    writer: Writer,
    behaviour: Behaviour,
    lifecycle: Lifecycle,
    node: NodeState,
    /// Whether the node is lost, so that the pod runs nothing and reports nothing.
    dark: bool,
    runs: Vec<Option<Run>>,
    reports: mpsc::Sender<Report>,
    inbox: mpsc::Receiver<Report>,
    /// The time at which this kubelet first saw the pod.
    began: Time,
    /// The time of the next request for an address, because the pool was empty.
    ask_again: Option<Instant>,
    /// Whether the sandbox was killed, so that the pod needs another address.
    renewing: bool,
    /// The CNI's write of the annotation in progress.
    annotating: Option<BoxFuture<'static, Annotated>>,
    /// The number of changes of readiness gates.
    gate_changes: u64,
    /// Whether the state has changed since the last write was built.
    stale: bool,
    /// The time before which the task does not write. The last write failed, or the kubelet has not noticed a change
    /// yet.
    pause_until: Option<Instant>,
    pause: Duration,
    object: Object,
}

/// The known state of the pod's object.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Object {
    Present,
    /// The answer to a write shows that the object was deleted. The watch has not reported the deletion yet, and late
    /// events may still arrive.
    Deleted,
    /// The watch has reported the deletion.
    Vanished,
}

impl Worker {
    /// Creates the task of a new pod. No process runs before [`Worker::run`].
    pub fn new(pod: Arc<Pod>, place: Place, entry: Arc<Entry>, writer: Writer) -> (Self, Vec<Action>) {
        let now = Moment::now();
        let (lifecycle, actions) = Lifecycle::begin(&pod, now);
        let (reports, inbox) = mpsc::channel(MAILBOX);
        let count = lifecycle.containers().len();
        let node = *place.state.borrow();
        let mut worker = Self {
            behaviour: Behaviour::read(&pod).0,
            node: NodeState::default(),
            dark: false,
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
            renewing: false,
            annotating: None,
            gate_changes: 0,
            stale: true,
            pause_until: None,
            pause: SHORTEST_PAUSE,
            object: Object::Present,
        };
        let actions = worker.arrive(node, actions);
        (worker, actions)
    }

    /// Drives the pod until its object is deleted and its last process has exited.
    pub async fn run(
        mut self,
        first: Vec<Action>,
        mut seen: watch::Receiver<Seen>,
        mut commands: mpsc::Receiver<Command>,
    ) {
        let mut node = self.place.state.clone();
        // As on a real node, the first status is the status of a pod without a sandbox.
        let mut write = self.next_write();
        self.perform(first);
        while self.object != Object::Vanished || !(self.lifecycle.has_ended() || self.dark) {
            if self.dark {
                write = None;
            } else if write.is_none() {
                write = self.next_write();
            }
            self.show();
            let wake = self.next_wake();
            tokio::select! {
                changed = seen.changed() => {
                    let newest = if changed.is_ok() { seen.borrow_and_update().clone() } else { Seen::Gone };
                    self.observe(newest);
                }
                Ok(()) = node.changed() => {
                    let state = *node.borrow_and_update();
                    self.follow(state);
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
                annotated = pending(&mut self.annotating) => {
                    self.annotating = None;
                    self.annotated(annotated);
                }
                () = sleep_until(wake) => self.wake(),
            }
        }
        self.give_back();
    }

    fn show(&self) {
        let stage = if self.dark { "lost" } else { self.lifecycle.stage_name() };
        let hanging = self.runs.iter().flatten().any(|run| run.process.is_hanging());
        self.entry.show(Shown { ip: self.lifecycle.ip(), stage, hanging });
    }

    fn next_wake(&self) -> Option<Instant> {
        let due = [self.lifecycle.wake(), self.ask_again, self.pause_until];
        due.into_iter().flatten().min().filter(|_| !self.dark)
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
                    self.notice_gates(&pod);
                    self.pod = pod;
                    self.stale = true;
                    self.heed_deletion();
                }
            }
            Seen::Gone => {
                self.object = Object::Vanished;
                if !self.dark {
                    self.step(Input::Vanished);
                }
            }
        }
    }

    fn heed_deletion(&mut self) {
        if let Some(grace) = self.pod.deletion_grace().filter(|_| !self.dark) {
            self.step(Input::Deleting(grace));
        }
    }

    /// Delays reports if the kubelet notices a change of a readiness gate late.
    fn notice_gates(&mut self, newer: &Pod) {
        let gates = |pod: &Pod| -> Vec<Option<String>> {
            let status_of = |gate: &str| {
                let mut conditions = pod.status.conditions.iter().flatten();
                conditions.find(|condition| condition.type_ == gate).map(|found| found.status.clone())
            };
            pod.spec.gates().map(status_of).collect()
        };
        if gates(&self.pod) == gates(newer) {
            return;
        }
        self.stale = true;
        if !self.behaviour.gate_delay.is_zero() {
            let until = Instant::now() + self.behaviour.notices_gate_after(self.gate_changes);
            self.gate_changes += 1;
            self.pause_until = self.pause_until.max(Some(until));
        }
    }

    fn obey(&mut self, command: Command) {
        if self.dark {
            return;
        }
        match command {
            Command::Finish { exit_code } => {
                for run in self.runs.iter().flatten() {
                    run.process.exit(exit_code);
                }
            }
            Command::Crash { container } => {
                let all = self.pod.spec.all_containers().zip(&self.runs);
                for ((role, spec), run) in all {
                    let meant = container.as_ref().map_or(role == Role::Main, |name| *name == spec.name);
                    if let Some(run) = run.as_ref().filter(|_| meant) {
                        run.process.kill();
                    }
                }
            }
            Command::Hang(hanging) => {
                for run in self.runs.iter().flatten() {
                    run.process.hang(hanging);
                }
            }
            Command::LoseSandbox => self.step(Input::SandboxLost),
            Command::Evict { grace } => {
                let grace = grace.unwrap_or_else(|| self.pod.spec.grace());
                self.step(Input::Ending(grace, Ending::pressure()));
            }
        }
    }

    fn step(&mut self, input: Input) {
        self.stale = true;
        let exited = match &input {
            Input::Container { index, run, event: ContainerEvent::Exited { .. } } => Some((*index, *run)),
            _ => None,
        };
        if let Some((index, run)) = exited
            && self.lifecycle.containers().get(index).is_some_and(|container| container.run() == run)
        {
            self.runs[index] = None;
        }
        let actions = self.lifecycle.step(input, Moment::now());
        if self.lifecycle.is_terminating() {
            self.runs.iter().flatten().for_each(Run::stop_liveness);
        }
        self.perform(actions);
    }

    fn perform(&mut self, actions: Vec<Action>) {
        for action in actions {
            self.stale = true;
            match action {
                Action::Prepare => self.prepare(),
                Action::Renew => {
                    self.renewing = true;
                    self.prepare();
                }
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

    fn start(&mut self, index: usize, run: u32) {
        if let Some(ip) = self.lifecycle.ip() {
            let reports = self.reports.clone();
            self.runs[index] = run::start(&self.pod, (index, run), ip, &self.entry, &self.behaviour, reports);
        }
    }

    fn call_hook(&self, index: usize, run: u32) {
        if let (Some(ip), Some((_, spec))) = (self.lifecycle.ip(), self.pod.spec.container(index)) {
            run::call_hook(spec, (index, run), ip, self.reports.clone());
        }
    }
}

async fn pending<T>(work: &mut Option<BoxFuture<'static, T>>) -> T {
    match work {
        Some(work) => work.await,
        None => std::future::pending().await,
    }
}

async fn sleep_until(wake: Option<Instant>) {
    match wake {
        Some(wake) => tokio::time::sleep_until(wake).await,
        None => std::future::pending().await,
    }
}
