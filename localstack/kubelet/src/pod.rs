//! The modules for one pod: its object, its state machine, its status, and the task that drives the pod.

pub mod backoff;
pub mod behaviour;
pub mod condition;
pub mod dispatch;
pub mod grace;
pub mod lifecycle;
pub mod patch;
pub mod registry;
pub mod run;
pub mod status;
pub mod worker;
pub mod write;
