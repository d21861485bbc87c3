//! What is linked into the programs, as cargo resolves it for them and a processor: no crate of the tests, no crate that only
//! builds. (`cargo metadata` alone joins the features of the whole workspace, so `cargo tree` says which crates there are.)

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, bail, ensure};
use serde::Deserialize;

/// The packages of the programs.
pub const PROGRAMS: [&str; 2] = ["headgate-cli", "headgate-hold"];

/// A processor that there is a release for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Target {
    /// As Go, and so Kubernetes, calls x86_64.
    Amd64,
    /// As Go, and so Kubernetes, calls aarch64.
    Arm64,
}

impl Target {
    /// As Kubernetes calls it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }

    /// As Rust calls it.
    pub const fn triple(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64-unknown-linux-gnu",
            Self::Arm64 => "aarch64-unknown-linux-gnu",
        }
    }
}

/// Name and version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Id {
    /// The name of the crate.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// A crate that is linked into the programs.
#[derive(Clone, Debug)]
pub struct Crate {
    /// Name and version.
    pub id: Id,
    /// Its licence, as an SPDX expression.
    pub licence: String,
    /// Where its sources are kept, if it says so.
    pub repository: Option<String>,
    /// The SHA-256 of its package; a crate of this repository has none.
    pub checksum: Option<String>,
    /// The folder of its sources.
    pub folder: PathBuf,
    /// The crates that it needs.
    pub needs: BTreeSet<Id>,
}

impl Crate {
    /// Whether it is a crate of this repository.
    pub const fn is_own(&self) -> bool {
        self.checksum.is_none()
    }
}

/// All crates that are linked into the programs.
#[derive(Clone, Debug)]
pub struct Linked {
    /// By name and version.
    pub crates: BTreeMap<Id, Crate>,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    version: String,
    license: Option<String>,
    repository: Option<String>,
    source: Option<String>,
    manifest_path: PathBuf,
}

impl Linked {
    /// Asks cargo for those of the programs of this repository, for these processors.
    ///
    /// # Errors
    /// Cargo fails, or a crate does not say its licence.
    pub fn find(root: &Path, targets: &[Target]) -> anyhow::Result<Self> {
        let mut arguments = vec!["tree", "--locked", "--edges=normal", "--prefix=depth", "--format=|{p}"];
        arguments.extend(PROGRAMS.iter().flat_map(|name| ["--package", name]));
        arguments.extend(targets.iter().flat_map(|target| ["--target", target.triple()]));
        let needs = needs(&cargo(root, &arguments)?)?;
        let metadata: Metadata =
            serde_json::from_str(&cargo(root, &["metadata", "--locked", "--format-version=1"])?)
                .context("cannot read what `cargo metadata` says")?;
        let lock = root.join("Cargo.lock");
        let lock =
            std::fs::read_to_string(&lock).with_context(|| format!("cannot read {}", lock.display()))?;
        let checksums = checksums(&lock);
        let mut packages: BTreeMap<Id, Package> = metadata
            .packages
            .into_iter()
            .map(|package| (Id { name: package.name.clone(), version: package.version.clone() }, package))
            .collect();
        let mut crates = BTreeMap::new();
        for (id, needs) in needs {
            let found = format!("{} {}", id.name, id.version);
            let package =
                packages.remove(&id).with_context(|| format!("`cargo metadata` does not know {found}"))?;
            let checksum = checksums.get(&id).cloned();
            ensure!(
                checksum.is_some() == package.source.is_some(),
                "Cargo.lock has no checksum of {found}: use crates of a registry, or of this repository"
            );
            let licence = package.license.with_context(|| format!("{found} does not say its licence"))?;
            let folder = package.manifest_path.parent().context("a manifest is in a folder")?.to_path_buf();
            let repository = package.repository;
            let one =
                Crate { id: id.clone(), licence: expression(&licence), repository, checksum, folder, needs };
            crates.insert(id, one);
        }
        Ok(Self { crates })
    }
}

fn cargo(root: &Path, arguments: &[&str]) -> anyhow::Result<String> {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(program).args(arguments).current_dir(root).stdin(Stdio::null()).output();
    let output = output.context("cannot run cargo")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "`cargo {}` ended with {}: {}",
        arguments.join(" "),
        output.status,
        said.trim()
    );
    String::from_utf8(output.stdout).context("cargo says what is no text")
}

/// What each crate of `cargo tree --prefix=depth` needs. A subtree that was shown before is left out there, but not its root.
fn needs(tree: &str) -> anyhow::Result<BTreeMap<Id, BTreeSet<Id>>> {
    let mut needs: BTreeMap<Id, BTreeSet<Id>> = BTreeMap::new();
    let mut above: Vec<Id> = Vec::new();
    for line in tree.lines().filter(|line| !line.is_empty()) {
        let parsed = line.split_once('|').and_then(|(depth, package)| {
            let mut words = package.split(' ');
            let (name, version) = (words.next()?, words.next()?.strip_prefix('v')?);
            Some((depth.parse::<usize>().ok()?, Id { name: name.to_owned(), version: version.to_owned() }))
        });
        let Some((depth, id)) = parsed else {
            bail!("`cargo tree` says {line:?}, and not DEPTH|NAME vVERSION")
        };
        above.truncate(depth);
        if let Some(parent) = above.last() {
            needs.entry(parent.clone()).or_default().insert(id.clone());
        }
        needs.entry(id.clone()).or_default();
        above.push(id);
    }
    ensure!(!needs.is_empty(), "`cargo tree` names no crate");
    Ok(needs)
}

/// Older crates write a slash between licences of which one may be chosen.
fn expression(licence: &str) -> String {
    licence.split('/').map(str::trim).collect::<Vec<_>>().join(" OR ")
}

/// The checksums of Cargo.lock.
fn checksums(lock: &str) -> BTreeMap<Id, String> {
    let field = |entry: &str, name: &str| {
        let line = entry.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" = "))?;
        Some(line.trim_matches('"').to_owned())
    };
    let of = |entry| {
        let id = Id { name: field(entry, "name")?, version: field(entry, "version")? };
        Some((id, field(entry, "checksum")?))
    };
    lock.split("[[package]]").filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use super::*;

    fn id(name: &str, version: &str) -> Id {
        Id { name: name.into(), version: version.into() }
    }

    #[test]
    fn what_a_crate_needs_stands_one_deeper_below_it_also_where_its_own_tree_was_shown_before() {
        let tree = "0|a v1.0.0 (/a)\n1|b v2.0.0\n2|c v3.0.0 (proc-macro)\n1|c v3.0.0 (proc-macro) (*)\n\n0|d v1.0.0 (/d)\n1|b v2.0.0 (*)\n";
        let needs = needs(tree).unwrap();
        let of = |name, version| needs[&id(name, version)].iter().cloned().collect::<Vec<_>>();
        assert_eq!(of("a", "1.0.0"), [id("b", "2.0.0"), id("c", "3.0.0")]);
        assert_eq!(of("b", "2.0.0"), [id("c", "3.0.0")]);
        assert_eq!(of("d", "1.0.0"), [id("b", "2.0.0")]);
        assert!(of("c", "3.0.0").is_empty());
    }

    #[test]
    fn a_tree_that_is_none_is_an_error() {
        for (tree, said) in [("", "names no crate"), ("a v1.0.0\n", "and not DEPTH|NAME vVERSION")] {
            let error = needs(tree).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn a_slash_between_licences_is_a_choice() {
        for (written, meant) in [
            ("MIT/Apache-2.0", "MIT OR Apache-2.0"),
            ("Apache-2.0 / MIT", "Apache-2.0 OR MIT"),
            ("ISC", "ISC"),
        ] {
            assert_eq!(expression(written), meant);
        }
    }

    #[test]
    fn cargo_lock_has_the_checksums_of_what_comes_from_a_registry() {
        let lock = "version = 4\n\n[[package]]\nname = \"own\"\nversion = \"0.1.0\"\n\n[[package]]\nname = \"b\"\nversion = \"2.0.0\"\nsource = \"registry\"\nchecksum = \"ab12\"\n";
        assert_eq!(checksums(lock), BTreeMap::from([(id("b", "2.0.0"), "ab12".to_owned())]));
    }
}
