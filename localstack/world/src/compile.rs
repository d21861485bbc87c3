//! Builds Go programs from sources that this program contains, once per version.
//!
//! A build takes a lock, writes the sources to a folder, runs `go build`, and renames the folder. The rename makes the
//! result visible. If a step fails or the process exits, no result is visible, and the next build removes the
//! unfinished folder. The same sources are never built twice.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::Stdio,
    time::{Duration, Instant},
};

use localstack_nodes::image::hex;
use sha2::{Digest, Sha256};

use crate::{
    cache::{CacheError, FileLock},
    plan::CommandLine,
    reexec, tail,
};

/// The interval of progress reports during a long build.
const PROGRESS: Duration = Duration::from_secs(15);

/// The prefix of the names of unfinished builds' folders.
const UNFINISHED: &str = "unfinished-";

/// The description of a build.
#[derive(Clone, Debug)]
pub(crate) struct Build {
    /// The name in messages, such as `Kubernetes v1.36.3`.
    pub(crate) what: String,
    /// The expected duration, in the form of the end of a sentence.
    pub(crate) estimate: &'static str,
    /// The approximate number of packages that Go compiles. `None`: the build is short and reports no progress.
    pub(crate) packages: Option<usize>,
    /// The prefix of the result folder's name.
    pub(crate) label: String,
    /// The sources, as pairs of path and content.
    pub(crate) sources: &'static [(&'static str, &'static str)],
    /// The arguments of `go`. The output must be in the folder `..`.
    pub(crate) arguments: Vec<String>,
}

impl Build {
    /// Returns the folder with the result in `builds`. Builds the program first if the folder does not exist. `report`
    /// receives a sentence before and after a long step.
    pub(crate) async fn folder(&self, builds: &Path, report: &dyn Fn(&str)) -> Result<PathBuf, CompileError> {
        let finished = builds.join(self.key());
        if finished.is_dir() {
            return Ok(finished);
        }
        let _lock = self.wait_for_lock(&builds.join("build.lock"), report).await?;
        // Another local cluster may have completed the build while this cluster waited.
        if !finished.is_dir() {
            self.compile(builds, report).await?;
        }
        Ok(finished)
    }

    /// Returns the name of the result folder. Different sources result in different names.
    pub(crate) fn key(&self) -> String {
        key_of(&self.label, self.sources)
    }

    async fn wait_for_lock(&self, path: &Path, report: &dyn Fn(&str)) -> Result<FileLock, CompileError> {
        let mut told = false;
        loop {
            if let Some(lock) = FileLock::try_take(path)? {
                return Ok(lock);
            }
            if !told {
                report(&format!("Another world is building {} at this moment; waiting for it.", self.what));
                told = true;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    async fn compile(&self, builds: &Path, report: &dyn Fn(&str)) -> Result<(), CompileError> {
        let go = find_go(std::env::var_os("PATH").as_deref(), Path::new("/usr/local/go/bin/go"))
            .ok_or_else(|| CompileError::NoGo(self.what.clone()))?;
        let key = self.key();
        let log = builds.join(format!("{key}.log"));
        let unfinished = builds.join(format!("{UNFINISHED}{key}"));
        let at = |path: &Path| {
            let path = path.to_path_buf();
            move |source| CompileError::Io { path, source }
        };

        remove_leftovers(builds, UNFINISHED).map_err(at(builds))?;
        let _remains = Remains(unfinished.clone());
        let (sources, scratch) = (unfinished.join("source"), unfinished.join("scratch"));
        fs::create_dir_all(&scratch).map_err(at(&scratch))?;
        for (name, content) in self.sources {
            let path = sources.join(name);
            let folder = path.parent().unwrap_or(&sources);
            fs::create_dir_all(folder).map_err(at(folder))?;
            fs::write(&path, content).map_err(at(&path))?;
        }

        let (what, estimate) = (&self.what, self.estimate);
        report(&format!("Building {what}, once: {estimate}. Output: {}", log.display()));
        let begin = Instant::now();
        let status = self.run_go(&go, &sources, &scratch, &log, report).await.map_err(at(&log))?;
        if !status.success() {
            let (what, status) = (what.clone(), status.to_string());
            return Err(CompileError::Failed { what, status, tail: tail::tail(&log), log });
        }
        // Only the executable is kept, because this program contains the sources.
        for folder in [&sources, &scratch] {
            fs::remove_dir_all(folder).map_err(at(folder))?;
        }
        let finished = builds.join(key);
        fs::rename(&unfinished, &finished).map_err(at(&finished))?;
        report(&format!("Built {what} in {} s.", begin.elapsed().as_secs()));
        Ok(())
    }

    async fn run_go(
        &self,
        go: &Path,
        sources: &Path,
        scratch: &Path,
        log: &Path,
        report: &dyn Fn(&str),
    ) -> io::Result<std::process::ExitStatus> {
        let output = fs::File::create(log)?;
        let mut arguments = self.arguments.clone();
        // With this flag, Go prints the name of each package that it compiles.
        arguments.insert(1, "-v".to_owned());
        let command = CommandLine { program: go.to_path_buf(), arguments };
        let mut child = reexec::dependent(&command)
            .current_dir(sources)
            .env("CGO_ENABLED", "0")
            // Go does not use /tmp, so that files of a killed compiler can be found and removed.
            .env("GOTMPDIR", scratch)
            // The module must not use a workspace of the caller.
            .env("GOWORK", "off")
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .kill_on_drop(true)
            .spawn()?;
        let Some(packages) = self.packages else { return child.wait().await };
        let begin = Instant::now();
        loop {
            if let Ok(status) = tokio::time::timeout(PROGRESS, child.wait()).await {
                return status;
            }
            let lines = fs::read_to_string(log).unwrap_or_default();
            let compiled = lines.lines().filter(|line| !line.starts_with("go: ")).count();
            report(&format!("{}: {}", self.what, progress(compiled, packages, begin.elapsed())));
        }
    }
}

/// Describes the progress of a build after this time, in the form of the end of a sentence.
fn progress(compiled: usize, packages: usize, elapsed: Duration) -> String {
    if compiled == 0 {
        return "downloading modules.".to_owned();
    }
    let percent = (compiled * 100 / packages.max(1)).min(99);
    // The first packages do not show the speed of the machine.
    if percent < 10 {
        return format!("{percent} % compiled.");
    }
    let left = elapsed.as_secs() * (100 - percent as u64) / percent as u64;
    format!(
        "{percent} % compiled, about {} left.",
        if left < 90 { format!("{left} s") } else { format!("{} min", left.div_ceil(60)) }
    )
}

fn key_of(label: &str, sources: &[(&str, &str)]) -> String {
    let mut hash = Sha256::new();
    for (name, content) in sources {
        // The lengths distinguish ("ab", "c") from ("a", "bc").
        for part in [name, content] {
            hash.update(part.len().to_le_bytes());
            hash.update(part.as_bytes());
        }
    }
    format!("{label}-{}", hex(&hash.finalize()[..6]))
}

/// Removes the folders of interrupted builds. The caller must hold the build lock.
fn remove_leftovers(builds: &Path, prefix: &str) -> io::Result<()> {
    for entry in fs::read_dir(builds)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(prefix) {
            fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}

/// The folder of a build. A drop removes the folder, which has no effect after a successful build.
struct Remains(PathBuf);

impl Drop for Remains {
    fn drop(&mut self) {
        // A compiler that is exiting may still write files. The next build removes such files.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn find_go(path: Option<&std::ffi::OsStr>, usual: &Path) -> Option<PathBuf> {
    let in_path = path.map(std::env::split_paths).into_iter().flatten().map(|folder| folder.join("go"));
    in_path.chain([usual.to_path_buf()]).find(|candidate| candidate.is_file())
}

/// The reason why a Go program could not be built.
#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    /// The cache cannot be used.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// `go` was not found.
    #[error(
        "{0} has to be built once, and there is no `go` in PATH nor in /usr/local/go/bin: install Go \
         1.26 or newer from https://go.dev/dl or from your distribution, or set KUBEBUILDER_ASSETS to a \
         folder with etcd, kube-apiserver, kube-controller-manager, kube-scheduler and kubectl"
    )]
    NoGo(String),
    /// Go exited with an error.
    #[error("building {what} failed ({status}); the whole output is in {log}; it ends with:\n{tail}", log = log.display())]
    Failed {
        /// The name of the build.
        what: String,
        /// The exit status of `go`.
        status: String,
        /// The file with the complete output.
        log: PathBuf,
        /// The last lines of the output.
        tail: String,
    },
    /// A file or folder of the build cannot be used.
    #[error("cannot use {path} to build a program: {source}", path = path.display())]
    Io {
        /// The path of the file or folder.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::scratch_folder;

    #[test]
    fn go_is_found_in_path_first_and_then_where_its_installer_puts_it() {
        let (first, second) = (scratch_folder(), scratch_folder());
        let usual = second.path().join("go");
        let path = std::env::join_paths([Path::new("/nowhere"), first.path()]).unwrap();
        assert_eq!(find_go(Some(&path), &usual), None);
        fs::write(&usual, "").unwrap();
        assert_eq!(find_go(Some(&path), &usual), Some(usual.clone()));
        fs::write(first.path().join("go"), "").unwrap();
        assert_eq!(find_go(Some(&path), &usual), Some(first.path().join("go")));
    }

    #[test]
    fn a_machine_without_go_is_told_what_to_install() {
        let text = CompileError::NoGo("Kubernetes v1.36.3".to_owned()).to_string();
        for expected in ["Go 1.26 or newer", "https://go.dev/dl", "KUBEBUILDER_ASSETS"] {
            assert!(text.contains(expected), "{text}");
        }
    }

    #[test]
    fn progress_names_the_time_left_once_it_can_be_estimated() {
        let after = Duration::from_secs;
        assert_eq!(progress(0, 2_800, after(15)), "downloading modules.");
        assert_eq!(progress(28, 2_800, after(15)), "1 % compiled.");
        assert_eq!(progress(700, 2_800, after(60)), "25 % compiled, about 3 min left.");
        assert_eq!(progress(2_100, 2_800, after(180)), "75 % compiled, about 60 s left.");
        // Another version of Go may compile more packages.
        assert_eq!(progress(3_000, 2_800, after(300)), "99 % compiled, about 3 s left.");
    }

    #[test]
    fn a_build_is_kept_under_its_version_and_the_hash_of_every_source() {
        let sources = [("go.mod", "a"), ("main.go", "b")];
        let original = key_of("v1.2.3", &sources);
        assert!(original.starts_with("v1.2.3-"), "{original}");
        assert_eq!(original, key_of("v1.2.3", &sources));
        assert_ne!(original, key_of("v1.2.4", &sources));
        assert_ne!(original, key_of("v1.2.3", &[("go.mod", "a"), ("main.go", "c")]));
        assert_ne!(original, key_of("v1.2.3", &[("go.mod", "ab"), ("main.go", "")]));
    }
}
