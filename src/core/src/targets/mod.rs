//! The targets of target groups: what AWS was told of each ([`registration`]), and what is known of each group ([`groups`]).

pub(crate) mod groups;
pub mod registration;
