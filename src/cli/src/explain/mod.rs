//! `headgate explain POD|SERVICE|TARGETBINDING|NODE|IDS`: what the leader sends, what the object itself adds, and the text
//! of both.

pub mod command;
mod node;
mod origin;
pub mod pod;
pub mod reach;
mod set;
pub mod text;
