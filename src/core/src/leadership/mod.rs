//! Decides which replica is the leader, and what each replica may do.
//!
//! ```text
//!  lease   which replica is the leader: the algorithm of leader election
//!  ability whether the leader must release the Lease because it cannot lead
//!  term    the role of this replica: whether it is the leader, and has all lists and ledgers
//! ```
//!
//! * **Owns** the Lease as last seen, the watches that have not listed yet, and the role of this replica.
//! * **Guarantees.** No two replicas act at the same time if all clocks run at the same speed. A replica acts only when
//!   it has all lists and ledgers. A replica ignores answers to requests from an earlier term.
//! * **Assumes** that the sender of a request checks again whether this replica is the leader, because the term may
//!   have expired since.

pub mod ability;
pub mod lease;
mod term;

pub use term::{Load, Role, Term, Watch};
