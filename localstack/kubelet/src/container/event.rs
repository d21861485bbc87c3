//! What a container says of itself.

/// What happened to a container.
#[derive(Clone, Debug, PartialEq)]
pub enum ContainerEvent {
    /// Its process runs; its ports are open, unless it was asked to start slowly.
    Started,
    /// Its startup probe has succeeded.
    Up,
    /// Its process ended and its sockets are closed.
    Exited {
        /// 0 for success; 137 after SIGKILL.
        code: i32,
        /// What the status shows, where there is something to say.
        message: Option<String>,
    },
    /// Its readiness probe changed its mind.
    Ready(bool),
    /// Its liveness or startup probe has failed for good.
    Unhealthy,
    /// Its preStop hook has ended.
    HookEnded,
}
