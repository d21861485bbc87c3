//! Unpacks Debian packages without installation, for programs that a test or an image needs. The versions come from the
//! machine's package sources. The cache keeps the unpacked packages.
//!
//! The module downloads packages, so the caller must be outside of a cluster's network.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::Stdio,
};

use tokio::process::Command;

use crate::cache::{Cache, CacheError, FileLock};

/// Returns the folder with a package and the packages of `more`. Unpacks the packages first if necessary. `report`
/// receives a sentence before a long step.
///
/// # Errors
/// A package cannot be downloaded or unpacked.
pub async fn unpacked(package: &str, more: &[&str], report: &dyn Fn(&str)) -> Result<PathBuf, DebianError> {
    unpacked_in(&Cache::from_environment()?.images(), package, more, report).await
}

/// Returns the folder with the packages and all dependencies that this machine lacks. `None`: the packages are
/// installed.
///
/// # Errors
/// The dependencies are unknown, or a package cannot be downloaded or unpacked.
pub async fn unpacked_with_needs(
    packages: &[&str],
    report: &dyn Fn(&str),
) -> Result<Option<PathBuf>, DebianError> {
    let Some(first) = packages.first() else { return Ok(None) };
    let folder = Cache::from_environment()?.images().join(format!("debian-{first}"));
    if folder.is_dir() {
        return Ok(Some(folder));
    }
    let mut simulate =
        vec!["install", "--simulate", "--no-install-recommends", "--option=Debug::NoLocking=1"];
    simulate.extend(packages);
    let here = Path::new(".");
    let said = if let Ok(said) = run(here, "apt-get", &simulate).await {
        said
    } else {
        // A new machine has no package lists.
        run(here, "apt-get", &["update", "-qq"]).await?;
        run(here, "apt-get", &simulate).await?
    };
    let missing: Vec<&str> = to_be_installed(&said).filter(|name| name != first).collect();
    if !to_be_installed(&said).any(|name| name == *first) {
        return Ok(None);
    }
    unpacked(first, &missing, report).await.map(Some)
}

/// Returns the packages that `apt-get install --simulate` would install.
fn to_be_installed(said: &str) -> impl Iterator<Item = &str> {
    said.lines().filter_map(|line| line.strip_prefix("Inst ")?.split(' ').next())
}

/// Returns the folders of the libraries in an unpacked package, for `LD_LIBRARY_PATH`.
pub fn libraries(folder: &Path) -> String {
    let own = |of: &str| folder.join(of).join(format!("{}-linux-gnu", std::env::consts::ARCH));
    let all = [own("usr/lib"), own("usr/lib").join("pulseaudio"), own("lib")];
    all.map(|folder| folder.display().to_string()).join(":")
}

/// Returns the folder with a package and the packages of `more`, in the folder `builds`. Unpacks the packages first if
/// necessary.
pub(crate) async fn unpacked_in(
    builds: &Path,
    package: &str,
    more: &[&str],
    report: &dyn Fn(&str),
) -> Result<PathBuf, DebianError> {
    let folder = builds.join(format!("debian-{package}"));
    if folder.is_dir() {
        return Ok(folder);
    }
    fs::create_dir_all(builds).map_err(DebianError::at(builds))?;
    let _lock = loop {
        if let Some(lock) = FileLock::try_take(&builds.join("debian.lock"))? {
            break lock;
        }
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    };
    if !folder.is_dir() {
        report(&format!("Fetching the Debian package {package}, once; it is not installed."));
        let unfinished = builds.join(format!("unpacking-{package}"));
        let _ = fs::remove_dir_all(&unfinished);
        fs::create_dir_all(&unfinished).map_err(DebianError::at(&unfinished))?;
        unpack(&unfinished, package, more).await?;
        fs::rename(&unfinished, &folder).map_err(DebianError::at(&folder))?;
    }
    Ok(folder)
}

async fn unpack(folder: &Path, package: &str, more: &[&str]) -> Result<(), DebianError> {
    let mut download = vec!["download", package];
    download.extend(more);
    if run(folder, "apt-get", &download).await.is_err() {
        // A new machine has no package lists.
        run(folder, "apt-get", &["update", "-qq"]).await?;
        run(folder, "apt-get", &download).await?;
    }
    let packages = fs::read_dir(folder).map_err(DebianError::at(folder))?;
    let packages: Vec<PathBuf> = packages.filter_map(|entry| Some(entry.ok()?.path())).collect();
    for package in packages.iter().filter(|path| path.extension().is_some_and(|is| is == "deb")) {
        run(folder, "dpkg-deb", &["-x", &package.to_string_lossy(), "."]).await?;
        fs::remove_file(package).map_err(DebianError::at(package))?;
    }
    Ok(())
}

async fn run(folder: &Path, program: &str, arguments: &[&str]) -> Result<String, DebianError> {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(folder).env("LC_ALL", "C").stdin(Stdio::null());
    let output = command.output().await.map_err(DebianError::at(program))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(DebianError::Failed(format!("{program} {}", arguments.join(" ")), said))
}

/// The reason why a package is not available.
#[derive(Debug, thiserror::Error)]
pub enum DebianError {
    /// The cache cannot be used.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// A program failed.
    #[error("`{0}` failed: {1}; expected a Debian whose package sources can be reached")]
    Failed(String, String),
    /// A file or a program cannot be used.
    #[error("cannot use {path}: {source}; expected a Debian with apt-get and dpkg-deb", path = path.display())]
    Io {
        /// The path of the file or program.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}

impl DebianError {
    fn at(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { path, source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::scratch_folder;

    #[test]
    fn what_a_package_lacks_is_what_apt_would_install() {
        let said = "Reading package lists...\nInst libopus0 (1.3.1 Debian [amd64])\nInst chromium (156 Debian)\nConf chromium (156)\n";
        assert_eq!(to_be_installed(said).collect::<Vec<_>>(), ["libopus0", "chromium"]);
    }

    #[tokio::test]
    async fn what_fails_is_named_with_what_it_said() {
        let folder = scratch_folder();
        let error = run(folder.path(), "dpkg-deb", &["-x", "absent.deb", "."]).await.unwrap_err().to_string();
        assert!(
            error.starts_with("`dpkg-deb -x absent.deb .` failed: ") && error.contains("absent.deb"),
            "{error}"
        );
        let error = run(folder.path(), "no-such-program", &[]).await.unwrap_err().to_string();
        assert!(error.contains("no-such-program") && error.contains("expected a Debian"), "{error}");
    }
}
