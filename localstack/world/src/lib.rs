//! Starts and stops a complete local world: Kubernetes, nodes, load balancers.
//!
//! A *world* is a real Kubernetes control plane, simulated kubelets, and a stand-in for AWS Elastic Load Balancing v2.
//! All of them are processes of this machine on loopback addresses. All files of a world are in one folder of the
//! cache. Several worlds can run at the same time.
//!
//! Three ways to start one:
//! - `world up` … `world down`: for people ([`commands`]).
//! - [`World::start`]: for tests. The world ends when the [`World`] is dropped, and also when the test is killed.
//! - `world up --foreground`: until Ctrl-C.
//!
//! In all of them, one process, the supervisor ([`supervisor`]), owns the world. Its children cannot outlive it
//! ([`reexec`]), so no process remains, even if the supervisor is killed.
//!
//! Linux only: it needs loopback addresses beyond 127.0.0.1, abstract sockets, and the kernel feature that kills
//! children with their parent.

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
