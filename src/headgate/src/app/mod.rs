//! Starts the parts of the program and connects them.

mod carrier;
pub mod gates;
pub mod leading;
pub mod left;
mod options;
mod owner;
mod parts;
mod reports;
pub mod run;
