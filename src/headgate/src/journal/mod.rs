//! The history of targets, pods, nodes and this replica's leadership. The history is available for hours after an
//! object was deleted.
//!
//! ```text
//!  app::owner ─► keeper: a channel, a task, the core's Journal ─► explain, /debug/journal
//!   (Effect::Happened, Effect::Notice)                 report
//! ```
//!
//! Each replica keeps its own journal in memory. The engine's owner sends changes to the journal and never waits. A
//! standby receives changes of pods, gates and nodes, but only the leader receives AWS's answers. Therefore, the
//! journal of a new leader only contains changes that the replica received as a standby. The answer states since when
//! the replica has been the leader.

pub mod keeper;
pub mod report;
pub mod sentence;
