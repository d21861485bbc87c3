//! `headgate daemonsets`: the controller of IngressDaemonSets. It is a program of its own with its own rights. It and
//! `headgate run` do not need each other.
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
//!   effect, then lists everything. Its decisions therefore rest on data that is newer than that leader's last
//!   request.
//! * [`headgate_daemonset`] decides everything; nothing is decided here.

mod admin;
mod memory;
mod owner;
pub mod run;
mod telling;
