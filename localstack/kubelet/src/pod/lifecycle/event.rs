//! What goes into the state machine of a pod, and what comes out of it.
//!
//! Owns the vocabulary only; [`super::Lifecycle`] gives it its meaning.

use std::net::Ipv4Addr;
use std::time::Duration;

use crate::container::event::ContainerEvent;

/// What happened to a pod.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// The sandbox is up and has this address.
    Sandbox(Ipv4Addr),
    /// The sandbox was killed, and every process of the pod with it.
    SandboxLost,
    /// The object carries a deletion with this grace period (zero: it is removed at once).
    Deleting(Duration),
    /// The object is gone, or another one has its name.
    Vanished,
    /// The kubelet ends the pod by itself, without a deletion.
    Ending(Duration, Ending),
    /// The kubelet will not have the pod, or no longer.
    Rejected(Rejection),
    /// The kubelet itself was restarted; the processes went on.
    KubeletRestarted,
    /// Something happened to a container, in its run of this number.
    Container {
        /// Its number: init containers first, each in the order of the spec.
        index: usize,
        /// Which run reports.
        run: u32,
        /// What happened.
        event: ContainerEvent,
    },
    /// The time [`super::Lifecycle::wake`] gave has come.
    Elapsed,
}

/// Why a kubelet ends a pod by itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Ending {
    /// The reason a failed pod's status shows.
    pub reason: &'static str,
    /// The message of the status and of the `DisruptionTarget` condition.
    pub message: String,
}

impl Ending {
    /// Eviction under memory pressure.
    pub fn pressure() -> Self {
        Self { reason: "Evicted", message: "The node was low on resource: memory. ".into() }
    }

    /// Graceful shutdown of the node (`nodeshutdown_manager.go` of v1.36).
    pub fn shutdown() -> Self {
        let message = "Pod was terminated in response to imminent node shutdown.";
        Self { reason: "Terminated", message: message.into() }
    }
}

/// Why a kubelet turns a pod away.
#[derive(Clone, Debug, PartialEq)]
pub struct Rejection {
    /// The reason the status shows.
    pub reason: &'static str,
    /// The message the status shows.
    pub message: &'static str,
}

impl Rejection {
    /// A pod that asks for no resources, on a node under memory pressure.
    pub fn pressure() -> Self {
        let message = "Pod was rejected: The node had condition: [MemoryPressure]. ";
        Self { reason: "Evicted", message }
    }

    /// Any pod, on a node that is shutting down.
    pub fn shutdown() -> Self {
        let message = "Pod was rejected: Pod was rejected as the node is shutting down.";
        Self { reason: "NodeShutdown", message }
    }
}

/// What is to be done now.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Get the pod an address, then report [`Input::Sandbox`].
    Prepare,
    /// Get the pod another address than the one it has, give that one back, then report [`Input::Sandbox`].
    Renew,
    /// Start this run of a container.
    Start {
        /// The container's number.
        index: usize,
        /// The number of the run, which its reports carry.
        run: u32,
    },
    /// Send the hook's HTTP request and report its end.
    CallHook {
        /// The container's number.
        index: usize,
        /// The run whose hook it is.
        run: u32,
    },
    /// SIGTERM.
    Terminate {
        /// The container's number.
        index: usize,
    },
    /// SIGKILL.
    Kill {
        /// The container's number.
        index: usize,
    },
    /// Every container has ended for good: the address goes back.
    Release,
}
