// The decisions about IngressDaemonSets, with all planted bugs in them. What is linted is the crate itself.
#![cfg(not(test))]
#![allow(warnings, clippy::all, clippy::pedantic, missing_docs)]

include!(concat!(env!("OUT_DIR"), "/daemonset/lib.rs"));
