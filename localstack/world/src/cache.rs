//! The paths of the cache on disk, and the locks that show which processes use the cache.
//!
//! The module contains the paths inside the cache folder, and creates nothing outside of this folder. The holder of a
//! cluster's lock owns the folder of the cluster. When the holder exits in any way, the kernel releases the lock.

use std::{
    fs::{self, File, TryLockError},
    io,
    path::{Path, PathBuf},
    str::FromStr,
};

use serde::{Deserialize, Serialize};

/// The cache folder: `$HEADGATE_CACHE`, `$XDG_CACHE_HOME/headgate` or `~/.cache/headgate`. The first variable that is
/// set determines the folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    root: PathBuf,
}

impl Cache {
    /// Returns the cache in the folder that the environment determines.
    pub fn from_environment() -> Result<Self, CacheError> {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let root = variable("HEADGATE_CACHE")
            .or_else(|| variable("XDG_CACHE_HOME").map(|folder| folder.join("headgate")))
            .or_else(|| variable("HOME").map(|home| home.join(".cache/headgate")))
            .ok_or(CacheError::NoHome)?;
        Self::at(&root)
    }

    /// Returns the cache in this folder. The path must be UTF-8, because command lines and JSON contain the path.
    pub fn at(root: &Path) -> Result<Self, CacheError> {
        let absolute = std::path::absolute(root)
            .map_err(|source| CacheError::Io { path: root.to_path_buf(), source })?;
        if absolute.to_str().is_none() {
            return Err(CacheError::NotUtf8(absolute));
        }
        Ok(Self { root: absolute })
    }

    /// Returns the path of the cache folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the folder for the builds of Kubernetes. Each version and source has its own subfolder.
    pub fn kubernetes(&self) -> PathBuf {
        self.root.join("kubernetes")
    }

    /// Returns the folder for the builds of programs in images of real nodes.
    pub fn images(&self) -> PathBuf {
        self.root.join("images")
    }

    /// Returns the folder for the builds of programs that tests use.
    pub fn tools(&self) -> PathBuf {
        self.root.join("tools")
    }

    /// Returns the folder of all local clusters.
    pub fn worlds(&self) -> PathBuf {
        self.root.join("worlds")
    }

    /// Returns the folder of one local cluster. The folder exists while the cluster is up.
    pub fn world(&self, name: &WorldName) -> PathBuf {
        self.worlds().join(name.as_str())
    }

    /// Returns the folder for the logs of the last failed start.
    pub fn failed_logs(&self, name: &WorldName) -> PathBuf {
        self.root.join("failed").join(name.as_str())
    }

    /// Takes the lock of a local cluster. `None`: another process holds the lock, which means that the cluster is up.
    pub fn lock_world(&self, name: &WorldName) -> Result<Option<FileLock>, CacheError> {
        FileLock::try_take(&self.root.join("locks").join(format!("world-{name}.lock")))
    }
}

/// The reason why the cache cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// No environment variable determines the cache folder.
    #[error("no place for the cache: set HEADGATE_CACHE, XDG_CACHE_HOME or HOME to a folder")]
    NoHome,
    /// Command lines and JSON cannot contain the path of the cache folder.
    #[error("the cache folder {0:?} is not valid UTF-8: set HEADGATE_CACHE to another folder")]
    NotUtf8(PathBuf),
    /// A file or folder of the cache cannot be used.
    #[error("cannot use {path} in the cache: {source}", path = path.display())]
    Io {
        /// The path of the file or folder.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}

/// The name of a local cluster: 1 to 40 characters of `a-z`, `0-9` and `-`. The characters are limited because the name
/// is also the name of a folder.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct WorldName(String);

impl WorldName {
    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for WorldName {
    fn default() -> Self {
        Self("default".to_owned())
    }
}

impl std::fmt::Display for WorldName {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl FromStr for WorldName {
    type Err = WorldNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if (1..=40).contains(&text.len()) && text.chars().all(allowed) {
            Ok(Self(text.to_owned()))
        } else {
            Err(WorldNameError(text.to_owned()))
        }
    }
}

impl TryFrom<String> for WorldName {
    type Error = WorldNameError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<WorldName> for String {
    fn from(name: WorldName) -> Self {
        name.0
    }
}

/// The text is not a valid name of a local cluster.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} cannot name a world: use 1 to 40 of a-z, 0-9 and -")]
pub struct WorldNameError(String);

/// An exclusive lock on a file. The lock is held until it is dropped or the process exits. The file is never deleted,
/// because two processes could then hold locks on two different files with the same name.
#[derive(Debug)]
pub struct FileLock {
    _file: File,
}

impl FileLock {
    /// Takes the lock. `None`: another process holds the lock.
    pub fn try_take(path: &Path) -> Result<Option<Self>, CacheError> {
        let file = open_lock(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self { _file: file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(source)) => Err(CacheError::Io { path: path.to_path_buf(), source }),
        }
    }
}

fn open_lock(path: &Path) -> Result<File, CacheError> {
    let opened = || {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        File::options().create(true).truncate(false).write(true).open(path)
    };
    opened().map_err(|source| CacheError::Io { path: path.to_path_buf(), source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::scratch_folder;

    #[test]
    fn a_world_is_named_only_by_what_can_name_a_folder() {
        for good in ["default", "a", "test-12-3"] {
            assert_eq!(good.parse::<WorldName>().unwrap().as_str(), good);
        }
        for bad in ["", "..", "a/b", "Upper", "with space", &"x".repeat(41)] {
            let error = bad.parse::<WorldName>().unwrap_err().to_string();
            assert!(error.contains("use 1 to 40 of a-z"), "{error}");
        }
    }

    #[test]
    fn a_lock_is_held_by_one_until_it_is_dropped() {
        let folder = scratch_folder();
        let path = folder.path().join("deep/down/x.lock");
        let held = FileLock::try_take(&path).unwrap();
        assert!(held.is_some());
        assert!(FileLock::try_take(&path).unwrap().is_none());
        drop(held);
        assert!(FileLock::try_take(&path).unwrap().is_some());
    }

    #[test]
    fn a_world_has_its_own_folder_and_lock() {
        let folder = scratch_folder();
        let cache = Cache::at(folder.path()).unwrap();
        let (one, two): (WorldName, WorldName) = ("one".parse().unwrap(), "two".parse().unwrap());
        let _held = cache.lock_world(&one).unwrap().unwrap();
        assert!(cache.lock_world(&one).unwrap().is_none());
        assert!(cache.lock_world(&two).unwrap().is_some());
        assert_ne!(cache.world(&one), cache.world(&two));
    }
}
