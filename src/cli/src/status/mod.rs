//! `headgate status`: the status that the leader returns, as text.

pub mod command;
mod text;
