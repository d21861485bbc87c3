//! Real Kubernetes nodes on one machine: kubelet, containerd and runc, several of each.
//!
//! A *network* of the world's own ([`network`]) holds everything: pods have VPC-like addresses in
//! it, and none of them can leave it. In it every node is a *machine* ([`machine`]): process and
//! mount namespaces of its own, whose first process starts containerd and kubelet. When that
//! process dies, the kernel ends whatever ran on the machine, and its mounts are gone: a node can
//! be switched off like a computer, and nothing of it can be left running.
//!
//! What outlives a machine is its folder (its disk), and its cgroups, which [`cgroup`] removes.
//!
//! Needs root and some packages of Debian: [`requirements`] says which are missing.

pub mod cgroup;
pub mod config;
pub mod control;
pub mod image;
pub mod layout;
pub mod machine;
pub mod network;
pub mod node;
pub mod proxy;
pub mod requirements;
mod tied;

pub use layout::{ImageOption, Layout, NodeOption, ZoneOption};
