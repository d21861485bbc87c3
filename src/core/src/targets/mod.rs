//! The targets of target groups: which pod should have which target ([`registration`]), what AWS may have and what the
//! ledger contains ([`claims`]), and what is known of each group ([`groups`]).

pub mod claims;
pub(crate) mod groups;
pub mod registration;
