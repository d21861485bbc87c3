//! `headgate daemonsets`: the controller of IngressDaemonSets. A program of its own, with rights of its own, beside
//! `headgate run`; neither needs the other.
//!
//! ```text
//!  run ──► lease: one replica leads                    admin: /livez, /readyz, /metrics
//!   └────► owner: leads ─► watches ─► memory ─► core::Daemonsets ─► requests ─┐
//!                            ▲                     (asked)                    │
//!                            └──────────── API server ◄───────────────────────┘
//!                                    telling ─► Events, log
//! ```
//!
//! * A replica that stands by watches nothing but the Lease. One that begins to lead waits for as long as a request of the
//!   leader before it may take, and then lists everything: what it decides on is no older than that leader's last word.
//! * What is to be done is decided in [`headgate_daemonset`]; nothing is decided here.

mod admin;
mod memory;
mod owner;
pub mod run;
mod telling;
