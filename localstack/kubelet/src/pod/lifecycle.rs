//! The state machine of one pod. The module is pure.
//!
//! The state machine decides which containers run, wait, stop or are restarted, and when the next change is due. The
//! state machine has no side effects. [`Lifecycle::step`] takes an event and returns actions. [`Lifecycle::wake`]
//! returns the time of the next call. The run number identifies late events of an earlier run, such as a late probe or
//! exit, and the state machine ignores them.

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
    /// The init containers in the order of the spec, and then the main containers in the order of the spec.
    containers: Vec<Container>,
    policy: RestartPolicy,
    /// The default grace period of a termination.
    grace: Duration,
    pull: Pull,
    stage: Stage,
    ip: Option<Ipv4Addr>,
    /// The address in the status.
    shown: Option<Ipv4Addr>,
    /// The time at which the kubelet next checks the sandbox and finds that the sandbox was lost.
    renew_at: Option<Instant>,
    /// The time until which a restarted kubelet has no readiness results.
    flaps_until: Option<Instant>,
    ending: Option<Ending>,
    rejection: Option<Rejection>,
    /// Whether the status was final before this kubelet saw the pod. A pod with a final status runs nothing and reports
    /// nothing.
    settled: bool,
}

impl Lifecycle {
    /// Creates a state machine and returns its first actions. All containers of an earlier kubelet run count as
    /// terminated.
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

    /// Applies one event, and returns the actions in order.
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

    /// Returns the time at which [`Input::Elapsed`] is due.
    pub fn wake(&self) -> Option<Instant> {
        let own = [self.pull.wake(), self.renew_at, self.flaps_until];
        own.into_iter().flatten().chain(self.containers.iter().filter_map(Container::wake)).min()
    }

    /// Returns the address of the pod. The address remains after the end of the pod, because the last status still
    /// contains it.
    pub fn ip(&self) -> Option<Ipv4Addr> {
        self.ip
    }

    /// Returns the address in the status. The address appears when a container runs or when an image cannot be pulled,
    /// and never earlier (measured on v1.36.3). The address of a lost sandbox remains until a container runs in the
    /// next sandbox.
    pub fn shown_ip(&self) -> Option<Ipv4Addr> {
        self.shown
    }

    /// Returns the init containers and then the main containers, both in the order of the spec.
    pub fn containers(&self) -> &[Container] {
        &self.containers
    }

    /// Returns the containers of `spec.containers`.
    pub fn main_containers(&self) -> impl Iterator<Item = &Container> {
        self.containers.iter().filter(|container| container.role() == Role::Main)
    }

    /// Returns whether a container counts as ready now.
    pub fn is_ready(&self, container: &Container) -> bool {
        container.is_ready() && (self.flaps_until.is_none() || container.role() == Role::Init)
    }

    /// Returns whether the sandbox is running.
    pub fn has_sandbox(&self) -> bool {
        matches!(self.stage, Stage::Running | Stage::Terminating(_)) && self.ip.is_some()
    }

    /// Returns the reason why the first containers do not start after a failed image pull.
    pub fn pull_failure(&self) -> Option<PullFailure> {
        self.pull.failure()
    }

    /// Returns whether all containers have terminated and will not be restarted.
    pub fn has_ended(&self) -> bool {
        self.stage == Stage::Ended
    }

    /// Returns whether the pod is terminating.
    pub fn is_terminating(&self) -> bool {
        matches!(self.stage, Stage::Terminating(_))
    }

    /// Returns the reason why the kubelet itself terminated the pod. `None`: the kubelet did not.
    pub fn ending(&self) -> Option<&Ending> {
        self.ending.as_ref().filter(|_| self.has_ended())
    }

    /// Returns the reason why the kubelet rejected the pod. `None`: the kubelet accepted the pod.
    pub fn rejection(&self) -> Option<&Rejection> {
        self.rejection.as_ref()
    }

    /// Returns whether the status was final before this kubelet saw the pod, so that the status must not change.
    pub fn is_settled(&self) -> bool {
        self.settled
    }

    /// Returns the name of the stage for the control API: `preparing`, `running`, `terminating` or `ended`.
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
                    // All other containers wait for a container that can no longer succeed.
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
