//! The effect of the node's state on a pod.
//!
//! The task of a pod follows the state of its node. The loss of the node stops the pod, a restored node starts the pod
//! again, and a shutdown terminates the pod. A node that is shutting down or has memory pressure rejects new pods.

use super::Worker;
use crate::clock::Moment;
use crate::node::state::{NodeState, Power};
use crate::pod::lifecycle::{Action, Ending, Input, Lifecycle, Rejection};

impl Worker {
    /// Applies the state of the node when the kubelet first sees the pod.
    pub(super) fn arrive(&mut self, node: NodeState, actions: Vec<Action>) -> Vec<Action> {
        self.node = node;
        let rejection = match node.power {
            Power::Off => {
                self.dark = true;
                return Vec::new();
            }
            Power::ShuttingDown { .. } => Some(Rejection::shutdown()),
            Power::On => self.rejection_under_pressure(),
        };
        match rejection.filter(|_| !self.lifecycle.has_ended()) {
            Some(rejection) => self.lifecycle.step(Input::Rejected(rejection), Moment::now()),
            None => actions,
        }
    }

    /// Applies a change of the node's state.
    pub(super) fn follow(&mut self, node: NodeState) {
        let before = std::mem::replace(&mut self.node, node);
        if (node.losses != before.losses || node.power == Power::Off) && !self.dark {
            self.go_dark();
        }
        match node.power {
            Power::On if self.dark => self.revive(),
            Power::On if node.restarts != before.restarts => match self.rejection_under_pressure() {
                Some(rejection) => self.step(Input::Rejected(rejection)),
                None => self.step(Input::KubeletRestarted),
            },
            Power::On | Power::Off => {}
            Power::ShuttingDown { grace, .. } => {
                if before.power == Power::On && !self.dark {
                    self.step(Input::Ending(grace.min(self.pod.spec.grace()), Ending::shutdown()));
                }
            }
        }
    }

    /// Rejects a pod without resource requests if the node is under memory pressure.
    fn rejection_under_pressure(&self) -> Option<Rejection> {
        (self.node.pressure && self.pod.is_best_effort()).then(Rejection::pressure)
    }

    /// Stops all processes, because the machine is lost. The task reports nothing.
    fn go_dark(&mut self) {
        self.dark = true;
        (self.ask_again, self.annotating) = (None, None);
        for run in &mut self.runs {
            *run = None;
        }
    }

    /// Starts the pod again after a reboot, because the old processes stopped with the machine. The pod keeps its
    /// address, which was never returned.
    fn revive(&mut self) {
        self.dark = false;
        let (lifecycle, actions) = Lifecycle::begin(&self.pod, Moment::now());
        self.lifecycle = lifecycle;
        self.stale = true;
        self.renewing = false;
        if self.lifecycle.has_ended() && actions.is_empty() {
            self.give_back();
        }
        self.perform(actions);
    }
}
