//! The Kubernetes side: watches in, Events out.

pub mod client;
pub mod events;
pub mod slim;
pub mod watch;
pub mod written;
