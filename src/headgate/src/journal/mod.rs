//! The past: what became of targets, pods, nodes and this replica's lead, askable for hours after it is gone.
//!
//! ```text
//!  app::owner ─► keeper: a channel, a task, the core's Journal ─► explain, /debug/journal
//!   (Effect::Happened, Effect::Notice)                 report
//! ```
//!
//! Each replica keeps its own, in memory: the engine's owner hands over what has become otherwise and waits for nobody. A
//! standby sees pods, their gates and nodes; what AWS answers and shows only the leader knows. So what a new leader has seen
//! as a standby is there after a change of leader, and the answer says since when the replica knows the rest.

pub mod keeper;
pub mod report;
pub mod sentence;
