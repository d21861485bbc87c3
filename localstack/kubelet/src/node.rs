//! The nodes that this kubelet simulates.

pub mod heartbeat;
pub mod object;
pub mod state;
