//! The wiring: what is started, who owns what, and how it ends.

pub mod authority;
pub mod clock;
pub mod drain;
pub mod left;
pub mod outage;
pub mod owner;
pub mod pulse;
pub mod run;
pub mod supervise;
pub mod uninstall;
pub mod views;
