//! The wiring: what is started, who owns what, and how it ends.

pub mod drain;
pub mod left;
pub mod owner;
pub mod run;
pub mod uninstall;
