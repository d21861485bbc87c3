//! `headgate status`: the status that the leader sends, and the text of it.

pub mod command;
mod text;
