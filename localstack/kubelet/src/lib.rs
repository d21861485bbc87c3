//! A simulated kubelet for many pods on loopback addresses.
