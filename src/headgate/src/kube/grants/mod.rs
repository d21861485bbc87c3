//! Which namespaces may bind which target groups: the watched grants, resolved for the engine.
//!
//! ```text
//!  watch of TargetGroupGrants ─┐          Written: what of each can be read
//!                              ├─► keeper ─► Known: × labels of namespaces ─► Input::Grants, all there are
//!  watch of namespaces ────────┘                 └─► what cannot be read: an Event, by the leader
//! ```
//!
//! * **Owns** what was seen of grants and of the labels of namespaces.
//! * **Guarantees** that the engine gets nothing before the grants have listed, and the namespaces too if a grant
//!   needs their labels. From then on it gets all grants at every change. A listed grant remains until a list or an
//!   event changes it, during any failure.
//! * **Caveat**: if the API server refuses the list for good (the kind is not installed, the right is missing), there
//!   is nothing to wait for. If grants are optional, Headgate continues after [`keeper::PATIENCE`] as if there were
//!   none; if they are required, it waits. It always waits for an API server that does not answer.

pub mod keeper;
pub mod known;
pub mod seen;
pub mod written;
