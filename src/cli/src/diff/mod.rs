//! `headgate diff`: the differences that the leader returns, as text.

pub mod command;
mod text;
