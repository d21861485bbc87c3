//! Which replica leads, and what it may do.
//!
//! ```text
//!  lease   who leads: the algorithm of leader election
//!  ability whether the leader can lead, and when it gives the Lease back
//!  term    whether this replica leads, and has what it needs to act: lists and ledgers
//! ```
//!
//! * **Owns** the Lease as last seen; what has not been listed yet; the role.
//! * **Guarantees.** No two replicas act at a time, as long as clocks run equally fast; nobody acts before everything is
//!   there; an answer to a term before is no answer to this one.
//! * **Assumes** that whoever sends asks once more whether this replica leads: a term may lapse in between.

pub mod ability;
pub mod lease;
mod term;

pub use term::{Load, Role, Term, Watch};
