//! The life of one pod as a pure state machine.
//!
//! Owns which container runs, waits, ends or is to be started again, and when the next thing is due. It
//! does nothing itself: [`Lifecycle::step`] takes what happened and answers what to do, and
//! [`Lifecycle::wake`] says when to ask again. Inputs of an earlier run of a container (a late probe, a
//! late exit) are recognised by their run number and change nothing, so nothing here can fail.

mod container;
#[cfg(test)]
mod tests;

pub use container::{Container, Exit, State};

use crate::clock::Moment;
use crate::pod::grace::Grace;
use crate::pod::object::{Pod, RestartPolicy};
use container::{Next, Stop};
use std::net::Ipv4Addr;
use std::time::Duration;
use tokio::time::Instant;

/// What happened to a pod.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// The sandbox is up and has this address.
    Sandbox(Ipv4Addr),
    /// The object carries a deletion with this grace period (zero: it is removed at once).
    Deleting(Duration),
    /// The object is gone, or another one has its name.
    Vanished,
    /// Something happened to a container, in its run of this number.
    Container {
        /// Position in the spec.
        index: usize,
        /// Which run reports.
        run: u32,
        /// What happened.
        event: ContainerEvent,
    },
    /// The time [`Lifecycle::wake`] gave has come.
    Elapsed,
}

/// What happened to a container.
#[derive(Clone, Debug, PartialEq)]
pub enum ContainerEvent {
    /// Its process runs and its ports are open.
    Started,
    /// Its process ended and its sockets are closed.
    Exited {
        /// 0 for success; 137 after SIGKILL.
        code: i32,
        /// What the status shows, where there is something to say.
        message: Option<String>,
    },
    /// Its readiness probe changed its mind.
    Ready(bool),
    /// Its preStop hook has ended.
    HookEnded,
}

/// What is to be done now.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Get the pod an address, then report [`Input::Sandbox`].
    Prepare,
    /// Start this run of a container.
    Start {
        /// Position in the spec.
        index: usize,
        /// The number of the run, which its reports carry.
        run: u32,
    },
    /// Send the hook's HTTP request and report its end.
    CallHook {
        /// Position in the spec.
        index: usize,
        /// The run whose hook it is.
        run: u32,
    },
    /// SIGTERM.
    Terminate {
        /// Position in the spec.
        index: usize,
    },
    /// SIGKILL.
    Kill {
        /// Position in the spec.
        index: usize,
    },
    /// Every container has ended for good: the address goes back.
    Release,
}

/// Where the pod as a whole is.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stage {
    Preparing,
    Running,
    Terminating(Grace),
    Ended,
}

/// The state machine of one pod.
#[derive(Debug)]
pub struct Lifecycle {
    containers: Vec<Container>,
    policy: RestartPolicy,
    stage: Stage,
    ip: Option<Ipv4Addr>,
    /// Its status was terminal before this kubelet saw it: nothing runs and nothing is reported.
    settled: bool,
}

impl Lifecycle {
    /// A pod as first seen, and what to do first. Containers that an earlier run of the kubelet had started
    /// ended with it.
    pub fn begin(pod: &Pod, now: Moment) -> (Self, Vec<Action>) {
        let policy = pod.spec.restart_policy();
        let containers =
            pod.spec.containers.iter().map(|spec| Container::new(spec, &pod.status, policy)).collect();
        let mut this =
            Self { containers, policy, stage: Stage::Preparing, ip: None, settled: pod.is_terminal() };
        if this.settled {
            this.stage = Stage::Ended;
            return (this, Vec::new());
        }
        if let Some(grace) = pod.deletion_grace() {
            let actions = this.step(Input::Deleting(grace), now);
            return (this, actions);
        }
        let mut actions = Vec::new();
        this.settle(&mut actions);
        if actions.is_empty() {
            actions.push(Action::Prepare);
        }
        (this, actions)
    }

    /// Takes one input and answers what is to be done, in order.
    pub fn step(&mut self, input: Input, now: Moment) -> Vec<Action> {
        let mut actions = Vec::new();
        match input {
            Input::Sandbox(ip) => {
                if self.stage == Stage::Preparing {
                    self.ip = Some(ip);
                    self.stage = Stage::Running;
                    for (index, container) in self.containers.iter_mut().enumerate() {
                        if !container.has_ended() {
                            actions.push(container.start(index));
                        }
                    }
                } else {
                    actions.push(Action::Release);
                }
            }
            Input::Deleting(grace) => self.terminate(grace, now, &mut actions),
            Input::Vanished => self.terminate(Duration::ZERO, now, &mut actions),
            Input::Container { index, run, event } => {
                self.container_event(index, run, event, now, &mut actions);
            }
            Input::Elapsed => self.elapsed(now, &mut actions),
        }
        self.settle(&mut actions);
        actions
    }

    /// When [`Input::Elapsed`] is due, if anything waits for time to pass.
    pub fn wake(&self) -> Option<Instant> {
        self.containers.iter().filter_map(Container::wake).min()
    }

    /// The pod's address; kept after its end, as an ended pod's last status still shows it.
    pub fn ip(&self) -> Option<Ipv4Addr> {
        self.ip
    }

    /// The containers in the order of the spec.
    pub fn containers(&self) -> &[Container] {
        &self.containers
    }

    /// Whether the sandbox is up.
    pub fn has_sandbox(&self) -> bool {
        matches!(self.stage, Stage::Running | Stage::Terminating(_)) && self.ip.is_some()
    }

    /// Whether every container has ended for good.
    pub fn has_ended(&self) -> bool {
        self.stage == Stage::Ended
    }

    /// Whether the pod was over before this kubelet saw it, so that its status is not ours to change.
    pub fn is_settled(&self) -> bool {
        self.settled
    }

    /// A word for the control API: `preparing`, `running`, `terminating` or `ended`.
    pub fn stage_name(&self) -> &'static str {
        match self.stage {
            Stage::Preparing => "preparing",
            Stage::Running => "running",
            Stage::Terminating(_) => "terminating",
            Stage::Ended => "ended",
        }
    }

    fn terminate(&mut self, requested: Duration, now: Moment, actions: &mut Vec<Action>) {
        let grace = match self.stage {
            Stage::Preparing | Stage::Running => {
                let grace = Grace::begin(requested, now.instant);
                for (index, container) in self.containers.iter_mut().enumerate() {
                    container.stop(index, &grace, now, actions);
                }
                grace
            }
            Stage::Terminating(mut grace) => {
                if grace.shorten(requested, now.instant) {
                    for container in &mut self.containers {
                        container.hurry(&grace, now);
                    }
                }
                grace
            }
            Stage::Ended => return,
        };
        self.stage = Stage::Terminating(grace);
        self.elapsed(now, actions);
    }

    fn container_event(
        &mut self,
        index: usize,
        run: u32,
        event: ContainerEvent,
        now: Moment,
        actions: &mut Vec<Action>,
    ) {
        let Some(container) = self.containers.get_mut(index).filter(|container| container.run() == run)
        else {
            return;
        };
        match event {
            ContainerEvent::Started => {
                container.started(now);
                if let Stage::Terminating(grace) = &self.stage {
                    container.stop(index, grace, now, actions);
                }
            }
            ContainerEvent::Exited { code, message } => {
                let next = match self.stage {
                    Stage::Terminating(_) => Next::Linger,
                    Stage::Running if self.policy.restarts(code) => Next::Restart,
                    _ => Next::End,
                };
                container.exited(code, message, next, now);
            }
            ContainerEvent::Ready(ready) => container.set_ready(ready),
            ContainerEvent::HookEnded => {
                if let (Some(Stop::Hook { .. }), Stage::Terminating(grace)) =
                    (container.stopping(), &self.stage)
                {
                    container.signal(index, grace, now, actions);
                }
            }
        }
    }

    fn elapsed(&mut self, now: Moment, actions: &mut Vec<Action>) {
        for (index, container) in self.containers.iter_mut().enumerate() {
            if container.wake().is_none_or(|due| due > now.instant) {
                continue;
            }
            match (container.stopping(), &self.stage) {
                (Some(Stop::Hook { .. }), Stage::Terminating(grace)) => {
                    container.signal(index, grace, now, actions);
                }
                (Some(Stop::Signalled { .. }), _) => {
                    container.killed();
                    actions.push(Action::Kill { index });
                }
                _ => actions.push(container.start(index)),
            }
        }
    }

    fn settle(&mut self, actions: &mut Vec<Action>) {
        if self.stage != Stage::Ended && self.containers.iter().all(Container::has_ended) {
            self.stage = Stage::Ended;
            for container in &mut self.containers {
                container.finish();
            }
            actions.push(Action::Release);
        }
    }
}
