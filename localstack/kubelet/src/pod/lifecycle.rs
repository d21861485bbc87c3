//! The state machine of one pod. Pure.
//!
//! Decides which container runs, waits, ends or is restarted, and when something is due next. It has no effects:
//! [`Lifecycle::step`] takes an event and returns actions, and [`Lifecycle::wake`] returns when to call it again.
//! Events of an earlier run of a container (a late probe, a late exit) are recognized by the run number and ignored.

mod container;
mod event;
mod order;
mod pull;
#[cfg(test)]
mod tests;

pub use container::{Container, Exit, State};
pub use event::{Action, Ending, Input, Rejection};
pub use pull::Failure as PullFailure;

use crate::clock::Moment;
use crate::container::event::ContainerEvent;
use crate::object::{Pod, RestartPolicy, Role};
use crate::pod::backoff;
use crate::pod::behaviour::Behaviour;
use crate::pod::grace::Grace;
use container::Next;
use pull::Pull;
use std::net::Ipv4Addr;
use std::time::Duration;
use tokio::time::Instant;

/// How long a restarted kubelet reports its pods as not ready (measured on v1.36.3).
pub const FLAP: Duration = Duration::from_millis(11);

/// The grace period of a rejected pod (`SyncTerminatingRuntimePod`).
const REJECTED_GRACE: Duration = Duration::from_secs(1);

/// The stage of the whole pod.
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
    /// Init containers first, each in the order of the spec.
    containers: Vec<Container>,
    policy: RestartPolicy,
    /// The grace period of a termination that has none of its own.
    grace: Duration,
    pull: Pull,
    stage: Stage,
    ip: Option<Ipv4Addr>,
    /// The address in the status.
    shown: Option<Ipv4Addr>,
    /// When the kubelet next checks the sandbox and finds it lost.
    renew_at: Option<Instant>,
    /// Until then, a restarted kubelet knows no readiness.
    flaps_until: Option<Instant>,
    ending: Option<Ending>,
    rejection: Option<Rejection>,
    /// Its status was final before this kubelet saw it: nothing runs and nothing is reported.
    settled: bool,
}

impl Lifecycle {
    /// A new state machine and its first actions. Containers that an earlier run of the kubelet had started ended with
    /// that run.
    pub fn begin(pod: &Pod, now: Moment) -> (Self, Vec<Action>) {
        let policy = pod.spec.restart_policy();
        let containers = pod
            .spec
            .all_containers()
            .map(|(role, spec)| Container::new(role, spec, &pod.status, policy))
            .collect();
        let mut this = Self {
            containers,
            policy,
            grace: pod.spec.grace(),
            pull: Pull::new(&Behaviour::read(pod).0),
            stage: Stage::Preparing,
            ip: None,
            shown: None,
            renew_at: None,
            flaps_until: None,
            ending: None,
            rejection: None,
            settled: pod.is_terminal(),
        };
        if this.settled {
            this.stage = Stage::Ended;
            return (this, Vec::new());
        }
        if let Some(grace) = pod.deletion_grace() {
            let actions = this.step(Input::Deleting(grace), now);
            return (this, actions);
        }
        let mut actions = Vec::new();
        this.settle(now, &mut actions);
        if actions.is_empty() {
            actions.push(Action::Prepare);
        }
        (this, actions)
    }

    /// Takes one event and returns the actions, in order.
    pub fn step(&mut self, input: Input, now: Moment) -> Vec<Action> {
        let mut actions = Vec::new();
        match input {
            Input::Sandbox(ip) => {
                if self.stage == Stage::Preparing {
                    self.ip = Some(ip);
                    self.stage = Stage::Running;
                    if !self.containers.iter().any(Container::has_run) {
                        self.pull.begin(now.instant);
                    }
                } else {
                    actions.push(Action::Release);
                }
            }
            Input::SandboxLost => self.lose_sandbox(now, &mut actions),
            Input::Deleting(grace) => self.terminate(grace, now, &mut actions),
            Input::Vanished => self.terminate(Duration::ZERO, now, &mut actions),
            Input::Ending(grace, ending) => {
                if matches!(self.stage, Stage::Preparing | Stage::Running) {
                    self.ending = Some(ending);
                }
                self.terminate(grace, now, &mut actions);
            }
            Input::Rejected(rejection) => {
                if self.stage != Stage::Ended {
                    self.rejection = Some(rejection);
                    self.terminate(REJECTED_GRACE, now, &mut actions);
                }
            }
            Input::KubeletRestarted => {
                if self.stage == Stage::Running {
                    self.flaps_until = Some(now.instant + FLAP);
                }
            }
            Input::Container { index, run, event } => {
                self.container_event(index, run, event, now, &mut actions);
            }
            Input::Elapsed => self.elapsed(now, &mut actions),
        }
        self.start_due(&mut actions);
        self.stop_due(now, &mut actions);
        self.settle(now, &mut actions);
        actions
    }

    /// When [`Input::Elapsed`] is due, if anything waits for a time.
    pub fn wake(&self) -> Option<Instant> {
        let own = [self.pull.wake(), self.renew_at, self.flaps_until];
        own.into_iter().flatten().chain(self.containers.iter().filter_map(Container::wake)).min()
    }

    /// The pod's address. It is kept after the pod's end, because the last status still shows it.
    pub fn ip(&self) -> Option<Ipv4Addr> {
        self.ip
    }

    /// The address in the status. It appears when a container runs or an image cannot be pulled, never before (measured
    /// on v1.36.3). The address of a lost sandbox remains until then.
    pub fn shown_ip(&self) -> Option<Ipv4Addr> {
        self.shown
    }

    /// The containers, init containers first, each in the order of the spec.
    pub fn containers(&self) -> &[Container] {
        &self.containers
    }

    /// The containers of `spec.containers`.
    pub fn main_containers(&self) -> impl Iterator<Item = &Container> {
        self.containers.iter().filter(|container| container.role() == Role::Main)
    }

    /// Whether a container counts as ready now.
    pub fn is_ready(&self, container: &Container) -> bool {
        container.is_ready() && (self.flaps_until.is_none() || container.role() == Role::Init)
    }

    /// Whether the sandbox is up.
    pub fn has_sandbox(&self) -> bool {
        matches!(self.stage, Stage::Running | Stage::Terminating(_)) && self.ip.is_some()
    }

    /// Why the first containers do not start, after the image pull failed.
    pub fn pull_failure(&self) -> Option<PullFailure> {
        self.pull.failure()
    }

    /// Whether every container has ended for good.
    pub fn has_ended(&self) -> bool {
        self.stage == Stage::Ended
    }

    /// Whether the pod is terminating.
    pub fn is_terminating(&self) -> bool {
        matches!(self.stage, Stage::Terminating(_))
    }

    /// Why the kubelet itself ended the pod, if it did.
    pub fn ending(&self) -> Option<&Ending> {
        self.ending.as_ref().filter(|_| self.has_ended())
    }

    /// Why the kubelet rejected the pod, if it did.
    pub fn rejection(&self) -> Option<&Rejection> {
        self.rejection.as_ref()
    }

    /// Whether the pod had ended before this kubelet saw it, so that its status must not change.
    pub fn is_settled(&self) -> bool {
        self.settled
    }

    /// A name for the control API: `preparing`, `running`, `terminating` or `ended`.
    pub fn stage_name(&self) -> &'static str {
        match self.stage {
            Stage::Preparing => "preparing",
            Stage::Running => "running",
            Stage::Terminating(_) => "terminating",
            Stage::Ended => "ended",
        }
    }

    fn lose_sandbox(&mut self, now: Moment, actions: &mut Vec<Action>) {
        if self.stage != Stage::Running {
            return;
        }
        for (index, container) in self.containers.iter_mut().enumerate() {
            if container.lose_sandbox(now) {
                actions.push(Action::Kill { index });
            }
        }
        self.stage = Stage::Preparing;
        self.pull.end();
        self.flaps_until = None;
        self.renew_at = Some(now.instant + backoff::FIRST);
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
                self.shown = self.ip;
                if let Stage::Terminating(grace) = self.stage {
                    container.stop(index, grace, true, now, actions);
                }
            }
            ContainerEvent::Up => container.up(),
            ContainerEvent::Exited { code, message } => {
                let role = container.role();
                let next = match self.stage {
                    Stage::Terminating(_) => Next::Linger,
                    Stage::Running if container.restarts(self.policy, code) => Next::Restart,
                    _ => Next::End,
                };
                container.exited(code, message, next, now);
                if role == Role::Init && next == Next::End && code != 0 {
                    // The others wait for a container that cannot succeed any more.
                    for container in &mut self.containers {
                        container.give_up();
                    }
                }
            }
            ContainerEvent::Ready(ready) => container.set_ready(ready),
            ContainerEvent::Unhealthy => {
                if self.stage == Stage::Running {
                    let grace = Grace::begin(container.probe_grace().unwrap_or(self.grace), now.instant);
                    container.stop(index, grace, false, now, actions);
                }
            }
            ContainerEvent::HookEnded => container.hook_ended(index, now, actions),
        }
    }

    fn elapsed(&mut self, now: Moment, actions: &mut Vec<Action>) {
        let due = |at: Option<Instant>| at.is_some_and(|at| at <= now.instant);
        if due(self.pull.wake()) {
            self.pull.elapsed(now.instant);
            if self.pull.failure().is_some() {
                self.shown = self.ip;
            }
        }
        if due(self.flaps_until) {
            self.flaps_until = None;
        }
        if due(self.renew_at) {
            self.renew_at = None;
            actions.push(Action::Renew);
        }
        for (index, container) in self.containers.iter_mut().enumerate() {
            if container.wake().is_some_and(|due| due <= now.instant) {
                container.elapsed(index, now, actions);
            }
        }
    }
}
