//! Starts and stops a complete local cluster with Kubernetes, nodes and load balancers.
//!
//! The names in this crate call a local cluster a *world*. A local cluster consists of a real Kubernetes control plane,
//! simulated kubelets, and a stand-in for AWS Elastic Load Balancing v2. All components are processes of this machine
//! on loopback addresses. All files of a local cluster are in one folder of the cache. Several local clusters can run
//! at the same time.
//!
//! There are three ways to start a local cluster:
//! - `world up` and `world down` are for people ([`commands`]).
//! - [`World::start`] is for tests. The cluster stops when the [`World`] is dropped, and also when the test is killed.
//! - `world up --foreground` runs until Ctrl-C.
//!
//! In all three cases, one process, the supervisor ([`supervisor`]), owns the cluster. The children of the supervisor
//! cannot outlive the supervisor ([`reexec`]), so no process remains even if the supervisor is killed.
//!
//! The crate supports only Linux. The crate needs loopback addresses beyond 127.0.0.1, abstract sockets, and the kernel
//! feature that kills children when their parent exits.

pub mod cache;
pub mod commands;
pub mod component;
pub mod control;
pub mod debian;
pub mod facts;
pub mod ingresses;
pub mod kubernetes;
pub mod network;
pub mod options;
pub mod process;
pub mod reexec;
pub mod slot;
pub mod supervisor;

mod board;
mod child;
mod compile;
mod console;
mod containerd;
mod error;
mod fleet;
mod helm;
mod images;
mod kubeconfig;
mod minor;
mod pki;
mod plan;
mod ports;
mod probe;
mod program;
mod report;
mod serve;
mod tail;
#[cfg(test)]
mod testing;
mod world;

pub use cache::WorldName;
pub use compile::CompileError;
pub use component::{Component, State};
pub use error::WorldError;
pub use facts::{ComponentFacts, Facts};
pub use minor::Minor;
pub use network::Zone;
pub use options::{Nodes, Options};
pub use pki::PkiError;
pub use probe::ProbeError;
pub use process::Process;
pub use world::{Start, World};
