//! Which namespaces may bind which target groups: the watched grants, resolved for the engine.
//!
//! ```text
//!  watch of TargetGroupGrants ─┐          Written: the valid parts of each grant
//!                              ├─► keeper ─► Known: × labels of namespaces ─► Input::Grants, all grants
//!  watch of namespaces ────────┘                 └─► errors: an Event, by the leader
//! ```
//!
//! * **Owns** the grants and the labels of namespaces as last seen.
//! * **Guarantees.** The engine gets no grants before they were listed, and the namespaces too if a grant needs their labels.
//!   From then on it gets all grants at every change. A listed grant remains until a list or an event changes it, during
//!   any failure.
//! * **Caveat.** If the API server rejects the list permanently (the CRD is not installed, or a permission is missing),
//!   waiting is useless. If grants are optional, Headgate then continues without them after [`keeper::PATIENCE`]. If they
//!   are required, it waits. It always waits for an API server that does not answer.

pub mod keeper;
pub mod known;
pub mod seen;
pub mod written;
