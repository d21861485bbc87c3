//! The inputs and outputs of a pod's state machine.

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
    /// The object is being deleted with this grace period. Zero: it is removed at once.
    Deleting(Duration),
    /// The object was deleted, or another one has its name.
    Vanished,
    /// The kubelet itself ends the pod, without a deletion.
    Ending(Duration, Ending),
    /// The kubelet rejects the pod.
    Rejected(Rejection),
    /// The kubelet was restarted. The processes continued.
    KubeletRestarted,
    /// Something happened to a run of a container.
    Container {
        /// Its number: init containers first, each in the order of the spec.
        index: usize,
        /// The number of the run.
        run: u32,
        /// What happened.
        event: ContainerEvent,
    },
    /// The time from [`super::Lifecycle::wake`] has come.
    Elapsed,
}

/// Why a kubelet itself ends a pod.
#[derive(Clone, Debug, PartialEq)]
pub struct Ending {
    /// The reason in the status of the failed pod.
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

/// Why a kubelet rejects a pod.
#[derive(Clone, Debug, PartialEq)]
pub struct Rejection {
    /// The reason in the status.
    pub reason: &'static str,
    /// The message in the status.
    pub message: &'static str,
}

impl Rejection {
    /// For a pod without resource requests on a node under memory pressure.
    pub fn pressure() -> Self {
        let message = "Pod was rejected: The node had condition: [MemoryPressure]. ";
        Self { reason: "Evicted", message }
    }

    /// For any pod on a node that is shutting down.
    pub fn shutdown() -> Self {
        let message = "Pod was rejected: Pod was rejected as the node is shutting down.";
        Self { reason: "NodeShutdown", message }
    }
}

/// An action of the pod's task.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Gets an address for the pod. The result is [`Input::Sandbox`].
    Prepare,
    /// Gets another address for the pod and returns the current one to the pool. The result is [`Input::Sandbox`].
    Renew,
    /// Starts a run of a container.
    Start {
        /// The container's number.
        index: usize,
        /// The number of the run, which its reports carry.
        run: u32,
    },
    /// Sends the hook's HTTP request and reports its end.
    CallHook {
        /// The container's number.
        index: usize,
        /// The run that the hook belongs to.
        run: u32,
    },
    /// Sends SIGTERM.
    Terminate {
        /// The container's number.
        index: usize,
    },
    /// Sends SIGKILL.
    Kill {
        /// The container's number.
        index: usize,
    },
    /// Returns the address to the pool, because all containers have ended for good.
    Release,
}
