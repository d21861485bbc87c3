//! Compiles Kubernetes from its published Go modules.
//!
//! Owns one build: sources into a folder of its own, `go build`, and the rename that makes the
//! result visible. If anything fails or the process dies, nothing is visible, and the next build
//! removes the remains. Its caller holds the build lock.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::Stdio,
    time::Instant,
};

use crate::{
    kubernetes::{SOURCES, remove_leftovers},
    plan::CommandLine,
    reexec, tail,
};

/// How the folders of unfinished builds begin.
const UNFINISHED: &str = "unfinished-";

/// Builds into `builds/key/kubernetes`.
pub(crate) async fn compile(
    builds: &Path,
    key: &str,
    version: &str,
    report: &dyn Fn(&str),
) -> Result<(), CompileError> {
    let go = find_go(std::env::var_os("PATH").as_deref(), Path::new("/usr/local/go/bin/go"))
        .ok_or(CompileError::NoGo)?;
    let log = builds.join(format!("{key}.log"));
    let unfinished = builds.join(format!("{UNFINISHED}{key}"));
    let at = |path: &Path| {
        let path = path.to_path_buf();
        move |source| CompileError::Io { path, source }
    };

    remove_leftovers(builds, UNFINISHED).map_err(at(builds))?;
    let _remains = Remains(unfinished.clone());
    let (sources, scratch) = (unfinished.join("source"), unfinished.join("scratch"));
    for folder in [&sources, &scratch] {
        fs::create_dir_all(folder).map_err(at(folder))?;
    }
    for (name, content) in SOURCES {
        fs::write(sources.join(name), content).map_err(at(&sources))?;
    }

    report(&format!(
        "Building Kubernetes {version}, once: about five minutes on two cores, half a minute if Go still has \
         its own cache. Output: {}",
        log.display()
    ));
    let begin = Instant::now();
    let status = run_go(&go, &sources, &scratch, version, &log).await.map_err(at(&log))?;
    if !status.success() {
        return Err(CompileError::Failed { status: status.to_string(), tail: tail::tail(&log), log });
    }
    // What is kept is the executable alone: the sources are in this program.
    for folder in [&sources, &scratch] {
        fs::remove_dir_all(folder).map_err(at(folder))?;
    }
    let finished = builds.join(key);
    fs::rename(&unfinished, &finished).map_err(at(&finished))?;
    report(&format!("Built Kubernetes {version} in {} s.", begin.elapsed().as_secs()));
    Ok(())
}

async fn run_go(
    go: &Path,
    sources: &Path,
    scratch: &Path,
    version: &str,
    log: &Path,
) -> io::Result<std::process::ExitStatus> {
    let output = fs::File::create(log)?;
    let command = CommandLine { program: go.to_path_buf(), arguments: go_arguments(version) };
    let mut child = reexec::dependent(&command)
        .current_dir(sources)
        .env("CGO_ENABLED", "0")
        // Not /tmp: what a killed compiler leaves is to be found and removed.
        .env("GOTMPDIR", scratch)
        // Whatever workspace the caller is in does not concern this module.
        .env("GOWORK", "off")
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output)
        .kill_on_drop(true)
        .spawn()?;
    child.wait().await
}

/// The folder of a build, removed when the build is given up. A no-op after a success.
struct Remains(PathBuf);

impl Drop for Remains {
    fn drop(&mut self) {
        // A compiler that is just dying may still write; the next build removes what is left.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn go_arguments(version: &str) -> Vec<String> {
    let package = "k8s.io/component-base/version";
    let mut numbers = version.trim_start_matches('v').split('.');
    let (major, minor) = (numbers.next().unwrap_or("1"), numbers.next().unwrap_or("0"));
    // Without a version kubectl complains, and the API server reports v0.0.0.
    let link = format!(
        "-s -w -X {package}.gitVersion={version} -X {package}.gitMajor={major} -X {package}.gitMinor={minor}"
    );
    let fixed = ["build", "-mod=readonly", "-trimpath", "-buildvcs=false", "-o", "../kubernetes", "-ldflags"];
    fixed.into_iter().map(str::to_owned).chain([link, ".".to_owned()]).collect()
}

fn find_go(path: Option<&std::ffi::OsStr>, usual: &Path) -> Option<PathBuf> {
    let in_path = path.map(std::env::split_paths).into_iter().flatten().map(|folder| folder.join("go"));
    in_path.chain([usual.to_path_buf()]).find(|candidate| candidate.is_file())
}

/// Why Kubernetes could not be built.
#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    /// There is no Go.
    #[error(
        "Kubernetes has to be built once, and there is no `go` in PATH nor in /usr/local/go/bin: install Go \
         1.26 or newer from https://go.dev/dl or from your distribution, or set KUBEBUILDER_ASSETS to a \
         folder with etcd, kube-apiserver, kube-controller-manager, kube-scheduler and kubectl"
    )]
    NoGo,
    /// Go ended with an error.
    #[error("building Kubernetes failed ({status}); the whole output is in {log}; it ends with:\n{tail}", log = log.display())]
    Failed {
        /// How `go` ended.
        status: String,
        /// The whole output.
        log: PathBuf,
        /// Its last lines.
        tail: String,
    },
    /// A file or folder of the build cannot be used.
    #[error("cannot use {path} to build Kubernetes: {source}", path = path.display())]
    Io {
        /// What could not be used.
        path: PathBuf,
        /// What the system said.
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
        let text = CompileError::NoGo.to_string();
        for expected in ["Go 1.26 or newer", "https://go.dev/dl", "KUBEBUILDER_ASSETS"] {
            assert!(text.contains(expected), "{text}");
        }
    }

    #[test]
    fn the_programs_are_told_their_version() {
        let link = go_arguments("v1.36.3").into_iter().find(|argument| argument.contains("-X")).unwrap();
        assert!(link.contains("gitVersion=v1.36.3"), "{link}");
        assert!(link.contains("gitMajor=1") && link.contains("gitMinor=36"), "{link}");
    }
}
