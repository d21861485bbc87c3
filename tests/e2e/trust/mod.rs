//! Attacks, and what Headgate does about them: `cargo test -p headgate-tests --test e2e -- trust::`.

mod crowd;
mod debug;
mod fence;
mod hostile;
mod iam;
mod marks;
mod path;
mod ruling;
