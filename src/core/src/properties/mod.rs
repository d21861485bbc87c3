//! Properties of everything that reads data of others. For all input, nothing panics, values and reports have a
//! limit, and printed values are read back. An invalid part changes nothing else.
//!
//! The cases come from a fixed seed, so a failing run fails again.

mod annotation;
mod binding;
mod brake;
mod durations;
mod eviction;
mod gates;
mod inject;
mod ledger;
mod policy;
mod target_group;

use proptest::{
    prelude::*,
    string::string_regex,
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};

/// Cases of each property.
const CASES: u32 = 400;
/// No message about one thing is longer, in bytes.
const LONGEST_MESSAGE: usize = 2048;

/// Holds the property against [`CASES`] values, or as many as `PROPTEST_CASES` asks for.
fn holds<S: Strategy>(values: S, property: impl Fn(S::Value) -> Result<(), TestCaseError>) {
    let asked = std::env::var("PROPTEST_CASES").ok().map(|cases| cases.parse().unwrap());
    let config = Config { cases: asked.unwrap_or(CASES), failure_persistence: None, ..Config::default() };
    let seeded = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    if let Err(broken) = TestRunner::new_with_rng(config, seeded).run(&values, property) {
        panic!("{broken}");
    }
}

/// What matches, in the words of regular expressions.
fn text(pattern: &str) -> impl Strategy<Value = String> + use<> {
    string_regex(pattern).unwrap()
}

/// Any text: a short one of any characters, one that is nearly right, or a very long one.
fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => text(r"\PC{0,40}"),
        4 => text("[-a-z0-9=:,/. ]{0,60}"),
        2 => any::<Vec<char>>().prop_map(String::from_iter),
        1 => (text(r"\PC{1,3}"), 0..60_000_usize).prop_map(|(part, times)| part.repeat(times)),
    ]
}

/// The name of a port of a Service, or of anything else that Kubernetes calls by a DNS label.
fn label() -> impl Strategy<Value = String> {
    text("[a-z]([-a-z0-9]{0,13}[a-z0-9])?")
}

/// A message that is safe to write anywhere, and contains the right value.
fn is_a_good_message(said: &str) -> Result<(), TestCaseError> {
    prop_assert!(
        said.len() <= LONGEST_MESSAGE,
        "{} bytes: {}…",
        said.len(),
        said.chars().take(200).collect::<String>()
    );
    prop_assert!(said.ends_with('.') && said.contains(". "), "it does not end with what to do: {said}");
    Ok(())
}
