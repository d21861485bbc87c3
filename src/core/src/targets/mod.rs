//! The targets of target groups: what AWS was told of each ([`registration`]), and what is known of each group ([`groups`]).
//!
//! [`claims`] is to replace [`registration`]: one mechanism across leaders instead of five. Nothing uses it yet but its world
//! (`tests/simulation/src/claims`).

pub mod claims;
pub(crate) mod groups;
pub mod registration;
