//! Property tests of the command line.

use std::{ffi::OsString, os::unix::ffi::OsStringExt, time::Duration};

use clap::{CommandFactory, Parser};
use headgate::flags::{duration, lease_name, namespace};
use proptest::{
    prelude::*,
    string::string_regex,
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};

use crate::{Cli, arguments::explain::object, explain::command::Object};

/// The number of values that each property is checked with.
const CASES: u32 = 400;

/// Checks the property with [`CASES`] values.
fn holds<S: Strategy>(values: S, property: impl Fn(S::Value) -> Result<(), TestCaseError>) {
    let config = Config { cases: CASES, failure_persistence: None, ..Config::default() };
    let seeded = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    if let Err(broken) = TestRunner::new_with_rng(config, seeded).run(&values, property) {
        panic!("{broken}");
    }
}

/// Generates texts that match a regular expression.
fn text(pattern: &str) -> impl Strategy<Value = String> + use<> {
    string_regex(pattern).unwrap()
}

/// Generates any text: short, almost valid, or very long.
fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => text(r"\PC{0,40}"),
        4 => text("[-a-zA-Z0-9=:,/. ]{0,60}"),
        2 => any::<Vec<char>>().prop_map(String::from_iter),
        1 => (text(r"\PC{1,3}"), 0..60_000_usize).prop_map(|(part, times)| part.repeat(times)),
    ]
}

/// Returns all flags of all commands.
fn flags() -> Vec<String> {
    let mut flags = Vec::new();
    for command in Cli::command().get_subcommands() {
        flags.extend(command.get_arguments().filter_map(|flag| Some(format!("--{}", flag.get_long()?))));
    }
    flags
}

#[test]
fn any_command_line_is_taken_or_refused() {
    let value = || prop_oneof![text("[0-9]{1,20}(ms|s|m|h)?"), text("[-a-z0-9./,=:]{0,30}"), any_text()];
    let argument = prop_oneof![
        4 => (prop::sample::select(flags()), value()).prop_map(|(flag, value)| format!("{flag}={value}").into()),
        1 => prop::sample::select(flags()).prop_map(OsString::from),
        1 => value().prop_map(OsString::from),
        1 => any::<Vec<u8>>().prop_map(OsString::from_vec),
    ];
    let command = prop_oneof![9 => text("run|drain|crd|explain|doctor|uninstall"), 1 => any_text()];
    holds((command, prop::collection::vec(argument, 0..6)), |(command, arguments)| {
        let all = ["headgate".into(), command.into()].into_iter().chain(arguments);
        if let Err(error) = Cli::try_parse_from(all) {
            prop_assert!([0, 2].contains(&error.exit_code()) && !error.to_string().is_empty());
        }
        Ok(())
    });
}

#[test]
fn a_duration_is_read_as_it_is_written_and_any_other_text_refused_with_what_to_set() {
    holds((0..10_000_000_u64, any_text()), |(millis, noise)| {
        prop_assert_eq!(duration(&format!("{millis}ms")), Ok(Duration::from_millis(millis)));
        if let Err(said) = duration(&noise) {
            prop_assert!(said.starts_with("set a duration") && said.len() < 200);
        }
        Ok(())
    });
}

#[test]
fn a_name_is_taken_as_it_is_and_never_one_that_kubernetes_would_refuse() {
    holds(prop_oneof![any_text(), text("(pods?/)?[-a-z0-9.]{0,70}")], |name| {
        if let Ok(taken) = namespace(&name) {
            prop_assert!(taken == name && (1..=63).contains(&name.len()));
        }
        if let Ok(taken) = lease_name(&name) {
            prop_assert!(taken == name && name.len() <= 190);
        }
        if let Ok(taken) = object(&name) {
            let (Object::Pod(taken)
            | Object::Service(taken)
            | Object::TargetBinding(taken)
            | Object::Node(taken)
            | Object::IngressDaemonSet(taken)) = taken;
            prop_assert!(name.ends_with(&taken) && taken.len() <= 253 && !taken.contains('/'));
        }
        Ok(())
    });
}
