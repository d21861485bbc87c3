//! Headgate: puts pods into AWS target groups the moment they have an IP, and takes them out before they end.
//!
//! The decisions are in `headgate-core`. This crate connects them to the world:
//!
//! ```text
//!  kube::watch ─► app::owner ─► aws::TargetGroups      one task owns the engine; the watches feed it,
//!      pods        (Engine)          RegisterTargets   its calls run beside it, and their answers
//!      Services       │              DeregisterTargets come back to it
//!                     ├─► kube::events                 Warning Events on Services and pods
//!                     ├─► runtime::views ─► admin      /metrics, /readyz; on loopback /debug/bindings
//!                     ├─► journal                      what became of targets, pods and nodes
//!                     ├── explain, diff                why a pod is a target, or why not; what AWS has otherwise
//!                     └── webhook                      what a new pod is given
//!  daemonsets                                         IngressDaemonSets: a program of its own
//! ```

pub mod admin;
pub mod api;
pub mod app;
pub mod aws;
pub mod daemonsets;
pub mod diff;
pub mod explain;
pub mod flags;
pub mod journal;
pub mod kube;
pub mod metrics;
#[cfg(test)]
mod properties;
pub mod redact;
pub mod runtime;
pub mod serving;
pub mod status;
pub mod webhook;
