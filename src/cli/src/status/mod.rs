//! `headgate status`: prints the status that the leader returns.

pub mod command;
mod text;
