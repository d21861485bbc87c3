//! The arguments of the client commands.

pub mod diff;
pub mod doctor;
pub mod drain;
pub mod explain;
pub mod migrate;
pub mod status;
pub mod ui;
pub mod uninstall;
mod which;
