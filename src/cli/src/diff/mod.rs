//! `headgate diff`: prints the differences that the leader returns.

pub mod command;
mod text;
