//! End-to-end tests with the real `headgate` program, a real Kubernetes, and a load balancer with propagation delays
//! and draining.
//!
//! All tests share one local world. Each test has its own namespace, target groups and `headgate` process. Tests that
//! would disturb others run alone.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a panic is a failed test

mod annotations;
mod bindings;
mod chart_readme;
mod conditions;
mod credentials;
mod daemonsets;
mod doctoring;
mod evicting;
mod explaining;
mod gating;
mod holding;
mod injecting;
mod installations;
mod kubernetes_versions;
mod leading;
mod leaving;
mod links;
mod monitoring;
mod more;
mod operating;
mod own_hooks;
mod page;
mod policies;
mod reference;
mod registering;
mod reporting;
mod rights;
mod sets_shown;
mod shapes;
mod status;
mod structure;
mod tenants;
mod trust;
mod uninstalling;
mod unproven;
mod workflows;
