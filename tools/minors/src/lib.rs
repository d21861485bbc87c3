//! The end-to-end tests on each minor of Kubernetes, and the table of what was seen.
//!
//! `make e2e KUBERNETES=1.34` runs them ([`run`]) and writes what it saw into a file of its own for each minor
//! ([`results`]); `make docs` makes the table of docs/kubernetes-versions.md from these files ([`table`]).

pub mod choice;
pub mod results;
pub mod run;
pub mod table;
