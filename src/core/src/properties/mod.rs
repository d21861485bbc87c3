//! Property tests of all parsers of external data. For any input, a parser does not panic, values and reports remain
//! within their limits, and printed values can be parsed again. An invalid part does not affect other parts.
//!
//! The cases come from a fixed seed, so a failing run is reproducible.

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

/// The number of cases of each property.
const CASES: u32 = 400;
/// The maximum length of a message about one object, in bytes.
const LONGEST_MESSAGE: usize = 2048;

/// Checks the property against [`CASES`] values, or the number in `PROPTEST_CASES`.
fn holds<S: Strategy>(values: S, property: impl Fn(S::Value) -> Result<(), TestCaseError>) {
    let asked = std::env::var("PROPTEST_CASES").ok().map(|cases| cases.parse().unwrap());
    let config = Config { cases: asked.unwrap_or(CASES), failure_persistence: None, ..Config::default() };
    let seeded = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    if let Err(broken) = TestRunner::new_with_rng(config, seeded).run(&values, property) {
        panic!("{broken}");
    }
}

/// Texts that match a regular expression.
fn text(pattern: &str) -> impl Strategy<Value = String> + use<> {
    string_regex(pattern).unwrap()
}

/// Any text: a short text of any characters, an almost valid text, or a very long text.
fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => text(r"\PC{0,40}"),
        4 => text("[-a-z0-9=:,/. ]{0,60}"),
        2 => any::<Vec<char>>().prop_map(String::from_iter),
        1 => (text(r"\PC{1,3}"), 0..60_000_usize).prop_map(|(part, times)| part.repeat(times)),
    ]
}

/// The name of a Service port, or of another DNS label.
fn label() -> impl Strategy<Value = String> {
    text("[a-z]([-a-z0-9]{0,13}[a-z0-9])?")
}

/// Checks that a message has a limited length and ends with the remedy.
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
