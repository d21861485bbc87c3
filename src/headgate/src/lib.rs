//! The servers of Headgate. `headgate run` registers pods in AWS target groups as soon as they have an IP, and
//! deregisters the pods before they terminate. `headgate daemonsets` rolls out the pods of IngressDaemonSets. `headgate
//! certificates` manages the webhook's certificate.
//!
//! `headgate-core` and `headgate-daemonset` make the decisions. This crate connects the decisions to Kubernetes and
//! AWS. `headgate-cli` contains the program and the client commands, which query these servers and use the same
//! adapters:
//!
//! ```text
//!  kube::watch ─► app::owner ─► aws::TargetGroups      one task owns the engine, passes events
//!      pods        (Engine)          RegisterTargets   of the watches to the engine,
//!      Services       │              DeregisterTargets sends calls, and receives the answers
//!                     ├─► kube::events                 Events on Services and pods
//!                     ├─► runtime::views ─► admin      /metrics, /readyz; on loopback /debug/*
//!                     │                      ├── status, explain, diff    for the client commands
//!                     ├─► journal ───────────┘         the history of targets, pods and nodes
//!                     └── webhook                      changes of new pods, answers to evictions
//!  daemonsets ─► headgate_daemonset::Daemonsets        IngressDaemonSets: a separate server
//!  certificates                                        the webhook's certificate and path: a separate server
//!  flags                                               the flags of these servers
//! ```

pub mod admin;
pub mod api;
pub mod app;
pub mod aws;
pub mod certificates;
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
