// The core, with all planted bugs in it. What is linted is the core itself.
#![cfg(not(test))]
#![allow(warnings, clippy::all, clippy::pedantic, missing_docs)]

include!(concat!(env!("OUT_DIR"), "/core/lib.rs"));
