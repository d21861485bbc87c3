//! The inputs and outputs of a pod's state machine.

use std::net::Ipv4Addr;
use std::time::Duration;

use crate::container::event::ContainerEvent;

/// An event of a pod.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// The sandbox is up and has this address.
    Sandbox(Ipv4Addr),
    /// The sandbox was killed together with all processes of the pod.
    SandboxLost,
    /// The object is being deleted with this grace period. Zero: the object is deleted immediately.
    Deleting(Duration),
    /// The object was deleted, or another object has its name.
    Vanished,
    /// The kubelet itself terminates the pod, without a deletion of the object.
    Ending(Duration, Ending),
    /// The kubelet rejects the pod.
    Rejected(Rejection),
    /// The kubelet was restarted, while the processes continued.
    KubeletRestarted,
    /// An event of a run of a container.
    Container {
        /// The number of the container, which is its position in the list of all containers. The list begins with the
        /// init containers.
        index: usize,
        /// The number of the run.
        run: u32,
        /// The event.
        event: ContainerEvent,
    },
    /// The time that [`super::Lifecycle::wake`] returned has come.
    Elapsed,
}

/// The reason why a kubelet itself terminates a pod.
#[derive(Clone, Debug, PartialEq)]
pub struct Ending {
    /// The reason in the status of the failed pod.
    pub reason: &'static str,
    /// The message in the status and in the `DisruptionTarget` condition.
    pub message: String,
}

impl Ending {
    /// Returns the reason for an eviction under memory pressure.
    pub fn pressure() -> Self {
        Self { reason: "Evicted", message: "The node was low on resource: memory. ".into() }
    }

    /// Returns the reason for a graceful shutdown of the node (`nodeshutdown_manager.go` of v1.36).
    pub fn shutdown() -> Self {
        let message = "Pod was terminated in response to imminent node shutdown.";
        Self { reason: "Terminated", message: message.into() }
    }
}

/// The reason why a kubelet rejects a pod.
#[derive(Clone, Debug, PartialEq)]
pub struct Rejection {
    /// The reason in the status.
    pub reason: &'static str,
    /// The message in the status.
    pub message: &'static str,
}

impl Rejection {
    /// Returns the rejection of a pod without resource requests on a node with memory pressure.
    pub fn pressure() -> Self {
        let message = "Pod was rejected: The node had condition: [MemoryPressure]. ";
        Self { reason: "Evicted", message }
    }

    /// Returns the rejection of any pod on a node that is shutting down.
    pub fn shutdown() -> Self {
        let message = "Pod was rejected: Pod was rejected as the node is shutting down.";
        Self { reason: "NodeShutdown", message }
    }
}

/// An action of the pod's task.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Get an address for the pod. The result is [`Input::Sandbox`].
    Prepare,
    /// Get another address for the pod, and return the current address to the pool. The result is [`Input::Sandbox`].
    Renew,
    /// Start a run of a container.
    Start {
        /// The number of the container.
        index: usize,
        /// The number of the run. All reports of the run contain the number.
        run: u32,
    },
    /// Send the hook's HTTP request, and report the completion.
    CallHook {
        /// The number of the container.
        index: usize,
        /// The number of the run that the hook belongs to.
        run: u32,
    },
    /// Send SIGTERM.
    Terminate {
        /// The number of the container.
        index: usize,
    },
    /// Send SIGKILL.
    Kill {
        /// The number of the container.
        index: usize,
    },
    /// Return the address to the pool, because all containers have terminated.
    Release,
}
