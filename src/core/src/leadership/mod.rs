//! Which replica leads, and what it may do.
//!
//! ```text
//!  lease   who leads: the algorithm of leader election
//!  term    whether this replica leads, and has what it needs to act: lists and ledgers
//! ```

pub mod lease;
mod term;

pub use term::{Load, Role, Term, Watch};
