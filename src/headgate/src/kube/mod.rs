//! The Kubernetes side: watches, Events, readiness gates, the Lease and the ledgers.

pub mod bindings;
pub mod client;
pub mod daemonsets;
pub mod events;
pub mod evictions;
pub mod failure;
pub mod gates;
pub mod grants;
pub mod handover;
pub mod installation;
pub mod lease;
pub mod ledger;
mod lists;
pub mod marks;
pub mod nodes;
pub mod pages;
pub mod patience;
pub mod proof;
#[cfg(test)]
mod properties;
pub mod proxy;
pub mod replicas;
mod resting;
pub mod slim;
pub mod watch;
pub mod watch_failures;
pub mod words;
pub mod written;
