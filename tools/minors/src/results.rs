//! What was seen of each minor: one JSON file for each, in docs/kubernetes-versions.
//!
//! Owns the format. A file is only written when all chosen tests were run.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use localstack_world::Minor;
use serde::{Deserialize, Serialize};

/// What was seen of a minor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Seen {
    /// Which minor.
    pub minor: Minor,
    /// The exact version that was run, such as `v1.34.9`.
    pub version: String,
    /// The commit of Headgate, with a `+` if files had been changed since.
    pub headgate: String,
    /// How many tests passed.
    pub passed: usize,
    /// Those among them that passed only when they were run again, alone.
    pub at_second_try: Vec<String>,
    /// The tests that failed twice.
    pub failed: Vec<String>,
    /// What was not run.
    pub left_out: Vec<LeftOut>,
}

/// Tests that were not run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LeftOut {
    /// How many.
    pub tests: usize,
    /// Why, as the rest of a sentence that begins with their number.
    pub why: String,
}

/// The folder of the files.
pub fn folder(root: &Path) -> PathBuf {
    root.join("docs/kubernetes-versions")
}

impl Seen {
    /// The file of a minor.
    pub fn path(root: &Path, minor: Minor) -> PathBuf {
        folder(root).join(format!("{minor}.json"))
    }

    /// What was seen of a minor; `None` if nobody has looked.
    ///
    /// # Errors
    /// The file is there and cannot be read.
    pub fn read(root: &Path, minor: Minor) -> io::Result<Option<Self>> {
        let path = Self::path(root, minor);
        match fs::read(&path) {
            Ok(text) => Ok(Some(serde_json::from_slice(&text).map_err(|error| {
                io::Error::other(format!("{}: {error}; make it again with make e2e", path.display()))
            })?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes the file of its minor, and says which one.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, root: &Path) -> io::Result<PathBuf> {
        let path = Self::path(root, self.minor);
        fs::create_dir_all(folder(root))?;
        fs::write(&path, serde_json::to_string_pretty(self)? + "\n")?;
        Ok(path)
    }

    /// Whether all that was run has passed.
    pub fn is_good(&self) -> bool {
        self.passed > 0 && self.failed.is_empty()
    }
}
