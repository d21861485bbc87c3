//! What a node is doing: it runs, shuts down, or is gone.
//!
//! Owns the state that the control API sets and that the node's heartbeat and its pods follow. It tells them
//! by a watch, so a slow follower sees the newest state; what must not be missed between two looks (a reboot,
//! a restart of the kubelet) is counted. A wish that makes no sense now is refused with a sentence.

use serde::Serialize;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// From the end of the pods' grace to the end of the machine.
const LAST_SECOND: Duration = Duration::from_secs(1);

/// Whether the machine is there.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Power {
    /// It runs.
    #[default]
    On,
    /// It shuts down gracefully.
    ShuttingDown {
        /// What its pods get at the most.
        grace: Duration,
        /// When it is gone.
        off_at: Instant,
    },
    /// It is gone, without a word.
    Off,
}

/// The state of one node.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct NodeState {
    /// Whether the machine is there.
    pub power: Power,
    /// How many times the machine has gone.
    pub losses: u32,
    /// How many times its kubelet was restarted while the pods went on.
    pub restarts: u32,
    /// Whether the node is short of memory.
    pub pressure: bool,
}

/// Why a node cannot do what is asked of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It is off.
    #[error("the node is lost; restore it first")]
    Lost,
    /// It is on.
    #[error("the node is not lost; there is nothing to restore")]
    NotLost,
    /// It is on its way down.
    #[error("the node is shutting down")]
    ShuttingDown,
}

/// The switch of one node.
#[derive(Clone, Debug, Default)]
pub struct Switch(Arc<watch::Sender<NodeState>>);

/// A node in `GET /nodes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct View {
    /// `on`, `shutting-down` or `off`.
    pub power: &'static str,
    /// Whether it is short of memory.
    pub memory_pressure: bool,
}

/// The switches of all nodes, by name.
pub type Switches = HashMap<String, Switch>;

impl Switch {
    /// The state now and from now on.
    pub fn follow(&self) -> watch::Receiver<NodeState> {
        self.0.subscribe()
    }

    /// The state for the control API.
    pub fn view(&self) -> View {
        let state = *self.0.borrow();
        let power = match state.power {
            Power::On => "on",
            Power::ShuttingDown { .. } => "shutting-down",
            Power::Off => "off",
        };
        View { power, memory_pressure: state.pressure }
    }

    /// The machine is gone.
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

    /// The machine boots again.
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

    /// The kubelet is restarted and the machine goes on; with `pressure` it finds memory short.
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

    /// The machine shuts down; its pods get `grace` at the most.
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
