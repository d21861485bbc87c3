//! The targets of target groups: what AWS was told of each ([`registration`]), and what is known of each group ([`groups`]).
//!
//! [`claims`] is to replace the states of [`registration`]: one mechanism across leaders instead of five. With the feature `claims`
//! the engine is built over `claimed/`, until every property holds of it.

#[cfg(feature = "claims")]
#[path = "claimed/mod.rs"]
pub mod registration;

pub mod claims;
pub(crate) mod groups;
#[cfg(not(feature = "claims"))]
pub mod registration;
