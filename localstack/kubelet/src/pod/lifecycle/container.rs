//! The state machine of one container.
//!
//! The module contains the state of a container, its runs, and the steps of a stop. The module is pure. Only
//! [`super::Lifecycle`] changes a container.

mod stop;

use super::Action;
use crate::clock::Moment;
use crate::object::{ContainerSpec, RestartPolicy, Role};
use crate::pod::backoff::{CrashBackoff, Wait};
use crate::pod::grace::Grace;
use k8s_openapi::api::core::v1::{ContainerStatus, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use std::time::Duration;
use tokio::time::Instant;

/// The exit code of a process after SIGKILL: 128 + 9.
const KILLED: i32 = 137;

/// The result of a container's run.
#[derive(Clone, Debug, PartialEq)]
pub struct Exit {
    /// The exit code: 0 for success, 137 after SIGKILL.
    pub code: i32,
    /// The reason: `Completed`, `Error`, `Unknown` (the machine was lost during the run) or `ContainerStatusUnknown`.
    pub reason: &'static str,
    /// The message in the status.
    pub message: Option<String>,
    /// The start time of the run. `None`: the run never started.
    pub started_at: Option<Time>,
    /// The end time of the run.
    pub finished_at: Option<Time>,
    /// The number of the run. `None`: the run never started.
    pub run: Option<u32>,
}

/// The state of a container.
#[derive(Clone, Debug, PartialEq)]
pub enum State {
    /// The container has not started yet (`ContainerCreating`).
    Creating,
    /// The start of the container was requested, but its ports are not open yet.
    Starting,
    /// The container is running. Contains the start time.
    Running(Moment),
    /// The container has exited on its own. Contains the time of the restart.
    Waiting(Instant, Wait),
    /// The container has terminated and will not be restarted.
    Ended,
}

/// The step in the stop of a running container.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stop {
    /// The preStop hook is running, at most until this time.
    Hook { until: Instant },
    /// The hook has completed. SIGTERM follows when all containers that started later have terminated, or at this time.
    Turn { until: Instant },
    /// SIGTERM was sent. SIGKILL follows at `kill_at`. `None`: SIGKILL was already sent.
    Signalled { at: Instant, kill_at: Option<Instant> },
}

/// The step after the end of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Next {
    /// The container is restarted.
    Restart,
    /// The container is not restarted.
    End,
    /// The container is not restarted. The status shows the end only after all other containers have terminated.
    Linger,
}

/// The action before SIGTERM.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Hook {
    /// No action. This variant includes `exec` hooks, because there is no image to run a command in.
    Nothing,
    Sleep(Duration),
    Request,
}

/// The probes that a container has.
#[derive(Clone, Copy, Debug)]
struct Probes {
    readiness: bool,
    startup: bool,
    /// The grace period after a failure of the liveness or startup probe.
    grace: Option<Duration>,
}

/// One container of a pod.
#[derive(Debug)]
pub struct Container {
    role: Role,
    state: State,
    run: u32,
    ready: bool,
    /// Whether the startup probe has succeeded in this run, or the container has no startup probe.
    up: bool,
    probes: Probes,
    last: Option<Exit>,
    hook: Hook,
    backoff: CrashBackoff,
    stop: Option<Stop>,
    /// The grace period of the stop in progress.
    grace: Option<Grace>,
    /// Whether the container waits for other containers before SIGTERM.
    ordered: bool,
    /// A run that terminated during the termination of the pod, in its previous state.
    lingers: Option<Lingering>,
}

/// A terminated run that the status still shows as running. A kubelet updates no container status between the start of
/// a termination and the end of the last container.
#[derive(Clone, Debug, PartialEq)]
struct Lingering {
    began: Moment,
    /// The result of the previous run.
    before: Option<Exit>,
}

impl Container {
    /// Creates a container. If an earlier run of this kubelet started the container, the state is the state after a
    /// reboot. The exit code is then 255, and the container is restarted if the policy requires it. Init containers run
    /// again in the new sandbox, for any result of their earlier run.
    pub(super) fn new(role: Role, spec: &ContainerSpec, status: &PodStatus, policy: RestartPolicy) -> Self {
        let mut known = status.container_statuses.iter().chain(&status.init_container_statuses).flatten();
        let last = known.find(|before| before.name == spec.name).and_then(earlier);
        let over = role == Role::Main && last.as_ref().is_some_and(|exit| !policy.restarts(exit.code));
        let run = last.as_ref().and_then(|exit| exit.run);
        let hook =
            spec.lifecycle.as_ref().and_then(|hooks| hooks.pre_stop.as_ref()).map_or(Hook::Nothing, |hook| {
                if let Some(sleep) = &hook.sleep {
                    Hook::Sleep(Duration::from_secs(u64::try_from(sleep.seconds).unwrap_or(0)))
                } else if hook.http_get.is_some() {
                    Hook::Request
                } else {
                    Hook::Nothing
                }
            });
        let probes = [&spec.liveness_probe, &spec.startup_probe];
        let probe_grace =
            probes.into_iter().flatten().find_map(|probe| probe.termination_grace_period_seconds);
        Self {
            role,
            state: if over { State::Ended } else { State::Creating },
            run: run.map_or(0, |run| if over { run } else { run.saturating_add(1) }),
            ready: false,
            up: false,
            probes: Probes {
                readiness: spec.readiness_probe.is_some(),
                startup: spec.startup_probe.is_some(),
                grace: probe_grace.and_then(|given| u64::try_from(given).ok()).map(Duration::from_secs),
            },
            last,
            hook,
            backoff: CrashBackoff::default(),
            stop: None,
            grace: None,
            ordered: false,
            lingers: None,
        }
    }

    /// Returns the role of the container in the pod.
    pub fn role(&self) -> Role {
        self.role
    }

    /// Returns the state of the container.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Returns the number of the current run, which is the restart count.
    pub fn run(&self) -> u32 {
        self.run
    }

    /// Returns whether the container counts as ready. An ordinary init container is ready after it has terminated with
    /// 0.
    pub fn is_ready(&self) -> bool {
        if self.role == Role::Init { self.is_done() } else { self.ready }
    }

    /// Returns whether the startup is complete: the container is running, and its startup probe has succeeded.
    pub fn is_up(&self) -> bool {
        self.up && (matches!(self.state, State::Running(_)) || self.lingers.is_some())
    }

    /// Returns whether the container has terminated with 0 and will not be restarted.
    pub fn is_done(&self) -> bool {
        self.has_ended() && self.last.as_ref().is_some_and(|exit| exit.code == 0)
    }

    /// Returns the result of the last terminated run.
    pub fn last_exit(&self) -> Option<&Exit> {
        self.last.as_ref()
    }

    /// Returns the run that the status shows as running: its start time, and the result of the previous run.
    pub fn reported_run(&self) -> Option<(Moment, Option<&Exit>)> {
        match (&self.state, &self.lingers) {
            (State::Running(began), _) => Some((*began, self.last.as_ref())),
            (_, Some(lingering)) => Some((lingering.began, lingering.before.as_ref())),
            _ => None,
        }
    }

    /// Returns whether the container has or had a process in this pod.
    pub fn has_run(&self) -> bool {
        matches!(self.state, State::Running(_)) || self.last.as_ref().is_some_and(|exit| exit.run.is_some())
    }

    pub(super) fn has_ended(&self) -> bool {
        self.state == State::Ended
    }

    pub(super) fn is_new(&self) -> bool {
        self.state == State::Creating
    }

    pub(super) fn waits_its_turn(&self) -> bool {
        matches!(self.stop, Some(Stop::Turn { .. }))
    }

    /// Returns the grace period that the liveness or startup probe defines.
    pub(super) fn probe_grace(&self) -> Option<Duration> {
        self.probes.grace
    }

    /// Returns whether the container is restarted after this exit.
    pub(super) fn restarts(&self, policy: RestartPolicy, code: i32) -> bool {
        match self.role {
            Role::Init => code != 0 && policy.restarts(code),
            Role::Sidecar => true,
            Role::Main => policy.restarts(code),
        }
    }

    pub(super) fn wake(&self) -> Option<Instant> {
        match (&self.state, self.stop) {
            (State::Waiting(until, _), _) => Some(*until),
            (_, Some(Stop::Hook { until } | Stop::Turn { until })) => Some(until),
            (_, Some(Stop::Signalled { kill_at, .. })) => kill_at,
            _ => None,
        }
    }

    pub(super) fn start(&mut self, index: usize) -> Action {
        if let State::Waiting(..) = self.state {
            self.run += 1;
        }
        self.state = State::Starting;
        Action::Start { index, run: self.run }
    }

    pub(super) fn started(&mut self, now: Moment) {
        if self.state == State::Starting {
            self.state = State::Running(now);
            self.up = false;
            self.ready = false;
            if !self.probes.startup {
                self.up();
            }
        }
    }

    /// Marks the startup of the container as complete.
    pub(super) fn up(&mut self) {
        if matches!(self.state, State::Running(_)) && !self.up {
            self.up = true;
            // Without a readiness probe, the container is now ready (prober manager, UpdatePodStatus).
            self.ready = !self.probes.readiness;
        }
    }

    pub(super) fn set_ready(&mut self, ready: bool) {
        if matches!(self.state, State::Running(_)) {
            self.ready = ready;
        }
    }

    /// Handles the exit of the process. `next` is the step after the exit.
    pub(super) fn exited(&mut self, code: i32, message: Option<String>, next: Next, now: Moment) {
        let began = match self.state {
            State::Running(began) => began,
            State::Starting => now,
            _ => return,
        };
        if next == Next::Linger && matches!(self.state, State::Running(_)) {
            self.lingers = Some(Lingering { began, before: self.last.clone() });
        } else {
            self.ready = false;
        }
        self.end_run(code, message, began, now);
        self.state = if next == Next::Restart {
            let wait = self.backoff.after(now.instant.saturating_duration_since(began.instant));
            State::Waiting(now.instant + wait.length(), wait)
        } else {
            State::Ended
        };
    }

    fn end_run(&mut self, code: i32, message: Option<String>, began: Moment, now: Moment) {
        (self.stop, self.grace) = (None, None);
        self.last = Some(Exit {
            code,
            reason: if code == 0 { "Completed" } else { "Error" },
            message,
            started_at: Some(began.timestamp()),
            finished_at: Some(now.timestamp()),
            run: Some(self.run),
        });
    }

    /// Handles the loss of the sandbox. The container is restarted in the next sandbox, unless it has terminated
    /// without a restart. Returns `true` if the container had a running process.
    pub(super) fn lose_sandbox(&mut self, now: Moment) -> bool {
        let began = match self.state {
            State::Running(began) => Some(began),
            State::Starting => Some(now),
            _ => None,
        };
        if let Some(began) = began {
            self.end_run(KILLED, None, began, now);
        } else if self.is_new() || (self.has_ended() && self.role == Role::Main) {
            return false;
        }
        self.ready = false;
        self.run += 1;
        self.state = State::Creating;
        began.is_some()
    }

    /// Terminates a container that waits for an init container which will never succeed.
    pub(super) fn give_up(&mut self) {
        if self.is_new() {
            self.state = State::Ended;
        }
    }

    /// Handles the end of the pod's last container.
    pub(super) fn finish(&mut self) {
        self.lingers = None;
        self.ready = false;
    }
}

/// Returns the result of the run in a status. `None`: the status contains no run.
fn earlier(before: &ContainerStatus) -> Option<Exit> {
    before.container_id.as_deref().filter(|id| !id.is_empty())?;
    let run = u32::try_from(before.restart_count).ok();
    let state = before.state.as_ref();
    if let Some(ended) = state.and_then(|state| state.terminated.as_ref()) {
        return Some(Exit {
            code: ended.exit_code,
            reason: if ended.exit_code == 0 { "Completed" } else { "Error" },
            message: ended.message.clone(),
            started_at: ended.started_at.clone(),
            finished_at: ended.finished_at.clone(),
            run,
        });
    }
    let started_at =
        state.and_then(|state| state.running.as_ref()).and_then(|running| running.started_at.clone());
    Some(Exit { code: 255, reason: "Unknown", message: None, started_at, finished_at: None, run })
}
