//! The state of a node: on, shutting down, or off.
//!
//! The control API sets the state, and the heartbeat and the pods of the node follow the state. The followers use a
//! watch, so a slow follower sees only the latest state. Counters record events that no follower must miss, such as a
//! reboot or a restart of the kubelet. An impossible command returns an error.

use serde::Serialize;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// The time between the end of the pods' grace period and the power-off of the machine.
const LAST_SECOND: Duration = Duration::from_secs(1);

/// The power state of the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Power {
    /// The machine is running.
    #[default]
    On,
    /// The machine is shutting down gracefully.
    ShuttingDown {
        /// The maximum grace period of the pods on the machine.
        grace: Duration,
        /// The time at which the machine is off.
        off_at: Instant,
    },
    /// The machine is off without a previous shutdown.
    Off,
}

/// The state of one node.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct NodeState {
    /// The power state of the machine.
    pub power: Power,
    /// The number of times that the machine was lost.
    pub losses: u32,
    /// The number of kubelet restarts during which the pods continued.
    pub restarts: u32,
    /// Whether the node has memory pressure.
    pub pressure: bool,
}

/// The reason why a command for a node is impossible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The node is off.
    #[error("the node is lost; restore it first")]
    Lost,
    /// The node is on.
    #[error("the node is not lost; there is nothing to restore")]
    NotLost,
    /// The node is shutting down.
    #[error("the node is shutting down")]
    ShuttingDown,
}

/// The switch of one node.
#[derive(Clone, Debug, Default)]
pub struct Switch(Arc<watch::Sender<NodeState>>);

/// The state of a node in `GET /nodes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct View {
    /// The power state: `on`, `shutting-down` or `off`.
    pub power: &'static str,
    /// Whether the node has memory pressure.
    pub memory_pressure: bool,
}

/// The switches of all nodes, by name.
pub type Switches = HashMap<String, Switch>;

impl Switch {
    /// Returns a receiver of the current state and its changes.
    pub fn follow(&self) -> watch::Receiver<NodeState> {
        self.0.subscribe()
    }

    /// Returns the state for the control API.
    pub fn view(&self) -> View {
        let state = *self.0.borrow();
        let power = match state.power {
            Power::On => "on",
            Power::ShuttingDown { .. } => "shutting-down",
            Power::Off => "off",
        };
        View { power, memory_pressure: state.pressure }
    }

    /// Switches the machine off without a shutdown.
    pub fn lose(&self) -> Result<(), Refusal> {
        self.change(|state| {
            if state.power == Power::Off {
                return Err(Refusal::Lost);
            }
            state.power = Power::Off;
            state.losses += 1;
            Ok(())
        })
    }

    /// Boots the machine again.
    pub fn restore(&self) -> Result<(), Refusal> {
        self.change(|state| match state.power {
            Power::On if state.pressure => {
                state.pressure = false;
                Ok(())
            }
            Power::On => Err(Refusal::NotLost),
            Power::ShuttingDown { .. } => Err(Refusal::ShuttingDown),
            Power::Off => {
                (state.power, state.pressure) = (Power::On, false);
                Ok(())
            }
        })
    }

    /// Restarts the kubelet while the machine continues. If `pressure` is true, the node has memory pressure
    /// afterwards.
    pub fn restart_kubelet(&self, pressure: bool) -> Result<(), Refusal> {
        self.change(|state| match state.power {
            Power::Off => Err(Refusal::Lost),
            Power::ShuttingDown { .. } => Err(Refusal::ShuttingDown),
            Power::On => {
                state.restarts += 1;
                state.pressure = pressure;
                Ok(())
            }
        })
    }

    /// Shuts down the machine. Pods on the machine get at most `grace`.
    pub fn shut_down(&self, grace: Duration, now: Instant) -> Result<(), Refusal> {
        self.change(|state| match state.power {
            Power::Off => Err(Refusal::Lost),
            Power::ShuttingDown { .. } => Err(Refusal::ShuttingDown),
            Power::On => {
                state.power = Power::ShuttingDown { grace, off_at: now + grace + LAST_SECOND };
                Ok(())
            }
        })
    }

    fn change(&self, change: impl FnOnce(&mut NodeState) -> Result<(), Refusal>) -> Result<(), Refusal> {
        let mut outcome = Ok(());
        self.0.send_if_modified(|state| {
            outcome = change(state);
            outcome.is_ok()
        });
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_and_a_restart_that_nobody_looked_at_in_between_are_still_counted() {
        let switch = Switch::default();
        let follower = switch.follow();
        switch.lose().unwrap();
        switch.restore().unwrap();
        switch.restart_kubelet(false).unwrap();
        let state = *follower.borrow();
        assert_eq!((state.power, state.losses, state.restarts), (Power::On, 1, 1));
    }

    #[test]
    fn what_makes_no_sense_now_is_refused_and_changes_nothing() {
        let switch = Switch::default();
        assert_eq!(switch.restore(), Err(Refusal::NotLost));
        switch.shut_down(Duration::from_secs(20), Instant::now()).unwrap();
        assert_eq!(switch.restart_kubelet(true), Err(Refusal::ShuttingDown));
        assert_eq!(switch.view(), View { power: "shutting-down", memory_pressure: false });
        switch.lose().unwrap();
        assert_eq!(switch.lose(), Err(Refusal::Lost));
        assert_eq!(switch.shut_down(Duration::ZERO, Instant::now()), Err(Refusal::Lost));
    }

    #[test]
    fn memory_pressure_ends_with_a_restore_or_another_restart() {
        let switch = Switch::default();
        switch.restart_kubelet(true).unwrap();
        assert!(switch.view().memory_pressure);
        switch.restore().unwrap();
        assert!(!switch.view().memory_pressure);
    }
}
