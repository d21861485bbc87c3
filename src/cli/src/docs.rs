//! Compares the list of all commands and flags in `docs/reference/cli.md` with clap's definitions. `make docs` updates
//! the list.

use std::{fmt::Write, fs, path::Path};

use clap::{Arg, Command, CommandFactory};

use super::Cli;

const PAGE: &str = "docs/reference/cli.md";
const BEGIN: &str = "<!-- generated from the code: make docs -->\n";
const END: &str = "<!-- end -->\n";

/// Escapes a text for a table cell.
fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|").replace('<', "&lt;")
}

/// Returns an argument in the notation of the page: its flags and the names of its values.
fn written(arg: &Arg) -> String {
    let names = arg.get_value_names().filter(|_| arg.is_positional() || arg.get_action().takes_values());
    let values = names.into_iter().flatten().fold(String::new(), |all, name| all + " " + name);
    let names: Vec<String> =
        [arg.get_short().map(|short| format!("-{short}")), arg.get_long().map(|long| format!("--{long}"))]
            .into_iter()
            .flatten()
            .collect();
    format!("`{}`", format!("{}{values}", names.join(", ")).trim())
}

/// Returns the default of an argument.
fn default(arg: &Arg) -> String {
    if arg.is_hide_default_value_set() || !arg.get_action().takes_values() {
        return String::new();
    }
    let values: Vec<String> =
        arg.get_default_values().iter().map(|value| format!("`{}`", value.to_string_lossy())).collect();
    values.join(", ")
}

/// Returns the help text of an argument and its possible values.
fn description(arg: &Arg) -> String {
    let help = arg.get_long_help().or_else(|| arg.get_help()).map(ToString::to_string).unwrap_or_default();
    let values: Vec<String> = arg
        .get_possible_values()
        .iter()
        .filter(|_| arg.get_action().takes_values())
        .map(|value| format!("`{}`", value.get_name()))
        .collect();
    let help = cell(&help);
    let help = if help.is_empty() || help.ends_with(['.', ')']) { help } else { format!("{help}.") };
    if values.is_empty() { help } else { format!("{help} Values: {}.", values.join(", ")) }
}

/// Returns the description of a command and its example. Each paragraph ends with a full stop.
fn about(command: &Command) -> String {
    let text = command.get_long_about().or_else(|| command.get_about()).map(ToString::to_string);
    let text = text.unwrap_or_default();
    let paragraphs = text.split("\n\n").map(cell).map(|text| text.trim_end_matches('.').to_owned() + ".");
    let example = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let example = example.strip_prefix("Example:\n").map(|typed| format!("```sh\n{}\n```", typed.trim()));
    paragraphs.chain(example).collect::<Vec<_>>().join("\n\n")
}

/// Appends the section of a command and the sections of its subcommands.
fn section(command: &Command, name: &str, text: &mut String) {
    let arguments: Vec<&Arg> =
        command.get_arguments().filter(|arg| !["help", "version"].contains(&arg.get_id().as_str())).collect();
    if !command.has_subcommands() {
        writeln!(text, "\n## `{name}`\n\n{}", about(command)).unwrap();
        assert!(command.get_after_help().is_some(), "{name} has no example");
    } else if let Some(help) = command.get_after_help() {
        writeln!(text, "\n{help}").unwrap();
    }
    if !arguments.is_empty() {
        text.push_str("\n| argument | environment | default | description |\n|---|---|---|---|\n");
    }
    for arg in arguments {
        let environment =
            arg.get_env().map(|name| format!("`{}`", name.to_string_lossy())).unwrap_or_default();
        writeln!(text, "| {} | {environment} | {} | {} |", written(arg), default(arg), description(arg))
            .unwrap();
    }
    for inner in command.get_subcommands().filter(|inner| inner.get_name() != "help") {
        section(inner, &format!("{name} {}", inner.get_name()), text);
    }
}

#[test]
fn the_docs_list_every_command_and_flag_as_the_program_knows_them() {
    let mut command = Cli::command();
    command.build();
    let mut wanted = String::new();
    section(&command, "headgate", &mut wanted);
    wanted.push('\n');
    assert!(wanted.contains("\n## `headgate migrate lbc`\n"), "{wanted}");
    assert!(
        wanted.contains("| `--read-interval DURATION` | `HEADGATE_READ_INTERVAL` | `60s` | "),
        "{wanted}"
    );
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(PAGE);
    let page = fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).expect("the page has the line where the list begins");
    let (there, after) = rest.split_once(END).expect("the page has the line where the list ends");
    if std::env::var_os("HEADGATE_WRITE_DOCS").is_some() {
        fs::write(&path, [before, BEGIN, &wanted, END, after].concat()).unwrap();
        return;
    }
    assert!(
        there == wanted,
        "{PAGE} does not list the flags as the program has them: run `make docs` and commit what it writes. \
         Expected:\n{wanted}"
    );
}
