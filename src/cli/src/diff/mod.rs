//! `headgate diff`: the differences that the leader sends, and the text of them.

pub mod command;
mod text;
