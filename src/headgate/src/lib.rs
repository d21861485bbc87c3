//! The servers of Headgate. `headgate run` registers pods in AWS target groups as soon as they have an IP, and
//! deregisters them before they terminate. `headgate daemonsets` rolls out the pods of IngressDaemonSets. `headgate
//! certificates` keeps the webhook's certificate.
//!
//! The decisions are in `headgate-core` and `headgate-daemonset`. This crate connects them to Kubernetes and AWS. The
//! program itself, with the commands for people, is in `headgate-cli`, which asks these servers and uses the same
//! adapters:
//!
//! ```text
//!  kube::watch ─► app::owner ─► aws::TargetGroups      one task owns the engine; the watches feed it,
//!      pods        (Engine)          RegisterTargets   its calls run next to it, and it
//!      Services       │              DeregisterTargets gets their answers
//!                     ├─► kube::events                 Warning Events on Services and pods
//!                     ├─► runtime::views ─► admin      /metrics, /readyz; on loopback /debug/*
//!                     │                      ├── status, explain, diff    for the commands of people
//!                     ├─► journal ───────────┘         the past of targets, pods and nodes
//!                     └── webhook                      what a new pod gets
//!  daemonsets ─► headgate_daemonset::Daemonsets        IngressDaemonSets: a server of its own
//!  certificates                                        the webhook's certificate and path: another one
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
