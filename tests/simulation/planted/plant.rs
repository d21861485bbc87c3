//! Planted bugs: named mistakes, each a rewrite of some places of a crate. All of them go into one copy of it, each
//! behind a switch, so that a test can show that it notices them.
//!
//! A place is found by its text, without white space. If the text is not there exactly once, the build fails: the
//! bug then needs a new place.

use std::{collections::BTreeMap, fmt::Write, fs, path::Path};

use anyhow::{Context, anyhow, bail, ensure};

/// In the text that a place becomes: whether the bug is switched on.
const SWITCH: &str = "PLANTED";
/// The crate of the decisions about IngressDaemonSets, and the folder of its files in the places of bugs.
const DAEMONSET: &str = "daemonset";

/// A mistake that somebody could make.
#[derive(Clone, Copy, Debug)]
pub struct Bug {
    /// Its name.
    pub name: &'static str,
    /// What goes wrong with it.
    pub says: &'static str,
    /// Where it stands: a file, the text that is there, and what it becomes.
    pub places: &'static [(&'static str, &'static str, &'static str)],
}

/// Copies the sources in the folder `from` to the folder `to`, with the bugs of this crate in them: `core` or
/// [`DAEMONSET`].
///
/// # Errors
/// A place that is not there exactly once; or a file cannot be read or written.
pub fn plant(bugs: &[Bug], of: &str, from: &Path, to: &Path) -> anyhow::Result<()> {
    let mut files = BTreeMap::new();
    read_all(from, "", &mut files)?;
    let mut wrong = Vec::new();
    for (number, bug) in bugs.iter().enumerate() {
        for (file, before, after) in bug.places {
            let (crate_of, file) = match file.split_once('/') {
                Some((DAEMONSET, file)) => (DAEMONSET, file),
                _ => ("core", *file),
            };
            if crate_of != of {
                continue;
            }
            let planted = match files.get_mut(file) {
                Some(text) => replace(text, before, after, number),
                None => Err(anyhow!("there is no such file")),
            };
            wrong.extend(planted.err().map(|wrong| format!("{} in {file}: {wrong}", bug.name)));
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("; "));
    let root = files.get_mut("lib.rs").context("the sources have no lib.rs")?;
    // It is included into another file, where nothing may be said about the whole crate.
    *root = root.lines().filter(|line| !line.starts_with("//!")).collect::<Vec<_>>().join("\n");
    // One switch is enough: that of the core.
    root.push_str(&if of == DAEMONSET { "\nuse headgate_core::planted;\n".into() } else { switch(bugs)? });
    for (name, text) in &files {
        let path = to.join(name);
        fs::create_dir_all(path.parent().context("a file is in a folder")?)?;
        fs::write(&path, text).with_context(|| format!("{} could not be written", path.display()))?;
    }
    Ok(())
}

/// The module that knows which bug is on, in each thread.
fn switch(bugs: &[Bug]) -> Result<String, std::fmt::Error> {
    let mut all = String::new();
    for bug in bugs {
        writeln!(all, "({:?}, {:?}),", bug.name, bug.says)?;
    }
    Ok(format!(
        "
pub mod planted {{
    use std::cell::Cell;
    thread_local! {{
        static ON: Cell<usize> = const {{ Cell::new(usize::MAX) }};
    }}
    /// The bugs: their names, and what goes wrong with each.
    pub const ALL: &[(&str, &str)] = &[{all}];
    #[inline]
    pub fn is(bug: usize) -> bool {{
        ON.get() == bug
    }}
    /// Switches a bug on in this thread; `None`: all are off.
    pub fn switch(bug: Option<usize>) {{
        ON.set(bug.unwrap_or(usize::MAX));
    }}
}}
"
    ))
}

fn replace(text: &mut String, before: &str, after: &str, number: usize) -> anyhow::Result<()> {
    ensure!(after.contains(SWITCH), "write {SWITCH} into what the place becomes: {after}");
    let (start, end) = only(text, before)?;
    text.replace_range(start..end, &after.replace(SWITCH, &format!("crate::planted::is({number})")));
    Ok(())
}

/// Where `part` stands in `text`, if that is exactly one place; white space does not count.
fn only(text: &str, part: &str) -> anyhow::Result<(usize, usize)> {
    let dense: Vec<(usize, char)> = text.char_indices().filter(|(_, char)| !char.is_whitespace()).collect();
    let part_dense: Vec<char> = part.chars().filter(|char| !char.is_whitespace()).collect();
    let same = |window: &&[(usize, char)]| window.iter().map(|(_, char)| char).eq(&part_dense);
    let found: Vec<&[(usize, char)]> = dense.windows(part_dense.len().max(1)).filter(same).collect();
    match found[..] {
        [[(start, _), .., (end, last)]] => Ok((*start, end + last.len_utf8())),
        _ => bail!("this text is there {} times, and must be there once: {part}", found.len()),
    }
}

fn read_all(folder: &Path, prefix: &str, files: &mut BTreeMap<String, String>) -> anyhow::Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("{} could not be read", folder.display()))? {
        let entry = entry?;
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if entry.file_type()?.is_dir() {
            read_all(&entry.path(), &format!("{name}/"), files)?;
        } else if entry.path().extension().is_some_and(|extension| extension == "rs") {
            files.insert(name, fs::read_to_string(entry.path())?);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_found_however_it_is_broken_into_lines_and_only_if_it_is_one() {
        let text = "fn f() {\n    if a\n        && b\n    {}\n    if c {}\n    if c {}\n}";
        let (start, end) = only(text, "if a && b {").unwrap();
        assert_eq!(&text[start..end], "if a\n        && b\n    {");
        for (part, count) in [("if c {", "2 times"), ("if d {", "0 times")] {
            assert!(only(text, part).unwrap_err().to_string().contains(count), "{part}");
        }
    }

    #[test]
    fn bugs_are_switched_one_by_one_and_may_stand_in_one_line() {
        let folder = std::env::temp_dir().join(format!("headgate-planted-{}", std::process::id()));
        let (from, to) = (folder.join("from"), folder.join("to"));
        fs::create_dir_all(from.join("a")).unwrap();
        fs::write(from.join("lib.rs"), "//! About it.\npub mod a;\n").unwrap();
        fs::write(from.join("a/mod.rs"), "fn f() -> bool { b() && c() }\n").unwrap();
        let bug = |name, places| Bug { name, says: "It is wrong.", places };
        let bugs = [
            bug("First", &[("a/mod.rs", "b() && ", "(PLANTED || b()) && ")]),
            bug("Second", &[("a/mod.rs", "&& c()", "&& (c() || PLANTED)")]),
        ];
        plant(&bugs, "core", &from, &to).unwrap();
        let planted = fs::read_to_string(to.join("a/mod.rs")).unwrap();
        let lib = fs::read_to_string(to.join("lib.rs")).unwrap();
        let wrong = plant(&[bug("Third", &[("a/mod.rs", "b()", "c()")])], "core", &from, &to).unwrap_err();
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(
            planted,
            "fn f() -> bool { (crate::planted::is(0) || b()) && (c() || crate::planted::is(1)) }\n"
        );
        assert!(!lib.contains("About") && lib.contains(r#"("Second", "It is wrong.")"#), "{lib}");
        assert!(wrong.to_string().contains("write PLANTED"), "{wrong}");
    }
}
