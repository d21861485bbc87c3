//! The wiring: what is started, who owns what, and how it ends.

mod carrier;
pub mod gates;
pub mod leading;
pub mod left;
mod options;
mod owner;
mod parts;
mod reports;
pub mod run;
