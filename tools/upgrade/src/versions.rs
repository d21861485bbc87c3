//! Other versions of Headgate, built from their commits.
//!
//! Sources and builds are kept in `target/versions`, so that the second time takes seconds.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use headgate_harness::{headgate::program, root};

/// One version.
#[derive(Clone, Debug)]
pub struct Version {
    /// The given name of its commit.
    pub name: String,
    /// Its program.
    pub program: PathBuf,
    /// Its sources with manifests and CRDs.
    pub source: PathBuf,
}

impl Version {
    /// The present version, already built.
    pub fn present() -> Self {
        Self { name: "this version".into(), program: program(), source: root().to_owned() }
    }

    /// Builds the program of a commit.
    ///
    /// # Errors
    /// A sentence: the commit does not exist, or cannot be built.
    pub fn build(commit: &str) -> Result<Self, String> {
        let here = Self::present().source;
        let id = said(
            Command::new("git")
                .current_dir(&here)
                .args(["rev-parse", "--short=10", "--verify"])
                .arg(format!("{commit}^{{commit}}")),
        )
        .map_err(|error| {
            format!(
                "there is no commit {commit}: {error}; name one of this repository (make upgrade FROM=COMMIT)"
            )
        })?;
        let folder = here.join("target/versions").join(id.trim());
        let source = folder.join("source");
        if !source.join("Cargo.toml").is_file() {
            unpack(&here, id.trim(), &source)?;
        }
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
        eprintln!("building {commit} in {}; the first time takes minutes", folder.display());
        let built = Command::new(cargo)
            .current_dir(&source)
            .args(["build", "--locked", "--bin", "headgate"])
            .env("CARGO_TARGET_DIR", folder.join("target"))
            .status()
            .map_err(|error| format!("cargo cannot be run: {error}"))?;
        if !built.success() {
            return Err(format!("{commit} cannot be built; install what its CONTRIBUTING.md lists"));
        }
        let program = folder.join("target/debug/headgate");
        Ok(Self { name: commit.to_owned(), program, source })
    }

    /// The further flags of `run` if several replicas share an address: free ports for the servers of this version.
    pub fn free_ports(&self) -> &'static [&'static str] {
        let help = said(Command::new(&self.program).args(["run", "--help"])).unwrap();
        if help.contains("--debug-address") { &["--debug-address=127.0.0.1:0"] } else { &[] }
    }

    /// The text of one of its files.
    pub fn file(&self, path: &str) -> String {
        let path = self.source.join(path);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }
}

/// Unpacks the files of a commit into a folder, which exists only when it is complete.
fn unpack(here: &Path, id: &str, source: &Path) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("the sources of {id} cannot be written: {error}");
    let partly = source.with_extension("partly");
    let _ = fs::remove_dir_all(&partly);
    fs::create_dir_all(&partly).map_err(failed)?;
    let mut archive = Command::new("git")
        .current_dir(here)
        .args(["archive", "--format=tar", id])
        .stdout(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let tar = archive.stdout.take().ok_or("git gives no output")?;
    said(Command::new("tar").arg("-x").arg("-C").arg(&partly).stdin(tar))?;
    if !archive.wait().map_err(failed)?.success() {
        return Err(format!("git archive of {id} has failed"));
    }
    fs::rename(&partly, source).map_err(failed)
}

fn said(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| error.to_string())?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
    }
}
