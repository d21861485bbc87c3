//! The order in which a pod's containers start and stop.
//!
//! Init containers start one after the other. The next init container starts after an ordinary init container has
//! terminated with 0, or after a sidecar is up. Main containers start simultaneously after the last init container.
//!
//! At the end of a pod, each main container gets SIGTERM when its hook has completed. The hooks of sidecars run at the
//! same time. A sidecar gets SIGTERM only after all containers that started later have terminated, or at the end of the
//! grace period (`kuberuntime_termination_order.go` of v1.36). The module is pure.

use super::container::Container;
use super::{Action, Lifecycle, Stage};
use crate::clock::Moment;
use crate::object::Role;
use crate::pod::grace::Grace;
use std::time::Duration;

impl Lifecycle {
    /// Starts every container that may start now.
    pub(super) fn start_due(&mut self, actions: &mut Vec<Action>) {
        if self.stage != Stage::Running || self.pull.holds_back() {
            return;
        }
        for (index, container) in self.containers.iter_mut().enumerate() {
            if container.is_new() {
                actions.push(container.start(index));
            }
            let next_waits = match container.role() {
                Role::Init => !container.has_ended(),
                Role::Sidecar => !container.is_up(),
                Role::Main => false,
            };
            if next_waits {
                return;
            }
        }
    }

    /// Sends SIGTERM to every sidecar that may stop now.
    pub(super) fn stop_due(&mut self, now: Moment, actions: &mut Vec<Action>) {
        for index in (0..self.containers.len()).rev() {
            let (container, later) = match self.containers[index..].split_first_mut() {
                Some(parts) if parts.0.waits_its_turn() => parts,
                _ => continue,
            };
            if later.iter().all(Container::has_ended) {
                container.signal(index, now, actions);
            }
        }
    }

    /// Starts or shortens the termination of the pod.
    pub(super) fn terminate(&mut self, requested: Duration, now: Moment, actions: &mut Vec<Action>) {
        let grace = match self.stage {
            Stage::Preparing | Stage::Running => {
                let grace = Grace::begin(requested, now.instant);
                for (index, container) in self.containers.iter_mut().enumerate() {
                    container.stop(index, grace, true, now, actions);
                }
                self.pull.end();
                (self.renew_at, self.flaps_until) = (None, None);
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

    /// Ends the pod if no container runs or will be started. Sidecars do not outlive the other containers.
    pub(super) fn settle(&mut self, now: Moment, actions: &mut Vec<Action>) {
        if self.stage == Stage::Ended || !self.main_containers().all(Container::has_ended) {
            return;
        }
        if !self.is_terminating() && !self.containers.iter().all(Container::has_ended) {
            self.terminate(self.grace, now, actions);
            self.stop_due(now, actions);
        }
        if self.containers.iter().all(Container::has_ended) {
            self.stage = Stage::Ended;
            for container in &mut self.containers {
                container.finish();
            }
            actions.push(Action::Release);
        }
    }
}
