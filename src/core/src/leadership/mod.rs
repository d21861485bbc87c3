//! Which replica leads, and what it may do.
//!
//! ```text
//!  lease   who leads: the algorithm of leader election
//!  ability whether the leader can lead, and when it releases the Lease because it cannot
//!  term    whether this replica leads, and has what it needs to act: lists and ledgers
//! ```
//!
//! * **Owns** the Lease as last seen; what has not been listed yet; the role.
//! * **Guarantees.** No two replicas act at the same time, if clocks run equally fast. A replica acts only when it has
//!   all lists and ledgers. It ignores answers to requests of an earlier term.
//! * **Assumes** that the sender checks again whether this replica leads: a term may expire in between.

pub mod ability;
pub mod lease;
mod term;

pub use term::{Load, Role, Term, Watch};
