//! Real Kubernetes nodes on one machine: several instances of kubelet, containerd and runc.
//!
//! A separate *network* ([`network`]) contains everything. Pods have VPC-like addresses in it, and none of them can
//! reach other networks. Every node is a *machine* ([`machine`]): separate process and mount namespaces, whose first
//! process starts containerd and kubelet. When that process ends, the kernel ends all processes of the machine and
//! removes its mounts. So a node can be switched off like a computer, and no process of it remains.
//!
//! Only a machine's folder (its disk) and its cgroups remain. [`cgroup`] removes the cgroups.
//!
//! Requires root and some Debian packages. [`requirements`] lists the missing ones.

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
