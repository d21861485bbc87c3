//! The part of the state machine that concerns one container.
//!
//! Owns a container's state, its runs and how it is being stopped. Pure; only [`super::Lifecycle`] changes it.

use super::Action;
use crate::clock::Moment;
use crate::pod::backoff::{CrashBackoff, Wait};
use crate::pod::grace::Grace;
use crate::pod::object::{ContainerSpec, RestartPolicy};
use k8s_openapi::api::core::v1::{ContainerStatus, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use std::time::Duration;
use tokio::time::Instant;

/// How a run of a container ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Exit {
    /// 0 for success; 137 after SIGKILL.
    pub code: i32,
    /// `Completed`, `Error`, `Unknown` (it ran when the machine went down) or `ContainerStatusUnknown`.
    pub reason: &'static str,
    /// What there is to say about it.
    pub message: Option<String>,
    /// When the run began; `None` if it never did.
    pub started_at: Option<Time>,
    /// When it ended.
    pub finished_at: Option<Time>,
    /// The number of the run; `None` if it never began.
    pub run: Option<u32>,
}

/// Where a container is.
#[derive(Clone, Debug, PartialEq)]
pub enum State {
    /// Not started yet: `ContainerCreating`.
    Creating,
    /// Asked to start; its ports are not open yet.
    Starting,
    /// Running since then.
    Running(Moment),
    /// Ended by itself, to be started again at this instant.
    Waiting(Instant, Wait),
    /// Ended for good.
    Ended,
}

/// How far the stopping of a running container is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Stop {
    /// Its preStop hook runs, at the longest until then.
    Hook { until: Instant },
    /// SIGTERM has been sent; SIGKILL follows then, unless it has been sent too.
    Signalled { at: Instant, kill_at: Option<Instant> },
}

/// What follows the end of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Next {
    /// It is started again.
    Restart,
    /// It has ended for good.
    End,
    /// It has ended for good, which nobody sees before the others have ended too.
    Linger,
}

/// What runs before SIGTERM.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Hook {
    /// Nothing (also `exec`: there is no image to run a command in).
    Nothing,
    Sleep(Duration),
    Request,
}

/// One container of a pod.
#[derive(Debug)]
pub struct Container {
    state: State,
    run: u32,
    ready: bool,
    probed: bool,
    last: Option<Exit>,
    hook: Hook,
    backoff: CrashBackoff,
    stop: Option<Stop>,
    /// The run that ended while the pod is being terminated, as it was before.
    lingers: Option<Lingering>,
}

/// A run that has ended, but is reported as running: a kubelet builds no status between the beginning of a
/// termination and the end of the last container.
#[derive(Clone, Debug, PartialEq)]
struct Lingering {
    began: Moment,
    /// How the run before it had ended.
    before: Option<Exit>,
}

impl Container {
    /// A container as first seen. One that an earlier run of this kubelet had started is in the state of a
    /// container after a reboot: exit code 255, started again if the policy says so.
    pub(super) fn new(spec: &ContainerSpec, status: &PodStatus, policy: RestartPolicy) -> Self {
        let known = status.container_statuses.iter().flatten();
        let last = known.into_iter().find(|before| before.name == spec.name).and_then(earlier);
        let over = last.as_ref().is_some_and(|exit| !policy.restarts(exit.code));
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
        Self {
            state: if over { State::Ended } else { State::Creating },
            run: run.map_or(0, |run| if over { run } else { run.saturating_add(1) }),
            ready: false,
            probed: spec.readiness_probe.is_some(),
            last,
            hook,
            backoff: CrashBackoff::default(),
            stop: None,
            lingers: None,
        }
    }

    /// Where it is.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The number of the current run, which is the restart count.
    pub fn run(&self) -> u32 {
        self.run
    }

    /// Whether it counts as ready.
    pub fn is_ready(&self) -> bool {
        self.ready
    }

    /// How its last ended run ended.
    pub fn last_exit(&self) -> Option<&Exit> {
        self.last.as_ref()
    }

    /// The run that is reported as running: when it began, and how the one before it had ended.
    pub fn reported_run(&self) -> Option<(Moment, Option<&Exit>)> {
        match (&self.state, &self.lingers) {
            (State::Running(began), _) => Some((*began, self.last.as_ref())),
            (_, Some(lingering)) => Some((lingering.began, lingering.before.as_ref())),
            _ => None,
        }
    }

    /// Whether a process of it exists, or existed, in this pod.
    pub fn has_run(&self) -> bool {
        matches!(self.state, State::Running(_)) || self.last.as_ref().is_some_and(|exit| exit.run.is_some())
    }

    pub(super) fn has_ended(&self) -> bool {
        self.state == State::Ended
    }

    pub(super) fn stopping(&self) -> Option<Stop> {
        self.stop
    }

    pub(super) fn wake(&self) -> Option<Instant> {
        match (&self.state, self.stop) {
            (State::Waiting(until, _), _) => Some(*until),
            (_, Some(Stop::Hook { until })) => Some(until),
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
            // A container without a readiness probe is ready from its start (prober manager, UpdatePodStatus).
            self.ready = !self.probed;
        }
    }

    pub(super) fn set_ready(&mut self, ready: bool) {
        if matches!(self.state, State::Running(_)) {
            self.ready = ready;
        }
    }

    /// Its process has ended; `next` says what that means for the pod.
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
        self.stop = None;
        self.last = Some(Exit {
            code,
            reason: if code == 0 { "Completed" } else { "Error" },
            message,
            started_at: Some(began.timestamp()),
            finished_at: Some(now.timestamp()),
            run: Some(self.run),
        });
        self.state = if next == Next::Restart {
            let wait = self.backoff.after(now.instant.saturating_duration_since(began.instant));
            State::Waiting(now.instant + wait.length(), wait)
        } else {
            State::Ended
        };
    }

    /// The last container of the pod has ended.
    pub(super) fn finish(&mut self) {
        self.lingers = None;
        self.ready = false;
    }

    /// Begins to stop it. One that is being started is stopped once it runs.
    pub(super) fn stop(&mut self, index: usize, grace: &Grace, now: Moment, actions: &mut Vec<Action>) {
        match self.state {
            State::Running(_) if self.stop.is_none() => match self.hook {
                Hook::Nothing => self.signal(index, grace, now, actions),
                Hook::Sleep(length) => {
                    self.stop = Some(Stop::Hook { until: grace.hook_end(Some(length), now.instant) });
                }
                Hook::Request => {
                    self.stop = Some(Stop::Hook { until: grace.hook_end(None, now.instant) });
                    actions.push(Action::CallHook { index, run: self.run });
                }
            },
            State::Creating => {
                // What the kubelet's status manager reports for a container that it cannot find.
                self.last.get_or_insert_with(|| Exit {
                    code: 137,
                    reason: "ContainerStatusUnknown",
                    message: Some("The container could not be located when the pod was terminated".into()),
                    started_at: None,
                    finished_at: None,
                    run: None,
                });
                self.state = State::Ended;
            }
            State::Waiting(..) => self.state = State::Ended,
            State::Running(_) | State::Starting | State::Ended => {}
        }
    }

    /// Cuts what is under way to a shorter grace period that begins now.
    pub(super) fn hurry(&mut self, grace: &Grace, now: Moment) {
        self.stop = match self.stop {
            Some(Stop::Hook { until }) => {
                Some(Stop::Hook { until: until.min(grace.hook_end(None, now.instant)) })
            }
            Some(Stop::Signalled { at, kill_at: Some(kill_at) }) => {
                Some(Stop::Signalled { at, kill_at: Some(kill_at.min(grace.kill_at(at).max(now.instant))) })
            }
            other => other,
        };
    }

    pub(super) fn signal(&mut self, index: usize, grace: &Grace, now: Moment, actions: &mut Vec<Action>) {
        self.stop = Some(Stop::Signalled { at: now.instant, kill_at: Some(grace.kill_at(now.instant)) });
        actions.push(Action::Terminate { index });
    }

    pub(super) fn killed(&mut self) {
        if let Some(Stop::Signalled { at, .. }) = self.stop {
            self.stop = Some(Stop::Signalled { at, kill_at: None });
        }
    }
}

/// How the run that a status shows has ended, `None` if there was none.
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
