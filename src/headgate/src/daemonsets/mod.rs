//! `headgate daemonsets`: the controller of IngressDaemonSets. The controller is a separate program with its own
//! permissions, and works with or without `headgate run`.
//!
//! ```text
//!  run ──► lease: one replica leads                    admin: /livez, /readyz, /metrics
//!   └────► owner: leads ─► watches ─► memory ─► core::Daemonsets ─► requests ─┐
//!                            ▲                     (asked)                    │
//!                            └──────────── API server ◄───────────────────────┘
//!                                    telling ─► Events, log
//! ```
//!
//! * A standby watches only the Lease. A new leader waits until requests of the previous leader can no longer take
//!   effect, and then lists all objects. Therefore, the new leader's decisions use data that is newer than the previous
//!   leader's last request.
//! * [`headgate_daemonset`] makes all decisions, and this module only executes them.

mod admin;
mod memory;
mod owner;
pub mod run;
mod telling;
