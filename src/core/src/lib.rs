//! The decisions of Headgate: pure and synchronous, no I/O, no clock, no async.
