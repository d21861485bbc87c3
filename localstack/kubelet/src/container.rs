//! The parts of a simulated container: a process that serves HTTP on the pod's address, and the probes of the
//! container.

pub mod conduct;
pub mod event;
pub mod http;
pub mod probe;
pub mod process;
pub mod server;
pub mod threshold;
