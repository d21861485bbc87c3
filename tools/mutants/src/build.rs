//! Makes the programs that hold all mutants: a copy of the core, without those that do not compile, with its own tests
//! and with the simulation.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fs,
    hash::{DefaultHasher, Hash, Hasher},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, bail, ensure};
use serde_json::Value;

use crate::{
    list::{CORE, Mutant, SOURCES},
    rewrite,
};

/// The simulation, which the copy is tested with, too.
const SIMULATION: &str = "tests/simulation/";
/// Errors of one round are of types only, or of borrows only: a handful is enough.
const ROUNDS: u32 = 20;

/// A copy of the core.
pub struct Copy {
    root: PathBuf,
    /// All files of its sources, by their names relative to [`SOURCES`].
    files: BTreeMap<String, String>,
}

impl Copy {
    /// Copies what belongs to the core out of the workspace at `root`.
    pub fn make(root: &Path, to: &Path) -> anyhow::Result<Self> {
        let mut files = BTreeMap::new();
        read_all(&root.join(SOURCES), "", &mut files)?;
        let workspace = fs::read_to_string(root.join("Cargo.toml"))?;
        let (before, members) = workspace.split_once("members = [").context("Cargo.toml has no members")?;
        let (_, after) = members.split_once(']').context("the members in Cargo.toml have no end")?;
        fs::create_dir_all(to.join(SOURCES))?;
        let members = format!("[\"{CORE}\", \"{SIMULATION}\"]");
        put(&to.join("Cargo.toml"), &format!("{before}members = {members}{after}"))?;
        let lock = fs::read_to_string(root.join("Cargo.lock"))?;
        put(&to.join("Cargo.lock"), &lock)?;
        let manifest = fs::read_to_string(root.join(CORE).join("Cargo.toml"))?;
        let (manifest, _benches) = manifest.split_once("[[bench]]").unwrap_or((&manifest, ""));
        put(&to.join(CORE).join("Cargo.toml"), manifest)?;
        let mut simulation = BTreeMap::new();
        read_all(&root.join(SIMULATION), "", &mut simulation)?;
        simulation.retain(|name, _| !name.starts_with("planted/"));
        let copy = Self { root: to.to_owned(), files };
        copy.write(SOURCES, &copy.files)?;
        copy.write(SIMULATION, &simulation)?;
        Ok(copy)
    }

    /// Differs when any file of the core does.
    pub fn fingerprint(&self) -> String {
        let mut hasher = DefaultHasher::new();
        self.files.hash(&mut hasher);
        format!("{:016x}", hasher.finish())
    }

    fn write(&self, folder: &str, files: &BTreeMap<String, String>) -> anyhow::Result<()> {
        for (name, text) in files {
            let path = self.root.join(folder).join(name);
            fs::create_dir_all(path.parent().context("a file is in a folder")?)?;
            put(&path, text)?;
        }
        Ok(())
    }

    /// Puts all mutants but those in `without` in, and adds to that what has no place or does not compile.
    pub fn mutate(&self, mutants: &[Mutant], without: &mut BTreeSet<usize>) -> anyhow::Result<()> {
        let mut stays_constant = BTreeSet::new();
        for round in 1..=ROUNDS {
            let mut files = self.files.clone();
            let mut of_file: HashMap<&str, Vec<(usize, &Mutant)>> = HashMap::new();
            for (id, mutant) in (1..).zip(mutants).filter(|(id, _)| !without.contains(id)) {
                of_file.entry(&mutant.file).or_default().push((id, mutant));
            }
            for (name, text) in &mut files {
                let mutants = of_file.remove(&**name).unwrap_or_default();
                let (rewritten, placeless) = rewrite::rewrite(text, &mutants, &stays_constant)
                    .with_context(|| format!("{name} could not be parsed"))?;
                *text = rewritten;
                without.extend(placeless);
            }
            ensure!(of_file.is_empty(), "of these files there is no copy: {:?}", of_file.keys());
            files.entry("lib.rs".to_owned()).or_default().push_str(rewrite::SWITCH);
            self.write(SOURCES, &files)?;
            let errors = self.check()?;
            if errors.is_empty() {
                return Ok(());
            }
            let (before, constants) = (without.len(), stays_constant.len());
            let mut unknown: Vec<&Value> = Vec::new();
            for error in &errors {
                let ids = places(error, &files, true);
                if !ids.is_empty() {
                    without.extend(ids);
                } else if let Some(function) = not_const(error) {
                    stays_constant.insert(function);
                } else {
                    unknown.push(error);
                }
            }
            // Only what nothing else explains: the places that an error also mentions may well be right.
            if (without.len(), stays_constant.len()) == (before, constants) {
                without.extend(unknown.iter().flat_map(|error| places(error, &files, false)));
            }
            println!("round {round}: {} errors, {} mutants do not compile", errors.len(), without.len());
            if (without.len(), stays_constant.len()) == (before, constants) {
                let text = unknown.first().and_then(|error| error["rendered"].as_str()).unwrap_or_default();
                bail!("this error is of no mutant:\n{text}");
            }
        }
        bail!("after {ROUNDS} rounds it still does not compile");
    }

    fn cargo(&self, arguments: &[&str]) -> anyhow::Result<Vec<Value>> {
        let mut command = Command::new("cargo");
        command.current_dir(&self.root).args(arguments);
        command.arg("--message-format=json").stderr(Stdio::null());
        // What a mutant leaves unused or makes impossible is no error.
        command.env("RUSTFLAGS", "--cap-lints allow").env("CARGO_TARGET_DIR", self.root.join("target"));
        let answer = command.output().context("cargo could not be started")?;
        let lines = std::str::from_utf8(&answer.stdout)?.lines();
        Ok(lines.filter_map(|line| serde_json::from_str(line).ok()).collect())
    }

    fn check(&self) -> anyhow::Result<Vec<Value>> {
        let messages = self.cargo(&["check", "--profile", "test", "-p", "headgate-core", "--lib"])?;
        ensure!(
            messages.iter().any(|message| message["reason"] == "build-finished"),
            "cargo check said nothing"
        );
        let errors = messages.into_iter().map(|mut message| message["message"].take());
        Ok(errors
            .filter(|error| error["level"] == "error" && error["spans"] != Value::Array(vec![]))
            .collect())
    }

    /// Builds these tests; gives the program.
    pub fn build(&self, tests: &[&str]) -> anyhow::Result<PathBuf> {
        let messages = self.cargo(&[&["test", "--no-run"], tests].concat())?;
        let program = messages.iter().find_map(|message| message["executable"].as_str());
        program
            .map(PathBuf::from)
            .context("what passes cargo check cannot be built; see cargo test --no-run there")
    }
}

/// Which mutants the error is of, by what it points to or, if not `primary`, by all that it mentions.
fn places(error: &Value, files: &BTreeMap<String, String>, primary: bool) -> Vec<usize> {
    let own = error["spans"].as_array().into_iter().flatten();
    let notes = error["children"].as_array().into_iter().flatten();
    let mentioned = notes.flat_map(|note| note["spans"].as_array().into_iter().flatten());
    let spans =
        own.filter(|span| !primary || span["is_primary"] == true).chain(mentioned.filter(|_| !primary));
    let at = |span: &Value| {
        let file = span["file_name"].as_str()?.strip_prefix(SOURCES)?;
        let byte = usize::try_from(span["byte_start"].as_u64()?).ok()?;
        Some(rewrite::at(files.get(file)?, byte))
    };
    spans.filter_map(at).flatten().collect()
}

/// The name of a function that must be `const` after all.
fn not_const(error: &Value) -> Option<String> {
    let text = error["message"].as_str().filter(|_| error["code"]["code"] == "E0015")?;
    let path = text.split('`').nth(1)?;
    path.rsplit("::").next().map(str::to_owned)
}

/// What is as it was is not written, so that it is not built anew.
fn put(path: &Path, text: &str) -> anyhow::Result<()> {
    if fs::read_to_string(path).is_ok_and(|before| before == text) {
        return Ok(());
    }
    fs::write(path, text).with_context(|| format!("{} could not be written", path.display()))
}

fn read_all(folder: &Path, prefix: &str, files: &mut BTreeMap<String, String>) -> anyhow::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if entry.file_type()?.is_dir() {
            read_all(&entry.path(), &format!("{name}/"), files)?;
        } else {
            files.insert(name, fs::read_to_string(entry.path())?);
        }
    }
    Ok(())
}
