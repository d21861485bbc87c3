//! Attacks that take long to play.

mod crowd;
mod hostile;
mod path;
mod sets;
