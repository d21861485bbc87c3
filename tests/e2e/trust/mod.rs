//! Attacks, and Headgate's defenses: `cargo test -p headgate-tests --test e2e -- trust::`.

mod debug;
mod fence;
mod iam;
mod marks;
mod tokens;
