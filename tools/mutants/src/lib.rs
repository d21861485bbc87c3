//! What plants named bugs into a copy of the core. The program beside it tests the tests with all mutants that
//! cargo-mutants knows.

pub mod plant;
