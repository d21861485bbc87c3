//! The history of targets, pods, nodes and this replica's leadership. It is available for hours after an object was deleted.
//!
//! ```text
//!  app::owner ─► keeper: a channel, a task, the core's Journal ─► explain, /debug/journal
//!   (Effect::Happened, Effect::Notice)                 report
//! ```
//!
//! Each replica keeps its own journal in memory. The engine's owner passes on changes and never waits. A standby sees pods,
//! their gates and nodes, but only the leader knows AWS's answers. A new leader therefore only knows what it saw as a
//! standby. Its answer shows since when it knows everything.

pub mod keeper;
pub mod report;
pub mod sentence;
