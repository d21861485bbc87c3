//! The stop of one container: hook, wait for other containers, SIGTERM, SIGKILL.
//!
//! The module is pure, and a part of the state machine.

use super::{Container, Exit, Hook, KILLED, State, Stop};
use crate::clock::Moment;
use crate::object::Role;
use crate::pod::grace::Grace;
use crate::pod::lifecycle::Action;

impl Container {
    /// Starts to stop the container. With `ordered`, a sidecar waits for all containers that started later. A container
    /// that is starting is stopped when it runs. A second stop can only be faster than the first.
    pub(in crate::pod::lifecycle) fn stop(
        &mut self,
        index: usize,
        grace: Grace,
        ordered: bool,
        now: Moment,
        actions: &mut Vec<Action>,
    ) {
        match self.state {
            State::Running(_) if self.stop.is_some() => self.hurry(&grace, now),
            State::Running(_) => {
                (self.grace, self.ordered) = (Some(grace), ordered && self.role == Role::Sidecar);
                match self.hook {
                    Hook::Nothing => self.after_hook(index, now, actions),
                    Hook::Sleep(length) => {
                        self.stop = Some(Stop::Hook { until: grace.hook_end(Some(length), now.instant) });
                    }
                    Hook::Request => {
                        self.stop = Some(Stop::Hook { until: grace.hook_end(None, now.instant) });
                        actions.push(Action::CallHook { index, run: self.run });
                    }
                }
            }
            State::Creating => {
                // The kubelet's status manager reports this exit for a container that it cannot find.
                self.last.get_or_insert_with(|| Exit {
                    code: KILLED,
                    reason: "ContainerStatusUnknown",
                    message: Some("The container could not be located when the pod was terminated".into()),
                    started_at: None,
                    finished_at: None,
                    run: None,
                });
                self.state = State::Ended;
            }
            State::Waiting(..) => self.state = State::Ended,
            State::Starting | State::Ended => {}
        }
    }

    /// Shortens the current step to a shorter grace period that begins now.
    pub(in crate::pod::lifecycle) fn hurry(&mut self, grace: &Grace, now: Moment) {
        let end = grace.hook_end(None, now.instant);
        self.stop = match self.stop {
            Some(Stop::Hook { until }) => Some(Stop::Hook { until: until.min(end) }),
            Some(Stop::Turn { until }) => Some(Stop::Turn { until: until.min(end) }),
            Some(Stop::Signalled { at, kill_at: Some(kill_at) }) => {
                Some(Stop::Signalled { at, kill_at: Some(kill_at.min(grace.kill_at(at).max(now.instant))) })
            }
            other => other,
        };
        self.grace = self.grace.map(|known| if grace.ends_before(&known) { *grace } else { known });
    }

    /// Handles the completion of the hook.
    pub(in crate::pod::lifecycle) fn hook_ended(
        &mut self,
        index: usize,
        now: Moment,
        actions: &mut Vec<Action>,
    ) {
        if let Some(Stop::Hook { .. }) = self.stop {
            self.after_hook(index, now, actions);
        }
    }

    fn after_hook(&mut self, index: usize, now: Moment, actions: &mut Vec<Action>) {
        match self.grace {
            Some(grace) if self.ordered => {
                self.stop = Some(Stop::Turn { until: grace.hook_end(None, now.instant) });
            }
            _ => self.signal(index, now, actions),
        }
    }

    /// Sends SIGTERM.
    pub(in crate::pod::lifecycle) fn signal(&mut self, index: usize, now: Moment, actions: &mut Vec<Action>) {
        let kill_at = self.grace.map_or(now.instant, |grace| grace.kill_at(now.instant));
        self.stop = Some(Stop::Signalled { at: now.instant, kill_at: Some(kill_at) });
        actions.push(Action::Terminate { index });
    }

    /// Handles a timer of [`Container::wake`].
    pub(in crate::pod::lifecycle) fn elapsed(
        &mut self,
        index: usize,
        now: Moment,
        actions: &mut Vec<Action>,
    ) {
        match self.stop {
            Some(Stop::Hook { .. }) => self.after_hook(index, now, actions),
            Some(Stop::Turn { .. }) => self.signal(index, now, actions),
            Some(Stop::Signalled { at, .. }) => {
                self.stop = Some(Stop::Signalled { at, kill_at: None });
                actions.push(Action::Kill { index });
            }
            None => actions.push(self.start(index)),
        }
    }
}
