//! Grants determine which namespaces may bind which target groups. This module watches grants and resolves their
//! namespaces for the engine.
//!
//! ```text
//!  watch of TargetGroupGrants ─┐          Written: the valid parts of each grant
//!                              ├─► keeper ─► Known: × labels of namespaces ─► Input::Grants, all grants
//!  watch of namespaces ────────┘                 └─► errors: an Event, by the leader
//! ```
//!
//! * **Owns** the last received grants and namespace labels.
//! * **Guarantees.** The engine receives grants only after the grants were listed, and after the namespaces were listed
//!   if a grant selects them by label. After the first lists, the engine receives all grants at every change. During
//!   any failure, a listed grant remains in effect until a list or an event changes it.
//! * **Caveat.** If the CRD is not installed or a permission is missing, the API server rejects the list permanently,
//!   so waiting is useless. If grants are optional, Headgate then continues without grants after [`keeper::PATIENCE`].
//!   If grants are required, Headgate waits. Headgate always waits for an API server that does not answer.

pub mod keeper;
pub mod known;
pub mod seen;
pub mod written;
