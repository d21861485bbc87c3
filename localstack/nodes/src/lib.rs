//! Real Kubernetes nodes on one machine: several instances of kubelet, containerd and runc.
//!
//! A separate *network* ([`network`]) contains all programs. Pods have VPC-like addresses in this network, and cannot
//! reach other networks. Every node is a *machine* ([`machine`]), with separate process and mount namespaces. The first
//! process of a machine starts containerd and the kubelet. When the first process exits, the kernel kills all processes
//! of the machine and removes its mounts. A node can therefore be switched off like a computer, and no process of the
//! node remains.
//!
//! After a switch-off, only the folder of the machine (its disk) and its cgroups remain. [`cgroup`] removes the
//! cgroups.
//!
//! The crate requires root and some Debian packages. [`requirements`] lists missing packages.

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
