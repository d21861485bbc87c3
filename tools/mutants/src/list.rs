//! What could be wrong: the list of cargo-mutants, with names that outlive a change of line numbers.

use std::{collections::HashMap, path::Path, process::Command};

use anyhow::{Context, bail};
use serde::Deserialize;

/// What is not mutated: code of tests.
const EXCLUDED: [&str; 3] = ["testing.rs", "**/tests/**", "**/tests.rs"];
/// Where the core is.
pub const CORE: &str = "src/core/";
/// Where its files are; names are relative to it.
pub const SOURCES: &str = "src/core/src/";

/// What kind of place is mutated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
pub enum Genre {
    /// The body of a function becomes a value.
    FnValue,
    /// `==` becomes `!=`, and so on.
    BinaryOperator,
    /// `!` and `-` are left out.
    UnaryOperator,
    /// An arm of a match with a catch-all is left out.
    MatchArm,
    /// The guard of an arm becomes `true` or `false`.
    MatchArmGuard,
    /// A field of a struct literal with a base is left out.
    StructField,
}

/// One mistake: in that file, these bytes are replaced.
#[derive(Clone, Debug)]
pub struct Mutant {
    /// `gate/judge.rs: replace < with <= in judge`, with ` #2` and so on for the later ones of a file that read the same.
    pub name: String,
    /// Relative to [`SOURCES`].
    pub file: String,
    /// The line, counted from 1.
    pub line: usize,
    pub(crate) genre: Genre,
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) replacement: String,
}

#[derive(Deserialize)]
struct Listed {
    name: String,
    file: String,
    genre: Genre,
    span: Span,
    replacement: String,
}

#[derive(Deserialize)]
struct Span {
    start: Place,
    end: Place,
}

/// As compilers count: from 1, columns in characters.
#[derive(Deserialize)]
struct Place {
    line: usize,
    column: usize,
}

impl Place {
    fn offset(&self, text: &str) -> Option<usize> {
        let line: usize = text.split_inclusive('\n').take(self.line - 1).map(str::len).sum();
        let (byte, _) = text.get(line..)?.char_indices().nth(self.column - 1)?;
        Some(line + byte)
    }
}

/// Asks cargo-mutants for all mutants of the core in the workspace at `root`.
pub fn list(root: &Path) -> anyhow::Result<Vec<Mutant>> {
    let mut asked = Command::new("cargo");
    asked.current_dir(root).args(["mutants", "-p", "headgate-core", "--list", "--json"]);
    for excluded in EXCLUDED {
        asked.args(["--exclude", excluded]);
    }
    let answer = asked.output().context("cargo could not be started")?;
    if !answer.status.success() {
        let error = String::from_utf8_lossy(&answer.stderr);
        if error.contains("no such command") {
            bail!("cargo-mutants is missing; cargo install --locked cargo-mutants");
        }
        bail!("cargo mutants --list failed: {error}");
    }
    read(&answer.stdout, |file| {
        std::fs::read_to_string(root.join(file)).with_context(|| format!("{file} could not be read"))
    })
}

fn read(json: &[u8], text: impl Fn(&str) -> anyhow::Result<String>) -> anyhow::Result<Vec<Mutant>> {
    let mut listed: Vec<Listed> =
        serde_json::from_slice(json).context("cargo mutants --list --json changed")?;
    listed.sort_by(|a, b| (&a.file, a.span.start.line).cmp(&(&b.file, b.span.start.line)));
    let mut texts: HashMap<String, String> = HashMap::new();
    let mut seen: HashMap<String, u32> = HashMap::new();
    let mut mutants = Vec::new();
    for Listed { name, file, genre, span, replacement } in listed {
        if !texts.contains_key(&file) {
            texts.insert(file.clone(), text(&file)?);
        }
        let (start, end) = (span.start.offset(&texts[&file]), span.end.offset(&texts[&file]));
        let (Some(start), Some(end)) = (start, end) else { bail!("{name} is not in its file") };
        // «FILE:LINE:COLUMN: what».
        let what = name.splitn(4, ':').nth(3).unwrap_or(&name).trim();
        let file = file.strip_prefix(SOURCES).unwrap_or(&file).to_owned();
        let mut name = format!("{file}: {what}");
        let count = seen.entry(name.clone()).or_default();
        *count += 1;
        if *count > 1 {
            name = format!("{name} #{count}");
        }
        mutants.push(Mutant { name, file, line: span.start.line, genre, start, end, replacement });
    }
    Ok(mutants)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mutant_is_named_without_its_line_and_its_bytes_are_found_behind_wide_characters() {
        let json = r#"[
            {"name": "src/core/src/a.rs:2:8: replace < with > in f", "file": "src/core/src/a.rs", "genre": "BinaryOperator",
             "span": {"start": {"line": 2, "column": 8}, "end": {"line": 2, "column": 9}}, "replacement": ">"},
            {"name": "src/core/src/a.rs:1:1: replace < with > in f", "file": "src/core/src/a.rs", "genre": "BinaryOperator",
             "span": {"start": {"line": 1, "column": 1}, "end": {"line": 1, "column": 2}}, "replacement": ">"}
        ]"#;
        let mutants = read(json.as_bytes(), |_| Ok("< 2\n«a» 1 < 2\n".to_owned())).unwrap();
        let names: Vec<&str> = mutants.iter().map(|mutant| &*mutant.name).collect();
        assert_eq!(names, ["a.rs: replace < with > in f", "a.rs: replace < with > in f #2"]);
        assert_eq!((mutants[0].start, mutants[0].end), (0, 1));
        assert_eq!((mutants[1].start, mutants[1].end), (13, 14));
    }
}
