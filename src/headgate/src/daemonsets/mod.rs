//! `headgate daemonsets`: the controller of IngressDaemonSets. It is a separate program with its own permissions, and works
//! with or without `headgate run`.
//!
//! ```text
//!  run ──► lease: one replica leads                    admin: /livez, /readyz, /metrics
//!   └────► owner: leads ─► watches ─► memory ─► core::Daemonsets ─► requests ─┐
//!                            ▲                     (asked)                    │
//!                            └──────────── API server ◄───────────────────────┘
//!                                    telling ─► Events, log
//! ```
//!
//! * A standby watches only the Lease. A new leader first waits until no request of the earlier leader can still take
//!   effect, then lists everything. Its decisions therefore use data that is newer than that leader's last request.
//! * [`headgate_daemonset`] makes all decisions; this module makes none.

mod admin;
mod memory;
mod owner;
pub mod run;
mod telling;
