//! The events of a container.

/// An event of a container.
#[derive(Clone, Debug, PartialEq)]
pub enum ContainerEvent {
    /// The process of the container runs. The ports of the container are open, unless the container has a start delay.
    Started,
    /// The startup probe has succeeded.
    Up,
    /// The process has exited, and its sockets are closed.
    Exited {
        /// The exit code: 0 for success, 137 after SIGKILL.
        code: i32,
        /// The message in the status.
        message: Option<String>,
    },
    /// The result of the readiness probe has changed.
    Ready(bool),
    /// The liveness or startup probe has reached its failure threshold.
    Unhealthy,
    /// The preStop hook has completed.
    HookEnded,
}
