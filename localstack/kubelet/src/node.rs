//! The nodes this kubelet stands for.

pub mod heartbeat;
pub mod object;
pub mod state;
