//! The events of a container.

/// What happened to a container.
#[derive(Clone, Debug, PartialEq)]
pub enum ContainerEvent {
    /// Its process runs. Its ports are open, unless it has a start delay.
    Started,
    /// Its startup probe has succeeded.
    Up,
    /// Its process ended and its sockets are closed.
    Exited {
        /// 0 for success; 137 after SIGKILL.
        code: i32,
        /// The message in the status, if any.
        message: Option<String>,
    },
    /// The result of its readiness probe has changed.
    Ready(bool),
    /// Its liveness or startup probe has failed more often than its threshold allows.
    Unhealthy,
    /// Its preStop hook has ended.
    HookEnded,
}
