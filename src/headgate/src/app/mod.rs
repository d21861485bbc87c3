//! The wiring: what is started, who owns what, and how it ends.

mod carrier;
pub mod drain;
pub mod left;
mod owner;
mod reports;
pub mod run;
pub mod uninstall;
